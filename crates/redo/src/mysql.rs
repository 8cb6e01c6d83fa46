#![doc = include_str!("../docs/redo-mysql.md")]

pub mod close;
pub mod copy;
pub mod follow;
pub mod mtr_reader;
pub mod segment;

use crate::block::{self, LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_start};
use crate::record::mysql_reader;
use crate::{LogState, RedoError, check_crc};
use format::bytes::be;
use format::codec::{EncryptionInfo, UnlockError};
use format::types::{Lsn, SpaceId};

/// Format number. 4 bytes.
pub const LOG_HEADER_FORMAT: usize = 0;
/// Number of the log, the same in all files of a datadir. 4 bytes.
pub const LOG_HEADER_LOG_UUID: usize = 4;
/// LSN of the file's first block. 8 bytes.
pub const LOG_HEADER_START_LSN: usize = 8;
/// The server that created the file. 32 bytes.
pub const LOG_HEADER_CREATOR: usize = 16;
/// Flags. 4 bytes.
pub const LOG_HEADER_FLAGS: usize = 48;
/// CRC-32C of the header block. 4 bytes.
pub const LOG_HEADER_CHECKSUM: usize = 508;
/// First checkpoint slot, a block.
pub const LOG_CHECKPOINT_1: usize = 512;
/// Encryption information, a block.
pub const LOG_ENCRYPTION: usize = 1024;
/// Second checkpoint slot, a block.
pub const LOG_CHECKPOINT_2: usize = 1536;
/// Start of the log blocks.
pub const LOG_FILE_HDR_SIZE: usize = 2048;
/// Checkpoint number, in a checkpoint slot of format 5 and older. 8 bytes.
pub const LOG_CHECKPOINT_NO: usize = 0;
/// LSN of the checkpoint, in its slot. 8 bytes.
pub const LOG_CHECKPOINT_LSN: usize = 8;
/// Position of that LSN in the ring of files, in a checkpoint slot of format 5 and older. 8 bytes.
pub const LOG_CHECKPOINT_OFFSET: usize = 16;
/// Size of the server's log buffer, in a checkpoint slot of format 5 and older. 8 bytes.
pub const LOG_CHECKPOINT_BUF_SIZE: usize = 24;

/// Offset of the information in the header, 48 bytes into that block. It has the same form as on page 0 of an encrypted tablespace.
const LOG_ENCRYPTION_INFO: usize = LOG_ENCRYPTION + 48;

/// Bytes to read at [`CheckpointPlace::offset`] for [`state`]: two blocks, fewer only at the end of the file.
pub const CHECKPOINT_READ_SIZE: usize = 2 * LOG_BLOCK_SIZE;

/// xtrabackup writes this over the creator's name in its copy of a log, `xtrabackup_logfile`; the time follows.
const COPIED: &[u8] = b"xtrabkup ";

/// The first format whose files do not form a ring.
pub const FORMAT_MANY_FILES: u32 = 6;
/// The first format whose checkpoints may be inside a mini-transaction, and the oldest that [`mtr_reader`] reads as its server does.
pub const FORMAT_MID_GROUP: u32 = 3;
/// The format in which a checkpoint is followed by a record that names it.
const FORMAT_CHECKPOINT_RECORD: u32 = 1;
/// Type of that record; an LSN of 8 bytes follows.
pub(crate) const MLOG_CHECKPOINT: u8 = 56;
pub(crate) const MLOG_CHECKPOINT_SIZE: usize = 9;
const FLAG_LOGGING_DISABLED: u32 = 1;
const FLAG_CRASH_UNSAFE: u32 = 2;
const FLAG_NOT_INITIALISED: u32 = 4;

/// Undo tablespaces are numbered from here downwards, in turn. Each truncation gives one a new number.
const UNDO_SPACE_MAX: u32 = 0xFFFF_FFEF;
const UNDO_SPACES: u32 = 127;
const UNDO_NUMBERS_EACH: u32 = 400_000;

