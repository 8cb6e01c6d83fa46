//! The directory itself: whether a server runs on it, what is in it, and copying it.

mod beside;
pub(super) mod durable;
pub(super) mod elsewhere;
pub(super) mod file_copy;
pub(super) mod open_files;
pub(super) mod outside;
pub(super) mod taken;
pub(super) mod unfinished;
pub(super) mod walk;

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::{io, thread};

use flow::lock::{Sharing, lock_soon};
use flow::{WorkList, run_workers};

use self::beside::beside;
use self::durable::make_directories;
use self::file_copy::{copy_file, copy_opened};
use self::taken::Taken;
use self::walk::walk;
use crate::door;
use crate::recover::error::{RecoverError, Result, failed, refused};
use datadir::backup_notes::{BackupNotes, SIGNATURE};
use datadir::files::AskPath;
use datadir::log_name::{REDO_DIR, is_of_log};
use datadir::name::{NameHint, places_inside};
use datadir::stop;

/// Name of the file in the datadir that keeps the old content of pages while they are written in place.
pub const SHADOW_NAME: &str = "innokit-recover.shadow";

/// Files that a running server locks.
const LOCKED: [&str; 2] = ["aria_log_control", "ibdata1"];

/// Keeps servers off a datadir: they take the same locks, and hold them while they run.
#[derive(Debug)]
pub(in crate::recover) struct Lock {
    _files: Vec<File>,
}

impl Lock {
    /// Locks the datadir, or detects a running server. A writer keeps other readers out too.
    pub fn take(datadir: &Path, sharing: Sharing) -> Result<Self> {
        let mut files = Vec::new();
        for name in LOCKED {
            let path = datadir.join(name);
            let file = match door::open_to_lock(&path, sharing == Sharing::Exclusive) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(&path, "opening the file")(error)),
            };
            if !lock_soon(&file, sharing).map_err(failed(&path, "locking the file"))? {
                return Err(RecoverError::Locked { datadir: datadir.to_path_buf(), file: name });
            }
            files.push(file);
        }
        Ok(Self { _files: files })
    }
}

/// Whether `to` does not exist or is an empty directory.
pub(crate) fn is_free(to: &Path) -> bool {
    fs::read_dir(to).map(|mut entries| entries.next().is_none()).unwrap_or(!to.is_there())
}

/// A file or a directory of a datadir, by its names there and in the copy.
struct Entry {
    name: PathBuf,
    target: PathBuf,
    metadata: Metadata,
}

/// Everything in a datadir.
pub(in crate::recover) struct Inside {
    /// The log, or its files and their directory. In the copy they have other names until it is complete.
    logs: Vec<Entry>,
    others: Vec<Entry>,
}

/// Copies a datadir, sharing blocks where the file system can.
pub(in crate::recover) struct Copying<'d> {
    from: &'d Path,
    to: &'d Path,
    /// What the files are compared with while they are copied.
    taken: Option<&'d Taken>,
    /// Tells the workers that the copy is not wanted any more.
    stop: AtomicBool,
}

/// Copies a datadir, sharing blocks where the file system can. Files `outside` of it are placed inside, without link files.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy(from: &Path, to: &Path, outside: &[PathBuf]) -> Result<()> {
    Copying::new(from, to, None).all(outside)
}

impl<'d> Copying<'d> {
    pub const fn new(from: &'d Path, to: &'d Path, taken: Option<&'d Taken>) -> Self {
        Self { from, to, taken, stop: AtomicBool::new(false) }
    }

    /// Copies everything and makes it durable.
    pub fn all(&self, outside: &[PathBuf]) -> Result<()> {
        let inside = self.begin()?;
        self.entries(inside.others.iter().chain(&inside.logs))?;
        self.outside(outside)?;
        self.put_logs(&inside)?;
        sync(self.to)?;
        unfinished::unmark(self.to)
    }

    /// Lists the datadir and makes the copy's directory, which is marked as unfinished.
    pub fn begin(&self) -> Result<Inside> {
        let Self { from, to, .. } = self;
        if !is_free(to) {
            return Err(unfinished::occupied(to));
        }
        let parent = to.ancestors().find(|ancestor| ancestor.is_there() && !ancestor.as_os_str().is_empty());
        let (parent, source) = (parent.map(fs::canonicalize), fs::canonicalize(from));
        if let (Some(Ok(parent)), Ok(source)) = (parent, source)
            && parent.starts_with(source)
        {
            return refused(format!("{}: the copy cannot be inside the datadir itself", to.display()));
        }
        // List everything before copying: the copy may end up inside a directory that a link in the datadir leads to.
        let mut inside = Vec::new();
        walk(from, &mut |name, metadata| {
            let target = if is_of_log(name) { aside(name) } else { name.to_path_buf() };
            inside.push(Entry { name: name.to_path_buf(), target, metadata: metadata.clone() });
            Ok(())
        })?;
        if let Some(taken) = self.taken {
            taken.account_for(inside.iter().map(|entry| entry.name.as_path()))?;
        }
        make_directories(&std::path::absolute(to).map_err(failed(to, "making the directory"))?, from)?;
        door::target_made();
        unfinished::mark(to)?;
        // Skip link files, since their targets are placed inside. A backup's link files tell copy-back where to put tables that are
        // already inside.
        let is_backup = BackupNotes::of(from).is_some();
        let is_left_out = |name: &Path| NameHint::of(name) == NameHint::Link && !is_backup;
        inside.retain(|entry| entry.metadata.is_dir() || !is_left_out(&entry.name));
        // It says who wrote the backup, which the copy is no longer.
        inside.retain(|entry| entry.name != Path::new(SIGNATURE));
        // Notes about another run. Its shadow file is finished in the copy.
        inside.retain(|entry| !door::is_own_note(&entry.name) || entry.name == Path::new(SHADOW_NAME));
        let (logs, others) = inside.into_iter().partition(|entry| is_of_log(&entry.name));
        Ok(Inside { logs, others })
    }

