//! Is the redo log that of this datadir? A log names no server. But a server writes no page before the log that changed it, it changes
//! only tablespaces that it has, and it reads no other vendor's log. Where these three hold, nothing shows that the log is another's.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::page::fil::{FIL_PAGE_DATA, FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_LSN};
use format::page::rollback::TRX_SYS_PAGE_NO;
use format::{Family, Lsn};
use redo::LogVendor;

use super::entry::{Dictionary, Holds};
use super::history::{Contradiction, History};
use super::log::FileEvents;
use super::{Catalog, CatalogFinding, Held};
use crate::finding_code::FindingCode;
use crate::report::document::Severity;
use crate::source::name::NameHint;
use crate::source::redo_log::{RedoLogs, identify, log_files};
use crate::tree::{Opener, Tablespace};

/// So much of the log is never without a change to a page.
const SILENCE: u64 = 32 << 10;
/// How far the number of the next transaction on the disk may lag behind.
const TRX_ID_MARGIN: u64 = 256;
/// So much of a pending log is read at first: it names early what it changes.
const FIRST_LOOK: u64 = 16 << 20;
/// Pages of the system tablespace that servers write all the time.
const SYSTEM_PAGES: u32 = 8;
/// So many pages of a tablespace are held against the log.
const PAGES_MAX: usize = 1024;
/// So many of a table: it is the same file throughout.
const TABLE_PAGES_MAX: usize = 32;
/// How many tablespaces a finding names.
const NAMED_MAX: usize = 5;
/// MySQL's undo tablespaces change their numbers, and those of its temporary tables end with it: from here on numbers say nothing.
const PASSING_MIN: u32 = 0xFFFF_FFF0 - 128 * 400_000;

