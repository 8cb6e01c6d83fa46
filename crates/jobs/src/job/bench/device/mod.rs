//! `bench device`: `random bytes -> file -> patterns -> climb -> limits`
//!
//! A device has no one speed. For each order and way the search (`search.rs`) turns engine, block size, depth and threads until nothing
//! is better by more than noise; that is the limit. Beside it stand patterns as databases and tools produce them, each with its share.

mod typical;
mod writes;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::cold::Emptied;
use super::machine::{Machine, Storage};
use super::pattern::{self, Access, Carrier, Order, Pattern, Random, Sample, Setting, Way};
use super::scratch::{Nameless, Scratch};
use super::search::{self, Space};
use super::stats::{Latency, Repeated};
use super::target::Target;
use super::{Step, Watch, failed};
use crate::Error;
use typical::TYPICAL;
pub use writes::{Write, WriteKind};

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Bytes of the file that is read and written.
    pub size: u64,
    /// Time of one measurement.
    pub time: Duration,
    /// What to do with the blocks.
    pub accesses: Vec<Access>,
    /// Orders to measure.
    pub orders: Vec<Order>,
    /// Ways to measure.
    pub ways: Vec<Way>,
    /// The engine, where it shall not be searched.
    pub engine: Option<Carrier>,
    /// Bytes of a request, where they shall not be searched.
    pub block_size: Option<u32>,
    /// Requests in flight for each thread, where they shall not be searched.
    pub depth: Option<u32>,
    /// Threads, where they shall not be searched.
    pub threads: Option<u32>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            size: 1 << 30,
            time: Duration::from_millis(500),
            accesses: vec![Access::Read, Access::Write],
            orders: vec![Order::Sequential, Order::Random],
            ways: vec![Way::Direct, Way::Buffered],
            engine: None,
            block_size: None,
            depth: None,
            threads: None,
        }
    }
}

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// The machine.
    pub machine: Machine,
    /// Where the file was.
    pub storage: Storage,
    /// Bytes of the file.
    pub size: u64,
    /// Time of one measurement.
    pub seconds_each: f64,
    /// How buffered reads were made cold.
    pub cache: Emptied,
    /// The best of each order and way.
    pub limits: Vec<Limit>,
    /// Patterns of databases and tools.
    pub patterns: Vec<Typical>,
    /// Kinds of space, and small writes by themselves and gathered.
    pub writes: Vec<Write>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// The best that was found for one order and way.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    /// What was done with the blocks.
    pub access: Access,
    /// The order of the blocks.
    pub order: Order,
    /// Which way they took.
    pub way: Way,
    /// The setting that nothing beat.
    pub setting: Setting,
    /// Bytes a second with it.
    pub bytes_per_second: Repeated,
    /// Requests a second with it.
    pub requests_per_second: f64,
    /// Of its requests.
    pub latency: Latency,
    /// The same setting at other depths.
    pub by_depth: Vec<Tried>,
    /// The same setting with other block sizes.
    pub by_block_size: Vec<Tried>,
    /// Every measurement of the search, in order.
    pub tried: Vec<Tried>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// What came of it.
    pub bytes_per_second: f64,
}

/// A pattern as somebody produces it.
#[derive(Clone, Debug, Serialize)]
pub struct Typical {
    /// Who.
    pub name: &'static str,
    /// The pattern.
    #[serde(flatten)]
    pub pattern: Pattern,
    /// Bytes a second.
    pub bytes_per_second: Repeated,
    /// Requests a second.
    pub requests_per_second: f64,
    /// Of its requests.
    pub latency: Latency,
    /// Of the limit of the same order past the page cache, 0 to 1.
    pub share_of_limit: Option<f64>,
}

/// Bytes of an InnoDB page, the block of random patterns unless another is asked for.
const PAGE: u32 = 16 << 10;
/// Bytes in flight over all threads, at most.
const IN_FLIGHT_MAX: u64 = 256 << 20;
/// Measurements of a search with its sections, for a first guess of the time.
const SEARCH_EXPECTED: u64 = 45;
/// Measurements of each typical pattern.
const REPEATS: usize = 3;

