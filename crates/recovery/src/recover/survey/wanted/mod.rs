//! What a log says about tablespaces and pages, from one read of the whole log before anything else.

mod files;
mod pages;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flow::run_both;
use format::codec::CipherMode;
use format::{Lsn, PageId, SpaceId};
use redo::record::{Effect, FileRecord, Grammar, RedoRecord, Subject};

use self::files::NamedFiles;
use self::pages::ChangedPages;
use super::definitions::LaterDefinitions;
use super::later_files::{LaterFiles, named_in};
use super::needs::needed_for;
use super::prefetch::Prefetcher;
use super::rest::LogRest;
use crate::recover::error::{Result, damaged, refused};
use crate::recover::log::{LogVendor, RedoLog, Scan, Scanned, TableStates, file_record};
use crate::redo_batch::RedoBatch;
use datadir::redo_log::Truncation;

/// Bytes of log between two checks of the memory in use.
const BYTES_A_LOOK: usize = 64 << 10;

/// Bytes that a record about a file may take besides its name.
const NOTE_COST: usize = 200;

/// What the log says about the tablespaces.
#[derive(Debug)]
pub(in crate::recover) struct Wanted {
    /// Where redo begins to count.
    pub checkpoint: Lsn,
    /// Where the recovery ends: at the end of the log, or earlier.
    pub end: Lsn,
    /// Where the log ends, after its closing records if it has them.
    pub log_end: Lsn,
    /// The log after the end, if the recovery ends before it does.
    pub rest: Option<LogRest>,
    /// The number of mini-transactions up to the end.
    pub mtrs: u64,
    /// Whether nothing follows the checkpoint but its own record.
    pub is_clean: bool,
    /// The LSN from which the log has only names of tablespaces, up to its end.
    named_from: Option<Lsn>,
    names_checkpoint: bool,
    /// What kind of log it is: the plan and the survey of files ask.
    pub kind: LogKind,
    /// Tablespaces and their files: the plan decides by them.
    pub files: NamedFiles,
    /// Pages and their redo: the replay works through them.
    pub pages: ChangedPages,
    /// MySQL's table states that its dictionary does not have yet: the closed log keeps them.
    pub tables: TableStates,
    /// Changes to definitions in an archive of MariaDB's log, after the base copy.
    pub definitions: Option<LaterDefinitions>,
    /// File operations in an archive of MySQL's log, after the base copy.
    pub later: Option<LaterFiles>,
}

/// What kind of log it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::recover) struct LogKind {
    /// The record format, MariaDB's or MySQL's.
    pub grammar: Grammar,
    /// Whether a backup tool copied the log, and the backup is not prepared.
    pub is_backup: bool,
    /// Whether the log is of MySQL before 8.0.30, which before 8.0.20 kept doublewrite copies in the system tablespace.
    pub is_mysql_ring: bool,
    /// The cipher mode of an encrypted log.
    pub cipher: Option<CipherMode>,
}

impl Wanted {
    /// Reads the whole log. Mini-transactions that end after `until` go to `rest`. The result may take `memory` bytes. If it and all redo
    /// fit in `with_redo` bytes, the redo is kept too, and the log need not be read again.
    pub fn read(log: &RedoLog, memory: usize, with_redo: usize, until: Option<Lsn>) -> Result<Self> {
        Self::read_beside(log, memory, with_redo, until, None)
    }

    /// Like [`Wanted::read`], and asks for pages meanwhile.
    pub fn read_beside(
        log: &RedoLog,
        memory: usize,
        with_redo: usize,
        until: Option<Lsn>,
        prefetcher: Option<&Prefetcher>,
    ) -> Result<Self> {
        if let Some(until) = until.filter(|&until| log.grammar() == Grammar::MySql && until < log.checkpoint()) {
            return LogRest::new(until).refuse_before_checkpoint(log.checkpoint());
        }
        if let (Some(until), Some(end)) = (until, log.consistent_from())
            && until < end
        {
            return refused(format!(
                "LSN {until} is before the end of the backup, LSN {end}, where all its files are consistent: recover to that or later"
            ));
        }
        if until.is_some() && log.backup.is_some() && log.base_end().is_none() {
            return refused(
                "a backup is prepared to the end of its log, where all its files are consistent: leave out --until",
            );
        }
        // Checking a log of blocks reads the whole log once more. A separate thread does that, so that the records need not wait.
        let (checked, wanted) = run_both(|| log.check(), || Self::read_all(log, memory, with_redo, until, prefetcher));
        // If the log is damaged, that error comes first: what was read from it means nothing.
        checked.and(wanted)
    }

