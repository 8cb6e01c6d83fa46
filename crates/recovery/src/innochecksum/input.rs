//! One file, or standard input, read once from front to back.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use datadir::open::not_regular;
use flow::FileHandle;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};

use super::error::FileError;
use super::writer::{PageWriter, finish_interrupted};

/// Bytes per read; a multiple of every page size.
const CHUNK: usize = 1 << 20;

/// The input.
pub struct FileInput {
    name: PathBuf,
    /// `None` for standard input.
    file: Option<File>,
    /// The same open file, for writing. It must live as long as `file`: closing any descriptor of a file drops the process's POSIX lock.
    handle: Option<FileHandle>,
    /// Length when it was opened; 0 for standard input.
    len: u64,
    buffer: Vec<u8>,
    /// Bytes of `buffer` already handed out.
    used: usize,
    /// File offset of the first byte in `buffer` not handed out.
    offset: u64,
    at_end: bool,
}

impl FileInput {
    /// Opens `name` and locks the whole file as the original does: shared for reading, exclusive for writing. Any name that begins with a
    /// minus sign is standard input.
    pub fn open(name: &Path, write: bool) -> Result<Self, FileError> {
        let stdin = name.as_os_str().as_encoded_bytes().starts_with(b"-");
        let file = if stdin { None } else { Some(locked(name, write)?) };
        let handle = file.as_ref().map(File::try_clone).transpose();
        let handle = handle.map_err(|error| FileError::Open { path: name.to_owned(), error })?;
        let handle = handle.map(|file| FileHandle::of_file(file, false));
        let len = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
        Ok(Self { name: name.to_owned(), file, handle, len, buffer: Vec::new(), used: 0, offset: 0, at_end: false })
    }

    /// The name given on the command line.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Length in bytes; 0 for standard input.
    pub const fn bytes(&self) -> u64 {
        self.len
    }

    /// Whether it is standard input.
    pub const fn is_stdin(&self) -> bool {
        self.file.is_none()
    }

    /// The open file; `None` for standard input.
    pub const fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// A writer of pages in place; `None` for standard input.
    #[must_use]
    pub fn writer(&self, page_size: usize) -> Option<PageWriter> {
        Some(PageWriter::new(self.name.clone(), self.handle.clone()?, page_size))
    }

    /// Finishes the writes of an interrupted run to this file, which is open for writing. Returns the number of pages written; `None` if no
    /// run was interrupted.
    ///
    /// # Errors
    /// The journal or the file could not be read or written.
    pub fn finish_interrupted(&self) -> Result<Option<u64>, FileError> {
        self.handle.as_ref().map_or(Ok(None), |tablespace| finish_interrupted(&self.name, tablespace))
    }

    /// The next `count` bytes, fewer at the end, without consuming them.
    pub fn peek(&mut self, count: usize) -> Result<&[u8], FileError> {
        self.fill(count)?;
        let rest = self.buffer.get(self.used..).unwrap_or(&[]);
        Ok(rest.get(..count).unwrap_or(rest))
    }

    /// The next `count` bytes, fewer at the end.
    pub fn take(&mut self, count: usize) -> Result<&[u8], FileError> {
        self.fill(count)?;
        let rest = self.buffer.get(self.used..).unwrap_or(&[]);
        let taken = rest.get(..count).unwrap_or(rest);
        self.used += taken.len();
        self.offset += taken.len() as u64;
        Ok(taken)
    }

    /// Continues at `offset`. A file may end before `offset`, standard input may not.
    pub fn seek(&mut self, offset: Option<u64>) -> Result<(), FileError> {
        let offset = offset.filter(|&offset| i64::try_from(offset).is_ok()).ok_or(FileError::OffsetTooLarge)?;
        if self.file.is_some() {
            self.buffer.clear();
            (self.used, self.offset, self.at_end) = (0, offset, false);
            return Ok(());
        }
        while self.offset < offset {
            let step = usize::try_from(offset - self.offset).unwrap_or(CHUNK).min(CHUNK);
            if self.take(step)?.is_empty() {
                return Err(FileError::StreamTooShort);
            }
        }
        Ok(())
    }

    /// Fills the buffer with `count` bytes, fewer at the end.
    fn fill(&mut self, count: usize) -> Result<(), FileError> {
        if self.buffer.len() - self.used >= count || self.at_end {
            return Ok(());
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        let mut filled = self.buffer.len();
        self.buffer.resize(count.max(CHUNK), 0);
        while filled < self.buffer.len() && !self.at_end {
            let place = self.offset + filled as u64;
            let target = self.buffer.get_mut(filled..).unwrap_or_default();
            let read = match &self.file {
                Some(file) => file.read_at(target, place),
                None => io::stdin().read(target),
            };
            match read {
                Ok(0) => self.at_end = true,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The original treats a directory as an empty file and says so.
                Err(error) if error.kind() == ErrorKind::IsADirectory => self.at_end = true,
                Err(error) => return Err(FileError::Read { path: self.name.clone(), offset: place, error }),
            }
        }
        self.buffer.truncate(filled);
        Ok(())
    }
}

fn locked(name: &Path, write: bool) -> Result<File, FileError> {
    let path = || name.to_owned();
    // Opening a pipe waits until another process opens it to write, which may never happen.
    let never_wait = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).write(write).custom_flags(never_wait).open(name);
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => FileError::Missing(path()),
        _ => FileError::Open { path: path(), error },
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo()) {
        return Err(FileError::Open { path: path(), error: not_regular() });
    }
    let operation =
        if write { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
    match fcntl_lock(&file, operation) {
        Ok(()) => Ok(file),
        Err(error) => Err(FileError::Lock { path: path(), error: error.into() }),
    }
}
