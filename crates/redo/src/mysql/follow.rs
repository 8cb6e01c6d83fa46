//! Follows a log of MySQL 8.0.30 and later while its server writes it: which blocks may be taken, and whether two versions of a block
//! belong together.
//!
//! A block is identified by its number, its epoch and its checksum, so nothing from an earlier use of a file is ever taken for new. Full
//! blocks are final. The newest block is written again and again, in place, and only grows until it is full.

use super::copy::{LiveBlock, judge};
use crate::block::{
    LOG_BLOCK_CHECKSUM, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, LogBlock, block_start,
    offset_in_block,
};
use format::bytes::be;
use format::types::Lsn;

/// The sound blocks at the start of a stretch of log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundBlocks {
    /// Bytes of full blocks.
    pub full: usize,
    /// Where the log ends in the block behind them, if that is sound.
    pub end: Option<Lsn>,
    /// The block behind them is encrypted.
    pub is_encrypted: bool,
}

impl SoundBlocks {
    /// Looks at the `bytes` of a log from the block at LSN `from` on.
    #[must_use]
    pub fn of(bytes: &[u8], from: Lsn) -> Self {
        let mut found = Self { full: 0, end: None, is_encrypted: false };
        for block in bytes.as_chunks::<LOG_BLOCK_SIZE>().0 {
            let lsn = Lsn(from.0.saturating_add(found.full as u64));
            match judge(block, lsn, &[]) {
                LiveBlock::Sound(end) if end.0 >= lsn.0 + LOG_BLOCK_SIZE as u64 => found.full += LOG_BLOCK_SIZE,
                LiveBlock::Sound(end) => {
                    found.end = Some(end);
                    break;
                }
                LiveBlock::Locked => {
                    found.is_encrypted = true;
                    break;
                }
                LiveBlock::Other => break,
            }
        }
        found
    }

    /// Whether no block is sound.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.full == 0 && self.end.is_none()
    }
}

/// Whether `newer`, read at the place of the block at `lsn`, is that block, with at least the payload that `older` has.
#[must_use]
pub fn continues(older: &[u8; LOG_BLOCK_SIZE], newer: &[u8; LOG_BLOCK_SIZE], lsn: Lsn) -> bool {
    let start = block_start(lsn);
    let is_whole = |block: &[u8; LOG_BLOCK_SIZE]| matches!(judge(block, start, &[]), LiveBlock::Sound(_));
    let (Some(had), Some(has)) = (data_len(older), data_len(newer)) else { return false };
    is_whole(older) && is_whole(newer) && had <= has && older.get(PAYLOAD..had) == newer.get(PAYLOAD..had)
}

/// Whether both versions of the block at `lsn` are sound and agree as far as the shorter one goes. `None` if one has no payload.
#[must_use]
pub fn agree(one: &[u8; LOG_BLOCK_SIZE], other: &[u8; LOG_BLOCK_SIZE], lsn: Lsn) -> Option<bool> {
    let (one_len, other_len) = (data_len(one)?, data_len(other)?);
    if one_len.min(other_len) <= PAYLOAD {
        return None;
    }
    Some(if one_len <= other_len { continues(one, other, lsn) } else { continues(other, one, lsn) })
}

const PAYLOAD: usize = LOG_BLOCK_HDR_SIZE;

/// Where the payload of a block ends.
fn data_len(block: &[u8; LOG_BLOCK_SIZE]) -> Option<usize> {
    Some(usize::from(be::u16_at(block, LOG_BLOCK_HDR_DATA_LEN)?).min(LOG_BLOCK_CHECKSUM))
}

/// Whether a log that ends at `end` has payload in the block of that LSN. If not, its end is behind the header of a block that may not
/// exist yet.
#[must_use]
pub fn ends_within_block(end: Lsn) -> bool {
    offset_in_block(end) > LOG_BLOCK_HDR_SIZE
}

/// Whether the block, stored for `lsn`, is sound and full.
#[must_use]
pub fn is_full_block(stored: &[u8; LOG_BLOCK_SIZE], lsn: Lsn) -> bool {
    judge(stored, lsn, &[]) != LiveBlock::Other
        && LogBlock::parse(stored, block_start(lsn)).is_some_and(|block| block.is_full())
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
mod tests {
    use super::*;
    use crate::mysql::LOG_FILE_HDR_SIZE;
    use crate::mysql::close::{TableNote, new_file};
    use crate::mysql::copy::cut;

    const START: Lsn = Lsn(84_237_312);

    fn blocks(table: u64, count: u64) -> Vec<[u8; LOG_BLOCK_SIZE]> {
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        header[3] = 6;
        let note = |number| TableNote { table: table + number, version: 0, auto_increment: Some(7), state: Vec::new() };
        let file = new_file(&header, START, &(0..count).map(note).collect::<Vec<_>>()).expect("a log");
        file[LOG_FILE_HDR_SIZE..].as_chunks().0.to_vec()
    }

    #[test]
    fn blocks_are_taken_up_to_the_first_that_is_not_full_or_not_of_this_lsn() {
        let log = blocks(1, 300);
        let last = log.len() - 1;
        let found = SoundBlocks::of(log.as_flattened(), START);
        assert_eq!(found.full, last * LOG_BLOCK_SIZE);
        let end = found.end.expect("an end").0;
        assert!((START.0 + found.full as u64 + 12..START.0 + found.full as u64 + 508).contains(&end));
        let mut stale = log.clone();
        stale[2] = log[1];
        let found = SoundBlocks::of(stale.as_flattened(), START);
        assert_eq!((found.full, found.end), (2 * LOG_BLOCK_SIZE, None));
        assert!(SoundBlocks::of(&log.as_flattened()[..511], START).is_nothing());
        let mut locked = log;
        locked[1][LOG_BLOCK_HDR_DATA_LEN] |= 0x80;
        assert!(SoundBlocks::of(locked.as_flattened(), START).is_encrypted);
    }

    #[test]
    fn a_later_version_of_a_block_continues_an_earlier_one_and_nothing_else_does() {
        let (log, other) = (blocks(1, 300), blocks(1000, 300));
        let whole = log[1];
        let lsn = Lsn(START.0 + 512);
        let half = cut(&whole, Lsn(lsn.0 + 200), &[]).expect("cut");
        assert!(continues(&half, &whole, lsn) && continues(&whole, &whole, lsn));
        assert!(!continues(&whole, &half, lsn), "it has less");
        assert!(!continues(&half, &other[1], lsn), "another log");
        assert!(!continues(&half, &log[2], lsn), "another block");
        let mut torn = whole;
        torn[400] ^= 1;
        assert!(!continues(&half, &torn, lsn));
        assert_eq!([agree(&half, &whole, lsn), agree(&whole, &half, lsn)], [Some(true); 2]);
        assert_eq!(agree(&other[1], &half, lsn), Some(false));
        let empty = cut(&whole, Lsn(lsn.0 + 12), &[]).expect("cut");
        assert_eq!(agree(&empty, &other[1], lsn), None);
    }
}
