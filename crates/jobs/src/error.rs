//! What keeps a job from doing the work asked for. Damage is not in here: damage is data and goes into the report.

use std::io;
use std::path::{Path, PathBuf};

use flow::{OptionsError, ReaderError};
use format::keyring::KeyringError;

/// Why a job could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused something.
    #[error("{path}: {action}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done, as a phrase ("reading the directory").
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody asked for the end, before the work was done.
    #[error("interrupted; unfinished output has been removed")]
    Interrupted,
    /// The machine does not give what reading takes, or sizes of [`flow::ReadOptions`] make no sense.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// A file of keys cannot be used.
    #[error("{path}: {source}")]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyringError,
    },
    /// There is no redo log that could be described.
    #[error("{path}: {source}")]
    RedoLog {
        /// The file, or the datadir.
        path: PathBuf,
        /// What is in the way.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file is not what the job needs.
    #[error("{path}: {why}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why not, as a clause.
        why: String,
    },
    /// The job works on sound files only, and this one is damaged.
    #[error("{path}: is damaged ({what}): see innokit table check")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The options contradict each other or the machine.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    pub(crate) fn redo_log(path: &Path, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::RedoLog { path: path.to_path_buf(), source: Box::new(source) }
    }
}

impl From<OptionsError> for Error {
    fn from(error: OptionsError) -> Self {
        Self::Reader(error.into())
    }
}
