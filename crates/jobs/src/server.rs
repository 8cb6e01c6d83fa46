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
}

/// Says what is wrong if the server works on another directory.
pub(crate) fn other_datadir(server: &Path, datadir: &Path) -> Option<String> {
    let is_same = identity_of(server).is_some_and(|server| Some(server) == identity_of(datadir));
    (!is_same).then(|| {
        format!("{}: the server that was named works on {}: name this one's", datadir.display(), server.display())
    })
}
