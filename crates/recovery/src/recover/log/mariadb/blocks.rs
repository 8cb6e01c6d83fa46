//! Logs of MariaDB 10.5 to 10.7, made of blocks, encrypted or not: verified, and closed as at shutdown.

use format::bytes::be;
use format::fil::FIL_PAGE_FILE_FLUSH_LSN;
use redo::block::{LOG_BLOCK_SIZE, LogBlock};
use redo::close_blocks::{clean_slot, last_block, restarted_blocks};
use redo::log_key::LogKey;
use redo::mariadb::Format;
use redo::mtr_reader::MtrReader;
use redo::plain_block::plain_block;
use redo::verify_blocks::BlockVerifier;
use redo::verify_mariadb::Segment;

use super::{Lsn, MariaDbLog};
use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::log::verify::{verify_end, verify_stretch};
use datadir::reading::read_up_to;

const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

impl MariaDbLog {
    /// Whether the log is of a server before 10.8.
    pub fn is_of_blocks(&self) -> bool {
        matches!(self.parsed.format, Format::Blocks { .. })
    }

    /// The end of a log whose file starts with its checkpoint's block, as in backups.
    pub fn copied_to(&self) -> Lsn {
        let checkpoint = self.parsed.checkpoint.lsn.0;
        Lsn(checkpoint - checkpoint % BLOCK + (self.parsed.size - self.parsed.payload_start()))
    }

    /// Whether the log is closed at `end`, by a server's shutdown or by us. Page 0 of the system tablespace must agree, or the server
    /// starts a recovery even if there is nothing to recover.
    pub fn is_closed_at(&self, end: Lsn) -> Result<bool> {
        let path = self.path.with_file_name("ibdata1");
        let page0 = door::open_file(&path).and_then(|file| read_up_to(&file, 0, FIL_PAGE_FILE_FLUSH_LSN + 8));
        let page0 = page0.map_err(failed(&path, "reading the first page"))?;
        let flushed = be::u64_at(&page0, FIL_PAGE_FILE_FLUSH_LSN).map(Lsn);
        Ok(self.parsed.checkpoint.lsn == end && flushed == Some(end))
    }

    /// Fails if a needed block is damaged or missing.
    pub(super) fn check_blocks(&self, segments: &[Segment], mut verifier: BlockVerifier) -> Result<()> {
        let name = self.path.display().to_string();
        for segment in segments {
            let stretch = segment.offset..segment.offset + segment.len;
            verify_stretch(&self.file, &self.path, stretch, &mut verifier, &name)?;
        }
        verify_end(verifier, self.parsed.checkpoint.lsn, &name)
    }

    /// The last block of a log closed at `end`.
    pub(super) fn closing_block(&self, end: Lsn) -> Result<Vec<u8>> {
        let capacity = self.parsed.size - self.parsed.payload_start();
        let checkpoint = self.parsed.checkpoint.lsn.0;
        if end.0 - end.0 % BLOCK + BLOCK - (checkpoint - checkpoint % BLOCK) > capacity {
            return refused("the redo log is full, and has no room for the block that closes it");
        }
        let block =
            self.read_block(end)?.and_then(|(_, found)| last_block(&found, end, &self.header, self.key.as_ref()));
        block.map_or_else(|| refused("the redo log cannot be closed"), |block| Ok(block.to_vec()))
    }

    /// The first bytes of a log that starts with the block of `end` and ends in it.
    pub(super) fn restarted_block(&self, end: Lsn, renewed: Option<&LogKey>) -> Result<Option<Vec<u8>>> {
        let keys = self.key.as_ref().zip(renewed);
        Ok(self.read_block(end)?.and_then(|(_, found)| restarted_blocks(&self.header, &found, end, keys)))
    }

    /// The writes that close the log at `end`.
    pub(super) fn writes_of_blocks(&self, end: Lsn, closing: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
        let Some((slot, slot_at)) = clean_slot(&self.header, &self.parsed, end) else {
            return refused("the redo log has no place for a checkpoint");
        };
        // Last block first: wherever this is interrupted, the log is complete up to its end, and its mini-transactions end there.
        let behind = self.blocks_behind(end)?.into_iter().rev().map(|offset| (offset, vec![0; LOG_BLOCK_SIZE]));
        let last = self.read_block(end)?.filter(|(_, found)| found != closing);
        let last = last.map(|(offset, _)| (offset, closing.to_vec()));
        Ok(behind.chain(last).chain([(slot_at as u64, slot.to_vec())]).collect())
    }

    /// Offsets of the blocks after the one in which the log ends. They hold the start of a mini-transaction that was never completed.
    fn blocks_behind(&self, end: Lsn) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        let mut lsn = end;
        loop {
            lsn = Lsn(lsn.0.saturating_add(BLOCK));
            match self.read_block(lsn)? {
                Some((offset, found)) if self.is_of_log(&found, lsn) => offsets.push(offset),
                _ => return Ok(offsets),
            }
        }
    }

    fn is_of_log(&self, found: &[u8; LOG_BLOCK_SIZE], lsn: Lsn) -> bool {
        let plain = plain_block(found, lsn, self.key.as_ref());
        plain.is_some_and(|plain| LogBlock::parse(&plain, lsn).is_some())
    }

    /// The block that contains an LSN, as stored (encrypted if the log is), and its file offset.
    fn read_block(&self, lsn: Lsn) -> Result<Option<(u64, [u8; LOG_BLOCK_SIZE])>> {
        let Some(offset) = MtrReader::place(&self.parsed, lsn) else { return Ok(None) };
        let bytes = read_up_to(&self.file, offset, LOG_BLOCK_SIZE);
        let bytes = bytes.map_err(failed(&self.path, "reading the redo log"))?;
        Ok(bytes.first_chunk().map(|block| (offset, *block)))
    }
}
