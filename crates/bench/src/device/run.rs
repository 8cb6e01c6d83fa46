//! A run: the search for limits, and what all measurements share.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use super::super::cold::Emptied;
use super::super::machine::Machine;
use super::super::pattern::{self, Access, Carrier, Order, Pattern, Sample, Setting, Way};
use super::super::search::{self, SearchSpace};
use super::super::target::BenchFile;
use super::super::{Watch, failed};
use super::options::{DeviceOptions, PAGE};
use super::report::{EngineRow, Limit, Tried, Typical, Write};
use datadir::Error;

/// Maximum bytes in flight over all threads.
const IN_FLIGHT_MAX: u64 = 256 << 20;
/// Measurements of a search with its sections, as a first estimate for the progress bar.
const SEARCH_EXPECTED: u64 = 45;

pub(super) struct Bench<'b> {
    pub dir: &'b Path,
    pub options: &'b DeviceOptions,
    pub target: &'b BenchFile,
    pub watch: Watch<'b>,
    pub engines: Vec<Carrier>,
    pub done: u64,
    pub expected: u64,
    pub cache: Emptied,
    pub limits: Vec<Limit>,
    pub by_engine: Vec<EngineRow>,
    pub patterns: Vec<Typical>,
    pub writes: Vec<Write>,
    pub notes: Vec<String>,
}

impl<'b> Bench<'b> {
    /// `others`: measurements besides those of the search, for the estimate.
    pub fn new(
        dir: &'b Path,
        options: &'b DeviceOptions,
        target: &'b BenchFile,
        watch: Watch<'b>,
        others: u64,
    ) -> Self {
        let mut notes = Vec::new();
        let mut engines = Vec::new();
        for engine in options.engine.map_or(Carrier::JOBS.to_vec(), |engine| vec![engine]) {
            match engine.works() {
                Ok(()) => engines.push(engine),
                Err(why) => notes.push(format!("{} does not work here: {why}", engine.name())),
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
            expected: searches as u64 * SEARCH_EXPECTED + others,
            cache: Emptied::default(),
            limits: Vec::new(),
            by_engine: Vec::new(),
            patterns: Vec::new(),
            writes: Vec::new(),
            notes,
        }
    }

    /// Whether nothing is fixed, so that everything is searched.
    pub fn is_searched(&self) -> bool {
        let options = self.options;
        options.block_size.is_none() && options.depth.is_none() && options.threads.is_none()
    }

    pub fn limits(&mut self) -> Result<(), Error> {
        let options = self.options;
        for &access in &options.accesses {
            for &order in &options.orders {
                for &way in &options.ways {
                    if self.target.handle(way == Way::Direct).is_ok()
                        && self.engines.iter().any(|engine| engine.goes(way))
                    {
                        let limit = self.limit(access, order, way)?;
                        self.limits.push(limit);
                    }
                }
            }
        }
        Ok(())
    }

    fn space(&self, order: Order) -> SearchSpace {
        let powers = |low: u32, high: u32| (low..=high).map(|bits| 1_u32 << bits).collect::<Vec<_>>();
        let cores = u32::try_from(Machine::here().cores).unwrap_or(1).next_power_of_two();
        let one = |value: Option<u32>, all: Vec<u32>| value.map_or(all, |value| vec![value]);
        // The block of random patterns is given: it is the page that a query needs. The rate depends on its size, so a search would only
        // find that large blocks are fast.
        let block_sizes = match order {
            Order::Sequential => powers(12, 23),
            Order::Random => vec![PAGE],
        };
        let size = self.options.size;
        SearchSpace {
            engines: self.engines.clone(),
            block_sizes: one(self.options.block_size, block_sizes)
                .into_iter()
                .filter(|b| u64::from(*b) <= size)
                .collect(),
            depths: if self.engines == [Carrier::Mmap] { vec![1] } else { one(self.options.depth, powers(0, 7)) },
            threads: one(self.options.threads, powers(0, cores.trailing_zeros() + 1)),
            in_flight_max: IN_FLIGHT_MAX,
        }
    }

    fn limit(&mut self, access: Access, order: Order, way: Way) -> Result<Limit, Error> {
        let space = self.space(order);
        let mut samples: HashMap<Setting, Sample> = HashMap::new();
        let found = search::climb(&space, self.options.rounds, &mut |setting| {
            let sample = self.measure(&Pattern { access, order, way, setting })?;
            let rate = sample.rate();
            samples.insert(setting, sample);
            Ok(rate)
        })?;
        let best = found.setting;
        let depths = space.depths.iter().map(|&depth| Setting { depth, ..best });
        let line = Pattern { access, order, way, setting: best };
        let by_depth = self.section(&line, &samples, depths)?;
        let sizes = space.block_sizes.iter().map(|&block_size| Setting { block_size, ..best });
        let by_block_size = self.section(&line, &samples, sizes)?;
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

    /// A line through the best point. Uses the samples on it, and measures the missing ones.
    fn section(
        &mut self,
        best: &Pattern,
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
                    None => self.measure(&Pattern { setting, ..*best })?.rate(),
                };
                Ok(Tried { setting, bytes_per_second })
            })
            .collect()
    }

    /// Measures each pattern several times, in rounds, so that all of them meet the same conditions.
    pub fn in_rounds(&mut self, patterns: &[Pattern]) -> Result<Vec<Vec<Sample>>, Error> {
        let mut samples = vec![Vec::new(); patterns.len()];
        for _ in 0..self.options.rounds {
            for (pattern, samples) in patterns.iter().zip(&mut samples) {
                samples.push(self.measure(pattern)?);
            }
        }
        Ok(samples)
    }

    pub fn measure(&mut self, pattern: &Pattern) -> Result<Sample, Error> {
        self.watch.step(words(pattern), self.done, self.expected)?;
        self.done += 1;
        self.expected = self.expected.max(self.done);
        // For direct I/O too: each direct request looks for its pages in the cache, and a write removes them.
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

/// The kernel's read-ahead depends on this advice.
#[cfg(target_os = "linux")]
fn advise(file: &File, order: Order) {
    let advice = match order {
        Order::Sequential => rustix::fs::Advice::Sequential,
        Order::Random => rustix::fs::Advice::Random,
    };
    // Advice that is ignored changes only the speed, which is what we measure.
    rustix::fs::fadvise(file, 0, None, advice).ok();
}

#[cfg(not(target_os = "linux"))]
fn advise(_file: &File, _order: Order) {}

/// A description for the progress bar.
fn words(pattern: &Pattern) -> String {
    let Setting { engine, block_size, depth, threads } = pattern.setting;
    let access = if pattern.access == Access::Read { "read" } else { "write" };
    let order = if pattern.order == Order::Sequential { "sequential" } else { "random" };
    let way = if pattern.way == Way::Direct { "direct" } else { "buffered" };
    let engine = engine.name();
    format!("{access} {order} {way} {engine} {} KiB x {depth} x {threads}", block_size >> 10)
}
