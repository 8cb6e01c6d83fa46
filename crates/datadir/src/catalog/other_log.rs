//! Does the redo log belong to this datadir? A log names no server. But a server never writes a page before the log that changed it, it
//! changes only tablespaces that it has, and it cannot read another vendor's log. If all three hold, nothing suggests a foreign log.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::bytes::be;
use format::fil::{FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_LSN};
use format::keyring::KeyStore;
use format::page::rollback::{TRX_ID_WRITE_MARGIN, TRX_SYS_PAGE_NO, next_transaction};
use format::{Family, Lsn};
use redo::LogVendor;

use super::entry::{Dictionary, Holds};
use super::history::{Contradiction, History};
use super::log::FileEvents;
use super::{Catalog, CatalogFinding, Held, Says};
use crate::backup_notes::{BackupNotes, is_own_increment};
use crate::files;
use crate::finding_code::FindingCode;
use crate::name::NameHint;
use crate::redo_log::{RedoLogs, awaits_clone, identify, log_files};
use crate::severity::Severity;
use crate::tablespace::{Opener, Tablespace};

/// A stretch of log this long always contains a page change.
const SILENCE: u64 = 32 << 10;
/// How much of a pending log to read first: it names the tablespaces it changes early on.
const FIRST_LOOK: u64 = 16 << 20;
/// Pages of the system tablespace that servers write all the time.
const SYSTEM_PAGES: u32 = 8;
/// Pages of a tablespace compared with the log, at most.
const PAGES_MAX: usize = 1024;
/// The same for a table, which is one file from one time.
const TABLE_PAGES_MAX: usize = 32;
/// Tablespaces named in a finding at most.
const NAMED_MAX: usize = 5;
/// Ids of MySQL's undo tablespaces change and those of its temporary ones are short-lived: from here on an id proves nothing.
const PASSING_MIN: u32 = 0xFFFF_FFF0 - 128 * 400_000;

impl Catalog {
    /// Evidence that the redo log is from another server or another time than the files: than all of them, or than those of single tables.
    pub(super) fn other_log(
        &self,
        dictionary: &Dictionary,
        held: &[&Held],
        redo: &mut RedoLogs,
    ) -> Vec<CatalogFinding> {
        // The donor's files, and the log of the server that received them.
        if awaits_clone(&self.root).is_some() {
            return Vec::new();
        }
        let log = log_files(&self.root).into_iter().next();
        let Some((log, kind)) = log.and_then(|log| identify(&log).ok().map(|kind| (log, kind))) else {
            return Vec::new();
        };
        let system = held.iter().map(|held| &held.space).find(|space| self.is_system(space));
        let of_all = |why: String| {
            let message = format!(
                "this log is from another server or another time than the datadir: {why}; restore both from one backup"
            );
            let (table, reason, severity) = (None, "other_log".into(), Severity::Damage);
            vec![CatalogFinding { path: log.clone(), table, reason, severity, message }]
        };
        let why = system.and_then(|system| {
            other_vendor(kind, system.format.family())
                .or_else(|| self.by_lsn(system, redo))
                .or_else(|| self.by_tablespaces(dictionary, held, redo))
        });
        if let Some(why) = why {
            return of_all(why);
        }
        let names = names_of_tables(dictionary);
        let is_pending = redo.pending_for(&self.probe()).is_some();
        // Parses up to 32 MiB of log, just once, for the server's own tablespaces and for tables.
        let history = is_pending.then(|| self.history(&names, held)).flatten();
        if let Some(why) =
            history.as_ref().filter(|_| system.is_some()).and_then(|history| self.by_pages(held, history))
        {
            return of_all(why);
        }
        if let Some(silent) = system.and_then(|system| self.by_silence(system, held, redo)) {
            return vec![silent];
        }
        // A single foreign table among files that the log fits.
        history.map(|history| stale_tables(&history, &names, held)).unwrap_or_default()
    }

