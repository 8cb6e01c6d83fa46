//! Opening files to read them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// The error for what is neither a file nor anything else that can be read like one.
pub fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// Opens a file to read it, wherever a link leads, but never waits: opening a pipe without a writer would. What is neither a file nor
/// a directory nor a block device is refused.
pub fn open_file(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(openat(CWD, path.as_ref(), flags, Mode::empty())?);
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() || kind.is_block_device() { Ok(file) } else { Err(not_regular()) }
}

/// All bytes of a file, opened as by [`open_file`].
pub fn read_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open_file(path)?, &mut bytes)?;
    Ok(bytes)
}
