//! Threads that count as fast as they can: each on its own cache line (like innokit's workers), each next to the other counters, and all on
//! one counter.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use serde::Serialize;

/// Number of measurements in [`count`].
pub(super) const WAYS: u64 = 3;

/// The cost of counting: nanoseconds per relaxed addition of each thread.
#[derive(Debug, Clone, Serialize)]
pub struct Counting {
    /// Number of threads.
    pub threads: usize,
    /// Bytes from one padded counter to the next.
    pub padding_bytes: usize,
    /// Each thread has its own counter on its own cache line.
    pub padded_ns: f64,
    /// Each thread has its own counter, next to the others.
    pub neighbours_ns: f64,
    /// All threads share one counter.
    pub shared_ns: f64,
}

/// Counts in the three ways, each for `slice`. Calls `step` with the name of the next.
pub(super) fn count(threads: usize, slice: Duration, step: &mut dyn FnMut(&str)) -> Counting {
    let threads = threads.max(1);
    let padded: Vec<CachePadded<AtomicU64>> = (0..threads).map(|_| CachePadded::default()).collect();
    let neighbours: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let shared = AtomicU64::new(0);
    step("counters on cache lines of their own");
    let padded_ns = run(slice, padded.iter().map(|counter| &**counter));
    step("counters side by side");
    let neighbours_ns = run(slice, neighbours.iter());
    step("one counter for all threads");
    let shared_ns = run(slice, (0..threads).map(|_| &shared));
    let padding_bytes = size_of::<CachePadded<AtomicU64>>();
    Counting { threads, padding_bytes, padded_ns, neighbours_ns, shared_ns }
}

/// Nanoseconds per addition, with one thread for each of `counters`, all at the same time.
fn run<'c>(slice: Duration, counters: impl Iterator<Item = &'c AtomicU64>) -> f64 {
    let counters: Vec<&AtomicU64> = counters.collect();
    let start = Barrier::new(counters.len());
    let costs: Vec<f64> = std::thread::scope(|scope| {
        let start = &start;
        let running: Vec<_> =
            counters.into_iter().map(|counter| scope.spawn(move || add_for(slice, counter, start))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    costs.iter().sum::<f64>() / costs.len().max(1) as f64
}

fn add_for(slice: Duration, counter: &AtomicU64, start: &Barrier) -> f64 {
    const BATCH: u32 = 1000;
    start.wait();
    let (began, mut batches) = (Instant::now(), 0_u32);
    while batches == 0 || began.elapsed() < slice {
        for _ in 0..BATCH {
            black_box(counter).fetch_add(1, Ordering::Relaxed);
        }
        batches += 1;
    }
    began.elapsed().as_nanos() as f64 / f64::from(batches) / f64::from(BATCH)
}