impl Catalog {
    /// What shows that the redo log is of another server, or of another time, than the files: than all of them, or than those of tables.
    pub(super) fn other_log(&self, dictionary: &Dictionary, held: &[Held], redo: &mut RedoLogs) -> Vec<CatalogFinding> {
        let log = log_files(&self.root).into_iter().next();
        let Some((log, kind)) = log.and_then(|log| identify(&log).ok().map(|kind| (log, kind))) else {
            return Vec::new();
        };
        let system = held.iter().map(|held| &held.space).find(|space| self.is_system(space));
        let of_all = |why: String| {
            let message = format!(
                "this log is of another server or another time than the datadir: {why}; restore both from one backup"
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
        // This parses up to 32 MiB of log: once, for the server's own tablespaces and for tables.
        let history = is_pending.then(|| self.history(&names, held)).flatten();
        if let Some(why) =
            history.as_ref().filter(|_| system.is_some()).and_then(|history| self.by_pages(held, history))
        {
            return of_all(why);
        }
        if let Some(silent) = system.and_then(|system| self.by_silence(system, held, redo)) {
            return vec![silent];
        }
        // One table from elsewhere, among files that the log fits.
        history.map(|history| stale_tables(&history, &names, held)).unwrap_or_default()
    }

    /// The system tablespace of MySQL is older than the dictionary: it knows fewer transactions. The server dies of that.
    pub(super) fn older_system(
        &self,
        dictionary: &Dictionary,
        held: &[Held],
        redo: &mut RedoLogs,
    ) -> Option<CatalogFinding> {
        let system = held.iter().map(|held| &held.space).find(|space| self.is_system(space))?;
        // The number on the disk is ahead of those that were given out, unless the log has it.
        if !dictionary.is_in_files || redo.pending_for(&self.probe()).is_some() {
            return None;
        }
        let page = system.sound(TRX_SYS_PAGE_NO.0, &mut Opener::new()).ok()?;
        let next = be::u64_at(&page, FIL_PAGE_DATA)?;
        let newest = dictionary.newest_transaction;
        let message = format!(
            "older than the dictionary: it knows transactions up to number {next}, and number {newest} wrote in mysql.ibd; it was copied \
             at another time, or from another server"
        );
        let (path, severity) = (system.path().to_path_buf(), Severity::Damage);
        // Servers note the number when it comes to a multiple of this.
        (newest >= next.saturating_add(TRX_ID_MARGIN)).then_some(CatalogFinding {
            path,
            table: None,
            reason: FindingCode::STALE_FILE,
            severity,
            message,
        })
    }

    fn is_system(&self, space: &Tablespace) -> bool {
        space.format.space().0 == 0 && space.path().parent() == Some(self.root.as_path())
    }

    /// The system tablespace was written later than the log's end.
    fn by_lsn(&self, system: &Tablespace, redo: &mut RedoLogs) -> Option<String> {
        let lsn = |page: u32| {
            let stored = system.stored(page).ok()?;
            // Of a page that is damaged nobody knows the LSN.
            let is_sound = system.sound(page, &mut Opener::new()).is_ok();
            be::u64_at(&stored, FIL_PAGE_LSN).filter(|_| is_sound)
        };
        let newest = Lsn((0..SYSTEM_PAGES.min(system.pages())).filter_map(lsn).max()?);
        let probe = self.probe();
        let (_, checkpoint) = redo.checkpoint_for(&probe).filter(|(_, checkpoint)| newest > *checkpoint)?;
        let is_pending = redo.pending_for(&probe).is_some();
        let end = match is_pending {
            false => checkpoint,
            true => FileEvents::read(&self.root, &self.keys, u64::MAX).filter(|events| events.is_whole)?.end,
        };
        (newest > end)
            .then(|| format!("the system tablespace was written at LSN {newest}, and the log ends at LSN {end}"))
    }

    /// MySQL notes in the system tablespace where the log ended when it was shut down. What was written between there and the checkpoint of
    /// a log that goes on is on the disk; where no page is newer than the note, these are files of before, or of another server.
    fn by_silence(&self, system: &Tablespace, held: &[Held], redo: &mut RedoLogs) -> Option<CatalogFinding> {
        let page = system.sound(0, &mut Opener::new()).ok().filter(|_| system.format.family() == Family::MySql)?;
        let flushed = Lsn(be::u64_at(&page, FIL_PAGE_FILE_FLUSH_LSN)?);
        let probe = self.probe();
        redo.pending_for(&probe)?;
        let (_, checkpoint) = redo.checkpoint_for(&probe)?;
        let newest = held.iter().map(|held| held.newest).max()?;
        // A server that starts writes more than this, and to many pages.
        if checkpoint.0.saturating_sub(flushed.0) < SILENCE || newest > flushed || newest == Lsn(0) {
            return None;
        }
        let message = format!(
            "this log may be of another server or another time than the datadir: it was written to the files up to LSN {checkpoint}, and no \
             page that was read is newer than LSN {newest}; restore both from one backup"
        );
        let (path, severity) = (log_files(&self.root).into_iter().next()?, Severity::Undecided);
        Some(CatalogFinding { path, table: None, reason: "other_log".into(), severity, message })
    }

    /// The log changes tablespaces that are nowhere.
    fn by_tablespaces(&self, dictionary: &Dictionary, held: &[Held], redo: &mut RedoLogs) -> Option<String> {
        redo.pending_for(&self.probe())?;
        let mut known: HashSet<u32> = held.iter().map(|held| held.space.format.space().0).collect();
        known.extend(dictionary.entries.iter().map(|entry| entry.space));
        let strange = |events: &FileEvents| -> Vec<u32> {
            let is_strange = |space: &&u32| {
                !known.contains(*space) && **space < PASSING_MIN && !self.is_explained(**space, events, held)
            };
            events.changed.iter().filter(is_strange).copied().collect()
        };
        let first = FileEvents::read(&self.root, &self.keys, FIRST_LOOK)?;
        if strange(&first).is_empty() && self.by_names(&first, held).is_none() {
            return None;
        }
        // What it deletes later explains why it is not here.
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

    /// What the log says of the pages of the server's own tablespaces and of these tables.
    fn history(&self, tables: &HashMap<u32, &str>, held: &[Held]) -> Option<History> {
        let own = self.written_by_log(held).map(|space| space.format.space().0);
        History::read(&self.root, &self.keys, &own.chain(tables.keys().copied()).collect())
    }

    /// The system tablespace and undo tablespaces, to whose pages nothing is written past the log.
    fn written_by_log<'h>(&self, held: &'h [Held]) -> impl Iterator<Item = &'h Tablespace> {
        held.iter()
            .map(|held| &held.space)
            .filter(|space| self.is_system(space) || NameHint::of(space.path()) == NameHint::Undo)
    }

    /// The log knows another history of the system tablespace, or of an undo tablespace, than its pages have.
    fn by_pages(&self, held: &[Held], history: &History) -> Option<String> {
        self.written_by_log(held).find_map(|space| {
            let number = space.format.space().0;
            contradicted(space, history.pages_of(number), |page, lsn| history.contradicts(number, page, lsn))
        })
    }

    /// Whether the log itself explains why no tablespace here has this number. MySQL makes a file before its log says so, and writes
    /// page 0 later than both: a file of that name which no number can be read from is the one.
    fn is_explained(&self, space: u32, events: &FileEvents, held: &[Held]) -> bool {
        let is_unreadable = |path: &Path| path.exists() && held.iter().all(|held| held.space.path() != path);
        events.explain_missing(space)
            || events.called.get(&space).is_some_and(|name| is_unreadable(&self.path_of(name)))
    }

    /// Where the file lies that the log calls by this name.
    fn path_of(&self, name: &Path) -> PathBuf {
        self.root.join(name.strip_prefix("./").unwrap_or(name))
    }

    /// MariaDB's log names the files of the tablespaces that it changes: the file of that name is another tablespace, and the log does
    /// nothing to the files of either.
    fn by_names(&self, events: &FileEvents, held: &[Held]) -> Option<String> {
        let mut called: Vec<(u32, PathBuf)> =
            events.called.iter().map(|(space, name)| (*space, self.path_of(name))).collect();
        called.sort_unstable();
        called.into_iter().find_map(|(space, path)| {
            let file = held.iter().map(|held| &held.space).find(|file| file.path() == path)?;
            let other = file.format.space().0;
            (other != space && !events.concern(&[space, other]))
                .then(|| format!("it calls tablespace {space} {}, and that file is tablespace {other}", path.display()))
        })
    }
}

/// A log of the vendor that does not own the tablespaces.
fn other_vendor(log: LogVendor, spaces: Family) -> Option<String> {
    let why = match (log, spaces) {
        (LogVendor::MySql, Family::MariaDb) => "it is one of MySQL, and the tablespaces are MariaDB's",
        (LogVendor::MariaDb, Family::MySql) => "it is one of MariaDB, and the tablespaces are MySQL's",
        _ => return None,
    };
    Some(why.to_owned())
}

/// The names of tables, by the number of their tablespace.
fn names_of_tables(dictionary: &Dictionary) -> HashMap<u32, &str> {
    let tables = dictionary.entries.iter().filter(|entry| matches!(entry.holds, Holds::Table | Holds::Several));
    tables.map(|entry| (entry.space, entry.name.as_str())).collect()
}

/// Tables whose files are of another server or another time than a log that has work to do on them. What the log changes was not
/// read from these pages, so the server's recovery ends in damage, or in a crash.
fn stale_tables(history: &History, names: &HashMap<u32, &str>, held: &[Held]) -> Vec<CatalogFinding> {
    let mut spaces: HashMap<u32, &Tablespace> = HashMap::new();
    for held in held {
        // Of two files with one number the first counts.
        spaces.entry(held.space.format.space().0).or_insert(&held.space);
    }
    let mut found = Vec::new();
    for (number, mut pages) in history.tables() {
        let (Some(name), Some(space)) = (names.get(&number), spaces.get(&number)) else { continue };
        pages.truncate(TABLE_PAGES_MAX);
        let why = contradicted(space, pages, |page, lsn| history.contradicts_table(number, page, lsn));
        found.extend(why.map(|why| {
            let message = format!(
                "of another server or another time than the redo log, which has work to do on it: {why}; restore both from one backup"
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
        // Of a page that is damaged nobody knows the LSN.
        let Some((lsn, why)) = why.filter(|_| space.opened(page, stored, &mut opener).is_ok()) else { return };
        let of = format!("page {page} of {}", space.path().display());
        found = Some(match why {
            Contradiction::NotHere(_) => {
                format!("{of} was written at LSN {lsn}, and this log has no change to it that ends there")
            }
            Contradiction::Lost(end) => format!(
                "{of} was written at LSN {lsn} and lacks the change that this log made by LSN {end}, before its checkpoint"
            ),
        });
    });
    found
}
