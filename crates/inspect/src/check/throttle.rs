//! Rate limit: leaves the device to others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::report::watcher::Watcher;

/// Interval at which a sleeping worker asks whether the run was stopped.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits all workers together to one rate, as they share the device it protects.
pub(super) struct Throttle {
    rate: Option<u64>,
    watcher: Watcher,
    start: Instant,
    bytes: AtomicU64,
}

impl Throttle {
    pub fn new(rate: Option<u64>, watcher: Watcher) -> Self {
        Self { rate, watcher, start: Instant::now(), bytes: AtomicU64::new(0) }
    }

    /// Sleeps until `bytes` more bytes are due.
    pub fn took(&self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        // Relaxed: a sum; each worker waits by the one that it added to.
        let total = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let due = Duration::from_secs_f64(total as f64 / rate.max(1) as f64);
        loop {
            let left = due.saturating_sub(self.start.elapsed());
            if left.is_zero() || self.watcher.is_stopped() {
                return;
            }
            std::thread::sleep(left.min(PAUSE));
        }
    }
}
