//! Tablespaces outside the datadir: tables with `DATA DIRECTORY`, and MySQL's general and undo tablespaces elsewhere. The datadir of a
//! MariaDB server has a link file (`db/t.isl`) with the path of the data file, always `DIRECTORY/db/t.ibd`, and the log names them by that
//! path. MySQL has the path in its dictionary only.
//!
//! In-place recovery works on the files where they are. In a copy of a datadir, however, these names still mean the original's files, and
//! writing to those would destroy someone else's data. So a copy created by us has these files inside, where the server finds a table
//! without a link file. It also has a marker: while that is there, a log name that leads outside means the file inside.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use format::keyring::KeyStore;

use super::durable::sync_directory_of;
use super::walk::walk;
use crate::door;
use crate::recover::error::{Result, failed, refused};
use datadir::backup_notes::BackupNotes;
use datadir::catalog::{outside_of_mariadb, outside_of_mysql};
use datadir::files::AskPath;
use datadir::inventory::link_target;
use datadir::name::NameHint;
use datadir::reading::identity_of;

/// Marks a copy that has the original's outside files inside.
pub(in crate::recover) const MARKER: &str = "innokit-recover.moved";
/// For the DBA who finds it.
const MARKER_TEXT: &str =
    "Tables with DATA DIRECTORY were copied into this datadir. innokit recover has to finish what it began here.\n";

/// The meaning of names that lead outside the datadir.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::recover) enum Outside {
    /// The file at that path.
    Stays,
    /// The file that was copied into the datadir.
    MovedIn,
}

impl Outside {
    pub fn of(datadir: &Path) -> Self {
        if datadir.join(MARKER).is_there() { Self::MovedIn } else { Self::Stays }
    }

    /// The path of the file that the log, or a shadow file, calls `name`: relative to the datadir, or absolute. `None` for names that no
    /// server writes.
    pub fn path_of(self, name: &Path) -> Option<PathBuf> {
        let name = name.strip_prefix("./").unwrap_or(name);
        let mut parts = name.components().peekable();
        let is_absolute = parts.next_if_eq(&Component::RootDir).is_some();
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        if is_absolute && self == Self::MovedIn { inside(name) } else { Some(name.to_path_buf()) }
    }
}

/// Files outside of a datadir of MySQL that belong to it, by the names in its log and in its dictionary, if that can be read. None in a
/// copy that has them inside.
pub(in crate::recover) fn of_mysql<'n>(
    datadir: &Path,
    in_log: impl Iterator<Item = &'n String>,
    keys: &KeyStore,
) -> Vec<PathBuf> {
    if Outside::of(datadir) == Outside::MovedIn {
        return Vec::new();
    }
    // In a crashed datadir, pages of the dictionary may be torn. What is missed then and was changed is missing to the plan.
    let mut files = outside_of_mysql(datadir, keys).unwrap_or_default();
    let is_outside = |path: &PathBuf| path.is_absolute() && !path.starts_with(datadir);
    files.extend(in_log.map(PathBuf::from).filter(is_outside));
    files
}

/// Fails if a server on a recovered copy would find a tablespace of the original. MySQL would if the copy lacks one that its dictionary names
/// outside, which happens if the dictionary could not be read before recovery. MariaDB 10.5 would in any case: it looks where its dictionary
/// says, besides in the datadir.
pub(in crate::recover) fn refuse_left(copy: &Path, keys: &KeyStore) -> Result<()> {
    if !copy.join("mysql.ibd").is_there() {
        let outside = outside_of_mariadb(copy, keys).unwrap_or_default();
        return match outside.iter().find(|path| path.is_there()) {
            None => Ok(()),
            Some(path) => refused(format!(
                "{}: the table {} was there, as the dictionary of MariaDB 10.5 says, and a server on the copy would find that file, which may be \
                 another server's: restore where that file is not in sight, or recover in place",
                path.display(),
                inside(path).unwrap_or_default().with_extension("").display()
            )),
        };
    }
    let outside = outside_of_mysql(copy, keys).unwrap_or_default();
    match outside.iter().find(|path| path.is_there()) {
        None => Ok(()),
        Some(path) => refused(format!(
            "{} is outside the datadir, which was not known before the recovery: recover in place, or copy the file and try again",
            path.display()
        )),
    }
}

