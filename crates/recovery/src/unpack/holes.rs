//! Holes in unpacked tablespaces. Streams have none: a page-compressed page comes with the zeros behind its compressed bytes, and the file
//! would take several times the space it had on the server.

use std::fs::File;
use std::io;

use format::SpaceFormat;
use format::fil::PageType;
use format::page::view::page_type;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use datadir::reading::{read_up_to, used_before_hole};

/// Bytes read at a time. If none of the first pages is compressed, the tablespace is taken for an ordinary one.
const PIECE: usize = 1 << 20;

/// Turns the zeros at the ends of page-compressed pages into holes, if the file is a tablespace that has such pages. Zeros in other pages
/// are room for rows: holes there would scatter the file.
pub(super) fn punch(file: &File) -> io::Result<()> {
    let len = file.metadata()?.len();
    let head = read_up_to(file, 0, PIECE)?;
    let Ok(format) = SpaceFormat::from_page0(&head) else { return Ok(()) };
    let mut has_compressed = false;
    for start in (0..len).step_by(PIECE) {
        let bytes = read_up_to(file, start, PIECE)?;
        let page_size = format.physical().bytes();
        for (offset, page) in (start..).step_by(page_size).zip(bytes.chunks_exact(page_size)) {
            if !is_compressed(page, &format) {
                continue;
            }
            has_compressed = true;
            let used = used_before_hole(page);
            let hole = (offset + used as u64, (page.len() - used) as u64);
            if hole.1 > 0 && !punch_one(file, hole)? {
                return Ok(());
            }
        }
        if !has_compressed {
            break;
        }
    }
    Ok(())
}

fn is_compressed(page: &[u8], format: &SpaceFormat) -> bool {
    const COMPRESSED: [PageType; 4] = [
        PageType::COMPRESSED,
        PageType::COMPRESSED_AND_ENCRYPTED,
        PageType::PAGE_COMPRESSED,
        PageType::PAGE_COMPRESSED_ENCRYPTED,
    ];
    page_type(page, format).is_some_and(|kind| COMPRESSED.contains(&kind))
}

/// Returns whether the file system knows holes.
fn punch_one(file: &File, (offset, len): (u64, u64)) -> io::Result<bool> {
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
