//! Verifies an archive: frames and checksums of all mini-transactions, end records, and whether each segment continues the previous one.

use std::path::{Path, PathBuf};

use datadir::Outcome;
use redo::segment::EndRecord;

use super::error::{Result, failed, refused};
use super::gap::noted;
use super::marks::{Mark, first_and_last_mark};
use super::mysql::{BlockRange, StoredBlocks, is_of_blocks};
use super::name::{SegmentName, list};
use super::status::Unlogged;
use super::stored::Stored;
use crate::door;
use datadir::fault;
use datadir::server::BinlogPosition;

/// A stretch of the log without a gap.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ArchivedRange {
    /// From 1. The same LSN has other content in another timeline.
    pub timeline: u32,
    /// The first LSN, where a mini-transaction starts.
    pub start_lsn: u64,
    /// The LSN after the last mini-transaction.
    pub end_lsn: u64,
    /// Number of segments.
    pub segments: u64,
    /// Why it does not continue the previous range; `None` for the first.
    pub gap: Option<String>,
}

/// Where the archive was at a time.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ArchiveMark {
    /// Microseconds since 1970.
    pub at_us: u64,
    /// From 1. The same LSN has other content in another timeline.
    pub timeline: u32,
    /// The archive's end at that time.
    pub lsn: u64,
    /// Everything that the log held by this time, in microseconds since 1970, is before `lsn`. `None` if that is not known.
    pub complete_us: Option<u64>,
    /// The binary log position, if the server was asked: everything committed before `lsn` is in the binary log before it.
    pub binlog: Option<BinlogPosition>,
}

impl ArchiveMark {
    fn of(mark: Mark) -> Self {
        Self {
            at_us: mark.micros,
            timeline: mark.timeline,
            lsn: mark.lsn.0,
            complete_us: mark.complete,
            binlog: mark.binlog,
        }
    }
}

/// What an archive holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ArchiveReport {
    /// Segments read.
    pub segments: u64,
    /// Bytes of log.
    pub bytes: u64,
    /// Mini-transactions.
    pub mtrs: u64,
    /// The stretches without a gap, oldest first.
    pub ranges: Vec<ArchivedRange>,
    /// The first mark that is kept: no earlier time leads to an LSN.
    pub first_mark: Option<ArchiveMark>,
    /// The last mark.
    pub last_mark: Option<ArchiveMark>,
    /// Indexes that MySQL built without redo: no base copy from before one can be recovered past it.
    pub unlogged: Vec<Unlogged>,
    /// Damage: one sentence each.
    pub damage: Vec<String>,
}

impl ArchiveReport {
    /// 0 if the archive is one sound stretch, 1 if it has gaps or damage.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        Outcome::of(!self.damage.is_empty() || self.ranges.len() > 1, false).exit_status()
    }
}

/// Verifies an archive, which an archiver may be writing to.
///
/// # Errors
/// [`ArchiveError`](super::ArchiveError) if there is no archive, or it cannot be read.
pub fn verify_archive(dir: &Path) -> Result<ArchiveReport> {
    let marks = first_and_last_mark(dir);
    let names = list(dir)?;
    let Some(newest) = names.last().copied() else {
        return refused(format!("{}: no redo archive: it holds no file redo.<LSN>", dir.display()));
    };
    let mut report = ArchiveReport::default();
    let mut blocks = None;
    for name in names {
        let added = match is_of_blocks(dir, name)? {
            true => {
                let add = |stored| report.add_blocks(dir, &stored, name == newest, &mut blocks);
                StoredBlocks::read(dir, name).and_then(add)
            }
            false => Stored::read(dir, name).and_then(|stored| report.add(dir, &stored, name == newest)),
        };
        match added {
            Ok(()) => {}
            Err(super::ArchiveError::Refused(why)) => report.damage.push(why),
            Err(error) => return Err(error),
        }
    }
    match marks {
        Ok(None) => {}
        Ok(Some((first, last))) => {
            report.damage.extend(report.lost_end(&newest.path(dir), &last));
            (report.first_mark, report.last_mark) = (Some(ArchiveMark::of(first)), Some(ArchiveMark::of(last)));
        }
        Err(super::ArchiveError::Refused(why)) => report.damage.push(why),
        Err(error) => return Err(error),
    }
    fault::refuse_unread()?;
    Ok(report)
}

