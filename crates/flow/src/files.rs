//! The files of a run: each is opened for its first block, and closed when nothing uses it any more.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::counters::{WorkerCounters, add};
use crate::descriptors::OnDemand;
use crate::fuse::is_fuse;

/// Offsets and lengths of direct requests must be multiples of this, in bytes: enough for devices with blocks of 512 and of 4096.
pub const DIRECT_ALIGN: u32 = 4096;

/// A file of a [`FileSet`], by its position there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// The files of a run: their paths, and their lengths when they were listed.
///
/// A file is opened by the worker that needs its first block, shared with the workers that need others, and closed when the last of them
/// moves on to another file: the number of open files depends on the windows of the workers, not on the number of files.
#[derive(Debug)]
pub struct FileSet {
    files: Box<[FileEntry]>,
    /// The engine that carries the requests for files without a path. Its type is erased: this file must not know engines (`carried.rs`).
    carrier: Option<Box<dyn Any + Send + Sync>>,
    /// Whether a file is on FUSE, once that was asked.
    on_fuse: OnceLock<bool>,
}

#[derive(Debug)]
struct FileEntry {
    path: PathBuf,
    len: u64,
    state: Mutex<OpenState>,
}

#[derive(Debug)]
enum OpenState {
    /// Not known to be open; the reference is dead once all readers have dropped the file.
    Shared(Weak<OpenFile>),
    /// Opening failed, for good: a million blocks of a vanished file must not cause a million tries.
    Failed(Arc<io::Error>),
    /// An engine has the file, or the caller has it open; nothing needs to be opened.
    Held(Arc<OpenFile>),
}

impl FileSet {
    /// Paths, and the number of bytes to read of each. A file that has grown since is read only up to this length; one that has shrunk ends
    /// early.
    pub fn new(files: impl IntoIterator<Item = (PathBuf, u64)>) -> Self {
        let entry = |(path, len)| FileEntry { path, len, state: Mutex::new(OpenState::Shared(Weak::new())) };
        Self { files: files.into_iter().map(entry).collect(), carrier: None, on_fuse: OnceLock::new() }
    }

    /// Paths, lengths, and whether `carrier` keeps the file; the others are opened by their paths.
    pub(crate) fn with_carrier(
        carrier: Box<dyn Any + Send + Sync>,
        files: impl IntoIterator<Item = (PathBuf, u64, bool)>,
    ) -> Self {
        let entry = |(path, len, kept)| {
            let state = match kept {
                true => OpenState::Held(FileHandle::of_engine().file),
                false => OpenState::Shared(Weak::new()),
            };
            FileEntry { path, len, state: Mutex::new(state) }
        };
        Self { files: files.into_iter().map(entry).collect(), carrier: Some(carrier), on_fuse: OnceLock::new() }
    }

    /// Files that an engine keeps itself, such as the [simulated device](crate::queue::sim::SimDevice): names for messages, and the number
    /// of bytes to read of each. The `FileId`s are the engine's, counted from 0.
    pub fn of_engine(files: impl IntoIterator<Item = (PathBuf, u64)>) -> Self {
        let entry =
            |(path, len)| FileEntry { path, len, state: Mutex::new(OpenState::Held(FileHandle::of_engine().file)) };
        Self { files: files.into_iter().map(entry).collect(), carrier: None, on_fuse: OnceLock::new() }
    }

    /// One file that the caller has open, and the number of bytes to read of it. Its `FileId` is 0. `path` is for messages only: it may
    /// name another file by now.
    pub fn of_open(file: impl Into<OwnedFd>, path: PathBuf, len: u64) -> Self {
        let file = Arc::new(OpenFile::new(Some(file.into()), None));
        let entry = FileEntry { path, len, state: Mutex::new(OpenState::Held(file)) };
        Self { files: [entry].into(), carrier: None, on_fuse: OnceLock::new() }
    }

    pub(crate) fn carrier<C: Any>(&self) -> Option<&C> {
        self.carrier.as_ref()?.downcast_ref()
    }

    /// Remembers that the file cannot be read at all: its other blocks fail without another request.
    pub(crate) fn fail(&self, file: FileId, error: &Arc<io::Error>) {
        if let Some(entry) = self.files.get(file.0 as usize) {
            *entry.state.lock().unwrap_or_else(PoisonError::into_inner) = OpenState::Failed(Arc::clone(error));
        }
    }

    /// Whether a file is in a file system of a user's program (FUSE: sshfs, s3fs, gocryptfs). Asked once for each folder.
    pub(crate) fn is_on_fuse(&self) -> bool {
        *self.on_fuse.get_or_init(|| {
            let mut folders: Vec<&Path> = self.files.iter().filter_map(|entry| entry.path.parent()).collect();
            folders.sort_unstable();
            folders.dedup();
            folders.into_iter().any(is_fuse)
        })
    }

