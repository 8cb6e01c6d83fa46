//! The directory as such: is a server running on it, a copy of it, and names that are to be durable.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock, syncfs};

use super::error::{Result, failed, refused};
use super::outside;
use crate::source::name::NameHint;

const LOG: &str = "ib_logfile0";
/// The files that a running server has locked.
const LOCKED: [&str; 2] = ["aria_log_control", "ibdata1"];

/// Keeps servers away from a datadir. They hold such locks themselves while they run.
#[derive(Debug)]
pub(super) struct Lock {
    /// A process loses its locks on a file when it closes any descriptor of it: nobody else here opens the first of these.
    _files: Vec<File>,
}

impl Lock {
    /// Locks the datadir, or finds that a server runs on it. `for_writing` keeps other readers away too.
    pub fn take(datadir: &Path, for_writing: bool) -> Result<Self> {
        let mut files = Vec::new();
        for name in LOCKED {
            let path = datadir.join(name);
            let file = match File::options().read(true).write(for_writing).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(&path, "opening the file")(error)),
            };
            let exclusive = FlockOperation::NonBlockingLockExclusive;
            let operation = if for_writing { exclusive } else { FlockOperation::NonBlockingLockShared };
            if fcntl_lock(&file, operation).is_err() {
                return refused(format!(
                    "{}: a server runs on this datadir ({name} is locked): stop it first, or recover a copy",
                    datadir.display()
                ));
            }
            files.push(file);
        }
        Ok(Self { _files: files })
    }
}

/// Copies a datadir, sharing its blocks where the file system can. What lies `outside` of it comes to lie inside, without link files.
pub(crate) fn copy(from: &Path, to: &Path, outside: &[PathBuf]) -> Result<()> {
    let is_empty = fs::read_dir(to).map(|mut entries| entries.next().is_none()).unwrap_or(!to.exists());
    if !is_empty {
        return refused(format!("{}: there is something already", to.display()));
    }
    let parent = to.ancestors().find(|ancestor| ancestor.exists() && !ancestor.as_os_str().is_empty());
    let (parent, source) = (parent.map(fs::canonicalize), fs::canonicalize(from));
    if let (Some(Ok(parent)), Ok(source)) = (parent, source)
        && parent.starts_with(source)
    {
        return refused(format!("{}: the copy cannot lie in the datadir itself", to.display()));
    }
    let moves = moves(from, outside)?;
    copy_below(from, to, from)?;
    for (source, target) in moves {
        fs::copy(source, to.join(target)).map_err(failed(source, "copying the file"))?;
    }
    outside::mark(to)?;
    sync_all_below(to)?;
    // Without its log a datadir is none: a copy that was interrupted is not taken for one.
    let (log, copied) = (from.join(LOG), to.join(LOG));
    fs::copy(&log, &copied).map_err(failed(&log, "copying the file"))?;
    sync_all_below(to)
}

/// Files from outside, and their places in the copy.
fn moves<'p>(from: &Path, outside: &'p [PathBuf]) -> Result<Vec<(&'p PathBuf, PathBuf)>> {
    let mut moves: Vec<(&PathBuf, PathBuf)> = Vec::new();
    for source in outside {
        let target = outside::inside(source).filter(|target| {
            let is_new = moves.iter().all(|(_, other)| other != target);
            is_new && !from.join(target).exists() && target.parent().is_some_and(|dir| from.join(dir).is_dir())
        });
        let Some(target) = target else {
            let name = source.display();
            return refused(format!("{name} lies outside of the datadir, and a copy has no place for it that is free"));
        };
        moves.push((source, target));
    }
    Ok(moves)
}

fn sync_all_below(to: &Path) -> Result<()> {
    let dir = File::open(to).map_err(failed(to, "opening the copy"))?;
    syncfs(dir).map_err(|error| failed(to, "making the copy durable")(error.into()))
}

/// Everything but the log of `datadir`.
fn copy_below(from: &Path, to: &Path, datadir: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(failed(to, "making the directory"))?;
    for entry in fs::read_dir(from).map_err(failed(from, "reading the directory"))? {
        let entry = entry.map_err(failed(from, "reading the directory"))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let metadata = fs::metadata(&source).map_err(failed(&source, "looking at the file"))?;
        if metadata.is_dir() {
            copy_below(&source, &target, datadir)?;
        } else if metadata.is_file() && source != datadir.join(LOG) && NameHint::of(&source) != NameHint::Link {
            fs::copy(&source, &target).map_err(failed(&source, "copying the file"))?;
        }
    }
    Ok(())
}

/// Makes the names in a file's directory durable.
pub(super) fn sync_directory_of(path: &Path) -> Result<()> {
    let dir = path.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    let synced = File::open(&dir).and_then(|dir| dir.sync_all());
    synced.map_err(failed(&dir, "making names durable"))
}
