#![doc = include_str!("../../docs/redo-mariadb.md")]

use crate::bytes::{be, is_zero};
use crate::redo::block::{
    self, FLUSH_BIT, LOG_BLOCK_CHECKSUM, LOG_BLOCK_HDR_NO, LOG_BLOCK_SIZE, LogBlock, block_number, offset_in_block,
};
use crate::redo::close_blocks::plain_block;
use crate::redo::log_key::LogKey;
use crate::redo::mtr::{self, Parsed};
use crate::redo::mtr_reader::{BLOCK_TRAILER, BLOCK_TRAILER_ENCRYPTED};
use crate::redo::{LogState, RedoError, check_crc};
use crate::types::Lsn;

/// Format. 4 bytes.
pub const LOG_HEADER_FORMAT: usize = 0;
/// LSN of the first payload byte. 8 bytes.
pub const LOG_HEADER_START_LSN: usize = 8;
/// The server that made the file. 32 bytes.
pub const LOG_HEADER_CREATOR: usize = 16;
/// Key information; its first 4 bytes are 1 in the older encrypted format.
pub const LOG_HEADER_KEY: usize = 48;
/// CRC-32C of the header. 4 bytes.
pub const LOG_HEADER_CHECKSUM: usize = 508;
/// First checkpoint slot, 64 bytes.
pub const CHECKPOINT_1: usize = 4096;
/// Second checkpoint slot, 64 bytes.
pub const CHECKPOINT_2: usize = 8192;
/// The payload begins.
pub const START_OFFSET: usize = 12288;
/// LSN of the checkpoint, in its slot. 8 bytes.
pub const CHECKPOINT_LSN: usize = 0;
/// Where the log ended when the checkpoint was made, in its slot. 8 bytes.
pub const CHECKPOINT_END_LSN: usize = 8;
/// CRC-32C of the slot. 4 bytes.
pub const CHECKPOINT_CHECKSUM: usize = 60;

/// Bytes to read at [`LogFile::checkpoint_place`] at first. [`LogState::Undecided`] asks for more: up to [`READ_SIZE_MAX`].
pub const READ_SIZE: usize = 4096;
/// With so many bytes (or all there are) the answer is never [`LogState::Undecided`].
pub const READ_SIZE_MAX: usize = 2 * mtr::MTR_SIZE_MAX;

/// The 10.5 format: header size, checkpoint slots, and where in a slot things are.
pub(super) const BLOCKS_START: u64 = 2048;
pub(super) const BLOCKS_SLOTS: [usize; 2] = [512, 1536];
/// The larger one counts. 8 bytes.
pub const BLOCKS_CHECKPOINT_NO: usize = 0;
/// LSN of the checkpoint. 8 bytes.
pub const BLOCKS_CHECKPOINT_LSN: usize = 8;
/// Where that is in the file. 8 bytes.
pub const BLOCKS_CHECKPOINT_OFFSET: usize = 16;
/// Where the log ended when the checkpoint was made; zero if the server had just started. 8 bytes.
pub const BLOCKS_END_LSN: usize = 496;
/// CRC-32C of the slot. 4 bytes.
pub const BLOCKS_CHECKPOINT_CHECKSUM: usize = LOG_BLOCK_CHECKSUM;

/// High half of the first byte of a FILE_MODIFY record.
const FILE_MODIFY: u8 = 0xB0;
/// High half of the first byte of a FILE_CHECKPOINT record.
const FILE_CHECKPOINT: u8 = 0xF0;
/// The record that names checkpoint `lsn`: its first byte, space and page 0, the LSN.
const FILE_CHECKPOINT_BODY_SIZE: usize = 10;
const NONCE_SIZE: usize = 8;

/// Which of MariaDB's formats a log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 10.5 to 10.7: blocks of 512 bytes.
    Blocks {
        /// Whether the payload is encrypted.
        encrypted: bool,
    },
    /// 10.8 and later: no blocks.
    Stream {
        /// Whether the payload is encrypted.
        encrypted: Option<StreamEncryption>,
    },
}

/// The two ways in which MariaDB 10.8 and later encrypt the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEncryption {
    /// Early: FILE_ records stay plain.
    PlainFileRecords,
    /// Later maintenance releases: all but the frame is encrypted.
    Everything,
}

