//! What `CREATE TABLE` says beside the columns: keys, foreign keys, options, partitions.
//!
//! Trees are in [`super::TableDef::indexes`]; here are the keys as their owner wrote them, full-text ones among them.

/// Beside the columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// The keys, in the order of the source.
    pub keys: Vec<KeyDef>,
    /// Foreign keys; `None` where the source holds none of any table (`.frm`).
    pub foreign_keys: Option<Vec<ForeignKey>>,
    /// `AUTO_INCREMENT=` as far as the source knows it: the next number.
    pub auto_increment: Option<u64>,
    /// MySQL: the general tablespace that it lies in.
    pub tablespace: Option<String>,
    /// Options before the comment, as SQL: `ROW_FORMAT=COMPACT`.
    pub options: Vec<String>,
    /// Options after the comment.
    pub late_options: Vec<String>,
    /// The table's comment.
    pub comment: String,
    /// MariaDB: `WITH SYSTEM VERSIONING`.
    pub is_versioned: bool,
    /// MariaDB: the columns of system versioning were not declared, and nobody is shown them.
    pub has_implicit_versioning: bool,
    /// MariaDB: the period of the application: name and columns, as SQL.
    pub period: Option<String>,
    /// MariaDB: a sequence, which is a table of one row.
    pub is_sequence: bool,
    /// MySQL: nobody is shown it: part of a full-text index, or a copy in the making.
    pub is_hidden: bool,
    /// How it is partitioned, as SQL.
    pub partitioning: Option<String>,
}

/// A key as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDef {
    /// Its name; `PRIMARY` is the primary key's.
    pub name: String,
    /// What it is.
    pub kind: KeyKind,
    /// Its parts.
    pub parts: Vec<KeyPart>,
    /// MariaDB: its last parts are those of the application's period.
    pub without_overlaps: bool,
    /// What follows the parts, as SQL: ` USING BTREE`.
    pub options: String,
}

/// What a key is.
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
    /// The column: its place in [`super::TableDef::columns`].
    pub column: usize,
    /// Characters (bytes of what is no text) of its beginning; `None` = all of it.
    pub prefix: Option<u32>,
    /// Whether greater values come first.
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
    /// What happens here when a row is deleted there.
    pub on_delete: Rule,
    /// What happens here when a row's key is changed there.
    pub on_update: Rule,
}

/// What a foreign key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The rule where none is named.
    Default,
    /// `RESTRICT`, where it is named.
    Restrict,
    /// `NO ACTION`, where it is named.
    NoAction,
    /// `CASCADE`.
    Cascade,
    /// `SET NULL`.
    SetNull,
    /// `SET DEFAULT`.
    SetDefault,
}

impl Rule {
    /// As SQL; `None` for the rule that is not written.
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