/// The place of a table's outside file in a copy: `db/t.ibd`.
pub(in crate::recover) fn inside(path: &Path) -> Option<PathBuf> {
    Some(Path::new(path.parent()?.file_name()?).join(path.file_name()?))
}

/// The link file of a file outside, relative to the datadir.
fn link_of(path: &Path) -> Option<PathBuf> {
    path.is_absolute().then(|| inside(path).map(|path| path.with_extension("isl"))).flatten()
}

/// Updates a tablespace's link files for a rename. Call it before the rename.
pub(in crate::recover) fn relink(datadir: &Path, from: &Path, to: &Path) -> Result<()> {
    link(datadir, to)?;
    let Some(old) = link_of(from).filter(|old| Some(old) != link_of(to).as_ref()) else { return Ok(()) };
    let path = datadir.join(&old);
    door::remove(datadir, &old).map_err(failed(&path, "removing the link file"))?;
    sync_directory_of(&path)
}

/// Creates the link file of a tablespace outside. Call it before creating that file.
pub(in crate::recover) fn link(datadir: &Path, path: &Path) -> Result<()> {
    let Some(link) = link_of(path) else { return Ok(()) };
    let (like, link_path) = (datadir.join("ibdata1"), datadir.join(&link));
    let like = fs::metadata(&like).map_err(failed(&like, "looking at the file"))?;
    let written = door::make_parents(datadir, &link).and_then(|()| {
        let mut file = door::replace(datadir, &link)?;
        file.write_all(path.as_os_str().as_bytes())?;
        door::give(&file, &like)?;
        file.sync_all()
    });
    written.map_err(failed(&link_path, "writing the link file"))?;
    sync_directory_of(&link_path)
}

/// Marks a copy as having outside files inside.
pub(in crate::recover) fn mark(copy: &Path) -> Result<()> {
    let written = door::replace(copy, MARKER).and_then(|mut file| file.write_all(MARKER_TEXT.as_bytes()));
    written.map_err(failed(&copy.join(MARKER), "writing the file"))
}

/// Removes the marker. Once its log is closed, a copy is an ordinary datadir.
pub(in crate::recover) fn unmark(datadir: &Path) -> Result<()> {
    let path = datadir.join(MARKER);
    door::remove(datadir, MARKER).map_err(failed(&path, "removing the file"))?;
    sync_directory_of(&path)
}

/// Removes the link files of a copy that has their tables inside: a server on it would open the original's files by them. Fails if a table
/// is not inside.
pub(crate) fn settle_links(copy: &Path) -> Result<()> {
    let (mut left, mut spent) = (BTreeSet::new(), Vec::new());
    each_link(copy, &mut |link| {
        let table = link.with_extension("ibd");
        if fs::symlink_metadata(copy.join(&table)).is_ok() {
            spent.push(link.to_path_buf());
        } else {
            let target = link_target(&copy.join(link)).unwrap_or_default();
            left.insert(format!("{} ({})", link.with_extension("").display(), target.display()));
        }
    })?;
    if !left.is_empty() {
        let list: Vec<String> = left.into_iter().collect();
        return refused(format!(
            "tables are missing in the backup, because they are outside of the datadir that it was taken from: {}; restore from the directory \
             (recover --to, restore --to), or copy their files into the backup, into the places of the link files (.isl)",
            list.join(", ")
        ));
    }
    spent
        .iter()
        .try_for_each(|link| door::remove(copy, link).map_err(failed(&copy.join(link), "removing the link file")))
}

/// Fails if a set has tables outside: once it is the datadir of a server, that server would open them where they are.
pub(crate) fn refuse(set: &Path, keys: &KeyStore) -> Result<()> {
    if Outside::of(set) == Outside::MovedIn || BackupNotes::of(set).is_some() {
        return Ok(());
    }
    let mut tables = BTreeSet::new();
    each_link(set, &mut |link| {
        let target = link_target(&set.join(link)).unwrap_or_default();
        tables.insert(format!("{} ({})", link.with_extension("").display(), target.display()));
    })?;
    tables.extend(outside_of_mysql(set, keys).unwrap_or_default().iter().map(|path| path.display().to_string()));
    if tables.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = tables.into_iter().collect();
    refused(format!(
        "tables are outside of the backup's directory and may be another server's: {}; leave out --move, and the copy gets them inside, or say \
         --with-outside to recover them where they are",
        list.join(", ")
    ))
}

