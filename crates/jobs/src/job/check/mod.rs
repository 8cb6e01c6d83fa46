//! `paths -> Inventory -> sweep -> Reader -> verify_page -> Findings -> settle -> Report`
//!
//! Limit: the device's rate, or the copy out of the page cache. Workers share the cursor and, once per piece, a lock to hand in
//! sums; each judges the pages that it read itself. Memory is workers × depth × block size, plus a few bits for each page whose
//! fate is still open, plus at most `findings_max` findings, whatever the size of the data.

mod archive;
mod binlog;
mod desk;
mod doublewrite;
mod findings;
mod judge;
mod live_log;
mod member;
mod packed;
mod redo;
mod sequential;
mod settle;
mod stream;
mod usage;
mod words;

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flow::{Counters, Cursor, FileSet, ReadOptions, Reader, run_workers};

use format::keyring::KeyStore;

use crate::Error;
use crate::out::report::{Effort, Report};
use crate::source::content::Content;
use crate::source::datadir::{Candidate, Inventory};
use crate::source::keys::KeyFiles;
use crate::source::name::NameHint;
use desk::{Desk, FileState};
use findings::Findings;
use sequential::Phase;
use stream::Context;

/// How to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How the bytes come.
    pub read: ReadOptions,
    /// Workers; each reads and verifies.
    pub workers: usize,
    /// The most findings that the report lists (all are counted).
    pub findings_max: usize,
    /// Logical page size in bytes, in place of what the files say.
    pub page_size: Option<u32>,
    /// Files with keys.
    pub keys: KeyFiles,
    /// A server may be writing the files: what looks wrong is read again before it is called so.
    pub live: bool,
    /// At most so many bytes are read in a second.
    pub rate: Option<u64>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            read: ReadOptions::default(),
            workers,
            findings_max: 1000,
            page_size: None,
            keys: KeyFiles::default(),
            live: false,
            rate: None,
        }
    }
}

/// A check that has looked at the paths and not yet read the files.
pub struct Check {
    inventory: Inventory,
    options: CheckOptions,
    keys: KeyStore,
}

/// Memory of all workers' buffers together, bytes: many cores get smaller windows, not more memory.
const BUFFERS_MAX: u64 = 64 << 20;

/// How often somebody who watches is told.
const WATCH_EVERY: Duration = Duration::from_millis(100);

impl Check {
    /// Walks the paths.
    ///
    /// # Errors
    /// Options that cannot work.
    pub fn plan(paths: &[PathBuf], options: CheckOptions) -> Result<Self, Error> {
        options.read.validate().map_err(|error| Error::Usage(error.to_string()))?;
        let keys = options.keys.read()?;
        Ok(Self { inventory: Inventory::take(paths), options, keys })
    }

    /// Bytes to read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inventory.candidates.iter().map(|candidate| candidate.len).sum()
    }

    /// Reads and judges everything. `watch` is called now and then with the counters, from a thread of its own.
    ///
    /// # Errors
    /// No worker could start; damage and unreadable files are in the report.
    pub fn run(mut self, watch: Option<&(dyn Fn(&Counters) + Sync)>) -> Result<Report, Error> {
        let start = Instant::now();
        let options = &self.options;
        let read = options.read.clone().within(options.workers, BUFFERS_MAX);
        let files = file_states(&self.inventory.candidates);
        // What is not swept has no blocks here: it is read afterwards, each file from start to end.
        let swept = |file: &Candidate| if file.content == Content::Pages { file.len } else { 0 };
        let set = FileSet::new(self.inventory.candidates.iter().map(|file| (file.path.clone(), swept(file))));
        let cursor = Cursor::sweep(&set, read.block_size);
        let tasks = usize::try_from(cursor.blocks()).unwrap_or(usize::MAX).max(self.inventory.candidates.len());
        let workers = options.workers.clamp(1, tasks.max(1));
        let counters = Counters::new(workers);
        let throttle = Throttle::new(options.rate);
        let outcomes = watched(watch, &counters, || {
            run_workers(workers, |worker| {
                let mut reader = Reader::new(&set, &cursor, &read, counters.worker(worker))?;
                let mut desk = Desk::new(&files, &self.keys, options);
                while let Some(item) = reader.next() {
                    match item {
                        Ok(piece) => {
                            desk.piece(&piece);
                            throttle.took(piece.bytes.len());
                        }
                        Err(failure) => desk.failure(&failure),
                    }
                }
                Ok::<_, flow::ReaderError>((desk.findings, reader.engine_name(), reader.notes().to_vec()))
            })
        });
        let mut findings = Findings::new(options.findings_max);
        let mut effort = Effort { workers, ..Effort::default() };
        for outcome in outcomes {
            let (found, engine, notes) = outcome.map_err(|error| Error::Usage(error.to_string()))?;
            findings.merge(found);
            effort.engine = engine;
            effort.notes = notes;
        }
        let context = Context::new(options.clone(), self.keys.clone());
        let phase = Phase { files: &files, context: &context, read: &read, counters: &counters, throttle: &throttle };
        let outcomes =
            watched(watch, &counters, || phase.run(workers)).map_err(|error| Error::Usage(error.to_string()))?;
        let mut outcomes = outcomes;
        if options.live {
            live_log::read_again(&phase, &mut outcomes, counters.worker(0))
                .map_err(|error| Error::Usage(error.to_string()))?;
        }
        let (rows, findings) = sequential::merged(files, findings, outcomes, &mut self.inventory);
        let report = settle::settle(&self.inventory, rows, findings, options.live);
        Ok(timed(report, effort, start, &counters, &read))
    }

    /// Checks what comes as a stream of unknown length: a tablespace, a log, an archive, compressed or not.
    ///
    /// # Errors
    /// Options that cannot work.
    pub fn stream(
        input: impl Read,
        options: &CheckOptions,
        watch: Option<&(dyn Fn(&Counters) + Sync)>,
    ) -> Result<Report, Error> {
        let start = Instant::now();
        options.read.validate().map_err(|error| Error::Usage(error.to_string()))?;
        let context = Context::new(options.clone(), options.keys.read()?);
        let counters = Counters::new(1);
        let outcome = watched(watch, &counters, || {
            sequential::stream(input, context, options.read.block_size, counters.worker(0))
        });
        let outcome = outcome.map_err(|source| Error::Io { path: "-".into(), action: "starting to read", source })?;
        let mut inventory = Inventory::default();
        inventory.skipped = outcome.skipped;
        inventory.failed = outcome.failed;
        let effort = Effort { workers: 1, engine: "stream", ..Effort::default() };
        let report = settle::settle(&inventory, outcome.rows, outcome.findings, false);
        Ok(timed(report, effort, start, &counters, &options.read))
    }
}

