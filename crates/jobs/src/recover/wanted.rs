//! What a log says about tablespaces and pages. Read once, before anything else.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use format::codec::CipherMode;
use format::{Lsn, PageId, SpaceId};
use redo::record::{Effect, FileRecord, Grammar, Mtr, RedoRecord, Subject};

use super::definitions::Definitions;
use super::error::{Result, damaged, refused};
use super::fresh::FreshPages;
use super::later_files::LaterFiles;
use super::load::Load;
use super::log::{RedoLog, Scan, Scanned, TableStates, Vendor, file_record};
use super::outside::Outside;
use super::rest::Rest;
use super::voids::Voids;
use crate::redo_batch::RedoBatch;
use crate::source::redo_log::has_truncation_log;

/// Bytes of log between checks of the memory in use.
const BYTES_A_LOOK: usize = 64 << 10;

/// What the log says about the tablespaces.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Where redo begins to count.
    pub checkpoint: Lsn,
    /// Where the recovery ends: at the end of the log, or before.
    pub end: Lsn,
    /// Where the log ends, including what closes it, if that is there already.
    pub log_end: Lsn,
    /// The log after the end, if the recovery ends before it does.
    pub rest: Option<Rest>,
    /// If it may end before: pages whose content at the end does not matter.
    pub fresh: FreshPages,
    may_end_before: bool,
    pub mtrs: u64,
    /// A tablespace's names, in the order of the log, without repeats in a row.
    pub names: HashMap<SpaceId, Vec<PathBuf>>,
    /// The last tablespace that had a name.
    pub owners: HashMap<PathBuf, SpaceId>,
    /// Where the names begin, if the log ends with nothing else.
    named_from: Option<Lsn>,
    /// Tablespaces with redo.
    pub changed: BTreeSet<SpaceId>,
    pub deleted: HashSet<SpaceId>,
    /// Where the redo of a page begins to count.
    pub voids: Voids,
    /// All redo, if it fits in memory.
    pub redo: Option<RedoBatch>,
    /// The amount of redo by page group.
    pub load: Load,
    /// The redo of first pages.
    pub heads: RedoBatch,
    names_checkpoint: bool,
    /// The log was copied by a backup tool, and the backup is not prepared.
    pub is_backup: bool,
    /// The record format, MariaDB's or MySQL's.
    pub grammar: Grammar,
    /// Table states that the dictionary does not have yet.
    pub tables: TableStates,
    /// File names from the log of MySQL, or of a backup, for messages.
    pub said: HashMap<SpaceId, String>,
    /// Minimum length of files, bytes.
    pub extended: HashMap<SpaceId, u64>,
    /// Nothing follows the checkpoint but its own record.
    pub is_clean: bool,
    /// What names that lead out of the datadir mean.
    outside: Outside,
    /// A name that no server would choose.
    pub strange: Option<(SpaceId, String)>,
    /// The mode in which the log is encrypted.
    pub cipher: Option<CipherMode>,
    /// What an archive says about definitions after the base copy.
    pub definitions: Option<Definitions>,
    /// The same of MySQL: what it says about files.
    pub later: Option<LaterFiles>,
}