    /// Reads the log, sound or not.
    fn read_all(
        log: &RedoLog,
        memory: usize,
        with_redo: usize,
        until: Option<Lsn>,
        prefetcher: Option<&Prefetcher>,
    ) -> Result<Self> {
        let (mut wanted, checkpoint) = (Self::new(log, until.is_some()), log.checkpoint());
        let mut closed_at = None;
        let mut redo = Some(RedoBatch::new(with_redo).with_grammar(log.grammar()));
        let mut unseen = 0;
        let end = log.scan(None, |scan| {
            scan.run(&mut |scanned| {
                let mtr = &scanned.mtr;
                if let Some(until) = until.filter(|&until| mtr.end > until) {
                    let outside = wanted.files.outside;
                    wanted.rest.get_or_insert_with(|| LogRest::new(until)).add(scanned, checkpoint, outside);
                } else {
                    wanted.mtrs += 1;
                    if let Some(definitions) = &mut wanted.definitions {
                        definitions.add(scanned)?;
                    }
                    if let Some(later) = &mut wanted.later {
                        later.add(scanned)?;
                    }
                    closed_at = wanted.add(scanned, checkpoint, redo.as_mut())?;
                    wanted.end = mtr.end;
                }
                unseen += mtr.bytes.len();
                if unseen >= BYTES_A_LOOK {
                    unseen = 0;
                    wanted.fits(memory, log.len_max())?;
                    let dense = wanted.pages.load.take_dense();
                    if let Some(prefetcher) = prefetcher {
                        prefetcher.want(dense);
                    }
                    if redo.as_ref().is_some_and(|redo| redo.is_full_beside(wanted.memory())) {
                        redo = None;
                    }
                }
                Ok(true)
            })?;
            if log.has_flush_lsn() {
                closed_at = None;
                wanted.end_of_blocks(log, scan)?;
            }
            Ok(scan.at())
        })?;
        wanted.fits(memory, log.len_max())?;
        wanted.files.changed.extend(wanted.pages.load.spaces());
        wanted.take_later_files(log)?;
        log.check_end(end)?;
        log.check_archive_end(end, until)?;
        log.check_copy_end(end)?;
        wanted.pages.redo = redo;
        wanted.settle(log, closed_at, end)?;
        // A server's own log is complete, so `until` may be beyond its end. An archive may merely not have reached `until` yet.
        if let (Some(until), Some(_)) = (until.filter(|&until| until > end), log.base_end()) {
            return refused(format!(
                "the archive of the redo log ends at LSN {end}, before LSN {until}: archive the rest first (innokit redo archive), or leave \
                 out --until to recover to its end"
            ));
        }
        Ok(wanted)
    }

    /// Takes over the names of files that MySQL made or renamed after the base copy. From here on they are treated like MariaDB's, whose
    /// recovery follows names.
    fn take_later_files(&mut self, log: &RedoLog) -> Result<()> {
        let Some(later) = &self.later else { return Ok(()) };
        let said = |space| self.files.said.get(&space).map(|name| name.trim_start_matches("./").to_owned());
        later.refuse_unlogged(|space| said(space).or_else(|| named_in(log.path.parent()?.parent()?, space)))?;
        for (space, names) in later.names.iter().filter(|(space, _)| !later.dropped.contains_key(*space)) {
            self.files.names.insert(*space, names.clone());
            self.files.changed.insert(*space);
            self.files.owners.extend(names.last().map(|last| (last.clone(), *space)));
        }
        Ok(())
    }

