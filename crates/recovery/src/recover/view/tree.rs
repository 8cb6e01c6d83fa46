//! The view as a tree of files, for who shows it to other programs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datadir::remote::Remote;

use super::View;
use super::storage::ViewObject;
use crate::door;

/// Owner may write, group may read: what servers give their files.
const MADE_FILE: u32 = 0o640;
const MADE_DIR: u32 = 0o750;

/// A file or a directory of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewEntry {
    /// Its path in the datadir.
    pub path: PathBuf,
    /// What it is.
    pub kind: EntryKind,
    /// Length in bytes; 0 for all but files.
    pub len: u64,
    /// Its permissions.
    pub mode: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// When it was written, in seconds and nanoseconds; of a file that the log makes, when the datadir was.
    pub modified: (i64, i64),
    /// Whether the view shows other bytes than lie there.
    pub is_made: bool,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which a view does not follow.
    Link,
    /// A socket, a pipe or a device.
    Special,
}

/// A file of a view, open for reading.
#[derive(Debug)]
pub struct ViewFile(Bytes);

#[derive(Debug)]
enum Bytes {
    Lies(File),
    Made(Arc<ViewObject>),
}

impl View {
    /// All files and directories, each directory before what is in it.
    ///
    /// # Errors
    /// The system's error.
    pub fn entries(&self) -> io::Result<Vec<ViewEntry>> {
        let root = fs::metadata(self.base())?;
        let (mut entries, mut left) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(dir) = left.pop() {
            for (name, _) in self.0.list(&self.base().join(&dir))? {
                let entry = self.entry(dir.join(name), &root)?;
                if entry.kind == EntryKind::Directory {
                    left.push(entry.path.clone());
                }
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn entry(&self, path: PathBuf, root: &fs::Metadata) -> io::Result<ViewEntry> {
        let full = self.base().join(&path);
        let here = match fs::symlink_metadata(&full) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        // The metadata of a directory of the view is asked for by who lists it, so what it makes is asked first.
        let made = if self.0.has(&full) { self.0.metadata(&full).ok() } else { None };
        let kind = match (&made, &here) {
            (Some(made), _) if made.is_dir => EntryKind::Directory,
            (Some(_), _) => EntryKind::File,
            (None, Some(here)) if here.is_dir() => EntryKind::Directory,
            (None, Some(here)) if here.is_file() => EntryKind::File,
            (None, Some(here)) if here.is_symlink() => EntryKind::Link,
            (None, Some(_)) => EntryKind::Special,
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        let len = made.map(|made| made.len).or_else(|| here.as_ref().map(fs::Metadata::len));
        let like = here.as_ref().unwrap_or(root);
        let made_mode = if kind == EntryKind::Directory { MADE_DIR } else { MADE_FILE };
        Ok(ViewEntry {
            kind,
            len: len.filter(|_| kind == EntryKind::File).unwrap_or(0),
            mode: here.as_ref().map_or(made_mode, |here| here.mode() & 0o7777),
            uid: like.uid(),
            gid: like.gid(),
            modified: (like.mtime(), like.mtime_nsec()),
            is_made: made.is_some() && kind == EntryKind::File,
            path,
        })
    }

    /// Opens a file by its path in the datadir.
    ///
    /// # Errors
    /// The system's error; a link, or anything but a regular file, is not opened.
    pub fn open_file(&self, path: &Path) -> io::Result<ViewFile> {
        let full = self.base().join(path);
        if !self.0.has(&full) {
            return Ok(ViewFile(Bytes::Lies(door::read(self.base(), path)?)));
        }
        Ok(ViewFile(Bytes::Made(self.0.object(&full)?)))
    }
}

impl ViewFile {
    /// Reads bytes, fewer than asked for at the file's end.
    ///
    /// # Errors
    /// The system's error, or that the page cannot be made.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.0 {
            Bytes::Made(object) => object.read(bytes, offset),
            Bytes::Lies(file) => {
                let mut done = 0;
                while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
                    match file.read_at(rest, offset + done as u64) {
                        Ok(0) => break,
                        Ok(count) => done += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(done)
            }
        }
    }
}
