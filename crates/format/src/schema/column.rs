//! A column: how its values are stored, and how it is declared.

use super::{SqlType, charset};

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Its number among the table's columns, as counted by the server, from 1.
    pub ordinal: u32,
    /// Collation number; 63 for non-text.
    pub collation: u16,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// UNSIGNED, for numbers. Integers have it in their type too.
    pub unsigned: bool,
    /// ZEROFILL, for numbers.
    pub zerofill: bool,
    /// Display width of numbers and temporals, bytes of strings, bits of BIT: the length in the server's dictionary.
    pub width: u32,
    /// Decimal digits of a FLOAT or DOUBLE that declares them, or of a DECIMAL.
    pub decimals: Option<u8>,
    /// Members of an ENUM or SET, in the column's charset.
    pub members: Vec<Vec<u8>>,
    /// The spatial reference system of a geometry column, if it has one.
    pub srid: Option<u32>,
    /// MariaDB's COMPRESSED: every value starts with a byte that gives its compression.
    pub compressed: bool,
    /// Generated and not stored: missing in the clustered index, though perhaps in secondary ones.
    pub is_virtual: bool,
    /// How its value is computed, if it is generated.
    pub generated: Option<Generated>,
    /// MySQL: the column has several values per row, each with its own index entry. It is virtual and hidden.
    pub is_array: bool,
    /// Its role in a system-versioned table of MariaDB.
    pub versioned: Versioned,
    /// Who sees it.
    pub visibility: Visibility,
    /// The value of rows that do not give one.
    pub default: ColumnDefault,
    /// The default as in the server's own rows: numbers little-endian, VARCHAR with its length. For a NULL or missing default, the type's
    /// default. Empty if the source lacks it. MySQL's `CHECKSUM TABLE` counts it for every NULL.
    pub default_image: Vec<u8>,
    /// `ON UPDATE CURRENT_TIMESTAMP`.
    pub on_update_now: bool,
    /// `AUTO_INCREMENT`.
    pub auto_increment: bool,
    /// MariaDB: the condition of its own `CHECK`, which may stand for the type JSON.
    pub check: Option<String>,
    /// Its comment.
    pub comment: String,
    /// MySQL 8.0 and later: the type as SQL text.
    pub declared_type: Option<String>,
    /// MySQL: whether the declaration names the collation although it is the table's.
    pub is_explicit_collation: bool,
    /// MySQL: `NOT SECONDARY`, not loaded into a secondary engine.
    pub not_secondary: bool,
    /// MySQL: `STORAGE` and `COLUMN_FORMAT`, which only NDB heeds, as the server prints them.
    pub ndb_options: String,
    /// MySQL 8.0.29 and later: the row version that added it; 0 if it was there from the start.
    pub added: u16,
    /// MySQL 8.0.29 and later: the row version that dropped it.
    pub dropped: Option<u16>,
    /// MySQL 8.0.29 and later: its position among the fields of the clustered index.
    pub physical_pos: Option<u32>,
    /// The value in rows written before the column was added.
    pub instant_default: Option<InstantDefault>,
}

impl ColumnDef {
    /// A NOT NULL, non-text column with nothing special.
    #[must_use]
    pub fn plain(name: &str, sql_type: SqlType) -> Self {
        Self {
            name: name.to_owned(),
            sql_type,
            ordinal: 0,
            collation: charset::BINARY,
            nullable: false,
            unsigned: matches!(sql_type, SqlType::Int { unsigned: true, .. }),
            zerofill: false,
            width: 0,
            decimals: None,
            members: Vec::new(),
            srid: None,
            compressed: false,
            is_virtual: false,
            generated: None,
            is_array: false,
            versioned: Versioned::No,
            visibility: Visibility::Visible,
            default: ColumnDefault::None,
            default_image: Vec::new(),
            on_update_now: false,
            auto_increment: false,
            check: None,
            comment: String::new(),
            declared_type: None,
            is_explicit_collation: false,
            not_secondary: false,
            ndb_options: String::new(),
            added: 0,
            dropped: None,
            physical_pos: None,
            instant_default: None,
        }
    }

    /// Whether the server fills it with the start or end of a row's validity.
    #[must_use]
    pub const fn versioned_by_server(&self) -> bool {
        matches!(self.versioned, Versioned::RowStart | Versioned::RowEnd)
    }

    /// Bytes of a value in the server's own row; `None` if the row has only a pointer to the value.
    #[must_use]
    pub fn image_len(&self) -> Option<usize> {
        // A length of one or two bytes precedes the value.
        let varchar = |len: u32| len.saturating_add(if len < 256 { 1 } else { 2 });
        let len = match self.sql_type {
            SqlType::Char(len) => u32::from(len),
            SqlType::Varchar(len) => varchar(len),
            SqlType::MariaDbVector(dimensions) => varchar(dimensions.checked_mul(4)?),
            sql_type => sql_type.fixed_bytes()?,
        };
        usize::try_from(len).ok()
    }

    /// MariaDB's JSON: text that a check constraint keeps valid. MySQL's is a type.
    #[must_use]
    pub fn is_json_text(&self) -> bool {
        let name = self.name.replace('`', "``");
        matches!(self.sql_type, SqlType::Blob(4))
            && self.check.as_deref().is_some_and(|check| check == format!("json_valid(`{name}`)"))
    }
}

/// How a generated column is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Whether rows store it.
    pub stored: bool,
    /// The expression; empty for hidden columns filled by the server.
    pub expression: String,
}

/// A column's role in system versioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versioned {
    /// None.
    No,
    /// `GENERATED ALWAYS AS ROW START`.
    RowStart,
    /// `GENERATED ALWAYS AS ROW END`.
    RowEnd,
    /// `WITHOUT SYSTEM VERSIONING`: changes to it leave no history.
    Without,
}

/// The value of rows that do not give one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnDefault {
    /// No default: a value must be given.
    None,
    /// NULL.
    Null,
    /// A literal, as text. Binary strings are in hexadecimal, after `0x`.
    Literal(String),
    /// A literal whose text is unknown: only [`ColumnDef::default_image`] has its bytes.
    Image,
    /// An expression; `CURRENT_TIMESTAMP` is one.
    Expression(String),
}

/// Who sees a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Everyone.
    Visible,
    /// Those who ask for it by name.
    Invisible,
    /// MySQL: no one. It is the value of a functional key part; the server reads and sums it like any other column.
    Functional,
    /// No one: it serves the engine, like FTS_DOC_ID, dropped columns and the hashes of long unique keys.
    Hidden,
}

/// The value of an instantly added column in rows written before it was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstantDefault {
    /// NULL.
    Null,
    /// These bytes, in the form that rows store.
    Bytes(Vec<u8>),
}
