//! A full backup and the increments that continue it: checks their order, and merges their files into those of the last.
//!
//! ```text
//! manifests -> each must name the one before, or nothing is written -> for each tablespace of the last: pages of all sets, side by side
//!   -> each page verified, pages from a base compared with what the increment saw -> other files and the log: from the last set
//! ```
//!
//! The result is the set that a full backup at the moment of the last increment would have been.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use format::keyring::KeyStore;

use super::delta_file::delta_of;
use super::error::{BackupError, Result, failed, refused};
use super::holes::Holes;
use super::layers::{Layers, Set, Stack};
use crate::door;
use crate::manifest::{BackupState, BackupTablespace, Manifest};
use crate::recover::{
    Increment, RecoverError, Taken, copy_file, make_like, mark_unfinished, refuse_unfinished, walk_datadir,
};
use datadir::content::{delta_note, is_delta};
use datadir::log_name::is_of_log;

/// Only the owner may enter, as in any set.
const MODE: u32 = 0o700;

/// A full backup, then increments, each of which continues the one before.
#[derive(Debug)]
pub(crate) struct Chain {
    sets: Vec<Set>,
}

/// Creates a tablespace's file, with the owner and mode of the whole file that it starts from, and returns its path. `None` to write
/// nothing.
type Make<'m> = dyn FnMut(&Path, &BackupTablespace) -> Result<Option<(PathBuf, File)>> + 'm;

/// Told of a tablespace that was read.
type Done<'m> = dyn FnMut(&Stack<'_>) -> Result<()> + 'm;

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Pages of all tablespaces, each verified.
    pub pages: u64,
}

impl Chain {
    /// Opens the sets. Fails if, by their manifests, they do not continue each other.
    pub fn of(base: &Path, increments: &[PathBuf]) -> Result<Self> {
        let sets = std::iter::once(Set::open(base)).chain(increments.iter().map(|dir| Set::open(dir)));
        let sets = sets.collect::<Result<Vec<_>>>()?;
        for (number, set) in sets.iter().enumerate() {
            refuse_unfinished(&set.dir).map_err(as_job)?;
            fit(set, number == 0)?;
        }
        for pair in sets.windows(2) {
            let [before, after] = pair else { continue };
            if after.manifest.base.as_ref().is_none_or(|base| base.id != before.manifest.id) {
                return does_not_follow(&sets, before, after);
            }
        }
        Ok(Self { sets })
    }

    /// The increments, with their LSNs and their numbers of changed pages and files.
    pub fn increments(&self) -> Vec<Increment> {
        let increment = |set: &Set| {
            let base = set.manifest.base.as_ref()?;
            let deltas = set.manifest.tablespaces.iter().filter_map(|tablespace| tablespace.delta.as_ref());
            let pages: Vec<u64> = deltas.map(|delta| delta.pages).filter(|pages| *pages > 0).collect();
            let (directory, from_lsn, to_lsn) = (set.dir.clone(), base.from_lsn, set.manifest.to_lsn);
            Some(Increment { directory, from_lsn, to_lsn, pages: pages.iter().sum(), files: pages.len() as u64 })
        };
        self.sets.iter().filter_map(increment).collect()
    }

    /// Reads all pages as a merge does, without writing. Returns their number.
    pub fn check(&self, keys: &KeyStore) -> Result<Pages> {
        self.tablespaces(keys, &mut |_, _| Ok(None), &mut |_| Ok(()))
    }

    /// Merges the files into the directory `to`, which is empty or does not exist. Each file that is read is compared with its set's manifest.
    /// Returns their number. The result is marked as an unfinished copy, and is not durable.
    pub fn merge(&self, to: &Path, keys: &KeyStore) -> Result<u64> {
        let Some(last) = self.sets.last() else { return Ok(0) };
        let taken = self.sets.iter().map(|set| {
            let taken = Taken::of(&set.dir).map_err(as_job)?;
            taken.ok_or_else(|| BackupError::Refused(format!("{}: no backup any more", set.dir.display())))
        });
        let taken = taken.collect::<Result<Vec<_>>>()?;
        DirBuilder::new().recursive(true).mode(MODE).create(to).map_err(failed(to, "making the directory"))?;
        door::target_made();
        mark_unfinished(to).map_err(as_job)?;
        // Void until all files are in place: an interrupted merge must not pass for a backup.
        let mut manifest = Manifest::begun(last.manifest.started_at);
        manifest.why = Some("merging its increments was interrupted".to_owned());
        manifest.write(to)?;
        walk(&last.dir, &mut |name, is_dir| {
            let dir = to.join(name);
            if !is_dir {
                return Ok(());
            }
            door::make_dir(to, name).map_err(failed(&dir, "making the directory"))?;
            like(&dir, &last.dir.join(name))
        })?;
        let mut make = |first: &Path, entry: &BackupTablespace| {
            let path = to.join(&entry.path);
            let file = door::make_parents(to, &entry.path).and_then(|()| door::create(to, &entry.path));
            let file = file.map_err(failed(&path, "making the tablespace"))?;
            let like = fs::metadata(first).map_err(failed(first, "looking at the file"))?;
            door::give(&file, &like).map_err(failed(&path, "giving the tablespace its owner"))?;
            Ok(Some((path, file)))
        };
        self.tablespaces(keys, &mut make, &mut |stack| {
            stack.sums().try_for_each(|(set, name, sum)| {
                let Some(taken) = taken.get(set) else { return Ok(()) };
                taken.compare(&name, sum).map_err(as_job)?;
                if is_delta(&name) { taken.compare_small(&delta_note(&name)).map_err(as_job) } else { Ok(()) }
            })
        })?;
        if let Some(taken) = taken.last() {
            others(last, taken, to)?;
        }
        manifest = Manifest { base: None, tablespaces: Vec::new(), ..last.manifest.clone() };
        manifest.write(to)?;
        Ok(taken.iter().map(Taken::compared).sum())
    }

