//! File operations in the redo log since its checkpoint: the dictionary on disk may not include them yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::keyring::KeyStore;
use redo::LogVendor;
use redo::record::{FileRecord, Mtr, RedoRecord, Subject};

use super::ring::Ring;
use crate::mysql_log::MySqlLog;
use crate::redo_log::{identify, log_files};

/// What the log does to files.
#[derive(Debug)]
pub(super) struct FileEvents {
    /// The log's vendor.
    pub kind: LogVendor,
    /// Tablespaces whose files the log creates.
    pub created: HashSet<u32>,
    /// Tablespaces whose files the log deletes.
    pub deleted: HashSet<u32>,
    /// Tablespaces whose files the log renames, with the last name.
    pub renamed: HashMap<u32, PathBuf>,
    /// The file names that the log gives for the tablespaces it changes; only MariaDB's does.
    pub called: HashMap<u32, PathBuf>,
    /// Tablespaces whose pages it changes.
    pub changed: BTreeSet<u32>,
    /// Where the log ends, or where reading stopped.
    pub end: Lsn,
    /// Read to its end.
    pub is_whole: bool,
}

/// Whether MySQL's log in the datadir `root` has AUTO_INCREMENT counters that the dictionary lacks. A recovery closes the log with them, and the
/// server takes them from there. A log that cannot be read may have some.
pub fn has_counters(root: &Path, keys: &KeyStore) -> bool {
    let is_counter = |record: &RedoRecord<'_>| matches!(record, RedoRecord::File(FileRecord::Table(_)));
    let Ok(log) = MySqlLog::open(&log_files(root), keys) else { return true };
    let from = (log.checkpoint.lsn, log.stretches.as_slice());
    let read = log.each_mtr(from, u64::MAX, |mtr| {
        mtr.records().all(|record| record.is_ok_and(|record| !is_counter(&record))).then_some(())
    });
    read.is_none()
}

/// The pages of these tablespaces that the log in the datadir `root` changes after its newest checkpoint: the disk may have older versions.
/// `None` if the log cannot be read to its end, or not within about `bytes`.
#[must_use]
pub fn changed_pages(
    root: &Path,
    keys: &KeyStore,
    spaces: &BTreeSet<u32>,
    bytes: u64,
) -> Option<BTreeMap<u32, BTreeSet<u32>>> {
    let mut changed: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let add = |mtr: &Mtr<'_>| {
        for record in mtr.records() {
            if let Subject::Page(id, _) = record.ok()?.subject()
                && spaces.contains(&id.space.0)
            {
                changed.entry(id.space.0).or_default().insert(id.page_no.0);
            }
        }
        Some(())
    };
    let (_, is_whole) = match log_of(root)? {
        (LogVendor::MySql, paths) => {
            let log = MySqlLog::open(&paths, keys).ok()?;
            log.each_mtr((log.checkpoint.lsn, &log.stretches), bytes, add)?
        }
        (LogVendor::MariaDb, _) => {
            let ring = Ring::open(root, keys)?;
            ring.each_mtr(ring.log.checkpoint.lsn, bytes, add)?
        }
    };
    is_whole.then_some(changed)
}

/// The files of the log in a datadir, and whose they are.
fn log_of(root: &Path) -> Option<(LogVendor, Vec<PathBuf>)> {
    let paths = log_files(root);
    let vendor = identify(paths.first()?).ok()?;
    Some((vendor, paths))
}

impl FileEvents {
    /// Reads up to about `bytes` of the log in the datadir `root`. `None` if that fails: the log may then say anything.
    pub fn read(root: &Path, keys: &KeyStore, bytes: u64) -> Option<Self> {
        match log_of(root)? {
            (LogVendor::MySql, paths) => Self::of_mysql(&paths, keys, bytes),
            (LogVendor::MariaDb, _) => Self::of_mariadb(root, keys, bytes),
        }
    }

    fn new(kind: LogVendor, end: Lsn) -> Self {
        let (created, deleted, renamed) = (HashSet::new(), HashSet::new(), HashMap::new());
        let (called, changed) = (HashMap::new(), BTreeSet::new());
        Self { kind, created, deleted, renamed, called, changed, end, is_whole: false }
    }

    fn of_mariadb(root: &Path, keys: &KeyStore, bytes: u64) -> Option<Self> {
        let ring = Ring::open(root, keys)?;
        let from = ring.log.checkpoint.lsn;
        let mut events = Self::new(LogVendor::MariaDb, from);
        (events.end, events.is_whole) = ring.each_mtr(from, bytes, |mtr| events.add(mtr))?;
        Some(events)
    }

    fn of_mysql(paths: &[PathBuf], keys: &KeyStore, bytes: u64) -> Option<Self> {
        let log = MySqlLog::open(paths, keys).ok()?;
        let from = log.checkpoint.lsn;
        let mut events = Self::new(LogVendor::MySql, from);
        (events.end, events.is_whole) = log.each_mtr((from, &log.stretches), bytes, |mtr| events.add(mtr))?;
        Some(events)
    }

    fn add(&mut self, mtr: &Mtr<'_>) -> Option<()> {
        let path = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
        for record in mtr.records() {
            let record = record.ok()?;
            if let Subject::Page(id, _) = record.subject() {
                self.changed.insert(id.space.0);
            }
            let RedoRecord::File(record) = record else { continue };
            match record {
                FileRecord::Create { space, name } => {
                    self.created.insert(space.0);
                    self.called.insert(space.0, path(name));
                }
                FileRecord::Delete { space, .. } => drop(self.deleted.insert(space.0)),
                FileRecord::Rename { space, to, .. } => {
                    self.renamed.insert(space.0, path(to));
                    self.called.insert(space.0, path(to));
                }
                FileRecord::Modify { space, name } => drop(self.called.insert(space.0, path(name))),
                _ => {}
            }
        }
        Some(())
    }

    /// Whether the log does anything to the files of these tablespaces.
    pub fn concern(&self, spaces: &[u32]) -> bool {
        spaces.iter().any(|space| self.makes_or_moves(*space) || self.deleted.contains(space))
    }

    /// Whether the log explains why this tablespace has no file. MariaDB's recovery creates the file; MySQL's expects to find it.
    pub fn explain_missing(&self, space: u32) -> bool {
        let is_made = self.created.contains(&space) && self.kind == LogVendor::MariaDb;
        is_made || self.deleted.contains(&space) || self.renamed.contains_key(&space)
    }

    fn makes_or_moves(&self, space: u32) -> bool {
        self.created.contains(&space) || self.renamed.contains_key(&space)
    }
}
