//! A column: how its values are stored, and what its declaration says.

use super::{SqlType, charset};

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Its number among the table's columns as the server counts them, from 1.
    pub ordinal: u32,
    /// Number of its collation; 63 for what is no text.
    pub collation: u16,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// Numbers: without a sign. Integers have it in their type too.
    pub unsigned: bool,
    /// Numbers: padded with zeros to their width.
    pub zerofill: bool,
    /// Display width of numbers and temporals, bytes of strings, bits of BIT: the length as the server's dictionary keeps it.
    pub width: u32,
    /// Digits after the point of a FLOAT or DOUBLE that declares them, or of a DECIMAL.
    pub decimals: Option<u8>,
    /// Members of an ENUM or SET, in the charset of the column.
    pub members: Vec<Vec<u8>>,
    /// The spatial reference system of a geometry column that has one.
    pub srid: Option<u32>,
    /// MariaDB's COMPRESSED: every value begins with a byte that says how it is packed.
    pub compressed: bool,
    /// Generated and not stored: in no clustered index, though perhaps in secondary ones.
    pub is_virtual: bool,
    /// How its value is computed, if it is.
    pub generated: Option<Generated>,
    /// MySQL: several values for each row, of which an index has an entry each. The column itself is virtual and hidden.
    pub is_array: bool,
    /// What it is in a system-versioned table of MariaDB.
    pub versioned: Versioned,
    /// Who sees it.
    pub visibility: Visibility,
    /// What a row gets that names no value.
    pub default: ColumnDefault,
    /// The default as the server's rows hold it, little-endian numbers and lengths of VARCHAR included; of a NULL or missing
    /// default, that of the type. Empty where the source has none. MySQL's `CHECKSUM TABLE` counts it for every NULL.
    pub default_image: Vec<u8>,
    /// `ON UPDATE CURRENT_TIMESTAMP`.
    pub on_update_now: bool,
    /// `AUTO_INCREMENT`.
    pub auto_increment: bool,
    /// MariaDB: the condition of its own `CHECK`, which may have been the type JSON.
    pub check: Option<String>,
    /// Its comment.
    pub comment: String,
    /// MySQL 8.0 and later: the type as SQL text.
    pub declared_type: Option<String>,
    /// MySQL: the declaration names the collation, which the table has too.
    pub is_explicit_collation: bool,
    /// MySQL: `NOT SECONDARY`, not for another engine to load.
    pub not_secondary: bool,
    /// MySQL 8.0.29 and later: the row version that brought it; 0 = there from the beginning.
    pub added: u16,
    /// MySQL 8.0.29 and later: the row version that dropped it.
    pub dropped: Option<u16>,
    /// MySQL 8.0.29 and later: its place among the fields of the clustered index.
    pub physical_pos: Option<u32>,
    /// What rows have that were written before it came.
    pub instant_default: Option<InstantDefault>,
}

impl ColumnDef {
    /// A column that is NOT NULL, no text, and nothing special.
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
            added: 0,
            dropped: None,
            physical_pos: None,
            instant_default: None,
        }
    }

    /// Whether the server fills it with a row's start or end.
    #[must_use]
    pub const fn versioned_by_server(&self) -> bool {
        matches!(self.versioned, Versioned::RowStart | Versioned::RowEnd)
    }

    /// Bytes of a value in the server's own row; `None` where rows hold pointers.
    #[must_use]
    pub fn image_len(&self) -> Option<usize> {
        // A length of one or two bytes comes first.
        let varchar = |len: u32| len.saturating_add(if len < 256 { 1 } else { 2 });
        let len = match self.sql_type {
            SqlType::Char(len) => u32::from(len),
            SqlType::Varchar(len) => varchar(len),
            SqlType::MariaDbVector(dimensions) => varchar(dimensions.checked_mul(4)?),
            sql_type => sql_type.fixed_bytes()?,
        };
        usize::try_from(len).ok()
    }

    /// MariaDB's JSON: text that a check of its own keeps valid. MySQL's is a type.
    #[must_use]
    pub fn is_json_text(&self) -> bool {
        let name = self.name.replace('`', "``");
        matches!(self.sql_type, SqlType::Blob(4))
            && self.check.as_deref().is_some_and(|check| check == format!("json_valid(`{name}`)"))
    }
}

/// How the value of a generated column comes about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Whether rows hold it.
    pub stored: bool,
    /// The expression; empty for hidden columns that the server fills by itself.
    pub expression: String,
}

/// A column's part in system versioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versioned {
    /// None.
    No,
    /// `GENERATED ALWAYS AS ROW START`.
    RowStart,
    /// `GENERATED ALWAYS AS ROW END`.
    RowEnd,
    /// `WITHOUT SYSTEM VERSIONING`: it changes without history.
    Without,
}

/// What a row gets that names no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnDefault {
    /// Nothing: a value must be given.
    None,
    /// NULL.
    Null,
    /// A literal, as text. Binary strings are bytes in hexadecimal, after `0x`.
    Literal(String),
    /// A literal that only [`ColumnDef::default_image`] holds.
    Image,
    /// An expression; `CURRENT_TIMESTAMP` is one.
    Expression(String),
}

/// Who sees a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Everybody.
    Visible,
    /// Who asks for it by name.
    Invisible,
    /// MySQL: nobody, though the server reads and sums it like any other: the value of a functional index part.
    Functional,
    /// Nobody: it serves the engine, as FTS_DOC_ID, dropped columns and the hashes of long unique keys.
    Hidden,
}

/// The value of an instantly added column in rows written before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstantDefault {
    /// NULL.
    Null,
    /// These bytes, as a row would store them.
    Bytes(Vec<u8>),
}
