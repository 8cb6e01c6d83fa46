//! What the log says about pages, compared with the pages themselves.
//!
//! A mini-transaction stamps each page it changes with its own end LSN. So if a page's LSN lies within the log still available, the log
//! must hold a mini-transaction that ends there and changed this page. And every change before the checkpoint is on disk, unless the page
//! was freed. Both hold for every page of the system tablespace and of undo tablespaces, which are never written without redo.
//!
//! MySQL also changes pages without redo (when it builds indexes, or with redo logging disabled) and stamps them with the log's current
//! LSN: the end of some mini-transaction, but not one that names the page. Both vendors do the same to a table's pages on import, except to
//! free ones. So for tables, a page counts only if the log changes it, but neither frees nor creates it after the checkpoint, and does not
//! delete its file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use format::Lsn;
use format::keyring::KeyStore;
use redo::LogVendor;
use redo::block::{LOG_BLOCK_HDR_SIZE, block_start};
use redo::record::{Change, FileRecord, Mtr, RedoRecord};
use redo::rewind::first_mtr;

use super::ring::Ring;
use crate::mysql_log::MySqlLog;
use crate::redo_log::{identify, log_files};

/// How much of the log to read on each side of the checkpoint.
const REACH: u64 = 16 << 20;
/// How many bytes to search at once for the start of a mini-transaction.
const SEARCH: u64 = 2 << 20;
/// The first pages of the system tablespace are never freed.
const NEVER_FREED: u32 = 8;
/// The system tablespace.
const SYSTEM: u32 = 0;

/// How the log contradicts a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contradiction {
    /// The page's LSN lies in the log, but no change of this page ends there; with MySQL, no mini-transaction at all.
    NotHere(Lsn),
    /// The page lacks a change that ended here, before the checkpoint.
    Lost(Lsn),
}

/// Which pages the log changed, and when.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The start of the first mini-transaction that was read.
    from: Lsn,
    checkpoint: Lsn,
    /// Where reading ended.
    to: Lsn,
    /// Read to the log's end.
    is_whole: bool,
    pages: HashMap<(u32, u32), Changes>,
    is_mysql: bool,
    /// End LSNs of all mini-transactions, whatever they changed.
    all_ends: HashSet<Lsn>,
    /// Tablespaces whose files the log deletes, as happens before an import.
    deleted: HashSet<u32>,
    /// When each tablespace was last truncated: nothing older in it needs to be on disk.
    trimmed: HashMap<u32, Lsn>,
}

#[derive(Debug, Default)]
struct Changes {
    /// End LSNs of the mini-transactions that changed it.
    ends: Vec<Lsn>,
    is_freed: bool,
    /// Created after the checkpoint: the disk may still have an old, freed page in its place, with any LSN.
    is_made: bool,
}

impl History {
    /// Reads the log in the datadir `root` for changes to pages of these tablespaces.
    pub fn read(root: &Path, keys: &KeyStore, spaces: &HashSet<u32>) -> Option<Self> {
        let paths = log_files(root);
        match identify(paths.first()?).ok()? {
            LogVendor::MySql => Self::of_mysql(&MySqlLog::open(&paths, keys).ok()?, spaces),
            LogVendor::MariaDb => Self::of_mariadb(root, keys, spaces),
        }
    }

    fn of_mysql(log: &MySqlLog, spaces: &HashSet<u32>) -> Option<Self> {
        let checkpoint = log.checkpoint_lsn();
        let earlier = log.stretches_from(Lsn(checkpoint.0.saturating_sub(REACH)));
        let earlier = earlier.filter(|(from, _)| *from < checkpoint);
        // Files before the checkpoint are no longer needed, so a gap among them is no fault.
        let whole = earlier.and_then(|(from, stretches)| Self::of_stretches(log, (from, &stretches), spaces));
        whole
            .filter(|history| history.to >= checkpoint)
            .or_else(|| Self::of_stretches(log, (checkpoint, &log.stretches), spaces))
    }

    fn of_stretches(
        log: &MySqlLog,
        (from, stretches): (Lsn, &[(usize, Range<u64>)]),
        spaces: &HashSet<u32>,
    ) -> Option<Self> {
        let checkpoint = log.checkpoint_lsn();
        let mut history = Self { from, checkpoint, is_mysql: true, ..Self::default() };
        let bytes = checkpoint.0.checked_sub(from.0)?.saturating_add(REACH);
        (history.to, history.is_whole) = log.each_mtr((from, stretches), bytes, |mtr| history.add(mtr, spaces))?;
        Some(history)
    }