    /// MySQL's system tablespace is older than the dictionary: it knows fewer transactions. The server crashes on that.
    pub(super) fn older_system(
        &self,
        dictionary: &Dictionary,
        held: &[&Held],
        redo: &mut RedoLogs,
    ) -> Option<CatalogFinding> {
        let system = held.iter().map(|held| &held.space).find(|space| self.is_system(space))?;
        // The id on disk is ahead of every id given out, unless the update is still in the log.
        if !dictionary.is_in_files || redo.pending_for(&self.probe()).is_some() {
            return None;
        }
        let page = system.sound(TRX_SYS_PAGE_NO.0, &mut Opener::new()).ok()?;
        let next = next_transaction(&page)?;
        let newest = dictionary.newest_transaction;
        let message = format!(
            "older than the dictionary: it knows transactions up to number {next}, but number {newest} wrote to mysql.ibd; it was copied \
             at another time, or from another server: restore all files from one backup"
        );
        let (path, severity) = (system.path().to_path_buf(), Severity::Damage);
        (newest >= next.saturating_add(TRX_ID_WRITE_MARGIN)).then_some(CatalogFinding {
            path,
            table: None,
            reason: FindingCode::STALE_FILE,
            severity,
            message,
        })
    }

    /// The datadir's path and keys, and the end of its log, if its files are expected to be of one moment: all of them were read or could be, its server has shut down, and no tool
    /// copied them.
    #[must_use]
    pub fn at_rest(&self, redo: &mut RedoLogs) -> Option<(&Path, &KeyStore, Option<Lsn>)> {
        let is_whole = matches!(self.says, Says::All(_)) && self.selection.is_all() && !is_own_increment(&self.root);
        let is_at_rest = is_whole && BackupNotes::of(&self.root).is_none() && redo.pending_for(&self.probe()).is_none();
        is_at_rest.then(|| (self.root.as_path(), &self.keys, redo.clean_end_for(&self.probe())))
    }

    /// The last AUTO_INCREMENT value that MySQL's dictionary has of each table that has given one out.
    pub fn counters(&self) -> Option<&HashMap<Arc<str>, u64>> {
        match &self.says {
            Says::All(dictionary) => Some(&dictionary.counters),
            _ => None,
        }
    }

    fn is_system(&self, space: &Tablespace) -> bool {
        space.format.space().0 == 0 && space.path().parent() == Some(self.root.as_path())
    }

    /// The system tablespace was written after the log's end.
    fn by_lsn(&self, system: &Tablespace, redo: &mut RedoLogs) -> Option<String> {
        let lsn = |page: u32| {
            let stored = system.stored(page).ok()?;
            // A damaged page's LSN means nothing.
            let is_sound = system.sound(page, &mut Opener::new()).is_ok();
            be::u64_at(&stored, FIL_PAGE_LSN).filter(|_| is_sound)
        };
        let newest = Lsn((0..SYSTEM_PAGES.min(system.pages())).filter_map(lsn).max()?);
        let probe = self.probe();
        redo.checkpoint_for(&probe).filter(|(_, checkpoint)| newest > *checkpoint)?;
        let end = match redo.clean_end_for(&probe) {
            Some(end) => end,
            None => FileEvents::read(&self.root, &self.keys, u64::MAX).filter(|events| events.is_whole)?.end,
        };
        (newest > end)
            .then(|| format!("the system tablespace was written at LSN {newest}, but the log ends at LSN {end}"))
    }

    /// At shutdown MySQL records the log's end in the system tablespace. If the log continued from there, every change between that LSN and
    /// its checkpoint is on disk. So if no page is newer than that LSN, the files are older than the log or from another server.
    fn by_silence(&self, system: &Tablespace, held: &[&Held], redo: &mut RedoLogs) -> Option<CatalogFinding> {
        let page = system.sound(0, &mut Opener::new()).ok().filter(|_| system.format.family() == Family::MySql)?;
        let flushed = Lsn(be::u64_at(&page, FIL_PAGE_FILE_FLUSH_LSN)?);
        let probe = self.probe();
        redo.pending_for(&probe)?;
        let (_, checkpoint) = redo.checkpoint_for(&probe)?;
        let newest = held.iter().map(|held| held.newest).max()?;
        // A starting server writes more than this, to many pages.
        if checkpoint.0.saturating_sub(flushed.0) < SILENCE || newest > flushed || newest == Lsn(0) {
            return None;
        }
        let message = format!(
            "this log may be from another server or another time than the datadir: its checkpoint is at LSN {checkpoint}, but no page that was read is newer than LSN {newest}; restore both from one backup"
        );
        let (path, severity) = (log_files(&self.root).into_iter().next()?, Severity::Undecided);
        Some(CatalogFinding { path, table: None, reason: "other_log".into(), severity, message })
    }

