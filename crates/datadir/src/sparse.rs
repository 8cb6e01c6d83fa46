//! Files that are nearly all hole.

use super::files::Metadata;

/// A file shorter than this is read, holes and all, at the memory's speed.
const LEN_MIN: u64 = 1 << 40;
/// A tablespace whose pages are all compressed to the smallest unit of a disk has 1/128 of its length on it.
const SHARE: u64 = 4096;

/// Why a file is not read whole: no server makes one of terabytes of which next to nothing is on disk, and one command that makes it would keep
/// a check busy for hours. `None` for any other.
pub fn refused(meta: &Metadata) -> Option<String> {
    let (len, on_disk) = (meta.len(), meta.bytes_on_disk());
    let is_hollow = meta.is_file() && len >= LEN_MIN && on_disk < len / SHARE;
    is_hollow.then(|| {
        format!(
            "it is {len} bytes long, but only {on_disk} of them are on disk: no tablespace is so sparse, and it is not read. If a copy made it \
             so, copy it again"
        )
    })
}