    /// Decides where the log and the recovery end. `closed_at` is where the log was closed, `end` where its mini-transactions end.
    fn settle(&mut self, log: &RedoLog, closed_at: Option<Lsn>, end: Lsn) -> Result<()> {
        let (checkpoint_end, name) = (log.checkpoint_end(), log.path.display());
        // If closing the log was interrupted, close it at the same LSN again.
        let closed_at = self.named_from.or(closed_at).filter(|&at| at > checkpoint_end);
        self.log_end = end;
        if end < checkpoint_end {
            return damaged(format!(
                "{name}: the redo log ends at LSN {end}, before the end that its checkpoint names"
            ));
        }
        // An earlier run already ended here: the rest is its closing record.
        if self.is_clean
            && !self.names_checkpoint
            && self.rest.as_ref().is_some_and(|rest| rest.only_closes(self.checkpoint))
        {
            (self.rest, self.names_checkpoint) = (None, true);
        }
        match &self.rest {
            Some(rest) if !self.names_checkpoint => return rest.refuse_before_checkpoint(Lsn(0)),
            Some(_) => {
                self.is_clean = false;
                if log.has_flush_lsn() {
                    self.files.changed.insert(SpaceId::SYSTEM);
                }
            }
            None => self.end = closed_at.unwrap_or(end),
        }
        if !self.names_checkpoint {
            return damaged(format!("{name}: the redo log does not name its checkpoint"));
        }
        Ok(())
    }

    fn new(log: &RedoLog, may_end_before: bool) -> Self {
        let (checkpoint, is_mysql) = (log.checkpoint(), log.grammar() == Grammar::MySql);
        let kind = LogKind {
            grammar: log.grammar(),
            is_backup: log.backup.is_some(),
            is_mysql_ring: log.is_mysql_ring(),
            cipher: log.cipher_mode(),
        };
        let definitions = |end| LaterDefinitions::after(end, log.definitions().is_some());
        Self {
            checkpoint,
            end: checkpoint,
            log_end: checkpoint,
            rest: None,
            mtrs: 0,
            is_clean: checkpoint == log.checkpoint_end(),
            named_from: None,
            // Only MariaDB's logs name their checkpoint.
            names_checkpoint: is_mysql,
            kind,
            files: NamedFiles::new(kind, log.outside),
            pages: ChangedPages::new(log.grammar(), may_end_before),
            tables: TableStates::default(),
            definitions: log.base_end().filter(|_| !is_mysql).map(definitions),
            later: log.base_end().filter(|_| is_mysql).map(|end| LaterFiles::after(end, log.outside)),
        }
    }

    /// Decides whether a log made of blocks is clean. A log of MariaDB 10.5 to 10.7 is clean if nothing follows its checkpoint, not even
    /// the checkpoint's record, and the system tablespace agrees. If the log is not clean, closing it always changes the system tablespace.
    fn end_of_blocks(&mut self, log: &RedoLog, scan: &Scan<'_>) -> Result<()> {
        if scan.is_garbled() {
            if let LogVendor::MySql(log) = &log.vendor {
                log.check_reason()?;
            }
            return damaged(format!("the redo log is damaged at LSN {}: there is no record", scan.at()));
        }
        if log.grammar() == Grammar::MySql && self.rest.is_none() {
            self.add_unfinished(scan.unfinished());
        }
        self.named_from = None;
        self.is_clean = match &log.vendor {
            LogVendor::MariaDb(log) => self.mtrs == 0 && log.is_closed_at(scan.at())?,
            // A copied log must be replaced, even if there is nothing to apply.
            LogVendor::MySql(_) if self.kind.is_backup => false,
            // Table states need no recovery of pages: the server takes them from the log itself.
            LogVendor::MySql(log) => self.is_clean && log.flushed()? == Some(self.checkpoint),
        };
        self.names_checkpoint |= self.is_clean;
        if !self.is_clean {
            self.files.changed.insert(SpaceId::SYSTEM);
        }
        Ok(())
    }

