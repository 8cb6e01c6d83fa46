//! A set of 16-bit numbers, such as heap numbers and origins.

/// A set of small numbers.
#[derive(Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Inserts a number. Returns whether it is new.
    pub(super) fn insert(&mut self, number: u16) -> bool {
        let (at, bit) = (usize::from(number / 64), 1 << (number % 64));
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let Some(word) = self.0.get_mut(at) else { return true };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(super) fn contains(&self, number: u16) -> bool {
        self.0.get(usize::from(number / 64)).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }
}
