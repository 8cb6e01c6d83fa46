//! What a dictionary says of one tablespace.

use std::path::PathBuf;

/// All that a dictionary says.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    /// The tablespaces, the dictionary's own among them.
    pub entries: Vec<Entry>,
    /// The newest transaction that wrote a row of a dictionary that was read; 0 where the rows do not say.
    pub newest_transaction: u64,
    /// What MySQL's DDL log notes.
    pub ddl_steps: Vec<DdlStep>,
    /// MySQL 8.0 and later: definitions are in the tablespaces, not in `.frm` files.
    pub is_in_files: bool,
}

/// A tablespace that a dictionary knows.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// `database.table`, with the partition if it is one; else the name of the tablespace.
    pub name: String,
    /// Its number.
    pub space: u32,
    /// What it is there for.
    pub holds: Holds,
    /// Where its files should be, the first one first.
    pub files: Vec<PathBuf>,
    /// The trees in it.
    pub trees: Vec<TreeAt>,
    /// `ALTER TABLE ... DISCARD TABLESPACE` took its file away.
    pub is_discarded: bool,
    /// It is the work of an ALTER TABLE that has not ended.
    pub is_intermediate: bool,
}

/// A note of MySQL's DDL log.
#[derive(Debug, Clone)]
pub(super) struct DdlStep {
    /// The tablespace that it is about.
    pub space: Option<u32>,
    /// Where that tablespace is, was, or will be.
    pub files: Vec<PathBuf>,
    /// The transaction that wrote, or deleted, the note last.
    pub transaction: u64,
    pub is_deleted: bool,
}

/// What a tablespace is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// One table, or one partition.
    Table,
    /// Several tables: a general tablespace.
    Several,
    /// The dictionary of MySQL 8.0 and later.
    Dictionary,
    /// What all of InnoDB needs: `ibdata1`.
    System,
    /// Undo logs.
    Undo,
    /// Temporary tables: the server makes it whenever it starts.
    Temporary,
}

/// Where a tree begins.
#[derive(Debug, Clone)]
pub(super) struct TreeAt {
    /// `database.table`.
    pub table: String,
    /// Name of the index.
    pub index: String,
    /// Number of the index.
    pub id: u64,
    /// Its root page.
    pub page: u32,
}

impl Entry {
    pub fn new(name: String, space: u32, holds: Holds) -> Self {
        let (files, trees) = (Vec::new(), Vec::new());
        Self { name, space, holds, files, trees, is_discarded: false, is_intermediate: false }
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
