//! Files that an option names, such as `--metrics FILE` and `--map FILE`.
//!
//! A regular file is replaced in one step, so that its reader sees the old content or the new one. A device or a pipe is written to: replaced by a
//! file, `/dev/stdout` would be lost to the whole machine. A link is refused if it leads to a file, because a rename would replace the link.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tempfile::NamedTempFile;

/// Writes `bytes`. If the path is, or will be, a regular file, they go through a temporary file made by `beside` in its directory.
pub fn write(path: &Path, bytes: &[u8], beside: impl FnOnce(&Path) -> io::Result<NamedTempFile>) -> io::Result<()> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(meta) if meta.is_file() => {}
        Ok(meta) if meta.is_dir() => return refused("it is a directory: name a file in it"),
        Ok(_) => {
            let kind = fs::metadata(path)?.file_type();
            if kind.is_file() {
                return refused("it is a symbolic link: name the file that it leads to");
            }
            if !kind.is_char_device() && !kind.is_fifo() {
                return refused("it is neither a file nor a pipe nor a terminal");
            }
            return write_through(path, bytes);
        }
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut unfinished = beside(dir)?;
    unfinished.write_all(bytes)?;
    unfinished.as_file().sync_all()?;
    unfinished.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Without a reader a pipe is refused instead of waited for.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut file = File::options().write(true).custom_flags(flags).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    file.write_all(bytes)
}
