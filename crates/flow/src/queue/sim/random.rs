//! Reproducible random numbers.
//!
//! Our own instead of a crate's, because a printed seed must mean the same device, and the same table of a benchmark, after every upgrade.

/// `SplitMix64`, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.number()) * u128::from(n);
        (wide >> 64) as u64
    }

    /// True with a chance of `part` in `whole`.
    pub(super) fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_algorithm() {
        let mut random = Random::new(1_234_567);
        let numbers = [random.number(), random.number(), random.number()];
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_below_a_limit_reach_all_of_them_and_no_other() {
        let mut random = Random::new(1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| times > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