    /// The same of one file, asked anew.
    pub(crate) fn is_on_fuse_itself(&self, file: FileId) -> bool {
        self.path(file).parent().is_some_and(is_fuse)
    }

    /// The number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The path of a file; empty for a `FileId` of another set.
    #[must_use]
    pub fn path(&self, file: FileId) -> &Path {
        self.files.get(file.0 as usize).map_or(Path::new(""), |entry| &entry.path)
    }

    /// The expected length of a file in bytes; 0 for a `FileId` of another set.
    #[must_use]
    pub fn len_of(&self, file: FileId) -> u64 {
        self.files.get(file.0 as usize).map_or(0, |entry| entry.len)
    }

    /// The expected length of all files together, in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.lengths().sum()
    }

    pub(crate) fn lengths(&self) -> impl Iterator<Item = u64> {
        self.files.iter().map(|entry| entry.len)
    }

    /// The open file. Opens it, unless a worker has it open.
    ///
    /// `direct` says which handle to open first, so that a run with direct I/O does not open every file twice. A lack of descriptors is not
    /// remembered, since it is temporary.
    pub(crate) fn open(
        &self,
        file: FileId,
        direct: bool,
        counters: &WorkerCounters,
    ) -> Result<Arc<OpenFile>, Arc<io::Error>> {
        let Some(entry) = self.files.get(file.0 as usize) else {
            return Err(Arc::new(io::ErrorKind::NotFound.into()));
        };
        let mut state = entry.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            OpenState::Failed(error) => return Err(Arc::clone(error)),
            OpenState::Held(file) => return Ok(Arc::clone(file)),
            OpenState::Shared(shared) => {
                if let Some(open) = shared.upgrade() {
                    return Ok(open);
                }
            }
        }
        match OpenFile::open(&entry.path, direct, counters) {
            Ok(open) => {
                let open = Arc::new(open);
                *state = OpenState::Shared(Arc::downgrade(&open));
                Ok(open)
            }
            Err(errno) => {
                let error = Arc::new(io::Error::from(errno));
                if !out_of_descriptors(&error) {
                    *state = OpenState::Failed(Arc::clone(&error));
                }
                Err(error)
            }
        }
    }
}

/// Whether opening failed only for lack of descriptors, so that it may succeed once other files are closed.
pub(crate) fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// A file with up to two handles: one for buffered and one for direct I/O.
#[derive(Debug)]
pub(crate) struct OpenFile {
    buffered: OnceLock<OwnedFd>,
    /// `None`: the file system refuses direct I/O.
    direct: OnceLock<Option<OwnedFd>>,
    /// Direct reads were refused, although opening was not.
    direct_fails: AtomicBool,
    advised: AtomicBool,
    /// An engine has the file, and there is no descriptor.
    of_engine: bool,
}

impl OpenFile {
    /// With the handles that exist: `direct` is `Some(None)` if there will be none.
    fn new(buffered: Option<OwnedFd>, direct: Option<Option<OwnedFd>>) -> Self {
        Self {
            buffered: buffered.map(OnceLock::from).unwrap_or_default(),
            direct: direct.map(OnceLock::from).unwrap_or_default(),
            direct_fails: AtomicBool::new(false),
            advised: AtomicBool::new(false),
            of_engine: false,
        }
    }

