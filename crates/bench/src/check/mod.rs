//! `bench check`: `one file -> verified in many ways, each time cold -> rates, each compared with the device's limit`
//!
//! The limit comes from the same file in the same run: a search over block size, depth and threads for the fastest plain read. Measurements
//! come in rounds, and each round measures the limit again, so that a share compares two figures of the same minute.

mod page_by_page;
mod peer;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flow::{IoMode, ReadOptions};
use serde::Serialize;

use super::cold::Emptied;
use super::machine::{Machine, Storage};
use super::pattern::{self, Access, Carrier, Order, Pattern, Setting, Way};
use super::search::{self, SearchSpace};
use super::stats::Repeated;
use super::target::BenchFile;
use super::{Watch, failed};
use jobs::report::document::Counts;
use jobs::{Check, CheckOptions, Error};
pub use peer::Peer;

/// What to compare, and how often.
#[derive(Clone, Debug)]
pub struct CheckBenchOptions {
    /// Rounds.
    pub rounds: usize,
    /// Duration of one measurement in the search for the limit.
    pub time: Duration,
    /// Worker counts to measure; if empty, 1, 2, 4 and so on up to the available cores.
    pub workers: Vec<usize>,
    /// Bytes of a request.
    pub block_sizes: Vec<u32>,
    /// Other tools, besides those found.
    pub peers: Vec<Peer>,
    /// Whether to search the PATH for `innochecksum`, `inno` and `fio`.
    pub find_peers: bool,
}