impl Wanted {
    /// Reads the whole log. Mini-transactions that end after `until` do not count. What is kept may take `memory` bytes. If this and all
    /// redo fit in `with_redo` bytes, the redo is kept too, and the log need not be read again.
    pub fn read(log: &RedoLog, memory: usize, with_redo: usize, until: Option<Lsn>) -> Result<Self> {
        if let Some(until) = until.filter(|&until| log.grammar() == Grammar::MySql && until < log.checkpoint()) {
            return Rest::new(until).refuse_before_checkpoint(log.checkpoint());
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
        // Where blocks are checked, all of the log is read for that, too: as long as it takes, the records need not wait.
        let (checked, wanted) = thread::scope(|scope| {
            let check = scope.spawn(|| log.check());
            let wanted = Self::read_all(log, memory, with_redo, until);
            (check.join().unwrap_or_else(|panic| resume_unwind(panic)), wanted)
        });
        // What is found in a damaged log means nothing.
        checked.and(wanted)
    }

    /// Reads the log, sound or not.
    fn read_all(log: &RedoLog, memory: usize, with_redo: usize, until: Option<Lsn>) -> Result<Self> {
        let (mut wanted, checkpoint) = (Self::new(log, until.is_some()), log.checkpoint());
        let mut closed_at = None;
        let mut redo = Some(RedoBatch::new(with_redo).with_grammar(log.grammar()));
        let mut unseen = 0;
        let end = log.scan(None, |scan| {
            scan.run(&mut |scanned| {
                let mtr = &scanned.mtr;
                if let Some(until) = until.filter(|&until| mtr.end > until) {
                    let outside = wanted.outside;
                    wanted.rest.get_or_insert_with(|| Rest::new(until)).add(scanned, checkpoint, outside);
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
                    wanted.fits(memory)?;
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
        wanted.fits(memory)?;
        wanted.changed.extend(wanted.load.spaces());
        wanted.take_later_files()?;
        log.check_end(end)?;
        log.check_copy_end(end)?;
        wanted.redo = redo;
        wanted.settle(log, closed_at, end)?;
        // A server's own log holds all that there ever was of it. An archive may simply not have got that far yet.
        if let (Some(until), Some(_)) = (until.filter(|&until| until > end), log.base_end()) {
            return refused(format!(
                "the archive of the redo log ends at LSN {end}, before LSN {until}: archive the rest first (innokit redo archive), or leave \
                 out --until to recover to its end"
            ));
        }
        Ok(wanted)
    }

    /// Files that MySQL made or renamed after the base copy get their names as MariaDB's do, whose recovery follows names.
    fn take_later_files(&mut self) -> Result<()> {
        let Some(later) = &self.later else { return Ok(()) };
        later.refuse_unlogged(|space| self.said.get(&space).map(|name| name.trim_start_matches("./").to_owned()))?;
        for (space, names) in later.names.iter().filter(|(space, _)| !later.dropped.contains(*space)) {
            self.names.insert(*space, names.clone());
            self.changed.insert(*space);
            self.owners.extend(names.last().map(|last| (last.clone(), *space)));
        }
        Ok(())
    }

    /// Settles where the log and the recovery end. `closed_at` is where the log was closed, `end` where its mini-transactions end.
    fn settle(&mut self, log: &RedoLog, closed_at: Option<Lsn>, end: Lsn) -> Result<()> {
        let (checkpoint_end, name) = (log.checkpoint_end(), log.path.display());
        // After an interruption while the log was being closed, close it in the same place.
        let closed_at = self.named_from.or(closed_at).filter(|&at| at > checkpoint_end);
        self.log_end = end;
        if end < checkpoint_end {
            return damaged(format!(
                "{name}: the redo log ends at LSN {end}, before the end that its checkpoint names"
            ));
        }
        // An earlier run already ended here: the rest is how it closed the log.
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
                    self.changed.insert(SpaceId::SYSTEM);
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
        Self {
            checkpoint,
            end: checkpoint,
            log_end: checkpoint,
            rest: None,
            fresh: FreshPages::default(),
            may_end_before,
            mtrs: 0,
            names: HashMap::new(),
            owners: HashMap::new(),
            named_from: None,
            changed: BTreeSet::new(),
            deleted: HashSet::new(),
            voids: Voids::default(),
            redo: None,
            load: Load::default(),
            heads: RedoBatch::new(usize::MAX).with_grammar(log.grammar()),
            // Only MariaDB's logs name it.
            names_checkpoint: log.grammar() == Grammar::MySql,
            is_backup: log.backup.is_some(),
            grammar: log.grammar(),
            tables: TableStates::default(),
            said: HashMap::new(),
            extended: HashMap::new(),
            is_clean: checkpoint == log.checkpoint_end(),
            outside: log.outside,
            strange: None,
            cipher: log.cipher_mode(),
            definitions: log.base_end().filter(|_| !is_mysql).map(Definitions::after),
            later: log.base_end().filter(|_| is_mysql).map(|end| LaterFiles::after(end, log.outside)),
        }
    }

    /// A log of 10.5 to 10.7 is clean if nothing follows its checkpoint, not even the checkpoint's record, and the system tablespace
    /// agrees. Otherwise closing the log changes the system tablespace, whatever else there is to do.
    fn end_of_blocks(&mut self, log: &RedoLog, scan: &Scan<'_>) -> Result<()> {
        if scan.is_garbled() {
            if let Vendor::MySql(log) = &log.vendor {
                log.check_reason()?;
            }
            return damaged(format!("the redo log is damaged at LSN {}: there is no record", scan.at()));
        }
        if log.grammar() == Grammar::MySql && self.rest.is_none() {
            self.add_unfinished(scan.unfinished());
        }
        self.named_from = None;
        self.is_clean = match &log.vendor {
            Vendor::MariaDb(log) => self.mtrs == 0 && log.is_closed_at(scan.at())?,
            // A copy of the log must be replaced, even if nothing is to be applied.
            Vendor::MySql(_) if self.is_backup => false,
            // Table states need no recovery of pages: the server takes them from the log itself.
            Vendor::MySql(log) => self.is_clean && log.flushed()? == Some(self.checkpoint),
        };
        self.names_checkpoint |= self.is_clean;
        if !self.is_clean {
            self.changed.insert(SpaceId::SYSTEM);
        }
        Ok(())
    }

    /// MySQL notes an AUTO_INCREMENT counter as soon as it meets the record, before it knows whether the mini-transaction is complete: the
    /// row that got the value is lost, but the value is not given again.
    fn add_unfinished(&mut self, records: &[u8]) {
        for record in Grammar::MySql.records(records) {
            match record {
                Ok(RedoRecord::File(FileRecord::Table(state))) => self.tables.add(&state),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// The tag of shadow files: they stay valid while the log is unchanged, wherever a run ends.
    pub const fn tag(&self) -> u64 {
        self.checkpoint.0.rotate_left(32) ^ self.log_end.0
    }

    /// Fails if what is kept takes more than `memory` bytes.
    fn fits(&self, memory: usize) -> Result<()> {
        if self.memory() <= memory {
            return Ok(());
        }
        refused(format!(
            "what the redo log says about pages and tablespaces takes more than {} MiB: give it more memory",
            memory >> 20
        ))
    }

    /// The LSNs of copies that may replace torn pages. MySQL's server checks none.
    pub fn lsns_of_copies(&self) -> (Lsn, Lsn) {
        match self.grammar {
            Grammar::MariaDb => (self.checkpoint, self.end),
            Grammar::MySql => (Lsn(0), self.end),
        }
    }

    /// MySQL undo tablespaces that were being truncated at the crash: the server recreates them at startup, whatever they hold.
    pub fn forget_truncated(&mut self, datadir: &Path) {
        if self.grammar == Grammar::MariaDb {
            return;
        }
        let is_truncated = |space: &SpaceId| has_truncation_log(datadir, *space);
        self.deleted.extend(self.changed.iter().copied().filter(is_truncated));
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, Rest::memory);
        self.heads.memory() + self.voids.memory() + self.load.memory() + self.fresh.memory() + rest
    }

    /// Returns where the log ended, if the mini-transaction is the one that closes it.
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
                    self.load.add(id, effect, bytes.len(), goes_on);
                    self.add_change(id, effect, mtr.start);
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
        if !of_heads.is_empty() {
            let added = self.heads.add(&Mtr { bytes: &of_heads, ..*mtr });
            added.or_else(|error| damaged(format!("the redo log at LSN {}: {error}", mtr.start)))?;
        }
        self.named_from = only_names.then_some(named_from);
        Ok(closes)
    }

    fn add_change(&mut self, id: PageId, effect: Effect, start: Lsn) {
        if self.may_end_before {
            self.fresh.add(id, effect);
        }
        if effect.voids_page() {
            self.voids.add(id, start);
        }
        if effect == Effect::Trims {
            self.voids.trim(id, start);
        }
    }

    fn add_file(&mut self, record: &FileRecord<'_>) {
        self.is_clean &= matches!(record, FileRecord::Modify { .. } | FileRecord::Padding | FileRecord::Table(_));
        match *record {
            FileRecord::Create { space, name } | FileRecord::Modify { space, name } => self.add_name(space, name),
            // MySQL does not replay renames, and finds tablespaces by number.
            FileRecord::Rename { space, to, .. } if self.grammar == Grammar::MySql => self.add_name(space, to),
            FileRecord::Extend { space, end } => {
                let known = self.extended.entry(space).or_default();
                *known = end.max(*known);
            }
            FileRecord::Table(ref state) => self.tables.add(state),
            FileRecord::Rename { space, from, to } => {
                // The backup tool's notes have the renames that it found.
                if !self.is_backup {
                    self.changed.insert(space);
                }
                self.add_name(space, from);
                self.add_name(space, to);
            }
            FileRecord::Delete { space, .. } => {
                self.deleted.insert(space);
            }
            FileRecord::Checkpoint(_) | FileRecord::Padding | FileRecord::Load { .. } => {}
        }
    }

    fn add_name(&mut self, space: SpaceId, name: &[u8]) {
        let name = Path::new(OsStr::from_bytes(name));
        if self.grammar == Grammar::MySql {
            self.said.insert(space, name.display().to_string());
            return;
        }
        if self.is_backup {
            self.said.insert(space, name.strip_prefix("./").unwrap_or(name).display().to_string());
        }
        let Some(path) = self.outside.path_of(name) else {
            // Names change nothing in a backup.
            if self.is_backup {
                return;
            }
            self.strange = Some((space, name.display().to_string()));
            return;
        };
        self.owners.insert(path.clone(), space);
        let names = self.names.entry(space).or_default();
        if names.last() != Some(&path) {
            names.push(path);
        }
    }

    /// The names of files outside of the datadir.
    pub fn names_outside(&self) -> impl Iterator<Item = &PathBuf> {
        self.names.values().flatten().filter(|path| path.is_absolute())
    }

    /// The names of a tablespace, in the order of the log.
    pub fn names_of(&self, space: SpaceId) -> &[PathBuf] {
        self.names.get(&space).map(Vec::as_slice).unwrap_or_default()
    }

    /// Pages that the log frees or initializes.
    pub fn voided(&self) -> impl Iterator<Item = PageId> {
        self.voids.pages()
    }

    /// Whether a page needs the redo of the mini-transaction that began at `start`.
    pub fn is_of_use(&self, id: PageId, start: Lsn) -> bool {
        !self.deleted.contains(&id.space) && self.voids.spare(id, start)
    }
}
