//! The names of InnoDB's files in a datadir.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::error::{Result, failed, refused};
use datadir::files::AskPath;
use datadir::name::NameHint;

/// The file system's own directory, which is no database.
const LOST: &str = "lost+found";

/// The files of InnoDB's tablespaces, by their paths in the datadir.
pub(super) fn list(datadir: &Path, has_general: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in names(datadir, Path::new(""))? {
        match NameHint::of(&name) {
            NameHint::System(1) | NameHint::Undo => files.push(name),
            NameHint::Table | NameHint::Dictionary if has_general => files.push(name),
            _ => {}
        }
    }
    for database in databases(datadir)? {
        for name in names(datadir, &database)? {
            match NameHint::of(&name) {
                NameHint::Table | NameHint::Dictionary => files.push(name),
                NameHint::Link => return elsewhere(&name),
                _ => {}
            }
        }
    }
    Ok(files)
}

/// The directories of databases.
pub(super) fn databases(datadir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = names(datadir, Path::new(""))?;
    let is_database = |name: &PathBuf| {
        let text = name.to_string_lossy();
        !text.starts_with(['#', '.']) && text != LOST && datadir.join(name).is_folder_there()
    };
    found.retain(is_database);
    Ok(found)
}

/// The entries of a directory in the datadir, sorted, by their paths in the datadir.
pub(super) fn names(datadir: &Path, below: &Path) -> Result<Vec<PathBuf>> {
    let dir = datadir.join(below);
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        // A database may be dropped at any time.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !below.as_os_str().is_empty() => return Ok(Vec::new()),
        Err(error) => return Err(failed(&dir, "reading the directory")(error)),
    };
    let read: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(below.join(entry?.file_name()))).collect();
    let mut names = read.map_err(failed(&dir, "reading the directory"))?;
    names.sort_unstable();
    Ok(names)
}

/// Refuses the backup of a tablespace that is not in the datadir.
pub(super) fn elsewhere<T>(name: &Path) -> Result<T> {
    refused(format!(
        "{}: a tablespace outside the datadir (DATA DIRECTORY), which innokit does not back up yet",
        name.display()
    ))
}