    /// Device and inode of the file that a descriptor is open on. `None` without a descriptor.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        let fd = self.buffered.get().or_else(|| self.direct.get()?.as_ref())?;
        let stat = rustix::fs::fstat(fd).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }

    fn open(path: &Path, direct: bool, counters: &WorkerCounters) -> Result<Self, Errno> {
        let file = Self::new(None, None);
        let handle = if direct { open_direct(path) } else { Err(Errno::INVAL) };
        match handle {
            Ok(handle) => drop(file.direct.set(Some(handle))),
            Err(Errno::INVAL) => {
                let handle = open_buffered(path)?;
                if direct {
                    add(&counters.direct_refused, 1);
                    drop(file.direct.set(None));
                }
                drop(file.buffered.set(handle));
            }
            Err(errno) => return Err(errno),
        }
        add(&counters.opens, 1);
        Ok(file)
    }

    /// The handle for direct reads, opened on first use; `None` if the file system refuses.
    pub(crate) fn direct(&self, counters: &WorkerCounters) -> Option<BorrowedFd<'_>> {
        // Relaxed: a worker that sees it late has one more read refused, and then tries as if it had seen it.
        if self.direct_fails.load(Ordering::Relaxed) {
            return None;
        }
        let open = || {
            let direct = self.buffered.get().and_then(|fd| open_direct(&same_file(fd)).ok());
            if direct.is_none() {
                add(&counters.direct_refused, 1);
            }
            direct
        };
        self.direct.get_or_init(open).as_ref().map(AsFd::as_fd)
    }

    /// Disables the direct handle, because a read through it was refused.
    pub(crate) fn refuse_direct(&self, counters: &WorkerCounters) {
        // Relaxed: swaps of one flag have one order, so one caller counts the refusal; nothing else is concluded from it.
        if !self.direct_fails.swap(true, Ordering::Relaxed) {
            add(&counters.direct_refused, 1);
        }
    }

    /// The handle for buffered reads.
    pub(crate) fn buffered(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(fd) = self.buffered.get() {
            return Ok(fd.as_fd());
        }
        let direct = self.direct.get().and_then(Option::as_ref).ok_or(Errno::BADF)?;
        let opened = open_buffered(&same_file(direct))?;
        Ok(self.buffered.get_or_init(|| opened).as_fd())
    }

    /// Asks the kernel once for long read-ahead: the file will be read from start to end.
    pub(crate) fn advise_sequential(&self) {
        // Relaxed: one caller gives the advice, no matter which; nothing relies on it.
        if !self.advised.swap(true, Ordering::Relaxed)
            && let Ok(fd) = self.buffered()
        {
            advise_sequential(fd);
        }
    }
}

/// An open file, or one of the two handles of a file opened by a [`FileSet`]; stays open while a request holds it.
#[derive(Debug, Clone)]
pub struct FileHandle {
    file: Arc<OpenFile>,
    direct: bool,
    /// How to open the file for a request; then `file` has no descriptor.
    on_demand: Option<Arc<OnDemand>>,
}

impl FileHandle {
    /// The handle for a request; buffered if direct I/O is refused, so ask [`FileHandle::is_direct`] afterwards.
    pub(crate) fn new(file: &Arc<OpenFile>, direct: bool, counters: &WorkerCounters) -> io::Result<Self> {
        let direct = direct && file.direct(counters).is_some();
        if !direct && !file.of_engine {
            file.buffered()?;
        }
        Ok(Self { file: Arc::clone(file), direct, on_demand: None })
    }

    /// The handle for requests to a file that the caller opened, for writing if it will be written to. `direct`: it was opened with
    /// `O_DIRECT`.
    #[must_use]
    pub fn of_file(file: impl Into<OwnedFd>, direct: bool) -> Self {
        let (buffered, past) = if direct { (None, Some(file.into())) } else { (Some(file.into()), None) };
        Self { file: Arc::new(OpenFile::new(buffered, Some(past))), direct, on_demand: None }
    }

    /// Like [`FileHandle::of_file`], but direct if the file system supports it: then requests must be multiples of [`DIRECT_ALIGN`]. With
    /// `for_writing`, the file must have been opened for writing.
    #[must_use]
    pub fn past_cache(file: impl Into<OwnedFd>, for_writing: bool) -> Self {
        let file = file.into();
        let access = if for_writing { OFlags::RDWR } else { OFlags::RDONLY };
        match reopen_direct(&same_file(&file), access) {
            Ok(direct) => Self::of_file(direct, true),
            Err(_) => Self::of_file(file, false),
        }
    }

    /// The handle for requests to an engine that keeps its own files. It has no descriptor.
    #[must_use]
    pub fn of_engine() -> Self {
        let file = OpenFile { of_engine: true, ..OpenFile::new(None, Some(None)) };
        Self { file: Arc::new(file), direct: false, on_demand: None }
    }

    pub(crate) fn on_demand(how: Arc<OnDemand>, direct: bool) -> Self {
        Self { file: Arc::new(OpenFile::new(None, Some(None))), direct, on_demand: Some(how) }
    }

    /// The handle for a request: this one, or for a handle of [`Descriptors`](crate::Descriptors) one whose file is open while it exists.
    ///
    /// # Errors
    /// The file cannot be opened again.
    pub fn opened(&self) -> io::Result<Self> {
        match &self.on_demand {
            Some(how) => Ok(Self { file: how.open()?, direct: self.direct, on_demand: None }),
            None => Ok(self.clone()),
        }
    }

    /// Whether requests bypass the page cache, and so must be aligned.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    /// The descriptor, for reads and writes at explicit offsets only.
    ///
    /// # Errors
    /// `EBADF` for a handle made by [`FileHandle::of_engine`], or of [`Descriptors`](crate::Descriptors) before it is
    /// [opened](FileHandle::opened); none for others, since their descriptor was opened when they were made.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match self.file.direct.get() {
            Some(Some(fd)) if self.direct => Ok(fd.as_fd()),
            _ => self.file.buffered(),
        }
    }
}

