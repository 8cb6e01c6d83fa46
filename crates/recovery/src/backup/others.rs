//! The rest of a server: definitions, and tables of the engines without redo. Locks keep them still while they are copied. Definitions are
//! copied before, too: under the lock only those that have changed since are copied again.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Result, failed, refused};
use super::listing::{databases, names};
use super::stamp::Stamp;
use crate::door;
use datadir::name::decoded;
use datadir::reading::copy_all;
use datadir::server::TableName;

/// Extensions of a database's files: definitions, triggers and options; MyISAM, Aria, CSV, ARCHIVE and MERGE; MySQL's definitions of these.
const ENDINGS: [&str; 15] =
    ["frm", "par", "trg", "trn", "opt", "myd", "myi", "mad", "mai", "csv", "csm", "arz", "arm", "mrg", "sdi"];
/// Those of definitions: small files that rarely change.
const DEFINITIONS: [&str; 6] = ["frm", "par", "trg", "trn", "opt", "sdi"];
/// The extensions by which tables without redo are found, one per engine: MyISAM, CSV, ARCHIVE.
const OF_TABLES: [&str; 3] = ["myi", "csm", "arz"];
/// InnoDB's own files: copied elsewhere, or not needed.
const OF_INNODB: [&str; 4] = ["ibd", "isl", "cfg", "cfp"];
/// Files in the datadir itself, beside the databases.
const ARIA_CONTROL: &str = "aria_log_control";
const ARIA_LOG: &str = "aria_log.";
const KEPT: [&str; 4] = ["multi-master.info", "mysql_upgrade_info", "mariadb_upgrade_info", "mysql_upgrade_history"];
/// Tables of the database mysql that the server writes under any lock: logs and statistics.
const ALWAYS_WRITTEN: [&str; 5] = ["general_log", "slow_log", "column_stats", "index_stats", "table_stats"];
const SYSTEM_DATABASE: &str = "mysql";

/// The definitions that were copied before the lock.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// As they were before they were read. `None` for a file of which a later change might not show.
    copied: HashMap<PathBuf, Option<Stamp>>,
    databases: BTreeSet<PathBuf>,
}

impl Early {
    /// Copies the definitions of all databases.
    pub fn copy(datadir: &Path, set: &Path, check: &dyn Fn() -> Result<()>) -> Result<Self> {
        let mut early = Self::default();
        for database in databases(datadir)? {
            check()?;
            make(set, &database)?;
            for name in names(datadir, &database)?.into_iter().filter(|name| is_one_of(name, &DEFINITIONS)) {
                if is_intermediate(&name) {
                    continue;
                }
                match door::source(datadir, &name).and_then(|source| copy_from(source, set, &name)) {
                    Ok(stamp) => drop(early.copied.insert(name, stamp)),
                    // Dropped or renamed; or no file, which is named when the rest is copied.
                    Err(error) if error.kind() == io::ErrorKind::NotFound || door::is_odd(&error) => {}
                    Err(error) => return Err(failed(&datadir.join(&name), "copying the file")(error)),
                }
            }
            early.databases.insert(database);
        }
        Ok(early)
    }

    /// Copies the other files of all databases, and the definitions that have changed; removes those that are gone. Returns the files of
    /// unknown kinds, which are left out.
    pub fn copy_rest(&mut self, datadir: &Path, set: &Path) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        for database in databases(datadir)? {
            if !self.databases.remove(&database) {
                make(set, &database)?;
            }
            for name in names(datadir, &database)? {
                // Intermediate tables of running statements: the server removes them after a crash.
                if is_intermediate(&name) || is_one_of(&name, &OF_INNODB) {
                    continue;
                }
                let stamp = self.copied.remove(&name).flatten();
                if stamp.is_some_and(|stamp| stamp.is_current(&datadir.join(&name))) {
                    continue;
                }
                if !is_one_of(&name, &ENDINGS) || !copy(datadir, set, &name)? {
                    left_out.push(name.display().to_string());
                }
            }
        }
        for gone in self.copied.drain().map(|(name, _)| name) {
            let path = set.join(&gone);
            door::remove(set, &gone).map_err(failed(&path, "removing the copy of a file that is gone"))?;
        }
        for gone in std::mem::take(&mut self.databases) {
            let path = set.join(&gone);
            door::remove_dir(set, gone).map_err(failed(&path, "removing the directory of a database that is gone"))?;
        }
        Ok(left_out)
    }
}

