//! Finds the best setting by climbing: from the best of a few starts, one step at a time in each dimension, until no neighbour is better by
//! more than the noise of the measurements.
//!
//! Figures vary, so comparing single figures proves nothing. A neighbour that looks at least about as good is measured again, alternating
//! with the setting to beat, and wins only if its median is better by more than both spreads.

use std::collections::HashMap;

use super::pattern::{Carrier, Setting};
use super::stats::{Repeated, median};
use datadir::Error;

/// The settings to search, each list ascending and not empty.
#[derive(Clone, Debug)]
pub struct SearchSpace {
    /// Engines.
    pub engines: Vec<Carrier>,
    /// Bytes of a request.
    pub block_sizes: Vec<u32>,
    /// Requests in flight for each thread.
    pub depths: Vec<u32>,
    /// Threads.
    pub threads: Vec<u32>,
    /// Maximum bytes in flight.
    pub in_flight_max: u64,
}

/// The result of the climb.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best setting.
    pub setting: Setting,
    /// Its figures.
    pub value: Repeated,
    /// All measurements, in order.
    pub tried: Vec<(Setting, f64)>,
}

/// Rounds of a contest between the best and a neighbour, unless the caller asks for more.
pub const ROUNDS: usize = 3;
/// Smaller gains do not count, however quiet the machine is.
const GAIN_MIN: f64 = 0.02;
/// A larger spread means that the machine is too noisy to tell, not that a gain must be as large.
const NOISE_MAX: f64 = 0.15;

/// Positions in the lists of a [`SearchSpace`].
type Point = [usize; 4];

struct Climb<'m> {
    space: &'m SearchSpace,
    rounds: usize,
    measure: &'m mut dyn FnMut(Setting) -> Result<f64, Error>,
    figures: HashMap<Point, Vec<f64>>,
    tried: Vec<(Setting, f64)>,
}

/// Finds the setting for which `measure` gives the largest figure. A contest between two settings has `rounds` rounds, and the best has at
/// least as many figures.
///
/// # Errors
/// Those of `measure`, and a space without any setting.
pub fn climb(
    space: &SearchSpace,
    rounds: usize,
    measure: &mut dyn FnMut(Setting) -> Result<f64, Error>,
) -> Result<Found, Error> {
    let mut climb = Climb { space, rounds, measure, figures: HashMap::new(), tried: Vec::new() };
    let mut best: Option<(Point, f64)> = None;
    for start in climb.starts() {
        let value = climb.once(start)?;
        if best.is_none_or(|(_, other)| value > other) {
            best = Some((start, value));
        }
    }
    let Some((mut at, _)) = best else {
        return Err(Error::Usage(
            "there is no setting to measure: block size and depth exceed the memory for them".to_owned(),
        ));
    };
    while climb.known(at) < rounds {
        climb.once(at)?;
    }
    // A path longer than all dimensions together is going in circles, because the noise exceeds the slope.
    for _ in 0..climb.lengths().iter().sum() {
        let Some(better) = climb.improve(at)? else { break };
        at = better;
    }
    let value = climb.figure(at);
    let setting = climb.setting(at).ok_or_else(|| Error::Usage("the search left its space".to_owned()))?;
    Ok(Found { setting, value, tried: climb.tried })
}

