//! Definitions of a later moment: gives the recovered copy the `.frm` files and the like that the archive kept (`archive::definitions`).
//!
//! ```text
//! files that changed -> the newest version that was there at the moment -> compared with InnoDB's dictionary, which the redo has brought to the moment
//!   -> where it does not fit: another version, the likeliest first -> none fits: refused
//! ```
//!
//! When a file changed is known only to lie between two looks of the archiver. A moment in between is refused. InnoDB changes its dictionary
//! shortly before or after a statement changes the file, so the dictionary has the last word about tables.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use format::keyring::KeyStore;
use format::schema::frm::is_of_innodb;
use format::{Lsn, SpaceId};

use crate::archive::{DefinitionFile, History};
use crate::door;
use crate::recover::error::{RecoverError, Result, failed, refused};
use crate::recover::log::RedoLog;
use crate::recover::plan::{RecoverPlan, dictionary_pages};
use crate::recover::space::head::Head;
use datadir::catalog::{FrmProblem, files_of_tables, frm_problems, has_open_definitions};
use datadir::files::AskPath;

/// How a view begins.
const VIEW: &[u8] = b"TYPE=VIEW";
/// Databases of the server itself, whose tables of other engines come and go with its version.
const OWN: [&str; 4] = ["mysql", "sys", "performance_schema", "information_schema"];
/// Tables named in a refusal.
const NAMED_MAX: usize = 5;

/// Gives the copy in `datadir` the definitions of the plan's end. `stale`: tables of other engines may stay as they are in the base copy.
/// Returns how many files changed since the base copy. `None` if the archive has no definitions.
pub(in crate::recover) fn settle(
    datadir: &Path,
    log: &RedoLog,
    plan: &RecoverPlan,
    (keys, stale): (&KeyStore, bool),
) -> Result<Option<u64>> {
    let (Some(history), Some(definitions)) = (log.definitions(), &plan.wanted.definitions) else {
        return Ok(None);
    };
    let at = plan.wanted.end;
    if at <= definitions.base_end() {
        return Ok(Some(0));
    }
    let mut copy = Copy { datadir, history, at, of_base: BTreeMap::new() };
    if !stale {
        refuse_other_engines(&copy)?;
    }
    if let Some((path, certain)) = history.unsure_at(at) {
        let (before, after) = (certain.start.max(definitions.base_end()), certain.end);
        return refused(format!(
            "{path}: it changed at about LSN {at}, and the archiver cannot tell whether before or after: recover to LSN {after} or later, or to LSN \
             {before} at most (--until {before})"
        ));
    }
    let mut ranks: BTreeMap<String, usize> = BTreeMap::new();
    for path in history.paths().filter(|path| !history.is_before_all(path, at)) {
        ranks.insert(path.to_owned(), 0);
        copy.put(path, 0)?;
    }
    // The first change of a definition after the base copy. Without any, what does not fit did not fit in the base copy either.
    let first = [definitions.first_file(), dictionary_pages::first(datadir, plan)?].into_iter().flatten().min();
    let Some(first) = first else { return Ok(Some(copy.changed()?)) };
    let unread =
        |why: String| RecoverError::Refused(format!("{}: the dictionary cannot be read: {why}", datadir.display()));
    // What it changed so far would be rolled back, and no version of the file is like that.
    if has_open_definitions(datadir, keys).map_err(unread)? {
        return refused(format!(
            "a statement that changes definitions had not ended at LSN {at}: recover to a moment after it, or to LSN {first} at most (--until {first}), \
             before definitions changed"
        ));
    }
    refuse_imported(datadir, keys, first)?;
    loop {
        let problems = frm_problems(datadir, keys).map_err(unread)?;
        let mut is_changed = false;
        let mut left = None;
        for problem in problems {
            if copy.try_next(&problem, &mut ranks)? {
                is_changed = true;
            } else {
                left = left.or(Some(problem));
            }
        }
        match left {
            _ if is_changed => {}
            None => return Ok(Some(copy.changed()?)),
            Some(FrmProblem { path, why, .. }) => {
                return refused(format!(
                    "{}: {why}, and no definition in the archive fits: recover to LSN {first} at most (--until {first}), before definitions changed, \
                     or take a base copy from after it",
                    path.display()
                ));
            }
        }
    }
}

fn refuse_other_engines(copy: &Copy<'_>) -> Result<()> {
    let others = copy.of_other_engines()?;
    if others.is_empty() {
        return Ok(());
    }
    let more = others.len().saturating_sub(NAMED_MAX);
    let named = others.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    refused(format!(
        "after the backup, tables whose engines have no redo were created, altered or dropped: {named}{more}. --stale-tables restores this moment \
         with those tables as they were in the backup; without --redo the moment of the backup is restored; or take a newer backup"
    ))
}

/// The redo has no page of a table that was imported. `first`: where definitions first changed.
fn refuse_imported(datadir: &Path, keys: &KeyStore, first: Lsn) -> Result<()> {
    let unread =
        |why: String| RecoverError::Refused(format!("{}: the dictionary cannot be read: {why}", datadir.display()));
    for (space, name, file) in files_of_tables(datadir, keys).map_err(unread)? {
        let is_its_file = |head: Head| head.format.space() == SpaceId(space);
        if !file.is_there() || !Head::read(&file)?.is_some_and(is_its_file) {
            return refused(format!(
                "{name}: the dictionary has the table, and neither the base copy nor the log has its file: it was discarded and imported, which \
                 MariaDB's redo log does not cover, or its file was lost: recover to LSN {first} at most (--until {first}), before definitions \
                 changed, or take a base copy from after it"
            ));
        }
    }
    Ok(())
}

