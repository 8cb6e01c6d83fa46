//! Where bytes come from: directories, tablespaces, redo logs.

pub mod content;
pub mod datadir;
pub mod keys;
pub mod name;
pub mod redo_log;
pub mod space;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Up to `len` bytes of a file at `offset`; fewer where the file ends.
pub(crate) fn read_up_to(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
