//! Summaries of many numbers: medians, spreads, percentiles.

use serde::Serialize;

/// A figure that was measured several times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repeated {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// All values, in the order of measurement.
    pub values: Vec<f64>,
}

impl Repeated {
    /// A figure with these values, in the order of measurement.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if values.is_empty() { (0.0, 0.0) } else { (low, high) };
        Self { median: median(values), low, high, values: values.to_vec() }
    }

    /// The spread of the values as a share of the median: half the distance between lowest and highest.
    #[must_use]
    pub fn noise(&self) -> f64 {
        if self.median > 0.0 { (self.high - self.low) / 2.0 / self.median } else { 0.0 }
    }
}

/// The middle value; for an even number of values, the mean of the two middle ones; 0 if there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    if sorted.len().is_multiple_of(2) { (at(middle.saturating_sub(1)) + at(middle)) / 2.0 } else { at(middle) }
}

/// Latency of requests, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the requests took no longer.
    pub p50_us: f64,
    /// 99 of 100 requests took no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    /// Latency from times in nanoseconds, in any order.
    #[must_use]
    pub fn of(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            let rank = (times.len() as f64 * share).ceil() as usize;
            times.get(rank.saturating_sub(1)).map_or(0.0, |&time| f64::from(time) / 1000.0)
        };
        Self { p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_any_order() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 8.0]), 3.0);
    }

    #[test]
    fn noise_is_half_the_range() {
        let repeated = Repeated::of(&[100.0, 90.0, 110.0]);
        assert_eq!((repeated.median, repeated.low, repeated.high), (100.0, 90.0, 110.0));
        assert!((repeated.noise() - 0.1).abs() < 1e-12);
        assert_eq!(Repeated::of(&[]).noise(), 0.0);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let latency = Latency::of((1..=1000).rev().map(|time| time * 1000).collect());
        assert_eq!(latency, Latency { p50_us: 500.0, p99_us: 990.0, max_us: 1000.0 });
        assert_eq!(Latency::of(vec![2000]), Latency { p50_us: 2.0, p99_us: 2.0, max_us: 2.0 });
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
