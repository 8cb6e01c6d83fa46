//! The segment of MySQL's blocks being written.
//!
//! Like [`crate::archive::writer`], with one difference: the last block is written again, with more in it, until it is full. A crash leaves
//! one version of it or the other, and both are sound: a block is a sector. MySQL relies on that for its own log.

use std::path::Path;

use flow::append::{Appender, ZeroedFile, write_whole};
use flow::durable::remove_file;
use format::Lsn;
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::LOG_FILE_HDR_SIZE;
use redo::mysql::segment::SegmentHeader;

use super::stored::StoredBlocks;
use crate::archive::error::{ArchiveError, Result, failed};
use crate::archive::name::SegmentName;

const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// A segment open for writing.
#[derive(Debug)]
pub(super) struct BlockWriter {
    name: SegmentName,
    appender: Appender<ZeroedFile>,
    len: u64,
    /// The partly filled block behind the full ones.
    last: Option<[u8; LOG_BLOCK_SIZE]>,
}

impl BlockWriter {
    /// Creates a segment of `len` bytes that starts at `name.start`; `log` is the header of a file of the server's log.
    pub fn create(dir: &Path, name: SegmentName, log: &[u8], checkpoint: Option<Lsn>, len: u64) -> Result<Self> {
        let path = name.path(dir);
        let Some(header) = SegmentHeader::build(name.start, name.timeline, checkpoint, log) else {
            return Err(ArchiveError::Refused(format!("{}: the log's header has an unknown format", path.display())));
        };
        // Whole blocks, so that a full segment ends where the next one starts.
        let len = len - len % BLOCK;
        let made = ZeroedFile::create(&path, &header, len)
            .and_then(|file| Appender::open(file, LOG_FILE_HDR_SIZE as u64, len));
        let appender = made.map_err(failed(&path, "making the segment"))?;
        Ok(Self { name, appender, len, last: None })
    }

    /// Continues in the newest segment, after its last full block. Clears what is behind its last block.
    pub fn resume(stored: &StoredBlocks) -> Result<Self> {
        let (full, last) = stored.len();
        let opened = ZeroedFile::open(&stored.path)
            .and_then(|file| Appender::open_before(file, full, last, stored.file_len()))
            .map_err(failed(&stored.path, "opening the segment"))?;
        Ok(Self { name: stored.name, appender: opened, len: stored.file_len(), last: stored.last_block() })
    }

    pub const fn name(&self) -> SegmentName {
        self.name
    }

    /// The LSN of the next block to write, or of the partly filled one, which is written again.
    pub const fn next(&self) -> Lsn {
        Lsn(self.name.start.0 + (self.appender.at() - LOG_FILE_HDR_SIZE as u64))
    }

    /// The partly filled block at that LSN, if there is one.
    pub const fn last(&self) -> Option<&[u8; LOG_BLOCK_SIZE]> {
        self.last.as_ref()
    }

    /// Bytes of blocks that still fit.
    pub const fn room(&self) -> u64 {
        self.len.saturating_sub(self.appender.at())
    }

    /// Appends full blocks and a partly filled one, durably.
    pub fn append(&mut self, dir: &Path, full: &[u8], last: Option<[u8; LOG_BLOCK_SIZE]>) -> Result<()> {
        let rest = last.as_ref().map(<[u8; LOG_BLOCK_SIZE]>::as_slice).unwrap_or_default();
        let appended = self.appender.append_with_rest(full, rest);
        appended.map_err(failed(&self.name.path(dir), "writing the segment"))?;
        self.last = last;
        Ok(())
    }

    /// Closes the segment: nothing is written to it any more. Removes it if it is empty.
    pub fn close(&self, dir: &Path) -> Result<()> {
        let path = self.name.path(dir);
        let used = self.appender.at() + if self.last.is_some() { BLOCK } else { 0 };
        if used == LOG_FILE_HDR_SIZE as u64 {
            return remove_file(&path).map_err(failed(&path, "removing the empty segment"));
        }
        self.appender.storage().truncate(used).map_err(failed(&path, "closing the segment"))?;
        let stored = StoredBlocks::read(dir, self.name)?;
        let (full, last) = stored.len();
        if full + last != used || stored.last_block() != self.last {
            return Err(ArchiveError::Refused(format!(
                "{}: what was written up to LSN {} can be read only up to LSN {}: check this disk, and take a new base copy",
                path.display(),
                self.next(),
                stored.end()
            )));
        }
        let end = self.name.end_path(dir);
        write_whole(&end, &stored.end_record().encode()).map_err(failed(&end, "closing the segment"))
    }
}
