//! A bounded number of open files, for runs that come back to more files than a process may have open.
//!
//! A [`FileHandle`] of [`Descriptors`] names its file; it is opened when a request needs it, and the one that was used least recently is
//! closed for it. A request in flight keeps its file open, so at most [`Descriptors::new`]'s `max` files and one per request in flight are
//! open. A file is synced through whichever descriptor is open: the kernel reports a failed write once per file, also to a descriptor that
//! is opened after it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::files::{FileHandle, OpenFile, open_for};

/// Files of which at most so many are open.
#[derive(Debug)]
pub struct Descriptors {
    max: usize,
    open: Mutex<Open>,
}

/// The open files, each with the time of its last use, and the other way round.
#[derive(Debug, Default)]
struct Open {
    files: HashMap<u64, (Arc<OpenFile>, u64)>,
    by_use: BTreeMap<u64, u64>,
    /// Counts uses.
    now: u64,
    /// The number of the next file.
    next: u64,
}

impl Open {
    fn touch(&mut self, number: u64) -> Option<Arc<OpenFile>> {
        let (file, used) = self.files.get_mut(&number)?;
        self.by_use.remove(used);
        self.now += 1;
        *used = self.now;
        self.by_use.insert(self.now, number);
        Some(Arc::clone(file))
    }

    fn make_room(&mut self, max: usize) {
        while self.files.len() >= max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.files.remove(&oldest);
        }
    }

    fn put(&mut self, number: u64, file: Arc<OpenFile>) {
        self.now += 1;
        self.files.insert(number, (file, self.now));
        self.by_use.insert(self.now, number);
    }
}

/// How to open a file again.
#[derive(Debug)]
pub(crate) struct OnDemand {
    path: PathBuf,
    for_writing: bool,
    direct: bool,
    /// Device and inode.
    identity: Option<(u64, u64)>,
    number: u64,
    all: Arc<Descriptors>,
}

impl Descriptors {
    /// At most `max` open files, at least one.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), open: Mutex::default() })
    }

    /// Takes over an open file, and closes it when others are used more. Its path must lead to it for as long as the returned handle is
    /// used. `for_writing`: it was opened for writing.
    #[must_use]
    pub fn keep(self: &Arc<Self>, path: &Path, handle: &FileHandle, for_writing: bool) -> FileHandle {
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        open.make_room(self.max);
        open.put(number, Arc::clone(handle.file()));
        drop(open);
        let (path, direct, all) = (path.to_path_buf(), handle.is_direct(), Arc::clone(self));
        let identity = handle.file().identity();
        FileHandle::on_demand(Arc::new(OnDemand { path, for_writing, direct, identity, number, all }), direct)
    }

    /// How many files are open, apart from those that requests in flight hold.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().files.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnDemand {
    pub(crate) fn open(&self) -> io::Result<Arc<OpenFile>> {
        let mut open = self.all.lock();
        if let Some(file) = open.touch(self.number) {
            return Ok(file);
        }
        // Room first: the limit may be that of the process.
        open.make_room(self.all.max);
        let file = Arc::new(open_for(&self.path, self.for_writing, self.direct)?);
        // The path may lead to any file by now, through a link too.
        if file.identity() != self.identity {
            return Err(io::Error::other(format!("{}: another file has this name now", self.path.display())));
        }
        open.put(self.number, Arc::clone(&file));
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_thousand_files_are_read_and_written_with_eight_open() {
        let dir = tempfile::tempdir().expect("a directory");
        let all = Descriptors::new(8);
        let handles: Vec<FileHandle> = (0..1000_u32)
            .map(|number| {
                let path = dir.path().join(number.to_string());
                std::fs::write(&path, number.to_be_bytes()).expect("written");
                let file = File::options().read(true).write(true).open(&path).expect("opened");
                all.keep(&path, &FileHandle::of_file(file, false), true)
            })
            .collect();
        for round in 0..2_u32 {
            for (handle, number) in handles.iter().zip(0_u32..) {
                let handle = handle.opened().expect("opens");
                let mut bytes = [0; 4];
                rustix::io::pread(handle.fd().expect("is open"), &mut bytes, 0).expect("reads");
                assert_eq!(u32::from_be_bytes(bytes), number + round);
                let next = (number + round + 1).to_be_bytes();
                rustix::io::pwrite(handle.fd().expect("is open"), &next, 0).expect("writes");
                assert!(all.count() <= 8, "{}", all.count());
            }
        }
    }

    #[test]
    fn another_file_of_the_same_name_is_not_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let all = Descriptors::new(1);
        let [one, two, victim] = ["one", "two", "victim"].map(|name| {
            let path = dir.path().join(name);
            std::fs::write(&path, name).expect("written");
            all.keep(&path, &FileHandle::of_file(File::open(&path).expect("opened"), false), true)
        });
        drop((two, victim));
        std::fs::rename(dir.path().join("one"), dir.path().join("kept")).expect("renamed");
        std::os::unix::fs::symlink(dir.path().join("victim"), dir.path().join("one")).expect("linked");
        assert!(one.opened().expect_err("a link").to_string().contains("another file has this name"));
        std::fs::remove_file(dir.path().join("one")).expect("removed");
        std::fs::rename(dir.path().join("kept"), dir.path().join("one")).expect("renamed");
        one.opened().expect("the file itself");
    }

    #[test]
    fn a_file_in_use_stays_open_and_one_that_is_gone_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let all = Descriptors::new(1);
        let [one, two] = ["one", "two"].map(|name| {
            let path = dir.path().join(name);
            std::fs::write(&path, name).expect("written");
            all.keep(&path, &FileHandle::of_file(File::open(&path).expect("opened"), false), false)
        });
        let held = one.opened().expect("opens");
        two.opened().expect("opens");
        std::fs::remove_file(dir.path().join("one")).expect("removed");
        let mut bytes = [0; 3];
        rustix::io::pread(held.fd().expect("is open"), &mut bytes, 0).expect("reads");
        assert_eq!(&bytes, b"one");
        assert_eq!(one.opened().expect_err("is gone").kind(), io::ErrorKind::NotFound);
        assert!(one.fd().is_err(), "it must be opened for each request");
    }
}