    /// Copies everything inside, while `work` runs on this thread. If that fails, the copying stops. The copy is not durable, and the log
    /// is not in its place. With `has_log` false, the log is not copied at all.
    pub fn beside<T>(&self, inside: &Inside, has_log: bool, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let logs = inside.logs.iter().filter(|_| has_log);
        beside(&self.stop, || self.entries(inside.others.iter().chain(logs)), work)
    }

    /// Places files that are outside of the datadir inside of the copy, without link files.
    pub fn outside(&self, files: &[PathBuf]) -> Result<()> {
        for (source, target) in moves(self.from, files)? {
            let opened = door::open_file(source).map_err(failed(source, "opening the file"))?;
            copy_opened((&opened, source), (self.to, &target), false, &self.stop)?;
        }
        outside::mark(self.to)
    }

    /// Copies the log, which is not in its place yet.
    pub fn logs(&self, inside: &Inside) -> Result<()> {
        self.entries(inside.logs.iter())
    }

    /// Puts the log in its place, which completes the copy.
    pub fn put_logs(&self, inside: &Inside) -> Result<()> {
        // Files in the log's directory move with it.
        let is_alone = |entry: &&Entry| !entry.name.starts_with(REDO_DIR) || entry.metadata.is_dir();
        inside.logs.iter().filter(is_alone).try_for_each(|entry| {
            let target = self.to.join(&entry.name);
            door::rename(self.to, &entry.target, &entry.name)
                .map_err(failed(&target, "putting the redo log in its place"))
        })
    }

    /// Makes empty files with the names of the log's, for a log that is about to be replaced.
    pub fn put_empty_logs(&self, inside: &Inside) -> Result<()> {
        for Entry { name, metadata, .. } in inside.logs.iter().filter(|entry| entry.metadata.is_file()) {
            let path = self.to.join(name);
            let made = door::create(self.to, name).and_then(|made| door::give(&made, metadata));
            made.map_err(failed(&path, "making the redo log"))?;
        }
        Ok(())
    }

    fn entries<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> Result<()> {
        let (directories, files): (Vec<&Entry>, Vec<&Entry>) = entries.partition(|entry| entry.metadata.is_dir());
        for Entry { target, .. } in &directories {
            door::make_dir(self.to, target).map_err(failed(&self.to.join(target), "making the directory"))?;
        }
        let mut files: Vec<&Entry> = files.into_iter().filter(|entry| entry.metadata.is_file()).collect();
        // The largest first, so that no worker is left alone with it.
        files.sort_by_key(|entry| (Reverse(entry.metadata.len()), &entry.name));
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(files.len());
        let list = WorkList::new(&files);
        let copied = run_workers(workers, |_| {
            while let Some((_, entry)) = list.take() {
                if stop::is_told(&self.stop) {
                    break;
                }
                self.file(entry).inspect_err(|_| list.abandon())?;
            }
            Ok(())
        });
        copied.into_iter().collect::<Result<()>>()?;
        // Last: a directory without write permission for its owner could not be filled.
        directories.iter().try_for_each(|Entry { target, metadata, .. }| {
            let given = door::open_dir(self.to, target).and_then(|dir| door::give(&dir, metadata));
            given.map_err(failed(&self.to.join(target), "giving the directory its owner and mode"))
        })
    }

    fn file(&self, entry: &Entry) -> Result<()> {
        let Entry { name, target, .. } = entry;
        let sum = copy_file((self.from, name), (self.to, target), self.taken.is_some(), &self.stop)?;
        match (self.taken, sum) {
            (Some(taken), Some(sum)) => taken.compare(name, sum),
            _ => Ok(()),
        }
    }
}

/// The name of a log, or of its directory or a file there, in a copy that is not complete: no server takes that for a datadir.
fn aside(name: &Path) -> PathBuf {
    let mut aside = OsString::from("innokit-recover.");
    aside.push(name);
    PathBuf::from(aside)
}

/// Makes the copy durable.
pub(in crate::recover) fn sync(to: &Path) -> Result<()> {
    flow::durable::sync_file_system_of(to).map_err(failed(to, "making the copy durable"))
}