impl Format {
    /// By the first four bytes of the file.
    pub(crate) const fn from_number(format: u32) -> Option<Self> {
        Some(match format {
            0x5048_5953 => Self::Blocks { encrypted: false },
            0xD048_5953 => Self::Blocks { encrypted: true },
            0x5068_7973 => Self::Stream { encrypted: None },
            0xF09F_979D => Self::Stream { encrypted: Some(StreamEncryption::Everything) },
            _ => return None,
        })
    }
}

/// The newest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Redo from here on may be missing in the data files.
    pub lsn: Lsn,
    /// Where the log ended when the checkpoint was made; the same as `lsn` after a clean shutdown.
    pub end_lsn: Lsn,
}

/// The header of `ib_logfile0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFile {
    /// Format.
    pub format: Format,
    /// LSN of the first payload byte.
    pub first_lsn: Lsn,
    /// Size of the file, bytes.
    pub size: u64,
    /// The newest checkpoint.
    pub checkpoint: Checkpoint,
    /// File offset of the checkpoint's LSN in the 10.5 format, which does not follow from the header alone.
    blocks_offset: u64,
}

impl LogFile {
    /// Reads the first [`START_OFFSET`] bytes of a file of `size` bytes (2048 bytes are enough for the 10.5 format).
    ///
    /// # Errors
    /// [`RedoError::TooShort`], [`RedoError::UnknownFormat`], [`RedoError::HeaderChecksum`], [`RedoError::NoCheckpoint`].
    pub fn parse(header: &[u8], size: u64) -> Result<Self, RedoError> {
        let short = |needed| RedoError::TooShort { len: header.len() as u64, needed };
        let number = be::u32_at(header, LOG_HEADER_FORMAT).ok_or(short(4))?;
        let format = Format::from_number(number).ok_or(RedoError::UnknownFormat { format: number })?;
        check_crc(header, LOG_HEADER_CHECKSUM)?;
        let first_lsn = Lsn(be::u64_at(header, LOG_HEADER_START_LSN).ok_or(short(512))?);
        match format {
            Format::Blocks { .. } => {
                let header = header.get(..BLOCKS_START as usize).ok_or(short(BLOCKS_START))?;
                let (checkpoint, blocks_offset) = blocks_checkpoint(header).ok_or(RedoError::NoCheckpoint)?;
                Ok(Self { format, first_lsn, size, checkpoint, blocks_offset })
            }
            Format::Stream { .. } => {
                let header = header.get(..START_OFFSET).ok_or(short(START_OFFSET as u64))?;
                let checkpoint = stream_checkpoint(header, first_lsn).ok_or(RedoError::NoCheckpoint)?;
                let old_key =
                    format == (Format::Stream { encrypted: None }) && be::u32_at(header, LOG_HEADER_KEY) == Some(1);
                let encrypted = Some(StreamEncryption::PlainFileRecords);
                let format = if old_key { Format::Stream { encrypted } } else { format };
                Ok(Self { format, first_lsn, size, checkpoint, blocks_offset: 0 })
            }
        }
    }

    /// Bytes of payload that the file holds before it wraps.
    fn capacity(&self) -> u64 {
        let header = if matches!(self.format, Format::Blocks { .. }) { BLOCKS_START } else { START_OFFSET as u64 };
        self.size.saturating_sub(header)
    }

    /// File offset of `lsn`. The payload is circular: where the file ends it goes on at [`LogFile::payload_start`]. `None` for
    /// LSNs before the file's first and for files without payload.
    #[must_use]
    pub fn offset_of(&self, lsn: Lsn) -> Option<u64> {
        let (base, base_offset) = match self.format {
            Format::Blocks { .. } => (self.checkpoint.lsn, self.blocks_offset.checked_sub(BLOCKS_START)?),
            Format::Stream { .. } => (self.first_lsn, 0),
        };
        let distance = base_offset.checked_add(lsn.0.checked_sub(base.0)?)?;
        self.payload_start().checked_add(distance.checked_rem(self.capacity())?)
    }

    /// File offset at which the payload begins, and begins again.
    #[must_use]
    pub fn payload_start(&self) -> u64 {
        self.size - self.capacity()
    }

    /// File offset from which [`LogFile::state`] wants its bytes.
    #[must_use]
    pub fn checkpoint_place(&self) -> Option<u64> {
        let lsn = self.checkpoint.end_lsn;
        match self.format {
            Format::Blocks { .. } => {
                let offset = self.offset_of(self.checkpoint.lsn)?;
                Some(offset - offset % LOG_BLOCK_SIZE as u64)
            }
            Format::Stream { .. } => self.offset_of(lsn),
        }
    }

