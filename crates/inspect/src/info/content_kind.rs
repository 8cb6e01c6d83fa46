//! The kinds of files that `info` recognises.

use serde::{Serialize, Serializer};

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentKind {
    /// InnoDB pages.
    Tablespace,
    /// A file of a redo log.
    RedoLog,
    /// A binary or relay log.
    BinaryLog,
    /// A doublewrite file of MySQL.
    Doublewrite,
    /// An archive of xtrabackup or mariadb-backup.
    Xbstream,
    /// Compressed as a whole.
    Compressed,
    /// An archive of another kind.
    Archive,
    /// A file of the Aria engine.
    Aria,
    /// A file of the MyISAM engine.
    MyIsam,
    /// `.frm`.
    TableDefinition,
    /// The `.frm` of a view.
    ViewDefinition,
    /// `.TRG`.
    TriggerDefinition,
    /// `.isl`: the real path of a tablespace.
    Link,
    /// `.cfg`, from `FLUSH TABLES ... FOR EXPORT`.
    ExportMetadata,
    /// `.cfp`, from `FLUSH TABLES ... FOR EXPORT`.
    ExportKey,
    /// `.sdi`, for a table of another engine.
    DictionaryInformation,
    /// `ib_buffer_pool`.
    BufferPoolDump,
    /// An SQLite database.
    Sqlite,
    /// An SQL dump.
    SqlDump,
    /// A program or a library.
    Executable,
    /// Text.
    Text,
    /// Nothing but zeros.
    Zeros,
    /// No bytes at all.
    Empty,
    /// Anything else.
    Unknown,
}

impl ContentKind {
    /// A stable code for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tablespace => "tablespace",
            Self::RedoLog => "redo_log",
            Self::BinaryLog => "binary_log",
            Self::Doublewrite => "doublewrite",
            Self::Xbstream => "xbstream",
            Self::Compressed => "compressed",
            Self::Archive => "archive",
            Self::Aria => "aria",
            Self::MyIsam => "myisam",
            Self::TableDefinition => "table_definition",
            Self::ViewDefinition => "view_definition",
            Self::TriggerDefinition => "trigger_definition",
            Self::Link => "link",
            Self::ExportMetadata => "export_metadata",
            Self::ExportKey => "export_key",
            Self::DictionaryInformation => "dictionary_information",
            Self::BufferPoolDump => "buffer_pool_dump",
            Self::Sqlite => "sqlite",
            Self::SqlDump => "sql_dump",
            Self::Executable => "executable",
            Self::Text => "text",
            Self::Zeros => "zeros",
            Self::Empty => "empty",
            Self::Unknown => "unknown",
        }
    }
}

impl Serialize for ContentKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
