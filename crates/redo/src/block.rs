#![doc = include_str!("../docs/log-block.md")]

use format::bytes::be;
use format::checksum::{NO_CHECKSUM_MAGIC, crc32c};
use format::types::Lsn;

/// Blocks in an epoch.
pub(crate) const EPOCH_BLOCKS: u64 = 1 << 30;
/// Bytes of a log block.
pub const LOG_BLOCK_SIZE: usize = 512;
/// Block number. 4 bytes.
pub const LOG_BLOCK_HDR_NO: usize = 0;
/// Bytes used, this header included. 2 bytes.
pub const LOG_BLOCK_HDR_DATA_LEN: usize = 4;
/// Offset of the first mini-transaction that starts in the block; 0 if none does. 2 bytes.
pub const LOG_BLOCK_FIRST_REC_GROUP: usize = 6;
/// Epoch or checkpoint number. 4 bytes.
pub const LOG_BLOCK_EPOCH_NO: usize = 8;
/// Start of the payload.
pub const LOG_BLOCK_HDR_SIZE: usize = 12;
/// CRC-32C of all bytes before it. 4 bytes.
pub const LOG_BLOCK_CHECKSUM: usize = 508;

/// Bytes after a block's payload: its checksum and, if it is encrypted, the key version.
pub(super) const BLOCK_TRAILER: usize = 4;
pub(super) const BLOCK_TRAILER_ENCRYPTED: usize = 8;
/// Set in the length: the payload is encrypted (MySQL).
pub(crate) const ENCRYPTED_BIT: u16 = 0x8000;
/// Set in the number, though not part of it: a write started with this block.
pub(super) const FLUSH_BIT: u32 = 0x8000_0000;

/// A log block that belongs where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBlock<'a> {
    bytes: &'a [u8; LOG_BLOCK_SIZE],
    /// Bytes used, the header included; 512 = full.
    pub data_len: u16,
    /// See [`LOG_BLOCK_FIRST_REC_GROUP`].
    pub first_rec_group: u16,
    /// See [`LOG_BLOCK_EPOCH_NO`].
    pub epoch: u32,
    /// Whether MySQL encrypted the payload; if so, the checksum was not verified, since it covers the plain text.
    pub encrypted: bool,
}

/// The number that the block at `lsn` must have.
#[must_use]
pub fn block_number(lsn: Lsn) -> u32 {
    u32::try_from(lsn.0 / LOG_BLOCK_SIZE as u64 % (1 << 30)).unwrap_or(0) + 1
}

impl<'a> LogBlock<'a> {
    /// The block stored at `lsn` (of its first byte or any other), if it belongs there: right number, right checksum, a possible length.
    /// Anything else ends the log.
    #[must_use]
    pub fn parse(bytes: &'a [u8; LOG_BLOCK_SIZE], lsn: Lsn) -> Option<Self> {
        let length = be::u16_at(bytes, LOG_BLOCK_HDR_DATA_LEN)?;
        let block = Self {
            bytes,
            data_len: length & !ENCRYPTED_BIT,
            first_rec_group: be::u16_at(bytes, LOG_BLOCK_FIRST_REC_GROUP)?,
            epoch: be::u32_at(bytes, LOG_BLOCK_EPOCH_NO)?,
            encrypted: length & ENCRYPTED_BIT != 0,
        };
        let number = be::u32_at(bytes, LOG_BLOCK_HDR_NO)? & !FLUSH_BIT;
        let used = usize::from(block.data_len);
        let fits = used == LOG_BLOCK_SIZE || (LOG_BLOCK_HDR_SIZE..=LOG_BLOCK_CHECKSUM).contains(&used);
        (number == block_number(lsn) && fits && block.checksum_fits()).then_some(block)
    }

    fn checksum_fits(&self) -> bool {
        let stored = be::u32_at(self.bytes, LOG_BLOCK_CHECKSUM);
        let computed = self.bytes.get(..LOG_BLOCK_CHECKSUM).map(crc32c);
        self.encrypted || stored == computed || stored == Some(NO_CHECKSUM_MAGIC)
    }

    /// Whether the log continues in the next block.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.data_len as usize == LOG_BLOCK_SIZE
    }

    /// The payload from `offset` on (counted from the block's first byte), which may be encrypted; the last `trailer` bytes are not
    /// payload.
    #[must_use]
    pub fn payload_from(&self, offset: usize, trailer: usize) -> &'a [u8] {
        let end = usize::from(self.data_len).min(LOG_BLOCK_SIZE - trailer);
        self.bytes.get(offset.max(LOG_BLOCK_HDR_SIZE)..end).unwrap_or(&[])
    }
}

/// The payload that follows an LSN in a log made of blocks.
pub(crate) struct Tail {
    /// The payload collected.
    pub payload: Vec<u8>,
    /// Whether the log ends after it.
    pub ended: bool,
    /// Whether the block at the LSN itself belongs there.
    pub first_block_valid: bool,
    /// Whether some of it is encrypted.
    pub encrypted: bool,
}

/// Collects the payload from `lsn` on, until there are more than `enough` bytes or the log ends. `blocks` starts with the block of `lsn`.
pub(crate) fn tail(blocks: &[u8], lsn: Lsn, trailer: usize, enough: usize) -> Tail {
    let mut tail = Tail { payload: Vec::new(), ended: false, first_block_valid: false, encrypted: false };
    let mut at = lsn;
    for (index, bytes) in blocks.as_chunks::<LOG_BLOCK_SIZE>().0.iter().enumerate() {
        let Some(block) = LogBlock::parse(bytes, at) else {
            tail.ended = true;
            return tail;
        };
        tail.first_block_valid |= index == 0;
        tail.encrypted |= block.encrypted;
        let offset = if index == 0 { offset_in_block(lsn) } else { LOG_BLOCK_HDR_SIZE };
        tail.payload.extend_from_slice(block.payload_from(offset, trailer));
        tail.ended = !block.is_full();
        if tail.ended || tail.payload.len() > enough {
            return tail;
        }
        at = Lsn(at.0.saturating_add(LOG_BLOCK_SIZE as u64));
    }
    tail
}

/// The first LSN of the block that contains `lsn`.
pub const fn block_start(lsn: Lsn) -> Lsn {
    Lsn(lsn.0 - lsn.0 % LOG_BLOCK_SIZE as u64)
}

/// Offset of an LSN within its block.
pub(crate) fn offset_in_block(lsn: Lsn) -> usize {
    usize::try_from(lsn.0 % LOG_BLOCK_SIZE as u64).unwrap_or(0)
}