    /// The log changes tablespaces that do not exist here.
    fn by_tablespaces(&self, dictionary: &Dictionary, held: &[&Held], redo: &mut RedoLogs) -> Option<String> {
        redo.pending_for(&self.probe())?;
        let mut known: HashSet<u32> = held.iter().map(|held| held.space.format.space().0).collect();
        known.extend(dictionary.entries.iter().map(|entry| entry.space));
        let paths: HashSet<&Path> = held.iter().map(|held| held.space.path()).collect();
        let strange = |events: &FileEvents| -> Vec<u32> {
            let is_strange = |space: &&u32| {
                !known.contains(*space) && **space < PASSING_MIN && !self.is_explained(**space, events, &paths)
            };
            events.changed.iter().filter(is_strange).copied().collect()
        };
        let first = FileEvents::read(&self.root, &self.keys, FIRST_LOOK)?;
        if strange(&first).is_empty() && self.by_names(&first, held).is_none() {
            return None;
        }
        // A tablespace that the log deletes later on may be missing.
        let events = if first.is_whole { first } else { FileEvents::read(&self.root, &self.keys, u64::MAX)? };
        let strange = strange(&events);
        if strange.is_empty() {
            return self.by_names(&events, held);
        }
        let name = |space: &u32| match events.called.get(space) {
            Some(name) => format!("{space} ({})", name.display()),
            None => space.to_string(),
        };
        let names: Vec<String> = strange.iter().take(NAMED_MAX).map(name).collect();
        let more = if strange.len() > NAMED_MAX { " ..." } else { "" };
        Some(format!(
            "it changes tablespaces that neither the dictionary nor a file here knows: {}{more}",
            names.join(", ")
        ))
    }

    /// What the log says about pages of the server's own tablespaces and of these tables.
    fn history(&self, tables: &HashMap<u32, &str>, held: &[&Held]) -> Option<History> {
        let own = self.written_by_log(held).map(|space| space.format.space().0);
        History::read(&self.root, &self.keys, &own.chain(tables.keys().copied()).collect())
    }

    /// The system and undo tablespaces, which are never written without redo.
    fn written_by_log<'h>(&self, held: &[&'h Held]) -> impl Iterator<Item = &'h Tablespace> {
        held.iter()
            .map(|held| &held.space)
            .filter(|space| self.is_system(space) || NameHint::of(space.path()) == NameHint::Undo)
    }

    /// The log's history of the system tablespace, or of an undo tablespace, does not match the pages.
    fn by_pages(&self, held: &[&Held], history: &History) -> Option<String> {
        self.written_by_log(held).find_map(|space| {
            let number = space.format.space().0;
            contradicted(space, history.pages_of(number), |page, lsn| history.contradicts(number, page, lsn))
        })
    }

    /// Whether the log itself explains why no tablespace here has this id. MySQL creates a file before it logs the creation, and writes
    /// page 0 even later, so a file of that name without a readable id is the tablespace.
    fn is_explained(&self, space: u32, events: &FileEvents, held: &HashSet<&Path>) -> bool {
        let is_unreadable = |path: &Path| !held.contains(path) && files::exists(path);
        events.explain_missing(space)
            || events.called.get(&space).is_some_and(|name| is_unreadable(&self.path_of(name)))
    }

    /// The path of the file that the log calls `name`.
    fn path_of(&self, name: &Path) -> PathBuf {
        self.root.join(name.strip_prefix("./").unwrap_or(name))
    }

    /// MariaDB's log names the files it changes. Looks for a name whose file holds another tablespace, although the log creates, renames
    /// and deletes the files of neither.
    fn by_names(&self, events: &FileEvents, held: &[&Held]) -> Option<String> {
        let files: HashMap<&Path, &Tablespace> = held.iter().map(|held| (held.space.path(), &held.space)).collect();
        let mut called: Vec<(u32, PathBuf)> =
            events.called.iter().map(|(space, name)| (*space, self.path_of(name))).collect();
        called.sort_unstable();
        called.into_iter().find_map(|(space, path)| {
            let file = files.get(path.as_path())?;
            let other = file.format.space().0;
            (other != space && !events.concern(&[space, other]))
                .then(|| format!("it calls tablespace {space} {}, but that file is tablespace {other}", path.display()))
        })
    }
}

