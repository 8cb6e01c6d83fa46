//! Records that are written together: log blocks in log order, in one buffer.

use std::io;
use std::ops::Range;

use super::block::{self, DATA_SIZE, LOG_BLOCK_SIZE, POS_DATA};
use super::layout::Ring;
use crate::Buffer;

const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// Bytes of a record's length, big-endian, in front of it.
pub(super) const LEN_SIZE: usize = 4;

/// A group: the buffer has log positions `base` to `end`, in order.
#[derive(Debug)]
pub(super) struct Group {
    buffer: Buffer,
    /// Log position of the buffer's first byte: the start of the file system block in which the group starts.
    base: u64,
    /// Log position of the first log block.
    pub(super) start: u64,
    /// Log position after the last log block.
    pub(super) end: u64,
    pub(super) records: u64,
}

impl Group {
    /// An empty group with memory for `max` bytes of log blocks.
    pub(super) fn new(ring: &Ring, start: u64, max: u32) -> io::Result<Self> {
        let buffer = Buffer::alone(max + 2 * ring.block_size)?;
        let mut group = Self { buffer, base: 0, start, end: start, records: 0 };
        group.reset(ring, start);
        Ok(group)
    }

    pub(super) fn reset(&mut self, ring: &Ring, start: u64) {
        (self.base, self.start, self.end, self.records) = (ring.align_down(start), start, start, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The longest record that an empty group of `max` bytes takes.
    pub(super) fn record_max(max: u32) -> usize {
        max as usize / LOG_BLOCK_SIZE * DATA_SIZE - LEN_SIZE
    }

    /// Where the group would end with another record of `len` bytes; `None` if it would exceed `max` bytes.
    pub(super) fn end_with(&self, len: usize, max: u32) -> Option<u64> {
        let left =
            if self.is_empty() { 0 } else { DATA_SIZE - block::data_len(self.bytes(self.end - BLOCK..self.end)) };
        let more = (len + LEN_SIZE).saturating_sub(left).div_ceil(DATA_SIZE);
        let end = self.end + (more * LOG_BLOCK_SIZE) as u64;
        (end - self.start <= u64::from(max)).then_some(end)
    }

    /// Adds a record that fits, and returns the log position after it.
    pub(super) fn push(&mut self, record: &[u8]) -> u64 {
        self.records += 1;
        let len = (record.len() as u32).to_be_bytes();
        self.fill(&len, true);
        self.fill(record, false);
        let last = self.end - BLOCK;
        last + (POS_DATA + block::data_len(self.bytes(last..self.end))) as u64
    }

    fn fill(&mut self, mut data: &[u8], mut is_start: bool) {
        while !data.is_empty() {
            if self.is_empty() || block::data_len(self.bytes(self.end - BLOCK..self.end)) == DATA_SIZE {
                block::clear(self.bytes_mut(self.end..self.end + BLOCK));
                self.end += BLOCK;
            }
            let filled = block::fill(self.bytes_mut(self.end - BLOCK..self.end), data, is_start);
            data = data.get(filled..).unwrap_or_default();
            is_start = false;
        }
    }

    /// Seals all blocks. Each file's part of the group is a separate write, synced before the next file's.
    pub(super) fn seal(&mut self, ring: &Ring, epoch: u32) {
        for position in (self.start..self.end).step_by(LOG_BLOCK_SIZE) {
            let file_start = position - position % ring.in_file();
            let in_group = (position - self.start.max(file_start)) / BLOCK;
            block::seal(self.bytes_mut(position..position + BLOCK), ring.id, epoch, position / BLOCK, in_group as u16);
        }
    }

    /// Puts the existing part of the file system block before the group.
    pub(super) fn put_before(&mut self, tail: &[u8]) {
        let range = self.base..self.start;
        self.bytes_mut(range).iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
    }

    /// Puts zeros after the group.
    pub(super) fn put_zeros(&mut self, to: u64) {
        self.bytes_mut(self.end..to).fill(0);
    }

    /// The bytes of a range of log positions.
    pub(super) fn bytes(&self, range: Range<u64>) -> &[u8] {
        self.buffer.range(self.within(&range))
    }

    fn bytes_mut(&mut self, range: Range<u64>) -> &mut [u8] {
        let within = self.within(&range);
        self.buffer.range_mut(within)
    }

    fn within(&self, range: &Range<u64>) -> Range<u32> {
        let within = |position: u64| u32::try_from(position.saturating_sub(self.base)).unwrap_or(u32::MAX);
        within(range.start)..within(range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_writer::LogOptions;
    use crate::log_writer::block::LogBlock;

    #[test]
    fn records_fill_blocks_and_the_longest_fills_the_group() {
        let options = LogOptions { files: 2, file_size: 16384, ..LogOptions::default() };
        let ring = Ring::new(7, &options, 4096).expect("fits");
        let mut group = Group::new(&ring, 1024, 2048).expect("memory");
        assert_eq!(Group::record_max(2048), 4 * DATA_SIZE - 4);
        assert_eq!(group.end_with(4 * DATA_SIZE - 4, 2048), Some(1024 + 2048));
        assert_eq!(group.end_with(4 * DATA_SIZE - 3, 2048), None);
        assert_eq!(group.push(b""), 1024 + (POS_DATA + 4) as u64);
        assert_eq!(group.end_with(DATA_SIZE - 8, 2048), Some(1536), "the block is full");
        assert_eq!(group.push(&vec![5; DATA_SIZE - 8]), 1536);
        assert_eq!(group.push(&vec![6; DATA_SIZE - 3]), 2048 + (POS_DATA + 1) as u64);
        group.seal(&ring, 3);
        let blocks: Vec<_> =
            group.bytes(1024..2560).chunks(512).map(|bytes| LogBlock::parse(bytes, 7).unwrap()).collect();
        assert_eq!(blocks.iter().map(|block| block.number).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(blocks.iter().map(|block| block.first_record).collect::<Vec<_>>(), [Some(0), Some(0), None]);
        assert!(blocks.iter().all(|block| block.epoch == 3 && block.group_start() == 2));
    }

    #[test]
    fn blocks_behind_the_end_of_a_file_are_a_write_by_themselves() {
        let options = LogOptions { files: 2, file_size: 8192, ..LogOptions::default() };
        let ring = Ring::new(7, &options, 4096).expect("fits");
        let mut group = Group::new(&ring, 3584, 2048).expect("memory");
        group.push(&vec![1; 3 * DATA_SIZE]);
        group.seal(&ring, 1);
        let starts = group.bytes(3584..5632).chunks(512).map(|bytes| LogBlock::parse(bytes, 7).unwrap().group_start());
        assert_eq!(starts.collect::<Vec<_>>(), [7, 8, 8, 8]);
    }
}