impl Default for CheckBenchOptions {
    fn default() -> Self {
        Self {
            rounds: 3,
            time: Duration::from_millis(300),
            workers: Vec::new(),
            block_sizes: vec![64 << 10, 256 << 10, 1 << 20, 4 << 20],
            peers: Vec::new(),
            find_peers: true,
        }
    }
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct CheckBenchReport {
    /// The machine.
    pub machine: Machine,
    /// The storage that holds the file.
    pub storage: Storage,
    /// Bytes of the file.
    pub bytes: u64,
    /// Rounds.
    pub rounds: usize,
    /// How the file was made cold.
    pub cache: Emptied,
    /// The pages and their verdicts: the same for each row that verifies.
    pub counts: Counts,
    /// Reading without verifying: the fastest setting, measured again in each round.
    pub limit: CheckBenchRow,
    /// The ideas, one after another.
    pub ideas: Vec<CheckBenchRow>,
    /// Every combination of way, workers and block size.
    pub table: Vec<CheckBenchRow>,
    /// Other tools.
    pub peers: Vec<CheckBenchRow>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// One way to read the file.
#[derive(Clone, Debug, Serialize)]
pub struct CheckBenchRow {
    /// Its name.
    pub name: String,
    /// Direct or buffered; null if the tool decides.
    pub way: Option<Way>,
    /// Workers, or threads.
    pub workers: Option<usize>,
    /// Bytes of a request.
    pub block_size: Option<u32>,
    /// Requests in flight for each worker.
    pub depth: Option<u32>,
    /// Bytes of the file a second.
    pub bytes_per_second: Repeated,
    /// Share of the limit in the same round, 0 to 1.
    pub share_of_limit: Repeated,
}

/// How a row reads the file.
enum How {
    Raw(Setting, Way),
    Pages(Way),
    Check(ReadOptions, usize),
    Peer(Peer),
    Fio(Setting),
}

/// A row before it is measured.
struct CheckPlan {
    name: String,
    group: Group,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Limit,
    Idea,
    Table,
    Peer,
}

/// Requests in flight for each worker, as in `check`.
const DEPTH: u32 = 8;
/// Bytes of a request, as in `check`.
const BLOCK: u32 = 1 << 20;
/// Maximum bytes in flight over all threads, in the search for the limit.
const IN_FLIGHT_MAX: u64 = 128 << 20;
/// Measurements of the search, as a first estimate for the progress bar.
const SEARCH_EXPECTED: u64 = 25;

/// Compares ways of verifying one file.
///
/// # Errors
/// If the file cannot be read or is not a tablespace, if a peer cannot be started, or if the run was interrupted.
pub fn check(path: &Path, options: &CheckBenchOptions, watch: Watch<'_>) -> Result<CheckBenchReport, Error> {
    let bytes = fs::metadata(path).map_err(failed(path, "asking for its size"))?.len();
    if options.rounds == 0 || options.block_sizes.is_empty() || bytes == 0 {
        return Err(Error::Usage("a round, a block size and a file with bytes are needed".to_owned()));
    }
    let storage = Storage::below(path).map_err(failed(path, "asking about the file system"))?;
    let target = BenchFile::open(path, bytes, false).map_err(failed(path, "opening"))?;
    let mut bench = Bench {
        path,
        options,
        target,
        watch,
        cache: Emptied::default(),
        counts: None,
        done: 0,
        expected: 0,
        notes: Vec::new(),
    };
    // First find out whether there is anything to verify.
    bench.verify(&ReadOptions::default(), Machine::here().cores)?;
    let plans = bench.plans()?;
    let figures = bench.rounds(&plans)?;
    let limits =
        plans.iter().zip(&figures).find(|(plan, _)| plan.group == Group::Limit).map(|(_, rates)| rates.clone());
    let limits = limits.unwrap_or_default();
    let rows = |group: Group| {
        let of_group = plans.iter().zip(&figures).filter(|(plan, rates)| plan.group == group && !rates.is_empty());
        of_group.map(|(plan, rates)| plan.row(rates, &limits)).collect::<Vec<_>>()
    };
    let limit = rows(Group::Limit).pop().ok_or_else(|| Error::Usage("the limit was not measured".to_owned()))?;
    Ok(CheckBenchReport {
        machine: Machine::here(),
        storage,
        bytes,
        rounds: options.rounds,
        cache: bench.cache,
        counts: bench.counts.unwrap_or_default(),
        limit,
        ideas: rows(Group::Idea),
        table: rows(Group::Table),
        peers: rows(Group::Peer),
        notes: bench.notes,
    })
}

impl CheckPlan {
    fn new(group: Group, name: impl Into<String>, how: How) -> Self {
        Self { name: name.into(), group, how }
    }

    fn row(&self, rates: &[f64], limits: &[f64]) -> CheckBenchRow {
        let shares: Vec<f64> = rates.iter().zip(limits).map(|(rate, limit)| rate / limit.max(1.0)).collect();
        let (way, workers, block_size, depth) = match &self.how {
            How::Raw(setting, way) => {
                (Some(*way), Some(setting.threads as usize), Some(setting.block_size), Some(setting.depth))
            }
            How::Fio(setting) => {
                (Some(Way::Direct), Some(setting.threads as usize), Some(setting.block_size), Some(setting.depth))
            }
            How::Pages(way) => (Some(*way), Some(1), None, Some(1)),
            How::Check(read, workers) => {
                let way = match read.io {
                    IoMode::Auto => None,
                    IoMode::Direct => Some(Way::Direct),
                    IoMode::Buffered => Some(Way::Buffered),
                };
                (way, Some(*workers), Some(read.block_size), Some(read.depth))
            }
            How::Peer(_) => (None, None, None, None),
        };
        let name = self.name.clone();
        let (bytes_per_second, share_of_limit) = (Repeated::of(rates), Repeated::of(&shares));
        CheckBenchRow { name, way, workers, block_size, depth, bytes_per_second, share_of_limit }
    }
}

struct Bench<'b> {
    path: &'b Path,
    options: &'b CheckBenchOptions,
    target: BenchFile,
    watch: Watch<'b>,
    cache: Emptied,
    /// The verdicts of the first row that verified.
    counts: Option<Counts>,
    done: u64,
    expected: u64,
    notes: Vec<String>,
}

impl Bench<'_> {
    /// All rows, the limit first.
    fn plans(&mut self) -> Result<Vec<CheckPlan>, Error> {
        let workers = self.workers();
        let most = workers.last().copied().unwrap_or(1);
        let direct = self.target.handle(true).map(drop).map_err(str::to_owned);
        if let Err(why) = &direct {
            self.notes.push(format!("direct I/O was not measured, the file system refuses it: {why}"));
        }
        let direct = direct.is_ok();
        let way = if direct { Way::Direct } else { Way::Buffered };
        let rows = 8 + 2 * workers.len() * self.options.block_sizes.len() + self.options.peers.len();
        self.expected = SEARCH_EXPECTED + (rows * self.options.rounds) as u64;
        let limit = self.limit(way)?;
        let mut plans = vec![CheckPlan::new(Group::Limit, "reading without looking", How::Raw(limit, way))];
        plans.extend(ideas(most, direct));
        for way in [Way::Buffered, Way::Direct].into_iter().filter(|way| direct || *way == Way::Buffered) {
            for &workers in &workers {
                for &block_size in &self.options.block_sizes {
                    plans.push(CheckPlan::new(
                        Group::Table,
                        "check",
                        How::Check(read(mode(way), block_size, DEPTH), workers),
                    ));
                }
            }
        }
        let mut peers = self.options.peers.clone();
        if self.options.find_peers {
            peers.extend(peer::installed());
            if direct && peer::has_fio() {
                plans.push(CheckPlan::new(Group::Peer, "fio, reading without looking", How::Fio(limit)));
            }
        }
        plans.extend(peers.into_iter().map(|peer| CheckPlan::new(Group::Peer, peer.name.clone(), How::Peer(peer))));
        Ok(plans)
    }

