//! Names, owners and modes of files created in a datadir: the server must be able to use them, and a crash must not lose them.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use super::error::{Result, failed};

/// Gives a new file or directory the owner and mode of the one it copies or accompanies, so that the server can use it.
pub(crate) fn make_like(made: &Path, like: &Metadata) -> Result<()> {
    let own = fs::metadata(made).map_err(failed(made, "looking at the file"))?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        match chown(made, Some(like.uid()), Some(like.gid())) {
            // Only root can give files away; any other user keeps the file.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other.map_err(failed(made, "giving the file its owner"))?,
        }
    }
    fs::set_permissions(made, like.permissions()).map_err(failed(made, "giving the file its mode"))
}

/// Creates missing directories durably, as the datadir's owner would.
pub(crate) fn make_directories(dir: &Path, datadir: &Path) -> Result<()> {
    if dir.is_dir() {
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
pub(super) fn sync_directory_of(path: &Path) -> Result<()> {
    flow::durable::sync_directory_of(path).map_err(failed(path, "making its name durable"))
}

/// Makes a directory's entries durable.
pub(super) fn sync_directory(dir: &Path) -> Result<()> {
    flow::durable::sync_directory(dir).map_err(failed(dir, "making names durable"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
