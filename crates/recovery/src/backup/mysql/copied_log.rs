//! The copy of the log: one file, whose blocks begin with the checkpoint's. The header is written last.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::codec::TablespaceKey;
use format::keyring::KeyStore;
use redo::block::{LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_start};
use redo::mysql::{self, LOG_FILE_HDR_SIZE, copy};

use crate::backup::error::{BackupError, Result, failed, refused};
use crate::door;
use datadir::reading::read_up_to;

/// Log file sizes are multiples of this, and so of every page size.
const FILE_ALIGN: u64 = 64 << 10;
/// Larger than the smallest log that servers were seen to start with.
const FILE_MIN: u64 = 1 << 20;
const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// Where a copied log begins, and the keys that open it.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub checkpoint: Lsn,
    /// The header of the server's file that held the checkpoint.
    header: Vec<u8>,
    /// The header's block with the key; zeros if there is no key.
    encryption: Vec<u8>,
    keys: Vec<TablespaceKey>,
}

/// Compares what is stored. Of the keys it compares only the number.
impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        (self.checkpoint, &self.header, &self.encryption, self.keys.len())
            == (other.checkpoint, &other.header, &other.encryption, other.keys.len())
    }
}

impl Origin {
    pub fn new(checkpoint: Lsn, header: Vec<u8>) -> Self {
        Self { checkpoint, header, encryption: vec![0; LOG_BLOCK_SIZE], keys: Vec::new() }
    }

    pub fn keys(&self) -> &[TablespaceKey] {
        &self.keys
    }

    /// Whether blocks may be encrypted.
    pub const fn is_encrypted(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Notes the key in the header of one of the log's files. The copy has room for one key, so a second one is an error.
    pub fn note_encryption(&mut self, block: &[u8], header: &[u8], keys: &KeyStore) -> Result<()> {
        if block.iter().all(|byte| *byte == 0) || block == self.encryption || keys.is_empty() {
            return Ok(());
        }
        if self.is_encrypted() {
            return Err(BackupError::Log("its key changed meanwhile: take the backup again".to_owned()));
        }
        let info = mysql::encryption_info(header).or_else(|error| refused(format!("the redo log's key: {error}")))?;
        if let Some(info) = info {
            let key = info.unlock(keys).or_else(|error| refused(format!("the redo log's key: {error}")))?;
            (self.encryption, self.keys) = (block.to_vec(), vec![key]);
        }
        Ok(())
    }

    /// The offset in the copy of the block at `lsn`.
    pub fn offset_of(&self, lsn: Lsn) -> u64 {
        offset(self.checkpoint, lsn)
    }
}

fn offset(checkpoint: Lsn, lsn: Lsn) -> u64 {
    LOG_FILE_HDR_SIZE as u64 + (block_start(lsn).0 - block_start(checkpoint).0)
}

/// The copy, as it grows.
#[derive(Debug)]
pub(super) struct CopiedLog {
    path: PathBuf,
    file: File,
    checkpoint: Lsn,
}

impl CopiedLog {
    pub fn create(path: PathBuf, checkpoint: Lsn) -> Result<Self> {
        let file = door::open_own(&path, true);
        let file = file.map_err(failed(&path, "making the copy of the redo log"))?;
        Ok(Self { path, file, checkpoint })
    }

    /// Writes the blocks that begin at `lsn`. A block that was not full may have been written before.
    pub fn write(&self, lsn: Lsn, blocks: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(blocks, offset(self.checkpoint, lsn));
        written.map_err(failed(&self.path, "writing the copy of the redo log"))
    }

    /// Turns the copy into a log that ends at `until`.
    pub fn finish(path: &Path, origin: &Origin, until: Lsn) -> Result<()> {
        let broken = |why: &str| BackupError::Log(why.to_owned());
        let file = door::open_own(path, false).map_err(failed(path, "opening the log"))?;
        let mut end = origin.offset_of(until);
        // At the start of a block there is nothing of it to keep.
        if until.0 % BLOCK > LOG_BLOCK_HDR_SIZE as u64 {
            let read = read_up_to(&file, end, LOG_BLOCK_SIZE).map_err(failed(path, "reading the log"))?;
            let block = read.first_chunk().and_then(|block| copy::cut(block, until, &origin.keys));
            let block = block.ok_or_else(|| broken("its last block cannot be cut off"))?;
            file.write_all_at(&block, end).map_err(failed(path, "writing the log"))?;
            end += BLOCK;
        }
        let header = copy::header(&origin.header, origin.checkpoint, &origin.encryption);
        let header = header.ok_or_else(|| broken("it has an unknown format"))?;
        file.write_all_at(&header, 0).map_err(failed(path, "writing the log"))?;
        // Cut off what follows, then extend with zeros.
        let size = end.next_multiple_of(FILE_ALIGN).max(FILE_MIN);
        for len in [end, size] {
            file.set_len(len).map_err(failed(path, "writing the log"))?;
        }
        Ok(())
    }
}
