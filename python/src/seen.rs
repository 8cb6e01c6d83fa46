//! The files of a table as they were when it was opened: rows of other files are never taken for its own.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use datadir::remote;
use inspect::rows::{TableSource, Tables};

use crate::failure::Failure;

/// What tells a file from the next one of its name, and from itself before it was written to.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let modified = (found.mtime(), found.mtime_nsec());
        Ok(Self { device: found.dev(), inode: found.ino(), len: found.len(), modified })
    }
}

/// The files of a table.
#[derive(Debug)]
pub struct Seen(Vec<(PathBuf, Option<Identity>)>);

impl Seen {
    /// As they are now. Objects in buckets are left out: each of their ranges is read on the condition that it is the same object.
    pub fn of(tables: &Tables, table: &TableSource) -> Self {
        let spaces = table.trees.iter().filter_map(|tree| tables.spaces.get(tree.space));
        let files = spaces.flat_map(|space| &space.files).filter(|file| !remote::is_url(&file.path));
        let mut files: Vec<_> = files.map(|file| file.path.clone()).collect();
        files.sort();
        files.dedup();
        let seen = |path: PathBuf| {
            let identity = Identity::of(&path).ok();
            (path, identity)
        };
        Self(files.into_iter().map(seen).collect())
    }

    /// Fails if one of them is another file now, has been written to, or is gone.
    pub fn expect(&self) -> Result<(), Failure> {
        for (path, seen) in &self.0 {
            let missing = |source| datadir::Error::Io { path: path.clone(), action: "opening it", source };
            if Some(&Identity::of(path).map_err(missing)?) != seen.as_ref() {
                return Err(Failure::Refused(format!(
                    "{}: it has changed since it was opened: open it again",
                    path.display()
                )));
            }
        }
        Ok(())
    }
}