impl ArchiveReport {
    /// Compares the end of the archive with its last mark. The newest segment has no end record that could show a loss.
    fn lost_end(&self, newest: &Path, mark: &Mark) -> Option<String> {
        let ends = self.ranges.iter().filter(|range| range.timeline == mark.timeline).map(|range| range.end_lsn);
        let end = ends.max().unwrap_or(0);
        (end < mark.lsn.0).then(|| {
            format!(
                "{}: the archive had reached LSN {}, but now ends at LSN {end}: this segment is damaged there, or later ones are missing",
                newest.display(),
                mark.lsn
            )
        })
    }

    fn add(&mut self, dir: &Path, stored: &Stored, is_newest: bool) -> Result<()> {
        self.segments += 1;
        self.mtrs += stored.mtrs;
        self.bytes += stored.end().0 - stored.name.start.0;
        self.damage.extend(wrong_end(dir, stored.name, stored.end_record(), is_newest)?);
        let SegmentName { timeline, start } = stored.name;
        let (start_lsn, end_lsn) = (start.0, stored.end().0);
        if let Some(range) = self.ranges.last_mut().filter(|range| range.timeline == timeline) {
            if range.end_lsn > start_lsn {
                let path = stored.path.display();
                self.damage.push(format!("{path}: the segment before reaches LSN {}, beyond its start", range.end_lsn));
            }
            if range.end_lsn >= start_lsn {
                (range.end_lsn, range.segments) = (end_lsn.max(range.end_lsn), range.segments + 1);
                return Ok(());
            }
        }
        self.begin_range(dir, stored.name, end_lsn);
        Ok(())
    }

    /// Adds a segment of MySQL's log. `range` is the stretch of the previous segment, as far as it is read.
    fn add_blocks(
        &mut self,
        dir: &Path,
        stored: &StoredBlocks,
        is_newest: bool,
        range: &mut Option<BlockRange>,
    ) -> Result<()> {
        self.segments += 1;
        self.bytes += stored.end().0 - stored.name.start.0;
        self.damage.extend(wrong_end(dir, stored.name, stored.end_record(), is_newest)?);
        let before = range.take();
        if let Some(before) = before.as_ref().filter(|before| before.overlaps(stored.name)) {
            let path = stored.path.display();
            self.damage.push(format!("{path}: the segment before reaches LSN {}, beyond its start", before.end()));
        }
        let goes_on = before.filter(|before| before.is_followed_by(stored.name));
        if goes_on.is_none() {
            self.begin_range(dir, stored.name, stored.name.start.0);
        } else if let Some(known) = self.ranges.last_mut() {
            known.segments += 1;
        }
        let mut now = goes_on.unwrap_or_else(|| BlockRange::new(stored.name));
        self.damage.extend(now.add(stored));
        self.mtrs += std::mem::take(&mut now.mtrs);
        self.unlogged.append(&mut now.unlogged);
        if let Some(known) = self.ranges.last_mut() {
            known.end_lsn = now.end().0;
        }
        *range = Some(now);
        Ok(())
    }

    fn begin_range(&mut self, dir: &Path, name: SegmentName, end_lsn: u64) {
        let start_lsn = name.start.0;
        let gap = self.ranges.last().map(|before| {
            noted(dir, name).unwrap_or_else(|| {
                format!(
                    "the archive ends at LSN {} and begins again at LSN {start_lsn}: segments in between are missing",
                    before.end_lsn
                )
            })
        });
        self.ranges.push(ArchivedRange { timeline: name.timeline, start_lsn, end_lsn, segments: 1, gap });
    }
}

/// What is wrong with a segment by itself, if anything.
fn wrong_end(dir: &Path, name: SegmentName, found: EndRecord, is_newest: bool) -> Result<Option<String>> {
    let end: PathBuf = name.end_path(dir);
    Ok(match door::read_file(&end) {
        Ok(bytes) => match EndRecord::parse(&bytes) {
            Some(record) if record == found => None,
            Some(record) => Some(format!(
                "{}: closed at LSN {} after {} mini-transactions, but only those up to LSN {} can be read: the file was changed",
                name.path(dir).display(),
                record.end,
                record.mtrs,
                found.end
            )),
            None => Some(format!("{}: the end record is damaged", end.display())),
        },
        Err(error) if fault::is_environment(&error) => return Err(failed(&end, "reading the end record")(error)),
        // An archiver that is running, or was killed, leaves the newest segment without one.
        Err(_) if is_newest => None,
        Err(_) => Some(format!("{}: the end record is missing, although a later segment exists", end.display())),
    })
}