/// A log of the wrong vendor for these tablespaces.
fn other_vendor(log: LogVendor, spaces: Family) -> Option<String> {
    let why = match (log, spaces) {
        (LogVendor::MySql, Family::MariaDb) => "it is a MySQL log, but the tablespaces are MariaDB's",
        (LogVendor::MariaDb, Family::MySql) => "it is a MariaDB log, but the tablespaces are MySQL's",
        _ => return None,
    };
    Some(why.to_owned())
}

/// Table names by space id.
fn names_of_tables(dictionary: &Dictionary) -> HashMap<u32, &str> {
    let tables = dictionary.entries.iter().filter(|entry| matches!(entry.holds, Holds::Table | Holds::Several));
    tables.map(|entry| (entry.space, entry.name.as_str())).collect()
}

/// Tables whose files are from another server or another time than a log with work to do on them. The log's changes were not made to these
/// pages, so the server's recovery would end in corruption or a crash.
fn stale_tables(history: &History, names: &HashMap<u32, &str>, held: &[&Held]) -> Vec<CatalogFinding> {
    let mut spaces: HashMap<u32, &Tablespace> = HashMap::new();
    for held in held {
        // If two files have the same id, the first counts.
        spaces.entry(held.space.format.space().0).or_insert(&held.space);
    }
    let mut found = Vec::new();
    for (number, mut pages) in history.tables() {
        let (Some(name), Some(space)) = (names.get(&number), spaces.get(&number)) else { continue };
        pages.truncate(TABLE_PAGES_MAX);
        let why = contradicted(space, pages, |page, lsn| history.contradicts_table(number, page, lsn));
        found.extend(why.map(|why| {
            let message = format!(
                "from another server or another time than the redo log, which has yet to change it: {why}; restore both from one backup"
            );
            let (path, table, severity) = (space.path().to_path_buf(), Some((*name).to_owned()), Severity::Damage);
            CatalogFinding { path, table, reason: FindingCode::STALE_FILE, severity, message }
        }));
    }
    found
}

/// The first of these pages that the log contradicts.
fn contradicted(
    space: &Tablespace,
    mut pages: Vec<u32>,
    contradicts: impl Fn(u32, Lsn) -> Option<Contradiction>,
) -> Option<String> {
    pages.retain(|page| *page < space.pages() && !space.format.is_doublewrite_slot(space.id(*page)));
    pages.truncate(PAGES_MAX);
    let (mut opener, mut found) = (Opener::new(), None);
    space.each_stored(&pages, |page, stored| {
        let Ok(stored) = stored else { return };
        let lsn = be::u64_at(stored, FIL_PAGE_LSN).map(Lsn).filter(|_| found.is_none());
        let why = lsn.and_then(|lsn| Some((lsn, contradicts(page, lsn)?)));
        // A damaged page's LSN means nothing.
        let Some((lsn, why)) = why.filter(|_| space.opened(page, stored, &mut opener).is_ok()) else { return };
        let of = format!("page {page} of {}", space.path().display());
        found = Some(match why {
            Contradiction::NotHere(_) => {
                format!("{of} was written at LSN {lsn}, but this log has no change to it that ends there")
            }
            Contradiction::Lost(end) => format!(
                "{of} was written at LSN {lsn} and lacks the change that this log made by LSN {end}, before its checkpoint"
            ),
        });
    });
    found
}
