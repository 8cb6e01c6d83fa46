//! Two things at once, one of which is given up when the other fails.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::error::Result;

/// Runs `work` on this thread, and `other` on one of its own. If `work` fails, `stop` is set, which `other` looks at, and the error is that
/// of `work`.
pub(super) fn beside<T>(
    stop: &AtomicBool,
    other: impl FnOnce() -> Result<()> + Send,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    thread::scope(|scope| {
        let other = scope.spawn(other);
        // Relaxed: a moment later will do.
        let done = work().inspect_err(|_| stop.store(true, Ordering::Relaxed));
        let other = other.join().unwrap_or_else(|panic| resume_unwind(panic));
        let done = done?;
        other.map(|()| done)
    })
}
