//! Two things at once, one of which is given up when the other fails.

use std::sync::atomic::{AtomicBool, Ordering};

use flow::run_both;

use crate::recover::error::Result;

/// Runs `work` on this thread, and `other` on one of its own. If `work` fails, `stop` is set, which `other` looks at, and the error is that
/// of `work`.
pub(in crate::recover) fn beside<T>(
    stop: &AtomicBool,
    other: impl FnOnce() -> Result<()> + Send,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    // Relaxed: a moment later will do.
    let (other, done) = run_both(other, || work().inspect_err(|_| stop.store(true, Ordering::Relaxed)));
    let done = done?;
    other.map(|()| done)
}
