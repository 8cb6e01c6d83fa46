//! A counter that one worker writes and anyone reads meanwhile.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// Starts at 0.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to it. A read-modify-write, because the workers beyond the announced number share their counters.
    pub(crate) fn add(&self, value: u64) {
        // Relaxed: it is only a number. No reader concludes from it that other memory was written.
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    /// Raises it to `value`, if that is more.
    pub(crate) fn raise(&self, value: u64) {
        // Relaxed: as `add`.
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// Its value: exact once the workers have been joined, and never falling before.
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: joining the workers orders all their additions before; meanwhile any of the latest values will do.
        self.0.load(Ordering::Relaxed)
    }
}
