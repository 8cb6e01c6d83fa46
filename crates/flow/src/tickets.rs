//! Numbers from 0, each given once: what workers share to divide work.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU64, Padded};

/// Gives out the numbers. Padded: each worker writes it for each block, while all read what lies beside it.
#[derive(Debug)]
pub(crate) struct Tickets(Padded<AtomicU64>);

impl Tickets {
    /// Starts at 0.
    pub(crate) fn new() -> Self {
        Self(Padded::new(AtomicU64::new(0)))
    }

    /// The next number. Each is given to one caller, even when many call at once.
    pub(crate) fn take(&self) -> u64 {
        // Relaxed: additions to one word have one order whatever their ordering, and that is what makes each number unique. What a number
        // stands for was there before the workers started, so nothing else need be visible.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// How many numbers were taken. This exceeds the number of blocks once callers have called in vain.
    pub(crate) fn taken(&self) -> u64 {
        // Relaxed: it only helps to choose where to take next, and may be wrong for a moment.
        self.0.load(Ordering::Relaxed)
    }

    /// From now on all numbers are at least half of `u64::MAX`: past any end, and far from where additions would wrap around.
    pub(crate) fn stop(&self) {
        // Relaxed: stops soon, not at once. A number taken before stays valid. A read-modify-write as in `take`, not a store, so that this
        // too has its one place in the order of the numbers.
        self.0.fetch_max(u64::MAX / 2, Ordering::Relaxed);
    }
}
