//! After a failed proof: whose page is it? Every page was sound when it was copied, so the copy has been changed since, or the server's file
//! has been damaged since. Only the server's file, read again, tells.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use format::keyring::KeyStore;

use super::error::{BackupError, Result, failed};
use super::pace::{BackupWatcher, Pace};
use super::pages::{PageReader, part_of, space_id};
use super::tablespaces::damaged;
use crate::door;
use crate::manifest::{BackupTablespace, Manifest};
use crate::recover::RecoverError;

/// Adds to the failure of a proof what the server's own files are like now. Any other error is returned as it is.
pub(super) fn blamed(
    error: BackupError,
    (datadir, stop): (&Path, &AtomicBool),
    manifest: &Manifest,
    keys: &KeyStore,
) -> BackupError {
    if !matches!(error, BackupError::Proof(RecoverError::Damaged(_)) | BackupError::Unproved(_)) {
        return error;
    }
    // The message names the file. A longer name that ends alike is read for nothing.
    let says = error.to_string();
    // What was allowed to be damaged is no news.
    let is_suspect = |entry: &&BackupTablespace| {
        says.contains(&entry.path) && !manifest.damaged.iter().any(|damaged| damaged.path == entry.path)
    };
    let suspects: Vec<_> = manifest.tablespaces.iter().filter(is_suspect).collect();
    for entry in &suspects {
        match refuse_damaged(&datadir.join(&entry.path), entry.space, stop, keys) {
            Ok(()) => {}
            Err(found @ BackupError::Damaged(_)) => return found,
            // It was renamed or dropped since, or cannot be read: nothing is known of it.
            Err(_) => return error,
        }
    }
    if suspects.is_empty() {
        return error;
    }
    BackupError::Unproved(format!("{says} (each page of the server's own file was read again now, and is sound)"))
}

/// Fails if the file is no longer this tablespace's, or a page of it stays damaged however often it is read.
fn refuse_damaged(path: &Path, space: u32, stop: &AtomicBool, keys: &KeyStore) -> Result<()> {
    let file = door::open_file(path).map_err(failed(path, "reading the server's file again"))?;
    let part = part_of(&file, path, keys).map_err(failed(path, "reading the server's file again"))?;
    let Some(part) = part else { return damaged(path, "page 0") };
    if space_id(&file).map_err(failed(path, "reading the server's file again"))?.0 != space {
        return Err(BackupError::Refused(format!("{}: it is another tablespace now", path.display())));
    }
    let mut pace = Pace::new(None, false, BackupWatcher::default(), stop);
    let found = PageReader::new(keys).each_stretch((&file, path), &part, &mut pace, &mut |_, _| Ok(()))?;
    match found.bad.first() {
        None => Ok(()),
        Some(page) => damaged(path, &format!("page {page}")),
    }
}
