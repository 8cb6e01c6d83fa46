//! Files wherever they are: on this system, or in storage that a [`Remote`] reads. The names and promises are those of `std::fs`, so a
//! job's code does not depend on where a file is.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::FileSet;

use super::remote::{self, Missed, Remote, RemoteMeta, RemoteObject, SetFile};
use crate::fault;
use crate::open;

/// The device number of everything that is not on this system. No device has it.
const NO_DEVICE: u64 = u64::MAX;

/// What is known of a path.
#[derive(Clone, Debug)]
pub enum Metadata {
    /// On this system.
    Here(fs::Metadata),
    /// Elsewhere.
    There(RemoteMeta),
}

impl Metadata {
    pub fn is_dir(&self) -> bool {
        match self {
            Self::Here(meta) => meta.is_dir(),
            Self::There(meta) => meta.is_dir,
        }
    }

    pub fn is_file(&self) -> bool {
        match self {
            Self::Here(meta) => meta.is_file(),
            Self::There(meta) => !meta.is_dir,
        }
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> u64 {
        match self {
            Self::Here(meta) => meta.len(),
            Self::There(meta) => meta.len,
        }
    }

    /// The space it occupies on disk, bytes; for an object, its length.
    pub fn bytes_on_disk(&self) -> u64 {
        match self {
            Self::Here(meta) => meta.blocks().saturating_mul(512),
            Self::There(meta) => meta.len,
        }
    }

    /// The device and the inode, or numbers that identify an object in the same way.
    pub fn identity(&self) -> (u64, u64) {
        match self {
            Self::Here(meta) => (meta.dev(), meta.ino()),
            Self::There(meta) => (NO_DEVICE, meta.number),
        }
    }

    pub fn is_block_device(&self) -> bool {
        matches!(self, Self::Here(meta) if meta.file_type().is_block_device())
    }
}

/// What a path leads to, with links followed.
///
/// # Errors
/// As `std::fs::metadata`.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    match remote::of(path)? {
        Some(remote) => remote.metadata(path).map(Metadata::There),
        None => here(path, || fs::metadata(path)).map(Metadata::Here),
    }
}

/// Like [`metadata`], for a path that the user named: if it is a prefix in a bucket, everything below it is listed now.
///
/// # Errors
/// As `std::fs::metadata`.
pub fn named(path: &Path) -> io::Result<Metadata> {
    match remote::of(path)? {
        Some(remote) => remote.named(path).map(Metadata::There),
        None => here(path, || fs::metadata(path)).map(Metadata::Here),
    }
}

/// What the path itself is, even if it is a link.
///
/// # Errors
/// As `std::fs::symlink_metadata`.
pub fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    match remote::of(path)? {
        Some(remote) => remote.metadata(path).map(Metadata::There),
        None => here(path, || fs::symlink_metadata(path)).map(Metadata::Here),
    }
}

/// Whether the path leads to a regular file or an object.
pub fn is_file(path: impl AsRef<Path>) -> bool {
    metadata(path.as_ref()).is_ok_and(|meta| meta.is_file())
}

/// Whether the path leads to a directory or a prefix.
pub fn is_dir(path: impl AsRef<Path>) -> bool {
    metadata(path.as_ref()).is_ok_and(|meta| meta.is_dir())
}

/// Whether the path leads to anything.
pub fn exists(path: impl AsRef<Path>) -> bool {
    metadata(path.as_ref()).is_ok()
}

/// The questions of `std::path::Path` that answer "no" when the system refuses to answer. Asked in this way, they are asked again where that
/// helps, and a refusal is noted: the job does not end well then ([`fault::refuse_unread`]).
pub trait AskPath {
    /// As [`exists`].
    fn is_there(&self) -> bool;
    /// As [`is_dir`].
    fn is_folder_there(&self) -> bool;
    /// As [`is_file`].
    fn is_file_there(&self) -> bool;
}

impl AskPath for Path {
    fn is_there(&self) -> bool {
        exists(self)
    }

    fn is_folder_there(&self) -> bool {
        is_dir(self)
    }

    fn is_file_there(&self) -> bool {
        is_file(self)
    }
}

/// An entry of a directory or a prefix.
#[derive(Debug)]
pub struct DirEntry {
    path: PathBuf,
    name: OsString,
    meta: EntryMeta,
}