    /// Whether anything but the checkpoint's own record follows the checkpoint. `bytes` are those at
    /// [`LogFile::checkpoint_place`], [`READ_SIZE`] of them, and more if the answer is [`LogState::Undecided`].
    ///
    /// # Errors
    /// [`RedoError::CheckpointDamaged`] if the record that belongs to the checkpoint is not there.
    pub fn state(&self, bytes: &[u8]) -> Result<LogState, RedoError> {
        self.state_with(bytes, None)
    }

    /// The same with the key of an encrypted log. Without it, one of 10.5 to 10.7 is never said to be clean: how much of its last block
    /// is in use is encrypted too.
    ///
    /// # Errors
    /// Those of [`LogFile::state`].
    pub fn state_with(&self, bytes: &[u8], key: Option<&LogKey>) -> Result<LogState, RedoError> {
        let Checkpoint { lsn, end_lsn } = self.checkpoint;
        match self.format {
            _ if end_lsn > lsn => Ok(LogState::NeedsRecovery),
            Format::Blocks { encrypted: false } => blocks_state(bytes, lsn, BLOCK_TRAILER),
            Format::Blocks { encrypted: true } => match key {
                Some(key) => blocks_state(&plain_blocks(bytes, lsn, key), lsn, BLOCK_TRAILER_ENCRYPTED),
                None => locked_state(bytes, lsn),
            },
            Format::Stream { encrypted } => self.stream_state(bytes, encrypted),
        }
    }

    fn stream_state(&self, bytes: &[u8], encrypted: Option<StreamEncryption>) -> Result<LogState, RedoError> {
        let lsn = self.checkpoint.lsn;
        let nonce = if encrypted.is_some() { NONCE_SIZE } else { 0 };
        let readable = encrypted != Some(StreamEncryption::Everything);
        let (mut at, mut is_named) = (0, false);
        loop {
            let rest = bytes.get(at..).unwrap_or(&[]);
            let sequence_bit = |offset| self.sequence_bit(lsn.0.saturating_add((at + offset) as u64));
            match mtr::parse(rest, nonce, sequence_bit) {
                // What files are called stands before the checkpoint's record, and is nothing to recover.
                Parsed::Mtr(records, len) if !is_named && is_names(records) => at += len,
                Parsed::Mtr(records, _) if !is_checkpoint(records, lsn, readable) => {
                    return Ok(LogState::NeedsRecovery);
                }
                Parsed::Mtr(_, len) => (at, is_named) = (at + len, true),
                Parsed::MoreBytes if bytes.len() < READ_SIZE_MAX => return Ok(LogState::Undecided),
                Parsed::End | Parsed::MoreBytes if !is_named => return Err(RedoError::CheckpointDamaged { lsn }),
                Parsed::End | Parsed::MoreBytes => return Ok(LogState::Clean),
            }
        }
    }

    /// The end marker of a mini-transaction whose marker lies at `lsn`: it changes at every lap around the file.
    pub(super) fn sequence_bit(&self, lsn: u64) -> u8 {
        let laps = lsn.saturating_sub(self.first_lsn.0).checked_div(self.capacity()).unwrap_or(0);
        u8::from(laps.is_multiple_of(2))
    }
}

/// Whether a mini-transaction consists of FILE_MODIFY records.
fn is_names(records: &[u8]) -> bool {
    mtr::records(records).all(|(first, _)| first & 0xF0 == FILE_MODIFY)
}

/// Whether a mini-transaction consists of FILE_CHECKPOINT records of this checkpoint, or of padding.
fn is_checkpoint(records: &[u8], lsn: Lsn, readable: bool) -> bool {
    mtr::records(records).all(|(first, body)| {
        let names_it = body.len() == FILE_CHECKPOINT_BODY_SIZE && be::u64_at(body, 2) == Some(lsn.0);
        first & 0xF0 == FILE_CHECKPOINT && (names_it || is_zero(body) || !readable)
    })
}

/// The valid slot with the larger LSN.
fn stream_checkpoint(header: &[u8], first_lsn: Lsn) -> Option<Checkpoint> {
    let slots = [CHECKPOINT_1, CHECKPOINT_2].into_iter().filter_map(|at| {
        let slot = header.get(at..at + CHECKPOINT_CHECKSUM + 4)?;
        check_crc(slot, CHECKPOINT_CHECKSUM).ok()?;
        let lsn = Lsn(be::u64_at(slot, CHECKPOINT_LSN)?);
        let end_lsn = Lsn(be::u64_at(slot, CHECKPOINT_END_LSN)?);
        let rest = slot.get(CHECKPOINT_END_LSN + 8..CHECKPOINT_CHECKSUM)?;
        (is_zero(rest) && lsn >= first_lsn && end_lsn >= lsn).then_some(Checkpoint { lsn, end_lsn })
    });
    slots.max_by_key(|checkpoint| checkpoint.lsn)
}

