//! One look at the live log: archives the new mini-transactions that are certain to stay.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use format::Lsn;
use format::checksum::crc32c;
use redo::follow::{WRITE_BLOCK_MAX, Walk};
use redo::mariadb::{Checkpoint, START_OFFSET};

use super::error::{ArchiveError, Result};
use super::gap::{Gap, note};
use super::live::LiveLog;
use super::name::SegmentName;
use super::status::{ArchiveStatus, Unlogged};
use super::writer::SegmentWriter;

/// Bytes per read: four times as many after each read that was cut off, the minimum again once the archive has caught up.
const READ_MIN: usize = 64 << 10;
const READ_MAX: usize = 4 << 20;
/// No mini-transaction is longer. A read of this size without a complete one is not cut off; it is wrong.
const MTR_MAX: usize = 2 << 20;

/// The result of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// More can be archived immediately.
    More,
    /// The rest is not written yet, or not yet certain.
    End,
    /// The log no longer holds what comes next. The archive starts over at the log's newest checkpoint.
    Gap,
}

/// Follows a log into an archive. The differences between the servers are behind this trait.
pub(super) trait Follow {
    /// Looks once. `flushed` is the durable LSN that the server reported before this look.
    fn look(&mut self, flushed: Option<Lsn>) -> Result<Look>;

    /// The end of the archive.
    fn at(&self) -> Lsn;

    /// The end of the log, as last seen.
    fn seen(&self) -> Option<Lsn>;

    /// Whether `seen` comes from the last look.
    fn has_seen_end(&self) -> bool {
        true
    }

    /// Whether everything the log holds before `target` is archived.
    fn has_reached(&self, target: Lsn) -> bool;

    /// Position, counts and lag of this run.
    fn status(&self) -> ArchiveStatus;

    /// The segment being written.
    fn segment(&self) -> SegmentName;

    /// Takes the indexes built without redo that were archived since the last call.
    fn take_unlogged(&mut self) -> Vec<Unlogged> {
        Vec::new()
    }
}

/// Follows a log of MariaDB into an archive.
#[derive(Debug)]
pub(super) struct Follower {
    pub dir: PathBuf,
    pub datadir: PathBuf,
    pub live: LiveLog,
    pub segment: SegmentWriter,
    /// Bytes of a new segment.
    pub segment_size: u64,
    /// Once the log's end has not changed for this long, the archive takes everything up to it.
    pub settle: Duration,
    pub read_size: usize,
    pub bytes: u64,
    pub mtrs: u64,
    pub gaps: u64,
    /// The end of the last walk that was not cut off.
    pub seen: Option<Lsn>,
    /// The last walk was cut off.
    pub was_cut: bool,
    pub rest: Option<Rest>,
    pub unproven: Option<Unproven>,
}

/// A log end that has stopped changing: since when, and a checksum of the bytes before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    since: Instant,
    end: Lsn,
    crc: u32,
}

/// The end of the archive, if it was taken because the log rested and nothing else proved it: these bytes, as they were in the log. A server
/// that hangs in the middle of a write rests too, and what it leaves at the end of its last block may be stale.
#[derive(Debug)]
pub(super) struct Unproven {
    from: Lsn,
    bytes: Vec<u8>,
}

impl Follow for Follower {
    fn at(&self) -> Lsn {
        self.segment.at()
    }

    fn seen(&self) -> Option<Lsn> {
        self.seen
    }

    fn has_seen_end(&self) -> bool {
        !self.was_cut
    }

    fn has_reached(&self, target: Lsn) -> bool {
        // The target comes from the first look and may be stale: the log can end before it.
        self.at() >= target.min(self.seen.unwrap_or(Lsn(u64::MAX)))
    }

    fn status(&self) -> ArchiveStatus {
        let at = self.at().0;
        // As of the last look.
        let end = self.live.parsed.checkpoint.end_lsn.max(self.seen.unwrap_or(Lsn(0)));
        ArchiveStatus {
            lsn: at,
            bytes: self.bytes,
            mtrs: self.mtrs,
            lag_bytes: end.0.saturating_sub(at),
            capacity: self.live.parsed.capacity(),
            gaps: self.gaps,
            timeline: self.segment.name().timeline,
        }
    }

    fn segment(&self) -> SegmentName {
        self.segment.name()
    }

    fn look(&mut self, flushed: Option<Lsn>) -> Result<Look> {
        if self.live.is_replaced() {
            return self.change_logs();
        }
        let before = self.live.refresh()?;
        let (from, fence) = (self.at(), before.end_lsn);
        if let Some(gap) = self.lost(before) {
            return self.start_over(&gap);
        }
        if !self.is_as_archived()? {
            return self.take_back();
        }
        let (walk, mut bytes) = self.walk()?;
        if walk.end() == from && before.lsn > from {
            // Everything before a checkpoint was durable when the checkpoint was written, so it cannot be half written.
            return self.start_over(&Gap::Overwritten { checkpoint: before.lsn });
        }
        self.was_cut = walk.is_cut();
        self.seen = (!walk.is_cut()).then_some(walk.end()).or(self.seen);
        let (proven, rested) = match flushed {
            Some(flushed) => (flushed, Lsn(0)),
            None => (walk.held_back(&self.live.parsed), self.rested(&walk, &bytes)),
        };
        let has_taken = self.take(&walk, &mut bytes, proven.max(fence), rested)?;
        Ok(if has_taken && walk.is_cut() { Look::More } else { Look::End })
    }
}

