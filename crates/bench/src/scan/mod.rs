//! `bench scan`: `[an aged table is made ->] one tablespace -> its trees -> read with each kind of read-ahead, each way, cold each time -> requests, bytes, rates`
//!
//! A scan counts the records of every leaf. Measurements come in rounds; a share compares two figures of the same round. A simulated clock
//! shows how a different device would have served the same requests.

mod lru;
mod pass;
mod pool;
mod server;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;

use flow::queue::sim::SimOptions;
use serde::Serialize;

use super::aged::{self, Aged};
use super::cold::Emptied;
use super::machine::{Machine, Storage};
use super::pattern::Way;
use super::scratch::Scratch;
use super::simulated::SimulatedDevice;
use super::stats::Repeated;
use super::target::BenchFile;
use super::{Watch, failed};
use datadir::Error;
use format::schema::IndexKind;
use inspect::table::one::{NamedTree, One};
use inspect::tree::Walk;
use pass::{Bytes, Pass, ScanPlace};
use server::Rules;

pub use pass::Sample;

/// What to compare, and how often.
#[derive(Clone, Debug)]
pub struct ScanBenchOptions {
    /// Rounds.
    pub rounds: usize,
    /// Only the index with this name; otherwise the clustered index and the largest secondary index.
    pub index: Option<String>,
    /// The simulated device; `None` to leave it out.
    pub sim: Option<SimOptions>,
    /// Memory of the buffer pool that the servers' policies read through, bytes; at least [`POOL_MIN`].
    pub pool: u64,
    /// Make a table of about this many bytes that was used for some time, in the given directory, and scan that.
    pub aged: Option<u64>,
}

/// Default of `innodb_buffer_pool_size` in both servers, bytes.
pub const POOL: u64 = 128 << 20;
/// The smallest pool, bytes: the minimum of `innodb_buffer_pool_size` in MySQL.
pub const POOL_MIN: u64 = 5 << 20;

impl Default for ScanBenchOptions {
    fn default() -> Self {
        Self { rounds: 3, index: None, sim: Some(SimOptions::default()), pool: POOL, aged: None }
    }
}

/// How pages are read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// One page at a time, in key order.
    None,
    /// The same through a server's buffer pool: once an area of 64 pages was accessed in order, all of the next one is read.
    Linear,
    /// The same: once 13 pages of an area were accessed, all others of this area are read.
    Random,
    /// Both rules.
    Both,
    /// In key order; pages named by the parents are read well before they are needed.
    Logical,
    /// Pages named by the parents, in file order, for callers that do not need key order.
    FileOrder,
}

/// All of them.
const POLICIES: [Policy; 6] =
    [Policy::None, Policy::Linear, Policy::Random, Policy::Both, Policy::Logical, Policy::FileOrder];

