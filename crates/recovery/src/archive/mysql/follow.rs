//! One look at MySQL's live log: archives the new mini-transactions that are certain to stay.
//!
//! A server that recovers drops the incomplete mini-transaction at the end of its log and writes something else there. So only whole ones
//! are archived: the last block is cut off behind one, and written again later.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use format::Lsn;
use redo::block::{LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_start};
use redo::mysql::copy::cut;
use redo::mysql::follow::{SoundBlocks, continues, ends_within_block};

use super::disabled;
use super::groups::Groups;
use super::history;
use super::live::{Headers, LiveBlocks};
use super::stored::StoredBlocks;
use super::writer::BlockWriter;
use crate::archive::error::{Result, refused};
use crate::archive::follow::{Follow, Look};
use crate::archive::gap::{Gap, note};
use crate::archive::name::SegmentName;
use crate::archive::status::{ArchiveStatus, Unlogged};
use crate::unlogged::{Load, Once};

/// Bytes per read: four times as many while the archive is behind, the minimum again once it has caught up.
const READ_MIN: usize = 16 << 10;
const READ_MAX: usize = 4 << 20;
/// A block that the server reports as flushed must be found within this time.
const FOUND_WITHIN: Duration = Duration::from_secs(10);

/// Follows a log of MySQL into an archive.
#[derive(Debug)]
pub(super) struct BlockFollower {
    pub dir: PathBuf,
    pub live: LiveBlocks,
    pub headers: Headers,
    pub segment: BlockWriter,
    pub groups: Groups,
    /// Full blocks that are read but not archived yet, from the segment's next block on.
    pub pending: Vec<u8>,
    /// Bytes of a new segment.
    pub segment_size: u64,
    /// A partly filled block is archived once it has not changed for this long.
    pub settle: Duration,
    pub read_size: usize,
    pub status: ArchiveStatus,
    /// The log is known to reach this LSN.
    pub read_to: Lsn,
    pub seen: Option<Lsn>,
    /// The partly filled block at the end, if any, and since when it has not changed.
    pub rest: Option<(Instant, Option<[u8; LOG_BLOCK_SIZE]>)>,
    /// Since when a flushed block cannot be found.
    pub missing_since: Option<Instant>,
    pub unlogged: Vec<Load>,
    /// The indexes that `unlogged` has named.
    pub named: Once,
}

impl Follow for BlockFollower {
    fn look(&mut self, flushed: Option<Lsn>) -> Result<Look> {
        if self.live.is_disabled()? {
            return self.wait_until_enabled();
        }
        let next = self.next();
        let bytes = self.live.read(next, self.read_size)?;
        let found = SoundBlocks::of(&bytes, next);
        if found.is_encrypted {
            return refused(format!(
                "the redo log is encrypted from LSN {} on (innodb_redo_log_encrypt), which innokit does not archive: the server's backups and its \
                 binary log serve the same purpose",
                next.0 + found.full as u64
            ));
        }
        if found.is_nothing() {
            return self.nothing_found(flushed);
        }
        self.missing_since = None;
        let full = bytes.get(..found.full).unwrap_or_default();
        let last = found.end.and_then(|_| bytes.get(found.full..)?.first_chunk::<LOG_BLOCK_SIZE>());
        // A server that recovered since may have dropped what an earlier look read.
        if !self.fits(bytes.first_chunk::<LOG_BLOCK_SIZE>()) || !self.pending_is_unchanged()? {
            return self.reconsider();
        }
        let (is_more, is_file_end) = (found.full == bytes.len(), bytes.len() < self.read_size);
        self.read_size = if is_more && !is_file_end { (self.read_size * 4).min(READ_MAX) } else { READ_MIN };
        self.groups.feed(full, last)?;
        self.pending.extend_from_slice(full);
        let next = self.next();
        self.read_to = found.end.unwrap_or(next);
        let is_settled = self.is_settled(last.copied());
        if !is_more {
            self.seen = Some(self.groups.end());
        }
        // A mini-transaction that ends with a full block ends, as an LSN, behind the header of the next block.
        let behind_full = Lsn(next.0 + LOG_BLOCK_HDR_SIZE as u64);
        let fence = flushed.unwrap_or(if is_settled { Lsn(u64::MAX) } else { behind_full });
        if let Some(end) = self.groups.end_before(fence) {
            self.take(end, last)?;
        }
        if is_file_end {
            self.refresh()?;
        }
        self.tell();
        Ok(if is_more { Look::More } else { Look::End })
    }

    fn at(&self) -> Lsn {
        self.groups.at
    }

    fn seen(&self) -> Option<Lsn> {
        self.seen
    }

    fn has_reached(&self, target: Lsn) -> bool {
        // A mini-transaction that is incomplete at the target is not part of it.
        self.read_to >= target && self.seen.is_some() && self.groups.end_before(target).is_none()
    }

