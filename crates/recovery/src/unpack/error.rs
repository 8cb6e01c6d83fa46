//! Errors of `unpack`.

use std::io;
use std::path::{Path, PathBuf};

use datadir::Error;

/// Why archives were not unpacked. What had been unpacked is removed.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The directory to unpack into is not empty.
    #[error("{}: the directory is not empty{}", path.display(), if *is_unfinished { ": an interrupted unpack left it, remove it first" } else { "" })]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// Whether an interrupted run left it.
        is_unfinished: bool,
    },
    /// The archives cannot be unpacked as they are: a name leads outside the directory, a file is in two of them, or one is not an archive.
    /// One variant for all of these cases, since the caller can only show the message.
    #[error("{0}")]
    Refused(String),
    /// The archive is damaged or cut short.
    #[error("{0}")]
    Damaged(String),
    /// Reading or writing failed.
    #[error("{0}")]
    Job(#[from] Error),
}

impl UnpackError {
    /// Whether the archive is damaged.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

pub(super) type Result<T> = std::result::Result<T, UnpackError>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(UnpackError::Refused(why.into()))
}

pub(super) fn damaged<T>(why: impl Into<String>) -> Result<T> {
    Err(UnpackError::Damaged(why.into()))
}

/// For `map_err`: names the action and the file.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> UnpackError {
    move |source| UnpackError::Job(Error::Io { path: path.to_path_buf(), action, source })
}
