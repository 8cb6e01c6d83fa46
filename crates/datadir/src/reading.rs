//! Reads of files that may end early, have holes, or be anything but what their names say.

use std::fs::Metadata;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use format::bytes::is_zero;

use crate::files::{self, File};

/// The device and the inode of the file that a path leads to; `None` if there is no such file, as for an archive member.
pub fn identity_of(path: &Path) -> Option<(u64, u64)> {
    files::metadata(path).ok().map(|meta| meta.identity())
}

/// Whether a file has holes. `st_blocks` counts 512 bytes, whatever the block size of the file system.
pub fn has_holes(file: &Metadata) -> bool {
    file.blocks() * 512 < file.len()
}

/// Holes are whole blocks of the file system, which are no larger than this as a rule, in bytes.
const HOLE_ALIGN: usize = 4 << 10;

/// Bytes per read where the kernel does not copy.
const COPY_PIECE: usize = 64 << 10;

/// The bytes of a page before the hole that it may end with.
pub fn used_before_hole(page: &[u8]) -> usize {
    let zeros = page.iter().rev().take_while(|byte| **byte == 0).count();
    (page.len() - zeros).next_multiple_of(HOLE_ALIGN).min(page.len())
}

/// Up to `len` bytes of a file at `offset`; fewer where the file ends.
pub fn read_up_to(file: &impl FileExt, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let filled = read_into(file, offset, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// The first bytes of a file, up to `len`, in pieces that begin at 64 KiB and double: a small file takes one request and one that finds its
/// end, and no buffer that is much larger than it.
pub fn head_of(file: &impl FileExt, len: usize) -> io::Result<Vec<u8>> {
    head_in_pieces(file, len, 64 << 10)
}

fn head_in_pieces(file: &impl FileExt, len: usize, mut piece: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let (start, want) = (bytes.len(), piece.min(len - bytes.len()));
        bytes.resize(start + want, 0);
        let got = read_into(file, start as u64, bytes.get_mut(start..).unwrap_or(&mut []))?;
        bytes.truncate(start + got);
        if got < want {
            break;
        }
        piece = bytes.len();
    }
    Ok(bytes)
}

/// Fills `bytes` from a file at `offset`, as far as the file goes. Returns how many bytes that are.
pub fn read_into(file: &impl FileExt, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// As [`std::io::copy`], to the end of the source. That has the kernel copy (`sendfile`), which takes a short reply of FUSE with `direct_io`
/// for the end of the file: so what it calls the end is read once more.
pub fn copy_all(source: &mut impl Read, target: &mut impl Write) -> io::Result<u64> {
    let mut copied = io::copy(source, target)?;
    let mut bytes = vec![0; COPY_PIECE];
    loop {
        match source.read(&mut bytes) {
            Ok(0) => return Ok(copied),
            Ok(got) => {
                target.write_all(bytes.get(..got).unwrap_or_default())?;
                copied += got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a file is empty or all zeros: nothing was ever written to it.
pub fn is_unwritten(path: &Path) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut bytes = vec![0; 1 << 16];
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return true,
            Ok(got) if bytes.get(..got).is_some_and(is_zero) => {}
            Ok(_) | Err(_) => return false,
        }
    }
}

/// Reads all of a small file. It must be a regular file of at most `max` bytes: a name does not tell what is behind it, and opening a pipe
/// would block.
pub fn read_small(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let refused = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(refused("not a regular file".to_owned()));
    }
    // One byte more than it has shows that it has not grown.
    let [most, expected] = [max, meta.len().min(max)].map(|len| usize::try_from(len + 1).unwrap_or(usize::MAX));
    let bytes = head_in_pieces(&file, most, expected)?;
    if bytes.len() as u64 > max {
        return Err(refused(format!("longer than the {max} bytes that a file of this kind can have")));
    }
    Ok(bytes)
}