/// The number of an undo tablespace: `undo_001` is 1. `None` for other tablespaces.
#[must_use]
pub fn undo_number(space: SpaceId) -> Option<u32> {
    let below = UNDO_SPACE_MAX.checked_sub(space.0)?;
    (below < UNDO_SPACES * UNDO_NUMBERS_EACH).then_some(below % UNDO_SPACES + 1)
}

/// The header of one redo log file: `ib_logfileN` or `#ib_redoN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// 1 (MySQL 5.7.9) to 6 (8.0.30 and later).
    pub format: u32,
    /// See [`LOG_HEADER_LOG_UUID`].
    pub log_uuid: u32,
    /// LSN of the first block after the header; meaningless in formats up to 5. The header of a [copy](LogFile::is_copy) does not say it:
    /// this is then the start of the checkpoint's block, the first in the copy.
    pub start_lsn: Lsn,
    /// As the server wrote it, for instance `MySQL 8.4.3`.
    pub creator: String,
    /// See [`LogFile::is_crash_unsafe`].
    pub flags: u32,
    /// Size of the file, bytes.
    pub size: u64,
    slots: [Option<Slot>; 2],
}

/// A checkpoint slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    number: u64,
    lsn: Lsn,
    offset: u64,
}

/// The place of a log's newest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointPlace {
    /// Data files may lack changes from here on.
    pub lsn: Lsn,
    /// Index of the file in the given order.
    pub file: usize,
    /// Offset in that file of the block with the LSN.
    pub offset: u64,
    /// Format of the log.
    pub format: u32,
}

impl LogFile {
    /// Reads the first [`LOG_FILE_HDR_SIZE`] bytes of a file of `size` bytes.
    ///
    /// # Errors
    /// [`RedoError::TooShort`], [`RedoError::UnknownFormat`], [`RedoError::HeaderChecksum`].
    pub fn parse(header: &[u8], size: u64) -> Result<Self, RedoError> {
        let short = RedoError::TooShort { len: header.len() as u64, needed: LOG_FILE_HDR_SIZE as u64 };
        let header = header.get(..LOG_FILE_HDR_SIZE).ok_or(short)?;
        let format = be::u32_at(header, LOG_HEADER_FORMAT).ok_or(short)?;
        if !(1..=FORMAT_MANY_FILES).contains(&format) {
            return Err(RedoError::UnknownFormat { format });
        }
        let creator = header.get(LOG_HEADER_CREATOR..LOG_HEADER_FLAGS).unwrap_or(&[]);
        let is_copy = creator.starts_with(COPIED);
        // xtrabackup writes its name without updating the checksum. The checkpoints have checksums of their own.
        if !is_copy {
            check_crc(header, LOG_HEADER_CHECKSUM)?;
        }
        let slots = [LOG_CHECKPOINT_1, LOG_CHECKPOINT_2].map(|at| Slot::read(header, at));
        let of_checkpoint = slots.iter().flatten().map(|slot| block_start(slot.lsn)).max();
        let start_lsn = Lsn(be::u64_at(header, LOG_HEADER_START_LSN).ok_or(short)?);
        let end = creator.iter().position(|&byte| byte == 0).unwrap_or(creator.len());
        Ok(Self {
            format,
            log_uuid: be::u32_at(header, LOG_HEADER_LOG_UUID).ok_or(short)?,
            start_lsn: of_checkpoint.filter(|_| is_copy).unwrap_or(start_lsn),
            creator: String::from_utf8_lossy(creator.get(..end).unwrap_or(&[])).into_owned(),
            flags: be::u32_at(header, LOG_HEADER_FLAGS).ok_or(short)?,
            size,
            slots,
        })
    }

    /// Another file of this ring, of `size` bytes, that the log has not reached yet: it has no header of its own.
    #[must_use]
    pub fn unreached(&self, size: u64) -> Self {
        Self { size, slots: [None; 2], ..self.clone() }
    }