/// The files of the datadir that are copied here.
pub(super) fn all(datadir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = names(datadir, Path::new(""))?;
    found.retain(|name| is_of_aria(&name.to_string_lossy()));
    for database in databases(datadir)? {
        let names = names(datadir, &database)?;
        found.extend(names.into_iter().filter(|name| is_one_of(name, &ENDINGS) && !is_intermediate(name)));
    }
    Ok(found)
}

/// Whether this is the control file of Aria, or a file of its log.
fn is_of_aria(name: &str) -> bool {
    name == ARIA_CONTROL || name.starts_with(ARIA_LOG)
}

fn make(set: &Path, database: &Path) -> Result<()> {
    match door::make_dir(set, database) {
        // The copies of its tablespaces may be there already.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(failed(&set.join(database), "making the directory")),
    }
}

fn is_intermediate(name: &Path) -> bool {
    name.file_name().is_some_and(|file| file.as_encoded_bytes().starts_with(b"#sql"))
}

fn is_one_of(name: &Path, endings: &[&str]) -> bool {
    let ending = name.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    endings.contains(&ending.as_str())
}

/// The tables without redo, except those of the database mysql, some of which the server writes under any lock.
pub(super) fn tables_without_redo(datadir: &Path) -> Result<Vec<TableName>> {
    let mut tables = Vec::new();
    for database in databases(datadir)?.iter().filter(|database| *database != Path::new(SYSTEM_DATABASE)) {
        for name in names(datadir, database)? {
            let ending = name.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
            let stem = name.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            if OF_TABLES.contains(&ending.as_str()) && !stem.starts_with("#sql") {
                tables.push(TableName { database: decoded(&database.to_string_lossy()), table: decoded(&stem) });
            }
        }
    }
    Ok(tables)
}

/// Copies what the server writes under any lock, and Aria's log, which is then newer than all of Aria's tables.
pub(super) fn copy_last(datadir: &Path, set: &Path) -> Result<()> {
    for name in names(datadir, Path::new(SYSTEM_DATABASE))? {
        let stem = name.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let ending = name.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
        if ALWAYS_WRITTEN.contains(&stem.as_str()) && ENDINGS.contains(&ending.as_str()) {
            copied(datadir, set, &name)?;
        }
    }
    for name in names(datadir, Path::new(""))? {
        let text = name.to_string_lossy();
        if is_of_aria(&text) || KEPT.contains(&&*text) {
            copied(datadir, set, &name)?;
        }
    }
    Ok(())
}

/// Copies a file. Not a pipe, which would be waited for while the server's tables are locked, nor what a link leads to if the datadir's owner
/// cannot be expected to read that. Returns whether it was copied.
fn copy(datadir: &Path, set: &Path, name: &Path) -> Result<bool> {
    match door::source(datadir, name).and_then(|source| copy_from(source, set, name)) {
        Err(error) if door::is_odd(&error) => Ok(false),
        copied => copied.map(|_| true).map_err(failed(&datadir.join(name), "copying the file")),
    }
}

/// Copies an open file. Returns what tells whether it has changed since before it was read.
fn copy_from(mut source: File, set: &Path, name: &Path) -> io::Result<Option<Stamp>> {
    let metadata = source.metadata()?;
    let mut target = door::replace(set, name)?;
    copy_all(&mut source, &mut target)?;
    target.set_permissions(metadata.permissions())?;
    Ok(Stamp::of(&metadata))
}

/// Copies a file that no backup can be without.
fn copied(datadir: &Path, set: &Path, name: &Path) -> Result<()> {
    let why =
        "neither a file nor a link to one that the owner of the datadir may read: put the file itself in its place";
    match copy(datadir, set, name)? {
        true => Ok(()),
        false => refused(format!("{}: {why}", datadir.join(name).display())),
    }
}