impl Policy {
    /// A description for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Linear => "linear",
            Self::Random => "random",
            Self::Both => "linear and random",
            Self::Logical => "logical",
            Self::FileOrder => "logical, file order",
        }
    }

    /// The rules of the server that it imitates, if it does.
    const fn rules(self) -> Option<Rules> {
        match self {
            Self::None | Self::Logical | Self::FileOrder => None,
            Self::Linear => Some(Rules { linear: true, random: false }),
            Self::Random => Some(Rules { linear: false, random: true }),
            Self::Both => Some(Rules { linear: true, random: true }),
        }
    }
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct ScanBenchReport {
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
    /// Maximum requests in flight.
    pub depth: u32,
    /// Maximum bytes of a request.
    pub block_size: u32,
    /// Bytes of the buffer pool that the servers' policies read through.
    pub pool: u64,
    /// How the table aged, if it was made for this run.
    pub aged: Option<Aged>,
    /// The indexes.
    pub indexes: Vec<IndexRows>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// One index.
#[derive(Clone, Debug, Serialize)]
pub struct IndexRows {
    /// `schema.table`, if a definition was found.
    pub table: Option<String>,
    /// Its name, if a definition was found.
    pub name: Option<String>,
    /// Whether it is the clustered index.
    pub clustered: bool,
    /// Its id.
    pub id: u64,
    /// Levels.
    pub levels: u32,
    /// Pages.
    pub pages: u64,
    /// Leaves among these.
    pub leaves: u64,
    /// Records in the leaves.
    pub records: u64,
    /// Cold scans on the device.
    pub rows: Vec<ScanBenchRow>,
    /// Direct scans on the simulated device.
    pub simulated: Option<Simulated>,
}

/// One way of reading the index.
#[derive(Clone, Debug, Serialize)]
pub struct ScanBenchRow {
    /// Direct, or through the page cache.
    pub way: Way,
    /// The read-ahead.
    pub policy: Policy,
    /// Read requests.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Mean number of requests in flight when each was submitted, including itself; 0 if all came from the page cache.
    pub in_flight_mean: f64,
    /// The most requests in flight.
    pub in_flight_max: u64,
    /// Time of a scan.
    pub seconds: Repeated,
    /// Bytes of the index's pages a second.
    pub bytes_per_second: Repeated,
    /// Share of the best row in the same round, 0 to 1.
    pub share_of_best: Repeated,
    /// The progress of the last round over time.
    pub over_time: Vec<Sample>,
}

/// The index on a device that is slow and wide.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// Its properties.
    #[serde(flatten)]
    pub device: SimulatedDevice,
    /// One row per policy.
    pub rows: Vec<SimulatedRow>,
}

/// One policy on that device.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedRow {
    /// The read-ahead.
    pub policy: Policy,
    /// Read requests.
    pub requests: u64,
    /// The most requests in flight.
    pub in_flight_max: u64,
    /// Time on the device's clock, without the processor's work.
    pub seconds: f64,
    /// Time of the first row over the time of this one.
    pub times_none: f64,
}

/// Compares kinds of read-ahead on the indexes of one file, or of a table made in the directory `path`, which is removed at the end.
///
/// # Errors
/// If the file cannot be read, is not a tablespace or is damaged, if it has no such index, if the table cannot be made, or if the run was
/// interrupted.
pub fn scan(path: &Path, options: &ScanBenchOptions, watch: Watch<'_>) -> Result<ScanBenchReport, Error> {
    if options.rounds == 0 {
        return Err(Error::Usage("a round is needed".to_owned()));
    }
    if options.pool < POOL_MIN {
        return Err(Error::Usage(format!("a buffer pool has at least {} MiB", POOL_MIN >> 20)));
    }
    let Some(size) = options.aged else { return scan_file(path, path, options, watch) };
    // It grows by about a half while it ages.
    let file = Scratch::new(path, size.saturating_add(size / 4 * 3))?.file("aged.ibd")?;
    watch.step("making the aged table", 0, 1)?;
    let aged = aged::make(&file, size, watch)?;
    let report = scan_file(&file.again(), path, options, watch)?;
    Ok(ScanBenchReport { aged: Some(aged), ..report })
}

/// The same for a file on the file system of `place`.
fn scan_file(
    path: &Path,
    place: &Path,
    options: &ScanBenchOptions,
    watch: Watch<'_>,
) -> Result<ScanBenchReport, Error> {
    let one = One::open(path)?;
    let storage = Storage::below(place).map_err(failed(place, "asking about the file system"))?;
    let target = BenchFile::open(path, one.len, false).map_err(failed(path, "opening"))?;
    let mut bench = Bench { path, options, one: &one, target, watch, cache: Emptied::default(), done: 0, expected: 0 };
    let mut notes = Vec::new();
    let trees = bench.trees(&mut notes)?;
    let ways = bench.ways(&mut notes);
    let simulated = if options.sim.is_some() { POLICIES.len() } else { 0 };
    bench.expected = (trees.len() * (ways.len() * POLICIES.len() * options.rounds + simulated)) as u64;
    let mut indexes = Vec::new();
    for tree in trees {
        indexes.push(bench.index(tree, &ways, &mut notes)?);
    }
    Ok(ScanBenchReport {
        machine: Machine::here(),
        storage,
        bytes: one.len,
        rounds: options.rounds,
        cache: bench.cache,
        depth: pass::DEPTH,
        block_size: pass::BLOCK,
        pool: options.pool,
        aged: None,
        indexes,
        notes,
    })
}

