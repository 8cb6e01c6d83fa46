//! Why archiving a log, or reading an archive, fails.

use std::io;
use std::path::{Path, PathBuf};

use datadir::Error;
use datadir::server::ServerError;

/// Why archiving stopped or did not start. Everything archived before that is durable and valid; a later run continues from there.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Another archiver writes to the directory.
    #[error("{}: another innokit is archiving into this directory: stop it first, or give this one a directory of its own", .0.display())]
    Busy(PathBuf),
    /// The log is of a kind innokit does not archive, or the archive is not one. A single variant, because callers can only show the
    /// message, which names the file and the remedy.
    #[error("{0}")]
    Refused(String),
    /// Asking the server failed: for its datadir, its durable LSN or its binary log position.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// A file could not be read or written.
    #[error("{0}")]
    Job(#[from] Error),
}

pub(super) type Result<T> = std::result::Result<T, ArchiveError>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(ArchiveError::Refused(why.into()))
}

/// For `map_err`: names the action and the file.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> ArchiveError {
    move |source| ArchiveError::Job(Error::Io { path: path.to_path_buf(), action, source })
}
