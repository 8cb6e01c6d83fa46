//! A redo archive in place of the log that came with a base copy of MySQL: its segments are a log like any other, except that they do not
//! have the base's checkpoint.
//!
//! The archive is of the same server if its files have the same log UUID as the base's and both logs have the same blocks.

use std::io;
use std::path::{Path, PathBuf};

use format::Lsn;
use redo::block::{LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_start};
use redo::mysql::follow::{agree, is_full_block};
use redo::mysql::{LOG_FILE_HDR_SIZE, LogFile};

use super::archived::unreadable;
use super::hole::Hole;
use crate::archive::{SegmentName, StoredBlocks, closed_at, last_marks, segments};
use crate::door;
use crate::recover::error::{Result, damaged, failed, refused};
use datadir::mysql_log::MySqlLog;
use datadir::reading::read_up_to;

/// Blocks of both logs that are compared.
const COMPARED: usize = 128;
const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// How far an archive must go.
#[derive(Debug)]
pub(in super::super) struct ArchivedEnd {
    dir: PathBuf,
    /// The archive was whole up to this LSN when it was last marked.
    reached: Lsn,
    /// Where the base's own log ends. The base's files are as of that LSN.
    pub base_end: Lsn,
    /// Why the segments end although the archive goes on.
    hole: Option<Hole>,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    name: SegmentName,
    /// The LSN in its end record; without one, the LSN that its blocks reach, which may be within a block.
    end: Lsn,
    is_closed: bool,
}

/// Finds the segments from the checkpoint of the base's `own` log on, only those of `timeline` if one is given. Returns them as a log to be
/// read from that checkpoint on.
pub(super) fn find(
    dir: &Path,
    own: &MySqlLog,
    base_end: Lsn,
    timeline: Option<u32>,
) -> Result<(MySqlLog, ArchivedEnd)> {
    let checkpoint = own.checkpoint_lsn();
    let marks = last_marks(dir).or_else(unreadable)?;
    let (mut is_covered, dir_name) = (false, dir.display());
    let mut behind: Option<Segment> = None;
    // The newest first: only one of them can continue this base.
    for mut stretch in stretches(dir, timeline)?.into_iter().rev() {
        let (Some(&first), Some(&last)) = (stretch.first(), stretch.last()) else { continue };
        let next = behind.replace(first).map(|next| next.name).filter(|next| next.timeline == last.name.timeline);
        if first.name.start > block_start(checkpoint) || last.end < needed_to(checkpoint) {
            continue;
        }
        is_covered = true;
        let count = stretch.len();
        let mut number = 0;
        stretch.retain(|segment| {
            number += 1;
            segment.end > checkpoint || number == count
        });
        // An open segment was whole up to the last mark, unless a later one follows; behind a closed one, a segment is missing.
        let mark = marks.get(&last.name.timeline).copied();
        let reached = mark.filter(|_| !last.is_closed && next.is_none()).unwrap_or(Lsn(0));
        let hole = Hole::behind(dir, last.end_of_data(), next, mark.filter(|_| last.is_closed));
        let paths: Vec<PathBuf> = stretch.iter().map(|segment| segment.name.path(dir)).collect();
        stretch.iter().try_for_each(|segment| segment.is_whole(dir))?;
        let log = MySqlLog::of_segments(&paths, checkpoint)?;
        if continues(&log, own, base_end).map_err(failed(dir, "comparing the redo logs"))? {
            return Ok((log, ArchivedEnd { dir: dir.to_path_buf(), reached, base_end, hole }));
        }
    }
    if is_covered {
        return refused(format!(
            "{dir_name}: the archive has other changes after LSN {checkpoint} than the base copy's own log: it is of another server, \
             or of another timeline"
        ));
    }
    refused(format!(
        "{dir_name}: no segment holds LSN {checkpoint}, where the redo of the base copy begins: innokit redo verify shows what there is"
    ))
}

/// The LSN that blocks must reach for a log with this checkpoint. If a log ends with a full block, its end is after the header of the next
/// block, which does not exist. The same is true of a log without records.
pub(super) fn needed_to(checkpoint: Lsn) -> Lsn {
    let start = block_start(checkpoint);
    if checkpoint.0 == start.0 + LOG_BLOCK_HDR_SIZE as u64 { start } else { checkpoint }
}