    /// Whether this is xtrabackup's copy of a log: the blocks from the newest checkpoint on, behind the header of the file with that
    /// checkpoint.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.creator.as_bytes().starts_with(COPIED)
    }

    /// Whether [`close::new_file`] made it to follow a [copy](LogFile::is_copy).
    #[must_use]
    pub fn closes_copy(&self) -> bool {
        self.creator.as_bytes() == close::CREATOR
    }

    /// Whether redo logging was disabled and the server has not shut down since: the data files are beyond recovery.
    #[must_use]
    pub const fn is_crash_unsafe(&self) -> bool {
        let both = FLAG_LOGGING_DISABLED | FLAG_CRASH_UNSAFE;
        self.flags & both == both
    }

    /// Whether redo logging is disabled (`ALTER INSTANCE DISABLE INNODB REDO_LOG`): changes are made that the log does not have.
    #[must_use]
    pub const fn is_logging_disabled(&self) -> bool {
        self.flags & FLAG_LOGGING_DISABLED != 0
    }

    /// The LSN behind its last block; format 6.
    #[must_use]
    pub const fn end_lsn(&self) -> Lsn {
        let blocks = self.size.saturating_sub(LOG_FILE_HDR_SIZE as u64) / LOG_BLOCK_SIZE as u64;
        Lsn(self.start_lsn.0.saturating_add(blocks * LOG_BLOCK_SIZE as u64))
    }

    /// Whether the server had not finished creating the datadir.
    #[must_use]
    pub const fn is_not_initialised(&self) -> bool {
        self.flags & FLAG_NOT_INITIALISED != 0
    }

    /// The offset of the block with `lsn`; format 6. `None` if the LSN is not in this file.
    #[must_use]
    pub fn offset_of(&self, lsn: Lsn) -> Option<u64> {
        let from_start = lsn.0.checked_sub(self.start_lsn.0)?;
        let block = from_start - from_start % LOG_BLOCK_SIZE as u64;
        let offset = block.checked_add(LOG_FILE_HDR_SIZE as u64)?;
        (offset < self.size).then_some(offset)
    }

    fn newest_in_file(&self, file: usize) -> Option<CheckpointPlace> {
        let places = self.slots.iter().flatten().filter(|slot| slot.lsn.0 != 0).filter_map(|slot| {
            let offset = self.offset_of(slot.lsn)?;
            Some(CheckpointPlace { lsn: slot.lsn, file, offset, format: self.format })
        });
        places.max_by_key(|place| place.lsn)
    }

    /// Formats up to 5: only the first file has checkpoints, which give their position in the ring.
    fn newest_in_ring(&self) -> Option<CheckpointPlace> {
        let slot = self.slots.iter().flatten().max_by_key(|slot| slot.number)?;
        let in_file = slot.offset.checked_rem(self.size)?.max(LOG_FILE_HDR_SIZE as u64);
        let offset = in_file - in_file % LOG_BLOCK_SIZE as u64;
        let file = usize::try_from(slot.offset.checked_div(self.size)?).ok()?;
        Some(CheckpointPlace { lsn: slot.lsn, file, offset, format: self.format })
    }
}

impl Slot {
    fn read(header: &[u8], at: usize) -> Option<Self> {
        let block = header.get(at..at.checked_add(LOG_BLOCK_SIZE)?)?;
        check_crc(block, LOG_HEADER_CHECKSUM).ok()?;
        Some(Self {
            number: be::u64_at(block, LOG_CHECKPOINT_NO)?,
            lsn: Lsn(be::u64_at(block, LOG_CHECKPOINT_LSN)?),
            offset: be::u64_at(block, LOG_CHECKPOINT_OFFSET)?,
        })
    }
}

/// The encryption information in the first [`LOG_FILE_HDR_SIZE`] bytes of a file, for opening its encrypted blocks
/// (`innodb_redo_log_encrypt`). `None` if there is none. No checksum covers it except that of the key itself.
///
/// # Errors
/// [`UnlockError::UnknownInfo`], [`UnlockError::Truncated`].
pub fn encryption_info(header: &[u8]) -> Result<Option<EncryptionInfo>, UnlockError> {
    EncryptionInfo::parse(header.get(LOG_ENCRYPTION_INFO..LOG_CHECKPOINT_2).unwrap_or_default())
}

