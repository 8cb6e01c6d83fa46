//! What a backup asks about the tables in it. The jobs that recover do not know those that inspect, so whoever takes or verifies a backup
//! brings along what looks into tables.

use std::fmt;
use std::path::PathBuf;

use datadir::Error;
use datadir::keys::KeyFiles;

/// What a tree of a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenTree {
    /// The rows.
    Rows,
    /// Entries that point to rows.
    Entries,
    /// Anything else.
    Other,
}

/// An index, as it was found.
#[derive(Debug, Clone)]
pub struct SeenIndex {
    /// `schema.table`, if a definition was found.
    pub table: Option<String>,
    /// Its name, if a definition was found.
    pub name: Option<String>,
    /// What it holds.
    pub tree: SeenTree,
    /// Its id.
    pub id: u64,
    /// Entries that are not marked as deleted.
    pub rows: u64,
    /// Entries that are.
    pub deleted: u64,
}

/// A tablespace, as it was found.
#[derive(Debug, Clone)]
pub struct SeenFile {
    /// The path of its first file.
    pub path: String,
    /// Its indexes.
    pub indexes: Vec<SeenIndex>,
}

/// Damage to a tree, or rows that an index lacks.
#[derive(Debug, Clone)]
pub struct SeenDamage {
    /// The file.
    pub path: String,
    /// `schema.table`, if a definition was found.
    pub table: Option<String>,
    /// Name of the index, if a definition was found.
    pub index: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// What was found in tablespaces.
#[derive(Debug, Clone)]
pub struct SeenTables {
    /// Each tablespace.
    pub files: Vec<SeenFile>,
    /// Damage, in the order of the report.
    pub damage: Vec<SeenDamage>,
}

type Look = dyn Fn(&[PathBuf], &KeyFiles) -> Result<SeenTables, Error> + Send + Sync;

/// Compares every index of tablespaces, or of those in directories, with the rows of its table.
#[derive(Clone, Copy)]
pub struct TableLook(pub &'static Look);

impl fmt::Debug for TableLook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TableLook")
    }
}
