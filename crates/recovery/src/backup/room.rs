//! Whether there is room for a backup, before anything of it is written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::error::{Result, refused};
use super::listing::list;
use super::others;

/// Bytes of a block as the system counts the blocks of files.
const BLOCK: u64 = 512;

/// Refuses a target below the directory `parent` with less free space than the files of the server take now. The log is not counted: how
/// much of it there will be depends on what the server does meanwhile.
pub(super) fn check(datadir: &Path, has_general: bool, (parent, target): (&Path, &Path)) -> Result<()> {
    let Ok(room) = rustix::fs::statvfs(parent) else { return Ok(()) };
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let names = list(datadir, has_general)?.into_iter().chain(others::all(datadir)?);
    let sizes = names.filter_map(|name| fs::metadata(datadir.join(name)).ok());
    // Holes stay holes, and files may have blocks beyond their end.
    let needed: u64 = sizes.map(|it| it.len().min(it.blocks().saturating_mul(BLOCK))).sum();
    if free >= needed {
        return Ok(());
    }
    refused(format!(
        "{}: {} MiB are free there, and the server's files take {} MiB: nothing was copied: make room, or choose another disk",
        target.display(),
        free >> 20,
        needed.div_ceil(1 << 20)
    ))
}