/// The outside files, each with its place in the copy.
fn moves<'p>(from: &Path, outside: &'p [PathBuf]) -> Result<Vec<(&'p PathBuf, PathBuf)>> {
    let mut moves: Vec<(&PathBuf, PathBuf)> = Vec::new();
    // MariaDB has nothing but tables outside.
    let tried = if from.join("mysql.ibd").is_file_there() { 2 } else { 1 };
    for source in outside {
        let target = places_inside(source).take(tried).find(|target| {
            let is_new = moves.iter().all(|(_, other)| other != target);
            is_new
                && !from.join(target).is_there()
                && target.parent().is_some_and(|dir| from.join(dir).is_folder_there())
        });
        let Some(target) = target else {
            let name = source.display();
            return refused(format!("{name} is outside the datadir, and its place in the copy is taken"));
        };
        moves.push((source, target));
    }
    Ok(moves)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use rustix::fs::{FlockOperation, fcntl_lock};

    use super::walk::LOST;
    use super::*;
    use datadir::log_name::LOG;

    fn datadir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["ibdata1", LOG] {
            fs::write(dir.path().join(name), name).expect("written");
        }
        dir
    }

    #[test]
    fn a_datadir_stays_locked_whatever_is_read_of_it() {
        let dir = datadir();
        let system = dir.path().join("ibdata1");
        let lock = Lock::take(dir.path(), Sharing::Exclusive).expect("nobody has it");
        fs::read(&system).expect("read");
        let server = File::options().read(true).write(true).open(&system).expect("opens");
        fcntl_lock(&server, FlockOperation::NonBlockingLockExclusive).expect_err("as a server would");
        assert!(Lock::take(dir.path(), Sharing::Shared).is_err());
        drop(lock);
        fcntl_lock(&server, FlockOperation::NonBlockingLockExclusive).expect("is free");
        let error = Lock::take(dir.path(), Sharing::Shared).map(drop);
        // The lock is held by the same process, so only locks per open file detect it.
        assert!(error.is_err_and(|error| error.to_string().contains("a server runs")));
    }

    #[test]
    fn links_that_lead_nowhere_or_back_and_lost_files_are_no_part_of_a_datadir() {
        let dir = datadir();
        fs::create_dir_all(dir.path().join("db")).expect("made");
        fs::create_dir_all(dir.path().join(LOST).join("db")).expect("made");
        let outside = tempfile::tempdir().expect("a directory");
        fs::write(outside.path().join("t.ibd"), "t").expect("written");
        for (target, link) in [(Path::new("."), "db/self"), (dir.path(), "db/back"), (outside.path(), "linked")] {
            symlink(target, dir.path().join(link)).expect("linked");
        }
        symlink("nowhere", dir.path().join("dangling.ibd")).expect("linked");
        let mut seen = Vec::new();
        walk(dir.path(), &mut |name, _| {
            seen.push(name.display().to_string());
            Ok(())
        })
        .expect("walked");
        assert_eq!(seen, ["db", LOG, "ibdata1", "linked", "linked/t.ibd"]);
        let to = outside.path().join("made/copy");
        copy(dir.path(), &to, &[]).expect("copied");
        assert_eq!(fs::read(to.join("linked/t.ibd")).expect("copied"), b"t");
        assert!(to.join(LOG).is_file() && !to.join(LOST).exists());
        unfinished::refuse(&to).expect("it is finished");
        assert!(copy(dir.path(), &to, &[]).is_err_and(|error| error.to_string().contains("left its copy here")));
        let to = outside.path().join("unfinished");
        let copying = Copying::new(dir.path(), &to, None);
        let inside = copying.begin().expect("free");
        copying.beside(&inside, true, || Ok(())).expect("copied");
        unfinished::refuse(&to).expect_err("it is not");
        assert!(!to.join(LOG).exists() && to.join("ibdata1").exists());
        copying.put_logs(&inside).expect("put");
        assert_eq!(fs::read(to.join(LOG)).expect("is there"), LOG.as_bytes());
    }

    #[test]
    fn a_copy_has_the_modes_and_for_root_the_owners_of_the_original() {
        let (dir, to) = (datadir(), tempfile::tempdir().expect("a directory"));
        fs::create_dir(dir.path().join("db")).expect("made");
        fs::write(dir.path().join("db/t.ibd"), "t").expect("written");
        let names = ["", "db", "db/t.ibd", "ibdata1", LOG];
        let modes = [0o750, 0o700, 0o660, 0o640, 0o600];
        let may_give = chown(dir.path().join("db"), Some(1234), Some(4321)).is_ok();
        for (name, mode) in names.into_iter().zip(modes) {
            let path = dir.path().join(name);
            if may_give {
                chown(&path, Some(1234), Some(4321)).expect("given away");
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        let to = to.path().join("copy");
        copy(dir.path(), &to, &[]).expect("copied");
        for name in names {
            let [original, copied] = [dir.path(), &to].map(|dir| fs::metadata(dir.join(name)).expect("is there"));
            assert_eq!(copied.mode(), original.mode(), "{name}");
            assert!(!may_give || (copied.uid(), copied.gid()) == (1234, 4321), "{name}");
        }
    }
}
