//! What happened, as counters that another thread can read meanwhile.

use std::time::Duration;

use crate::counter::Counter;
use crate::sync::Padded;

/// The counters of all workers, each on its own cache lines. Created before the workers start, readable at any time.
#[derive(Debug)]
pub struct Counters {
    workers: Box<[Padded<WorkerCounters>]>,
    /// Shared by workers beyond the announced number.
    spare: Padded<WorkerCounters>,
}

impl Counters {
    /// Counters at zero for `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| Padded::default()).collect(), spare: Padded::default() }
    }

    /// The counters of one worker. Workers beyond the number given to [`Counters::new`] share one set.
    #[must_use]
    pub fn worker(&self, index: usize) -> &WorkerCounters {
        self.workers.get(index).unwrap_or(&self.spare)
    }

    /// Says how many files, or tables, there are.
    #[must_use]
    pub fn expecting(self, files: usize) -> Self {
        add(&self.spare.files_known, files as u64);
        self
    }

    /// The current sum over all workers.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.workers.iter().chain([&self.spare]).fold(Counts::default(), |sum, worker| sum.plus(&worker.counts()))
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The counters of one worker: relaxed atomics, which one thread writes and any thread reads.
        #[derive(Debug, Default)]
        pub struct WorkerCounters {
            $(pub(crate) $name: Counter,)+
        }

        impl WorkerCounters {
            /// The current values; not a snapshot across fields.
            #[must_use]
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)+ }
            }
        }

        /// Values of counters.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)+
        }
    };
}

counters! {
    /// Bytes handed over that came from a file, without gaps and without bytes read twice.
    bytes_read,
    /// Of these, bytes read with direct I/O (`O_DIRECT`).
    bytes_direct,
    /// Of these, bytes found in the page cache and read from there by the worker itself.
    bytes_cached,
    /// Read requests, of the queue and of the worker itself.
    requests,
    /// Of these, retries for a part of a block, after a short read or an error.
    retries,
    /// Nanoseconds in which the worker only waited for the queue.
    wait_ns,
    /// Of these, requests of the queue.
    queued,
    /// Sum, over all requests of the queue, of the worker's requests in flight right after each was submitted.
    in_flight_sum,
    /// The most requests of one worker in flight (in a total, the largest over the workers).
    in_flight_max,
    /// Files opened.
    opens,
    /// Opened files that refused `O_DIRECT` and were read through the page cache.
    direct_refused,
    /// Pieces handed over with at least one gap.
    pieces_with_gaps,
    /// Files, or tables, that the run is done with.
    files_done,
    /// How many there are in all, if the run says so.
    files_known,
}

impl Counts {
    fn plus(self, other: &Self) -> Self {
        Self {
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_direct: self.bytes_direct + other.bytes_direct,
            bytes_cached: self.bytes_cached + other.bytes_cached,
            requests: self.requests + other.requests,
            retries: self.retries + other.retries,
            wait_ns: self.wait_ns + other.wait_ns,
            queued: self.queued + other.queued,
            in_flight_sum: self.in_flight_sum + other.in_flight_sum,
            in_flight_max: self.in_flight_max.max(other.in_flight_max),
            opens: self.opens + other.opens,
            direct_refused: self.direct_refused + other.direct_refused,
            pieces_with_gaps: self.pieces_with_gaps + other.pieces_with_gaps,
            files_done: self.files_done + other.files_done,
            files_known: self.files_known + other.files_known,
        }
    }

    /// Mean number of a worker's requests in flight when one is submitted, including itself; 0 without requests.
    #[must_use]
    pub fn in_flight_mean(&self) -> f64 {
        self.in_flight_sum as f64 / self.queued.max(1) as f64
    }

    /// The time of [`Counts::wait_ns`].
    #[must_use]
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.wait_ns)
    }
}

impl WorkerCounters {
    /// Counts files, or tables, that the run is done with.
    pub fn done_with(&self, files: usize) {
        add(&self.files_done, files as u64);
    }

    /// Counts a piece if it has gaps.
    pub(crate) fn count_gaps(&self, gaps: &[crate::Gap]) {
        if !gaps.is_empty() {
            add(&self.pieces_with_gaps, 1);
        }
    }
}

/// Adds to a counter that only its own worker writes.
pub(crate) fn add(counter: &Counter, value: u64) {
    counter.add(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_sums_the_workers_and_takes_the_largest_window() {
        let counters = Counters::new(2);
        for (worker, bytes, window) in [(0, 10, 8), (1, 20, 3), (7, 30, 1)] {
            add(&counters.worker(worker).bytes_read, bytes);
            counters.worker(worker).in_flight_max.raise(window);
        }
        assert_eq!(counters.total(), Counts { bytes_read: 60, in_flight_max: 8, ..Counts::default() });
        assert_eq!(counters.worker(1).counts().bytes_read, 20);
    }

    #[test]
    fn workers_do_not_share_a_cache_line() {
        assert!(align_of::<Padded<WorkerCounters>>() >= 64);
    }
}