/// Measures the file system that holds `dir`, on a file of its own.
///
/// # Errors
/// There is no room, the file cannot be made, the device fails, or the run was interrupted.
pub fn device(dir: &Path, options: &DeviceOptions, watch: Watch<'_>) -> Result<DeviceReport, Error> {
    validate(options)?;
    let scratch = Scratch::new(dir, options.size + writes::space(options))?;
    let storage = Storage::below(dir).map_err(failed(dir, "asking about the file system"))?;
    let file = scratch.file("data")?;
    fill(&file, options.size, watch)?;
    let target =
        Target::open(&file.again(), options.size, true).map_err(failed(dir, "opening the file of the bench"))?;
    let mut bench = Bench::new(dir, options, &target, watch);
    if bench.engines.is_empty() {
        return Err(Error::Usage(bench.notes.join("; ")));
    }
    bench.limits()?;
    if bench.is_searched() {
        bench.typical()?;
        bench.writes(&scratch, &storage)?;
    }
    Ok(DeviceReport {
        machine: Machine::here(),
        storage,
        size: options.size,
        seconds_each: options.time.as_secs_f64(),
        cache: bench.cache,
        limits: bench.limits,
        patterns: bench.patterns,
        writes: bench.writes,
        notes: bench.notes,
    })
}

fn validate(options: &DeviceOptions) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    if options.block_size.is_some_and(|size| size == 0 || !size.is_multiple_of(4096)) {
        return usage("the block size must be a multiple of 4K");
    }
    if options.size < 1 << 20 || options.block_size.is_some_and(|block| u64::from(block) > options.size) {
        return usage("the size must be at least 1M, and at least a block");
    }
    if options.depth == Some(0) || options.threads == Some(0) || options.time.is_zero() {
        return usage("depth, threads and seconds must be more than 0");
    }
    Ok(())
}

/// Writes random bytes, which no device can shrink or share, and syncs them.
fn fill(file: &Nameless, size: u64, watch: Watch<'_>) -> Result<(), Error> {
    const CHUNK: u64 = 4 << 20;
    let mut random = Random::default();
    let mut chunk = vec![0; CHUNK as usize];
    let mut out: &File = &file.file;
    for start in (0..size).step_by(CHUNK as usize) {
        watch.go_on()?;
        (watch.step)(&Step {
            what: "writing the file".to_owned(),
            done: start / CHUNK,
            expected: size.div_ceil(CHUNK),
        });
        random.fill(&mut chunk);
        let len = (size - start).min(CHUNK) as usize;
        out.write_all(chunk.get(..len).unwrap_or(&chunk))
            .map_err(failed(&file.path, "writing the file of the bench"))?;
    }
    file.file.sync_all().map_err(failed(&file.path, "syncing the file of the bench"))
}

struct Bench<'b> {
    dir: &'b Path,
    options: &'b DeviceOptions,
    target: &'b Target,
    watch: Watch<'b>,
    engines: Vec<Carrier>,
    done: u64,
    expected: u64,
    cache: Emptied,
    limits: Vec<Limit>,
    patterns: Vec<Typical>,
    writes: Vec<Write>,
    notes: Vec<String>,
}

impl<'b> Bench<'b> {
    fn new(dir: &'b Path, options: &'b DeviceOptions, target: &'b Target, watch: Watch<'b>) -> Self {
        let mut notes = Vec::new();
        let mut engines = Vec::new();
        for engine in [Carrier::Uring, Carrier::Threads] {
            match engine.works() {
                _ if options.engine.is_some_and(|wanted| wanted != engine) => {}
                Ok(()) => engines.push(engine),
                Err(why) => notes.push(format!("{engine:?} does not work here: {why}")),
            }
        }
        let ways = options.ways.iter().filter(|way| match target.handle(**way == Way::Direct) {
            Ok(_) => true,
            Err(why) => {
                notes.push(format!("direct I/O was not measured, the file system refuses it: {why}"));
                false
            }
        });
        let searches = ways.count() * options.orders.len() * options.accesses.len();
        Self {
            dir,
            options,
            target,
            watch,
            engines,
            done: 0,
            expected: searches as u64 * SEARCH_EXPECTED + (TYPICAL.len() * REPEATS) as u64 + writes::EXPECTED,
            cache: Emptied::default(),
            limits: Vec::new(),
            patterns: Vec::new(),
            writes: Vec::new(),
            notes,
        }
    }

    /// Whether nothing is fixed, so that the whole picture is wanted.
    fn is_searched(&self) -> bool {
        let options = self.options;
        options.block_size.is_none() && options.depth.is_none() && options.threads.is_none()
    }

    fn limits(&mut self) -> Result<(), Error> {
        let options = self.options;
        for &access in &options.accesses {
            for &order in &options.orders {
                for &way in &options.ways {
                    if self.target.handle(way == Way::Direct).is_ok() {
                        let limit = self.limit(access, order, way)?;
                        self.limits.push(limit);
                    }
                }
            }
        }
        Ok(())
    }

