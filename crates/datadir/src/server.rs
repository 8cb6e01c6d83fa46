//! What jobs ask of a running server, and why it may not answer. Another crate makes the connection: jobs depend on no client.

use std::path::PathBuf;

use format::{Lsn, SpaceId};

/// Why a server did not do what it was asked. The message quotes the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// No server answers.
    #[error("no server answers at {at}: {why}")]
    Unreachable {
        /// The socket or address.
        at: String,
        /// What the system says.
        why: String,
    },
    /// The server refuses the login.
    #[error("the server at {at} refuses the login: {says}")]
    Login {
        /// The socket or address.
        at: String,
        /// The server's words.
        says: String,
    },
    /// The account lacks a privilege.
    #[error("the account may not run {statement}: {says}")]
    Privilege {
        /// The statement.
        statement: String,
        /// The server's words.
        says: String,
    },
    /// A statement waited too long for another connection's lock.
    #[error("{statement} waited too long for a lock that another connection holds: {says}")]
    LockWait {
        /// The statement.
        statement: String,
        /// The server's words.
        says: String,
    },
    /// The connection is gone, and with it every lock that it held.
    #[error("the connection to the server was lost at {statement}: {why}")]
    Lost {
        /// The statement in progress.
        statement: String,
        /// What the system says.
        why: String,
    },
    /// The server did not answer in time.
    #[error(
        "the server did not answer {statement} within {seconds} s: the connection was given up, and with it every lock that it held. SHOW \
         PROCESSLIST tells what the statement waited for"
    )]
    Silent {
        /// The statement in progress.
        statement: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// The caller asked to stop while the server was silent. The connection is given up, and with it every lock that it held.
    #[error(
        "interrupted while the server had not answered {statement}: the connection was given up, and with it every lock that it held"
    )]
    Interrupted {
        /// The statement in progress.
        statement: String,
    },
    /// The server answers with another error, or not with what it was asked for.
    #[error("{statement}: the server says: {says}")]
    Refused {
        /// The statement, or the name of the value it was asked for.
        statement: String,
        /// The server's words.
        says: String,
    },
}

/// A connection that reports how far the redo log is durable. It needs no privilege.
pub trait LogServer: Send {
    /// The server's datadir, as the server reports it.
    ///
    /// # Errors
    /// [`ServerError`].
    fn datadir(&mut self) -> Result<PathBuf, ServerError>;

    /// The root directory of the server's process, as this process sees it. It is another one if the server runs in a chroot or a container.
    /// `None` if the system does not tell.
    fn root(&mut self) -> Option<PathBuf> {
        None
    }

    /// What the server calls the directory that the caller named, if the caller says so because the server's process is not to be seen.
    fn datadir_as(&self) -> Option<PathBuf> {
        None
    }

    /// The UUID that the server keeps in `auto.cnf`. MariaDB has none.
    ///
    /// # Errors
    /// [`ServerError`].
    fn uuid(&mut self) -> Result<Option<String>, ServerError> {
        Ok(None)
    }

    /// The LSN of the newest checkpoint. `None` if this connection does not ask.
    ///
    /// # Errors
    /// [`ServerError`].
    fn checkpoint(&mut self) -> Result<Option<Lsn>, ServerError> {
        Ok(None)
    }

    /// The directory, by the server's names, in which a file grows at [`LogServer::write_temporary`]. `None` on servers that have no file
    /// there that any account may have them write.
    ///
    /// # Errors
    /// [`ServerError`].
    fn temporary(&mut self) -> Result<Option<PathBuf>, ServerError> {
        Ok(None)
    }

    /// Has the server write a temporary table to disk. It takes no privilege.
    ///
    /// # Errors
    /// [`ServerError`].
    fn write_temporary(&mut self) -> Result<(), ServerError> {
        Ok(())
    }

    /// The LSN up to which the log is on disk and will not be rewritten.
    ///
    /// # Errors
    /// [`ServerError`].
    fn flushed_lsn(&mut self) -> Result<Lsn, ServerError>;

    /// The binary log position. `None` if the server writes no binary log, or this connection does not ask. May need a privilege.
    ///
    /// # Errors
    /// [`ServerError`].
    fn binlog(&mut self) -> Result<Option<BinlogPosition>, ServerError> {
        Ok(None)
    }

    /// The events of a binary log file from a position on, at most `count`. `None` if this connection does not read the binary log. Needs a
    /// privilege: BINLOG MONITOR on MariaDB, REPLICATION SLAVE on MySQL.
    ///
    /// # Errors
    /// [`ServerError`].
    fn binlog_events(&mut self, file: &str, from: u64, count: u32) -> Result<Option<Vec<BinlogEvent>>, ServerError> {
        let _ = (file, from, count);
        Ok(None)
    }
}

