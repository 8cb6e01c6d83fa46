//! A file of zeros, filled from the front: each append is one write of whole file system blocks, and one sync.
//!
//! ```text
//! ZeroedFile::create: zeros, head, sync, rename, sync of the directory -> the name is there only with a whole file behind it
//! Appender::append:   [bytes of the last block, again] + new bytes + zeros to the end of the block -> one write -> fdatasync
//! ```
//!
//! Unlike [`log_writer`](crate::log_writer), this adds no frame of its own: the caller's bytes must show where they end, and zeros must not
//! look like more of them. The system reads nothing before a write of whole blocks, and a fully written file never changes its size or
//! extents again.
//!
//! After a crash, any sector of the last append may be there or not. So the caller finds the end and continues with [`Appender::open`],
//! which clears everything behind it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::durable::{rename, sync_directory_of};
use crate::log_writer::LogStorage;
use crate::steps::{self, Step};
use crate::system::sync_data;

/// Bytes per write of zeros.
const PIECE: usize = 1 << 20;
/// File system blocks are at least this large, and at most [`BLOCK_MAX`].
const BLOCK_MIN: u32 = 4096;
const BLOCK_MAX: u32 = 65536;
/// The suffix of a file's name until it is complete.
const UNFINISHED: &str = "new";

/// Appends to the first file of a [`LogStorage`]. The first write or sync that fails stops it: a sync that failed is never repeated.
#[derive(Debug)]
pub struct Appender<S> {
    storage: S,
    block: usize,
    /// Where the next byte goes.
    at: u64,
    /// The bytes before `at` in its block.
    tail: Vec<u8>,
    has_failed: bool,
}

impl<S: LogStorage> Appender<S> {
    /// Continues at byte `at`, and clears what is behind it up to `len`, the length of the file.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(storage: S, at: u64, len: u64) -> io::Result<Self> {
        Self::open_before(storage, at, 0, len)
    }

    /// Like [`Appender::open`], but keeps the `kept` bytes behind `at`: the rest that the last [`Appender::append_with_rest`] left.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_before(storage: S, at: u64, kept: u64, len: u64) -> io::Result<Self> {
        let block = storage.block_size().max(BLOCK_MIN) as usize;
        let in_block = usize::try_from(at % block as u64).unwrap_or(0);
        let mut tail = vec![0; in_block];
        read_all(&storage, at - in_block as u64, &mut tail)?;
        let mut opened = Self { storage, block, at, tail, has_failed: false };
        opened.clear_rest(at + kept, len)?;
        Ok(opened)
    }

    /// Where the next byte goes.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The storage.
    #[must_use]
    pub const fn storage(&self) -> &S {
        &self.storage
    }

    /// Appends `bytes`, which are durable when this returns.
    ///
    /// # Errors
    /// The system's error; any error if an earlier append failed.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append_with_rest(bytes, &[])
    }

    /// Appends `bytes` and, behind them, `rest`. The next append overwrites `rest` and must begin with a version of it that is at least as
    /// long. Everything is durable when this returns. A crash during the next append may leave each sector of `rest` in its old or its new
    /// version: the caller's bytes must be sound either way.
    ///
    /// # Errors
    /// As for [`Appender::append`].
    pub fn append_with_rest(&mut self, bytes: &[u8], rest: &[u8]) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        let start = self.at - self.tail.len() as u64;
        let mut image = std::mem::take(&mut self.tail);
        image.extend_from_slice(bytes);
        let len = image.len();
        image.extend_from_slice(rest);
        image.resize(image.len().next_multiple_of(self.block), 0);
        // Until both have succeeded, what the file holds is unknown.
        self.has_failed = true;
        write_all(&self.storage, start, &image)?;
        self.storage.sync(0)?;
        self.has_failed = false;
        self.at += bytes.len() as u64;
        image.truncate(len);
        self.tail = image.split_off(len - len % self.block);
        Ok(())
    }

    /// Zeroes the bytes behind the end that an append left there when a crash tore it.
    fn clear_rest(&mut self, from: u64, len: u64) -> io::Result<()> {
        let mut bytes = vec![0; PIECE];
        let (mut offset, mut is_changed) = (from, false);
        while offset < len {
            let piece = usize::try_from(len - offset).unwrap_or(PIECE).min(PIECE);
            let Some(bytes) = bytes.get_mut(..piece) else { break };
            bytes.fill(0);
            read_all(&self.storage, offset, bytes)?;
            if bytes.iter().any(|byte| *byte != 0) {
                bytes.fill(0);
                write_all(&self.storage, offset, bytes)?;
                is_changed = true;
            }
            offset += piece as u64;
        }
        if is_changed { self.storage.sync(0) } else { Ok(()) }
    }
}

