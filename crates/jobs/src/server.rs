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

/// The stages of MariaDB's backup lock, in their order. Ending the connection ends them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupStage {
    /// Waits for other backups, and keeps them off.
    Start,
    /// Writes to tables without transactions have to wait.
    Flush,
    /// Tables are neither made nor renamed nor dropped.
    BlockDdl,
    /// Nothing is committed.
    BlockCommit,
    /// Everything goes on.
    End,
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

/// Where the binary log was, and what it had by then.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BinlogPosition {
    /// The file.
    pub file: String,
    /// The position in it.
    pub position: u64,
    /// `@@gtid_binlog_pos`.
    pub gtid: String,
}

/// What a backup asks of a server. Its account needs the privileges RELOAD and BINLOG MONITOR.
pub trait BackupServer: LogServer {
    /// What the server says about itself.
    ///
    /// # Errors
    /// [`ServerError`].
    fn facts(&mut self) -> Result<ServerFacts, ServerError>;

    /// Enters a stage, once nobody is in its way.
    ///
    /// # Errors
    /// [`ServerError`]. The earlier stage stays in force.
    fn enter(&mut self, stage: BackupStage) -> Result<(), ServerError>;

    /// Has all engines write their logs.
    ///
    /// # Errors
    /// [`ServerError`].
    fn flush_logs(&mut self) -> Result<(), ServerError>;

    /// The LSN that the next change gets.
    ///
    /// # Errors
    /// [`ServerError`].
    fn current_lsn(&mut self) -> Result<Lsn, ServerError>;

    /// Where the binary log is; `None` if the server writes none.
    ///
    /// # Errors
    /// [`ServerError`].
    fn binlog_position(&mut self) -> Result<Option<BinlogPosition>, ServerError>;
}
