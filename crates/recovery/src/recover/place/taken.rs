//! The files of a backup that innokit took. Its manifest has their checksums, so a restore compares them while it copies or merges them:
//! reading a set once to verify it and once more to copy it would take twice as long, because most sets are larger than the page cache. Of
//! a set that is recovered where it is, they are compared while the log is read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use flow::{WorkList, run_workers};
use format::checksum::crc32c;

use super::beside::beside;
use super::file_copy::sum_file;
use super::walk::walk;
use crate::door;
use crate::manifest::{BackupFile, MANIFEST, MISSING, Manifest, NOT_LISTED, UNSOUND, is_about_set};
use crate::recover::error::{RecoverError, Result, damaged, failed};
use crate::recover::options::RecoverOptions;
use datadir::Error;

/// A backup that innokit took, with the files that its manifest lists.
#[derive(Debug)]
pub(crate) struct Taken {
    set: PathBuf,
    files: BTreeMap<PathBuf, BackupFile>,
    compared: AtomicU64,
}

impl Taken {
    /// The backup in `set`, if the options ask for a comparison with its manifest.
    pub fn to_compare(set: &Path, options: &RecoverOptions) -> Result<Option<Self>> {
        if options.compare { Self::of(set) } else { Ok(None) }
    }

    /// The backup in `set`, if its files have the names and lengths that the manifest lists. That takes no time, so it is known before
    /// anything is copied. `None` if innokit did not take it, if it is void, or if it is a datadir by now.
    pub fn of(set: &Path) -> Result<Option<Self>> {
        let Some((manifest, is_sound)) = Manifest::of_usable(set)? else { return Ok(None) };
        let files = manifest.files.into_iter().map(|file| (PathBuf::from(&file.path), file)).collect();
        let taken = Self { set: set.to_path_buf(), files, compared: AtomicU64::new(0) };
        if !is_sound {
            return taken.not_as_taken(Path::new(MANIFEST), UNSOUND);
        }
        taken.compare_lengths()?;
        Ok(Some(taken))
    }

    /// The number of files whose content was compared.
    pub fn compared(&self) -> u64 {
        // Relaxed: asked when the workers have been joined.
        self.compared.load(Ordering::Relaxed)
    }

    fn compare_lengths(&self) -> Result<()> {
        let mut missing: BTreeSet<&Path> = self.files.keys().map(PathBuf::as_path).collect();
        walk(&self.set, &mut |name, metadata| {
            if !metadata.is_file() || is_about_set(name) {
                return Ok(());
            }
            missing.remove(name);
            self.judge(name, |file| file.wrong_size(metadata.len()))
        })?;
        missing.first().map_or(Ok(()), |name| self.not_as_taken(name, MISSING))
    }

    /// Fails if one of its files is not among these, although it was there when the lengths were compared: a listing that ends early must
    /// not make a copy that lacks files.
    pub fn account_for<'n>(&self, listed: impl Iterator<Item = &'n Path>) -> Result<()> {
        let listed: BTreeSet<&Path> = listed.collect();
        let Some(lost) = self.files.keys().find(|name| !listed.contains(name.as_path())) else { return Ok(()) };
        let why = format!(
            "the backup was not copied: its listing lacks {}, which the manifest has and which was there a moment ago: run the same again",
            lost.display()
        );
        Err(RecoverError::Job(Error::Unusable { path: self.set.clone(), why }))
    }

    /// Fails if a file is not listed, or something is wrong with it.
    fn judge(&self, name: &Path, wrong: impl FnOnce(&BackupFile) -> Option<String>) -> Result<()> {
        let wrong = self.files.get(name).map_or_else(|| Some(NOT_LISTED.to_owned()), wrong);
        wrong.map_or(Ok(()), |wrong| self.not_as_taken(name, &wrong))
    }

    /// Fails if a file, whose content has this CRC-32C, was changed.
    pub fn compare(&self, name: &Path, crc32c: u32) -> Result<()> {
        if is_about_set(name) {
            return Ok(());
        }
        self.judge(name, |file| file.wrong_content(&format!("{crc32c:08x}")))?;
        // Relaxed: a count.
        self.compared.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Compares the content of all files, on all cores, while `work` runs on this thread. If `work` fails, the comparing stops.
    pub fn compare_beside<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let stop = AtomicBool::new(false);
        beside(&stop, || self.compare_all(&stop), work)
    }

    fn compare_all(&self, stop: &AtomicBool) -> Result<()> {
        let mut files: Vec<(&PathBuf, u64)> = self.files.iter().map(|(name, file)| (name, file.size)).collect();
        // The largest first, so that no worker is left alone with it.
        files.sort_by_key(|(name, size)| (Reverse(*size), *name));
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(files.len());
        let list = WorkList::new(&files);
        let compared = run_workers(workers, |_| {
            // Relaxed: a moment later will do.
            while let Some((_, (name, _))) = list.take().filter(|_| !stop.load(Ordering::Relaxed)) {
                let sum = sum_file(&self.set.join(name), stop);
                sum.and_then(|sum| self.compare(name, sum)).inspect_err(|_| list.abandon())?;
            }
            Ok(())
        });
        compared.into_iter().collect()
    }

    /// Reads a small file, and fails if it was changed.
    pub fn compare_small(&self, name: &Path) -> Result<()> {
        let path = self.set.join(name);
        let bytes = door::read_file(&path).map_err(failed(&path, "reading the file"))?;
        self.compare(name, crc32c(&bytes))
    }

    fn not_as_taken<T>(&self, name: &Path, why: &str) -> Result<T> {
        damaged(format!("{}: not as it was backed up: {}: {why}", self.set.display(), name.display()))
    }
}
