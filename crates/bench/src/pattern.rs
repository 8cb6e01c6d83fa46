//! One way of moving bytes, and how fast it is: `Pattern + BenchFile -> Queue -> Sample`.
//!
//! Each thread has its own queue and buffers, like each worker of a check. Sequential threads take their blocks from one cursor, so that
//! the device sees one stream. Random blocks come in a fixed order that contains each block of the file once.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use flow::queue::{Completion, Mapped, OpenQueue, Operation, Queue, Request};
use flow::{BufferPool, Engine, FileHandle, FileId, run_workers};
use serde::Serialize;

use super::stats::Latency;
use super::target::BenchFile;

/// What is done with the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// They are read.
    Read,
    /// They are written with random bytes. One sync at the end, whose time counts, makes them durable.
    Write,
}

/// The order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One after another.
    Sequential,
    /// All over the file, each block once before any is repeated.
    Random,
}

/// Direct or buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Direct I/O, bypassing the page cache.
    Direct,
    /// Through the page cache, from which the file was dropped beforehand.
    Buffered,
}

/// The I/O engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// `io_uring`.
    Uring,
    /// A thread for each request.
    Threads,
    /// `io_submit`, the older asynchronous I/O of Linux.
    Libaio,
    /// The file is mapped into memory. One request at a time, through the page cache.
    Mmap,
}

impl Carrier {
    /// The engines of innokit's jobs.
    pub const JOBS: [Self; 2] = [Self::Uring, Self::Threads];
    /// All engines.
    pub const ALL: [Self; 4] = [Self::Uring, Self::Threads, Self::Libaio, Self::Mmap];

    /// Its usual name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Threads => "threads",
            Self::Libaio => "libaio",
            Self::Mmap => "mmap",
        }
    }

    /// Whether it can move bytes this way at all.
    #[must_use]
    pub fn goes(self, way: Way) -> bool {
        self != Self::Mmap || way == Way::Buffered
    }

    /// Whether it works here, or why not.
    ///
    /// # Errors
    /// The system's error message.
    pub fn works(self) -> Result<(), String> {
        let pool = BufferPool::new(1, 4096).map_err(|error| error.to_string())?;
        let queue = self.open(Access::Read, Order::Random, 1, &pool);
        queue.map(drop).map_err(|error| error.to_string())
    }

    fn open(self, access: Access, order: Order, depth: u32, pool: &BufferPool) -> io::Result<Box<dyn Queue>> {
        let mapped = Mapped { writes: access == Access::Write, is_random: order == Order::Random };
        let engine: Option<&dyn OpenQueue> = match self {
            Self::Uring => Engine::Uring.candidates().first().copied(),
            Self::Threads => Engine::Threads.candidates().first().copied(),
            Self::Libaio => native(),
            Self::Mmap => Some(&mapped),
        };
        engine.ok_or(io::ErrorKind::Unsupported)?.open(depth, pool.free())
    }
}

#[cfg(target_os = "linux")]
fn native() -> Option<&'static dyn OpenQueue> {
    Some(&flow::queue::Aio)
}

#[cfg(not(target_os = "linux"))]
fn native() -> Option<&'static dyn OpenQueue> {
    None
}

/// The variable settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Setting {
    /// The I/O engine.
    pub engine: Carrier,
    /// Bytes of a request.
    pub block_size: u32,
    /// Requests in flight for each thread.
    pub depth: u32,
    /// Threads.
    pub threads: u32,
}

impl Setting {
    /// The same with another engine. A mapped file has one access in flight for each thread.
    #[must_use]
    pub(crate) const fn by(self, engine: Carrier) -> Self {
        let depth = match engine {
            Carrier::Mmap => 1,
            _ => self.depth,
        };
        Self { engine, depth, ..self }
    }
}

/// One way of moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Pattern {
    /// What is done with the blocks.
    pub access: Access,
    /// The order of the blocks.
    pub order: Order,
    /// Direct or buffered.
    pub way: Way,
    /// The rest.
    #[serde(flatten)]
    pub setting: Setting,
}

/// The result of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Bytes moved.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
    /// From the first request to the last completion.
    pub seconds: f64,
    /// Latency of requests.
    pub latency: Latency,
}

impl Sample {
    /// Bytes a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }

    /// Requests a second.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }
}

