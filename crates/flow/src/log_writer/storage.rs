//! The storage of a log: a few files of fixed size, read and written at offsets, synced one by one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::{LogError, LogOptions, Space, SyncBy};
use crate::Buffer;
use crate::durable::sync_directory;
use crate::steps::{self, Step};
use crate::system::sync_data;

/// The files of one log, numbered from 0.
///
/// Every implementation promises:
/// * bytes written are seen by every later read;
/// * a 512-byte sector is written whole or not at all, whatever happens meanwhile;
/// * once a sync has returned `Ok`, everything written to that file before survives a crash; if the writes themselves are durable, sync
///   does nothing;
/// * any part of what was not synced may survive, in any order.
///
/// One thread writes at a time. With [`LogOptions::direct`], offsets, lengths and memory are aligned to the block size.
pub trait LogStorage: Send + Sync {
    /// How many files there are.
    fn files(&self) -> u32;

    /// The file system's block size in bytes, as reported.
    fn block_size(&self) -> u32;

    /// The name of a file for messages.
    fn name(&self, file: u32) -> String;

    /// Reads; returns fewer bytes than requested only at the end of the file.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(&self, file: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Writes at least one byte.
    ///
    /// # Errors
    /// The system's error. `Interrupted` means that nothing was written, and is retried.
    fn write_at(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Makes durable what was written to the file.
    ///
    /// # Errors
    /// The system's error. A sync is never retried.
    fn sync(&self, file: u32) -> io::Result<()>;
}

impl<S: LogStorage + ?Sized> LogStorage for Arc<S> {
    fn files(&self) -> u32 {
        (**self).files()
    }

    fn block_size(&self) -> u32 {
        (**self).block_size()
    }

    fn name(&self, file: u32) -> String {
        (**self).name(file)
    }

    fn read_at(&self, file: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(file, offset, bytes)
    }

    fn write_at(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        (**self).write_at(file, offset, bytes)
    }

    fn sync(&self, file: u32) -> io::Result<()> {
        (**self).sync(file)
    }
}

/// The files of a log in a directory: `log.000`, `log.001` and so on.
#[derive(Debug)]
pub struct LogFiles {
    files: Vec<(PathBuf, File)>,
    block_size: u32,
}

impl LogFiles {
    /// Creates the files of a new log durably, in the space that the options require, without their headers, which
    /// [`LogWriter::create_on`](super::LogWriter::create_on) writes. Fails if another process has the log open for writing (`flock`).
    ///
    /// # Errors
    /// [`LogError::Exists`] if there is a file and the space is not recycled; [`LogError::Io`].
    pub fn create(dir: &Path, options: &LogOptions) -> Result<Self, LogError> {
        let mut made = Vec::new();
        let outcome = Self::create_all(dir, options, &mut made);
        if outcome.is_err() {
            // Remove only the files created here; if one cannot be removed, it is left.
            made.iter().for_each(|path| drop(std::fs::remove_file(path)));
        }
        outcome
    }

    fn create_all(dir: &Path, options: &LogOptions, made: &mut Vec<PathBuf>) -> Result<Self, LogError> {
        let recycles = options.space == Space::Recycled;
        let mut files = Vec::new();
        for index in 0..options.files {
            let path = path_of(dir, index);
            let mut how = writing(options);
            let is_new = !path.exists();
            // What is logged is for its owner alone, whatever the umask is.
            let made_as = how.create(true).create_new(!recycles).mode(0o600);
            let file = made_as.open(&path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => LogError::Exists { file: path.display().to_string() },
                _ => failed("create", &path, error),
            })?;
            if is_new {
                steps::done(Ok(()), |()| Step::Create(path.clone())).ok();
                made.push(path.clone());
            }
            lock(&path, &file)?;
            make_room(&path, &file, options)?;
            files.push((path, file));
        }
        sync_directory(dir).map_err(|error| failed("sync", dir, error))?;
        Self::of(files)
    }

    /// Opens the files of an existing log for reading and writing.
    ///
    /// # Errors
    /// [`LogError::Io`] if there is none, or another process has it open for writing.
    pub fn open(dir: &Path, options: &LogOptions) -> Result<Self, LogError> {
        let files = Self::open_with(dir, &writing(options))?;
        if let Some((path, file)) = files.files.first() {
            lock(path, file)?;
        }
        Ok(files)
    }

    /// Opens the files of an existing log for reading.
    ///
    /// # Errors
    /// [`LogError::Io`] if there is none.
    pub fn open_to_read(dir: &Path) -> Result<Self, LogError> {
        // A pipe in the place of a file is not waited for.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        Self::open_with(dir, OpenOptions::new().read(true).custom_flags(flags))
    }