impl Follower {
    /// Reads the next mini-transactions. Retries with `MTR_MAX` bytes if the first read is cut off before a complete one.
    fn walk(&mut self) -> Result<(Walk, Vec<u8>)> {
        let mut len = self.read_size;
        loop {
            let bytes = self.live.read(self.at(), len)?;
            let walk = Walk::over(&self.live.parsed, self.at(), &bytes);
            if walk.end() > self.at() || !walk.is_cut() || len >= MTR_MAX || bytes.len() < len {
                self.read_size = if walk.is_cut() { (len * 4).min(READ_MAX) } else { READ_MIN };
                return Ok((walk, bytes));
            }
            len = MTR_MAX;
        }
    }

    /// Archives the mini-transactions that end at or before one of the fences. Returns whether it archived any. What is only before `rested`
    /// may be taken back.
    fn take(&mut self, walk: &Walk, bytes: &mut [u8], proven: Lsn, rested: Lsn) -> Result<bool> {
        let fence = proven.max(rested);
        let (certain, _) = walk.up_to(fence);
        if certain == 0 {
            return Ok(false);
        }
        let from = self.at();
        let again = self.live.read(from, certain)?;
        if Some(again.as_slice()) != bytes.get(..certain) {
            return Ok(false);
        }
        // A later lap may have overwritten what was read. The end markers need not show that: every second lap uses the same ones.
        let after = self.live.refresh()?;
        if self.lost(after).is_some() || !self.is_as_archived()? {
            return Ok(false);
        }
        let proven = walk.up_to(proven).0;
        // What may be taken back must be in one segment, with all that may still come behind it in its block.
        let is_first = (self.unproven.is_none() || proven > 0) && from > self.segment.name().start;
        let needed = certain as u64 + if proven < certain && is_first { WRITE_BLOCK_MAX } else { 0 };
        let (mut len, mut mtrs) = walk.up_to_within(fence, self.room());
        if len == 0 || (needed > certain as u64 && self.segment.room() < needed) {
            self.next_segment(needed)?;
            (len, mtrs) = walk.up_to_within(fence, self.room());
        }
        self.note_unproven(from, proven.min(len), bytes.get(..len).unwrap_or_default());
        walk.straighten(bytes, len);
        self.segment.append(&self.dir, bytes.get(..len).unwrap_or_default())?;
        self.mtrs += mtrs;
        self.bytes += len as u64;
        Ok(true)
    }

    fn room(&self) -> usize {
        usize::try_from(self.segment.room()).unwrap_or(usize::MAX)
    }

    /// Remembers which of the bytes about to be archived at `from` are not proven. The first `proven` are, and with them all before.
    fn note_unproven(&mut self, from: Lsn, proven: usize, bytes: &[u8]) {
        let added = bytes.get(proven..).unwrap_or_default();
        match &mut self.unproven {
            Some(unproven) if proven == 0 && unproven.from >= self.segment.name().start => {
                unproven.bytes.extend_from_slice(added);
            }
            unproven if added.is_empty() => *unproven = None,
            unproven => *unproven = Some(Unproven { from: Lsn(from.0 + proven as u64), bytes: added.to_vec() }),
        }
    }

    /// Whether the log still has what was archived without proof. A checkpoint that ended after it proves it.
    fn is_as_archived(&mut self) -> Result<bool> {
        let Some(unproven) = &self.unproven else { return Ok(true) };
        let is_same = self.live.read(unproven.from, unproven.bytes.len())? == unproven.bytes;
        if is_same && self.live.parsed.checkpoint.end_lsn >= self.at() {
            self.unproven = None;
        }
        Ok(is_same)
    }

    /// Removes what was archived without proof, since the server has written something else there.
    fn take_back(&mut self) -> Result<Look> {
        (self.rest, self.seen) = (None, None);
        if let Some(unproven) = self.unproven.take().filter(|unproven| unproven.from >= self.segment.name().start) {
            self.bytes = self.bytes.saturating_sub(unproven.bytes.len() as u64);
            self.segment.rewind(&self.dir, unproven.from)?;
        }
        Ok(Look::More)
    }

