//! Why there is no mount.

use std::io;
use std::path::{Path, PathBuf};

use recovery::RecoverError;

/// Why a set was not mounted, or the mount ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// There is no view of the set at that moment.
    #[error("{0}")]
    View(#[from] RecoverError),
    /// Not this set, or not like this. The message names the file and the way out.
    #[error("{0}")]
    Refused(String),
    /// The system refused.
    #[error("{}: {what}: {source}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

pub(crate) type Result<T> = std::result::Result<T, MountError>;

pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(MountError::Refused(why.into()))
}

pub(crate) fn failed(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> MountError {
    let path = path.to_path_buf();
    move |source| MountError::System { path, what, source }
}