    fn status(&self) -> ArchiveStatus {
        self.status
    }

    fn segment(&self) -> SegmentName {
        self.segment.name()
    }

    fn take_unlogged(&mut self) -> Vec<Unlogged> {
        std::mem::take(&mut self.unlogged).into_iter().map(Unlogged::from).collect()
    }
}

impl BlockFollower {
    /// The LSN of the next block to read.
    fn next(&self) -> Lsn {
        Lsn(self.segment.next().0 + self.pending.len() as u64)
    }

    /// Whether the first block read is a later version of the one that was archived partly filled.
    fn fits(&self, first: Option<&[u8; LOG_BLOCK_SIZE]>) -> bool {
        match (self.segment.last(), first) {
            (Some(last), Some(first)) if self.pending.is_empty() => continues(last, first, self.segment.next()),
            _ => true,
        }
    }

    /// Whether the block behind the full ones has not changed for `settle`.
    fn is_settled(&mut self, last: Option<[u8; LOG_BLOCK_SIZE]>) -> bool {
        match &self.rest {
            Some((since, block)) if *block == last => since.elapsed() >= self.settle,
            _ => {
                self.rest = Some((Instant::now(), last));
                self.settle.is_zero()
            }
        }
    }

    /// Archives everything up to `end`, where a mini-transaction ends.
    fn take(&mut self, end: Lsn, last: Option<&[u8; LOG_BLOCK_SIZE]>) -> Result<()> {
        let full = usize::try_from(block_start(end).0 - self.segment.next().0).unwrap_or(usize::MAX);
        let cut_off = match self.pending.get(full..).and_then(|rest| rest.first_chunk()).or(last) {
            Some(block) if ends_within_block(end) => cut(block, end, &[]),
            _ => None,
        };
        if cut_off.is_none() && ends_within_block(end) {
            return refused(format!("the block of LSN {end} cannot be cut off there"));
        }
        self.append(full, cut_off)?;
        self.live.close_before(self.segment.next());
        self.status.bytes += end.0 - self.groups.at.0;
        let (mtrs, loads) = self.groups.take(end);
        self.unlogged.extend(loads.into_iter().filter(|load| self.named.is_first(load)));
        self.status.mtrs += mtrs;
        Ok(())
    }

    /// Reads the full blocks of earlier looks again and compares.
    fn pending_is_unchanged(&mut self) -> Result<bool> {
        let (mut lsn, mut left) = (self.segment.next(), self.pending.as_slice());
        while !left.is_empty() {
            let again = self.live.read(lsn, left.len())?;
            let len = again.len().min(left.len());
            if len == 0 || again.get(..len) != left.get(..len) {
                return Ok(false);
            }
            lsn = Lsn(lsn.0 + len as u64);
            left = left.get(len..).unwrap_or_default();
        }
        Ok(true)
    }

    /// Appends the first `full` bytes of the pending blocks, then `last`, the block behind them cut off where the archive is to end.
    fn append(&mut self, mut full: usize, last: Option<[u8; LOG_BLOCK_SIZE]>) -> Result<()> {
        loop {
            let room = usize::try_from(self.segment.room()).unwrap_or(usize::MAX);
            let now = full.min(room);
            let is_all = now == full && (last.is_none() || room >= now + LOG_BLOCK_SIZE);
            let blocks: Vec<u8> = self.pending.drain(..now.min(self.pending.len())).collect();
            if !blocks.is_empty() || is_all {
                self.segment.append(&self.dir, &blocks, last.filter(|_| is_all))?;
            }
            full -= now;
            if is_all {
                return Ok(());
            }
            self.next_segment()?;
        }
    }

    /// Closes the full segment and continues in a new one.
    fn next_segment(&mut self) -> Result<()> {
        let name = SegmentName { start: self.segment.next(), ..self.segment.name() };
        // Close first: a run killed in between continues after a closed segment.
        self.segment.close(&self.dir)?;
        self.segment = BlockWriter::create(&self.dir, name, &self.headers.header, None, self.segment_size)?;
        Ok(())
    }

