//! Threads that count as fast as they can: each on a cache line of its own (as innokit's workers do), each on a neighbour of the
//! others' counters, all on one counter.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use serde::Serialize;

/// Measurements of [`count`].
pub(super) const WAYS: u64 = 3;

/// What counting costs, nanoseconds for each addition of each thread; the additions are relaxed.
#[derive(Debug, Clone, Serialize)]
pub struct Counting {
    /// Threads that counted.
    pub threads: usize,
    /// Bytes from one padded counter to the next.
    pub padding_bytes: usize,
    /// Each thread has a counter on a cache line of its own.
    pub padded_ns: f64,
    /// Each thread has a counter of its own, next to the others'.
    pub neighbours_ns: f64,
    /// All threads have one counter.
    pub shared_ns: f64,
}

/// Counts in the three ways, each for `slice`. `step` hears which comes next.
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

/// Nanoseconds an addition takes, where one thread for each of `counters` adds to it, all at the same time.
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
