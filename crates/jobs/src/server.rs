//! What jobs ask of a running server, and why it may not answer. The connection itself is another crate's: jobs depend on no client.

use std::path::{Path, PathBuf};

use format::Lsn;

use crate::source::identity_of;

/// Why a server did not do what it was asked. The server's own words are part of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Nobody answers.
    #[error("no server answers at {at}: {why}")]
    Unreachable {
        /// The socket or address.
        at: String,
        /// What the system says.
        why: String,
    },
    /// The login is refused.
    #[error("the server at {at} refuses the login: {says}")]
    Login {
        /// The socket or address.
        at: String,
        /// The server's words.
        says: String,
    },
    /// The account may not do this.
    #[error("the account may not run {statement}: {says}")]
    Privilege {
        /// What it tried.
        statement: String,
        /// The server's words.
        says: String,
    },
    /// Somebody else holds a lock for too long.
    #[error("{statement} waited too long for a lock that another connection holds: {says}")]
    LockWait {
        /// What waited.
        statement: String,
        /// The server's words.
        says: String,
    },
    /// The connection is gone, and with it everything that it held.
    #[error("the connection to the server was lost at {statement}: {why}")]
    Lost {
        /// What was on its way.
        statement: String,
        /// What the system says.
        why: String,
    },
    /// The server answers with another error, or with something else than was asked.
    #[error("{statement}: the server says: {says}")]
    Refused {
        /// What it was asked.
        statement: String,
        /// The server's words.
        says: String,
    },
}

/// A connection that tells how far the redo log is durable. It needs no privilege.
pub trait LogServer: Send {
    /// The directory that the server works on, by its own word.
    ///
    /// # Errors
    /// [`ServerError`].
    fn datadir(&mut self) -> Result<PathBuf, ServerError>;

    /// The LSN up to which the log is on disk and will not be written again.
    ///
    /// # Errors
    /// [`ServerError`].
    fn flushed_lsn(&mut self) -> Result<Lsn, ServerError>;

    /// Where the binary log is; `None` if the server writes none, or is not asked. This may need a privilege.
    ///
    /// # Errors
    /// [`ServerError`].
    fn binlog(&mut self) -> Result<Option<BinlogPosition>, ServerError> {
        Ok(None)
    }
}

/// Says what is wrong if the server works on another directory.
pub(crate) fn other_datadir(server: &Path, datadir: &Path) -> Option<String> {
    let is_same = identity_of(server).is_some_and(|server| Some(server) == identity_of(datadir));
    (!is_same).then(|| {
        format!("{}: the server that was named works on {}: name this one's", datadir.display(), server.display())
    })
}

/// The stages of a backup, in their order, as MariaDB names them. Ending the connection ends them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupStage {
    /// Waits for other backups, and keeps them off.
    Start,
    /// MariaDB: writes to tables without transactions have to wait.
    Flush,
    /// Tables are neither made nor renamed nor dropped.
    BlockDdl,
    /// MariaDB: nothing is committed.
    BlockCommit,
    /// Everything goes on.
    End,
}

/// Who made a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// MariaDB.
    MariaDb,
    /// MySQL, or one that says the same of itself, as Percona Server does.
    MySql,
}

impl ServerKind {
    /// By the text of a server's version.
    #[must_use]
    pub fn of(version: &str) -> Self {
        if version.contains("MariaDB") { Self::MariaDb } else { Self::MySql }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        }
    }
}

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// `@@version`.
    pub version: String,
    /// `@@innodb_data_file_path`.
    pub system_files: String,
    /// Settings that may name other directories than the datadir, and what they name.
    pub directories: Vec<(String, PathBuf)>,
}

impl ServerFacts {
    /// Who made it.
    #[must_use]
    pub fn kind(&self) -> ServerKind {
        ServerKind::of(&self.version)
    }

    /// The first two or three numbers of its version.
    #[must_use]
    pub fn version_numbers(&self) -> (u32, u32, u32) {
        let mut numbers = self.version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        (next(), next(), next())
    }
}

/// What an account may change at any time although a copy of the files does not survive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceState {
    /// Whether the server writes a redo log. MariaDB always does.
    pub is_redo_on: bool,
    /// Statements so far that may have switched it off or changed its keys: `ALTER INSTANCE`, which only MySQL has.
    pub changes: u64,
}

/// Where the binary log was, and what it had by then.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BinlogPosition {
    /// The file.
    pub file: String,
    /// The position in it.
    pub position: u64,
    /// `@@gtid_binlog_pos` of MariaDB, `@@gtid_executed` of MySQL.
    pub gtid: String,
}

/// The moment whose state a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupMoment {
    /// The LSN that the next change gets.
    pub lsn: Lsn,
    /// Where the binary log is; `None` if the server writes none.
    pub binlog: Option<BinlogPosition>,
}

/// A table by its names, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
}

/// What a backup asks of a server. Its account needs the privileges RELOAD and BINLOG MONITOR on MariaDB; BACKUP_ADMIN, PROCESS and SELECT
/// on `performance_schema.log_status` on MySQL.
pub trait BackupServer: LogServer {
    /// What the server says about itself.
    ///
    /// # Errors
    /// [`ServerError`].
    fn facts(&mut self) -> Result<ServerFacts, ServerError>;

    /// See [`InstanceState`].
    ///
    /// # Errors
    /// [`ServerError`].
    fn instance(&mut self) -> Result<InstanceState, ServerError>;

    /// The files of tablespaces, as far as the server says where they are; relative to its datadir or absolute. MariaDB has links in the
    /// datadir instead.
    ///
    /// # Errors
    /// [`ServerError`].
    fn data_files(&mut self) -> Result<Vec<PathBuf>, ServerError>;

    /// Enters a stage, once nobody is in its way.
    ///
    /// # Errors
    /// [`ServerError`]. The earlier stage stays in force.
    fn enter(&mut self, stage: BackupStage) -> Result<(), ServerError>;

    /// Has writes to these tables wait until the end of the stages, where the stages do not do that.
    ///
    /// # Errors
    /// [`ServerError`].
    fn lock_tables(&mut self, tables: &[TableName]) -> Result<(), ServerError>;

    /// Has all engines write their logs. Where the account may not ask for that, the server does it on its own, within a second or so.
    ///
    /// # Errors
    /// [`ServerError`].
    fn flush_logs(&mut self) -> Result<(), ServerError>;

    /// Where the redo log and the binary log are, at one moment.
    ///
    /// # Errors
    /// [`ServerError`].
    fn moment(&mut self) -> Result<BackupMoment, ServerError>;
}
