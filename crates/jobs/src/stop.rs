//! The flag through which a caller ends a job early.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the job should end.
pub(crate) fn is_told(stop: &AtomicBool) -> bool {
    // Relaxed: whoever sets it hands over nothing else, and a moment later is early enough.
    stop.load(Ordering::Relaxed)
}
