//! Why archives were not unpacked.

use std::io;
use std::path::Path;

use crate::Error;

/// Why archives were not unpacked. Nothing of them is left then.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// What was asked for is not done: the directory is not free, a name leads out of it, it is no archive.
    #[error("{0}")]
    Refused(String),
    /// The archive is damaged or cut off.
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

/// For `map_err`: what was being done to which file.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> UnpackError {
    move |source| UnpackError::Job(Error::Io { path: path.to_path_buf(), action, source })
}
