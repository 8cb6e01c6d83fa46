//! A redo archive in place of the log that came with a base copy: its segments, read as one log.
//!
//! The base's own log says where its redo begins and ends. It also proves that the archive is of the same server: both hold the same bytes
//! from the checkpoint on. The archive continues from there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flow::FileId;
use format::Lsn;
use redo::follow::Walk;
use redo::mariadb::{Format, LogFile, START_OFFSET, key_information};
use redo::segment::SegmentHeader;

use super::hole::Hole;
use crate::archive::{ArchiveError, History, SegmentName, Stored, closed_at, last_marks, segments};
use crate::door;
use crate::recover::error::{Result, damaged, failed, refused};
use datadir::reading::read_up_to;

/// Bytes of both logs that are compared.
pub(in super::super) const COMPARED: usize = 64 << 10;

/// The least size of the log that replaces the base's. A backup's copy of the log may be so short that the closing records do not fit.
const LOG_SIZE_MIN: u64 = 4 << 20;

/// The log that came with a base copy.
pub(in super::super) struct BaseLog<'b> {
    pub parsed: &'b LogFile,
    /// The first bytes of its file.
    pub header: &'b [u8],
    /// Bytes from its checkpoint on: the first [`COMPARED`], or as many as there are.
    pub start: Vec<u8>,
    /// Where it ends.
    pub end: Lsn,
}

/// The segments that recovery reads.
#[derive(Debug)]
pub(in super::super) struct Archived {
    dir: PathBuf,
    segments: Vec<Segment>,
    /// Where the base's own log ends. The base's files are as of that LSN.
    pub base_end: Lsn,
    /// The size of the log that replaces the base's own.
    pub own_size: u64,
    /// Why the segments end although the archive goes on.
    hole: Option<Hole>,
    /// What the archive knows of definitions after the base copy, if it knows all of it.
    pub definitions: Option<History>,
}

#[derive(Debug, Clone)]
struct Segment {
    name: SegmentName,
    end: Lsn,
    /// `None` if its header cannot be read.
    crypt: Option<Crypt>,
}

/// Whether and how a log is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Crypt {
    format: Format,
    /// The key information in its header.
    key: Vec<u8>,
}

pub(super) fn unreadable<T>(error: ArchiveError) -> Result<T> {
    match error {
        ArchiveError::Job(error) => Err(error.into()),
        other => damaged(other.to_string()),
    }
}

impl Archived {
    /// Finds the segments from the base's checkpoint on, of one `timeline` if that is given.
    pub fn find(dir: &Path, base: &BaseLog<'_>, timeline: Option<u32>) -> Result<Self> {
        let checkpoint = base.parsed.checkpoint.lsn;
        let crypt = Crypt { format: base.parsed.format, key: key_information(base.header).to_vec() };
        let marks = last_marks(dir).or_else(unreadable)?;
        let (own_size, dir_name) = (base.parsed.size.max(LOG_SIZE_MIN), dir.display());
        let (mut is_covered, mut with_other_key) = (false, None);
        let mut behind: Option<Segment> = None;
        // The newest first: only one of them can continue this base.
        for stretch in stretches(dir, checkpoint, timeline, &marks)?.into_iter().rev() {
            let (Some(first), Some(last)) = (stretch.first().cloned(), stretch.last().cloned()) else { continue };
            let next = behind.replace(first.clone()).filter(|next| next.name.timeline == last.name.timeline);
            if !(first.name.start <= checkpoint && checkpoint < last.end) {
                continue;
            }
            if first.crypt.as_ref().is_some_and(|first| *first != crypt) {
                with_other_key = Some(first.name);
                continue;
            }
            is_covered = true;
            let hole = last.hole_behind(dir, next, marks.get(&last.name.timeline).copied());
            let definitions = History::read(dir, first.name.timeline).or_else(unreadable)?;
            let definitions = definitions.filter(|definitions| definitions.covers(base.end));
            let found =
                Self { dir: dir.to_path_buf(), segments: stretch, base_end: base.end, own_size, hole, definitions };
            if found.continues(base)? {
                return Ok(found);
            }
        }
        if is_covered {
            return refused(format!(
                "{dir_name}: the archive has other changes after LSN {checkpoint} than the base copy's own log: it is of another server, \
                 or of another timeline"
            ));
        }
        if let Some(name) = with_other_key {
            return refused(format!(
                "{}: the key of the log has changed since the base copy: take a base copy from after that",
                name.path(dir).display()
            ));
        }
        refused(format!(
            "{dir_name}: no segment holds LSN {checkpoint}, where the redo of the base copy begins: innokit redo verify shows what there is"
        ))
    }

    /// Whether the archive holds the same bytes as the base's own log.
    fn continues(&self, base: &BaseLog<'_>) -> Result<bool> {
        let Some(first) = self.segments.first() else { return Ok(false) };
        let checkpoint = base.parsed.checkpoint.lsn;
        let stored = Stored::read(&self.dir, first.name).or_else(unreadable)?;
        if stored.end() < first.end {
            return self.is_damaged(first, stored.end());
        }
        let walk = Walk::over(base.parsed, checkpoint, &base.start);
        let (len, _) = walk.up_to(self.base_end.min(stored.end()));
        let mut own = base.start.get(..len).unwrap_or_default().to_vec();
        walk.straighten(&mut own, len);
        Ok(len > 0 && stored.payload(checkpoint, len) == own)
    }