/// Runs a pattern for `time`, but only once through the file if the page cache would serve a second pass.
///
/// # Errors
/// If the file system refuses direct I/O, if the engine does not work, or if the device fails.
pub fn run(pattern: &Pattern, target: &BenchFile, time: Duration, stop: &AtomicBool) -> io::Result<Sample> {
    let handle =
        target.handle(pattern.way == Way::Direct).map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))?;
    let threads = pattern.setting.threads.max(1);
    let blocks = Blocks::of(pattern, target);
    let ready = Barrier::new(threads as usize);
    let outcomes = run_workers(threads as usize, |_| {
        let lane = Lane::open(pattern);
        // A thread that fails to open must not leave the others at the barrier.
        ready.wait();
        let start = Instant::now();
        let mut lane = lane?;
        lane.run(&blocks, handle, &Deadline { start, time, stop })?;
        Ok::<_, io::Error>(LaneOutcome { start, end: Instant::now(), bytes: lane.bytes, times: lane.times })
    });
    let outcomes = outcomes.into_iter().collect::<io::Result<Vec<_>>>()?;
    // Relaxed: the threads have been joined, and patterns run one after another.
    target.position.store(blocks.next.load(Ordering::Relaxed).saturating_mul(blocks.block_size), Ordering::Relaxed);
    let start = outcomes.iter().map(|outcome| outcome.start).min();
    let mut end = outcomes.iter().map(|outcome| outcome.end).max();
    if pattern.access == Access::Write {
        target.file().sync_data()?;
        end = Some(Instant::now());
    }
    let seconds = start.zip(end).map_or(0.0, |(start, end)| (end - start).as_secs_f64());
    let bytes = outcomes.iter().map(|outcome| outcome.bytes).sum();
    let times: Vec<u32> = outcomes.into_iter().flat_map(|outcome| outcome.times).collect();
    Ok(Sample { bytes, requests: times.len() as u64, seconds, latency: Latency::of(times) })
}

/// The result of one thread.
struct LaneOutcome {
    start: Instant,
    end: Instant,
    bytes: u64,
    times: Vec<u32>,
}

/// When to stop submitting.
struct Deadline<'s> {
    start: Instant,
    time: Duration,
    stop: &'s AtomicBool,
}

impl Deadline<'_> {
    fn has_passed(&self, now: Instant) -> bool {
        // Relaxed: a flag that only says "end soon".
        now.duration_since(self.start) >= self.time || self.stop.load(Ordering::Relaxed)
    }
}

/// The offsets, shared by all threads.
struct Blocks {
    order: Order,
    block_size: u64,
    count: u64,
    /// The number at which to stop; `u64::MAX` for a pattern that may start over.
    end: u64,
    /// Padded: all threads write it, and read what lies beside it.
    next: CachePadded<AtomicU64>,
}

impl Blocks {
    /// Starts where the last pattern ended, so that a cache below the system does not hold the next blocks.
    fn of(pattern: &Pattern, target: &BenchFile) -> Self {
        let block_size = u64::from(pattern.setting.block_size.max(1));
        let count = target.len / block_size;
        // Relaxed: patterns run one after another.
        let first = (target.position.load(Ordering::Relaxed) / block_size).checked_rem(count).unwrap_or(0);
        let end = if pattern.way == Way::Direct && !target.once { u64::MAX } else { first + count };
        Self { order: pattern.order, block_size, count, end, next: CachePadded::new(AtomicU64::new(first)) }
    }

    fn next(&self) -> Option<u64> {
        // Relaxed: additions to one word have one order, so each number is taken once; what it stands for does not change.
        let taken = self.next.fetch_add(1, Ordering::Relaxed);
        let index = taken.checked_rem(self.count).filter(|_| taken < self.end)?;
        let block = match self.order {
            Order::Sequential => index,
            Order::Random => scattered(index, self.count),
        };
        Some(block * self.block_size)
    }
}

/// A permutation of `0..count` that a device cannot predict: a Feistel network over the bits of `count`, repeated until the value is below
/// `count`.
fn scattered(index: u64, count: u64) -> u64 {
    let half = (u64::BITS - (count - 1).max(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1_u64 << half) - 1;
    let mut value = index;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 1..=4_u64 {
            (left, right) = (right, left ^ (mixed(right ^ (round << 56)) & mask));
        }
        value = (left << half) | right;
        if value < count {
            return value;
        }
    }
}

/// Fills every buffer with random bytes, so that no device can compress the writes.
fn scramble(pool: &mut BufferPool) {
    let mut buffers: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    let mut random = Random::default();
    buffers.iter_mut().for_each(|buffer| random.fill(buffer.bytes_mut()));
    buffers.into_iter().for_each(|buffer| pool.give_back(buffer));
}

/// Xorshift: bytes without a pattern, at the speed of memory.
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x2545_F491_4F6C_DD1D)
    }
}

impl Random {
    /// Fills with the next bytes; up to seven at the end stay as they are.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_be_bytes());
        }
    }
}

/// Mixes every input bit into every output bit, like the finalizer of SplitMix64.
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A thread's queue and what it measured.
struct Lane {
    operation: Operation,
    queue: Box<dyn Queue>,
    pool: BufferPool,
    depth: usize,
    /// When each request in flight was submitted, by its token.
    since: Vec<Instant>,
    free: Vec<usize>,
    bytes: u64,
    /// Nanoseconds of each request.
    times: Vec<u32>,
}

