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

use crate::recover::error::{RecoverError, Result, refused};
use crate::recover::log::{Scanned, file_record};
use crate::recover::place::outside::Outside;
use crate::recover::place::walk::walk;
use crate::recover::space::head::Head;
use crate::unlogged::UnloggedPages;
use datadir::catalog::{has_open_steps, tablespaces_of};

/// The file operations of a log from an LSN on.
#[derive(Debug)]
pub(in crate::recover) struct LaterFiles {
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

    /// Fails if the dictionary has a tablespace without a file, or would have one after the server's start: MySQL may drop the hidden tables of a
    /// full-text index before the statement is committed, and a server that then reads the index aborts. And the file of a table that is imported
    /// is in no log. `has_file`: whether a tablespace has one.
    pub fn refuse_without_files(
        &self,
        datadir: &Path,
        keys: &KeyStore,
        has_file: impl Fn(SpaceId) -> bool,
    ) -> Result<()> {
        let known = tablespaces_of(datadir, keys)
            .or_else(|why| refused(format!("{}: the dictionary cannot be read: {why}", datadir.display())))?;
        let unread = |why: String| refused(format!("{}: the dictionary cannot be read: {why}", datadir.display()));
        if has_open_steps(datadir, keys).or_else(unread)? {
            let why = "a statement that drops a table or an index had not ended at the moment that was asked for, and a server that starts there \
                       removes the files and pages although it rolls the statement back";
            return Err(RecoverError::Within { why: why.to_owned(), base_end: self.after });
        }
        let half = self.dropped.iter().filter_map(|(space, lsn)| Some((lsn, &known.get(&space.0)?.0)));
        if let Some((lsn, name)) = half.min() {
            return refused(format!(
                "{name}: the file was dropped at LSN {lsn}, and the dictionary has the table: either the statement had not ended at the moment that \
                 was asked for, or the table was imported, which MySQL's redo log does not cover: recover to LSN {lsn} at most (--until {lsn}), or \
                 to a moment after the statement, or take a base copy from after the import"
            ));
        }
        // Before the end of the base copy it was discarded, or it is lost on the server.
        // A rename may be half done.
        let is_lost = |space: &u32| !has_file(SpaceId(*space));
        match known.iter().find(|(space, (_, is_there))| !is_there && is_lost(space)) {
            Some((_, (name, _))) => refused(format!(
                "{name}: the dictionary has the table, and neither the base copy nor the log has its file: it was imported, which MySQL's redo log \
                 does not cover, or its file was lost: recover to LSN {} at most (--until {}), where the base copy ends, or take a base copy from \
                 after the import",
                self.after, self.after
            )),
            None => Ok(()),
        }
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

/// The name of a tablespace's file in a datadir of MySQL.
pub(in crate::recover) fn named_in(datadir: &Path, space: SpaceId) -> Option<String> {
    let mut name = None;
    let found = walk(datadir, &mut |path, metadata| {
        let is_table = name.is_none() && metadata.is_file() && path.extension().is_some_and(|ending| ending == "ibd");
        if is_table && Head::read(&datadir.join(path))?.is_some_and(|head| head.format.space() == space) {
            name = Some(path.display().to_string());
        }
        Ok(())
    });
    found.ok().and(name)
}