    fn open_with(dir: &Path, how: &OpenOptions) -> Result<Self, LogError> {
        let mut files = Vec::new();
        loop {
            let path = path_of(dir, files.len() as u32);
            match how.open(&path) {
                Ok(file) => files.push((path, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound && !files.is_empty() => break,
                Err(error) => return Err(failed("open", &path, error)),
            }
        }
        Self::of(files)
    }

    fn of(files: Vec<(PathBuf, File)>) -> Result<Self, LogError> {
        let mut block_size = 4096;
        for (path, file) in &files {
            let metadata = file.metadata().map_err(|error| failed("look at", path, error))?;
            if !metadata.is_file() {
                return Err(failed("open", path, io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
            }
            let block = metadata.blksize().clamp(4096, 65536).next_power_of_two();
            block_size = block_size.max(block as u32);
        }
        Ok(Self { files, block_size: block_size.min(65536) })
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    fn file(&self, file: u32) -> io::Result<&File> {
        let file = self.files.get(file as usize).map(|(_, file)| file);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Unlocks the files. Closing them is not enough: a child that another thread is starting has a copy of every descriptor until it calls
/// exec, and keeps the lock until then.
impl Drop for LogFiles {
    fn drop(&mut self) {
        for (_, file) in &self.files {
            rustix::fs::flock(file, FlockOperation::Unlock).ok();
        }
    }
}

impl LogStorage for LogFiles {
    fn files(&self) -> u32 {
        self.files.len() as u32
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn name(&self, file: u32) -> String {
        self.files.get(file as usize).map_or_else(String::new, |(path, _)| path.display().to_string())
    }

    fn read_at(&self, file: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let file = self.file(file)?;
        let mut got = 0;
        while let Some(rest) = bytes.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(file, rest, offset + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(Errno::INTR) => {}
                // The end of a file read with direct I/O may be unaligned; there is nothing after it.
                Err(Errno::INVAL) if got > 0 => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(got)
    }

    fn write_at(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let written = rustix::io::pwrite(self.file(file)?, bytes, offset).map_err(io::Error::from);
        let path = || self.files.get(file as usize).map(|(path, _)| path.clone()).unwrap_or_default();
        steps::done(written, |len| Step::Write(path(), offset, bytes.iter().take(*len).copied().collect()))
    }

    fn sync(&self, file: u32) -> io::Result<()> {
        let synced = sync_data(self.file(file)?.as_fd());
        steps::done(synced, |()| {
            Step::Sync(self.files.get(file as usize).map(|(path, _)| path.clone()).unwrap_or_default())
        })
    }
}

fn path_of(dir: &Path, index: u32) -> PathBuf {
    dir.join(format!("log.{index:03}"))
}

fn failed(what: &'static str, path: &Path, error: io::Error) -> LogError {
    LogError::Io { what, file: path.display().to_string(), offset: 0, error: Arc::new(error) }
}

fn writing(options: &LogOptions) -> OpenOptions {
    // A pipe must not be waited for, and a link may lead to any file.
    let mut flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    if options.sync == SyncBy::Dsync {
        flags |= OFlags::DSYNC;
    }
    #[cfg(target_os = "linux")]
    if options.direct {
        flags |= OFlags::DIRECT;
    }
    let mut how = OpenOptions::new();
    how.read(true).write(true).custom_flags(flags.bits() as i32);
    how
}

/// Two writers on one log would overwrite each other's blocks.
fn lock(path: &Path, file: &File) -> Result<(), LogError> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| failed("lock (it is open for writing elsewhere)", path, error.into()))
}

/// Allocates the space of a new log's file.
fn make_room(path: &Path, file: &File, options: &LogOptions) -> Result<(), LogError> {
    let len = file.metadata().map_err(|error| failed("look at", path, error))?.len();
    match options.space {
        Space::Growing => Ok(()),
        Space::Allocated => allocate(file, options.file_size).map_err(|error| failed("allocate", path, error)),
        Space::Zeroed | Space::Recycled if len >= options.file_size => Ok(()),
        Space::Zeroed | Space::Recycled => zero(file, options).map_err(|error| failed("write zeros to", path, error)),
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, len: u64) -> io::Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len)?;
    file.sync_all()
}

/// Without `fallocate`, only the size can be set.
#[cfg(not(target_os = "linux"))]
fn allocate(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)?;
    file.sync_all()
}

/// Fills the whole file with zeros.
fn zero(file: &File, options: &LogOptions) -> io::Result<()> {
    let zeros = Buffer::alone(1 << 20)?;
    let mut offset = 0;
    while offset < options.file_size {
        let len = (options.file_size - offset).min(1 << 20) as u32;
        match rustix::io::pwrite(file, zeros.first(len), offset) {
            Ok(written) => offset += written as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_can_be_opened_again_while_a_child_is_being_started() {
        let dir = tempfile::tempdir().expect("a folder");
        let options = LogOptions { space: Space::Growing, ..LogOptions::default() };
        let first = LogFiles::create(dir.path(), &options).expect("created");
        // Like those of a child between fork and exec.
        let copies: Vec<File> = first.files.iter().map(|(_, file)| file.try_clone().expect("copied")).collect();
        assert!(LogFiles::open(dir.path(), &options).is_err(), "two writers");
        drop(first);
        let again = LogFiles::open(dir.path(), &options).expect("nobody writes it");
        assert!(LogFiles::open(dir.path(), &options).is_err(), "two writers again");
        drop((again, copies));
    }
}
