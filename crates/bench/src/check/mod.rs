//! `bench check`: `one file -> verified in many ways, each time cold -> rates, each compared with the device's limit`
//!
//! The limit comes from the same file in the same run: a search over block size, depth and threads for the fastest plain read. Measurements
//! come in rounds, and each round measures the limit again, so that a share compares two figures of the same minute.

mod peer;
mod pieces;
mod plan;
mod report;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flow::ReadOptions;
use flow::queue::sim::SimOptions;
use format::SpaceFormat;

use super::cold::Emptied;
use super::machine::{Machine, Storage};
use super::pattern::{self, Access, Carrier, Order, Pattern, Setting, Way};
use super::search::{self, SearchSpace};
use super::simulated::SimulatedDevice;
use super::stats::{Repeated, median};
use super::target::BenchFile;
use super::{Watch, failed};
use datadir::Error;
use inspect::report::document::Counts;
use inspect::{Check, CheckOptions};
pub use peer::Peer;
use pieces::Spent;
use plan::{BLOCK, CheckPlan, CheckSetting, DEPTH, Group, How, MEMORY, classic, ideas, mode};
pub use report::{CheckBenchReport, CheckBenchRow, SimulatedCheck, SimulatedCheckRow, TimeRow};

/// What to compare, and how often.
#[derive(Clone, Debug)]
pub struct CheckBenchOptions {
    /// Rounds.
    pub rounds: usize,
    /// Duration of one measurement in the search for the limit.
    pub time: Duration,
    /// Worker counts to measure; if empty, 1, 2, 4 and so on up to the available cores.
    pub workers: Vec<usize>,
    /// Bytes of a request; multiples of 64 KiB.
    pub block_sizes: Vec<u32>,
    /// Requests in flight for each worker.
    pub depths: Vec<u32>,
    /// Bytes for the buffers of all workers together: what does not fit is made smaller, and the rows say so.
    pub memory: Vec<u64>,
    /// Which table.
    pub table: CheckTable,
    /// The simulated device; `None` to leave it out.
    pub sim: Option<SimOptions>,
    /// Other tools, besides those found.
    pub peers: Vec<Peer>,
    /// Whether to search the PATH for `innochecksum`, `inno` and `fio`.
    pub find_peers: bool,
}

/// The rows between the ideas and the other tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckTable {
    /// `check` with every combination of way, workers, block size, depth and memory.
    #[default]
    Ways,
    /// Buffered and direct, pieces of 16K, 1M, 16M and 64M, read, verified and dropped by one thread and by 16.
    Classic,
}

impl Default for CheckBenchOptions {
    fn default() -> Self {
        Self {
            rounds: 3,
            time: Duration::from_millis(300),
            workers: Vec::new(),
            block_sizes: vec![64 << 10, 256 << 10, 1 << 20, 4 << 20],
            depths: vec![DEPTH],
            memory: vec![MEMORY],
            table: CheckTable::default(),
            sim: Some(SimOptions::default()),
            peers: Vec::new(),
            find_peers: true,
        }
    }
}

/// Maximum bytes in flight over all threads, in the search for the limit.
const IN_FLIGHT_MAX: u64 = 128 << 20;
/// Measurements of the search, as a first estimate for the progress bar.
const SEARCH_EXPECTED: u64 = 25;

fn validate(options: &CheckBenchOptions, bytes: u64) -> Result<(), Error> {
    let usage = |text: String| Err(Error::Usage(text));
    let lists = [options.block_sizes.is_empty(), options.depths.is_empty(), options.memory.is_empty()];
    if options.rounds == 0 || lists.contains(&true) || options.workers.contains(&0) || bytes == 0 {
        return usage("a round, a worker, a block size, a depth, memory and a file with bytes are needed".to_owned());
    }
    for &block_size in &options.block_sizes {
        for &depth in &options.depths {
            let read = ReadOptions { block_size, depth, ..ReadOptions::default() };
            read.validate().map_err(|error| Error::Usage(error.to_string()))?;
        }
    }
    Ok(())
}

