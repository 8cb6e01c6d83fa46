//! What durable writers do to files, step by step: recorded by tests, which then cut the power between any two steps.
//!
//! The simulated device (`queue::sim`) does that to the bytes of one file. This is for state that spans several files and their names:
//! files that are created, filled, renamed and removed. Only the steps of the recording thread are recorded.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;

/// One step. Until it is synced, any part of it may survive a crash: of a write, any sector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A file was created, empty.
    Create(PathBuf),
    /// Bytes were written at an offset.
    Write(PathBuf, u64, Vec<u8>),
    /// A file got this length.
    Resize(PathBuf, u64),
    /// What was done to the file before is durable.
    Sync(PathBuf),
    /// A file or directory was renamed.
    Rename(PathBuf, PathBuf),
    /// A file was removed.
    Remove(PathBuf),
    /// The names in a directory are durable.
    SyncDirectory(PathBuf),
}

thread_local! {
    static STEPS: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
}

/// Runs `work` and returns what it did to files.
pub fn recorded<T>(work: impl FnOnce() -> T) -> (T, Vec<Step>) {
    STEPS.set(Some(Vec::new()));
    let done = work();
    (done, STEPS.take().unwrap_or_default())
}

/// How many steps this thread has recorded so far.
#[must_use]
pub fn count() -> usize {
    STEPS.with_borrow(|steps| steps.as_ref().map_or(0, Vec::len))
}

/// Records a step that succeeded.
pub(crate) fn done<T>(outcome: io::Result<T>, step: impl FnOnce(&T) -> Step) -> io::Result<T> {
    if let Ok(value) = &outcome {
        STEPS.with_borrow_mut(|steps| {
            if let Some(steps) = steps {
                steps.push(step(value));
            }
        });
    }
    outcome
}
