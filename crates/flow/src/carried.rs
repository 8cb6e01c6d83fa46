//! Files that bring along the engine that reads them, such as objects in a bucket.

use std::path::PathBuf;

use crate::FileSet;
use crate::queue::OpenQueue;

/// An engine that a [`FileSet`] brings along.
pub trait SharedEngine: OpenQueue + Send + std::fmt::Debug {}

impl<E: OpenQueue + Send + std::fmt::Debug> SharedEngine for E {}

impl FileSet {
    /// Files, some of which `engine` keeps: each with its path, the number of bytes to read, and whether the engine keeps it. The others
    /// are opened by their paths. Every reader of this set sends its requests through `engine`, whatever its options say; requests for the
    /// files that the engine does not keep carry an open [`FileHandle`](crate::FileHandle).
    pub fn carried_by(engine: Box<dyn SharedEngine>, files: impl IntoIterator<Item = (PathBuf, u64, bool)>) -> Self {
        Self::with_carrier(Box::new(engine), files)
    }

    /// Whether the set brings its engine along.
    #[must_use]
    pub fn is_carried(&self) -> bool {
        self.engine().is_some()
    }

    /// The engine that must carry the requests for these files, if there is one.
    pub(crate) fn engine(&self) -> Option<&dyn OpenQueue> {
        self.carrier::<Box<dyn SharedEngine>>().map(|engine| engine.as_ref() as &dyn OpenQueue)
    }
}