/// The files with their places in the system tablespace: `ibdata2` and later ones of a directory continue the first.
fn file_states(candidates: &[Candidate]) -> Vec<FileState> {
    let mut files: Vec<FileState> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let leader = match (files.last(), candidate.hint) {
            (Some(before), NameHint::System(number)) => match before.candidate.hint {
                NameHint::System(earlier) if earlier < number && same_dir(&before.candidate, candidate) => {
                    before.leader.or(u32::try_from(files.len() - 1).ok())
                }
                _ => None,
            },
            _ => None,
        };
        files.push(FileState::new(candidate.clone(), leader));
    }
    // Empty files have no block, so nobody would ever say what they are.
    for file in files.iter().filter(|file| file.candidate.len == 0 && file.candidate.content == Content::Pages) {
        file.head.get_or_init(|| Err("the file is empty".to_owned()));
    }
    files
}

fn same_dir(a: &Candidate, b: &Candidate) -> bool {
    a.path.parent() == b.path.parent()
}

/// Holds all workers together to a rate. They share it, as they share the device that it is meant to spare.
struct Throttle {
    rate: Option<u64>,
    start: Instant,
    bytes: AtomicU64,
}

impl Throttle {
    fn new(rate: Option<u64>) -> Self {
        Self { rate, start: Instant::now(), bytes: AtomicU64::new(0) }
    }

    /// Sleeps until so many bytes more are due.
    fn took(&self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        let total = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let due = Duration::from_secs_f64(total as f64 / rate.max(1) as f64);
        std::thread::sleep(due.saturating_sub(self.start.elapsed()));
    }
}

/// Runs `work` and, when somebody watches, a thread that shows them the counters until it ends.
pub(crate) fn watched<T>(
    watch: Option<&(dyn Fn(&Counters) + Sync)>,
    counters: &Counters,
    work: impl FnOnce() -> T,
) -> T {
    let Some(watch) = watch else { return work() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                watch(counters);
                std::thread::park_timeout(WATCH_EVERY);
            }
            watch(counters);
        });
        let result = work();
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
        result
    })
}

fn timed(mut report: Report, effort: Effort, start: Instant, counters: &Counters, read: &ReadOptions) -> Report {
    let counts = counters.total();
    let elapsed = start.elapsed();
    let worker_time = elapsed.as_secs_f64() * effort.workers as f64;
    report.totals.seconds = elapsed.as_secs_f64();
    report.effort = Effort {
        elapsed,
        wait_share: (counts.wait().as_secs_f64() / worker_time.max(1e-9)).min(1.0),
        buffer_bytes: read.memory_max() * effort.workers as u64,
        bytes_cached: counts.bytes_cached,
        bytes_direct: counts.bytes_direct,
        requests: counts.requests,
        in_flight_max: counts.in_flight_max,
        ..effort
    };
    report
}
