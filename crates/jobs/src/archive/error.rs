//! Why a log is not archived, or an archive not read.

use std::io;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::server::ServerError;

/// Why archiving stopped, or did not start. What was archived until then is durable and stays valid; a later run goes on after it.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Another archiver writes to the directory.
    #[error("{}: another innokit is archiving into this directory: stop it first, or give this one a directory of its own", .0.display())]
    Busy(PathBuf),
    /// The log is of a kind that is not archived, or the archive is not one. One variant for all: callers can only show the message, which
    /// names the file and the way out.
    #[error("{0}")]
    Refused(String),
    /// The server that tells how far its log is durable does not.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// The file system refused something.
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