    fn space(&self, order: Order) -> Space {
        let powers = |low: u32, high: u32| (low..=high).map(|bits| 1_u32 << bits).collect::<Vec<_>>();
        let cores = u32::try_from(Machine::here().cores).unwrap_or(1).next_power_of_two();
        let one = |value: Option<u32>, all: Vec<u32>| value.map_or(all, |value| vec![value]);
        // Of random patterns the block is given: it is the page that somebody wants. How large it is decides the rate, and a search
        // would only find that large is fast.
        let block_sizes = match order {
            Order::Sequential => powers(12, 23),
            Order::Random => vec![PAGE],
        };
        let size = self.options.size;
        Space {
            engines: self.engines.clone(),
            block_sizes: one(self.options.block_size, block_sizes)
                .into_iter()
                .filter(|b| u64::from(*b) <= size)
                .collect(),
            depths: one(self.options.depth, powers(0, 7)),
            threads: one(self.options.threads, powers(0, cores.trailing_zeros() + 1)),
            in_flight_max: IN_FLIGHT_MAX,
        }
    }

    fn limit(&mut self, access: Access, order: Order, way: Way) -> Result<Limit, Error> {
        let space = self.space(order);
        let mut samples: HashMap<Setting, Sample> = HashMap::new();
        let found = search::climb(&space, &mut |setting| {
            let sample = self.measure(&Pattern { access, order, way, setting })?;
            let rate = sample.rate();
            samples.insert(setting, sample);
            Ok(rate)
        })?;
        let best = found.setting;
        let depths = space.depths.iter().map(|&depth| Setting { depth, ..best });
        let by_depth = self.section((access, order, way), &samples, depths)?;
        let sizes = space.block_sizes.iter().map(|&block_size| Setting { block_size, ..best });
        let by_block_size = self.section((access, order, way), &samples, sizes)?;
        let sample = samples.get(&best);
        Ok(Limit {
            access,
            order,
            way,
            setting: best,
            requests_per_second: found.value.median / f64::from(best.block_size),
            bytes_per_second: found.value,
            latency: sample.map(|sample| sample.latency).unwrap_or_default(),
            by_depth,
            by_block_size,
            tried: found
                .tried
                .into_iter()
                .map(|(setting, bytes_per_second)| Tried { setting, bytes_per_second })
                .collect(),
        })
    }

    /// A line through the best point: what was measured on it, and what was not is measured now.
    fn section(
        &mut self,
        (access, order, way): (Access, Order, Way),
        samples: &HashMap<Setting, Sample>,
        settings: impl Iterator<Item = Setting>,
    ) -> Result<Vec<Tried>, Error> {
        let fits = |setting: &Setting| {
            u64::from(setting.block_size) * u64::from(setting.depth) * u64::from(setting.threads) <= IN_FLIGHT_MAX
        };
        settings
            .filter(fits)
            .map(|setting| {
                let bytes_per_second = match samples.get(&setting) {
                    Some(sample) => sample.rate(),
                    None => self.measure(&Pattern { access, order, way, setting })?.rate(),
                };
                Ok(Tried { setting, bytes_per_second })
            })
            .collect()
    }

    fn measure(&mut self, pattern: &Pattern) -> Result<Sample, Error> {
        self.watch.step(words(pattern), self.done, self.expected)?;
        self.done += 1;
        self.expected = self.expected.max(self.done);
        // Past the page cache too: pages in it cost each direct request a look, and a direct write their removal.
        let emptied = self.target.empty().map_err(failed(self.dir, "dropping the page cache"))?;
        if pattern.way == Way::Buffered {
            self.cache = self.cache.max(emptied);
            advise(self.target.file(), pattern.order);
        }
        let sample = pattern::run(pattern, self.target, self.options.time, self.watch.stop);
        self.watch.go_on()?;
        sample.map_err(failed(self.dir, "reading and writing the file of the bench"))
    }
}

/// What the kernel reads ahead depends on what it is told.
#[cfg(target_os = "linux")]
fn advise(file: &File, order: Order) {
    let advice = match order {
        Order::Sequential => rustix::fs::Advice::Sequential,
        Order::Random => rustix::fs::Advice::Random,
    };
    // Advice that is not taken changes the speed only, and that is what is measured.
    rustix::fs::fadvise(file, 0, None, advice).ok();
}

#[cfg(not(target_os = "linux"))]
fn advise(_file: &File, _order: Order) {}

/// For the progress bar.
fn words(pattern: &Pattern) -> String {
    let Setting { engine, block_size, depth, threads } = pattern.setting;
    let access = if pattern.access == Access::Read { "read" } else { "write" };
    let order = if pattern.order == Order::Sequential { "sequential" } else { "random" };
    let way = if pattern.way == Way::Direct { "direct" } else { "buffered" };
    let engine = if engine == Carrier::Uring { "io_uring" } else { "threads" };
    format!("{access} {order} {way} {engine} {} KiB x {depth} x {threads}", block_size >> 10)
}
