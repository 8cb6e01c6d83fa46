//! A dictionary's entry for one tablespace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything read from a dictionary.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    /// The tablespaces, including the dictionary's own.
    pub entries: Vec<Entry>,
    /// The newest transaction that wrote a dictionary row; 0 if the rows do not record it.
    pub newest_transaction: u64,
    /// The notes in MySQL's DDL log.
    pub ddl_steps: Vec<DdlStep>,
    /// Trees of dropped indexes that the server has yet to free, in MariaDB's dictionary.
    pub dropped: Vec<Dropped>,
    /// MySQL 8.0 and later: the last AUTO_INCREMENT value of each table that has given one out.
    pub counters: HashMap<Arc<str>, u64>,
    /// MySQL 8.0 and later: definitions are in the tablespaces, not in `.frm` files.
    pub is_in_files: bool,
}

/// The tree of an index whose row is delete-marked. The server frees its pages when it purges the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Dropped {
    pub tree: DroppedTree,
    /// The transaction that dropped the index.
    pub transaction: u64,
}

/// Which tree that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DroppedTree {
    pub space: u32,
    pub root: u32,
    pub index_id: u64,
}

impl DroppedTree {
    /// Why damage in it is a note.
    pub const WHY: &str =
        "the page is of an index that was dropped: no query reads it, and the server frees it when it runs";
}

/// A tablespace listed in a dictionary.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// `database.table`, with the partition if there is one; otherwise the tablespace name.
    pub name: String,
    /// The name in the old dictionary, in the spelling of file names; empty in the new one.
    pub stored: String,
    /// The table's stored columns, if the old dictionary has it.
    pub columns: Option<u16>,
    /// Its space id.
    pub space: u32,
    /// Its purpose.
    pub holds: Holds,
    /// Where its files should be, in order.
    pub files: Vec<PathBuf>,
    /// Another file of it, outside the datadir, which is the one that the dictionary names.
    pub twin: Option<PathBuf>,
    /// Where the dictionary says that the file is, if it was moved inside.
    pub original: Option<PathBuf>,
    /// The trees in it.
    pub trees: Vec<TreeAt>,
    /// `ALTER TABLE ... DISCARD TABLESPACE` took its file away.
    pub is_discarded: bool,
    /// Created by an ALTER TABLE that has not finished.
    pub is_intermediate: bool,
    /// An index in it is still being built, by a statement that has not finished. Not known from MySQL's own dictionary.
    pub is_being_indexed: bool,
}

/// A note of MySQL's DDL log.
#[derive(Debug, Clone)]
pub(super) struct DdlStep {
    /// The tablespace concerned.
    pub space: Option<u32>,
    /// Where that tablespace is, was, or will be.
    pub files: Vec<PathBuf>,
    /// The transaction that last wrote or deleted the note.
    pub transaction: u64,
    pub is_deleted: bool,
}

/// The purpose of a tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// One table, or one partition.
    Table,
    /// Several tables: a general tablespace.
    Several,
    /// The dictionary of MySQL 8.0 and later.
    Dictionary,
    /// InnoDB's own data: `ibdata1`.
    System,
    /// Undo logs.
    Undo,
    /// Temporary tables: recreated at every start.
    Temporary,
}

/// The root of a tree.
#[derive(Debug, Clone)]
pub(super) struct TreeAt {
    /// `database.table`, shared by the trees of a table.
    pub table: Arc<str>,
    /// See [`Entry::stored`]; shared in the same way.
    pub stored: Arc<str>,
    /// Name of the index.
    pub index: Box<str>,
    /// Index id.
    pub id: u64,
    /// Its root page.
    pub page: u32,
    /// Whether the dictionary marks it as corrupt.
    pub is_flagged: bool,
}

impl Entry {
    pub fn new(name: String, space: u32, holds: Holds) -> Self {
        Self {
            name,
            stored: String::new(),
            columns: None,
            space,
            holds,
            files: Vec::new(),
            twin: None,
            original: None,
            trees: Vec::new(),
            is_discarded: false,
            is_intermediate: false,
            is_being_indexed: false,
        }
    }

    /// Gives back the room that its lists grew into: with 50,000 tables that is more than what they hold.
    pub fn settled(mut self) -> Self {
        self.files.shrink_to_fit();
        self.trees.shrink_to_fit();
        self
    }

    /// All places where a file of it may be.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().chain(&self.twin).map(PathBuf::as_path)
    }

    /// For messages: `table shop.orders`, `tablespace general`.
    pub fn called(&self) -> String {
        let kind = match self.holds {
            Holds::Table => "table",
            Holds::Several => "tablespace",
            Holds::Dictionary => return "MySQL's data dictionary".to_owned(),
            Holds::System => return "the system tablespace".to_owned(),
            Holds::Undo => "undo tablespace",
            Holds::Temporary => "temporary tablespace",
        };
        format!("{kind} {}", self.name)
    }
}
