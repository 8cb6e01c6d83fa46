//! The shadow file: the old content of pages while they are written in place, so that an interrupted run can be finished.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flow::rewrite::{Replayed, RewriteTarget, replay};
use flow::{FileHandle, FileId};

use super::durable::sync_directory_of;
use super::error::{Result, failed};
use super::files::resolve;
use super::open_files::descriptors;
use super::outside::Outside;
use super::tuning::engine;

/// Name of the file in the datadir that keeps the old content of pages while they are written in place.
pub const SHADOW_NAME: &str = "innokit-recover.shadow";

/// Opens a datadir's shadow file, or creates it.
pub(super) fn open(datadir: &Path, make: bool) -> Result<RewriteTarget> {
    let path = datadir.join(SHADOW_NAME);
    // The file contains rows, so no other user may read it.
    let file = File::options().read(true).write(true).create(make).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(failed(&path, "opening the shadow file"))?;
    sync_directory_of(&path)?;
    let name = SHADOW_NAME.as_bytes().to_vec();
    Ok(RewriteTarget { file: FileId(u32::MAX), handle: FileHandle::of_file(file, false), name })
}

/// Finishes the writes of an interrupted run. Returns the number of page pieces. A shadow file from another checkpoint is ignored: a server
/// has changed the files since.
pub(super) fn finish_interrupted(datadir: &Path, tag: u64) -> Result<u64> {
    if !datadir.join(SHADOW_NAME).exists() {
        return Ok(0);
    }
    let (mut number, files) = (0, descriptors());
    let replayed = replay(engine(), &open(datadir, false)?, tag, |name| {
        number += 1;
        resolve((datadir, &files), Outside::of(datadir), name, number)
    })?;
    remove(datadir)?;
    Ok(if let Replayed::Pieces(pieces) = replayed { pieces } else { 0 })
}

/// Removes the shadow file. Call it once the pages it saved are durable in place.
pub(super) fn remove(datadir: &Path) -> Result<()> {
    let path = datadir.join(SHADOW_NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, "removing the shadow file")(error)),
        _ => sync_directory_of(&path),
    }
}
