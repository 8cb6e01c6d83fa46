//! The log block: 512 bytes that prove their identity.

use std::ops::Range;

use super::fields::{get2, get4, get8, put};

/// Bytes of a log block, the smallest unit of writing.
pub const LOG_BLOCK_SIZE: usize = 512;

const POS_CRC: usize = 0;
const POS_EPOCH: usize = POS_CRC + 4;
const POS_NUMBER: usize = POS_EPOCH + 4;
const POS_ID: usize = POS_NUMBER + 8;
const POS_DATA_LEN: usize = POS_ID + 4;
const POS_FIRST_RECORD: usize = POS_DATA_LEN + 2;
const POS_IN_GROUP: usize = POS_FIRST_RECORD + 2;
const POS_RESERVED: usize = POS_IN_GROUP + 2;
/// Where data starts in a log block.
pub(super) const POS_DATA: usize = POS_RESERVED + 2;

/// Bytes of record data that a log block holds.
pub(super) const DATA_SIZE: usize = LOG_BLOCK_SIZE - POS_DATA;

/// In `first_record`: no record starts in this block.
const NO_RECORD: u16 = u16::MAX;

/// A log block's description of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogBlock {
    /// The opening for writing during which it was written.
    pub(super) epoch: u32,
    /// Its log position, in units of blocks.
    pub(super) number: u64,
    pub(super) data_len: u16,
    /// Offset in the data of the first record that starts in this block.
    pub(super) first_record: Option<u16>,
    /// Blocks between the start of its write and this one.
    in_group: u16,
}

/// Four EiB of log. A position in the files after it still fits into 64 bits, whatever the ring's size.
const NUMBER_MAX: u64 = (1 << 62) / LOG_BLOCK_SIZE as u64;

impl LogBlock {
    /// The block, if its checksum is right, it belongs to this log, and its fields are possible.
    pub(super) fn parse(bytes: &[u8], id: u32) -> Option<Self> {
        let bytes = bytes.first_chunk::<LOG_BLOCK_SIZE>()?;
        if get4(bytes, POS_ID)? != id || get4(bytes, POS_CRC)? != crc(bytes) {
            return None;
        }
        let first_record = Some(get2(bytes, POS_FIRST_RECORD)?).filter(|&first| first != NO_RECORD);
        let block = Self {
            epoch: get4(bytes, POS_EPOCH)?,
            number: get8(bytes, POS_NUMBER)?,
            data_len: get2(bytes, POS_DATA_LEN)?,
            first_record,
            in_group: get2(bytes, POS_IN_GROUP)?,
        };
        let fits = block.number <= NUMBER_MAX
            && block.data_len as usize <= DATA_SIZE
            && first_record.is_none_or(|first| first < block.data_len);
        fits.then_some(block)
    }

    /// The number of the first block of the same write. All blocks before that were durable by then.
    pub(super) fn group_start(&self) -> u64 {
        self.number.saturating_sub(u64::from(self.in_group))
    }

    pub(super) fn data_range(&self) -> Range<usize> {
        POS_DATA..POS_DATA + self.data_len as usize
    }
}

/// Turns these bytes into an empty block.
pub(super) fn clear(block: &mut [u8]) {
    block.fill(0);
    put(block, POS_FIRST_RECORD, &NO_RECORD.to_be_bytes());
}

/// Adds as much data to a block as fits; returns how much. `is_start`: a record starts with it.
pub(super) fn fill(block: &mut [u8], data: &[u8], is_start: bool) -> usize {
    let used = data_len(block);
    let len = data.len().min(DATA_SIZE - used.min(DATA_SIZE));
    let Some(data) = data.get(..len).filter(|data| !data.is_empty()) else { return 0 };
    put(block, POS_DATA + used, data);
    put(block, POS_DATA_LEN, &((used + len) as u16).to_be_bytes());
    if is_start && get2(block, POS_FIRST_RECORD) == Some(NO_RECORD) {
        put(block, POS_FIRST_RECORD, &(used as u16).to_be_bytes());
    }
    len
}

/// Bytes of data in a block that is being filled.
pub(super) fn data_len(block: &[u8]) -> usize {
    get2(block, POS_DATA_LEN).map_or(0, usize::from)
}

/// Sets the block's identity, and seals it with its checksum.
pub(super) fn seal(block: &mut [u8], id: u32, epoch: u32, number: u64, in_group: u16) {
    put(block, POS_EPOCH, &epoch.to_be_bytes());
    put(block, POS_NUMBER, &number.to_be_bytes());
    put(block, POS_ID, &id.to_be_bytes());
    put(block, POS_IN_GROUP, &in_group.to_be_bytes());
    let crc = crc(block);
    put(block, POS_CRC, &crc.to_be_bytes());
}

/// CRC-32C over the block after the checksum field.
fn crc(block: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(block.get(POS_EPOCH..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let mut block = vec![0xee; LOG_BLOCK_SIZE];
        clear(&mut block);
        assert_eq!(fill(&mut block, b"end of one", false), 10);
        assert_eq!(fill(&mut block, &[1; 1000], true), DATA_SIZE - 10);
        assert_eq!(fill(&mut block, b"more", true), 0);
        seal(&mut block, 7, 3, 100, 4);
        block
    }

    #[test]
    fn a_block_says_what_it_is() {
        let bytes = sealed();
        let block = LogBlock::parse(&bytes, 7).expect("is whole");
        assert_eq!((block.epoch, block.number, block.group_start()), (3, 100, 96));
        assert_eq!((block.first_record, block.data_range()), (Some(10), POS_DATA..512));
        assert_eq!(&bytes[POS_DATA..POS_DATA + 10], b"end of one");
    }

    #[test]
    fn byte_map_of_the_log_block_is_that_of_the_code() {
        for (at, size, name) in [
            (POS_CRC, 4, "`crc`"),
            (POS_EPOCH, 4, "`epoch`"),
            (POS_NUMBER, 8, "`number`"),
            (POS_ID, 4, "`id`"),
            (POS_DATA_LEN, 2, "`data_len`"),
            (POS_FIRST_RECORD, 2, "`first_record`"),
            (POS_IN_GROUP, 2, "`in_group`"),
            (POS_RESERVED, 2, ""),
            (POS_DATA, DATA_SIZE, "data"),
        ] {
            let row = format!("//! | {at} | {size} | {name} | ").replace("|  |", "| |");
            let map = include_str!("mod.rs").split_once("Log block of 512 bytes").expect("its byte map").1;
            assert!(map.contains(&row), "{row}");
        }
    }

    #[test]
    fn no_flipped_bit_is_overlooked() {
        let bytes = sealed();
        for bit in 0..LOG_BLOCK_SIZE * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogBlock::parse(&bytes, 7), None, "bit {bit}");
        }
        assert_eq!(LogBlock::parse(&bytes, 8), None, "another log's");
        for (number, is_block) in [(NUMBER_MAX, true), (NUMBER_MAX + 1, false), (u64::MAX, false)] {
            let mut bytes = bytes.clone();
            seal(&mut bytes, 7, 3, number, 4);
            assert_eq!(LogBlock::parse(&bytes, 7).is_some(), is_block, "{number}");
        }
        assert_eq!(LogBlock::parse(&[0; 512], 0), None, "zeros are no block");
        assert_eq!(LogBlock::parse(&bytes[..511], 7), None);
    }
}