    fn of_mariadb(root: &Path, keys: &KeyStore, spaces: &HashSet<u32>) -> Option<Self> {
        let ring = Ring::open(root, keys)?;
        let checkpoint = ring.log.checkpoint.lsn;
        let mut after = Self { from: checkpoint, checkpoint, ..Self::default() };
        (after.to, after.is_whole) = ring.each_mtr(checkpoint, REACH, |mtr| after.add(mtr, spaces))?;
        Some(Self::before(&ring, spaces, &after).unwrap_or_default().followed_by(after))
    }

    /// What the log still holds from before its checkpoint; `None` if no chain of mini-transactions leads there.
    fn before(ring: &Ring, spaces: &HashSet<u32>, after: &Self) -> Option<Self> {
        let checkpoint = after.checkpoint;
        // The end of the ring overwrites its beginning.
        let held = ring.log.capacity().saturating_sub(after.to.0.saturating_sub(checkpoint.0)).min(REACH);
        let mut from = Lsn(checkpoint.0.saturating_sub(held).max(ring.log.first_lsn.0));
        while let Some(len) = checkpoint.0.checked_sub(from.0).filter(|len| *len > 0) {
            let bytes = ring.read(from, usize::try_from(len.min(SEARCH)).ok()?)?;
            if let Some(before) = first_mtr(&ring.log, from, &bytes).and_then(|first| Self::up_to(ring, spaces, first))
            {
                return Some(before);
            }
            // A server may have written a little past the log's end, so the first mini-transaction found may lead nowhere.
            from = Lsn(from.0.saturating_add(SEARCH));
        }
        None
    }

    /// The log from `first` on, if it leads to the checkpoint without a gap.
    fn up_to(ring: &Ring, spaces: &HashSet<u32>, first: Lsn) -> Option<Self> {
        let checkpoint = ring.log.checkpoint.lsn;
        let (mut before, mut leads_there) = (Self { from: first, checkpoint, ..Self::default() }, false);
        ring.each_mtr(first, checkpoint.0.checked_sub(first.0)?, |mtr| {
            leads_there |= mtr.end == checkpoint;
            if mtr.end <= checkpoint { before.add(mtr, spaces) } else { Some(()) }
        })?;
        leads_there.then_some(before)
    }

    fn followed_by(self, after: Self) -> Self {
        let from = if self.from == Lsn(0) { after.from } else { self.from };
        let mut trimmed = self.trimmed;
        trimmed.extend(after.trimmed);
        let (mut all_ends, mut deleted) = (self.all_ends, self.deleted);
        all_ends.extend(after.all_ends);
        deleted.extend(after.deleted);
        let mut whole = Self { from, pages: self.pages, trimmed, all_ends, deleted, ..after };
        for (page, changes) in after.pages {
            let known = whole.pages.entry(page).or_default();
            known.ends.extend(changes.ends);
            known.is_freed |= changes.is_freed;
            known.is_made |= changes.is_made;
        }
        whole
    }

    fn add(&mut self, mtr: &Mtr<'_>, spaces: &HashSet<u32>) -> Option<()> {
        // A checkpoint of MySQL may be within a mini-transaction, even within its last record. That one is not read, but pages have its LSN.
        if self.all_ends.is_empty() {
            self.from = self.from.max(mtr.start);
        }
        self.all_ends.insert(mtr.end);
        for record in mtr.records() {
            let record = match record.ok()? {
                RedoRecord::Page(record) if spaces.contains(&record.id.space.0) => record,
                RedoRecord::File(FileRecord::Delete { space, .. }) => {
                    self.deleted.insert(space.0);
                    continue;
                }
                _ => continue,
            };
            let (id, change) = (record.id, &record.change);
            if matches!(change, Change::Trim) {
                self.trimmed.insert(id.space.0, mtr.end);
            }
            let changes = self.pages.entry((id.space.0, id.page_no.0)).or_default();
            changes.is_freed |= matches!(change, Change::Free);
            changes.is_made |= mtr.end > self.checkpoint && (change.voids_page() || change.makes_page());
            if changes.ends.last() != Some(&mtr.end) {
                changes.ends.push(mtr.end);
            }
        }
        Some(())
    }