    /// The place of the next block holds nothing sound.
    fn nothing_found(&mut self, flushed: Option<Lsn>) -> Result<Look> {
        self.live.forget();
        self.read_size = READ_MIN;
        self.refresh()?;
        let next = self.next();
        // The block may have been written since, or be in another file now.
        let bytes = self.live.read(next, LOG_BLOCK_SIZE)?;
        if !SoundBlocks::of(&bytes, next).is_nothing() {
            return Ok(Look::More);
        }
        if self.headers.oldest > next {
            return self.start_over(&Gap::Recycled { oldest: self.headers.oldest });
        }
        if self.headers.end < next {
            return self.start_over(&Gap::OtherHistory);
        }
        if block_start(self.headers.checkpoint) > next {
            return self.start_over(&Gap::Unreadable { at: next });
        }
        // The archive has this block, partly filled, and the log does not: the log ends before it.
        if self.segment.last().is_some() && self.pending.is_empty() {
            return self.reconsider();
        }
        // A mini-transaction that ends with a full block ends, as an LSN, behind the header of the next block.
        let behind_full = Lsn(next.0 + LOG_BLOCK_HDR_SIZE as u64);
        if self.is_settled(None) || flushed.is_some_and(|flushed| flushed <= behind_full) {
            (self.read_to, self.seen) = (self.read_to.max(behind_full), Some(self.groups.end()));
        }
        self.expect(flushed)?;
        self.tell();
        Ok(Look::End)
    }

    /// The server makes changes without redo. Once it logs again, the archive starts over there.
    fn wait_until_enabled(&mut self) -> Result<Look> {
        disabled::note(&self.dir)?;
        self.refresh()?;
        if self.headers.is_disabled {
            self.seen = Some(self.groups.at);
            self.read_to = Lsn(u64::MAX);
            return Ok(Look::End);
        }
        self.start_over(&Gap::Disabled)
    }

    /// Fails if the server flushed a block more than `FOUND_WITHIN` ago that its log still does not hold.
    fn expect(&mut self, flushed: Option<Lsn>) -> Result<()> {
        let next = self.next();
        if flushed.is_none_or(|flushed| flushed.0 <= next.0 + LOG_BLOCK_HDR_SIZE as u64) {
            self.missing_since = None;
            return Ok(());
        }
        let since = *self.missing_since.get_or_insert_with(Instant::now);
        if since.elapsed() > FOUND_WITHIN {
            return refused(format!(
                "the server says that its redo log is written, but the block of LSN {next} is not sound in it"
            ));
        }
        Ok(())
    }

    /// The log no longer matches what was read from it: the server has recovered in between, or this is another history.
    fn reconsider(&mut self) -> Result<Look> {
        self.live.close_all_but(self.segment.next());
        self.refresh()?;
        let gap = history::compare(&self.dir, &mut self.live, &self.headers)?;
        if let Some(gap) = gap {
            return self.start_over(&gap);
        }
        let stored = StoredBlocks::read(&self.dir, self.segment.name())?;
        self.groups = Groups::resumed(stored.name.start, stored.full_blocks(), stored.last_block().as_ref())?;
        self.pending.clear();
        self.tell();
        Ok(Look::End)
    }

    fn refresh(&mut self) -> Result<()> {
        self.headers = self.live.headers()?;
        Ok(())
    }

    /// Notes a gap and starts over at the log's newest checkpoint.
    pub fn start_over(&mut self, gap: &Gap) -> Result<Look> {
        let (segment, at) = (self.segment.name(), self.groups.at);
        self.segment.close(&self.dir)?;
        self.segment = begin(&self.dir, &self.headers, segment, Some((gap, at)), self.segment_size)?;
        self.groups = Groups::new(self.segment.name().start);
        self.pending.clear();
        self.live.close_all_but(self.segment.next());
        disabled::forget(&self.dir)?;
        (self.rest, self.seen, self.missing_since) = (None, None, None);
        self.status.gaps += 1;
        self.tell();
        Ok(Look::Gap)
    }

    /// Updates the status.
    pub fn tell(&mut self) {
        let at = self.groups.at;
        let known = self.read_to.max(self.headers.checkpoint).max(self.headers.newest);
        self.status.lsn = at.0;
        self.status.lag_bytes = known.0.saturating_sub(at.0.max(self.segment.next().0));
        self.status.capacity = self.headers.capacity;
        self.status.timeline = self.segment.name().timeline;
    }
}

/// Creates a segment that starts with the block of the log's newest checkpoint, after `last`. `gap` says why it does not continue `last`,
/// and where that ended.
pub(super) fn begin(
    dir: &std::path::Path,
    headers: &Headers,
    last: SegmentName,
    gap: Option<(&Gap, Lsn)>,
    segment_size: u64,
) -> Result<BlockWriter> {
    let start = block_start(headers.checkpoint);
    let ended = gap.map_or(Lsn(0), |(_, at)| at);
    // LSNs that repeat belong to a new timeline, whatever the reason.
    let is_other = gap.is_some_and(|(gap, _)| matches!(gap, Gap::OtherHistory)) || start < ended;
    let timeline = last.timeline + u32::from(is_other);
    let name = SegmentName { timeline, start };
    if let Some((gap, at)) = gap {
        note(dir, name, gap, at)?;
    }
    BlockWriter::create(dir, name, &headers.header, Some(headers.checkpoint), segment_size)
}