impl Climb<'_> {
    fn setting(&self, point: Point) -> Option<Setting> {
        let [engine, block, depth, threads] = point;
        let setting = Setting {
            engine: *self.space.engines.get(engine)?,
            block_size: *self.space.block_sizes.get(block)?,
            depth: *self.space.depths.get(depth)?,
            threads: *self.space.threads.get(threads)?,
        };
        let bytes = u64::from(setting.block_size) * u64::from(setting.depth) * u64::from(setting.threads);
        (bytes <= self.space.in_flight_max).then_some(setting)
    }

    fn lengths(&self) -> Point {
        let space = self.space;
        [space.engines.len(), space.block_sizes.len(), space.depths.len(), space.threads.len()]
    }

    /// Starting points for each engine: there may be more than one hill.
    fn starts(&self) -> Vec<Point> {
        let [engines, blocks, depths, threads] = self.lengths();
        let last = |len: usize| len.saturating_sub(1);
        let mut starts = Vec::new();
        for engine in 0..engines {
            for (block, depth, thread) in [
                (last(blocks) / 2, last(depths) / 2, 0),
                (last(blocks) * 3 / 4, last(depths) / 2, last(threads)),
                (last(blocks) / 4, last(depths) * 3 / 4, 0),
            ] {
                let point = [engine, block, depth, thread];
                if self.setting(point).is_some() && !starts.contains(&point) {
                    starts.push(point);
                }
            }
        }
        starts
    }

    fn once(&mut self, point: Point) -> Result<f64, Error> {
        let Some(setting) = self.setting(point) else { return Ok(0.0) };
        let value = (self.measure)(setting)?;
        self.figures.entry(point).or_default().push(value);
        self.tried.push((setting, value));
        Ok(value)
    }

    fn known(&self, point: Point) -> usize {
        self.figures.get(&point).map_or(0, Vec::len)
    }

    fn figure(&self, point: Point) -> Repeated {
        Repeated::of(self.figures.get(&point).map_or(&[], Vec::as_slice))
    }

    /// A better neighbour, if there is one.
    fn improve(&mut self, at: Point) -> Result<Option<Point>, Error> {
        let lengths = self.lengths();
        for dimension in 0..lengths.len() {
            for up in [true, false] {
                let Some(next) = step(at, lengths, dimension, up).filter(|next| self.setting(*next).is_some()) else {
                    continue;
                };
                if self.beats(next, at)? {
                    return Ok(Some(next));
                }
            }
        }
        Ok(None)
    }

    /// Whether the challenger is better by more than the noise.
    fn beats(&mut self, challenger: Point, best: Point) -> Result<bool, Error> {
        if self.known(challenger) == 0 {
            self.once(challenger)?;
        }
        let noise = self.figure(best).noise().min(NOISE_MAX);
        if self.figure(challenger).median < self.figure(best).median * (1.0 - noise / 2.0) {
            return Ok(false);
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            theirs.push(self.once(best)?);
            ours.push(self.once(challenger)?);
            // A lower median after two rounds needs no more.
            if ours.len() == 2 && median(&ours) < median(&theirs) {
                return Ok(false);
            }
        }
        let noise = Repeated::of(&theirs).noise().max(Repeated::of(&ours).noise());
        Ok(median(&ours) > median(&theirs) * (1.0 + noise.clamp(GAIN_MIN, NOISE_MAX)))
    }
}

fn step(mut point: Point, lengths: Point, dimension: usize, up: bool) -> Option<Point> {
    let (position, len) = (point.get_mut(dimension)?, *lengths.get(dimension)?);
    *position = if up { position.checked_add(1).filter(|next| *next < len)? } else { position.checked_sub(1)? };
    Some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> SearchSpace {
        SearchSpace {
            engines: Carrier::JOBS.to_vec(),
            block_sizes: (12..=23).map(|bits| 1 << bits).collect(),
            depths: (0..=7).map(|bits| 1 << bits).collect(),
            threads: vec![1, 2, 4],
            in_flight_max: 256 << 20,
        }
    }

    /// A device with one best setting: the further from it in any dimension, the slower.
    fn hill(setting: Setting) -> f64 {
        let away = |value: u32, best: u32| (f64::from(value).log2() - f64::from(best).log2()).abs();
        let engine = if setting.engine == Carrier::Uring { 0.0 } else { 1.0 };
        1e9 * 0.9_f64
            .powf(away(setting.block_size, 256 << 10) + away(setting.depth, 32) + away(setting.threads, 2) + engine)
    }

    /// A saw-tooth instead of random noise, so that the test is the same each time.
    fn shaken(step: &mut u32, share: f64) -> f64 {
        *step += 1;
        1.0 + share * (f64::from(*step % 7) / 3.0 - 1.0)
    }

    #[test]
    fn the_top_of_the_hill_is_found_though_figures_wander() {
        for noise in [0.0, 0.02] {
            let mut steps = 0;
            let found = climb(&space(), ROUNDS, &mut |setting| Ok(hill(setting) * shaken(&mut steps, noise)))
                .expect("measures");
            let top = Setting { engine: Carrier::Uring, block_size: 256 << 10, depth: 32, threads: 2 };
            assert_eq!(found.setting, top, "noise {noise}");
            assert!(found.tried.len() < 120, "{} measurements", found.tried.len());
        }
    }

    #[test]
    fn nothing_is_gained_on_a_plain_that_only_trembles() {
        let mut steps = 0;
        let found = climb(&space(), ROUNDS, &mut |_| Ok(1e9 * shaken(&mut steps, 0.03))).expect("measures");
        assert!(found.tried.len() < 60, "{} measurements", found.tried.len());
        assert!((found.value.median / 1e9 - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_best_is_measured_as_often_as_asked() {
        let found = climb(&space(), 7, &mut |setting| Ok(hill(setting))).expect("measures");
        assert!(found.value.values.len() >= 7, "{:?}", found.value);
    }

    #[test]
    fn what_is_fixed_stays_and_memory_is_a_bound() {
        let mut narrow = space();
        narrow.block_sizes = vec![16384];
        narrow.in_flight_max = 16384 * 8;
        let found = climb(&narrow, ROUNDS, &mut |setting| Ok(hill(setting))).expect("measures");
        assert!(found.tried.iter().all(|(setting, _)| setting.block_size == 16384));
        assert!(found.tried.iter().all(|(setting, _)| setting.depth * setting.threads <= 8));
        narrow.in_flight_max = 0;
        climb(&narrow, ROUNDS, &mut |setting| Ok(hill(setting))).expect_err("there is no setting");
    }
}
