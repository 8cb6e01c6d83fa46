//! What a file is, as reports say it.

use std::fmt;

use serde::{Serialize, Serializer};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Of a table, a partition, or several tables.
    Tablespace,
    /// `ibdata1` and the files that continue it.
    SystemTablespace,
    /// `mysql.ibd`.
    DictionaryTablespace,
    /// Undo logs.
    UndoTablespace,
    /// Of temporary tables.
    TemporaryTablespace,
    /// A file of a redo log, or several.
    RedoLog,
    /// Copies of pages that a server writes ahead of the pages.
    Doublewrite,
    /// A binary log.
    BinaryLog,
    /// A relay log.
    RelayLog,
    /// Changed pages of an incremental backup.
    Delta,
    /// A `tar`, `xbstream` or `mbstream` archive.
    BackupArchive,
    /// The directory itself, where a file of it is missing that belongs to no table.
    Datadir,
    /// A name that promises a tablespace, and content that is none.
    Unrecognised,
    /// Anything else.
    Other,
}

impl FileKind {
    /// The words for people, and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tablespace => "tablespace",
            Self::SystemTablespace => "system tablespace",
            Self::DictionaryTablespace => "dictionary tablespace",
            Self::UndoTablespace => "undo tablespace",
            Self::TemporaryTablespace => "temporary tablespace",
            Self::RedoLog => "redo log",
            Self::Doublewrite => "doublewrite file",
            Self::BinaryLog => "binary log",
            Self::RelayLog => "relay log",
            Self::Delta => "changed pages of an increment",
            Self::BackupArchive => "backup archive",
            Self::Datadir => "datadir",
            Self::Unrecognised => "unrecognised",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for FileKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
