//! Why nothing was restored.

use std::io;
use std::path::{Path, PathBuf};

use crate::backup::BackupError;
use crate::recover::RecoverError;
use crate::unpack::UnpackError;
use datadir::Error;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The options contradict each other or need another user, or innokit cannot read how the archive is packed.
    #[error("{0}")]
    Refused(String),
    /// The archive could not be unpacked.
    #[error("{0}")]
    Unpack(#[from] UnpackError),
    /// The backup was changed since it was taken, or could not be read.
    #[error("{0}")]
    Backup(#[from] BackupError),
    /// The backup could not be recovered.
    #[error("{0}")]
    Recover(#[from] RecoverError),
    /// The backup itself is becoming the datadir, and not all of it could be done.
    #[error(
        "{source}; {} stays where it is, half recovered: once that is mended, run the same command again to finish it",
        set.display()
    )]
    Half {
        /// The backup's directory.
        set: PathBuf,
        /// What failed.
        source: RecoverError,
    },
    /// A file system call failed.
    #[error("{0}")]
    Job(#[from] Error),
}

impl RestoreError {
    /// Whether damage is the reason, rather than circumstances.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Unpack(error) => error.is_damage(),
            Self::Backup(error) => error.is_damage(),
            Self::Recover(error) | Self::Half { source: error, .. } => error.is_damage(),
            Self::Refused(_) | Self::Job(_) => false,
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, RestoreError>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(RestoreError::Refused(why.into()))
}

/// For `map_err`: names the action and the file.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { path: path.to_path_buf(), action, source }
}
