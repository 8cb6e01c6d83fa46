//! Empties the page cache before each measurement: drops files one by one, and has the kernel confirm it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use flow::PageCache;
use serde::Serialize;

/// How the page cache was emptied: the strongest method that a measurement needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Emptied {
    /// Not needed: all measurements bypassed it, or did not read.
    #[default]
    NotNeeded,
    /// The file's own pages, by `posix_fadvise`; the kernel confirms that none are left.
    File,
    /// The whole page cache, by `/proc/sys/vm/drop_caches`, because some pages of the file could not be dropped; confirmed.
    Everything,
    /// The kernel does not say whether pages are left.
    Unconfirmed,
    /// Some pages were left, held by something else; the figures are warmer than they should be.
    Failed,
}

impl Emptied {
    /// A description for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotNeeded => "the page cache was not in the way",
            Self::File => "cold: the file's pages were dropped before each measurement, and the kernel confirmed it",
            Self::Everything => {
                "cold: the file's pages, or where these would not go all pages of the machine, were dropped before each measurement, \
                 and the kernel confirmed it"
            }
            Self::Unconfirmed => {
                "meant to be cold: pages were dropped before each measurement, but the kernel does not say whether they went"
            }
            Self::Failed => "NOT COLD: pages of the file stayed in the page cache, because another process uses them",
        }
    }
}

/// How often to try again to drop pages, and the pause before.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(2);

/// Drops the file's pages, after writing dirty ones to the device.
///
/// # Errors
/// If the file cannot be synced.
pub fn empty(file: &File, len: u64) -> io::Result<Emptied> {
    // Works on a file opened only for reading too, and writes what others left dirty.
    file.sync_data()?;
    // Pages that the kernel is moving or writing are skipped; a later try drops them.
    for _ in 0..TRIES {
        drop_pages(file);
        match pages_left(file, len) {
            Some(0) | None => break,
            Some(_) => std::thread::sleep(PAUSE),
        }
    }
    match pages_left(file, len) {
        None => Ok(Emptied::Unconfirmed),
        Some(0) => Ok(Emptied::File),
        Some(_) if fs::write("/proc/sys/vm/drop_caches", "1").is_ok() && pages_left(file, len) == Some(0) => {
            Ok(Emptied::Everything)
        }
        Some(_) => Ok(Emptied::Failed),
    }
}

#[cfg(target_os = "linux")]
fn drop_pages(file: &File) {
    // A page that was not dropped is counted afterwards.
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).ok();
}

#[cfg(not(target_os = "linux"))]
fn drop_pages(_file: &File) {}

/// Pages of the file in the page cache, if the kernel says.
fn pages_left(file: &File, len: u64) -> Option<u64> {
    PageCache::new().pages_held(file.as_fd(), 0, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_just_written_is_cold_after_emptying() {
        let dir = tempfile::tempdir_in(".").expect("temporary directory");
        let path = dir.path().join("file");
        fs::write(&path, vec![7; 300_000]).expect("write");
        let file = File::open(&path).expect("open");
        let before = pages_left(&file, 300_000);
        assert!(before.is_none_or(|pages| pages > 0), "{before:?}");
        let emptied = empty(&file, 300_000).expect("syncs");
        assert!(emptied != Emptied::NotNeeded);
        if before.is_some() && emptied != Emptied::Failed {
            assert_eq!(pages_left(&file, 300_000), Some(0), "{emptied:?}");
        }
    }
}
