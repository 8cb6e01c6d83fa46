//! What threads pay for sharing memory: counters on cache lines of their own, side by side, and one for all; weak orderings against
//! sequentially consistent ones; and how to spend the time while another thread has to write first.
//!
//! Threads are pinned to cores, so that two that should run side by side do. Measurements come in rounds over all rows; a figure is the
//! median of the rounds.

use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use serde::Serialize;

use super::machine::thread_time;
use super::stats::Repeated;

/// Number of rows in [`count`].
pub(super) const ROWS: u64 = (COUNTS.len() + WAITS.len()) as u64;
/// Operations between two looks at the clock.
const BATCH: u32 = 1000;

/// The cost of sharing.
#[derive(Debug, Clone, Serialize)]
pub struct Counting {
    /// Number of threads that count.
    pub threads: usize,
    /// Whether each was pinned to a core of its own: not if there are more threads than cores, or if the system refuses.
    pub pinned: bool,
    /// Bytes from one padded counter to the next.
    pub padding_bytes: usize,
    /// Nanoseconds per operation of each thread.
    pub counters: Vec<CountRow>,
    /// Nanoseconds for a word to go from one thread to another and back.
    pub waits: Vec<WaitRow>,
}

/// One way to count.
#[derive(Debug, Clone, Serialize)]
pub struct CountRow {
    /// Where the counters are.
    pub place: Place,
    /// What is done to them.
    pub operation: CountOperation,
    /// Nanoseconds per operation, mean over the threads.
    pub ns: Repeated,
}

/// One way to wait.
#[derive(Debug, Clone, Serialize)]
pub struct WaitRow {
    /// What is done between two looks.
    pub wait: Wait,
    /// Nanoseconds there and back.
    pub ns: Repeated,
    /// Processor time of both threads together over the time that passed: 2 if both had a core all the time.
    pub cores_used: f64,
}

/// Where the counters of the threads are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Each thread has one on cache lines of its own.
    Padded,
    /// Each thread has one, next to the others.
    SideBySide,
    /// All threads share one.
    Shared,
}

/// What a thread does to its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountOperation {
    /// Adds, relaxed.
    AddRelaxed,
    /// Adds, sequentially consistent.
    AddSeqCst,
    /// Stores, relaxed.
    StoreRelaxed,
    /// Stores, released.
    StoreRelease,
    /// Stores, sequentially consistent.
    StoreSeqCst,
}

/// What a thread does between two looks at a word that another is to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Nothing: it looks again.
    Nothing,
    /// `spin_loop`: PAUSE on x86-64, ISB on AArch64.
    SpinLoop,
    /// `yield_now`: the system runs another thread on this core, if there is one.
    Yield,
    /// `spin_loop` a hundred times, then `yield_now` each time.
    SpinThenYield,
    /// It sleeps until it is woken.
    Sleep,
}

const COUNTS: [(Place, CountOperation); 8] = [
    (Place::Padded, CountOperation::AddRelaxed),
    (Place::SideBySide, CountOperation::AddRelaxed),
    (Place::Shared, CountOperation::AddRelaxed),
    (Place::Padded, CountOperation::AddSeqCst),
    (Place::Shared, CountOperation::AddSeqCst),
    (Place::Padded, CountOperation::StoreRelaxed),
    (Place::Padded, CountOperation::StoreRelease),
    (Place::Padded, CountOperation::StoreSeqCst),
];

const WAITS: [Wait; 5] = [Wait::Nothing, Wait::SpinLoop, Wait::Yield, Wait::SpinThenYield, Wait::Sleep];

/// Measures each row for `slice` in each round. Calls `step` with what is next.
pub(super) fn count(threads: usize, rounds: u32, slice: Duration, step: &mut dyn FnMut(&str)) -> Counting {
    let threads = threads.max(1);
    let cores = Cores::here();
    let mut counters = vec![Vec::new(); COUNTS.len()];
    let mut waits = vec![(Vec::new(), Vec::new()); WAITS.len()];
    for _ in 0..rounds.max(1) {
        for ((place, operation), costs) in COUNTS.iter().zip(&mut counters) {
            step("counters");
            costs.push(counted(*place, *operation, threads, slice, &cores));
        }
        for (wait, (costs, used)) in WAITS.iter().zip(&mut waits) {
            step("waits");
            let (cost, cores_used) = to_and_fro(*wait, slice, &cores);
            costs.push(cost);
            used.push(cores_used);
        }
    }
    let counters = COUNTS.iter().zip(counters);
    let waits = WAITS.iter().zip(waits);
    Counting {
        threads,
        pinned: cores.can_pin(threads),
        padding_bytes: size_of::<CachePadded<AtomicU64>>(),
        counters: counters
            .map(|((place, operation), ns)| CountRow { place: *place, operation: *operation, ns: Repeated::of(&ns) })
            .collect(),
        waits: waits
            .map(|(wait, (ns, used))| WaitRow {
                wait: *wait,
                ns: Repeated::of(&ns),
                cores_used: super::stats::median(&used),
            })
            .collect(),
    }
}

/// The cores that this process may use.
struct Cores(Vec<usize>);