struct Bench<'b> {
    path: &'b Path,
    options: &'b ScanBenchOptions,
    one: &'b One,
    target: BenchFile,
    watch: Watch<'b>,
    cache: Emptied,
    done: u64,
    expected: u64,
}

impl<'b> Bench<'b> {
    fn usage(&self, what: &str) -> Error {
        Error::Usage(format!("{}: {what}", self.path.display()))
    }

    /// The trees to read: the requested one, or the clustered one and the largest other one.
    fn trees(&self, notes: &mut Vec<String>) -> Result<Vec<&'b NamedTree>, Error> {
        let kind = |tree: &NamedTree| {
            let table = tree.named.as_ref().filter(|named| named.table.is_some())?;
            table.index.as_ref().map(|index| index.kind)
        };
        let name = |tree: &NamedTree| tree.named.as_ref().and_then(|named| named.name.clone());
        let can_walk = |tree: &&NamedTree| {
            let index = tree.named.as_ref().and_then(|named| named.index.as_ref());
            Walk::can_descend(&tree.root, index)
        };
        let trees = || self.one.trees.iter().filter(can_walk);
        if let Some(wanted) = &self.options.index {
            let found = trees().find(|tree| name(tree).as_ref() == Some(wanted));
            let names: Vec<String> = trees().filter_map(name).collect();
            let why = format!("has no index {wanted} that can be read; there are: {}", names.join(", "));
            return found.map(|tree| vec![tree]).ok_or_else(|| self.usage(&why));
        }
        let largest =
            |wanted: IndexKind| trees().filter(|tree| kind(tree) == Some(wanted)).max_by_key(|tree| tree.root.pages);
        let found: Vec<&NamedTree> =
            [IndexKind::Clustered, IndexKind::Secondary].into_iter().filter_map(largest).collect();
        if found.is_empty() {
            let why = "no definition of its table was found, without which its trees cannot be read in order";
            return Err(self.usage(why));
        }
        if found.len() == 1 {
            notes.push("there is no secondary index to read".to_owned());
        }
        Ok(found)
    }

    fn ways(&self, notes: &mut Vec<String>) -> Vec<Way> {
        match self.target.handle(true) {
            Ok(_) => vec![Way::Direct, Way::Buffered],
            Err(why) => {
                notes.push(format!("direct I/O was not measured, the file system refuses it: {why}"));
                vec![Way::Buffered]
            }
        }
    }

    fn index(&mut self, tree: &'b NamedTree, ways: &[Way], notes: &mut Vec<String>) -> Result<IndexRows, Error> {
        let index = tree.named.as_ref().and_then(|named| named.index.as_ref());
        let place = ScanPlace {
            space: &self.one.space,
            map: &self.one.map,
            root: &tree.root,
            index,
            memory: pass::SWEEP_MEMORY,
            pool: self.options.pool,
        };
        let title = index.map_or_else(|| tree.root.index_id.to_string(), |index| index.name.clone());
        let plans: Vec<(Way, Policy)> =
            ways.iter().flat_map(|way| POLICIES.iter().map(move |policy| (*way, *policy))).collect();
        let mut passes: Vec<Vec<Pass>> = plans.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.options.rounds {
            for (&(way, policy), passes) in plans.iter().zip(&mut passes) {
                self.step(format!("{title}: {}, {}", way_words(way), policy.words()))?;
                let emptied = self.target.empty().map_err(failed(self.path, "dropping it from the page cache"))?;
                self.cache = self.cache.max(emptied);
                let handle = self.target.handle(way == Way::Direct).map_err(|why| self.usage(why))?;
                passes.extend(place.read(Bytes::Device(way, &self.one.set, handle), policy)?);
            }
        }
        let first = passes.iter().flatten().next().ok_or_else(|| self.usage("nothing was read"))?.counts;
        if passes.iter().flatten().any(|pass| pass.counts != first) {
            return Err(self.usage("changes while it is measured"));
        }
        let is_missing = |is_server: bool| {
            let mut empty = plans.iter().zip(&passes).filter(|(_, passes)| passes.is_empty());
            empty.any(|((_, policy), _)| policy.rules().is_some() == is_server)
        };
        if is_missing(false) {
            notes.push(format!(
                "index {title}: not read in the order of the file: it is one page, or its order is unknown"
            ));
        }
        if is_missing(true) {
            notes.push(format!("index {title}: not read as by a server: its pages have less than 4 KiB"));
        }
        let simulated = self.simulated(&title, &place)?;
        Ok(IndexRows {
            table: tree.named.as_ref().and_then(|named| named.table.clone()),
            name: tree.named.as_ref().and_then(|named| named.name.clone()),
            clustered: index.is_some_and(format::schema::IndexDef::is_clustered),
            id: tree.root.index_id,
            levels: u32::from(tree.root.level) + 1,
            pages: first.pages,
            leaves: first.leaves,
            records: first.records,
            rows: rows(&plans, &passes, first.pages * u64::from(self.one.space.format.physical().get())),
            simulated,
        })
    }

    fn step(&mut self, what: String) -> Result<(), Error> {
        self.watch.step(what, self.done, self.expected)?;
        self.done += 1;
        Ok(())
    }

    fn simulated(&mut self, title: &str, place: &ScanPlace<'_>) -> Result<Option<Simulated>, Error> {
        let Some(options) = &self.options.sim else { return Ok(None) };
        let mut rows: Vec<SimulatedRow> = Vec::new();
        for policy in POLICIES {
            self.step(format!("{title}: simulated, {}", policy.words()))?;
            let file = File::open(self.path).map_err(failed(self.path, "opening"))?;
            let Some(pass) = place.read(Bytes::Simulated(options, file, self.one.len), policy)? else { continue };
            let seconds = pass.time.as_secs_f64();
            let none = rows.first().map_or(seconds, |none| none.seconds);
            rows.push(SimulatedRow {
                policy,
                requests: pass.effort.requests,
                in_flight_max: pass.effort.in_flight_max,
                seconds,
                times_none: none / seconds.max(1e-9),
            });
        }
        Ok(Some(Simulated { device: SimulatedDevice::of(options), rows }))
    }
}

