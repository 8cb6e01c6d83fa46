//! The directory that an upper is kept in: a flat set of files.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};

/// Where an upper keeps its files. Names are plain: no directories.
///
/// Until [`sync_names`](Disk::sync_names), a power cut may undo what was created, renamed or removed, in any order.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file to read and write it.
    ///
    /// # Errors
    /// There is none, or the system's error.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Makes an empty file, in the place of one that may be there.
    ///
    /// # Errors
    /// The system's error.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, in the place of one that may be there.
    ///
    /// # Errors
    /// The system's error.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files.
    ///
    /// # Errors
    /// The system's error.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Makes names durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file of a [`Disk`].
///
/// Until [`sync`](DiskFile::sync), a power cut may undo any sector of what was written, and the length.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads bytes: all, or fewer at the end of the file.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all the bytes.
    ///
    /// # Errors
    /// The system's error; some of the bytes may be written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Has the range read as zeros, and gives its space back where the file system can. The file does not grow.
    ///
    /// # Errors
    /// The system's error.
    fn zero(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync(&self) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// The system's error.
    fn size(&self) -> io::Result<u64>;
}

/// A directory of the system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Whether anybody waits for the device. Not for what is thrown away.
    syncs: bool,
}

impl Folder {
    /// The directory at `path`, which is there. If `syncs` is not set, nothing is made durable.
    #[must_use]
    pub const fn new(path: PathBuf, syncs: bool) -> Self {
        Self { path, syncs }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn of(&self, file: File) -> Arc<dyn DiskFile> {
        Arc::new(FolderFile { file, syncs: self.syncs })
    }

    fn options() -> OpenOptions {
        // What is in it are rows: nobody else's business.
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        options
    }
}

impl Disk for Folder {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.of(Self::options().open(self.path.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.of(Self::options().create(true).truncate(true).open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn sync_names(&self) -> io::Result<()> {
        if self.syncs { flow::durable::sync_directory(&self.path) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct FolderFile {
    file: File,
    syncs: bool,
}

/// What is written as zeros where the file system cannot punch holes.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl FolderFile {
    fn write_zeros(&self, mut offset: u64, end: u64) -> io::Result<()> {
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(usize::MAX).min(ZEROS.len());
            self.file.write_all_at(ZEROS.get(..len).unwrap_or(&ZEROS), offset)?;
            offset += len as u64;
        }
        Ok(())
    }
}

impl DiskFile for FolderFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn zero(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = (offset + len).min(self.size()?);
        if offset >= end {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, end - offset) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.write_zeros(offset, end),
            other => Ok(other?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.syncs { self.file.sync_data() } else { Ok(()) }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
