//! The segment being written.
//!
//! A segment is created whole, as a header and zeros, filled by appends, and closed by an end record. A crash leaves at most one segment
//! without an end record, the newest, and the next run continues in it.

use std::path::Path;

use flow::append::{Appender, ZeroedFile, write_whole};
use flow::durable::remove_file;
use format::Lsn;
use redo::mariadb::{Checkpoint, START_OFFSET};
use redo::segment::SegmentHeader;

use super::error::{ArchiveError, Result, failed};
use super::live::LiveLog;
use super::name::SegmentName;
use super::stored::Stored;

/// The length of a closed segment is a multiple of this.
const BLOCK: u64 = 4096;

/// A segment open for writing.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    name: SegmentName,
    appender: Appender<ZeroedFile>,
    len: u64,
}

impl SegmentWriter {
    /// Creates a segment of `len` bytes that starts at `name.start`.
    pub fn create(
        dir: &Path,
        name: SegmentName,
        log: &LiveLog,
        checkpoint: Option<Checkpoint>,
        len: u64,
    ) -> Result<Self> {
        let path = name.path(dir);
        let header =
            SegmentHeader { start: name.start, timeline: name.timeline, checkpoint, format: log.parsed.format };
        let Some(bytes) = header.build(&log.header) else {
            return Err(ArchiveError::Refused(format!("{}: the log's header is too short", log.path().display())));
        };
        let made =
            ZeroedFile::create(&path, &bytes, len).and_then(|file| Appender::open(file, START_OFFSET as u64, len));
        let appender = made.map_err(failed(&path, "making the segment"))?;
        Ok(Self { name, appender, len })
    }

    /// Continues in the newest segment, after its last mini-transaction. Clears what is behind that.
    pub fn resume(stored: &Stored) -> Result<Self> {
        let opened = ZeroedFile::open(&stored.path)
            .and_then(|file| Appender::open(file, stored.len(), stored.file_len()))
            .map_err(failed(&stored.path, "opening the segment"))?;
        Ok(Self { name: stored.name, appender: opened, len: stored.file_len() })
    }

    pub const fn name(&self) -> SegmentName {
        self.name
    }

    /// The LSN that comes next.
    pub const fn at(&self) -> Lsn {
        Lsn(self.name.start.0 + (self.appender.at() - START_OFFSET as u64))
    }

    /// Bytes that still fit. A zero always follows the last one, so that a reader stops there.
    pub const fn room(&self) -> u64 {
        self.len.saturating_sub(self.appender.at() + 1)
    }

    /// Appends whole mini-transactions, durably.
    pub fn append(&mut self, dir: &Path, bytes: &[u8]) -> Result<()> {
        self.appender.append(bytes).map_err(failed(&self.name.path(dir), "writing the segment"))
    }

    /// Removes everything from this LSN on, durably.
    pub fn rewind(&mut self, dir: &Path, to: Lsn) -> Result<()> {
        let (path, at) = (self.name.path(dir), START_OFFSET as u64 + (to.0 - self.name.start.0));
        let opened = ZeroedFile::open(&path).and_then(|file| Appender::open(file, at, self.len));
        self.appender = opened.map_err(failed(&path, "removing the end of the segment"))?;
        Ok(())
    }

    /// Closes the segment: nothing is written to it any more. Removes it if it is empty.
    pub fn close(&self, dir: &Path) -> Result<()> {
        let path = self.name.path(dir);
        if self.at() == self.name.start {
            return remove_file(&path).map_err(failed(&path, "removing the empty segment"));
        }
        let cut = self.appender.storage().truncate((self.appender.at() + 1).next_multiple_of(BLOCK));
        cut.map_err(failed(&path, "closing the segment"))?;
        let stored = Stored::read(dir, self.name)?;
        if stored.end() != self.at() {
            return Err(ArchiveError::Refused(format!(
                "{}: what was written up to LSN {} can be read only up to LSN {}: check this disk, and take a new base copy",
                path.display(),
                self.at(),
                stored.end()
            )));
        }
        let end = self.name.end_path(dir);
        write_whole(&end, &stored.end_record().encode()).map_err(failed(&end, "closing the segment"))
    }
}