    /// The archive, and why its segments end although it goes on.
    pub fn hole(&self) -> (&Path, Option<Hole>) {
        (&self.dir, self.hole)
    }

    /// The segments as one straight log (no ring), with the base's checkpoint.
    pub fn as_log(&self, base: &LogFile) -> LogFile {
        let first = self.segments.first().map_or(base.checkpoint.lsn, |segment| segment.name.start);
        let mut log = LogFile::straight(base.format, first);
        log.checkpoint = base.checkpoint;
        log
    }

    /// Paths and sizes of the segments, in log order.
    pub fn files(&self) -> Result<Vec<(PathBuf, u64)>> {
        let paths = self.segments.iter().map(|segment| segment.name.path(&self.dir));
        let len = |path: PathBuf| {
            let len = std::fs::metadata(&path).map_err(failed(&path, "looking at the segment"))?.len();
            Ok((path, len))
        };
        paths.map(len).collect()
    }

    /// The segments' payload from `checkpoint` on, as file ranges.
    pub fn stretches(&self, checkpoint: Lsn) -> Vec<(FileId, Range<u64>)> {
        let place = |segment: &Segment, lsn: Lsn| START_OFFSET as u64 + (lsn.0 - segment.name.start.0);
        let range = |segment: &Segment| place(segment, checkpoint.max(segment.name.start))..place(segment, segment.end);
        let stretches = (0..).map(FileId).zip(self.segments.iter().map(range));
        stretches.filter(|(_, range)| !range.is_empty()).collect()
    }

    /// Fails if the segments continue after `end`, where the mini-transactions ended.
    pub fn check_end(&self, end: Lsn) -> Result<()> {
        match self.segments.iter().find(|segment| segment.end > end) {
            Some(segment) => self.is_damaged(segment, end),
            None => Ok(()),
        }
    }

    fn is_damaged<T>(&self, segment: &Segment, at: Lsn) -> Result<T> {
        damaged(format!(
            "{}: the archive is damaged at LSN {at}: innokit redo verify shows what is left. To recover up to there, move this segment and \
             later ones away",
            segment.name.path(&self.dir).display()
        ))
    }
}

/// Runs of segments that continue each other, oldest first. Leaves out segments that end before the checkpoint.
fn stretches(
    dir: &Path,
    checkpoint: Lsn,
    timeline: Option<u32>,
    marks: &BTreeMap<u32, Lsn>,
) -> Result<Vec<Vec<Segment>>> {
    let mut names = segments(dir).or_else(unreadable)?;
    names.retain(|name| timeline.is_none_or(|timeline| timeline == name.timeline));
    let mut stretches: Vec<Vec<Segment>> = Vec::new();
    let mut later = names.iter().skip(1);
    for &name in &names {
        let is_newest = later.next().is_none_or(|later| later.timeline != name.timeline);
        let end = match closed_at(dir, name) {
            Some(end) => end,
            None => {
                let read = Stored::read(dir, name).or_else(unreadable)?.end();
                // The newest segment was whole up to the last mark. If it ends before the mark, it is damaged there, and recovery will say so.
                marks.get(&name.timeline).filter(|_| is_newest).map_or(read, |mark| read.max(*mark))
            }
        };
        if end <= checkpoint {
            continue;
        }
        let segment = Segment { name, end, crypt: Crypt::of(dir, name) };
        match stretches.last_mut() {
            Some(stretch) if stretch.last().is_some_and(|last| last.is_followed_by(&segment)) => stretch.push(segment),
            _ => stretches.push(vec![segment]),
        }
    }
    Ok(stretches)
}

impl Crypt {
    fn of(dir: &Path, name: SegmentName) -> Option<Self> {
        let file = door::open_file(name.path(dir)).ok()?;
        let header = read_up_to(&file, 0, START_OFFSET).ok()?;
        let parsed = SegmentHeader::parse(&header).ok().filter(|parsed| parsed.start == name.start)?;
        Some(Self { format: parsed.format, key: key_information(&header).to_vec() })
    }
}

impl Segment {
    /// Whether the two can be read as one log. A log has one key.
    fn is_followed_by(&self, next: &Self) -> bool {
        let meets = (self.name.timeline, self.end) == (next.name.timeline, next.name.start);
        meets && self.crypt.is_some() && self.crypt == next.crypt
    }

    /// Why nothing can be read after this segment although the archive goes on. `next` is the next segment of its timeline, `reached` the
    /// timeline's last mark.
    fn hole_behind(&self, dir: &Path, next: Option<Self>, reached: Option<Lsn>) -> Option<Hole> {
        if let Some(Self { name, crypt: Some(theirs), .. }) = &next
            && let Some(ours) = self.crypt.as_ref().filter(|_| name.start == self.end)
        {
            return Some(if ours.format == theirs.format { Hole::OtherKey(*name) } else { Hole::OtherFormat(*name) });
        }
        Hole::behind(dir, self.end, next.map(|next| next.name), reached)
    }
}