    fn workers(&self) -> Vec<usize> {
        if !self.options.workers.is_empty() {
            return self.options.workers.clone();
        }
        let cores = Machine::here().cores;
        let mut workers: Vec<usize> =
            std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < cores).collect();
        workers.push(cores);
        workers
    }

    /// The fastest setting for plain reads of the file.
    fn limit(&mut self, way: Way) -> Result<Setting, Error> {
        let engines = [Carrier::Uring, Carrier::Threads].into_iter().filter(|engine| engine.works().is_ok());
        let cores = u32::try_from(Machine::here().cores).unwrap_or(1).next_power_of_two();
        let block_sizes = (12..=22).map(|bits| 1_u32 << bits).filter(|size| u64::from(*size) <= self.target.len);
        let space = SearchSpace {
            // Threads are for systems without io_uring: if it is available, they cost more and gain nothing.
            engines: engines.take(1).collect(),
            block_sizes: block_sizes.collect(),
            depths: (0..=5).map(|bits| 1 << bits).collect(),
            threads: (0..=cores.trailing_zeros()).map(|bits| 1 << bits).collect(),
            in_flight_max: IN_FLIGHT_MAX,
        };
        let found = search::climb(&space, &mut |setting| {
            self.step(format!(
                "searching the limit: {} KiB x {} x {}",
                setting.block_size >> 10,
                setting.depth,
                setting.threads
            ))?;
            self.raw(setting, way)
        })?;
        Ok(found.setting)
    }

    fn step(&mut self, what: String) -> Result<(), Error> {
        self.watch.step(what, self.done, self.expected)?;
        self.done += 1;
        let emptied = self.target.empty().map_err(failed(self.path, "dropping it from the page cache"))?;
        self.cache = self.cache.max(emptied);
        Ok(())
    }

    /// The rates of each row in all rounds.
    fn rounds(&mut self, plans: &[CheckPlan]) -> Result<Vec<Vec<f64>>, Error> {
        self.expected = self.done + (plans.len() * self.options.rounds) as u64;
        let mut figures = vec![Vec::with_capacity(self.options.rounds); plans.len()];
        let mut unfit = vec![false; plans.len()];
        for _ in 0..self.options.rounds {
            for ((plan, rates), unfit) in plans.iter().zip(&mut figures).zip(&mut unfit) {
                if *unfit {
                    continue;
                }
                self.step(plan.name.clone())?;
                match self.rate(plan)? {
                    Some(rate) => rates.push(rate),
                    None => *unfit = true,
                }
            }
        }
        Ok(figures)
    }

    /// Bytes a second of one pass; `None`, with a note, if this file does not permit it.
    fn rate(&mut self, plan: &CheckPlan) -> Result<Option<f64>, Error> {
        let bytes = self.target.len as f64;
        let time = match &plan.how {
            How::Raw(setting, way) => return self.raw(*setting, *way).map(Some),
            How::Check(read, workers) => Some(self.verify(read, *workers)?),
            How::Pages(way) => self.pages(*way)?,
            How::Peer(peer) => peer.run(self.path, &mut self.notes)?,
            How::Fio(setting) => return Ok(peer::fio(self.path, self.target.len, setting, &mut self.notes)),
        };
        Ok(time.map(|time| bytes / time.as_secs_f64().max(1e-9)))
    }

    fn raw(&self, setting: Setting, way: Way) -> Result<f64, Error> {
        let pattern = Pattern { access: Access::Read, order: Order::Sequential, way, setting };
        let sample = pattern::run(&pattern, &self.target, self.options.time, self.watch.stop);
        self.watch.go_on()?;
        Ok(sample.map_err(failed(self.path, "reading"))?.rate())
    }

    fn verify(&mut self, read: &ReadOptions, workers: usize) -> Result<Duration, Error> {
        let options = CheckOptions { read: read.clone(), workers, ..CheckOptions::default() };
        let start = Instant::now();
        let report = Check::plan(&[PathBuf::from(self.path)], options)?.run(None)?;
        let time = start.elapsed();
        self.agree(report.totals.counts)?;
        Ok(time)
    }

    fn pages(&mut self, way: Way) -> Result<Option<Duration>, Error> {
        let start = Instant::now();
        let handle = self.target.handle(way == Way::Direct).map_err(|why| Error::Usage(why.to_owned()))?;
        match page_by_page::verify(handle, self.target.len).map_err(failed(self.path, "reading"))? {
            Some(_) => Ok(Some(start.elapsed())),
            None => {
                let note = "page by page was not measured: page 0 does not give the page size";
                self.notes.push(note.to_owned());
                Ok(None)
            }
        }
    }

    /// Rows that find different things did different work, so their times cannot be compared.
    fn agree(&mut self, counts: Counts) -> Result<(), Error> {
        let first = self.counts.get_or_insert(counts);
        if first.pages == 0 {
            return Err(Error::Usage(format!("{} has no pages to verify: is it a tablespace?", self.path.display())));
        }
        let same = (first.pages, first.ok, first.corrupt) == (counts.pages, counts.ok, counts.corrupt);
        if same { Ok(()) } else { Err(Error::Usage(format!("{} changes while it is measured", self.path.display()))) }
    }
}

