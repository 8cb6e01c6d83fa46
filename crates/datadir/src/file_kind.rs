//! The kind of a file, as named in reports.

use std::fmt;

use serde::{Serialize, Serializer};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// For a table, a partition, or several tables.
    Tablespace,
    /// `ibdata1` and the files that continue it.
    SystemTablespace,
    /// `mysql.ibd`.
    DictionaryTablespace,
    /// Undo logs.
    UndoTablespace,
    /// For temporary tables.
    TemporaryTablespace,
    /// One or more files of a redo log.
    RedoLog,
    /// Doublewrite copies of pages.
    Doublewrite,
    /// A binary log.
    BinaryLog,
    /// A relay log.
    RelayLog,
    /// Changed pages of an incremental backup.
    Delta,
    /// A `tar`, `xbstream` or `mbstream` archive.
    BackupArchive,
    /// The directory itself, if it lacks a file that belongs to no table.
    Datadir,
    /// A name that promises a tablespace, with other content.
    Unrecognised,
    /// Anything else.
    Other,
}

impl FileKind {
    /// Its name, in text and in JSON.
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
