//! Why a run ended early.

use std::io;
use std::sync::Arc;

/// Why blocks were not written. What was synced before is safe; the shadow is left for the next run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RewriteError {
    /// A request failed.
    #[error("{name}: {action}: {source}")]
    Io {
        /// The file's name.
        name: String,
        /// What was being done.
        action: &'static str,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// An earlier request failed: the content of the files is unknown.
    #[error("an earlier write failed; nothing more is written")]
    Latched,
    /// The system does not provide the memory, or no engine works.
    #[error("blocks cannot be rewritten: {0}")]
    Setup(Arc<io::Error>),
    /// A stretch is in a file that was not added, or is too long, or its change panicked.
    #[error("blocks cannot be rewritten: this is a bug in innokit")]
    Fault,
}

/// Why a run ended early.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError<E> {
    /// A stretch could not be changed.
    #[error("{0}")]
    Change(E),
    /// A stretch could not be read or written.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
}