/// What a listing says about an entry.
#[derive(Debug)]
enum EntryMeta {
    Here(fs::DirEntry),
    There(RemoteMeta),
    /// Of a view, which lists files that it shows and files that lie there.
    ByPath,
}

impl DirEntry {
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// What the path leads to. The entry's own metadata saves a path lookup; only links are followed.
    ///
    /// # Errors
    /// As `std::fs::metadata`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        match &self.meta {
            EntryMeta::Here(entry) => match entry.metadata() {
                Ok(meta) if meta.is_symlink() => metadata(&self.path),
                Ok(meta) => Ok(Metadata::Here(meta)),
                // An entry is asked once; a path may be asked again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
                Err(_) => metadata(&self.path),
            },
            EntryMeta::There(meta) => Ok(Metadata::There(*meta)),
            EntryMeta::ByPath => metadata(&self.path),
        }
    }
}

/// The entries of a directory or a prefix, in any order.
///
/// # Errors
/// As `std::fs::read_dir`, and as its iterator: a listing is complete or an error.
pub fn read_dir(path: &Path) -> io::Result<Vec<DirEntry>> {
    let Some(remote) = remote::of(path)? else {
        let entry = |entry: fs::DirEntry| DirEntry {
            path: entry.path(),
            name: entry.file_name(),
            meta: EntryMeta::Here(entry),
        };
        return here(path, || fs::read_dir(path)?.map(|found| found.map(entry)).collect());
    };
    let is_view = !is_remote(path);
    let meta = |meta| if is_view { EntryMeta::ByPath } else { EntryMeta::There(meta) };
    let entry = |(name, found)| DirEntry { path: path.join(&name), name, meta: meta(found) };
    Ok(remote.list(path)?.into_iter().map(entry).collect())
}

/// All bytes of a file.
///
/// # Errors
/// As `std::fs::read`.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    if is_remote(path) { read() } else { here(path, read) }
}

/// Does something with a file of this system: again if it may succeed then, and what fails for good is noted.
fn here<T>(path: &Path, act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    fault::noting(path, fault::again(act))
}

/// A file to read.
#[derive(Debug)]
pub enum File {
    /// On this system.
    Here(Local),
    /// Elsewhere.
    There(Object),
}

/// A file on this system, and its name for what fails.
#[derive(Debug)]
pub struct Local {
    file: fs::File,
    path: Box<Path>,
}

impl Local {
    fn read_with<T>(&self, act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        fault::noting_read(&self.path, fault::again(act))
    }
}

/// An object, and how far it has been read.
#[derive(Debug)]
pub struct Object {
    remote: Arc<dyn Remote>,
    object: Arc<dyn RemoteObject>,
    at: u64,
}

impl File {
    /// Opens it for reading.
    ///
    /// # Errors
    /// As `std::fs::File::open`.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let Some(remote) = remote::of(path)? else {
            let open = || open::open_file(path);
            return here(path, open).map(|file| Self::Here(Local { file, path: path.into() }));
        };
        let meta = remote.metadata(path)?;
        if meta.is_dir {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let object = remote.hold(path)?;
        Ok(Self::There(Object { remote, object, at: 0 }))
    }

    /// Opens a file that was found earlier: the object, whatever has its path by now.
    ///
    /// # Errors
    /// As `std::fs::File::open`.
    pub fn open_found(path: &Path, found: Option<&Arc<dyn RemoteObject>>) -> io::Result<Self> {
        match (found, remote::of(path)) {
            (Some(object), Ok(Some(remote))) => Ok(Self::There(Object { remote, object: Arc::clone(object), at: 0 })),
            _ => Self::open(path),
        }
    }

    /// The file's metadata.
    ///
    /// # Errors
    /// As `std::fs::File::metadata`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        match self {
            Self::Here(local) => here(&local.path, || local.file.metadata()).map(Metadata::Here),
            Self::There(object) => Ok(Metadata::There(object.object.meta())),
        }
    }

    /// The file, if it is on this system.
    pub fn here(&self) -> Option<&fs::File> {
        match self {
            Self::Here(local) => Some(&local.file),
            Self::There(_) => None,
        }
    }
}

/// Whether another program, such as a server, has a file of this system locked.
pub fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.here().is_some_and(flow::lock::is_locked))
}

