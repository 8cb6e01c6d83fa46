//! The directory that an upper is kept in: whose it is, and that only one mount uses it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flow::lock::{Sharing, lock_soon};
use tempfile::TempDir;

use crate::error::{Result, failed, refused};

/// Where in the directory the upper is.
const UPPER: &str = "innokit.upper";
const LOCK: &str = "lock";

/// A directory for an upper, locked.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    _lock: File,
    /// It goes when the mount ends.
    thrown_away: Option<TempDir>,
}

impl Place {
    /// A directory that goes with the mount.
    pub fn throwaway() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("innokit-mount-").tempdir();
        let dir = dir.map_err(failed(&std::env::temp_dir(), "making a directory for what the server writes"))?;
        let place = Self::at(dir.path())?;
        Ok(Self { thrown_away: Some(dir), ..place })
    }

    /// The directory that the user named. It is made if it is not there; if it is, it is empty or has an upper.
    pub fn at(dir: &Path) -> Result<Self> {
        let path = dir.join(UPPER);
        if !path.is_dir() {
            if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
                return refused(format!(
                    "{}: not empty, and not the directory of an earlier mount: name a new one for --upper",
                    dir.display()
                ));
            }
            // Rows will be in it.
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(failed(&path, "making the directory"))?;
        }
        let lock = path.join(LOCK);
        let opened = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let file = opened.map_err(failed(&lock, "opening the lock"))?;
        if !lock_soon(&file, Sharing::Exclusive).map_err(failed(&lock, "locking"))? {
            return refused(format!(
                "{}: another mount uses this directory: end that one first, or name another directory for --upper",
                dir.display()
            ));
        }
        Ok(Self { path, _lock: file, thrown_away: None })
    }

    /// Where its files are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anything must outlive the mount.
    pub const fn is_kept(&self) -> bool {
        self.thrown_away.is_none()
    }

    /// Removes what was to be thrown away.
    pub fn end(self) -> io::Result<()> {
        self.thrown_away.map_or(Ok(()), TempDir::close)
    }
}

/// What tells this boot of the machine from others: what was written but not synced is there while it lasts.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}