/// A recovered copy that gets definitions.
struct Copy<'c> {
    datadir: &'c Path,
    history: &'c History,
    at: Lsn,
    /// The files of the base copy that were changed.
    of_base: BTreeMap<String, Option<Vec<u8>>>,
}

impl Copy<'_> {
    fn version(&self, path: &str, rank: usize) -> Result<Option<DefinitionFile>> {
        self.history.version(path, self.at, rank).or_else(|error| refused(error.to_string()))
    }

    /// Tables of engines without redo that are others by then.
    fn of_other_engines(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for path in self.history.paths().filter(|path| !self.history.is_before_all(path, self.at)) {
            let is_own = path.split_once('/').is_some_and(|(database, _)| OWN.contains(&database));
            if is_own || !path.ends_with(".frm") {
                continue;
            }
            let is_other = match self.version(path, 0)? {
                // Made shortly before the base copy, it is in it.
                Some(DefinitionFile::Is(bytes)) => !is_carried(&bytes) && self.now(path)? != Some(bytes),
                Some(DefinitionFile::Gone) => self.now(path)?.is_some_and(|bytes| !is_carried(&bytes)),
                Some(DefinitionFile::OfBase) | None => false,
            };
            if is_other {
                found.push(path.trim_end_matches(".frm").to_owned());
            }
        }
        Ok(found)
    }

    /// The file as it is in the copy.
    fn now(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match door::read_file(self.datadir.join(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(failed(&self.datadir.join(path), "reading the definition")),
        }
    }

    /// Puts a version in its place. Definitions of other engines stay: their rows are not here.
    fn put(&mut self, path: &str, rank: usize) -> Result<()> {
        let now = self.now(path)?;
        let is_frm = path.ends_with(".frm");
        if is_frm && now.as_ref().is_some_and(|now| !is_carried(now)) {
            return Ok(());
        }
        match self.version(path, rank)? {
            Some(DefinitionFile::Is(bytes)) if is_frm && !is_carried(&bytes) => Ok(()),
            Some(DefinitionFile::Is(bytes)) if now.as_ref() != Some(&bytes) => self.write(path, &bytes),
            Some(DefinitionFile::Gone) => self.remove(path),
            _ => Ok(()),
        }
    }

    /// How many files are others than in the base copy.
    fn changed(&self) -> Result<u64> {
        let mut changed = 0;
        for (path, before) in &self.of_base {
            changed += u64::from(self.now(path)? != *before);
        }
        Ok(changed)
    }

    /// Keeps a file of the base copy before it changes.
    fn save(&mut self, path: &str) -> Result<()> {
        if !self.of_base.contains_key(path) {
            let now = self.now(path)?;
            self.of_base.insert(path.to_owned(), now);
        }
        Ok(())
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.save(path)?;
        let full = self.datadir.join(path);
        let write = || {
            let like = fs::metadata(self.datadir.join("ibdata1"))?;
            door::make_parents(self.datadir, path)?;
            let mut file = door::replace(self.datadir, path)?;
            file.write_all(bytes)?;
            door::give(&file, &like)?;
            file.sync_all()
        };
        write().map_err(failed(&full, "writing the definition"))
    }

    /// Removes a file and, if that was the database's last, its directory.
    fn remove(&mut self, path: &str) -> Result<()> {
        self.save(path)?;
        door::remove(self.datadir, path).map_err(failed(&self.datadir.join(path), "removing the definition"))?;
        let full = self.datadir.join(path);
        if path.ends_with("/db.opt")
            && let Some(database) = full.parent()
        {
            // With anything else in it, the database is not gone.
            fs::remove_dir(database).ok();
        }
        Ok(())
    }

    /// Takes the next version of a file that does not fit. Returns whether there is one.
    fn try_next(&mut self, problem: &FrmProblem, ranks: &mut BTreeMap<String, usize>) -> Result<bool> {
        let path = problem.path.strip_prefix(self.datadir).ok().and_then(Path::to_str).unwrap_or_default().to_owned();
        if problem.is_extra {
            // Of a table that InnoDB does not have, and that came or went with a statement.
            let is_known = self.history.knows(&path);
            if is_known {
                self.remove(&path)?;
                self.remove(&Path::new(&path).with_extension("par").display().to_string())?;
            }
            return Ok(is_known);
        }
        let mut rank = ranks.get(&path).map_or(0, |rank| rank + 1);
        while let Some(version) = self.version(&path, rank)? {
            ranks.insert(path.clone(), rank);
            let bytes = match version {
                DefinitionFile::Is(bytes) => Some(bytes),
                DefinitionFile::Gone => None,
                DefinitionFile::OfBase => self.of_base.get(&path).cloned().flatten(),
            };
            if let Some(bytes) = bytes {
                self.write(&path, &bytes)?;
                return Ok(true);
            }
            rank += 1;
        }
        Ok(false)
    }
}

/// Whether this `.frm` file needs nothing but InnoDB: a table of it, or a view.
fn is_carried(frm: &[u8]) -> bool {
    is_of_innodb(frm) || frm.starts_with(VIEW)
}
