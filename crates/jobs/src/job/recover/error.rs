//! Why a datadir was not recovered.

use std::io;
use std::path::Path;

use flow::rewrite::RewriteError;

use crate::Error;

/// Why a datadir was not recovered, or not to the end. Its log is as it was then, so that another run, or the server, starts again
/// from the same checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// It cannot be done here or now.
    #[error("{0}")]
    Refused(String),
    /// The log or a page is damaged.
    #[error("{0}")]
    Damaged(String),
    /// The files cannot be read, or the options make no sense.
    #[error("{0}")]
    Job(#[from] Error),
    /// Writing failed.
    #[error("{0}")]
    Write(#[from] RewriteError),
}

impl RecoverError {
    /// Whether damage is what kept it from being done, rather than circumstances.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

pub(super) type Result<T> = std::result::Result<T, RecoverError>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(RecoverError::Refused(why.into()))
}

pub(super) fn damaged<T>(why: impl Into<String>) -> Result<T> {
    Err(RecoverError::Damaged(why.into()))
}

/// For `map_err`: what was being done to which file.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> RecoverError {
    move |source| RecoverError::Job(Error::Io { path: path.to_path_buf(), action, source })
}
