//! Maps figures to positions.

use super::super::units::{number, size};

/// How figures map to positions, and the axis's name.
#[derive(Clone)]
pub struct Axis {
    /// What the axis shows, with the unit.
    pub name: String,
    scale: Scale,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Decades,
    Doublings,
}

/// An axis with its ends.
pub struct Fitted {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// From zero, in even steps.
    pub fn linear(name: &str) -> Self {
        Self { name: name.to_owned(), scale: Scale::Linear }
    }

    /// Each step is ten times the last.
    pub fn logarithmic(name: &str) -> Self {
        Self { name: format!("{name}, logarithmic"), scale: Scale::Decades }
    }

    /// Each step is twice the last, and labels are sizes: 4K, 1M.
    pub fn powers_of_two(name: &str) -> Self {
        Self { name: format!("{name}, logarithmic"), scale: Scale::Doublings }
    }

    /// Chooses ends that enclose all of `values`.
    pub fn fit(&self, values: impl Iterator<Item = f64> + Clone) -> Fitted {
        let above = |value: &f64| self.scale == Scale::Linear || *value > 0.0;
        let high = values.clone().filter(above).fold(f64::NEG_INFINITY, f64::max);
        let low = values.filter(above).fold(f64::INFINITY, f64::min);
        let (low, high) = if high.is_finite() { (low, high) } else { (1.0, 1.0) };
        let (low, high) = match self.scale {
            Scale::Linear => (0.0, nice_above(high, &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0])),
            Scale::Decades => (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil())),
            Scale::Doublings => (2_f64.powf(low.log2().floor()), 2_f64.powf(high.log2().ceil())),
        };
        let high = if high > low { high } else { low * 2.0 + f64::from(u8::from(low == 0.0)) };
        Fitted { scale: self.scale, low, high }
    }
}

impl Fitted {
    /// The position of a figure, from 0 to 1; 0 if it is below everything the axis can show.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Decades | Scale::Doublings => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// At most `most` figures with their labels.
    pub fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let most = most.max(2);
        match self.scale {
            Scale::Linear => {
                let step = nice_above((self.high - self.low) / most as f64, &[1.0, 2.0, 2.5, 5.0, 10.0]);
                let count = ((self.high - self.low) / step + 1e-6).floor() as u32;
                (0..=count)
                    .map(|index| self.low + f64::from(index) * step)
                    .map(|value| (value, number(value)))
                    .collect()
            }
            Scale::Decades => self.powers(10.0, most, number),
            Scale::Doublings => self.powers(2.0, most, |value| size(value as u64)),
        }
    }

    fn powers(&self, base: f64, most: usize, label: impl Fn(f64) -> String) -> Vec<(f64, String)> {
        let count = ((self.high / self.low).ln() / base.ln()).round() as usize;
        let step = (count + 1).div_ceil(most).max(1);
        let values = (0..=count).step_by(step).map(|index| self.low * base.powf(index as f64));
        values.map(|value| (value, label(value))).collect()
    }
}

/// The smallest product of a factor and a power of ten that is not below the value.
fn nice_above(value: f64, factors: &[f64]) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    factors.iter().map(|factor| factor * power).find(|nice| *nice >= value * 0.999_999).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let fitted = Axis::linear("MB/s").fit([3.0, 1834.0].into_iter());
        let labels: Vec<_> = fitted.ticks(5).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "500", "1,000", "1,500", "2,000"]);
        let fitted = Axis::powers_of_two("bytes").fit([4096.0, 8_388_608.0].into_iter());
        let labels: Vec<_> = fitted.ticks(12).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels.first().map(String::as_str), Some("4K"));
        assert_eq!(labels.last().map(String::as_str), Some("8M"));
        let fitted = Axis::logarithmic("commits/s").fit([120.0, 80_000.0].into_iter());
        let labels: Vec<_> = fitted.ticks(6).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["100", "1,000", "10,000", "100,000"]);
    }

    #[test]
    fn places_keep_the_order_and_nothing_is_outside() {
        for axis in [Axis::linear("a"), Axis::logarithmic("b"), Axis::powers_of_two("c")] {
            let fitted = axis.fit([0.0, 1.0, 10.0, 1000.0].into_iter());
            let places: Vec<_> = [0.0, 1.0, 10.0, 1000.0].map(|value| fitted.place(value)).to_vec();
            assert!(places.is_sorted() && places.iter().all(|place| (0.0..=1.0).contains(place)), "{places:?}");
            assert!(places[2] < places[3]);
            let nothing = axis.fit(std::iter::empty());
            assert!(!nothing.ticks(4).is_empty());
        }
    }
}