impl Lane {
    fn open(pattern: &Pattern) -> io::Result<Self> {
        let Pattern { access, order, setting, .. } = *pattern;
        let depth = u16::try_from(setting.depth.max(1)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut pool = BufferPool::in_huge_pages(depth, setting.block_size)?;
        let operation = match access {
            Access::Read => Operation::Read,
            Access::Write => {
                scramble(&mut pool);
                Operation::Write
            }
        };
        let queue = setting.engine.open(access, order, u32::from(depth), &pool)?;
        let depth = usize::from(depth);
        let now = Instant::now();
        let (since, free) = (vec![now; depth], (0..depth).collect());
        Ok(Self { operation, queue, pool, depth, since, free, bytes: 0, times: Vec::with_capacity(1 << 16) })
    }

    fn run(&mut self, blocks: &Blocks, handle: &FileHandle, deadline: &Deadline<'_>) -> io::Result<()> {
        let mut done = Vec::with_capacity(self.depth);
        let mut more = true;
        loop {
            let now = Instant::now();
            more = more && !deadline.has_passed(now);
            while more && !self.free.is_empty() {
                match blocks.next() {
                    Some(offset) => self.submit(handle, offset, blocks.block_size as u32, now),
                    None => more = false,
                }
            }
            if self.free.len() == self.depth {
                return Ok(());
            }
            self.queue.wait(&mut done)?;
            let now = Instant::now();
            for completion in done.drain(..) {
                self.complete(completion, blocks.block_size as u32, now)?;
            }
        }
    }

    fn submit(&mut self, handle: &FileHandle, offset: u64, len: u32, now: Instant) {
        let (Some(buffer), Some(token)) = (self.pool.take(), self.free.pop()) else { return };
        if let Some(since) = self.since.get_mut(token) {
            *since = now;
        }
        let handle = handle.clone();
        let (token, operation, file) = (token as u64, self.operation, FileId(0));
        self.queue.submit(Request { token, operation, file, handle, offset, start: 0, len, buffer });
    }

    fn complete(&mut self, completion: Completion, len: u32, now: Instant) -> io::Result<()> {
        let token = usize::try_from(completion.token).unwrap_or(usize::MAX);
        let since = self.since.get(token).copied().unwrap_or(now);
        self.free.push(token);
        self.pool.give_back(completion.buffer);
        let moved = completion.result?;
        if moved < len {
            return Err(match self.operation {
                Operation::Write => io::ErrorKind::WriteZero.into(),
                _ => io::ErrorKind::UnexpectedEof.into(),
            });
        }
        self.bytes += u64::from(moved);
        self.times.push(u32::try_from(now.duration_since(since).as_nanos()).unwrap_or(u32::MAX));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_comes_once_in_random_order() {
        for count in [1, 2, 3, 7, 64, 1000, 4097] {
            let mut seen: Vec<u64> = (0..count).map(|index| scattered(index, count)).collect();
            let neighbours = seen.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
            assert!(count < 64 || neighbours < seen.len() / 20, "{neighbours} of {count} follow their neighbour");
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..count), "{count}");
        }
    }

    #[test]
    fn a_pattern_counts_what_it_read() {
        let dir = tempfile::tempdir_in(".").expect("temporary directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("write");
        let target = BenchFile::open(&path, 1 << 20, false).expect("opens");
        let setting = Setting { engine: Carrier::Threads, block_size: 16384, depth: 3, threads: 2 };
        for order in [Order::Sequential, Order::Random] {
            let pattern = Pattern { access: Access::Read, order, way: Way::Buffered, setting };
            let sample = run(&pattern, &target, Duration::from_secs(60), &AtomicBool::new(false)).expect("reads");
            assert_eq!(
                (sample.bytes, sample.requests),
                (1 << 20, 64),
                "each block once, though there was time for more"
            );
            assert!(sample.latency.p50_us > 0.0 && sample.latency.max_us >= sample.latency.p99_us);
        }
    }

    #[test]
    fn what_is_written_covers_the_file_with_random_bytes() {
        let dir = tempfile::tempdir_in(".").expect("temporary directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![0; 1 << 20]).expect("write");
        let target = BenchFile::open(&path, 1 << 20, true).expect("opens");
        let setting = Setting { engine: Carrier::Threads, block_size: 65536, depth: 2, threads: 1 };
        let pattern = Pattern { access: Access::Write, order: Order::Random, way: Way::Buffered, setting };
        let sample = run(&pattern, &target, Duration::from_secs(60), &AtomicBool::new(false)).expect("writes");
        assert_eq!((sample.bytes, sample.requests), (1 << 20, 16));
        let bytes = std::fs::read(&path).expect("reads");
        assert_eq!(bytes.len(), 1 << 20, "the file does not grow");
        assert!(bytes.chunks(8).all(|word| word != [0; 8]), "no hole is left");
    }
}