impl FileExt for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Here(local) => local.read_with(|| local.file.read_at(bytes, offset)),
            Self::There(object) => object.remote.read_at(&object.object, bytes, offset),
        }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

impl Read for File {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Here(local) => {
                let mut file = &local.file;
                local.read_with(|| file.read(bytes))
            }
            Self::There(object) => {
                let got = object.remote.read_at(&object.object, bytes, object.at)?;
                object.at += got as u64;
                Ok(got)
            }
        }
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Here(local) => local.file.seek(to),
            Self::There(object) => {
                let place = match to {
                    SeekFrom::Start(at) => Some(at),
                    SeekFrom::End(by) => object.object.meta().len.checked_add_signed(by),
                    SeekFrom::Current(by) => object.at.checked_add_signed(by),
                };
                object.at = place.ok_or(io::ErrorKind::InvalidInput)?;
                Ok(object.at)
            }
        }
    }
}

/// The object that has a path now; `None` for a file of this system.
///
/// # Errors
/// It is a URL, and nothing has that name.
pub fn found(path: &Path) -> io::Result<Option<Arc<dyn RemoteObject>>> {
    remote::of(path)?.map(|remote| remote.hold(path)).transpose()
}

/// The files of a run for readers: paths, and the number of bytes to read from each. Brings the engine that any objects among them need.
pub fn set(files: impl IntoIterator<Item = (PathBuf, u64)>) -> FileSet {
    set_found(files.into_iter().map(|(path, len)| (path, len, None)))
}

/// The same, of files of which some were found earlier.
pub(crate) fn set_found(files: impl IntoIterator<Item = (PathBuf, u64, Option<Arc<dyn RemoteObject>>)>) -> FileSet {
    let files: Vec<_> = files.into_iter().collect();
    let of = |path: &Path| remote::of(path).ok().flatten();
    let Some(remote) = files.iter().find_map(|(path, ..)| of(path)) else {
        return FileSet::new(files.into_iter().map(|(path, len, _)| (path, len)));
    };
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    for (path, len, found) in files {
        let source = match found {
            Some(object) => SetFile::There(object),
            None if remote.has(&path) => remote.hold(&path).map_or_else(SetFile::Gone, SetFile::There),
            None => SetFile::Here,
        };
        entries.push((path, len, !matches!(source, SetFile::Here)));
        sources.push(source);
    }
    FileSet::carried_by(remote.engine(sources), entries)
}

/// Whether the path is one of storage that is not on this system.
pub fn is_remote(path: &Path) -> bool {
    remote::is_url(path)
}

/// What could not be read. Jobs ask at the end, so that a failure they passed over silently still counts.
pub fn failures() -> Vec<Missed> {
    let of = |remote: Option<Arc<dyn Remote>>| remote.map(|remote| remote.failures()).unwrap_or_default();
    let mut failures = [of(remote::installed()), of(remote::view())].concat();
    failures.append(&mut fault::noted());
    failures
}

/// The same, without the failures of other jobs in other buckets.
pub fn failures_of(paths: &[PathBuf]) -> Vec<Missed> {
    let mut failures = failures();
    failures.retain(|missed| paths.iter().any(|path| bucket_of(path) == bucket_of(&missed.path)));
    failures
}

/// `s3://bucket`; all paths of this system have none.
fn bucket_of(path: &Path) -> Option<&[u8]> {
    let text = path.as_os_str().as_encoded_bytes();
    let mut slashes = text.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let end = slashes.nth(2).unwrap_or(text.len());
    text.get(..end).filter(|_| remote::is_url(path))
}

/// Notes on requests to storage elsewhere.
pub fn notes() -> Vec<String> {
    remote::installed().map(|remote| remote.notes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_bucket_are_told_from_others() {
        let bucket = |path: &str| bucket_of(Path::new(path)).map(<[u8]>::to_vec);
        assert_eq!(bucket("s3://lab/db/t.ibd"), Some(b"s3://lab".to_vec()));
        assert_eq!(bucket("s3://lab"), bucket("s3://lab/"));
        assert_ne!(bucket("s3://lab"), bucket("gs://lab"));
        assert_eq!((bucket("/s3/lab/db"), bucket("lab")), (None, None));
    }
}
