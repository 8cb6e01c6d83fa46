//! The names and lengths of files in the view, where they differ from the base's.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use foldhash::HashMap;
use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::{Lsn, SpaceFormat, SpaceId};

use crate::door;
use crate::recover::error::{RecoverError, Result, failed};
use crate::recover::finish::ending::Ending;
use crate::recover::log::RedoLog;
use crate::recover::log::new_log::ClosedFile;
use crate::recover::plan::RecoverPlan;
use datadir::doublewrite::{each_slot, files_in};
use datadir::redo_log::unbegun_truncation_logs;

/// A file of the view.
#[derive(Debug, Clone)]
pub(super) enum ShownFile {
    /// Not there: it is dropped, renamed, or about another run.
    Gone,
    /// A file of a tablespace that the log changes, by its number in the tablespace.
    Space(SpaceId, usize),
    /// The file of this name in the base, if there is one, with other bytes at some places.
    Patched(Patched),
}

/// Bytes that differ from a file's of the base.
#[derive(Debug, Clone)]
pub(super) struct Patched {
    /// Whether the rest is the base's. Otherwise it is zeros.
    pub has_base: bool,
    pub len: u64,
    /// Bytes by their offsets.
    pub patches: Vec<(u64, Vec<u8>)>,
}

/// All files that are not read as they lie, by their paths relative to the base.
#[derive(Debug, Default)]
pub(super) struct Names {
    shown: BTreeMap<PathBuf, ShownFile>,
    /// Their directories, and the directories above.
    dirs: BTreeSet<PathBuf>,
    /// A number for each of both.
    numbers: HashMap<PathBuf, u64>,
}

impl Names {
    pub fn of(base: &Path, plan: &RecoverPlan, (log, ending): (&RedoLog, &Ending)) -> Result<Self> {
        let mut names = Self::default();
        plan.dropped.iter().for_each(|path| names.put(path.clone(), ShownFile::Gone));
        // A name that one tablespace gives up may be another's.
        let old = plan.spaces.values().filter_map(|space| space.renamed_from.clone());
        old.for_each(|path| names.put(path, ShownFile::Gone));
        for (&id, space) in &plan.spaces {
            let parts = space.parts().into_iter().enumerate();
            parts.for_each(|(number, part)| names.put(part.path, ShownFile::Space(id, number)));
        }
        for note in unbegun_truncation_logs(base) {
            names.put(relative(base, &note)?, ShownFile::Gone);
        }
        let listed = fs::read_dir(base).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in listed.map_err(failed(base, "reading the directory"))? {
            let name = PathBuf::from(entry.file_name());
            if door::is_own_note(&name) {
                names.put(name, ShownFile::Gone);
            }
        }
        names.put_log(base, ending.closed(log, plan.wanted.end)?)?;
        if let (Some(_), Some(system)) = (&plan.wanted.rest, plan.spaces.get(&SpaceId::SYSTEM)) {
            names.put_doublewrite(base, &system.format, plan.wanted.end)?;
        }
        Ok(names)
    }

    /// The closed log.
    fn put_log(&mut self, base: &Path, files: Vec<ClosedFile>) -> Result<()> {
        for file in files {
            let path = relative(base, &file.path)?;
            let shown = match file.len {
                None => ShownFile::Gone,
                Some(len) => ShownFile::Patched(Patched { has_base: file.has_base, len, patches: file.writes }),
            };
            self.put(path, shown);
        }
        Ok(())
    }

    /// MySQL's doublewrite files, without copies of later pages.
    fn put_doublewrite(&mut self, base: &Path, system: &SpaceFormat, end: Lsn) -> Result<()> {
        let size = system.logical().bytes();
        for path in files_in(base, size).map_err(failed(base, "reading the directory"))? {
            let mut patches = Vec::new();
            let looked = each_slot(&path, size, |slot, at| {
                if be::u64_at(slot, FIL_PAGE_LSN).is_some_and(|copied| copied > end.0) {
                    patches.push((at, vec![0; size]));
                }
                Ok(())
            });
            let len =
                looked.and_then(|()| fs::metadata(&path)).map_err(failed(&path, "reading the doublewrite file"))?.len();
            if !patches.is_empty() {
                self.put(relative(base, &path)?, ShownFile::Patched(Patched { has_base: true, len, patches }));
            }
        }
        Ok(())
    }

    fn put(&mut self, path: PathBuf, shown: ShownFile) {
        for place in path.ancestors() {
            let next = self.numbers.len() as u64;
            self.numbers.entry(place.to_path_buf()).or_insert(next);
        }
        self.dirs.extend(path.ancestors().skip(1).map(Path::to_path_buf));
        self.shown.insert(path, shown);
    }

    pub fn get(&self, path: &Path) -> Option<&ShownFile> {
        self.shown.get(path)
    }

    /// Whether a directory has, or has below it, a file of these.
    pub fn has_dir(&self, path: &Path) -> bool {
        self.dirs.contains(path)
    }

    /// Whether a file of these is there below a directory.
    pub fn fills(&self, dir: &Path) -> bool {
        self.below(dir).any(|(_, shown)| !matches!(shown, ShownFile::Gone))
    }

    /// Paths are sorted by their parts, so what is below a directory follows it.
    fn below<'n>(&'n self, dir: &'n Path) -> impl Iterator<Item = (&'n PathBuf, &'n ShownFile)> {
        self.shown.range(dir.to_path_buf()..).take_while(move |(path, _)| path.starts_with(dir))
    }

    /// Different for any two of these files and directories.
    pub fn number(&self, path: &Path) -> u64 {
        self.numbers.get(path).copied().unwrap_or(u64::from(u32::MAX))
    }

    /// The files of these that are there.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.shown.iter().filter(|(_, shown)| !matches!(shown, ShownFile::Gone)).map(|(path, _)| path.clone())
    }

    /// The names in a directory, given those in the base's.
    pub fn in_dir(&self, dir: &Path, mut names: BTreeSet<OsString>) -> BTreeSet<OsString> {
        for (path, shown) in self.below(dir) {
            let Ok(below) = path.strip_prefix(dir) else { continue };
            let mut parts = below.components();
            let Some(name) = parts.next().map(|name| name.as_os_str().to_os_string()) else { continue };
            let is_here = parts.next().is_none();
            match shown {
                ShownFile::Gone if is_here => drop(names.remove(&name)),
                // What is gone below a directory does not make the directory.
                ShownFile::Gone => {}
                _ => drop(names.insert(name)),
            }
        }
        names
    }
}

fn relative(base: &Path, path: &Path) -> Result<PathBuf> {
    let inside = path.strip_prefix(base).map(Path::to_path_buf);
    inside.map_err(|_| RecoverError::Internal("a file of the datadir is outside of it"))
}
