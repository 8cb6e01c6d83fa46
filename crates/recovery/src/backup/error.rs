//! Why a backup failed.

use std::io;
use std::path::{Path, PathBuf};

use crate::archive::ArchiveError;
use crate::recover::RecoverError;
use datadir::Error;
use datadir::server::ServerError;

/// Why a backup was not taken, or not verified. A set that was begun is marked void.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The target directory is not empty.
    #[error("{}: the directory is not empty: a backup needs one of its own", .0.display())]
    Occupied(PathBuf),
    /// This server, these files or these options cannot be backed up. One variant for all of them: callers can only show the message, which
    /// gives the reason and the way out.
    #[error("{0}")]
    Refused(String),
    /// The caller stopped it.
    #[error("the backup was interrupted")]
    Interrupted,
    /// The redo log could not be followed to the end.
    #[error("the redo log could not be followed: {0}")]
    Log(String),
    /// A file of the server is damaged, or the finished set is.
    #[error("{0}")]
    Damaged(String),
    /// The finished set is not what the server has.
    #[error("{0}")]
    Unproved(String),
    /// The server did not do what it was asked.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// The finished set cannot be recovered. That is not the server's fault: each of its pages was sound when it was copied.
    #[error(
        "the finished backup cannot be recovered: {0} (the server's own pages were sound when they were copied): take the backup again"
    )]
    Proof(#[from] RecoverError),
    /// A file could not be read or written.
    #[error("{0}")]
    Job(#[from] Error),
}

impl BackupError {
    /// Whether damage is the reason, rather than circumstances. A set that cannot be recovered says nothing of the server's files.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl From<ArchiveError> for BackupError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Server(error) => Self::Server(error),
            ArchiveError::Job(error) => Self::Job(error),
            other => Self::Log(other.to_string()),
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, BackupError>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(BackupError::Refused(why.into()))
}

/// For `map_err`: names the action and the file.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> BackupError {
    move |source| BackupError::Job(Error::Io { path: path.to_path_buf(), action, source })
}
