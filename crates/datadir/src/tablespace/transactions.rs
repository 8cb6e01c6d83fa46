//! A datadir's transactions that were neither committed nor rolled back. A server changes a row and its index entries one after the other.
//! Until it has rolled back the transactions that a crash interrupted, some rows and entries disagree even after recovery. That is not
//! damage.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use flow::FileId;
use format::bytes::be;
use format::fil::{FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_LSN};
use format::keyring::KeyStore;
use format::page::rollback::{
    OpenUndo, RSEG_ARRAY_PAGE_NO, TRX_ID_WRITE_MARGIN, TRX_SYS_PAGE_NO, last_in_binlog, last_in_log, newest_in_segment,
    next_transaction, open_undo, rollback_segment_array, rollback_segments, undo_logs, waits_for_binlog,
};
use format::{Family, Lsn, PageId, PageNo, SpaceId};

use super::{FoundFile, Opener, Tablespace};
use crate::inventory::plain;
use crate::name::NameHint;
use crate::{files, system};

/// The number of open transactions in the datadir `dir`; `None` if it is not a datadir.
///
/// # Errors
/// Why an undo log could not be read, as a clause.
pub fn open_in(dir: &Path, keys: &KeyStore) -> Option<Result<u64, String>> {
    Some(numbers_in(dir, keys)?.map(|numbers| numbers.len() as u64))
}

/// What open transactions leave undecided, asked once for each datadir.
#[derive(Debug)]
pub struct OpenTransactions<'k> {
    keys: &'k KeyStore,
    by_dir: HashMap<PathBuf, Option<String>>,
}

impl<'k> OpenTransactions<'k> {
    /// Nothing has been asked yet.
    #[must_use]
    pub fn new(keys: &'k KeyStore) -> Self {
        Self { keys, by_dir: HashMap::new() }
    }

    /// A clause about the transactions that wait to be rolled back in the first of `dirs` that has any; `None` if there are none.
    pub fn waiting_in(&mut self, dirs: &[PathBuf]) -> Option<&str> {
        let (keys, by_dir) = (self.keys, &mut self.by_dir);
        let mut ask =
            |dir: &PathBuf| by_dir.entry(dir.clone()).or_insert_with(|| open_in(dir, keys).and_then(waiting)).is_some();
        let first = dirs.iter().find(|dir| ask(dir))?;
        self.by_dir.get(first)?.as_deref()
    }
}

fn waiting(open: Result<u64, String>) -> Option<String> {
    match open {
        Ok(0) => None,
        Ok(1) => Some("1 transaction waits to be rolled back: the server does that when it starts".to_owned()),
        Ok(count) => Some(format!("{count} transactions wait to be rolled back: the server does that when it starts")),
        Err(why) => Some(format!("it is unknown whether transactions wait to be rolled back: {why}")),
    }
}

/// The ids of the open transactions in the datadir `dir`; `None` if it is not a datadir.
///
/// # Errors
/// As [`open_in`].
pub fn numbers_in(dir: &Path, keys: &KeyStore) -> Option<Result<BTreeSet<u64>, String>> {
    let system = system_files(dir);
    let is_first = |file: &FoundFile| file.path.ends_with("ibdata1") || system::is_first(&file.path);
    let is_there = system.first().is_some_and(is_first);
    is_there.then(|| numbers(dir, &system, keys))
}

/// The files of a datadir's system tablespace, in order.
fn system_files(dir: &Path) -> Vec<FoundFile> {
    system::files_of(dir).into_iter().filter_map(|path| FoundFile::of(path).ok()).collect()
}

/// The files in a datadir whose names match.
fn files(dir: &Path, wanted: impl Fn(NameHint) -> bool) -> Result<Vec<FoundFile>, String> {
    let failed = |error: std::io::Error| format!("{}: {}", dir.display(), plain(&error));
    let mut found = Vec::new();
    for entry in files::read_dir(dir).map_err(failed)? {
        let path = entry.path();
        let hint = NameHint::of(&path);
        let Some(meta) = files::metadata(&path).ok().filter(|meta| meta.is_file() && wanted(hint)) else { continue };
        found.push(FoundFile { path, home: None, file: FileId(0), len: meta.len() });
    }
    found.sort();
    Ok(found)
}

