//! Turns the directory of a mount into an ordinary datadir.
//!
//! ```text
//! everything is in the upper -> mark: no mount any more -> directories -> each file's data: zeros, length, owner, synced -> a second name at its path
//!   -> names synced -> the journal goes (from here on the upper means nothing) -> the rest of the upper goes
//! ```
//!
//! Data get a second name before they lose the first, so a run that was interrupted is repeated from the beginning.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::{Result, failed, refused};
use crate::place::{Place, boot};
use crate::upper::{Attrs, Base, BaseFile, Disk, Folder, Kind, Upper, Whole, is_there};

/// What a directory has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// Files of the datadir.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Nothing is read from the base any more.
#[derive(Debug)]
struct NoBase;

impl Base for NoBase {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BaseFile>> {
        Err(io::Error::other(format!("{}: the base is needed", path.display())))
    }
}

/// Turns the directory of an earlier mount (`--upper`), into which everything was copied, into a datadir.
///
/// # Errors
/// A mount uses it, something was not copied, or the system refuses. Run it again then.
pub fn finish(dir: &Path) -> Result<Finished> {
    let place = Place::to_finish(dir)?;
    let disk: Arc<dyn Disk> = Arc::new(Folder::new(place.path().to_path_buf(), true));
    let mut done = Finished { files: 0, bytes: 0 };
    let is_begun = is_there(&*disk).map_err(failed(place.path(), "reading the directory"))?;
    if !is_begun && !place.is_finishing() {
        return refused(format!("{}: nothing was mounted with this directory", dir.display()));
    }
    if is_begun {
        let upper =
            Upper::open(disk, Arc::new(NoBase), &boot()).map_err(failed(place.path(), "reading the journal"))?;
        let Some(all) = upper.whole() else {
            return refused(format!(
                "{}: {} bytes of the set were not copied yet: mount it with --hydrate, until that is said to be complete",
                dir.display(),
                upper.share().base
            ));
        };
        place.begin_finishing().map_err(failed(place.path(), "marking the directory"))?;
        for one in &all {
            put(dir, place.path(), one).map_err(failed(&dir.join(&one.path), "making the file"))?;
            if one.kind == Kind::File {
                done = Finished { files: done.files + 1, bytes: done.bytes + one.size };
            }
        }
        let folders = all.iter().rev().filter(|one| one.kind == Kind::Directory);
        for folder in folders.map(|one| dir.join(&one.path)) {
            flow::durable::sync_directory(&folder).map_err(failed(&folder, "syncing the directory"))?;
        }
    }
    remove_upper(dir, place.path()).map_err(failed(place.path(), "removing what is not needed any more"))?;
    Ok(done)
}

fn put(dir: &Path, upper: &Path, one: &Whole) -> io::Result<()> {
    let is_plain = one.path.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return Err(io::Error::other("the name leads out of the directory"));
    }
    let path = dir.join(&one.path);
    match one.kind {
        // A server makes it again.
        Kind::Socket => Ok(()),
        Kind::Directory => {
            if !path.is_dir() {
                DirBuilder::new().mode(0o700).create(&path)?;
            }
            give(&path, &one.attrs)
        }
        Kind::File => {
            let data = upper.join(one.data.clone().unwrap_or_else(|| "empty.data".to_owned()));
            let file = File::options().write(true).create(one.data.is_none()).truncate(false).open(&data)?;
            for zeros in &one.zeros {
                let (from, to) = (zeros.start, zeros.end.min(file.metadata()?.len()));
                if from < to {
                    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, to - from)?;
                }
            }
            file.set_len(one.size)?;
            give(&data, &one.attrs)?;
            let (seconds, nanos) = one.attrs.modified;
            file.set_modified(UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos))?;
            file.sync_all()?;
            name(&data, &path, one.data.is_none())
        }
    }
}

/// Gives the data their path. A run that was interrupted may have done so.
fn name(data: &Path, path: &Path, is_moved: bool) -> io::Result<()> {
    if is_moved {
        // A file without data is made for each path.
        return fs::rename(data, path);
    }
    match fs::hard_link(data, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::metadata(data)?.ino() == fs::symlink_metadata(path)?.ino() { Ok(()) } else { Err(error) }
        }
        other => other,
    }
}

/// Only root gives files away; any other user keeps them.
fn give(path: &Path, attrs: &Attrs) -> io::Result<()> {
    match chown(path, Some(attrs.uid), Some(attrs.gid)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        other => other?,
    }
    fs::set_permissions(path, fs::Permissions::from_mode(attrs.mode & 0o7777))
}

/// The journal first: data are not called the upper's any more then.
fn remove_upper(dir: &Path, upper: &Path) -> io::Result<()> {
    let journal = upper.join("journal");
    match fs::remove_file(&journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other?,
    }
    flow::durable::sync_directory(upper)?;
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(upper)? {
        names.push(entry?.path());
    }
    // The mark last, so that an interrupted run is known as one.
    names.sort_by_key(|path| path.file_name().is_some_and(|name| name == "finishing"));
    for path in names {
        fs::remove_file(path)?;
    }
    fs::remove_dir(upper)?;
    flow::durable::sync_directory(dir)
}
