//! Finds the key of an encrypted log and proves it with the log itself, which names its checkpoint when decrypted with the right key.

use crate::block::{LOG_BLOCK_HDR_SIZE, LogBlock, offset_in_block};
use crate::log_key::{BLOCKS_KEY, KEY_MESSAGE, LogKey, LogKeyError, MODES, derive};
use crate::mariadb::{self, Format, LogFile, newest_slot};
use crate::mtr_reader::MtrReader;
use crate::plain_block::plain_block;
use crate::record::{FileRecord, RedoRecord};
use format::bytes::be;
use format::cipher::BLOCK;
use format::codec::CipherMode;
use format::keyring::KeyStore;
use format::types::Lsn;

/// A log's key information.
struct KeyInformation {
    version: u32,
    message: [u8; BLOCK],
    nonce: [u8; 4],
}

impl KeyInformation {
    fn read(file: &LogFile, header: &[u8]) -> Option<Self> {
        if !matches!(file.format, Format::Blocks { .. }) {
            let fields = header.get(mariadb::LOG_HEADER_KEY..)?;
            let (message, nonce) = (*fields.get(KEY_MESSAGE..)?.first_chunk()?, *fields.get(24..)?.first_chunk()?);
            return Some(Self { version: be::u32_at(fields, 4)?, message, nonce });
        }
        let (newest, _) = newest_slot(header)?;
        let fields = header.get(newest + BLOCKS_KEY..)?;
        let (nonce, message) = (*fields.get(4..)?.first_chunk()?, *fields.get(KEY_MESSAGE..)?.first_chunk()?);
        Some(Self { version: be::u32_at(fields, 0)?, message, nonce })
    }
}

impl LogKey {
    /// The key of the log `file`, whose first bytes are `header`. `None` if the log is not encrypted.
    ///
    /// `at_checkpoint` holds the log's bytes from [`MtrReader::place`] of the checkpoint's end LSN on, enough to include what the server
    /// writes there: 1 MiB will do.
    ///
    /// # Errors
    /// [`LogKeyError`].
    pub fn unlock(
        file: &LogFile,
        header: &[u8],
        keys: &KeyStore,
        at_checkpoint: &[u8],
    ) -> Result<Option<Self>, LogKeyError> {
        if matches!(file.format, Format::Blocks { encrypted: false } | Format::Stream { encrypted: None }) {
            return Ok(None);
        }
        let information = KeyInformation::read(file, header).ok_or(LogKeyError::NoKeyInformation)?;
        let KeyInformation { version, message, nonce } = information;
        let key = derive(keys, version, &message)?;
        let candidates = MODES.map(|mode| Self { key: key.clone(), mode, is_sure: false, nonce, version, message });
        let mut found = candidates.into_iter().filter(|key| key.opens(file, header, at_checkpoint));
        let first = found.next().ok_or(LogKeyError::WrongKey { version })?;
        let is_sure = found.next().is_none();
        Ok(Some(Self { is_sure, ..first }))
    }

    /// Determines the mode, if still unknown, from more of the log: its bytes from [`MtrReader::place`] of `from` on. Both modes encrypt
    /// fewer than 16 bytes in the same way, and the server may have written no more at the checkpoint.
    #[must_use]
    pub fn settle(self, file: &LogFile, from: Lsn, bytes: &[u8]) -> Self {
        if self.is_sure {
            return self;
        }
        let makes_sense = |mode| {
            let (key, mut bytes) = (Self { mode, ..self.clone() }, bytes);
            let mut reader = MtrReader::new(file, Some(key), from);
            while let Some(mtr) = reader.next_mtr(&mut bytes) {
                if mtr.records().any(|record| record.is_err()) {
                    return false;
                }
            }
            true
        };
        match MODES.map(makes_sense) {
            [true, false] => Self { mode: CipherMode::Cbc, is_sure: true, ..self },
            [false, true] => Self { mode: CipherMode::Ctr, is_sure: true, ..self },
            _ => self,
        }
    }

    /// Whether the log, decrypted with this key, names its checkpoint where it must. In the early format it always does, and in either mode
    /// a record shorter than 16 bytes does too. Therefore all records read must make sense.
    fn opens(&self, file: &LogFile, header: &[u8], mut at_checkpoint: &[u8]) -> bool {
        if matches!(file.format, Format::Blocks { .. }) && self.opens_last_block(file, header, at_checkpoint) {
            return true;
        }
        let mut is_named = false;
        let mut reader = MtrReader::new(file, Some(self.clone()), file.checkpoint.end_lsn);
        while let Some(mtr) = reader.next_mtr(&mut at_checkpoint) {
            for record in mtr.records() {
                match record {
                    Ok(RedoRecord::File(FileRecord::Checkpoint(lsn))) => is_named |= lsn == file.checkpoint.lsn,
                    Ok(RedoRecord::Page(_)) if !is_named => return false,
                    Ok(_) => {}
                    Err(_) => return false,
                }
            }
            // A complete block makes sense in one mode only.
            if is_named && matches!(file.format, Format::Blocks { .. }) {
                return true;
            }
        }
        is_named
    }

    /// Whether a log made of blocks ends at its checkpoint, as a shutdown leaves it. No record names the checkpoint then; only the head of
    /// the block is known in advance. With another key, the length alone is right once in 65,536 times.
    fn opens_last_block(&self, file: &LogFile, header: &[u8], at_checkpoint: &[u8]) -> bool {
        let end = file.checkpoint.end_lsn;
        let plain = at_checkpoint.first_chunk().and_then(|found| plain_block(found, end, Some(self)));
        let Some((plain, (_, number))) = plain.zip(newest_slot(header)) else { return false };
        let Some(block) = LogBlock::parse(&plain, end) else { return false };
        let first = usize::from(block.first_rec_group);
        let is_first_within = first == 0 || (LOG_BLOCK_HDR_SIZE..=offset_in_block(end)).contains(&first);
        let is_at_end = usize::from(block.data_len) == offset_in_block(end);
        // A block names the checkpoint that was next when the block was started.
        is_at_end && is_first_within && u64::from(block.epoch) <= number.saturating_add(1)
    }
}
