//! A file on a medium that forgets: what reads return, and what a crash may leave.
//!
//! The medium writes whole sectors of 512 bytes. Between two syncs, a sector may have its durable content or that of any write since: the
//! crash decides for each sector separately. So writes are torn at sector boundaries, and are lost or kept in any order.

use std::collections::BTreeMap;
use std::ops::Range;

use super::random::Random;

/// The unit that the medium writes atomically, in bytes.
pub const SECTOR_SIZE: u64 = 512;

type Sector = [u8; SECTOR_SIZE as usize];

/// The completion time of a write that never completes: no sync covers it.
pub(super) const NEVER: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(super) struct SimFile {
    /// What reads return.
    bytes: Vec<u8>,
    /// The durable length.
    medium_len: u64,
    /// The lengths since, as the file grew, newest last.
    lens: Vec<Unsynced<u64>>,
    /// Sectors written since the last sync.
    sectors: BTreeMap<u64, History>,
    /// File system blocks in its cache; see `SimOptions::cache_block`.
    cached: BTreeMap<u64, ()>,
}

/// The possible contents of one sector after a crash.
#[derive(Debug)]
struct History {
    medium: Box<Sector>,
    /// Newest last.
    since: Vec<Unsynced<Box<Sector>>>,
}

#[derive(Debug)]
struct Unsynced<T> {
    value: T,
    /// When the write was done, in nanoseconds; a sync covers writes that were done when it started.
    done: u64,
    /// A sync that covered it failed: no later sync makes it durable.
    forgotten: bool,
}

impl<T> Unsynced<T> {
    fn is_covered(&self, sync_started: u64) -> bool {
        !self.forgotten && self.done <= sync_started
    }
}