/// Runs of segments that continue each other, oldest first.
fn stretches(dir: &Path, timeline: Option<u32>) -> Result<Vec<Vec<Segment>>> {
    let mut names = segments(dir).or_else(unreadable)?;
    names.retain(|name| timeline.is_none_or(|timeline| timeline == name.timeline));
    let mut stretches: Vec<Vec<Segment>> = Vec::new();
    for name in names {
        let segment = match closed_at(dir, name) {
            Some(end) => Segment { name, end, is_closed: true },
            None => {
                let end = StoredBlocks::read(dir, name).or_else(unreadable)?.end();
                Segment { name, end, is_closed: false }
            }
        };
        match stretches.last_mut() {
            Some(stretch) if stretch.last().is_some_and(|last| last.is_followed_by(name)) => stretch.push(segment),
            _ => stretches.push(vec![segment]),
        }
    }
    Ok(stretches)
}

/// Whether the archive holds the same blocks as the base's own log.
fn continues(archive: &MySqlLog, own: &MySqlLog, base_end: Lsn) -> io::Result<bool> {
    let uuid = |log: &MySqlLog| log.newest().map(|file| file.parsed.log_uuid);
    if uuid(own) != uuid(archive) {
        return Ok(false);
    }
    let read = |log: &MySqlLog| log.at_checkpoint(COMPARED * LOG_BLOCK_SIZE);
    let (base, archived) = (read(own)?, read(archive)?);
    let (base, archived) = (base.as_chunks::<LOG_BLOCK_SIZE>().0, archived.as_chunks::<LOG_BLOCK_SIZE>().0);
    let start = block_start(own.checkpoint_lsn()).0;
    let lsns = (0..).map(|number| start + number * BLOCK).take_while(|lsn| *lsn < base_end.0);
    let mut pairs = lsns.zip(base.iter().zip(archived));
    Ok(pairs.all(|(lsn, (one, other))| agree(one, other, Lsn(lsn)) != Some(false)))
}

impl ArchivedEnd {
    /// The archive, and why its segments end although it goes on.
    pub fn hole(&self) -> (&Path, Option<Hole>) {
        (&self.dir, self.hole)
    }

    /// Fails if the mini-transactions ended at `end`, before the last mark of the archive.
    pub fn check_end(&self, end: Lsn) -> Result<()> {
        if end >= self.reached {
            return Ok(());
        }
        is_damaged(&self.dir, end)
    }
}

fn is_damaged<T>(at_path: &Path, at: Lsn) -> Result<T> {
    damaged(format!(
        "{}: the archive is damaged at LSN {at}: innokit redo verify shows what is left. To recover up to there, move this segment and later \
         ones away",
        at_path.display()
    ))
}

impl Segment {
    /// The LSN at which a mini-transaction that ends with the segment ends: after a full block, that is behind the header of the next one.
    fn end_of_data(self) -> Lsn {
        self.end.max(Lsn(block_start(self.end).0 + LOG_BLOCK_HDR_SIZE as u64))
    }

    fn is_followed_by(&self, name: SegmentName) -> bool {
        self.is_closed && (self.name.timeline, self.end) == (name.timeline, name.start)
    }

    /// Fails if a closed segment has lost its end. Damage before the end needs no check here: the log's reader finds it, because sound
    /// blocks follow.
    fn is_whole(&self, dir: &Path) -> Result<()> {
        if !self.is_closed {
            return Ok(());
        }
        let path = self.name.path(dir);
        let io = |action| failed(&path, action);
        let file = door::open_file(&path).map_err(io("opening the segment"))?;
        let header = read_up_to(&file, 0, LOG_FILE_HDR_SIZE).map_err(io("reading the segment"))?;
        let size = file.metadata().map_err(io("looking at the segment"))?.len();
        let starts = LogFile::parse(&header, size).map(|parsed| parsed.start_lsn);
        let last = Lsn(block_start(Lsn(self.end.0 - 1)).0);
        let offset = LOG_FILE_HDR_SIZE as u64 + (last.0 - self.name.start.0);
        let block = read_up_to(&file, offset, LOG_BLOCK_SIZE).map_err(io("reading the segment"))?;
        let is_there = block.first_chunk().is_some_and(|block| {
            is_full_block(block, last) || (block_start(self.end) != self.end && size == offset + BLOCK)
        });
        if starts != Ok(self.name.start) || !is_there || size != offset + BLOCK {
            return is_damaged(&path, last);
        }
        Ok(())
    }
}