/// Compares ways of verifying one file.
///
/// # Errors
/// If the file cannot be read or is not a tablespace, if a peer cannot be started, or if the run was interrupted.
pub fn check(path: &Path, options: &CheckBenchOptions, watch: Watch<'_>) -> Result<CheckBenchReport, Error> {
    let bytes = fs::metadata(path).map_err(failed(path, "asking for its size"))?.len();
    validate(options, bytes)?;
    let storage = Storage::below(path).map_err(failed(path, "asking about the file system"))?;
    let target = BenchFile::open(path, bytes, false).map_err(failed(path, "opening"))?;
    let mut bench = Bench {
        path,
        options,
        target,
        watch,
        cache: Emptied::default(),
        counts: None,
        ran: None,
        done: 0,
        expected: 0,
        notes: Vec::new(),
    };
    // First find out whether there is anything to verify.
    bench.verify(&CheckSetting::new(flow::IoMode::Auto, Machine::here().cores, BLOCK, DEPTH))?;
    let plans = bench.plans()?;
    let figures = bench.rounds(&plans)?;
    let limits = plans.iter().zip(&figures).find(|(plan, _)| plan.group == Group::Limit);
    let limits = limits.map(|(_, figures)| figures.rates.clone()).unwrap_or_default();
    let rows = |group: Group| {
        let measured = |(plan, figures): &(&CheckPlan, &Figures)| plan.group == group && !figures.rates.is_empty();
        let of_group = plans.iter().zip(&figures).filter(measured);
        of_group.map(|(plan, figures)| plan.row(&figures.rates, &limits, figures.ran)).collect::<Vec<_>>()
    };
    let time = bench.time(&plans)?;
    let simulated = bench.simulated()?;
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
        classic: rows(Group::Classic),
        time,
        simulated,
        peers: rows(Group::Peer),
        notes: bench.notes,
    })
}

/// The figures of one row.
#[derive(Clone, Default)]
struct Figures {
    /// Bytes a second, in each round.
    rates: Vec<f64>,
    /// Workers that ran, if the row is `check`'s.
    ran: Option<usize>,
    /// This file does not permit the row.
    unfit: bool,
}

struct Bench<'b> {
    path: &'b Path,
    options: &'b CheckBenchOptions,
    target: BenchFile,
    watch: Watch<'b>,
    cache: Emptied,
    /// The verdicts of the first row that verified.
    counts: Option<Counts>,
    /// The workers of the last run of `check`.
    ran: Option<usize>,
    done: u64,
    expected: u64,
    notes: Vec<String>,
}