/// The 10.5 format: the slot with the larger number, and the file offset that it gives its LSN.
fn blocks_checkpoint(header: &[u8]) -> Option<(Checkpoint, u64)> {
    let slots = BLOCKS_SLOTS.into_iter().filter_map(|at| {
        let slot = header.get(at..at + LOG_BLOCK_SIZE)?;
        check_crc(slot, LOG_BLOCK_CHECKSUM).ok()?;
        let lsn = Lsn(be::u64_at(slot, BLOCKS_CHECKPOINT_LSN)?);
        // A server that has just started writes zero.
        let end_lsn = Lsn(be::u64_at(slot, BLOCKS_END_LSN)?).max(lsn);
        let number = be::u64_at(slot, BLOCKS_CHECKPOINT_NO)?;
        Some((number, Checkpoint { lsn, end_lsn }, be::u64_at(slot, BLOCKS_CHECKPOINT_OFFSET)?))
    });
    slots.max_by_key(|&(number, ..)| number).map(|(_, checkpoint, offset)| (checkpoint, offset))
}

/// Blocks from that of `lsn` on as they would be if they were not encrypted; zeros where they are not sound.
fn plain_blocks(blocks: &[u8], lsn: Lsn, key: &LogKey) -> Vec<u8> {
    let lsns = (lsn.0..).step_by(LOG_BLOCK_SIZE).map(Lsn);
    let blocks = blocks.as_chunks::<LOG_BLOCK_SIZE>().0.iter().zip(lsns);
    blocks.flat_map(|(block, lsn)| plain_block(block, lsn, Some(key)).unwrap_or([0; LOG_BLOCK_SIZE])).collect()
}

/// What an encrypted log says without its key: whether the block of its checkpoint is there.
fn locked_state(blocks: &[u8], lsn: Lsn) -> Result<LogState, RedoError> {
    let Some(block) = blocks.first_chunk::<LOG_BLOCK_SIZE>() else { return Ok(LogState::Undecided) };
    let has_number = be::u32_at(block, LOG_BLOCK_HDR_NO).map(|number| number & !FLUSH_BIT) == Some(block_number(lsn));
    let is_there = has_number && check_crc(block, LOG_BLOCK_CHECKSUM).is_ok();
    if is_there { Ok(LogState::NeedsRecovery) } else { Err(RedoError::CheckpointDamaged { lsn }) }
}

/// After the checkpoint of a clean log of the 10.5 format there is nothing, or one mini-transaction: FILE_CHECKPOINT and its end
/// marker. The former is what a shutdown leaves, the latter a server that was killed before it did anything.
fn blocks_state(blocks: &[u8], lsn: Lsn, trailer: usize) -> Result<LogState, RedoError> {
    const MTR_SIZE: usize = 1 + FILE_CHECKPOINT_BODY_SIZE + 1;
    let tail = block::tail(blocks, lsn, trailer, MTR_SIZE);
    if blocks.len() < LOG_BLOCK_SIZE {
        return Ok(LogState::Undecided);
    }
    if !tail.first_block_valid {
        return Err(RedoError::CheckpointDamaged { lsn });
    }
    if tail.ended && tail.payload.is_empty() {
        // Unless the block ends before the checkpoint: then it is an older one than there was.
        let used = blocks.first_chunk().and_then(|block| LogBlock::parse(block, lsn)).map(|block| block.data_len);
        let reaches = used.is_some_and(|used| usize::from(used) >= offset_in_block(lsn));
        return if reaches { Ok(LogState::Clean) } else { Err(RedoError::CheckpointDamaged { lsn }) };
    }
    let mut record = [0; MTR_SIZE];
    if let Some(first) = record.first_mut() {
        *first = FILE_CHECKPOINT | FILE_CHECKPOINT_BODY_SIZE as u8;
    }
    let written = be::put_u64(&mut record, 3, lsn.0).is_some();
    Ok(match (tail.payload.len(), tail.ended) {
        (MTR_SIZE, true) if written && tail.payload == record => LogState::Clean,
        (0..=MTR_SIZE, false) => LogState::Undecided,
        _ => LogState::NeedsRecovery,
    })
}
