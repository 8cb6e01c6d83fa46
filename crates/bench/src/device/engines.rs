//! The same pattern by every engine, including those that no job uses.

use super::super::pattern::{Carrier, Pattern, Sample, Setting, Way};
use super::super::stats::Repeated;
use super::options::REPEATS;
use super::report::{EngineRow, Limit};
use super::run::Bench;
use jobs::Error;

impl Bench<'_> {
    /// Measures the setting of each limit with each engine, in rounds, so that all engines meet the same conditions.
    pub(super) fn engines(&mut self) -> Result<(), Error> {
        let engines: Vec<Carrier> = Carrier::ALL.into_iter().filter(|engine| engine.works().is_ok()).collect();
        for engine in Carrier::ALL {
            if let (false, Err(why)) = (Carrier::JOBS.contains(&engine), engine.works()) {
                self.notes.push(format!("{} does not work here: {why}", engine.name()));
            }
        }
        let patterns: Vec<Pattern> = self.limits.iter().map(Limit::pattern).collect();
        for limit in patterns {
            let with = |&engine: &Carrier| Pattern { setting: with_engine(limit.setting, engine), ..limit };
            let patterns: Vec<Pattern> = engines.iter().filter(|engine| engine.goes(limit.way)).map(with).collect();
            let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); patterns.len()];
            for _ in 0..REPEATS {
                for (pattern, samples) in patterns.iter().zip(&mut samples) {
                    samples.push(self.measure(pattern)?);
                }
            }
            self.add(&patterns, &samples);
        }
        Ok(())
    }

    fn add(&mut self, patterns: &[Pattern], samples: &[Vec<Sample>]) {
        let mut first = None;
        for (pattern, samples) in patterns.iter().zip(samples) {
            let rate = Repeated::of(&samples.iter().map(Sample::rate).collect::<Vec<_>>());
            let first = *first.get_or_insert(rate.median);
            self.by_engine.push(EngineRow {
                pattern: *pattern,
                requests_per_second: rate.median / f64::from(pattern.setting.block_size),
                times_first: rate.median / first.max(1.0),
                bytes_per_second: rate,
                latency: samples.last().map(|sample| sample.latency).unwrap_or_default(),
            });
        }
    }
}

/// A mapped file has one access in flight for each thread.
const fn with_engine(setting: Setting, engine: Carrier) -> Setting {
    let depth = match engine {
        Carrier::Mmap => 1,
        _ => setting.depth,
    };
    Setting { engine, depth, ..setting }
}

/// Whether any of the engines can move bytes this way.
pub(super) fn any_goes(engines: &[Carrier], way: Way) -> bool {
    engines.iter().any(|engine| engine.goes(way))
}
