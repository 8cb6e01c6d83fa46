//! The files of InnoDB: listed and copied in passes while they are made, renamed and dropped, each tablespace once, under its number.
//!
//! A file is opened by its name and known by the number in its first page from then on, so it does not matter what becomes of its name: at
//! the end the redo log says which names the tablespaces have, and which are gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use format::SpaceId;
use format::keyring::KeyStore;

use super::error::{BackupError, Result, failed, refused};
use super::follower::Follower;
use super::pace::Pace;
use super::pages::{PageReader, part_of, space_id};
use crate::recover::LogNames;
use crate::source::name::NameHint;
use crate::source::space::SpacePart;

/// A server's own directories that hold no tables.
const LOST: &str = "lost+found";

/// A tablespace that was copied.
#[derive(Debug)]
struct Copied {
    /// The name under which it was seen last.
    name: PathBuf,
    /// Where the copy is.
    copy: PathBuf,
    /// Pages that were wrong whenever they were read, and how to read them again.
    bad: Option<(File, SpacePart, Vec<u32>)>,
}

/// Copies tablespaces.
#[derive(Debug)]
pub(super) struct Tablespaces<'k> {
    datadir: PathBuf,
    /// Where the copies are until they get their names.
    staging: PathBuf,
    reader: PageReader<'k>,
    copied: BTreeMap<SpaceId, Copied>,
    /// Files of the last pass without a sound first page: the log must know them.
    unsound: Vec<PathBuf>,
    pub pace: Pace<'k>,
    pub pages: u64,
    pub pages_read_again: u64,
}

impl<'k> Tablespaces<'k> {
    pub fn new(datadir: &Path, staging: PathBuf, keys: &'k KeyStore, pace: Pace<'k>) -> Self {
        let reader = PageReader::new(keys);
        let (datadir, copied, unsound) = (datadir.to_path_buf(), BTreeMap::new(), Vec::new());
        Self { datadir, staging, reader, copied, unsound, pace, pages: 0, pages_read_again: 0 }
    }

    /// Lists the files and copies those whose tablespaces have not been copied yet. Returns how many these were.
    pub fn pass(&mut self, follower: &mut Follower<'_>, check: &dyn Fn() -> Result<()>) -> Result<u64> {
        self.unsound.clear();
        let (mut new, names) = (0, list(&self.datadir)?);
        if self.copied.is_empty() {
            let sizes = names.iter().filter_map(|name| fs::metadata(self.datadir.join(name)).ok());
            self.pace.expect(sizes.map(|metadata| metadata.len()).sum());
        }
        for name in names {
            follower.check()?;
            check()?;
            new += u64::from(self.look_at(name)?);
        }
        Ok(new)
    }

    /// Copies the file if it is new.
    fn look_at(&mut self, name: PathBuf) -> Result<bool> {
        let path = self.datadir.join(&name);
        let file = match File::open(&path) {
            Ok(file) => file,
            // Renamed or dropped since it was listed: the next pass finds it if it is still there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(&path, "opening the tablespace")(error)),
        };
        let space = space_id(&file).map_err(failed(&path, "reading the tablespace"))?;
        let is_system = matches!(NameHint::of(&name), NameHint::System(_));
        if let Some(copied) = self.copied.get_mut(&space).filter(|_| is_system || space != SpaceId::SYSTEM) {
            copied.name = name;
            return Ok(false);
        }
        let part = part_of(&file, &path, self.reader.keys()).map_err(failed(&path, "reading the tablespace"))?;
        let Some(part) = part.filter(|part| is_system || part.format.space() != SpaceId::SYSTEM) else {
            self.unsound.push(name);
            return Ok(false);
        };
        let space = part.format.space();
        if let Some(copied) = self.copied.get_mut(&space) {
            copied.name = name;
            return Ok(false);
        }
        let copy = self.staging.join(space.to_string());
        let found = self.reader.copy((&file, &path), &part, &copy, &mut self.pace)?;
        (self.pages, self.pages_read_again) = (self.pages + found.pages, self.pages_read_again + found.read_again);
        let bad = (!found.bad.is_empty()).then_some((file, part, found.bad));
        self.copied.insert(space, Copied { name, copy, bad });
        Ok(true)
    }

    /// Reads pages again that were wrong.
    pub fn mend(&mut self) -> Result<()> {
        for copied in self.copied.values_mut() {
            if let Some((file, part, bad)) = copied.bad.take() {
                let left = self.reader.mend(&file, &part, &bad, &copied.copy)?;
                copied.bad = (!left.is_empty()).then_some((file, part, left));
            }
        }
        Ok(())
    }

    /// Gives the copies the names that their tablespaces have at the end of the log, and removes those of dropped ones.
    pub fn place(self, set: &Path, log: &LogNames) -> Result<()> {
        if let Some(name) = self.unsound.iter().find(|name| !log.knows(name)) {
            return damaged(&self.datadir.join(name), "its first page");
        }
        for (space, copied) in &self.copied {
            if log.is_dropped(*space) {
                fs::remove_file(&copied.copy).map_err(failed(&copied.copy, "removing the copy of a dropped table"))?;
                continue;
            }
            let name = log.last_name(*space).unwrap_or(&copied.name);
            if name.is_absolute() {
                return elsewhere(name);
            }
            if let Some((_, _, bad)) = &copied.bad {
                let list: Vec<String> = bad.iter().take(5).map(ToString::to_string).collect();
                return damaged(&self.datadir.join(name), &format!("page {}", list.join(", ")));
            }
            let path = set.join(name);
            let dir = path.parent().unwrap_or(set);
            fs::create_dir_all(dir).map_err(failed(dir, "making the directory"))?;
            if path.exists() {
                return Err(BackupError::Damaged(format!("{}: two tablespaces have this name", name.display())));
            }
            fs::rename(&copied.copy, &path).map_err(failed(&path, "giving the copy its name"))?;
        }
        Ok(())
    }
}

fn damaged<T>(path: &Path, what: &str) -> Result<T> {
    Err(BackupError::Damaged(format!(
        "{}: {what} is damaged in the server's own file: innokit check --live says more",
        path.display()
    )))
}

fn elsewhere<T>(name: &Path) -> Result<T> {
    refused(format!(
        "{}: a tablespace outside the datadir (DATA DIRECTORY), which innokit does not back up yet",
        name.display()
    ))
}

/// The directories of databases, and the files of InnoDB's tablespaces, by their names in the datadir.
fn list(datadir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in names(datadir, Path::new(""))? {
        match NameHint::of(&name) {
            NameHint::System(1) | NameHint::Undo => files.push(name),
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
        !text.starts_with(['#', '.']) && text != LOST && datadir.join(name).is_dir()
    };
    found.retain(is_database);
    Ok(found)
}

/// What is in a directory of the datadir, sorted.
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
