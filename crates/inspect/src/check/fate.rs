//! The fate of a file that a server has open: is it still the listed file, and does it hold still?
//!
//! A file is gone only if its path leads nowhere or to another file. An unreadable page or an unsound first page is not a sign of that: it
//! is what damage looks like.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use format::SpaceId;

use datadir::space;

/// The device and the inode of a file.
pub(super) type FileKey = (u64, u64);

/// A bad-looking file must stay unchanged this long before it is called damaged.
const STILL_FOR: Duration = Duration::from_millis(1000);
/// Give up on a file still changing after this long.
const RESTLESS_FOR: Duration = Duration::from_millis(5000);
const PAUSE: Duration = Duration::from_millis(100);

/// Whether the path no longer leads to file `key` of tablespace `space`. Servers remove and replace files all the time: dropped and rebuilt
/// tables, truncated undo tablespaces.
pub(super) fn is_gone(path: &Path, key: Option<FileKey>, space: Option<SpaceId>) -> bool {
    match fs::metadata(path) {
        Ok(meta) if key.is_some_and(|key| key != (meta.dev(), meta.ino())) => true,
        Ok(_) => match (space, space::part_now(path)) {
            (Some(space), Some(part)) => part.format.space() != space,
            _ => false,
        },
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether the server itself shortened or removed the file: page 0 is sound and counts no more pages than the file has. That page may still
/// be on its way to disk, so poll for a while.
pub(super) fn is_shrunk(path: &Path) -> bool {
    let start = Instant::now();
    loop {
        let len = fs::metadata(path).map_or(0, |meta| meta.len());
        let part = space::part_now(path);
        let counts_less =
            |part: space::SpacePart| part.header.is_some_and(|it| u64::from(it.size) <= part.pages_in(len));
        if part.is_some_and(counts_less) || is_gone(path, None, None) {
            return true;
        }
        if start.elapsed() >= STILL_FOR {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until the file has not been written for a while. `false` if it never settles: then nothing is proven.
pub(super) fn holds_still(path: &Path) -> bool {
    let stamp = |meta: Metadata| (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
    let now = || fs::metadata(path).ok().map(stamp);
    let (mut seen, start, mut since) = (now(), Instant::now(), Instant::now());
    while since.elapsed() < STILL_FOR {
        if start.elapsed() > RESTLESS_FOR {
            return false;
        }
        std::thread::sleep(PAUSE);
        let next = now();
        if next != seen {
            (seen, since) = (next, Instant::now());
        }
    }
    seen.is_some()
}
