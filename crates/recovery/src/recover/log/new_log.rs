//! Files of a log that replaces another.

use std::fs::Metadata;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::door;
use crate::recover::error::{RecoverError, Result, failed};
use crate::recover::place::durable::{give, sync_directory_of};

/// A new log's name until it is in place: servers use it for their own unfinished logs and remove such files.
pub(in crate::recover) const NEW_LOG: &str = "ib_logfile101";

/// A file of a closed log.
#[derive(Debug)]
pub(in crate::recover) struct ClosedFile {
    pub path: PathBuf,
    /// Its length. `None` for a file that is removed.
    pub len: Option<u64>,
    /// Whether it is the file that was there, but for the writes. Otherwise it is zeros but for them.
    pub has_base: bool,
    /// Bytes by their offsets, in the order in which they are written.
    pub writes: Vec<(u64, Vec<u8>)>,
}

/// Replaces a log file, atomically, with one of `size` bytes that starts with `bytes` and is otherwise empty.
pub(in crate::recover) fn replace(path: &Path, bytes: &[u8], size: u64) -> Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(RecoverError::Internal("the redo log has no name"));
    };
    // Through a link this would write beside its target, which is anywhere.
    let old = door::read(dir, name).and_then(|old| old.metadata());
    let like = old.map_err(failed(path, "looking at the redo log"))?;
    made(dir, &like, bytes, size)?;
    door::rename(dir, NEW_LOG, name).map_err(failed(path, "replacing the redo log"))?;
    sync_directory_of(path)
}

/// Makes the new log under its passing name.
pub(in crate::recover) fn made(dir: &Path, like: &Metadata, bytes: &[u8], size: u64) -> Result<()> {
    let new = dir.join(NEW_LOG);
    let file = door::replace(dir, NEW_LOG).map_err(failed(&new, "making the new redo log"))?;
    give(&file, &new, like)?;
    let write = || {
        // If space cannot be reserved, the file has its length anyway.
        if size > 0 && fallocate(&file, FallocateFlags::empty(), 0, size) == Err(rustix::io::Errno::NOSPC) {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        file.set_len(size)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()
    };
    write().map_err(failed(&new, "writing the new redo log"))
}
