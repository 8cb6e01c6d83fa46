//! Why a job could not do its work. Damage is not an error: it is data and goes into the report.

use std::io;
use std::path::{Path, PathBuf};

use flow::{OptionsError, ReaderError};
use format::keyring::KeyringError;

/// Why a job could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file system call failed.
    #[error("{path}: {action}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The action, as a phrase ("reading the directory").
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The run was interrupted before the work was done.
    #[error("interrupted; unfinished output has been removed")]
    Interrupted,
    /// The machine lacks what reading needs, or the sizes in [`flow::ReadOptions`] make no sense.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// A key file cannot be used.
    #[error("{path}: {source}")]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyringError,
    },
    /// The redo log is missing, or cannot be read.
    #[error("{path}: {source}")]
    RedoLog {
        /// The file, or the datadir.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The job cannot work on this file.
    #[error("{path}: {why}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why not, as a clause.
        why: String,
    },
    /// The job works only on sound files, and this one is damaged.
    #[error("{path}: is damaged ({what}): see innokit table check")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The options contradict each other, or this machine or these files do not allow them.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    pub fn redo_log(path: &Path, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::RedoLog { path: path.to_path_buf(), source: Box::new(source) }
    }
}

impl From<OptionsError> for Error {
    fn from(error: OptionsError) -> Self {
        Self::Reader(error.into())
    }
}

impl Error {
    /// Whether a file did not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