/// The rollback segments of a datadir.
struct Segments {
    /// The tablespaces that may hold some: the system tablespace and the undo tablespaces.
    spaces: Vec<Tablespace>,
    pages: BTreeSet<(SpaceId, PageNo)>,
}

impl Segments {
    fn of(dir: &Path, system: &[FoundFile], keys: &KeyStore, opener: &mut Opener) -> Result<Self, String> {
        let open = |files: &[FoundFile]| {
            let path = files.first().map(|file| file.path.clone()).unwrap_or_default();
            Tablespace::open(files, keys, None).map_err(|why| named(&path, why))
        };
        let system = open(system)?;
        let mut undo = Vec::new();
        for file in files(dir, |hint| hint == NameHint::Undo)? {
            undo.push(open(&[file])?);
        }
        let trx_sys = system.sound(TRX_SYS_PAGE_NO.0, opener).map_err(|why| named(system.path(), why))?;
        let mut pages: BTreeSet<(SpaceId, PageNo)> = rollback_segments(&trx_sys).collect();
        for space in &undo {
            // Undo tablespaces of MariaDB, and of MySQL up to 5.7, have no such page.
            if let Ok(page) = space.sound(RSEG_ARRAY_PAGE_NO.0, opener) {
                pages.extend(rollback_segment_array(&page).map(|page_no| (space.format.space(), page_no)));
            }
        }
        Ok(Self { spaces: std::iter::once(system).chain(undo).collect(), pages })
    }

    /// Each rollback segment's page, with the tablespace that holds it.
    fn each(&self) -> impl Iterator<Item = Result<(&Tablespace, PageNo), String>> {
        self.pages.iter().map(|(id, page_no)| {
            let space = self.spaces.iter().find(|space| space.format.space() == *id);
            Ok((space.ok_or_else(|| format!("undo tablespace {} is missing", id.0))?, *page_no))
        })
    }
}

fn named(path: &Path, why: String) -> String {
    format!("{}: {why}", path.display())
}

fn numbers(dir: &Path, system: &[FoundFile], keys: &KeyStore) -> Result<BTreeSet<u64>, String> {
    let (mut opener, mut transactions) = (Opener::new(), BTreeSet::new());
    let segments = Segments::of(dir, system, keys, &mut opener)?;
    for segment in segments.each() {
        let (space, page_no) = segment?;
        let of_segment = open_undo_logs(space, page_no, &mut opener).map_err(|why| named(space.path(), why))?;
        transactions.extend(of_segment.into_iter().map(|open| open.transaction));
    }
    Ok(transactions)
}

/// The binary log file and position after the last commit in the datadir `dir`, as MariaDB records them in its rollback segments. The
/// file's name is the one in the log's index, without directories. `None` if nothing is recorded, or it cannot be read.
pub fn last_in_binlog_of(dir: &Path, keys: &KeyStore) -> Option<(String, u64)> {
    let system = system_files(dir);
    let mut opener = Opener::new();
    let segments = Segments::of(dir, &system, keys, &mut opener).ok()?;
    let mut newest = None;
    for segment in segments.each() {
        let (space, page_no) = segment.ok()?;
        let page = space.sound(page_no.0, &mut opener).ok()?;
        let noted = last_in_binlog(&page, space.format.logical());
        // A server records the file with or without a directory, depending on how it was started.
        let noted = noted.map(|(name, position)| (name.rsplit('/').next().unwrap_or_default().to_owned(), position));
        // The names end in numbers of a fixed width, so the later name is the later file.
        newest = newest.max(noted);
    }
    newest
}

