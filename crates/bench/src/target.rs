//! The file that patterns run on, opened once for buffered and once for direct I/O.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use flow::FileHandle;

use super::cold::{self, Emptied};

/// A path to an open file itself, whatever its name is or was.
pub fn path_of(file: &File) -> PathBuf {
    let dir = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    PathBuf::from(format!("{dir}/{}", file.as_raw_fd()))
}

/// A file to read, or to read and write.
#[derive(Debug)]
pub struct BenchFile {
    file: File,
    /// Bytes that patterns use.
    pub len: u64,
    /// Where the last pattern ended, bytes.
    pub position: AtomicU64,
    /// Whether a pattern ends after one pass through the file, even if there is time left.
    pub once: bool,
    buffered: FileHandle,
    /// `Err`: the file system's refusal, in its own words.
    direct: Result<FileHandle, String>,
}

impl BenchFile {
    /// Opens `path`, for writing too if `write`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, len: u64, write: bool) -> io::Result<Self> {
        let options = || {
            let mut options = File::options();
            options.read(true).write(write);
            options
        };
        let file = options().open(path)?;
        let buffered = FileHandle::of_file(OwnedFd::from(file.try_clone()?), false);
        let direct = match options().custom_flags(direct_flag()).open(path) {
            Ok(_) if direct_flag() == 0 => Err("this system has no O_DIRECT".to_owned()),
            Ok(file) => Ok(FileHandle::of_file(OwnedFd::from(file), true)),
            Err(error) => Err(error.to_string()),
        };
        Ok(Self { file, len, position: AtomicU64::new(0), once: false, buffered, direct })
    }

    /// The handle for requests.
    ///
    /// # Errors
    /// The file system's refusal of direct I/O, in its own words.
    pub fn handle(&self, direct: bool) -> Result<&FileHandle, &str> {
        if direct { self.direct.as_ref().map_err(String::as_str) } else { Ok(&self.buffered) }
    }

    /// The file, for buffered I/O.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Drops the file's pages from the page cache.
    ///
    /// # Errors
    /// If it cannot be synced.
    pub fn empty(&self) -> io::Result<Emptied> {
        cold::empty(&self.file, self.len)
    }
}

#[cfg(target_os = "linux")]
fn direct_flag() -> i32 {
    i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0)
}

#[cfg(not(target_os = "linux"))]
fn direct_flag() -> i32 {
    0
}