/// A path to an open file itself, even if its name was given to another file meanwhile.
fn same_file(fd: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    let dir = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    PathBuf::from(format!("{dir}/{}", fd.as_raw_fd()))
}

/// Opens a file with one handle: with `direct`, the one for direct I/O.
pub(crate) fn open_for(path: &Path, for_writing: bool, direct: bool) -> io::Result<OpenFile> {
    let access = if for_writing { OFlags::RDWR } else { OFlags::RDONLY };
    if direct {
        return Ok(OpenFile::new(None, Some(Some(reopen_direct(path, access)?))));
    }
    // A pipe that took the file's name is not waited for.
    let file = rustix::fs::open(path, access | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    Ok(OpenFile::new(Some(file), Some(None)))
}

fn open_buffered(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(target_os = "linux")]
fn reopen_direct(path: &Path, access: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, access | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty())
}

/// Other systems have no `O_DIRECT`: answer like a file system that refuses it.
#[cfg(not(target_os = "linux"))]
fn reopen_direct(_path: &Path, _access: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::INVAL)
}

fn open_direct(path: &Path) -> Result<OwnedFd, Errno> {
    reopen_direct(path, OFlags::RDONLY)
}

#[cfg(target_os = "linux")]
fn advise_sequential(fd: BorrowedFd<'_>) {
    // Advice that is ignored changes only the speed.
    rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::Sequential).ok();
}

#[cfg(not(target_os = "linux"))]
fn advise_sequential(_fd: BorrowedFd<'_>) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(bytes: &[u8]) -> (tempfile::TempDir, FileSet) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("file");
        std::fs::write(&path, bytes).expect("write");
        let files = FileSet::new([(path, bytes.len() as u64), (dir.path().join("vanished"), 5)]);
        (dir, files)
    }

    #[test]
    fn file_is_shared_while_held_and_closed_when_let_go() {
        let (_dir, files) = set_of(b"abc");
        let counters = WorkerCounters::default();
        let one = files.open(FileId(0), false, &counters).expect("opens");
        let two = files.open(FileId(0), false, &counters).expect("opens");
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(counters.counts().opens, 1);
        drop((one, two));
        drop(files.open(FileId(0), false, &counters).expect("opens"));
        assert_eq!(counters.counts().opens, 2);
    }

    #[test]
    fn vanished_file_is_remembered() {
        let (dir, files) = set_of(b"abc");
        let counters = WorkerCounters::default();
        let error = files.open(FileId(1), false, &counters).expect_err("is not there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        std::fs::write(dir.path().join("vanished"), b"late").expect("write");
        files.open(FileId(1), false, &counters).expect_err("the answer stays the same within a run");
    }

    #[test]
    fn second_handle_is_the_same_file_even_when_the_name_has_moved() {
        let (dir, files) = set_of(b"abc");
        let counters = WorkerCounters::default();
        let open = files.open(FileId(0), true, &counters).expect("opens");
        std::fs::rename(dir.path().join("file"), dir.path().join("moved")).expect("rename");
        std::fs::write(dir.path().join("file"), b"xyz").expect("write");
        let mut bytes = [0; 3];
        rustix::io::pread(open.buffered().expect("opens"), &mut bytes, 0).expect("reads");
        assert_eq!(&bytes, b"abc");
    }

    #[test]
    fn an_open_file_is_read_whatever_became_of_its_name() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("file");
        std::fs::write(&path, b"abc").expect("write");
        let file = std::fs::File::open(&path).expect("open");
        std::fs::write(dir.path().join("other"), b"xyz").expect("write");
        std::fs::rename(dir.path().join("other"), &path).expect("rename");
        let (files, counters) = (FileSet::of_open(file, path, 3), WorkerCounters::default());
        let open = files.open(FileId(0), true, &counters).expect("is open");
        // Both handles: the second one is opened from the first, not by the name.
        for handle in [Some(open.buffered().expect("is open")), open.direct(&counters)].into_iter().flatten() {
            assert_eq!(rustix::fs::fstat(handle).expect("stat").st_nlink, 0, "not the file that lost its name");
        }
        assert_eq!((files.len_of(FileId(0)), counters.counts().opens), (3, 0));
    }

    #[test]
    fn a_stranger_id_is_answered_without_a_file() {
        let (_dir, files) = set_of(b"abc");
        assert_eq!((files.path(FileId(9)), files.len_of(FileId(9))), (Path::new(""), 0));
        files.open(FileId(9), false, &WorkerCounters::default()).expect_err("no such file");
    }
}
