//! The copy of the log: one file, whose blocks begin with that of the checkpoint. It gets its header last.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::codec::TablespaceKey;
use format::keyring::KeyStore;
use redo::block::{LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_start};
use redo::mysql::{self, LOG_FILE_HDR_SIZE, copy};

use crate::backup::error::{BackupError, Result, failed, refused};
use crate::source::read_up_to;

/// Log file sizes are multiples of this, and so of every page size.
const FILE_ALIGN: u64 = 64 << 10;
/// More than the smallest size on which servers were seen to start.
const FILE_MIN: u64 = 1 << 20;
const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// Where a copied log begins, and what opens it.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub checkpoint: Lsn,
    /// The header of the server's file in which the checkpoint was.
    header: Vec<u8>,
    /// The part of a header that has the key; zeros if there is none.
    encryption: Vec<u8>,
    keys: Vec<TablespaceKey>,
}

/// By what is stored: keys are not compared.
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

    /// Notes the key of one of the log's files. The copy has room for one.
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

    /// Where in the copy the block at `lsn` is.
    pub fn offset_of(&self, lsn: Lsn) -> u64 {
        offset(self.checkpoint, lsn)
    }
}

fn offset(checkpoint: Lsn, lsn: Lsn) -> u64 {
    LOG_FILE_HDR_SIZE as u64 + (block_start(lsn).0 - block_start(checkpoint).0)
}

/// The copy while it grows.
#[derive(Debug)]
pub(super) struct CopiedLog {
    path: PathBuf,
    file: File,
    checkpoint: Lsn,
}

impl CopiedLog {
    pub fn create(path: PathBuf, checkpoint: Lsn) -> Result<Self> {
        let file = File::options().write(true).create_new(true).open(&path);
        let file = file.map_err(failed(&path, "making the copy of the redo log"))?;
        Ok(Self { path, file, checkpoint })
    }

    /// Writes the blocks that begin at `lsn`; the last one may have been written before, with less in it.
    pub fn write(&self, lsn: Lsn, blocks: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(blocks, offset(self.checkpoint, lsn));
        written.map_err(failed(&self.path, "writing the copy of the redo log"))
    }

    /// Makes a log of the copy that ends at `until`.
    pub fn finish(path: &Path, origin: &Origin, until: Lsn) -> Result<()> {
        let broken = |why: &str| BackupError::Log(why.to_owned());
        let file = File::options().read(true).write(true).open(path).map_err(failed(path, "opening the log"))?;
        let mut end = origin.offset_of(until);
        // At the start of a block there is nothing to keep of it.
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
        // What follows is cut off, and zeros put in its place.
        let size = end.next_multiple_of(FILE_ALIGN).max(FILE_MIN);
        for len in [end, size] {
            file.set_len(len).map_err(failed(path, "writing the log"))?;
        }
        Ok(())
    }
}