impl Bench<'_> {
    /// All rows, the limit first.
    fn plans(&mut self) -> Result<Vec<CheckPlan>, Error> {
        let workers = self.workers();
        let direct = self.target.handle(true).map(drop).map_err(str::to_owned);
        if let Err(why) = &direct {
            self.notes.push(format!("direct I/O was not measured, the file system refuses it: {why}"));
        }
        let direct = direct.is_ok();
        let way = if direct { Way::Direct } else { Way::Buffered };
        let options = self.options;
        let settings = workers.len() * options.block_sizes.len() * options.depths.len() * options.memory.len();
        let rows = 14 + 2 * settings + options.peers.len();
        self.expected = SEARCH_EXPECTED + (rows * options.rounds) as u64;
        let limit = self.limit(way)?;
        let mut plans = vec![CheckPlan::new(Group::Limit, "reading without looking", How::Raw(limit, way))];
        plans.extend(ideas(Machine::here().cores, direct));
        let ways = [Way::Buffered, Way::Direct].into_iter().filter(|way| direct || *way == Way::Buffered);
        let ways: Vec<Way> = ways.collect();
        match options.table {
            CheckTable::Ways => plans.extend(grid(options, &ways, &workers)),
            CheckTable::Classic => match self.format()? {
                Some(format) => plans.extend(classic(&ways, format.physical().get(), self.target.len)),
                None => {
                    self.notes.push("the classic table was not measured: page 0 does not give the page size".to_owned())
                }
            },
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
        let engines = Carrier::JOBS.into_iter().filter(|engine| engine.works().is_ok());
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
        let found = search::climb(&space, search::ROUNDS, &mut |setting| {
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

    /// The figures of each row in all rounds.
    fn rounds(&mut self, plans: &[CheckPlan]) -> Result<Vec<Figures>, Error> {
        let timed = plans.iter().filter(|plan| plan.group == Group::Idea).count();
        self.expected = self.done + ((plans.len() + timed) * self.options.rounds) as u64;
        let mut all = vec![Figures::default(); plans.len()];
        for _ in 0..self.options.rounds {
            for (plan, figures) in plans.iter().zip(&mut all).filter(|(_, figures)| !figures.unfit) {
                self.step(plan.name.clone())?;
                self.ran = None;
                match self.rate(plan)? {
                    Some(rate) => figures.rates.push(rate),
                    None => figures.unfit = true,
                }
                figures.ran = self.ran;
            }
        }
        Ok(all)
    }

    /// Bytes a second of one pass; `None`, with a note, if this file does not permit it.
    fn rate(&mut self, plan: &CheckPlan) -> Result<Option<f64>, Error> {
        let bytes = self.target.len as f64;
        let time = match &plan.how {
            How::Raw(setting, way) => return self.raw(*setting, *way).map(Some),
            How::Check(setting) => Some(self.verify(setting)?),
            How::Pages(way) => self.pages(*way)?.map(|spent| spent.wall),
            How::Pieces(way, threads, piece) => self.pieces(*way, *threads, *piece)?.map(|spent| spent.wall),
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

    fn verify(&mut self, setting: &CheckSetting) -> Result<Duration, Error> {
        let buffers_max = setting.memory;
        let options =
            CheckOptions { read: setting.asked(), workers: setting.workers, buffers_max, ..CheckOptions::default() };
        let start = Instant::now();
        let report = Check::plan(&[PathBuf::from(self.path)], options)?.run(None)?;
        let time = start.elapsed();
        self.ran = Some(report.effort.workers);
        self.agree(report.totals.counts)?;
        Ok(time)
    }

    /// Where the time goes, in each of the ideas that has a way of its own.
    fn time(&mut self, plans: &[CheckPlan]) -> Result<Vec<TimeRow>, Error> {
        let Some(format) = self.format()? else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        for plan in plans.iter().filter(|plan| plan.group == Group::Idea) {
            let page = format.physical().get();
            let (way, workers, block_size, depth) = match &plan.how {
                How::Pages(way) => (*way, 1, page, 1),
                How::Check(setting) => {
                    let used = setting.used();
                    match setting.io {
                        flow::IoMode::Auto => continue,
                        flow::IoMode::Direct => (Way::Direct, setting.workers, used.block_size, used.depth),
                        flow::IoMode::Buffered => (Way::Buffered, setting.workers, used.block_size, used.depth),
                    }
                }
                _ => continue,
            };
            let mut passes = Vec::with_capacity(self.options.rounds);
            for _ in 0..self.options.rounds {
                self.step(format!("{}: where the time goes", plan.name))?;
                let spent = match plan.how {
                    How::Check(setting) => {
                        let path = self.path.to_path_buf();
                        pieces::by_window(path, self.target.len, workers, &setting.used(), &format)
                    }
                    _ => self.by_pieces(way, 1, page, &format)?,
                };
                passes.push(spent.map_err(failed(self.path, "reading"))?);
            }
            rows.push(self.time_row(&plan.name, (way, workers, block_size, depth), &passes));
        }
        Ok(rows)
    }

    fn simulated(&mut self) -> Result<Option<SimulatedCheck>, Error> {
        let (Some(sim), Some(format)) = (&self.options.sim, self.format()?) else { return Ok(None) };
        let mut rows: Vec<SimulatedCheckRow> = Vec::new();
        for (block_size, depth) in self.simulated_settings(sim) {
            self.watch.step(format!("simulated: {} KiB x {depth}", block_size >> 10), self.done, self.expected)?;
            let file = fs::File::open(self.path).map_err(failed(self.path, "opening"))?;
            let read = ReadOptions { io: flow::IoMode::Direct, block_size, depth, ..ReadOptions::default() };
            let outcome = pieces::on_clock(file, self.target.len, sim, &read, &format);
            let (_, counts, time) = outcome.map_err(failed(self.path, "reading"))?;
            let seconds = time.as_secs_f64();
            let first = rows.first().map_or(seconds, |row| row.seconds);
            rows.push(SimulatedCheckRow {
                block_size,
                depth,
                requests: counts.reads,
                in_flight_max: counts.in_flight_max,
                seconds,
                times_first: first / seconds.max(1e-9),
            });
        }
        Ok(Some(SimulatedCheck { device: SimulatedDevice::of(sim), rows }))
    }

    /// Block sizes and requests in flight: step by step to as many as the device is wide, then what else was asked for.
    fn simulated_settings(&self, sim: &SimOptions) -> Vec<(u32, u32)> {
        let wide = sim.parallel.clamp(DEPTH, 1024);
        let mut settings = vec![(64 << 10, 1), (BLOCK, 1), (BLOCK, DEPTH), (BLOCK, wide)];
        for &depth in &self.options.depths {
            settings.extend(self.options.block_sizes.iter().map(|block_size| (*block_size, depth)));
        }
        let mut known = HashSet::new();
        settings.retain(|setting| known.insert(*setting));
        settings
    }

    fn time_row(
        &self,
        name: &str,
        (way, workers, block_size, depth): (Way, usize, u32, u32),
        passes: &[Spent],
    ) -> TimeRow {
        let len = self.target.len as f64;
        let share = |part: fn(&Spent) -> Duration| {
            let shares: Vec<f64> =
                passes.iter().map(|spent| part(spent).as_secs_f64() / spent.all().as_secs_f64().max(1e-9)).collect();
            median(&shares)
        };
        let rates: Vec<f64> = passes.iter().map(|spent| len / spent.wall.as_secs_f64().max(1e-9)).collect();
        let processor: Vec<f64> = passes.iter().map(|spent| spent.processor.as_secs_f64() / (len / 1e9)).collect();
        TimeRow {
            name: name.to_owned(),
            way,
            workers,
            block_size,
            depth,
            bytes_per_second: Repeated::of(&rates),
            waiting: share(Spent::waiting),
            copying: share(Spent::copying),
            checksums: share(|spent| spent.checksums),
            processor_seconds_per_gb: median(&processor),
        }
    }

    fn format(&self) -> Result<Option<SpaceFormat>, Error> {
        let handle = self.target.handle(false).map_err(|why| Error::Usage(why.to_owned()))?;
        pieces::format_of(handle).map_err(failed(self.path, "reading"))
    }

    fn pages(&mut self, way: Way) -> Result<Option<Spent>, Error> {
        let page = self.format()?.map_or(0, |format| format.physical().get());
        self.pieces(way, 1, page)
    }

    fn pieces(&mut self, way: Way, threads: usize, piece: u32) -> Result<Option<Spent>, Error> {
        let Some(format) = self.format()? else {
            let note = "page by page was not measured: page 0 does not give the page size";
            self.notes.push(note.to_owned());
            return Ok(None);
        };
        let spent = self.by_pieces(way, threads, piece, &format)?.map_err(failed(self.path, "reading"))?;
        let whole = self.target.len / format.physical().bytes() as u64;
        let same = spent.pages == whole;
        if same {
            Ok(Some(spent))
        } else {
            Err(Error::Usage(format!("{} changes while it is measured", self.path.display())))
        }
    }

    fn by_pieces(
        &self,
        way: Way,
        threads: usize,
        piece: u32,
        format: &SpaceFormat,
    ) -> Result<std::io::Result<Spent>, Error> {
        let handle = self.target.handle(way == Way::Direct).map_err(|why| Error::Usage(why.to_owned()))?;
        Ok(pieces::by_pieces(handle, self.target.len, threads, piece, format))
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

/// Every combination of what was asked for.
fn grid(options: &CheckBenchOptions, ways: &[Way], workers: &[usize]) -> Vec<CheckPlan> {
    let mut plans = Vec::new();
    for &way in ways {
        for &workers in workers {
            for (&depth, &memory) in
                options.depths.iter().flat_map(|depth| options.memory.iter().map(move |m| (depth, m)))
            {
                for &block_size in &options.block_sizes {
                    let setting = CheckSetting { io: mode(way), workers, block_size, depth, memory };
                    plans.push(CheckPlan::new(Group::Table, "check", How::Check(setting)));
                }
            }
        }
    }
    plans
}
