//! Names, owners and modes of files created in a datadir: the server must be able to use them, and a crash must not lose them.

use std::fs::{self, File, Metadata};
use std::path::Path;

use crate::door;
use crate::recover::error::{Result, failed};
use datadir::files::AskPath;

/// Gives a new file or directory the owner and mode of the one it copies or accompanies, so that the server can use it. Not through a link:
/// that would give away what the link leads to.
pub(crate) fn make_like(made: &Path, like: &Metadata) -> Result<()> {
    let file = door::open_made(made).map_err(failed(made, "looking at the file"))?;
    door::give(&file, like).map_err(failed(made, "giving the file its owner and mode"))
}

/// Gives a new file the owner and mode of the one it copies or accompanies. `path` is its name, for errors.
pub(in crate::recover) fn give(made: &File, path: &Path, like: &Metadata) -> Result<()> {
    door::give(made, like).map_err(failed(path, "giving the file its owner and mode"))
}

/// Creates missing directories durably, as the datadir's owner would.
pub(crate) fn make_directories(dir: &Path, datadir: &Path) -> Result<()> {
    if dir.is_folder_there() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_directories(parent, datadir)?;
    }
    let like = fs::metadata(datadir).map_err(failed(datadir, "looking at the directory"))?;
    fs::create_dir(dir).map_err(failed(dir, "making the directory"))?;
    make_like(dir, &like)?;
    sync_directory_of(dir)
}

/// Makes the entries of a file's directory durable.
pub(in crate::recover) fn sync_directory_of(path: &Path) -> Result<()> {
    flow::durable::sync_directory_of(path).map_err(failed(path, "making its name durable"))
}

/// Makes a directory's entries durable.
pub(in crate::recover) fn sync_directory(dir: &Path) -> Result<()> {
    flow::durable::sync_directory(dir).map_err(failed(dir, "making names durable"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn directories_are_made_where_they_are_missing() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o750)).expect("a mode");
        for _ in 0..2 {
            make_directories(&dir.path().join("a/b"), dir.path()).expect("made");
        }
        let mode = fs::metadata(dir.path().join("a/b")).expect("is there").mode();
        assert_eq!(mode & 0o777, 0o750);
    }
}
