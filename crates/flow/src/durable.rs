//! Names that survive a crash: creating, renaming or removing a file is durable only once its directory is on the device too.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::steps::{self, Step};

/// Makes the entries of `dir` durable.
///
/// # Errors
/// The system's error.
pub fn sync_directory(dir: &Path) -> io::Result<()> {
    // The parent of a bare file name is the empty path, which the system does not open.
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let synced = File::open(dir)?.sync_all();
    steps::done(synced, |()| Step::SyncDirectory(dir.to_path_buf()))
}

/// Renames a file or a directory. Durable only once the directory is synced.
///
/// # Errors
/// The system's error.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    steps::done(fs::rename(from, to), |()| Step::Rename(from.to_path_buf(), to.to_path_buf()))
}

/// Removes a file. Durable only once the directory is synced.
///
/// # Errors
/// The system's error.
pub fn remove_file(path: &Path) -> io::Result<()> {
    steps::done(fs::remove_file(path), |()| Step::Remove(path.to_path_buf()))
}

/// Makes the entries of the directory that holds `path` durable.
///
/// # Errors
/// The system's error.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    sync_directory(path.parent().unwrap_or(path))
}

/// Makes everything in the file system of `dir` durable: cheaper than file by file after writing many.
///
/// # Errors
/// The system's error.
pub fn sync_file_system_of(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_any_path_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in [dir.path(), Path::new("Cargo.toml"), Path::new("src/lib.rs"), Path::new("/")] {
            sync_directory_of(path).expect("synced");
        }
        assert!(sync_directory_of(&dir.path().join("missing/file")).is_err());
    }
}
