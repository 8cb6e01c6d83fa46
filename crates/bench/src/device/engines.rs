//! The same pattern by every engine, including those that no job uses.

use super::super::pattern::{Carrier, Pattern, Sample};
use super::super::stats::Repeated;
use super::report::{EngineRow, Limit};
use super::run::Bench;
use datadir::Error;

impl Bench<'_> {
    /// Measures the setting of each limit with each engine.
    pub(super) fn engines(&mut self) -> Result<(), Error> {
        let mut engines = Vec::new();
        for engine in Carrier::ALL {
            match engine.works() {
                Ok(()) => engines.push(engine),
                // The search has told of the others.
                Err(_) if Carrier::JOBS.contains(&engine) => {}
                Err(why) => self.notes.push(format!("{} does not work here: {why}", engine.name())),
            }
        }
        let limits: Vec<Pattern> = self.limits.iter().map(Limit::pattern).collect();
        for limit in limits {
            let with = |&engine: &Carrier| Pattern { setting: limit.setting.by(engine), ..limit };
            let patterns: Vec<Pattern> = engines.iter().filter(|engine| engine.goes(limit.way)).map(with).collect();
            let samples = self.in_rounds(&patterns)?;
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
