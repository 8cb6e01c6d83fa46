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
/// Says that the upper is being turned into a datadir, and that nothing may be written to it any more.
const FINISHING: &str = "finishing";

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

    /// The directory of an earlier mount, to finish it.
    pub fn to_finish(dir: &Path) -> Result<Self> {
        if !dir.join(UPPER).is_dir() {
            return refused(format!(
                "{}: not the directory of a mount (--upper): there is no {UPPER} in it",
                dir.display()
            ));
        }
        Self::at(dir)
    }

    /// Fails if it is being turned into a datadir.
    pub fn refuse_finishing(&self) -> Result<()> {
        if self.path.join(FINISHING).exists() {
            let dir = self.path.parent().unwrap_or(&self.path);
            return refused(format!(
                "{0}: being turned into a datadir: go on with innokit mount --finish {0}",
                dir.display()
            ));
        }
        Ok(())
    }

    /// From now on it is turned into a datadir.
    pub fn begin_finishing(&self) -> io::Result<()> {
        File::create(self.path.join(FINISHING))?.sync_all()?;
        flow::durable::sync_directory(&self.path)
    }

    /// Whether it was being turned into a datadir.
    pub fn is_finishing(&self) -> bool {
        self.path.join(FINISHING).exists()
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
