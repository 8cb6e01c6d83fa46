//! The flag through which a caller ends a job early.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the job should end.
pub fn is_told(stop: &AtomicBool) -> bool {
    // Relaxed: the flag publishes no other data, and seeing it a moment late does no harm.
    stop.load(Ordering::Relaxed)
}
