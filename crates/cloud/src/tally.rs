//! Counts of requests, for `-v`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The counts of this process.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Range requests, including retries.
    pub ranges: AtomicU64,
    /// Bytes that arrived and were used.
    pub bytes: AtomicU64,
    /// Lookups of single objects, including retries.
    pub heads: AtomicU64,
    /// Listings started, including retries. Each takes one request per thousand objects.
    pub lists: AtomicU64,
    /// Retries.
    retries: AtomicU64,
    last_reason: Mutex<Option<String>>,
}

impl Tally {
    pub fn count(counter: &AtomicU64, by: u64) {
        // Relaxed, here and below: counts for people.
        counter.fetch_add(by, Ordering::Relaxed);
    }

    pub fn retried(&self, reason: &str) {
        Self::count(&self.retries, 1);
        *self.last_reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
    }

    /// As sentences; empty if nothing was requested.
    pub fn notes(&self) -> Vec<String> {
        let [ranges, bytes, heads, lists, retries] =
            [&self.ranges, &self.bytes, &self.heads, &self.lists, &self.retries]
                // Relaxed: see above.
                .map(|counter| counter.load(Ordering::Relaxed));
        if ranges + heads + lists == 0 {
            return Vec::new();
        }
        let mut notes = vec![format!(
            "object storage: {ranges} range requests for {bytes} bytes, {heads} lookups, {lists} listings"
        )];
        let reason = self.last_reason.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = &*reason {
            notes.push(format!("object storage: {retries} requests were repeated, the last because of this: {reason}"));
        }
        notes
    }
}