const fn mode(way: Way) -> IoMode {
    match way {
        Way::Direct => IoMode::Direct,
        Way::Buffered => IoMode::Buffered,
    }
}

fn read(io: IoMode, block_size: u32, depth: u32) -> ReadOptions {
    ReadOptions { io, block_size, depth, ..ReadOptions::default() }
}

/// From what most tools do to what `check` does, with one more idea in each row.
fn ideas(workers: usize, direct: bool) -> Vec<CheckPlan> {
    let idea = |name: &str, how| CheckPlan::new(Group::Idea, name, how);
    let mut plans = vec![
        idea("a page at a time, one thread", How::Pages(Way::Buffered)),
        idea("large blocks, through the page cache", How::Check(read(IoMode::Buffered, BLOCK, 1), 1)),
    ];
    if direct {
        plans.push(idea("a page at a time, past the page cache", How::Pages(Way::Direct)));
        plans.push(idea("+ large blocks", How::Check(read(IoMode::Direct, BLOCK, 1), 1)));
        plans.push(idea("+ reading while computing", How::Check(read(IoMode::Direct, BLOCK, DEPTH), 1)));
        if workers > 1 {
            plans.push(idea("+ all cores", How::Check(read(IoMode::Direct, BLOCK, DEPTH), workers)));
        }
    }
    plans.push(idea("innokit check as it comes", How::Check(ReadOptions::default(), workers)));
    plans
}
