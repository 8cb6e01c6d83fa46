//! A segment in the archive, read from its start, one mini-transaction after another.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::checksum::crc32c;
use redo::follow::Walk;
use redo::mariadb::{START_OFFSET, key_information};
use redo::segment::{EndRecord, SegmentHeader};

use super::error::{Result, failed, refused};
use super::name::SegmentName;
use crate::door;

/// A larger file is refused, because segments are read whole.
const SEGMENT_MAX: u64 = 1 << 30;

/// The LSN at which a segment was closed, if it was.
pub(crate) fn closed_at(dir: &Path, name: SegmentName) -> Option<Lsn> {
    EndRecord::parse(&door::read_file(name.end_path(dir)).ok()?).map(|record| record.end)
}

/// Reads a segment of either server, and its header. `place` gives the LSN and timeline in the header, which must be those of `name`.
pub(super) fn read_segment<H, E: Display>(
    path: &Path,
    name: SegmentName,
    parse: impl FnOnce(&[u8]) -> std::result::Result<H, E>,
    place: impl FnOnce(&H) -> (Lsn, u32),
) -> Result<(Vec<u8>, H)> {
    let shown = path.display();
    let len = fs::metadata(path).map_err(failed(path, "looking at the segment"))?.len();
    if len > SEGMENT_MAX {
        return refused(format!("{shown}: {len} bytes are more than any segment has: remove this file"));
    }
    let bytes = door::read_file(path).map_err(failed(path, "reading the segment"))?;
    let header = parse(&bytes).or_else(|error| refused(format!("{shown}: no segment of a redo archive: {error}")))?;
    let (start, timeline) = place(&header);
    if (start, timeline) != (name.start, name.timeline) {
        return refused(format!(
            "{shown}: its header is that of timeline {timeline}, LSN {start}: give the file its name back"
        ));
    }
    Ok((bytes, header))
}

/// A segment, read whole.
#[derive(Debug)]
pub(crate) struct Stored {
    pub name: SegmentName,
    pub path: PathBuf,
    pub header: SegmentHeader,
    /// The whole file.
    bytes: Vec<u8>,
    walk: Walk,
    pub mtrs: u64,
}

impl Stored {
    pub fn read(dir: &Path, name: SegmentName) -> Result<Self> {
        let path = name.path(dir);
        let (bytes, header) =
            read_segment(&path, name, SegmentHeader::parse, |header| (header.start, header.timeline))?;
        let walk = Walk::over(&header.as_log(), header.start, bytes.get(START_OFFSET..).unwrap_or_default());
        let (_, mtrs) = walk.up_to(Lsn(u64::MAX));
        Ok(Self { name, path, header, bytes, walk, mtrs })
    }

    /// The LSN after the last mini-transaction.
    pub fn end(&self) -> Lsn {
        self.walk.end()
    }

    /// The bytes of the file that are in use, with the header.
    pub fn len(&self) -> u64 {
        START_OFFSET as u64 + (self.end().0 - self.header.start.0)
    }

    pub fn file_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The key description in the header.
    pub fn key(&self) -> &[u8] {
        key_information(&self.bytes)
    }

    /// The last bytes of the payload, at most `max` of them.
    pub fn tail(&self, max: u64) -> &[u8] {
        let end = usize::try_from(self.len()).unwrap_or(usize::MAX);
        let start = end.saturating_sub(usize::try_from(max).unwrap_or(usize::MAX)).max(START_OFFSET);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// `len` bytes of the payload from `lsn` on, or as many as there are.
    pub fn payload(&self, lsn: Lsn, len: usize) -> &[u8] {
        let start = lsn.0.checked_sub(self.header.start.0).and_then(|skip| usize::try_from(skip).ok());
        let from = start.and_then(|skip| self.bytes.get(START_OFFSET + skip..)).unwrap_or_default();
        from.get(..len).unwrap_or(from)
    }

    /// Gives bytes of a log the end markers of a segment. They must end where this segment does.
    pub fn straighten_tail(&self, bytes: &mut [u8]) {
        self.walk.straighten_from(self.end().0 - bytes.len() as u64, bytes);
    }

    /// The header, as stored in the file.
    pub fn header_bytes(&self) -> &[u8] {
        self.bytes.get(..START_OFFSET).unwrap_or_default()
    }

    /// The mini-transactions that end at or before `until`.
    pub fn payload_until(&self, until: Lsn) -> &[u8] {
        let (len, _) = self.walk.up_to(until);
        self.payload(self.name.start, len)
    }

    /// The end record that closes the segment.
    pub fn end_record(&self) -> EndRecord {
        let used = usize::try_from(self.len()).unwrap_or(usize::MAX);
        let crc = crc32c(self.bytes.get(..used).unwrap_or_default());
        let (start, timeline) = (self.header.start, self.header.timeline);
        EndRecord { start, end: self.end(), mtrs: self.mtrs, timeline, crc }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::archive::name::list;

    #[test]
    fn a_pipe_with_the_name_of_a_segment_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let name = SegmentName { start: Lsn(12_288), timeline: 1 };
        assert!(Command::new("mkfifo").arg(name.path(dir.path())).status().expect("mkfifo runs").success());
        assert_eq!(list(dir.path()).expect("a list").len(), 1);
        let refused = Stored::read(dir.path(), name).map(drop).expect_err("no segment").to_string();
        assert!(refused.contains("not a regular file"), "{refused}");
    }
}