/// Reads as much as there is.
fn read_all(storage: &impl LogStorage, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let got = match storage.read_at(0, offset, bytes) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        bytes = bytes.get_mut(got..).unwrap_or_default();
        offset += got as u64;
    }
    Ok(())
}

fn write_all(storage: &impl LogStorage, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = match storage.write_at(0, offset, bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}

/// A file of fixed length on a file system.
#[derive(Debug)]
pub struct ZeroedFile {
    path: PathBuf,
    file: File,
    block_size: u32,
}

impl ZeroedFile {
    /// Creates a file that starts with `head` and is zero up to `len`. It gets its name once all of that is durable.
    ///
    /// # Errors
    /// The system's error. Nothing is left then.
    pub fn create(path: &Path, head: &[u8], len: u64) -> io::Result<Self> {
        let unfinished = unfinished(path);
        let made = Self::create_as(&unfinished, path, head, len);
        if made.is_err() {
            // If it remains, nothing looks for a file of this name.
            drop(fs::remove_file(&unfinished));
        }
        made
    }

    fn create_as(unfinished: &Path, path: &Path, head: &[u8], len: u64) -> io::Result<Self> {
        let file = make(unfinished)?;
        let zeros = vec![0; PIECE];
        for offset in (0..len).step_by(PIECE) {
            let piece = usize::try_from(len - offset).unwrap_or(PIECE).min(PIECE);
            write_to(&file, unfinished, zeros.get(..piece).unwrap_or_default(), offset)?;
        }
        write_to(&file, unfinished, head, 0)?;
        sync_all(&file, unfinished)?;
        rename(unfinished, path)?;
        sync_directory_of(path)?;
        Self::of(path, file)
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe must not wait, and a link may lead to any file.
        let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits();
        let file = File::options().read(true).write(true).custom_flags(flags.cast_signed()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Self::of(path, file)
    }

    fn of(path: &Path, file: File) -> io::Result<Self> {
        let reported = u32::try_from(file.metadata()?.blksize()).unwrap_or(BLOCK_MAX);
        let block_size = reported.clamp(BLOCK_MIN, BLOCK_MAX).next_power_of_two();
        Ok(Self { path: path.to_path_buf(), file, block_size })
    }

    /// Cuts the file off at `len`, durably.
    ///
    /// # Errors
    /// The system's error.
    pub fn truncate(&self, len: u64) -> io::Result<()> {
        steps::done(self.file.set_len(len), |()| Step::Resize(self.path.clone(), len))?;
        sync_all(&self.file, &self.path)
    }
}

impl LogStorage for ZeroedFile {
    fn files(&self) -> u32 {
        1
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn name(&self, _: u32) -> String {
        self.path.display().to_string()
    }

    fn read_at(&self, _: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, _: u32, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, offset);
        steps::done(written, |len| Step::Write(self.path.clone(), offset, bytes.iter().take(*len).copied().collect()))
    }

    fn sync(&self, _: u32) -> io::Result<()> {
        steps::done(sync_data(self.file.as_fd()), |()| Step::Sync(self.path.clone()))
    }
}

/// Writes a small file: whole and durable, or not at all.
///
/// # Errors
/// The system's error. An existing file of that name stays as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = unfinished(path);
    let write = || {
        let file = make(&unfinished)?;
        write_to(&file, &unfinished, bytes, 0)?;
        sync_all(&file, &unfinished)?;
        rename(&unfinished, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    sync_directory_of(path)
}

/// Makes a file that only its owner may read: it has rows. Whatever has its name, which an interrupted run may have left, is removed first,
/// and not followed if it is a link.
fn make(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
    steps::done(made, |_| Step::Create(path.to_path_buf()))
}

fn write_to(file: &File, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
    steps::done(file.write_all_at(bytes, offset), |()| Step::Write(path.to_path_buf(), offset, bytes.to_vec()))
}

fn sync_all(file: &File, path: &Path) -> io::Result<()> {
    steps::done(file.sync_all(), |()| Step::Sync(path.to_path_buf()))
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(UNFINISHED);
    name.into()
}