    /// Takes table states from an incomplete mini-transaction. MySQL uses an AUTO_INCREMENT counter as soon as it reads the record, before
    /// it knows whether the mini-transaction is complete: the row with that value is lost, but the value is not assigned again.
    fn add_unfinished(&mut self, records: &[u8]) {
        for record in Grammar::MySql.records(records) {
            match record {
                Ok(RedoRecord::File(FileRecord::Table(state))) => self.tables.add(&state),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// The tag of shadow files. It depends only on the log, so a shadow file stays valid until the log changes, even if the next run has
    /// another `until`.
    pub const fn tag(&self) -> u64 {
        self.checkpoint.0.rotate_left(32) ^ self.log_end.0
    }

    /// Fails if more than `memory` bytes are in use, and says how much a recovery needs if the rest of a log of `log_len` bytes is like the
    /// part that was read.
    fn fits(&self, memory: usize, log_len: u64) -> Result<()> {
        let used = self.memory();
        if used <= memory {
            return Ok(());
        }
        refused(too_little(memory, used as u64, self.end.0.saturating_sub(self.checkpoint.0), log_len))
    }

    /// The range of LSNs of doublewrite copies that may replace torn pages. MySQL's server does not check for a least LSN.
    pub fn lsns_of_copies(&self) -> (Lsn, Lsn) {
        match self.kind.grammar {
            Grammar::MariaDb => (self.checkpoint, self.end),
            Grammar::MySql => (Lsn(0), self.end),
        }
    }

    /// Skips MySQL's undo tablespaces that were being truncated at the crash: the server recreates them at startup, whatever they contain.
    pub fn forget_truncated(&mut self, datadir: &Path) {
        if self.kind.grammar == Grammar::MariaDb {
            return;
        }
        let is_truncated = |space: &SpaceId| Truncation::of(datadir, *space) == Some(Truncation::Underway);
        self.files.deleted.extend(self.files.changed.iter().copied().filter(is_truncated));
    }

    /// Leaves all other tablespaces as they are.
    pub fn keep_only(&mut self, spaces: &BTreeSet<SpaceId>) {
        self.files.deleted.extend(self.files.changed.difference(spaces));
        self.files.changed.retain(|space| spaces.contains(space));
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, LogRest::memory);
        self.pages.memory() + rest + self.files.noted
    }

    /// Adds a mini-transaction. If it is the one that closes the log, returns the LSN at which the log ended.
    fn add(&mut self, scanned: &Scanned<'_>, checkpoint: Lsn, mut redo: Option<&mut RedoBatch>) -> Result<Option<Lsn>> {
        let mtr = &scanned.mtr;
        let mut of_heads = Vec::new();
        let mut closes = None;
        // Start of a run of mini-transactions that only name files.
        let named_from = self.named_from.take().unwrap_or(mtr.start);
        let mut only_names = true;
        let mut adding = redo.as_mut().map(|redo| redo.begin_mtr(mtr));
        let mut page_before = None;
        for (subject, bytes) in scanned.records() {
            match subject {
                Subject::File => {
                    let Some(record) = file_record(mtr.grammar, bytes) else { continue };
                    self.add_cost_of(&record, bytes.len());
                    if let (Some(redo), Some(adding)) = (&mut redo, &mut adding) {
                        redo.add_record(adding, &RedoRecord::File(record));
                    }
                    if let FileRecord::Checkpoint(lsn) = record {
                        self.names_checkpoint |= lsn == checkpoint;
                        closes = (only_names && lsn == named_from).then_some(lsn);
                    } else {
                        self.add_file(&record);
                    }
                    only_names &= matches!(record, FileRecord::Modify { .. });
                }
                Subject::Page(id, effect) => {
                    (self.is_clean, only_names) = (false, false);
                    let goes_on = page_before.replace(id) == Some(id) && !effect.voids_page();
                    self.pages.add_change(id, effect, bytes.len(), (mtr.start, goes_on));
                    if let (Some(redo), Some(adding)) = (&mut redo, &mut adding) {
                        match effect {
                            Effect::Trims => redo.add_trim(adding, id),
                            _ => redo.add_change(adding, id, effect.voids_page(), bytes),
                        }
                    }
                    if effect == Effect::Trims || id.page_no.0 == 0 {
                        of_heads.extend_from_slice(bytes);
                    }
                }
            }
        }
        self.pages.add_heads(mtr, &of_heads)?;
        self.named_from = only_names.then_some(named_from);
        Ok(closes)
    }

    fn add_file(&mut self, record: &FileRecord<'_>) {
        self.is_clean &= matches!(record, FileRecord::Modify { .. } | FileRecord::Padding | FileRecord::Table(_));
        match record {
            FileRecord::Table(state) => self.tables.add(state),
            record => self.files.add(record),
        }
    }

    /// Counts what a record takes if it is kept besides what is kept already. Of tables and of file lengths only the last record is: MySQL logs
    /// a table's AUTO_INCREMENT counter with every row that it inserts.
    fn add_cost_of(&mut self, record: &FileRecord<'_>, len: usize) {
        let is_kept = match record {
            FileRecord::Table(state) => !self.tables.knows(state),
            FileRecord::Extend { space, .. } => !self.files.extended.contains_key(space),
            _ => true,
        };
        self.files.noted += if is_kept { NOTE_COST + 2 * len } else { 0 };
    }

    /// Whether the archive goes past changes of definitions on MariaDB.
    fn has_definitions(&self) -> bool {
        self.definitions.as_ref().is_some_and(|definitions| definitions.is_archived)
    }

    /// Tablespaces that the base copy may have, and that are gone at the end.
    pub fn dropped_after_base(&self) -> BTreeSet<SpaceId> {
        let of_mysql = self.later.iter().flat_map(|later| later.dropped.keys().copied());
        let of_mariadb = self.files.deleted.iter().copied().filter(|_| self.has_definitions());
        of_mysql.chain(of_mariadb).collect()
    }

    /// Whether the tablespace was made after the base copy: whatever has its name there is another one.
    pub fn is_made_after_base(&self, space: SpaceId) -> bool {
        let of_mysql = self.later.as_ref().is_some_and(|later| later.made.contains(&space));
        of_mysql || (self.has_definitions() && self.pages.heads.redo(PageId::new(space.0, 0)).is_void)
    }

    /// Whether an archive continues a base copy that ends at or before `until`.
    pub fn is_base_before(&self, until: Lsn) -> bool {
        let of_mysql = self.later.as_ref().is_some_and(|later| later.is_base_before(until));
        of_mysql || self.definitions.as_ref().is_some_and(|definitions| definitions.is_base_before(until))
    }

    /// The names of files outside the datadir.
    pub fn names_outside(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.names.values().flatten().filter(|path| path.is_absolute())
    }

    /// Whether every name means the same in a copy: none leads outside the datadir.
    pub fn names_only_inside(&self) -> bool {
        self.rest.is_none() && self.later.is_none() && self.names_outside().next().is_none()
    }

    /// The names of a tablespace, in the order of the log.
    pub fn names_of(&self, space: SpaceId) -> &[PathBuf] {
        self.files.names.get(&space).map(Vec::as_slice).unwrap_or_default()
    }

    /// Pages that the log frees or initializes.
    pub fn voided(&self) -> impl Iterator<Item = PageId> {
        self.pages.voids.pages()
    }

    /// Whether a page needs the redo of the mini-transaction that began at `start`.
    pub fn is_of_use(&self, id: PageId, start: Lsn) -> bool {
        !self.files.deleted.contains(&id.space) && self.pages.voids.spare(id, start)
    }
}

/// That a plan of `used` bytes does not fit, after `read` bytes of the log, and how much memory it needs if the rest is alike.
fn too_little(memory: usize, used: u64, read: u64, log_len: u64) -> String {
    let read = read.max(1);
    let plan = u128::from(used) * u128::from(log_len.max(read)) / u128::from(read);
    let needed = needed_for(u64::try_from(plan).unwrap_or(u64::MAX));
    format!(
        "what the redo log says about pages and tablespaces takes more than the {} MiB that are for it: give it more memory, {} MiB in \
         all are enough if the log goes on as it begins (--memory {}M)",
        memory >> 20,
        needed >> 20,
        needed >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_refused_with_the_number_that_is_enough() {
        // After half of the log, so twice as much is needed.
        let why = too_little(8 << 20, 9 << 20, 500, 1000);
        let needed = needed_for(18 << 20) >> 20;
        assert!(why.contains("more than the 8 MiB") && why.ends_with(&format!("(--memory {needed}M)")), "{why}");
        // Nothing is known of the rest.
        assert!(too_little(8 << 20, 9 << 20, 0, 0).contains(&format!("{} MiB in all", needed_for(9 << 20) >> 20)));
    }
}
