#![doc = include_str!("../docs/redo-mariadb.md")]

use crate::block::{LOG_BLOCK_CHECKSUM, LOG_BLOCK_SIZE};
use crate::mtr::{self, Marker};
use crate::{RedoError, check_crc};
use format::bytes::{be, is_zero};
use format::types::Lsn;

/// Format. 4 bytes.
pub const LOG_HEADER_FORMAT: usize = 0;
/// LSN of the first payload byte. 8 bytes.
pub const LOG_HEADER_START_LSN: usize = 8;
/// The server that created the file. 32 bytes.
pub const LOG_HEADER_CREATOR: usize = 16;
/// Key information; its first 4 bytes are 1 in the older encrypted format.
pub const LOG_HEADER_KEY: usize = 48;
/// Bytes of the key information.
pub(crate) const LOG_HEADER_KEY_SIZE: usize = 28;
/// CRC-32C of the header. 4 bytes.
pub const LOG_HEADER_CHECKSUM: usize = 508;
/// First checkpoint slot, 64 bytes.
pub const CHECKPOINT_1: usize = 4096;
/// Second checkpoint slot, 64 bytes.
pub const CHECKPOINT_2: usize = 8192;
/// Start of the payload.
pub const START_OFFSET: usize = 12288;
/// LSN of the checkpoint, in its slot. 8 bytes.
pub const CHECKPOINT_LSN: usize = 0;
/// The log's end when the checkpoint was made, in its slot. 8 bytes.
pub const CHECKPOINT_END_LSN: usize = 8;
/// CRC-32C of the slot. 4 bytes.
pub const CHECKPOINT_CHECKSUM: usize = 60;

/// The key information in the header of a log file or of an archived segment, 28 bytes; empty if the header is shorter than that.
pub fn key_information(header: &[u8]) -> &[u8] {
    header.get(LOG_HEADER_KEY..LOG_HEADER_KEY + LOG_HEADER_KEY_SIZE).unwrap_or_default()
}

/// Bytes to read at [`LogFile::checkpoint_place`] first. [`LogState::Undecided`](crate::LogState::Undecided) asks for more: up to
/// [`READ_SIZE_MAX`].
pub const READ_SIZE: usize = 4096;
/// With this many bytes (or all there are) the answer is never [`LogState::Undecided`](crate::LogState::Undecided).
pub const READ_SIZE_MAX: usize = 2 * mtr::MTR_SIZE_MAX;

/// The 10.5 format: header size, checkpoint slots, and offsets in a slot.
pub(super) const BLOCKS_START: u64 = 2048;
pub(super) const BLOCKS_SLOTS: [usize; 2] = [512, 1536];
/// The larger one counts. 8 bytes.
pub const BLOCKS_CHECKPOINT_NO: usize = 0;
/// LSN of the checkpoint. 8 bytes.
pub const BLOCKS_CHECKPOINT_LSN: usize = 8;
/// Its file offset. 8 bytes.
pub const BLOCKS_CHECKPOINT_OFFSET: usize = 16;
/// The log's end when the checkpoint was made; zero if the server had just started. 8 bytes.
pub const BLOCKS_END_LSN: usize = 496;
/// CRC-32C of the slot. 4 bytes.
pub const BLOCKS_CHECKPOINT_CHECKSUM: usize = LOG_BLOCK_CHECKSUM;

/// MariaDB's log formats.
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

/// The two encryption schemes of MariaDB 10.8 and later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEncryption {
    /// Early: FILE_ records stay plain.
    PlainFileRecords,
    /// Later maintenance releases: everything but the frame is encrypted.
    Everything,
}

impl Format {
    /// From the first four bytes of the file.
    pub(crate) const fn from_number(format: u32) -> Option<Self> {
        Some(match format {
            0x5048_5953 => Self::Blocks { encrypted: false },
            0xD048_5953 => Self::Blocks { encrypted: true },
            0x5068_7973 => Self::Stream { encrypted: None },
            0xF09F_979D => Self::Stream { encrypted: Some(StreamEncryption::Everything) },
            _ => return None,
        })
    }

    /// From the first bytes of the file, up to and including the key.
    #[must_use]
    pub fn of_header(header: &[u8]) -> Option<Self> {
        let format = Self::from_number(be::u32_at(header, LOG_HEADER_FORMAT)?)?;
        let has_old_key = be::u32_at(header, LOG_HEADER_KEY)? == 1;
        let encrypted = Some(StreamEncryption::PlainFileRecords);
        Some(if format == (Self::Stream { encrypted: None }) && has_old_key {
            Self::Stream { encrypted }
        } else {
            format
        })
    }
}

/// The newest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Data files may lack changes from here on.
    pub lsn: Lsn,
    /// The log's end when the checkpoint was made; equal to `lsn` after a clean shutdown.
    pub end_lsn: Lsn,
}

/// The header of `ib_logfile0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFile {
    /// Framing and encryption.
    pub format: Format,
    /// LSN of the first payload byte.
    pub first_lsn: Lsn,
    /// Size of the file, bytes.
    pub size: u64,
    /// The newest checkpoint.
    pub checkpoint: Checkpoint,
    /// File offset of the checkpoint's LSN in the 10.5 format; the header alone does not give it.
    blocks_offset: u64,
    /// Whether and how the server keeps it as an archive.
    kept: Option<Kept>,
}

/// A log that the server keeps as an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// An end marker that nothing behind its end has. If the file was a ring once, an earlier lap is there, and has the other one.
    pub own_marker: u8,
}