    /// The pages of a tablespace that the log changed, plus those written all the time.
    pub fn pages_of(&self, space: u32) -> Vec<u32> {
        let first = if space == SYSTEM { NEVER_FREED } else { 1 };
        let changed = self.pages.keys().filter(|(of, _)| *of == space).map(|(_, page)| *page);
        let mut pages: Vec<u32> = (0..first).chain(changed).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// The tablespaces and pages that [`Self::contradicts_table`] can judge, ascending.
    pub fn tables(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut tables: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for ((space, page), changes) in &self.pages {
            if !changes.is_made && !changes.is_freed && !self.deleted.contains(space) {
                tables.entry(*space).or_default().push(*page);
            }
        }
        tables.values_mut().for_each(|pages| pages.sort_unstable());
        tables
    }

    /// Whether a table's page with this LSN cannot be the page that the log changed.
    pub fn contradicts_table(&self, space: u32, page: u32, lsn: Lsn) -> Option<Contradiction> {
        let changes = self.pages.get(&(space, page)).filter(|_| lsn > Lsn(0))?;
        if lsn > self.from && lsn <= self.to && !self.is_an_end(lsn) {
            return Some(Contradiction::NotHere(lsn));
        }
        let last = changes.ends.iter().rev().find(|end| **end <= self.checkpoint)?;
        (lsn < *last && self.is_whole).then_some(Contradiction::Lost(*last))
    }

    /// Whether a change that would stamp the page with this LSN ends here.
    fn ends_with(&self, changes: &Changes, lsn: Lsn) -> bool {
        if self.is_mysql { self.is_an_end(lsn) } else { changes.ends.contains(&lsn) }
    }

    /// Whether the log ever ended here. A restarted MySQL server continues at the payload of a new block.
    fn is_an_end(&self, lsn: Lsn) -> bool {
        self.all_ends.contains(&lsn) || lsn.0 == block_start(lsn).0 + LOG_BLOCK_HDR_SIZE as u64
    }

    /// Whether a page with this LSN cannot be the page that the log changed.
    pub fn contradicts(&self, space: u32, page: u32, lsn: Lsn) -> Option<Contradiction> {
        if lsn == Lsn(0) {
            return None;
        }
        let none = Changes::default();
        let changes = self.pages.get(&(space, page)).unwrap_or(&none);
        if lsn > self.from && lsn <= self.to && !self.ends_with(changes, lsn) {
            return Some(Contradiction::NotHere(lsn));
        }
        let last = changes.ends.iter().rev().find(|end| **end <= self.checkpoint)?;
        let is_known = self.is_whole || space == SYSTEM && page < NEVER_FREED;
        let is_trimmed = self.trimmed.get(&space).is_some_and(|trimmed| trimmed >= last);
        (lsn < *last && is_known && !changes.is_freed && !is_trimmed).then_some(Contradiction::Lost(*last))
    }
}

#[cfg(test)]
mod tests {
    use redo::record::Grammar;

    use super::*;

    /// MLOG_1BYTE of tablespace 5, page 7.
    const RECORD: &[u8] = &[0x81, 5, 7, 0, 38, 1];

    #[test]
    fn a_mini_transaction_that_the_checkpoint_cuts_off_may_have_written_pages() {
        let (checkpoint, spaces) = (Lsn(1000), HashSet::from([5]));
        let mut history = History { from: checkpoint, checkpoint, is_mysql: true, ..History::default() };
        for (start, end) in [(1040, 1100), (1100, 1130)] {
            let mtr = Mtr { start: Lsn(start), end: Lsn(end), bytes: RECORD, grammar: Grammar::MySql };
            history.add(&mtr, &spaces).expect("records");
        }
        (history.to, history.is_whole) = (Lsn(1130), true);
        let judged = |lsn| history.contradicts_table(5, 7, Lsn(lsn));
        assert_eq!([1000, 1040, 1100, 1130].map(judged), [None; 4]);
        assert_eq!(
            [1041, 1099, 1101].map(judged),
            [1041, 1099, 1101].map(|lsn| Some(Contradiction::NotHere(Lsn(lsn))))
        );
    }
}
