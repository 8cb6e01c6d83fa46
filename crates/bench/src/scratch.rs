//! Files of a bench: in a directory of its own, and without a name once they are open, so that nothing is left behind however the run ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::failed;
use datadir::Error;

/// A directory of the run's own, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
}

impl Scratch {
    /// Creates the directory in `parent`, which must exist and have room for `bytes`.
    ///
    /// # Errors
    /// If there is no such directory, if it is not writable, or if it does not have enough room.
    pub fn new(parent: &Path, bytes: u64) -> Result<Self, Error> {
        if !parent.is_dir() {
            return Err(Error::Usage(format!("{} is not a directory", parent.display())));
        }
        let room = rustix::fs::statvfs(parent).map_err(io::Error::from);
        let room = room.map_err(failed(parent, "asking for free space"))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        // A completely full file system is slow, and a problem for its other users.
        if bytes.saturating_add(bytes / 8) > free {
            return Err(Error::Usage(format!(
                "{} has {} MiB free, but the bench needs {} MiB and some to spare: choose a smaller size",
                parent.display(),
                free >> 20,
                bytes.div_ceil(1 << 20)
            )));
        }
        let dir = tempfile::Builder::new().prefix("innokit-bench-").tempdir_in(parent);
        Ok(Self { dir: dir.map_err(failed(parent, "making a directory for the bench"))? })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A new file for reading and writing, which loses its name at once. Its space is freed when the last handle is closed, even if the
    /// system does that after a kill.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn file(&self, name: &str) -> Result<Nameless, Error> {
        let path = self.dir.path().join(name);
        let open = || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        };
        let file = open().map_err(failed(&path, "making a file for the bench"))?;
        Ok(Nameless { file, path })
    }
}

/// An open file without a name.
#[derive(Debug)]
pub struct Nameless {
    /// The file.
    pub file: File,
    /// Its former name, for messages.
    pub path: PathBuf,
}

impl Nameless {
    /// A path for opening the file again in another mode, in this process.
    #[must_use]
    pub fn again(&self) -> PathBuf {
        super::target::path_of(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_no_name_and_the_directory_goes() {
        let parent = tempfile::tempdir_in(".").expect("temporary directory");
        let scratch = Scratch::new(parent.path(), 1).expect("has room");
        let file = scratch.file("data").expect("made");
        assert_eq!(fs::read_dir(scratch.path()).expect("is there").count(), 0);
        fs::write(file.again(), b"bytes").expect("can be opened again");
        drop(scratch);
        assert_eq!(fs::read_dir(parent.path()).expect("is there").count(), 0);
        assert_eq!(fs::read(file.again()).expect("still open"), b"bytes");
    }

    #[test]
    fn a_directory_without_room_is_refused_before_anything_is_made() {
        let parent = tempfile::tempdir_in(".").expect("temporary directory");
        let error = Scratch::new(parent.path(), u64::MAX / 2).expect_err("no disk is as large").to_string();
        assert!(error.contains("MiB free"), "{error}");
        assert_eq!(fs::read_dir(parent.path()).expect("is there").count(), 0);
        Scratch::new(&parent.path().join("nowhere"), 1).expect_err("is not there");
    }
}