impl Cores {
    #[cfg(target_os = "linux")]
    fn here() -> Self {
        use rustix::thread::{CpuSet, sched_getaffinity};
        let allowed = sched_getaffinity(None).ok();
        let allowed = allowed.map(|set| (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect());
        Self(allowed.unwrap_or_default())
    }

    #[cfg(not(target_os = "linux"))]
    fn here() -> Self {
        Self(Vec::new())
    }

    fn can_pin(&self, threads: usize) -> bool {
        threads <= self.0.len()
    }

    /// Pins the calling thread to the `number`-th core, if there are enough for all. Without it the figures are noisier, not wrong.
    fn pin(&self, number: usize, threads: usize) {
        if let Some(core) = self.0.get(number).filter(|_| self.can_pin(threads)) {
            pin_to(*core);
        }
    }
}

#[cfg(target_os = "linux")]
fn pin_to(core: usize) {
    let mut only = rustix::thread::CpuSet::new();
    only.set(core);
    rustix::thread::sched_setaffinity(None, &only).ok();
}

#[cfg(not(target_os = "linux"))]
fn pin_to(_core: usize) {}

/// Nanoseconds per operation, with all threads counting at the same time.
fn counted(place: Place, operation: CountOperation, threads: usize, slice: Duration, cores: &Cores) -> f64 {
    let padded: Vec<CachePadded<AtomicU64>> = (0..threads).map(|_| CachePadded::default()).collect();
    let neighbours: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let shared = CachePadded::new(AtomicU64::new(0));
    let counters: Vec<&AtomicU64> = match place {
        Place::Padded => padded.iter().map(|counter| &**counter).collect(),
        Place::SideBySide => neighbours.iter().collect(),
        Place::Shared => (0..threads).map(|_| &*shared).collect(),
    };
    // Relaxed, Release: what is measured. One function for each, because the ordering must be known where it is compiled.
    let work: fn(&AtomicU64, u64) = match operation {
        CountOperation::AddRelaxed => |counter, _| {
            counter.fetch_add(1, Ordering::Relaxed);
        },
        CountOperation::AddSeqCst => |counter, _| {
            counter.fetch_add(1, Ordering::SeqCst);
        },
        CountOperation::StoreRelaxed => |counter, value| counter.store(value, Ordering::Relaxed),
        CountOperation::StoreRelease => |counter, value| counter.store(value, Ordering::Release),
        CountOperation::StoreSeqCst => |counter, value| counter.store(value, Ordering::SeqCst),
    };
    let start = Barrier::new(threads);
    let costs: Vec<f64> = std::thread::scope(|scope| {
        let start = &start;
        let running: Vec<_> = counters
            .into_iter()
            .enumerate()
            .map(|(number, counter)| {
                scope.spawn(move || {
                    cores.pin(number, threads);
                    start.wait();
                    repeat_for(slice, |value| work(black_box(counter), value))
                })
            })
            .collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    costs.iter().sum::<f64>() / costs.len().max(1) as f64
}

fn repeat_for(slice: Duration, work: impl Fn(u64)) -> f64 {
    let (began, mut batches) = (Instant::now(), 0_u32);
    while batches == 0 || began.elapsed() < slice {
        (0..u64::from(BATCH)).for_each(&work);
        batches += 1;
    }
    began.elapsed().as_nanos() as f64 / f64::from(batches) / f64::from(BATCH)
}

/// The last value of the word: both threads end.
const OVER: u64 = u64::MAX;

/// Two threads write a word by turns: one the odd values, the other the even ones. Nanoseconds there and back, and the cores that both
/// used meanwhile.
fn to_and_fro(wait: Wait, slice: Duration, cores: &Cores) -> (f64, f64) {
    let word = CachePadded::new(AtomicU64::new(0));
    let (word, start) = (&*word, &Barrier::new(2));
    std::thread::scope(|scope| {
        // Both in threads of their own, so that the caller's stays unpinned.
        let (tell, told) = std::sync::mpsc::channel();
        let second = scope.spawn(move || {
            cores.pin(1, 2);
            let Ok(first) = told.recv() else { return Duration::ZERO };
            start.wait();
            let before = thread_time();
            let mut turn = 1;
            while await_word(word, turn, wait) {
                hand_over(word, turn + 1, wait, &first);
                turn += 2;
            }
            thread_time().saturating_sub(before)
        });
        let other = second.thread().clone();
        let first = scope.spawn(move || {
            cores.pin(0, 2);
            tell.send(std::thread::current()).ok();
            start.wait();
            let (began, before, mut turn) = (Instant::now(), thread_time(), 0);
            while turn == 0 || began.elapsed() < slice {
                hand_over(word, turn + 1, wait, &other);
                turn += 2;
                await_word(word, turn, wait);
            }
            let (took, used) = (began.elapsed(), thread_time().saturating_sub(before));
            hand_over(word, OVER, wait, &other);
            (took, used, turn / 2)
        });
        let (took, used, turns) = first.join().unwrap_or((Duration::ZERO, Duration::ZERO, 1));
        let used = used + second.join().unwrap_or_default();
        let ns = took.as_nanos() as f64;
        (ns / turns.max(1) as f64, used.as_nanos() as f64 / ns.max(1.0))
    })
}

fn hand_over(word: &AtomicU64, value: u64, wait: Wait, other: &std::thread::Thread) {
    // Release: as in a handshake that has written something for the other before.
    word.store(value, Ordering::Release);
    if wait == Wait::Sleep {
        other.unpark();
    }
}

/// Whether the word got this value, or the other thread is done.
fn await_word(word: &AtomicU64, value: u64, wait: Wait) -> bool {
    let mut looks = 0_u32;
    loop {
        // Acquire: pairs with the store in `hand_over`.
        match word.load(Ordering::Acquire) {
            OVER => return false,
            seen if seen == value => return true,
            _ => {}
        }
        looks = looks.saturating_add(1);
        match wait {
            Wait::Nothing => {}
            Wait::SpinLoop => spin_loop(),
            Wait::SpinThenYield if looks < SPINS => spin_loop(),
            Wait::Yield | Wait::SpinThenYield => std::thread::yield_now(),
            Wait::Sleep => std::thread::park(),
        }
    }
}

/// Looks before the first yield.
const SPINS: u32 = 100;