/// An event of the binary log, as `SHOW BINLOG EVENTS` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinlogEvent {
    /// Its type, such as `Query`.
    pub kind: String,
    /// The position behind it.
    pub end: u64,
    /// What it says.
    pub info: String,
}

/// The stages of a backup, in order, by MariaDB's names. They end with the connection at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupStage {
    /// Waits for other backups to end, and keeps new ones from starting.
    Start,
    /// MariaDB: blocks writes to tables without transactions.
    Flush,
    /// Blocks creating, renaming and dropping tables.
    BlockDdl,
    /// MariaDB: blocks commits.
    BlockCommit,
    /// Releases every block.
    End,
}

/// A server's vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// MariaDB.
    MariaDb,
    /// MySQL, or a server whose version reads like MySQL's, such as Percona Server.
    MySql,
}

impl ServerKind {
    /// Tells the vendor by a server's version text.
    #[must_use]
    pub fn of(version: &str) -> Self {
        if version.contains("MariaDB") { Self::MariaDb } else { Self::MySql }
    }

    /// The vendor's name, for messages.
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
    /// Settings that may point outside the datadir, and their values.
    pub directories: Vec<(String, PathBuf)>,
    /// `@@file_key_management_encryption_algorithm` of MariaDB: `aes_cbc` or `aes_ctr`. Empty without that plugin.
    pub cipher: String,
}

impl ServerFacts {
    /// The server's vendor, by its version.
    #[must_use]
    pub fn kind(&self) -> ServerKind {
        ServerKind::of(&self.version)
    }

    /// The first three numbers of the version, such as (10, 11, 6). A missing number is 0.
    #[must_use]
    pub fn version_numbers(&self) -> (u32, u32, u32) {
        let mut numbers = self.version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        (next(), next(), next())
    }
}

/// State of the whole server that a connection may change at any time. A backup that was running then is worthless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceState {
    /// Whether the server writes a redo log. MariaDB always does.
    pub is_redo_on: bool,
    /// `ALTER INSTANCE` statements so far: each may have switched redo off or changed its keys. Always 0 on MariaDB, which has none.
    pub changes: u64,
}

/// A position in the binary log, and the transactions in it up to there.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BinlogPosition {
    /// The file.
    pub file: String,
    /// The position in it.
    pub position: u64,
    /// `@@gtid_binlog_pos` of MariaDB, `@@gtid_executed` of MySQL. Empty if it is not known.
    pub gtid: String,
}

/// The moment whose state a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupMoment {
    /// The LSN that the next change will get.
    pub lsn: Lsn,
    /// The binary log position. `None` if the server writes no binary log.
    pub binlog: Option<BinlogPosition>,
}

/// A table's names as SQL has them, not as file names encode them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
}

/// What a backup asks of a server. Its account needs the privileges RELOAD and BINLOG MONITOR on MariaDB. On MySQL it needs BACKUP_ADMIN,
/// PROCESS, and SELECT on `performance_schema.log_status`.
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

    /// The files of tablespaces that the server reports, relative to its datadir or absolute. MariaDB reports none: it keeps links in the
    /// datadir instead.
    ///
    /// # Errors
    /// [`ServerError`].
    fn data_files(&mut self) -> Result<Vec<PathBuf>, ServerError>;

    /// Space ids of discarded tablespaces: `IMPORT TABLESPACE` may change their files at any time. MariaDB does not tell.
    ///
    /// # Errors
    /// [`ServerError`].
    fn discarded(&mut self) -> Result<Vec<SpaceId>, ServerError>;

    /// Enters a stage, after waiting for the statements that are in its way.
    ///
    /// # Errors
    /// [`ServerError`]. The earlier stage stays in force.
    fn enter(&mut self, stage: BackupStage) -> Result<(), ServerError>;

    /// Blocks writes to these tables until the stages end, on servers whose stages do not.
    ///
    /// # Errors
    /// [`ServerError`].
    fn lock_tables(&mut self, tables: &[TableName]) -> Result<(), ServerError>;

    /// Makes all engines write their logs. An account without the privilege relies on the server, which does it within a second or so.
    ///
    /// # Errors
    /// [`ServerError`].
    fn flush_logs(&mut self) -> Result<(), ServerError>;

    /// The privileges that the account lacks for a backup, as the statements that grant them. `tables`: those that are locked later. Each is
    /// tested by a statement that takes it, so privileges of roles count. Changes nothing.
    ///
    /// # Errors
    /// The server does not answer, or says something else.
    fn missing_privileges(&mut self, tables: &[TableName]) -> Result<Vec<String>, ServerError>;

    /// The positions of the redo log and the binary log at one moment.
    ///
    /// # Errors
    /// [`ServerError`].
    fn moment(&mut self) -> Result<BackupMoment, ServerError>;
}