impl SimFile {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { medium_len: bytes.len() as u64, bytes, ..Self::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Copies bytes from `offset` on; returns how many there were.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let there = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..)).unwrap_or_default();
        let len = there.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..len), there.get(..len)) {
            to.copy_from_slice(from);
        }
        len
    }

    /// Writes; the content after a crash is open until a sync that starts at `done` or later.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], done: u64) {
        let end = offset + bytes.len() as u64;
        if bytes.is_empty() {
            return;
        }
        let touched = offset / SECTOR_SIZE..end.div_ceil(SECTOR_SIZE);
        for number in touched.clone() {
            if !self.sectors.contains_key(&number) {
                let medium = self.sector(number);
                self.sectors.insert(number, History { medium, since: Vec::new() });
            }
        }
        if end > self.len() {
            self.lens.push(Unsynced { value: end, done, forgotten: false });
        }
        self.put(offset, bytes);
        for number in touched {
            let value = self.sector(number);
            if let Some(history) = self.sectors.get_mut(&number) {
                history.since.push(Unsynced { value, done, forgotten: false });
            }
        }
    }

    /// Writes durably, without keeping the old content.
    pub(super) fn write_for_good(&mut self, offset: u64, bytes: &[u8]) {
        self.put(offset, bytes);
        self.medium_len = self.len();
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let range = offset as usize..offset as usize + bytes.len();
        if self.bytes.len() < range.end {
            self.bytes.resize(range.end, 0);
        }
        if let Some(place) = self.bytes.get_mut(range) {
            place.copy_from_slice(bytes);
        }
    }

    /// Makes durable what was done when the sync started.
    pub(super) fn sync(&mut self, started: u64) {
        if let Some(last) = self.lens.iter().rposition(|len| len.is_covered(started)) {
            self.medium_len = self.lens.drain(..=last).next_back().map_or(self.medium_len, |len| len.value);
        }
        self.sectors.retain(|_, history| {
            if let Some(last) = history.since.iter().rposition(|version| version.is_covered(started))
                && let Some(version) = history.since.drain(..=last).next_back()
            {
                history.medium = version.value;
            }
            !history.since.is_empty()
        });
    }

    /// A sync failed: the writes it covered stay readable, and no later sync makes them durable.
    pub(super) fn forget(&mut self) {
        self.lens.iter_mut().for_each(|len| len.forgotten = true);
        self.sectors.values_mut().flat_map(|history| &mut history.since).for_each(|version| version.forgotten = true);
    }

    /// The content of the medium after the power is back: each unsynced write of each sector is kept with a chance of `kept` in 8.
    pub(super) fn after_crash(&self, random: &mut Random, kept: u64) -> Self {
        let mut keep = || random.chance(kept, 8);
        let len = self.lens.iter().rev().find(|_| keep()).map_or(self.medium_len, |len| len.value);
        let mut bytes = self.bytes.clone();
        bytes.resize(len as usize, 0);
        for (number, history) in &self.sectors {
            let kept = history.since.iter().rev().find(|_| keep()).map_or(&history.medium, |version| &version.value);
            let start = (number * SECTOR_SIZE).min(len) as usize;
            for (to, from) in bytes.iter_mut().skip(start).zip(kept.iter()) {
                *to = *from;
            }
        }
        Self::new(bytes)
    }

    /// Flips the bits of `mask` in one byte, in all its versions.
    pub(super) fn rot(&mut self, offset: u64, mask: u8) {
        if let Some(byte) = self.bytes.get_mut(offset as usize) {
            *byte ^= mask;
        }
        let within = (offset % SECTOR_SIZE) as usize;
        if let Some(history) = self.sectors.get_mut(&(offset / SECTOR_SIZE)) {
            let since = history.since.iter_mut().map(|version| &mut version.value);
            for byte in since.chain([&mut history.medium]).filter_map(|sector| sector.get_mut(within)) {
                *byte ^= mask;
            }
        }
    }

    /// The number of file system blocks that a write covers partly and that are not cached, so that they must be read first. After this,
    /// all blocks of the range are cached.
    pub(super) fn touch(&mut self, range: &Range<u64>, block: u64, is_write: bool) -> u64 {
        let file_end = self.len();
        let mut missing = 0;
        for number in range.start / block..range.end.div_ceil(block) {
            let (start, end) = (number * block, (number + 1) * block);
            let in_part = range.start > start || range.end < end;
            // A block past the end of the file needs no read.
            if self.cached.insert(number, ()).is_none() && is_write && in_part && start < file_end {
                missing += 1;
            }
        }
        missing
    }

    pub(super) fn drop_cache(&mut self) {
        self.cached.clear();
    }

    fn sector(&self, number: u64) -> Box<Sector> {
        let mut sector = Box::new([0; SECTOR_SIZE as usize]);
        self.read(number * SECTOR_SIZE, &mut sector[..]);
        sector
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashed(file: &SimFile, kept: u64) -> Vec<u8> {
        file.after_crash(&mut Random::new(7), kept).bytes
    }

    #[test]
    fn what_was_synced_stays_and_what_was_not_may_go() {
        let mut file = SimFile::new(vec![0; 2048]);
        file.write(0, &[1; 1024], 10);
        file.sync(10);
        file.write(512, &[2; 1024], 20);
        assert_eq!(crashed(&file, 0), [[1; 1024], [0; 1024]].concat());
        assert_eq!(crashed(&file, 8), [&[1; 512][..], &[2; 1024], &[0; 512]].concat());
    }

    #[test]
    fn a_sync_covers_what_was_done_when_it_started_and_nothing_else() {
        let mut file = SimFile::new(vec![0; 512]);
        file.write(0, &[1; 512], 10);
        file.write(0, &[2; 512], 11);
        file.write(512, &[3; 512], 11);
        file.sync(10);
        assert_eq!(crashed(&file, 0), [1; 512], "the newer bytes and the longer file were in flight");
        file.sync(11);
        assert_eq!(crashed(&file, 0), [[2; 512], [3; 512]].concat());
        assert!(file.sectors.is_empty() && file.lens.is_empty());
    }

    #[test]
    fn a_sync_after_a_failed_one_makes_nothing_durable_that_the_failed_one_should_have() {
        let mut file = SimFile::new(vec![0; 1024]);
        file.write(0, &[1; 1024], 10);
        file.forget();
        file.write(512, &[2; 512], 20);
        file.sync(30);
        assert_eq!(file.bytes(), [[1; 512], [2; 512]].concat());
        assert_eq!(crashed(&file, 0), [[0; 512], [2; 512]].concat());
    }

    #[test]
    fn sectors_of_one_write_go_each_its_own_way() {
        let mut file = SimFile::new(vec![0; 512 * 64]);
        file.write(0, &[1; 512 * 64], 10);
        let left = crashed(&file, 4);
        assert!(left.chunks(512).all(|sector| sector == [0; 512] || sector == [1; 512]), "whole or not at all");
        assert!(left.contains(&0) && left.contains(&1));
    }

    #[test]
    fn bytes_that_are_no_whole_sector_keep_their_neighbours() {
        let mut file = SimFile::new(vec![9; 1000]);
        file.write(510, &[1; 4], 10);
        assert_eq!(crashed(&file, 0), [9; 1000]);
        assert_eq!(crashed(&file, 8), file.bytes());
    }

    #[test]
    fn only_a_part_of_a_block_that_is_not_cached_must_be_read_first() {
        let mut file = SimFile::new(vec![0; 16384]);
        assert_eq!(file.touch(&(0..4096), 4096, true), 0, "a whole block");
        assert_eq!(file.touch(&(4096..4608), 4096, true), 1);
        assert_eq!(file.touch(&(4608..5120), 4096, true), 0, "cached now");
        assert_eq!(file.touch(&(8000..8001), 4096, true), 0, "still the block before");
        assert_eq!(file.touch(&(16384..16896), 4096, true), 0, "past the end");
        file.drop_cache();
        assert_eq!(file.touch(&(4000..9000), 4096, true), 2, "its ends");
    }
}
