//! The rest of a server: definitions, and tables of the engines without redo. They are copied while locks keep them still.

use std::io::ErrorKind;
use std::path::Path;

use super::error::{Result, failed, refused};
use super::listing::{databases, names};
use crate::door;
use crate::server::TableName;
use crate::source::name::decoded;

/// Extensions of a database's files: definitions, triggers and options; MyISAM, Aria, CSV, ARCHIVE and MERGE; MySQL's definitions of these.
const ENDINGS: [&str; 15] =
    ["frm", "par", "trg", "trn", "opt", "myd", "myi", "mad", "mai", "csv", "csm", "arz", "arm", "mrg", "sdi"];
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

/// Copies the files of all databases. Returns the files of unknown kinds, which are left out.
pub(super) fn copy_databases(datadir: &Path, set: &Path) -> Result<Vec<String>> {
    let mut left_out = Vec::new();
    for database in databases(datadir)? {
        let dir = set.join(&database);
        match door::make_dir(set, &database) {
            // The copies of its tablespaces may be there already.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(failed(&dir, "making the directory"))?,
        }
        for name in names(datadir, &database)? {
            let ending = name.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
            let file = name.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
            // Intermediate tables of running statements: the server removes them after a crash.
            if file.starts_with("#sql") || OF_INNODB.contains(&ending.as_str()) {
                continue;
            }
            if ENDINGS.contains(&ending.as_str()) {
                if !copy(datadir, set, &name)? {
                    left_out.push(name.display().to_string());
                }
            } else {
                left_out.push(name.display().to_string());
            }
        }
    }
    Ok(left_out)
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
        if text == ARIA_CONTROL || text.starts_with(ARIA_LOG) || KEPT.contains(&&*text) {
            copied(datadir, set, &name)?;
        }
    }
    Ok(())
}

/// Copies a file. Not a pipe, which would be waited for while the server's tables are locked, nor what a link leads to if the datadir's owner
/// cannot be expected to read that. Returns whether it was copied.
fn copy(datadir: &Path, set: &Path, name: &Path) -> Result<bool> {
    let copy = || {
        let (mut source, mut target) = (door::source(datadir, name)?, door::replace(set, name)?);
        let mode = source.metadata()?.permissions();
        std::io::copy(&mut source, &mut target)?;
        target.set_permissions(mode)
    };
    match copy() {
        Err(error) if door::is_odd(&error) => Ok(false),
        copied => copied.map(|()| true).map_err(failed(&datadir.join(name), "copying the file")),
    }
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