/// A description for people.
#[must_use]
pub const fn way_words(way: Way) -> &'static str {
    match way {
        Way::Direct => "direct",
        Way::Buffered => "buffered",
    }
}

fn rows(plans: &[(Way, Policy)], passes: &[Vec<Pass>], bytes: u64) -> Vec<ScanBenchRow> {
    let rate = |pass: &Pass| bytes as f64 / pass.time.as_secs_f64().max(1e-9);
    let best = |round: usize| passes.iter().filter_map(|passes| passes.get(round)).map(rate).fold(1.0, f64::max);
    let row = |((way, policy), passes): (&(Way, Policy), &Vec<Pass>)| {
        let last = passes.last()?;
        let rates: Vec<f64> = passes.iter().map(rate).collect();
        let shares: Vec<f64> = rates.iter().enumerate().map(|(round, rate)| rate / best(round)).collect();
        let seconds: Vec<f64> = passes.iter().map(|pass| pass.time.as_secs_f64()).collect();
        Some(ScanBenchRow {
            way: *way,
            policy: *policy,
            requests: last.effort.requests,
            bytes: last.effort.bytes_read,
            in_flight_mean: last.effort.in_flight_mean(),
            in_flight_max: last.effort.in_flight_max,
            seconds: Repeated::of(&seconds),
            bytes_per_second: Repeated::of(&rates),
            share_of_best: Repeated::of(&shares),
            over_time: last.over_time.clone(),
        })
    };
    plans.iter().zip(passes).filter_map(row).collect()
}
