//! Whether a MariaDB log needs recovery, judged by its bytes at the newest checkpoint.

use crate::block::{
    self, BLOCK_TRAILER, BLOCK_TRAILER_ENCRYPTED, FLUSH_BIT, LOG_BLOCK_CHECKSUM, LOG_BLOCK_HDR_NO, LOG_BLOCK_SIZE,
    LogBlock, block_number, offset_in_block,
};
use crate::log_key::LogKey;
use crate::mariadb::{Checkpoint, Format, LogFile, READ_SIZE_MAX, StreamEncryption};
use crate::mtr::{self, Parsed};
use crate::plain_block::plain_block;
use crate::{LogState, RedoError, check_crc};
use format::bytes::{be, is_zero};
use format::types::Lsn;

/// High half of the first byte of a FILE_MODIFY record.
const FILE_MODIFY: u8 = 0xB0;
/// High half of the first byte of a FILE_CHECKPOINT record.
const FILE_CHECKPOINT: u8 = 0xF0;
/// Bytes after the first one of the record that names a checkpoint: space 0, page 0, the LSN.
const FILE_CHECKPOINT_BODY_SIZE: usize = 10;
const NONCE_SIZE: usize = 8;

impl LogFile {
    /// Whether anything but the checkpoint's own record follows the checkpoint. `bytes` are the [`READ_SIZE`](crate::mariadb::READ_SIZE)
    /// bytes at [`LogFile::checkpoint_place`], or more if the answer was [`LogState::Undecided`].
    ///
    /// # Errors
    /// [`RedoError::CheckpointDamaged`] if the checkpoint's own record is missing.
    pub fn state(&self, bytes: &[u8]) -> Result<LogState, RedoError> {
        self.state_with(bytes, None)
    }

    /// Like [`LogFile::state`], with the key of an encrypted log. Without the key, a log of 10.5 to 10.7 is never called clean: the used
    /// length of its last block is encrypted too.
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
            Format::Stream { encrypted } => self.stream_state(bytes, encrypted).map(|(state, _)| state),
        }
    }

    /// Where the log ends if it is clean, from the same bytes: after the record that names the checkpoint. mariadb-backup prepares a backup
    /// up to there, and leaves pages with that LSN.
    #[must_use]
    pub fn clean_end(&self, bytes: &[u8]) -> Lsn {
        let lsn = self.checkpoint.lsn;
        match self.format {
            Format::Stream { encrypted } => match self.stream_state(bytes, encrypted) {
                Ok((LogState::Clean, len)) => Lsn(lsn.0.saturating_add(len as u64)),
                _ => lsn,
            },
            Format::Blocks { .. } => lsn,
        }
    }

    /// The state, and the length of the mini-transactions that belong to the checkpoint.
    fn stream_state(&self, bytes: &[u8], encrypted: Option<StreamEncryption>) -> Result<(LogState, usize), RedoError> {
        let lsn = self.checkpoint.lsn;
        let nonce = if encrypted.is_some() { NONCE_SIZE } else { 0 };
        let readable = encrypted != Some(StreamEncryption::Everything);
        let (mut at, mut is_named) = (0, false);
        // In the log of a prepared backup, the checkpoint's record spans a whole lap and ends where it begins.
        let is_lap = bytes.len() as u64 >= self.capacity();
        loop {
            let rest = bytes.get(at..).unwrap_or(&[]);
            let marker = |offset| self.marker(lsn.0.saturating_add((at + offset) as u64));
            match mtr::parse(rest, nonce, marker) {
                // File names precede the checkpoint's record, and need no recovery.
                Parsed::Mtr(records, len) if !is_named && is_names(records) => at += len,
                Parsed::Mtr(records, _) if !is_checkpoint(records, lsn, readable) => {
                    return Ok((LogState::NeedsRecovery, at));
                }
                Parsed::Mtr(_, len) => (at, is_named) = (at + len, true),
                Parsed::MoreBytes if !is_lap && bytes.len() < READ_SIZE_MAX => return Ok((LogState::Undecided, at)),
                Parsed::End | Parsed::MoreBytes if !is_named => return Err(RedoError::CheckpointDamaged { lsn }),
                Parsed::End | Parsed::MoreBytes => return Ok((LogState::Clean, at)),
            }
        }
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

/// The blocks from that of `lsn` on, decrypted, with zeros in place of unsound ones.
fn plain_blocks(blocks: &[u8], lsn: Lsn, key: &LogKey) -> Vec<u8> {
    let lsns = (lsn.0..).step_by(LOG_BLOCK_SIZE).map(Lsn);
    let blocks = blocks.as_chunks::<LOG_BLOCK_SIZE>().0.iter().zip(lsns);
    blocks.flat_map(|(block, lsn)| plain_block(block, lsn, Some(key)).unwrap_or([0; LOG_BLOCK_SIZE])).collect()
}

/// The state of an encrypted log without its key: only whether the checkpoint's block is there can be checked.
fn locked_state(blocks: &[u8], lsn: Lsn) -> Result<LogState, RedoError> {
    let Some(block) = blocks.first_chunk::<LOG_BLOCK_SIZE>() else { return Ok(LogState::Undecided) };
    let has_number = be::u32_at(block, LOG_BLOCK_HDR_NO).map(|number| number & !FLUSH_BIT) == Some(block_number(lsn));
    let is_there = has_number && check_crc(block, LOG_BLOCK_CHECKSUM).is_ok();
    if is_there { Ok(LogState::NeedsRecovery) } else { Err(RedoError::CheckpointDamaged { lsn }) }
}

/// In a clean log of the 10.5 format, nothing follows the checkpoint, or one mini-transaction: FILE_CHECKPOINT and its end marker. A
/// shutdown leaves the former, a server killed before it did anything the latter.
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
        // Unless the block ends before the checkpoint: then it is an older version.
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
