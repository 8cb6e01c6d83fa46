//! Why a datadir was not recovered.

use std::io;
use std::path::{Path, PathBuf};

use flow::rewrite::RewriteError;
use format::Lsn;

use datadir::Error;

/// Why a datadir was not recovered, or not completely. The log is unchanged, so another run, or the server, starts again from the same
/// checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// A server, or another recovery, is running on the datadir.
    #[error(
        "{}: a server runs on this datadir, or another innokit is working on it ({file} is locked): stop the server, or recover a copy",
        datadir.display()
    )]
    Locked {
        /// The datadir.
        datadir: PathBuf,
        /// Its file that is locked.
        file: &'static str,
    },
    /// The target of the copy is not empty.
    #[error("{}: the directory is not empty", .0.display())]
    Occupied(PathBuf),
    /// The log or a tablespace is encrypted, and the given keys do not open it.
    #[error("{0}")]
    Key(String),
    /// These files, or this log, cannot be recovered as they are, or not with these options. One variant for all of these cases: callers
    /// can only show the message, which names the file and the way out.
    #[error("{0}")]
    Refused(String),
    /// The moment is within a statement, whose files go before it ends.
    #[error(
        "{why}: recover to a moment before or after it, such as LSN {base_end} (--until {base_end}), where the base copy ends"
    )]
    Within {
        /// Why that is refused.
        why: String,
        /// The end of the base copy.
        base_end: Lsn,
    },
    /// A bug: earlier code has ruled this state out.
    #[error("{0}: this is a bug in innokit")]
    Internal(&'static str),
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
    /// Whether damage prevented the recovery, rather than circumstances.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

pub(super) type Result<T> = std::result::Result<T, RecoverError>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(RecoverError::Refused(why.into()))
}

/// For files that the given keys do not open.
pub(super) fn locked_out<T>(why: impl Into<String>) -> Result<T> {
    Err(RecoverError::Key(why.into()))
}

pub(super) fn damaged<T>(why: impl Into<String>) -> Result<T> {
    Err(RecoverError::Damaged(why.into()))
}

/// For `map_err`: names the action and the file.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> RecoverError {
    move |source| RecoverError::Job(Error::Io { path: path.to_path_buf(), action, source })
}