/// The first pages of the undo logs in the datadir `dir` whose transactions [wait for the binary log](waits_for_binlog), and their
/// transactions. A MySQL transaction may have two logs.
///
/// # Errors
/// As [`open_in`].
pub fn waiting_for_binlog_in(dir: &Path, keys: &KeyStore) -> Result<Vec<(PageId, u64)>, String> {
    let system = system_files(dir);
    let (mut opener, mut waiting) = (Opener::new(), Vec::new());
    let segments = Segments::of(dir, &system, keys, &mut opener)?;
    for segment in segments.each() {
        let (space, page_no) = segment?;
        let number = space.format.space().0;
        let each = each_undo_log(space, page_no, &mut opener, &mut |page_no, page| {
            let open = open_undo(page).filter(|_| waits_for_binlog(page));
            waiting.extend(open.map(|open| (PageId::new(number, page_no), open.transaction)));
        });
        each.map_err(|why| named(space.path(), why))?;
    }
    Ok(waiting)
}

/// How far the transactions of a datadir have come, as its server takes it from the system tablespace and the rollback segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestKnown {
    /// No row and no entry has a transaction with a greater id.
    pub transaction: u64,
    /// When these pages were last written: no transaction ended later.
    pub written: Lsn,
    /// Whether some of these pages may be in undo tablespaces.
    pub has_undo_spaces: bool,
}

/// The same for the datadir `dir`, which a server has shut down. `None` if it cannot be read.
pub fn newest_known_in(dir: &Path, keys: &KeyStore) -> Option<NewestKnown> {
    let system = system_files(dir);
    let mut opener = Opener::new();
    let segments = Segments::of(dir, &system, keys, &mut opener).ok()?;
    let first = segments.spaces.first()?;
    let trx_sys = first.sound(TRX_SYS_PAGE_NO.0, &mut opener).ok()?;
    // 0 in a datadir that a later server of MariaDB made.
    let next = next_transaction(&trx_sys).filter(|next| *next > 0);
    let by_system = next.map_or(0, |next| next.saturating_add(TRX_ID_WRITE_MARGIN - 1));
    if first.format.family() == Family::MySql {
        // At shutdown, MySQL notes the end of its log here.
        let page = first.sound(0, &mut opener).ok()?;
        let written = Lsn(be::u64_at(&page, FIL_PAGE_FILE_FLUSH_LSN)?);
        let known = NewestKnown { transaction: by_system, written, has_undo_spaces: false };
        return (by_system > 0 && written > Lsn(0)).then_some(known);
    }
    let lsn = |page: &[u8]| Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0));
    let has_undo_spaces = segments.spaces.len() > 1;
    let mut known = NewestKnown { transaction: by_system, written: lsn(&trx_sys), has_undo_spaces };
    let mut take = |transaction: Option<u64>, page: &[u8]| {
        known.transaction = known.transaction.max(transaction.unwrap_or(0));
        known.written = known.written.max(lsn(page));
    };
    for segment in segments.each() {
        let (space, page_no) = segment.ok()?;
        let page = space.sound(page_no.0, &mut opener).ok()?;
        take(newest_in_segment(&page, space.format.logical()), &page);
        each_undo_log(space, page_no, &mut opener, &mut |_, page| take(last_in_log(page), page)).ok()?;
    }
    (known.transaction > 0).then_some(known)
}

fn open_undo_logs(space: &Tablespace, rseg: PageNo, opener: &mut Opener) -> Result<Vec<OpenUndo>, String> {
    let mut open = Vec::new();
    each_undo_log(space, rseg, opener, &mut |_, page| open.extend(open_undo(page)))?;
    Ok(open)
}

/// Passes the first page of each undo log of a rollback segment to `take`.
fn each_undo_log(
    space: &Tablespace,
    rseg: PageNo,
    opener: &mut Opener,
    take: &mut dyn FnMut(u32, &[u8]),
) -> Result<(), String> {
    let page = space.sound(rseg.0, opener)?;
    let logs: Vec<u32> = undo_logs(&page, space.format.logical()).map(|page_no| page_no.0).collect();
    let mut failed = None;
    space.each_stored(&logs, |page_no, stored| match stored.and_then(|stored| space.opened(page_no, stored, opener)) {
        Ok(page) => take(page_no, &page),
        Err(why) => failed = Some(why),
    });
    failed.map_or(Ok(()), Err)
}