    /// The gap, if the next byte is overwritten, is about to be, or was never in this file.
    fn lost(&self, checkpoint: Checkpoint) -> Option<Gap> {
        let (from, log) = (self.at(), &self.live.parsed);
        if from < log.first_lsn {
            return Some(Gap::Replaced { first: log.first_lsn });
        }
        let behind = checkpoint.end_lsn.0.saturating_sub(from.0);
        let is_lost = behind > log.capacity().saturating_sub(WRITE_BLOCK_MAX);
        is_lost.then_some(Gap::Overwritten { checkpoint: checkpoint.lsn })
    }

    /// Like `lost`, with the checkpoint as last read.
    pub fn lost_now(&self) -> Option<Gap> {
        self.lost(self.live.parsed.checkpoint)
    }

    /// Returns the end of the walk once the log up to there, and the rest of its write block, has been the same for `settle`; LSN 0 until
    /// then. An idle server does not touch its last block, and it flushes what it has written within a second.
    fn rested(&mut self, walk: &Walk, bytes: &[u8]) -> Lsn {
        let end = walk.end();
        let in_block = self.live.parsed.offset_of(end).map_or(0, |offset| offset % WRITE_BLOCK_MAX);
        let len = (end.0 - self.at().0) + (WRITE_BLOCK_MAX - in_block);
        let seen = bytes.get(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or(bytes);
        let (crc, now) = (crc32c(seen), Instant::now());
        match self.rest {
            Some(rest) if (rest.end, rest.crc) == (end, crc) => {
                if now.duration_since(rest.since) >= self.settle {
                    end
                } else {
                    Lsn(0)
                }
            }
            _ => {
                self.rest = Some(Rest { since: now, end, crc });
                if self.settle.is_zero() { end } else { Lsn(0) }
            }
        }
    }

    /// The server has resized its log, or made a new one at startup. Archives from the old file what the new one does not hold.
    fn change_logs(&mut self) -> Result<Look> {
        let mut new = match LiveLog::open(&self.datadir) {
            Ok(new) => new,
            // The server is still creating it.
            Err(ArchiveError::Refused(_)) => return Ok(Look::End),
            Err(error) => return Err(error),
        };
        let checkpoint = new.refresh()?;
        while self.at() < new.parsed.first_lsn {
            let (walk, mut bytes) = self.walk()?;
            // Everything before the new file's checkpoint was durable before it had one.
            if !self.take(&walk, &mut bytes, checkpoint.lsn, Lsn(0))? {
                break;
            }
        }
        let has_other_key = new.key() != self.live.key() || new.parsed.format != self.live.parsed.format;
        self.live = new;
        (self.rest, self.unproven) = (None, None);
        if let Some(gap) = self.lost(checkpoint) {
            return self.start_over(&gap);
        }
        if let Some(gap) = super::history::compare(&self.dir, &self.live, self.at())? {
            return self.start_over(&gap);
        }
        if has_other_key {
            self.next_segment(0)?;
        }
        Ok(Look::More)
    }

    /// Closes the segment and continues in a new one with room for at least `len` bytes.
    fn next_segment(&mut self, len: u64) -> Result<()> {
        let name = SegmentName { start: self.at(), ..self.segment.name() };
        // Close first: a run killed in between continues after a closed segment.
        self.segment.close(&self.dir)?;
        self.segment = SegmentWriter::create(&self.dir, name, &self.live, None, segment_size(self.segment_size, len))?;
        Ok(())
    }

    /// Notes a gap and starts over at the log's newest checkpoint.
    pub fn start_over(&mut self, gap: &Gap) -> Result<Look> {
        let (segment, at) = (self.segment.name(), self.at());
        self.segment.close(&self.dir)?;
        self.segment = begin(&self.dir, &self.live, segment, Some((gap, at)), self.segment_size)?;
        (self.gaps, self.rest, self.seen, self.unproven) = (self.gaps + 1, None, None, None);
        Ok(Look::Gap)
    }
}

/// Creates a segment that starts at the log's newest checkpoint, after `last`. `gap` says why it does not continue `last`, and where that
/// ended.
pub(super) fn begin(
    dir: &Path,
    live: &LiveLog,
    last: SegmentName,
    gap: Option<(&Gap, Lsn)>,
    segment_size: u64,
) -> Result<SegmentWriter> {
    let checkpoint = live.parsed.checkpoint;
    let ended = gap.map_or(Lsn(0), |(_, at)| at);
    // LSNs that repeat belong to a new timeline, whatever the reason.
    let is_other = gap.is_some_and(|(gap, _)| matches!(gap, Gap::OtherHistory)) || checkpoint.lsn < ended;
    let timeline = last.timeline + u32::from(is_other);
    let name = SegmentName { timeline, start: checkpoint.lsn };
    if let Some((gap, at)) = gap {
        note(dir, name, gap, at)?;
    }
    SegmentWriter::create(dir, name, live, Some(checkpoint), segment_size)
}

/// The size of a segment with room for at least `len` bytes.
fn segment_size(size: u64, len: u64) -> u64 {
    size.max((START_OFFSET as u64 + len + 1).next_multiple_of(WRITE_BLOCK_MAX))
}
