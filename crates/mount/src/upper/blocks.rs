//! Which blocks of a file are in the upper: one bit each.

use std::ops::Range;

/// Bytes of a block. Every page size of both servers but those of compressed tables of 1 and 2 KiB is a multiple, so writing a page never
/// reads the base.
pub const BLOCK: u64 = 4096;

/// The block that has the byte.
pub const fn block_of(offset: u64) -> u64 {
    offset / BLOCK
}

/// The block behind the last that has one of so many bytes.
pub const fn blocks_of(len: u64) -> u64 {
    len.div_ceil(BLOCK)
}

/// A set of blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks {
    words: Vec<u64>,
    count: u64,
}

const BITS: u64 = u64::BITS as u64;

fn index(block: u64) -> usize {
    usize::try_from(block / BITS).unwrap_or(usize::MAX)
}

impl Blocks {
    /// How many blocks it has.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether it has a block.
    pub fn has(&self, block: u64) -> bool {
        self.words.get(index(block)).is_some_and(|word| word >> (block % BITS) & 1 == 1)
    }

    /// Adds blocks. Returns those that it did not have.
    pub fn add(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let missing: Vec<Range<u64>> = self.runs(range.clone()).filter(|(_, has)| !has).map(|(run, _)| run).collect();
        if missing.is_empty() {
            return missing;
        }
        if self.words.len() <= index(range.end) {
            self.words.resize(index(range.end) + 1, 0);
        }
        for run in &missing {
            self.count += run.end - run.start;
            for block in run.clone() {
                if let Some(word) = self.words.get_mut(index(block)) {
                    *word |= 1 << (block % BITS);
                }
            }
        }
        missing
    }

    /// Removes all blocks from this one on.
    pub fn cut(&mut self, from: u64) {
        if let Some(word) = self.words.get_mut(index(from)) {
            *word &= (1 << (from % BITS)) - 1;
            self.words.truncate(index(from) + 1);
        }
        self.count = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
    }

    /// The range in pieces of blocks that it has, or has not.
    pub fn runs(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let (start, has) = (at, self.has(at));
            while at < range.end && self.has(at) == has {
                // A word that is all the same is skipped at once.
                let whole = if has { u64::MAX } else { 0 };
                let is_whole = at.is_multiple_of(BITS) && self.words.get(index(at)).copied().unwrap_or(0) == whole;
                at = if is_whole { (at + BITS).min(range.end) } else { at + 1 };
            }
            Some((start..at, has))
        })
    }

    /// All blocks, as ranges.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let end = self.words.len() as u64 * BITS;
        self.runs(0..end).filter(|(_, has)| *has).map(|(run, _)| run).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ranges: &[Range<u64>]) -> Vec<(u64, u64)> {
        ranges.iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn blocks_are_what_was_added_and_not_cut() {
        let mut blocks = Blocks::default();
        assert_eq!(pairs(&blocks.add(3..5)), [(3, 5)]);
        assert_eq!(pairs(&blocks.add(0..200)), [(0, 3), (5, 200)]);
        assert!(blocks.add(0..200).is_empty() && blocks.count() == 200);
        assert_eq!(pairs(&blocks.add(300..301)), [(300, 301)]);
        assert_eq!(pairs(&blocks.ranges()), [(0, 200), (300, 301)]);
        let runs: Vec<_> = blocks.runs(190..310).map(|(run, has)| (run.start, run.end, has)).collect();
        assert_eq!(runs, [(190, 200, true), (200, 300, false), (300, 301, true), (301, 310, false)]);
        blocks.cut(130);
        assert_eq!((pairs(&blocks.ranges()), blocks.count()), (vec![(0, 130)], 130));
        blocks.cut(500);
        blocks.cut(128);
        blocks.cut(0);
        assert_eq!((pairs(&blocks.ranges()), blocks.count()), (vec![], 0));
    }
}
