//! What keeps a job from doing the work asked for. Damage is not in here: damage is data and goes into the report.

use std::io;
use std::path::PathBuf;

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
    #[error("interrupted; what was made for the work has been removed")]
    Interrupted,
    /// The options contradict each other or the machine.
    #[error("{0}")]
    Usage(String),
}
