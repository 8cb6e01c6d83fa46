//! Logs of servers that this build does not recover: only whether they have work to do.
//!
//! MySQL up to 5.6 and MariaDB up to 10.4 write blocks of 512 bytes, as MySQL does since. Their records differ, but where a log ends can be told
//! without them: a server that was shut down has written nothing behind its last checkpoint, or nothing but the mark of it.
//!
//! Facts: MySQL 5.6, `log0log.h` (`LOG_CHECKPOINT_OFFSET_LOW32`, `LOG_CHECKPOINT_OFFSET_HIGH32`, `LOG_BLOCK_HDR_NO`, `LOG_BLOCK_HDR_DATA_LEN`),
//! and the server itself; MariaDB 10.2, `log0log.h` (the offset has eight bytes) and `mtr0types.h` (`MLOG_CHECKPOINT`).

use format::Lsn;
use format::bytes::be;

use crate::LogState;
use crate::block::{
    FLUSH_BIT, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_NO, LOG_BLOCK_SIZE, block_number, offset_in_block,
};
use crate::mysql::{
    LOG_CHECKPOINT_1, LOG_CHECKPOINT_2, LOG_CHECKPOINT_LSN, LOG_CHECKPOINT_NO, LOG_CHECKPOINT_OFFSET,
    LOG_FILE_HDR_SIZE, MLOG_CHECKPOINT, MLOG_CHECKPOINT_SIZE,
};

/// In format 0 the checkpoint's offset has two halves, and this is the higher one's place.
const OFFSET_HIGH: usize = 304;

/// The newest checkpoint of such a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OlderCheckpoint {
    /// Pages changed before it are on disk.
    pub lsn: Lsn,
    /// Where the block with this LSN begins, bytes from the start of the first file, if all files were one.
    pub block: u64,
}

impl OlderCheckpoint {
    /// The checkpoint in the first [`LOG_FILE_HDR_SIZE`] bytes of the first file. `None` if the format is not one of these, or there is none.
    #[must_use]
    pub fn of(head: &[u8]) -> Option<Self> {
        let format = be::u32_at(head, 0)? & 0x7FFF_FFFF;
        if head.len() < LOG_FILE_HDR_SIZE || !matches!(format, 0 | 1 | 103 | 104) {
            return None;
        }
        let read = |at: &usize| {
            let page = head.get(*at..)?;
            let offset = match format {
                0 => {
                    u64::from(be::u32_at(page, OFFSET_HIGH)?) << 32
                        | u64::from(be::u32_at(page, LOG_CHECKPOINT_OFFSET)?)
                }
                _ => be::u64_at(page, LOG_CHECKPOINT_OFFSET)?,
            };
            let (number, lsn) = (be::u64_at(page, LOG_CHECKPOINT_NO)?, be::u64_at(page, LOG_CHECKPOINT_LSN)?);
            let is_there = lsn > 0 && offset % LOG_BLOCK_SIZE as u64 == lsn % LOG_BLOCK_SIZE as u64;
            is_there.then_some((number, Self { lsn: Lsn(lsn), block: offset - offset % LOG_BLOCK_SIZE as u64 }))
        };
        [LOG_CHECKPOINT_1, LOG_CHECKPOINT_2]
            .iter()
            .filter_map(read)
            .max_by_key(|(number, _)| *number)
            .map(|(_, checkpoint)| checkpoint)
    }

    /// Whether the log has changes behind the checkpoint, by the block with its LSN.
    #[must_use]
    pub fn state(self, block: &[u8]) -> LogState {
        // Not by `LogBlock`, which asks for a checksum that format 0 does not have.
        let at = offset_in_block(self.lsn);
        let number = be::u32_at(block, LOG_BLOCK_HDR_NO);
        let (Some(number), Some(used)) = (number, be::u16_at(block, LOG_BLOCK_HDR_DATA_LEN)) else {
            return LogState::Undecided;
        };
        if number & !FLUSH_BIT != block_number(self.lsn) || usize::from(used) < at {
            return LogState::Undecided;
        }
        let behind = block.get(at..usize::from(used)).unwrap_or_default();
        let is_mark = behind.first() == Some(&MLOG_CHECKPOINT)
            && behind.len() == MLOG_CHECKPOINT_SIZE
            && be::u64_at(behind, 1) == Some(self.lsn.0);
        if behind.is_empty() || is_mark { LogState::Clean } else { LogState::NeedsRecovery }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn head(format: u32, number: u64, lsn: u64) -> Vec<u8> {
        let mut head = vec![0; LOG_FILE_HDR_SIZE];
        head[..4].copy_from_slice(&format.to_be_bytes());
        let page = &mut head[[LOG_CHECKPOINT_1, LOG_CHECKPOINT_2][(number % 2) as usize]..];
        page[LOG_CHECKPOINT_NO..8].copy_from_slice(&number.to_be_bytes());
        page[LOG_CHECKPOINT_LSN..16].copy_from_slice(&lsn.to_be_bytes());
        match format {
            0 => page[LOG_CHECKPOINT_OFFSET..20].copy_from_slice(&(2048 + lsn as u32 % 512).to_be_bytes()),
            _ => page[LOG_CHECKPOINT_OFFSET..24].copy_from_slice(&(2048 + lsn % 512).to_be_bytes()),
        }
        head
    }

    fn block(lsn: u64, behind: &[u8]) -> Vec<u8> {
        let mut block = vec![0; LOG_BLOCK_SIZE];
        let at = (lsn % 512) as usize;
        block[..4].copy_from_slice(&(0x8000_0000 | (lsn / 512 + 1) as u32).to_be_bytes());
        block[4..6].copy_from_slice(&((at + behind.len()) as u16).to_be_bytes());
        block[at..at + behind.len()].copy_from_slice(behind);
        block
    }

    #[test]
    fn a_log_that_ends_with_its_checkpoint_has_no_work_to_do() {
        let lsn = 1_643_532;
        for format in [0, 1, 103, 104] {
            let checkpoint = OlderCheckpoint::of(&head(format, 7, lsn)).unwrap();
            assert_eq!(checkpoint, OlderCheckpoint { lsn: Lsn(lsn), block: 2048 });
            assert_eq!(checkpoint.state(&block(lsn, &[])), LogState::Clean);
            let mark = [&[MLOG_CHECKPOINT][..], &lsn.to_be_bytes()].concat();
            assert_eq!(checkpoint.state(&block(lsn, &mark)), LogState::Clean);
            let other = [&[MLOG_CHECKPOINT][..], &(lsn - 1).to_be_bytes()].concat();
            assert_eq!(checkpoint.state(&block(lsn, &other)), LogState::NeedsRecovery);
            assert_eq!(checkpoint.state(&block(lsn, &[1])), LogState::NeedsRecovery);
            // A block of another round of the ring, and none.
            assert_eq!(checkpoint.state(&block(lsn + 512, &[])), LogState::Undecided);
            assert_eq!(checkpoint.state(&[]), LogState::Undecided);
        }
        assert_eq!(OlderCheckpoint::of(&head(6, 7, lsn)), None);
        assert_eq!(OlderCheckpoint::of(&[0; 2048]), None);
    }
}
