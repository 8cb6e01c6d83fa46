//! Marks a copy that is being made: until the marker is gone, files are missing in it, or are not recovered, or are not durable.
//!
//! An interrupted copy is made again. Its pages may be torn, since nothing saved them before they were changed, and with an archive they may be
//! newer than the end of its own log. So the marker is removed last.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::durable::sync_directory_of;
use super::outside;
use crate::door;
use crate::recover::error::{RecoverError, Result, failed, refused};
use datadir::files::AskPath;

const MARKER: &str = "innokit-recover.unfinished";
/// For the DBA who finds it.
const MARKER_TEXT: &str = "innokit did not finish this copy: files are missing here, or they are of different moments. \
                           Start no server on it. Remove this directory and start again.\n";

/// Marks a copy, durably. Call it before the first of its files is made.
pub(crate) fn mark(copy: &Path) -> Result<()> {
    let path = copy.join(MARKER);
    let written = door::replace(copy, MARKER).and_then(|mut file| {
        file.write_all(MARKER_TEXT.as_bytes())?;
        file.sync_all()
    });
    written.map_err(failed(&path, "writing the file"))?;
    sync_directory_of(&path)
}

/// Marks a copy to which an archive is about to be applied. Without an archive, fails if the copy is marked: nothing leads it to one moment.
pub(in crate::recover) fn mark_or_refuse(copy: &Path, has_archive: bool) -> Result<()> {
    if has_archive { mark(copy) } else { refuse(copy) }
}

/// Removes the marker, durably. Call it once everything else in the copy is durable.
pub(crate) fn unmark(copy: &Path) -> Result<()> {
    let path = copy.join(MARKER);
    door::remove(copy, MARKER).map_err(failed(&path, "removing the file"))?;
    sync_directory_of(&path)
}

/// Fails if the directory is a copy that was never finished.
pub(crate) fn refuse(dir: &Path) -> Result<()> {
    if !dir.join(MARKER).is_there() {
        return Ok(());
    }
    refused(format!(
        "{}: innokit was interrupted before it finished this copy, so its files may be of different moments ({MARKER} is there): remove \
         the directory and start again",
        dir.display()
    ))
}

/// The error for a target that is not empty. Tells if an interrupted run left it.
pub(crate) fn occupied(to: &Path) -> RecoverError {
    let path = to.display();
    if to.join(MARKER).is_there() {
        return RecoverError::Refused(format!(
            "{path}: the directory is not empty: an interrupted innokit left an unfinished copy here ({MARKER}): unless another innokit is \
             still working on it, remove the directory and start again"
        ));
    }
    // A server may have finished such a copy, and it may be in use.
    if to.join(outside::MARKER).is_there() {
        return RecoverError::Refused(format!(
            "{path}: the directory is not empty: an interrupted innokit recover left its copy here ({}): if no innokit and no server has used \
             it since, remove the directory and start again",
            outside::MARKER
        ));
    }
    RecoverError::Occupied(to.to_path_buf())
}

/// Removes a failed copy as far as possible. Its own errors are ignored: the error about to be reported matters more. The marker goes last,
/// so what an interrupted removal leaves is still marked.
pub(crate) fn discard(copy: &Path) {
    if is_emptied(copy) {
        fs::remove_dir_all(copy).ok();
    }
}

/// Removes all files of a copy but the marker. Whether that was possible.
fn is_emptied(copy: &Path) -> bool {
    // A listing that ends early is no empty one: what it left out is still beside the marker.
    let Ok(entries) = fs::read_dir(copy) else { return false };
    let removed = entries.filter(|entry| !entry.as_ref().is_ok_and(|entry| entry.file_name() == MARKER)).map(|entry| {
        let entry = entry?;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            _ => fs::remove_file(entry.path()),
        }
    });
    removed.fold(true, |all, removed: io::Result<()>| all & removed.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_refused_until_it_is_finished() {
        let dir = tempfile::tempdir().expect("a directory");
        refuse(dir.path()).expect("not marked");
        assert!(matches!(occupied(dir.path()), RecoverError::Occupied(_)));
        for _ in 0..2 {
            mark(dir.path()).expect("marked");
        }
        let says = |error: RecoverError| error.to_string();
        let refused = says(refuse(dir.path()).expect_err("marked"));
        assert!(refused.contains("remove the directory") && refused.contains(MARKER), "{refused}");
        let occupied_by = says(occupied(dir.path()));
        assert!(occupied_by.contains("not empty") && occupied_by.contains(MARKER), "{occupied_by}");
        for _ in 0..2 {
            unmark(dir.path()).expect("not marked any more");
        }
        refuse(dir.path()).expect("not marked");
        fs::write(dir.path().join(outside::MARKER), "").expect("written");
        assert!(says(occupied(dir.path())).contains("left its copy here"));
    }

    #[test]
    fn what_a_removal_leaves_is_still_marked() {
        let dir = tempfile::tempdir().expect("a directory");
        let copy = dir.path().join("copy");
        fs::create_dir_all(copy.join("db")).expect("made");
        fs::write(copy.join("db/t.ibd"), "t").expect("written");
        mark(&copy).expect("marked");
        assert!(is_emptied(&copy));
        assert_eq!(fs::read_dir(&copy).expect("a directory").count(), 1);
        refuse(&copy).expect_err("still marked");
        discard(&copy);
        assert!(!copy.exists());
    }
}