    /// Reads every tablespace of the last set, and writes it if `make` gives a file. `done` is told when all of it was read.
    fn tablespaces(&self, keys: &KeyStore, make: &mut Make<'_>, done: &mut Done<'_>) -> Result<Pages> {
        let Some(last) = self.sets.last() else { return Ok(Pages::default()) };
        let mut layers = Layers::new(keys);
        for entry in &last.manifest.tablespaces {
            let mut stack = layers.open(&self.sets, entry)?;
            let made = make(stack.whole(), entry)?;
            let like = fs::metadata(stack.whole()).map_err(failed(stack.whole(), "looking at the file"))?;
            let holes = Holes::like(&like, entry.page_size as usize);
            layers.read(&mut stack, &mut |offset, bytes| match &made {
                Some((path, file)) => holes.write(file, offset, bytes).map_err(failed(path, "writing the tablespace")),
                None => Ok(()),
            })?;
            if let Some((path, file)) = &made {
                file.set_len(entry.size).map_err(failed(path, "writing the tablespace"))?;
            }
            done(&stack)?;
        }
        Ok(Pages { pages: layers.pages })
    }
}

/// Copies everything but tablespaces from the last set. The log comes last: nothing can be recovered without it.
fn others(last: &Set, taken: &Taken, to: &Path) -> Result<()> {
    let mut done = BTreeSet::new();
    for entry in &last.manifest.tablespaces {
        let delta = delta_of(Path::new(&entry.path));
        done.extend([PathBuf::from(&entry.path), delta_note(&delta), delta]);
    }
    let files = last.manifest.files.iter().map(|file| PathBuf::from(&file.path));
    let (log, files): (Vec<_>, Vec<_>) = files.filter(|name| !done.contains(name)).partition(|name| is_of_log(name));
    let copy = |name: &PathBuf| {
        let sum = copy_file((&last.dir, name), (to, name), true, &AtomicBool::new(false)).map_err(as_job)?;
        sum.map_or(Ok(()), |sum| taken.compare(name, sum)).map_err(as_job)
    };
    files.iter().chain(&log).try_for_each(copy)
}

/// Fails if a set cannot be part of a chain, whatever the others are.
fn fit(set: &Set, is_first: bool) -> Result<()> {
    let (path, manifest) = (set.dir.display(), &set.manifest);
    if manifest.state == BackupState::Void {
        let why = manifest.why.as_deref().unwrap_or("it was interrupted");
        return refused(format!("{path}: this backup is void, because it was never completed: {why}"));
    }
    if let Some(why) = manifest.state.no_base() {
        return refused(format!("{path}: no increment can be merged into this backup: {why}"));
    }
    if !manifest.damaged.is_empty() {
        return refused(format!(
            "{path}: no increment can be merged into this backup: it was taken with --allow-damage, and has damaged pages"
        ));
    }
    match &manifest.base {
        Some(_) if is_first => {
            refused(format!("{path}: an incremental backup: name the full one first, and this one with --increment"))
        }
        None if !is_first => refused(format!("{path}: a full backup: name it first, then its increments")),
        _ => Ok(()),
    }
}

fn does_not_follow<T>(sets: &[Set], before: &Set, after: &Set) -> Result<T> {
    let base = after.manifest.base.as_ref();
    let (id, lsn) = base.map_or(("", 0), |base| (base.id.as_str(), base.to_lsn));
    let hint = match sets.iter().find(|set| set.manifest.id == id && set.dir != after.dir) {
        Some(other) => {
            format!("it continues {}: name increments in the order in which they were taken", other.dir.display())
        }
        None => format!("the backup that it continues, which reaches LSN {lsn}, is missing, or it belongs to another"),
    };
    refused(format!("{}: this increment does not continue {}: {hint}", after.dir.display(), before.dir.display()))
}

/// Gives `made` the owner and mode of `of`.
fn like(made: &Path, of: &Path) -> Result<()> {
    let metadata = fs::metadata(of).map_err(failed(of, "looking at the file"))?;
    make_like(made, &metadata).map_err(as_job)
}

fn walk(dir: &Path, visit: &mut dyn FnMut(&Path, bool) -> Result<()>) -> Result<()> {
    let mut outcome = Ok(());
    walk_datadir(dir, &mut |name, metadata| {
        if outcome.is_ok() {
            outcome = visit(name, metadata.is_dir());
        }
        Ok(())
    })
    .map_err(as_job)?;
    outcome
}

pub(super) fn as_job(error: RecoverError) -> BackupError {
    match error {
        RecoverError::Job(error) => BackupError::Job(error),
        RecoverError::Damaged(why) => BackupError::Damaged(why),
        other => BackupError::Refused(other.to_string()),
    }
}
