//! Whether a file is still as it was when it was looked at, by what its inode says: one system call, and nothing is opened. While the
//! server's definitions are locked, this is all that most files of a large server cost.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that changed less than this before it was looked at may change again without a new time: clocks of file systems tick every few
/// milliseconds. Seconds.
const TICK: i64 = 1;

/// The inode of a regular file, and when it last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// `None` if a later change might look the same.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let is_settled = metadata.ctime().saturating_add(TICK) < i64::try_from(now).ok()?;
        (metadata.is_file() && is_settled).then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether the path, which is no link, still leads to this file, and nothing was written to it or done with it.
    pub fn is_current(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|metadata| Self::of(&metadata) == Some(*self))
    }

    pub const fn inode(&self) -> u64 {
        self.inode
    }

    /// When the file was last written to, in seconds and nanoseconds.
    pub const fn written(&self) -> (i64, i64) {
        self.written
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs::{File, FileTimes};
    use std::time::Duration;

    use super::*;

    fn stamp(path: &Path) -> Option<Stamp> {
        Stamp::of(&fs::symlink_metadata(path).unwrap())
    }

    #[test]
    fn a_file_is_as_it_was_until_anything_happens_to_it() {
        let dir = std::env::temp_dir().join(format!("innokit-stamp-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("t.frm");
        fs::write(&path, "one").unwrap();
        assert_eq!(stamp(&path), None, "it changed just now");
        std::thread::sleep(Duration::from_millis(2100));
        let before = stamp(&path).unwrap();
        assert!(before.is_current(&path));
        // The same bytes, and the old time of writing: the inode has changed nevertheless.
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "one").unwrap();
        File::options().write(true).open(&path).unwrap().set_times(FileTimes::new().set_modified(written)).unwrap();
        assert!(!before.is_current(&path));
        fs::rename(&path, dir.join("u.frm")).unwrap();
        assert!(!before.is_current(&path));
        std::os::unix::fs::symlink("u.frm", &path).unwrap();
        assert!(!before.is_current(&path) && stamp(&path).is_none(), "a link");
        fs::remove_dir_all(&dir).unwrap();
    }
}
