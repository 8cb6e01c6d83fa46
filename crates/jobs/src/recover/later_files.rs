//! File operations in an archive of MySQL's log after the base copy. Tablespaces are created, renamed and dropped in the copy too. No
//! recovery is possible beyond an index that was built without redo.
//!
//! MySQL's own recovery does none of this: it finds the files as the server left them. Definitions need no extra work: they are in the
//! dictionary, `mysql.ibd`, which the redo covers, and the server rolls back unfinished statements when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::keyring::KeyStore;
use format::{Lsn, SpaceId};
use redo::record::{FileRecord, Subject};

use super::error::{Result, refused};
use super::log::{Scanned, file_record};
use super::outside::Outside;
use crate::source::catalog::tablespaces_of;
use crate::unlogged::UnloggedPages;

/// The file operations of a log from an LSN on.
#[derive(Debug)]
pub(super) struct LaterFiles {
    /// The end of the base copy.
    after: Lsn,
    outside: Outside,
    pub made: BTreeSet<SpaceId>,
    /// Where each tablespace that is gone was dropped or discarded.
    pub dropped: BTreeMap<SpaceId, Lsn>,
    /// The names that each tablespace had, in the order of the log.
    pub names: BTreeMap<SpaceId, Vec<PathBuf>>,
    pages: UnloggedPages,
    /// The LSN at which an index was first built without redo.
    loads: BTreeMap<SpaceId, Lsn>,
}

impl LaterFiles {
    pub fn after(after: Lsn, outside: Outside) -> Self {
        Self {
            after,
            outside,
            made: BTreeSet::new(),
            dropped: BTreeMap::new(),
            names: BTreeMap::new(),
            pages: UnloggedPages::default(),
            loads: BTreeMap::new(),
        }
    }

    /// Whether the base copy is from before `until`: then its files contain nothing later than that.
    pub fn is_base_before(&self, until: Lsn) -> bool {
        self.after <= until
    }

    /// Adds a mini-transaction. Fails if its file operations cannot be carried out.
    pub fn add(&mut self, scanned: &Scanned<'_>) -> Result<()> {
        let mtr = &scanned.mtr;
        // The build may have begun before the base copy ended.
        let loads = self.pages.add(mtr);
        if mtr.start < self.after {
            return Ok(());
        }
        for load in loads {
            self.loads.entry(load.space).or_insert(load.lsn);
        }
        for (subject, bytes) in scanned.records() {
            match subject {
                Subject::File => {
                    file_record(mtr.grammar, bytes).map_or(Ok(()), |record| self.add_file(&record, mtr.start))?;
                }
                // The server drops a tablespace only after its last change, so redo after that means it was imported.
                Subject::Page(id, _) if self.dropped.contains_key(&id.space) => {
                    self.refuse_import(id.space, mtr.start)?
                }
                Subject::Page(..) => {}
            }
        }
        Ok(())
    }

    fn add_file(&mut self, record: &FileRecord<'_>, lsn: Lsn) -> Result<()> {
        match *record {
            FileRecord::Create { space, .. } if self.dropped.contains_key(&space) => self.refuse_import(space, lsn),
            FileRecord::Create { space, name } => {
                self.made.insert(space);
                self.add_name(space, name, lsn)
            }
            FileRecord::Rename { space, from, to } => {
                // The base copy has the tablespace under one of these names.
                self.add_name(space, from, lsn)?;
                self.add_name(space, to, lsn)
            }
            FileRecord::Delete { space, .. } => {
                self.dropped.entry(space).or_insert(lsn);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_name(&mut self, space: SpaceId, name: &[u8], lsn: Lsn) -> Result<()> {
        let name = Path::new(OsStr::from_bytes(name));
        let Some(path) = self.outside.path_of(name) else {
            return refused(format!(
                "tablespace {space} is called `{}` from LSN {lsn} on, which no server would choose",
                name.display()
            ));
        };
        if path.is_absolute() {
            return refused(format!(
                "{}: a tablespace outside the datadir was made or renamed at LSN {lsn}, after the base copy: recover to that LSN at most \
                 (--until {lsn}), or take a base copy from after it",
                path.display()
            ));
        }
        let names = self.names.entry(space).or_default();
        if names.last() != Some(&path) {
            names.push(path);
        }
        Ok(())
    }

    /// Fails if a tablespace that exists at the end has pages written without redo. `name_of` gives its name, if the log has it.
    pub fn refuse_unlogged(&self, name_of: impl Fn(SpaceId) -> Option<String>) -> Result<()> {
        let lost = self.loads.iter().filter(|(space, _)| !self.dropped.contains_key(*space));
        let Some((space, lsn)) = lost.min_by_key(|(_, lsn)| **lsn) else { return Ok(()) };
        let name = name_of(*space).map(|name| format!(" ({name})")).unwrap_or_default();
        refused(format!(
            "an index of tablespace {space}{name} was built at LSN {lsn}, after the base copy (LSN {}), and MySQL writes no redo for that: \
             recover to that LSN at most (--until {lsn}), or take a base copy from after it",
            self.after
        ))
    }

    /// Fails if the dictionary still has a tablespace that is gone. MySQL drops the hidden tables of a full-text index before the statement
    /// that drops the index is committed: at a moment in between, the table has an index without files, and a server that reads it aborts.
    pub fn refuse_half_dropped(&self, datadir: &Path, keys: &KeyStore) -> Result<()> {
        if self.dropped.is_empty() {
            return Ok(());
        }
        let known = tablespaces_of(datadir, keys)
            .or_else(|why| refused(format!("{}: the dictionary cannot be read: {why}", datadir.display())))?;
        let half = self.dropped.iter().filter_map(|(space, lsn)| Some((lsn, known.get(&space.0)?)));
        let Some((lsn, name)) = half.min() else { return Ok(()) };
        refused(format!(
            "{name}: the file was dropped at LSN {lsn}, by a statement that had not ended at the moment that was asked for: recover to LSN {lsn} at \
             most (--until {lsn}), or to a moment after the statement"
        ))
    }

    fn refuse_import<T>(&self, space: SpaceId, lsn: Lsn) -> Result<T> {
        let dropped = self.dropped.get(&space).copied().unwrap_or(lsn);
        refused(format!(
            "tablespace {space} was dropped or discarded at LSN {dropped}, after the base copy (LSN {}), and is changed again at LSN {lsn}: it was \
             imported, which MySQL's redo log does not cover: recover to LSN {dropped} at most (--until {dropped}), or take a base copy from \
             after it",
            self.after
        ))
    }
}
