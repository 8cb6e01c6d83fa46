//! The parts of `CREATE TABLE` other than columns: keys, foreign keys, options, partitions.
//!
//! The trees are in [`super::TableDef::indexes`]; these are the keys as the user declared them, including full-text ones.

/// The declaration except for the columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// The keys, in source order.
    pub keys: Vec<KeyDef>,
    /// Foreign keys; `None` if the source never has any (`.frm`).
    pub foreign_keys: Option<Vec<ForeignKey>>,
    /// `AUTO_INCREMENT=`: the next value, if the source knows it.
    pub auto_increment: Option<u64>,
    /// MySQL: the general tablespace it is in.
    pub tablespace: Option<String>,
    /// Options before the comment, as SQL: `ROW_FORMAT=COMPACT`.
    pub options: Vec<String>,
    /// Options after the comment.
    pub late_options: Vec<String>,
    /// MariaDB: engine options of each column, in their order, as SQL. Empty if no column has any.
    pub column_options: Vec<String>,
    /// The table's comment.
    pub comment: String,
    /// MariaDB: `WITH SYSTEM VERSIONING`.
    pub is_versioned: bool,
    /// MariaDB: the system versioning columns were not declared and are not shown.
    pub has_implicit_versioning: bool,
    /// MariaDB: name and columns of the application-time period, as SQL.
    pub period: Option<String>,
    /// MariaDB: a sequence, stored as a table of one row.
    pub is_sequence: bool,
    /// MySQL: whether the table is hidden from users: part of a full-text index, or a copy under construction.
    pub is_hidden: bool,
    /// How it is partitioned, as SQL.
    pub partitioning: Option<String>,
}

/// A key as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDef {
    /// Its name; `PRIMARY` is the primary key's.
    pub name: String,
    /// Its kind.
    pub kind: KeyKind,
    /// Its parts.
    pub parts: Vec<KeyPart>,
    /// MariaDB: its last parts are the columns of the application-time period.
    pub without_overlaps: bool,
    /// What follows the parts, as SQL: ` USING BTREE`.
    pub options: String,
}

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// `PRIMARY KEY`.
    Primary,
    /// `UNIQUE KEY`.
    Unique,
    /// `KEY`.
    Plain,
    /// `FULLTEXT KEY`.
    FullText,
    /// `SPATIAL KEY`.
    Spatial,
    /// MariaDB's `VECTOR KEY`.
    Vector,
}

/// A part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPart {
    /// The column: its index in [`super::TableDef::columns`].
    pub column: usize,
    /// Length of the prefix in characters (bytes for non-text); `None` for the whole column.
    pub prefix: Option<u32>,
    /// Descending order.
    pub descending: bool,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// The database of the other table.
    pub other_schema: String,
    /// The other table.
    pub other_table: String,
    /// Its columns.
    pub other_columns: Vec<String>,
    /// The action on this table's rows when a row of the other table is deleted.
    pub on_delete: Rule,
    /// The action on this table's rows when a key of the other table changes.
    pub on_update: Rule,
}

/// The action of a foreign key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// No rule was given.
    Default,
    /// `RESTRICT`, explicitly.
    Restrict,
    /// `NO ACTION`, explicitly.
    NoAction,
    /// `CASCADE`.
    Cascade,
    /// `SET NULL`.
    SetNull,
    /// `SET DEFAULT`.
    SetDefault,
}

impl Rule {
    /// As SQL; `None` if nothing is written.
    #[must_use]
    pub const fn sql(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Restrict => Some("RESTRICT"),
            Self::NoAction => Some("NO ACTION"),
            Self::Cascade => Some("CASCADE"),
            Self::SetNull => Some("SET NULL"),
            Self::SetDefault => Some("SET DEFAULT"),
        }
    }
}