/// Passes on the link files of a datadir, by relative name.
pub(in crate::recover) fn each_link(datadir: &Path, visit: &mut dyn FnMut(&Path)) -> Result<()> {
    walk(datadir, &mut |name, metadata| {
        if metadata.is_file() && NameHint::of(name) == NameHint::Link {
            visit(name);
        }
        Ok(())
    })
}

/// Fails if a process has one of the files open. Servers lock only their own datadir, and this may be a copy of it.
pub(in crate::recover) fn refuse_open(paths: &[PathBuf]) -> Result<()> {
    let files: HashMap<(u64, u64), &PathBuf> =
        paths.iter().filter_map(|path| Some((identity_of(path)?, path))).collect();
    if files.is_empty() {
        return Ok(());
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let others = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for process in others.filter(|process| *process != std::process::id()) {
        let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        // Not by `identity_of`: what /proc hides of other processes is no fault of the set.
        let handles = open.filter_map(|entry| fs::metadata(entry.path()).ok());
        if let Some(path) = handles.filter_map(|handle| files.get(&(handle.dev(), handle.ino()))).next() {
            return refused(format!(
                "{}: process {process} has this file open, which is outside the datadir: stop it first, or recover a copy with --to",
                path.display()
            ));
        }
    }
    Ok(())
}

/// The file that the text of a link file means: where it is, and where a copy has it.
#[cfg(fuzzing)]
pub fn fuzzed_outside(text: &[u8]) -> [Option<PathBuf>; 2] {
    let target = datadir::inventory::target_in(text);
    [Outside::Stays, Outside::MovedIn].map(|meaning| meaning.path_of(target))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn names_that_lead_outside_mean_the_files_of_a_copy_where_there_is_one() {
        let path =
            |outside: Outside, name: &str| outside.path_of(Path::new(name)).map(|path| path.display().to_string());
        assert_eq!(path(Outside::Stays, "./db/t.ibd").as_deref(), Some("db/t.ibd"));
        assert_eq!(path(Outside::MovedIn, "./db/t.ibd").as_deref(), Some("db/t.ibd"));
        assert_eq!(path(Outside::Stays, "/else/db/t.ibd").as_deref(), Some("/else/db/t.ibd"));
        assert_eq!(path(Outside::MovedIn, "/else/where/db/t.ibd").as_deref(), Some("db/t.ibd"));
        for name in ["../db/t.ibd", "./db/../../t.ibd", "/else/../etc/t.ibd"] {
            assert_eq!((path(Outside::Stays, name), path(Outside::MovedIn, name)), (None, None), "{name}");
        }
        assert_eq!(path(Outside::MovedIn, "/t.ibd"), None);
    }

    #[test]
    fn links_follow_a_renamed_file() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("ibdata1"), "").expect("written");
        link(dir.path(), Path::new("/else/db/a.ibd")).expect("linked");
        relink(dir.path(), Path::new("/else/db/a.ibd"), Path::new("/else/db/b.ibd")).expect("linked");
        assert_eq!(fs::read(dir.path().join("db/b.isl")).expect("a link"), b"/else/db/b.ibd");
        assert!(!dir.path().join("db/a.isl").exists());
        relink(dir.path(), Path::new("/else/db/b.ibd"), Path::new("db/c.ibd")).expect("linked");
        assert_eq!(fs::read_dir(dir.path().join("db")).expect("a directory").count(), 0);
    }

    #[test]
    fn a_file_that_is_open_elsewhere_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.ibd");
        let file = File::create(&path).expect("made");
        assert!(refuse_open(std::slice::from_ref(&path)).is_ok(), "this process may have it open");
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().expect("sleeps");
        let refused = refuse_open(std::slice::from_ref(&path));
        child.kill().and_then(|()| child.wait()).expect("ends");
        assert!(refused.is_err_and(|error| error.to_string().contains(&child.id().to_string())));
    }
}
