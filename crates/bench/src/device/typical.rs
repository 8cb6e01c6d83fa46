//! Patterns that databases and tools produce.

use super::super::pattern::{Access, Order, Pattern, Sample, Setting, Way};
use super::super::stats::Repeated;
use super::options::PAGE;
use super::report::{Limit, Typical};
use super::run::Bench;
use datadir::Error;

/// Threads of the classic programs.
const MANY: u32 = 16;

/// Name, access, order, way, bytes of a request, requests in flight for each thread, threads. The last four are the classic programs: many
/// threads, each of which waits for its own request.
pub(super) const TYPICAL: [(&str, Access, Order, Way, u32, u32, u32); 12] = [
    ("a tool that reads page by page", Access::Read, Order::Sequential, Way::Buffered, PAGE, 1, 1),
    ("the same past the page cache", Access::Read, Order::Sequential, Way::Direct, PAGE, 1, 1),
    ("innokit check, one worker", Access::Read, Order::Sequential, Way::Direct, 1 << 20, 8, 1),
    ("one query, page after page", Access::Read, Order::Random, Way::Direct, PAGE, 1, 1),
    ("eight queries", Access::Read, Order::Random, Way::Direct, PAGE, 8, 1),
    ("pages known beforehand", Access::Read, Order::Random, Way::Direct, PAGE, 64, 1),
    ("page after page is flushed", Access::Write, Order::Random, Way::Direct, PAGE, 1, 1),
    ("64 pages are flushed at a time", Access::Write, Order::Random, Way::Direct, PAGE, 64, 1),
    ("many threads read in order", Access::Read, Order::Sequential, Way::Direct, PAGE, 1, MANY),
    ("many threads read at random", Access::Read, Order::Random, Way::Direct, PAGE, 1, MANY),
    ("many threads write in order", Access::Write, Order::Sequential, Way::Direct, PAGE, 1, MANY),
    ("many threads write at random", Access::Write, Order::Random, Way::Direct, PAGE, 1, MANY),
];

impl Bench<'_> {
    /// Measures those that the options do not leave out.
    pub(super) fn typical(&mut self) -> Result<(), Error> {
        let Some(&engine) = self.engines.first() else { return Ok(()) };
        let options = self.options;
        let pattern = |&(name, access, order, way, block_size, depth, threads)| {
            let setting = Setting { engine, block_size, depth, threads }.by(engine);
            (name, Pattern { access, order, way, setting })
        };
        let is_wanted = |pattern: &Pattern| {
            options.accesses.contains(&pattern.access)
                && options.orders.contains(&pattern.order)
                && options.ways.contains(&pattern.way)
                && self.target.handle(pattern.way == Way::Direct).is_ok()
                && engine.goes(pattern.way)
                && u64::from(pattern.setting.block_size) <= options.size
        };
        let (names, patterns): (Vec<&'static str>, Vec<Pattern>) =
            TYPICAL.iter().map(pattern).filter(|(_, pattern)| is_wanted(pattern)).unzip();
        let samples = self.in_rounds(&patterns)?;
        for ((name, pattern), samples) in names.into_iter().zip(patterns).zip(samples) {
            let row = self.row(name, pattern, &samples);
            self.patterns.push(row);
        }
        Ok(())
    }

    fn row(&self, name: &'static str, pattern: Pattern, samples: &[Sample]) -> Typical {
        let rates: Vec<f64> = samples.iter().map(Sample::rate).collect();
        let rate = Repeated::of(&rates);
        let of_kind = |limit: &&Limit| (limit.access, limit.order) == (pattern.access, pattern.order);
        let limits = self.limits.iter().filter(of_kind).map(|limit| limit.bytes_per_second.median);
        let limit = limits.fold(0.0, f64::max);
        Typical {
            name,
            pattern,
            requests_per_second: rate.median / f64::from(pattern.setting.block_size),
            share_of_limit: (limit > 0.0).then(|| rate.median / limit),
            bytes_per_second: rate,
            latency: samples.last().map(|sample| sample.latency).unwrap_or_default(),
        }
    }
}