impl LogFile {
    /// Reads the first [`START_OFFSET`] bytes of a file of `size` bytes (2048 bytes are enough for the 10.5 format).
    ///
    /// # Errors
    /// [`RedoError::TooShort`], [`RedoError::UnknownFormat`], [`RedoError::HeaderChecksum`], [`RedoError::NoCheckpoint`].
    pub fn parse(header: &[u8], size: u64) -> Result<Self, RedoError> {
        let short = |needed| RedoError::TooShort { len: header.len() as u64, needed };
        let number = be::u32_at(header, LOG_HEADER_FORMAT).ok_or(short(4))?;
        let format = Format::of_header(header).or(Format::from_number(number));
        let format = format.ok_or(RedoError::UnknownFormat { format: number })?;
        check_crc(header, LOG_HEADER_CHECKSUM)?;
        let first_lsn = Lsn(be::u64_at(header, LOG_HEADER_START_LSN).ok_or(short(512))?);
        match format {
            Format::Blocks { .. } => {
                let header = header.get(..BLOCKS_START as usize).ok_or(short(BLOCKS_START))?;
                let (checkpoint, blocks_offset) = blocks_checkpoint(header).ok_or(RedoError::NoCheckpoint)?;
                Ok(Self { format, first_lsn, size, checkpoint, blocks_offset, kept: None })
            }
            Format::Stream { .. } => {
                let header = header.get(..START_OFFSET).ok_or(short(START_OFFSET as u64))?;
                let checkpoint = stream_checkpoint(header, first_lsn).ok_or(RedoError::NoCheckpoint)?;
                Ok(Self { format, first_lsn, size, checkpoint, blocks_offset: 0, kept: None })
            }
        }
    }

    /// A log that the server keeps as an archive, whose first file begins at `first_lsn`: its files are read as one that never wraps.
    /// `first_marker` is the end marker of the records of the first checkpoint that its newest list names.
    #[must_use]
    pub const fn kept(format: Format, first_lsn: Lsn, checkpoint: Checkpoint, first_marker: u8) -> Self {
        Self { checkpoint, kept: Some(Kept { own_marker: first_marker }), ..Self::straight(format, first_lsn) }
    }

    /// Whether the server keeps it as an archive. Then end markers mean nothing.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// A log that starts at `first_lsn`, has its checkpoint there, and never wraps.
    #[must_use]
    pub const fn straight(format: Format, first_lsn: Lsn) -> Self {
        let checkpoint = Checkpoint { lsn: first_lsn, end_lsn: first_lsn };
        Self { format, first_lsn, size: u64::MAX / 2, checkpoint, blocks_offset: 0, kept: None }
    }

    /// Bytes of payload before the file wraps.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        let header = if matches!(self.format, Format::Blocks { .. }) { BLOCKS_START } else { START_OFFSET as u64 };
        self.size.saturating_sub(header)
    }

    /// File offset of `lsn`. The payload is circular: at the end of the file it continues at [`LogFile::payload_start`]. `None` for LSNs
    /// before the file's first and for files without payload.
    #[must_use]
    pub fn offset_of(&self, lsn: Lsn) -> Option<u64> {
        let (base, base_offset) = match self.format {
            Format::Blocks { .. } => (self.checkpoint.lsn, self.blocks_offset.checked_sub(BLOCKS_START)?),
            Format::Stream { .. } => (self.first_lsn, 0),
        };
        let capacity = self.capacity();
        let behind = match lsn.0.checked_sub(base.0) {
            Some(behind) => behind.checked_rem(capacity)?,
            None if lsn < self.first_lsn => return None,
            // Before the checkpoint, go around the ring the other way.
            None => capacity.checked_sub((base.0 - lsn.0).checked_rem(capacity)?)?,
        };
        self.payload_start().checked_add(base_offset.checked_add(behind)?.checked_rem(capacity)?)
    }

    /// File offset at which the payload starts, and restarts after wrapping.
    #[must_use]
    pub fn payload_start(&self) -> u64 {
        self.size - self.capacity()
    }

    /// File offset of the bytes that [`LogFile::state`] needs.
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

    /// The end markers that may be at `lsn`.
    pub(super) fn marker(&self, lsn: u64) -> Marker {
        if self.is_kept() { Marker::Either } else { Marker::Of(self.sequence_bit(lsn)) }
    }

    pub(crate) const fn kept_as(&self) -> Option<Kept> {
        self.kept
    }

    /// The end marker that a server writes at `lsn`: it changes with every lap around the file.
    pub(super) fn sequence_bit(&self, lsn: u64) -> u8 {
        let laps = lsn.saturating_sub(self.first_lsn.0).checked_div(self.capacity()).unwrap_or(0);
        u8::from(laps.is_multiple_of(2))
    }
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

/// The 10.5 format: the slot with the larger number, and the file offset it gives for its LSN.
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

/// Offset and number of the newest checkpoint.
pub(super) fn newest_slot(header: &[u8]) -> Option<(usize, u64)> {
    let slots = BLOCKS_SLOTS.into_iter().filter_map(|at| {
        let slot = header.get(at..at + LOG_BLOCK_SIZE)?;
        check_crc(slot, LOG_BLOCK_CHECKSUM).ok()?;
        Some((at, be::u64_at(slot, BLOCKS_CHECKPOINT_NO)?))
    });
    slots.max_by_key(|&(_, number)| number)
}