/// The newest checkpoint of a log: of all files in `#innodb_redo` (without the spare `_tmp` ones), or of `ib_logfile0` and the files after
/// it, in order of their numbers.
///
/// # Errors
/// [`RedoError::NoCheckpoint`].
pub fn newest_checkpoint(files: &[LogFile]) -> Result<CheckpointPlace, RedoError> {
    let newest = match files.first() {
        Some(first) if first.format < FORMAT_MANY_FILES => first.newest_in_ring(),
        _ => files.iter().enumerate().filter_map(|(at, file)| file.newest_in_file(at)).max_by_key(|place| place.lsn),
    };
    newest.ok_or(RedoError::NoCheckpoint)
}

/// The place of an LSN in the files of a log of format 6, for a checkpoint that none of them has.
///
/// # Errors
/// [`RedoError::NoCheckpoint`] if no file has the LSN.
pub fn place_of(files: &[LogFile], lsn: Lsn) -> Result<CheckpointPlace, RedoError> {
    let mut places = files.iter().enumerate().filter(|(_, file)| file.format >= FORMAT_MANY_FILES);
    let place = places.find_map(|(at, file)| Some((at, file.offset_of(lsn)?, file.format)));
    let (file, offset, format) = place.ok_or(RedoError::NoCheckpoint)?;
    Ok(CheckpointPlace { lsn, file, offset, format })
}

/// Whether the log ends at its newest checkpoint. `blocks` are the bytes at the checkpoint's place: [`CHECKPOINT_READ_SIZE`] of them, or as
/// many as the file has.
///
/// # Errors
/// [`RedoError::CheckpointDamaged`] if there is no valid log block at the checkpoint's place.
pub fn state(checkpoint: &CheckpointPlace, blocks: &[u8]) -> Result<LogState, RedoError> {
    let lsn = checkpoint.lsn;
    let allowed = if checkpoint.format == FORMAT_CHECKPOINT_RECORD { MLOG_CHECKPOINT_SIZE } else { 0 };
    let tail = block::tail(blocks, lsn, LOG_BLOCK_SIZE - block::LOG_BLOCK_CHECKSUM, allowed);
    // A log that ends exactly with a block has its end at the next block's first payload byte, which need not exist.
    let at_block_start = block::offset_in_block(lsn) <= LOG_BLOCK_HDR_SIZE;
    if blocks.len() < LOG_BLOCK_SIZE && !at_block_start {
        return Ok(LogState::Undecided);
    }
    if !tail.first_block_valid && !at_block_start {
        return Err(RedoError::CheckpointDamaged { lsn });
    }
    let mut record = [MLOG_CHECKPOINT; MLOG_CHECKPOINT_SIZE];
    if be::put_u64(&mut record, 1, lsn.0).is_none() {
        return Ok(LogState::Undecided);
    }
    Ok(match (tail.payload.len(), tail.ended) {
        (0, true) => LogState::Clean,
        (len, true) if len == allowed && (tail.payload == record || tail.encrypted) => LogState::Clean,
        (len, false) if len <= allowed && !blocks.is_empty() => LogState::Undecided,
        (0, false) => LogState::Clean,
        // AUTO_INCREMENT counters change no page, and `recover` passes them on to the server.
        (_, true) if !tail.encrypted && has_only_notes(&tail.payload) => LogState::Clean,
        _ => LogState::NeedsRecovery,
    })
}

/// Whether all records are table notes, each a mini-transaction of its own.
fn has_only_notes(mut payload: &[u8]) -> bool {
    while let Some(first) = payload.first() {
        let len = mysql_reader::parse(payload).map_or(0, |(_, len)| len);
        if *first != close::SINGLE_TABLE_DYNAMIC_META || len == 0 {
            return false;
        }
        payload = payload.get(len..).unwrap_or(&[]);
    }
    true
}
