//! Copies one file: with its holes, without copying where the file system can share blocks, and with its checksum if somebody compares it.
//! Or only sums it up.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use flow::did_bytes;
use rustix::fs::{SeekFrom, ioctl_ficlone};
use rustix::io::Errno;

use crate::door;
use crate::recover::error::{Result, failed};
use datadir::ahead::each_piece;
use datadir::crc32c::Crc32c;
use datadir::reading::{copy_all, has_holes, read_into, read_up_to};

/// Files up to this size are copied by the system, bytes.
const AT_ONCE: u64 = 1 << 20;
/// Bytes per read of a file with holes, if its checksum is asked for.
const PIECE: usize = 1 << 20;

/// Sums up a file's content, if that is asked for.
type Sum = Option<Crc32c>;

/// Copies the file `name` of a set to `target`, beneath the directory `to`, with its owner and mode. Returns the CRC-32C of its content if
/// `is_summed`. A large file fails soon after `stop` is set.
pub(crate) fn copy_file(
    (from, name): (&Path, &Path),
    (to, target): (&Path, &Path),
    is_summed: bool,
    stop: &AtomicBool,
) -> Result<Option<u32>> {
    let path = from.join(name);
    let source = door::source(from, name).map_err(failed(&path, "opening the file"))?;
    copy_opened((&source, &path), (to, target), is_summed, stop)
}

/// [`copy_file`] of an open file.
pub(in crate::recover) fn copy_opened(
    from: (&File, &Path),
    (to, target): (&Path, &Path),
    is_summed: bool,
    stop: &AtomicBool,
) -> Result<Option<u32>> {
    let (source, path) = from;
    let like = source.metadata().map_err(failed(path, "looking at the file"))?;
    let mut sum = is_summed.then(Crc32c::new);
    let made = door::create(to, target).map_err(failed(&to.join(target), "making the file"))?;
    let copied = match like.len() {
        _ if has_holes(&like) => copy_sparse(source, &made, &mut sum),
        len if len > AT_ONCE => copy_ahead((source, path, len), &made, &mut sum, stop),
        len => copy_range(source, &made, 0..len, &mut sum),
    };
    copied.map_err(failed(path, "copying the file"))?;
    door::give(&made, &like).map_err(failed(&to.join(target), "giving the file its owner and mode"))?;
    Ok(sum.map(|sum| sum.value()))
}

/// The CRC-32C of a file's content. A large file fails soon after `stop` is set.
pub(in crate::recover) fn sum_file(path: &Path, stop: &AtomicBool) -> Result<u32> {
    let mut sum = Crc32c::new();
    let mut read = || {
        let file = door::open_file(path)?;
        let len = file.metadata()?.len();
        if len <= AT_ONCE {
            let content = read_up_to(&file, 0, AT_ONCE as usize)?;
            did_bytes(content.len());
            sum.add(&content);
            return Ok(());
        }
        let take = &mut |_, bytes: &[u8]| {
            did_bytes(bytes.len());
            sum.add(bytes);
            go_on(stop)
        };
        each_piece((&file, path), len, take, |error| error)
    };
    read().map_err(failed(path, "reading the file"))?;
    Ok(sum.value())
}

/// Fails once nobody wants the copy, or the checksum, any more.
fn go_on(stop: &AtomicBool) -> io::Result<()> {
    // Relaxed: a moment later will do.
    if stop.load(Ordering::Relaxed) { Err(io::Error::other("it was stopped")) } else { Ok(()) }
}

/// Copies a large file. The system itself would read it with little ahead, and a device that can do more would wait.
fn copy_ahead(
    (source, from, len): (&File, &Path, u64),
    target: &File,
    sum: &mut Sum,
    stop: &AtomicBool,
) -> io::Result<()> {
    // On XFS and Btrfs both files have the same blocks until one is written to. Elsewhere this fails, and changes nothing.
    let is_shared = ioctl_ficlone(target, source).is_ok();
    if is_shared && sum.is_none() {
        return Ok(());
    }
    let take = &mut |offset, bytes: &[u8]| {
        go_on(stop)?;
        did_bytes(bytes.len());
        sum.iter_mut().for_each(|sum| sum.add(bytes));
        if is_shared { Ok(()) } else { target.write_all_at(bytes, offset) }
    };
    each_piece((source, from), len, take, |error| error)
}

/// Copies a file and keeps its holes: without them a page_compressed tablespace would take several times its space.
fn copy_sparse(source: &File, target: &File, sum: &mut Sum) -> io::Result<()> {
    let len = source.metadata()?.len();
    target.set_len(len)?;
    let mut at = 0;
    while at < len {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => len, // Only a hole is left.
            Err(error) => return Err(error.into()),
        };
        sum.iter_mut().for_each(|sum| sum.add_hole(start));
        at = if start < len { rustix::fs::seek(source, SeekFrom::Hole(start))? } else { len };
        copy_range(source, target, start..at, sum)?;
    }
    Ok(())
}

fn copy_range(mut source: &File, mut target: &File, range: Range<u64>, sum: &mut Sum) -> io::Result<()> {
    let Some(sum) = sum else {
        source.seek(io::SeekFrom::Start(range.start))?;
        target.seek(io::SeekFrom::Start(range.start))?;
        let copied = copy_all(&mut source.take(range.end - range.start), &mut target).map(drop);
        did_bytes(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
        return copied;
    };
    let (mut buffer, mut at) = (vec![0; PIECE], range.start);
    while at < range.end {
        let len = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
        let piece = buffer.get_mut(..len).unwrap_or_default();
        let read = read_into(source, at, piece)?;
        let piece = piece.get(..read).filter(|piece| !piece.is_empty());
        // The file was cut off meanwhile.
        let Some(piece) = piece else { break };
        sum.add(piece);
        did_bytes(read);
        target.write_all_at(piece, at)?;
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use format::checksum::crc32c;

    use super::*;

    /// Copies a file with and without a checksum. Both copies must be equal to it.
    fn copied(from: &Path, bytes: &[u8]) {
        let to = from.with_file_name("from.copy");
        for is_summed in [false, true] {
            let dir = from.parent().expect("a directory");
            let [name, new] = ["from", "from.copy"].map(Path::new);
            let sum = copy_file((dir, name), (dir, new), is_summed, &AtomicBool::new(false)).expect("copied");
            assert!(fs::read(&to).expect("read") == bytes, "{}", bytes.len());
            assert_eq!(sum, is_summed.then(|| crc32c(bytes)), "{}", bytes.len());
            assert_eq!(sum_file(&to, &AtomicBool::new(false)).expect("read"), crc32c(bytes), "{}", bytes.len());
            // On a file system without holes neither of the files is sparse.
            let blocks = |path: &Path| fs::metadata(path).expect("a file").blocks();
            assert!(blocks(&to) <= blocks(from), "{}: {} blocks, {} before", bytes.len(), blocks(&to), blocks(from));
            fs::remove_file(&to).expect("removed");
        }
    }

    #[test]
    fn a_sparse_file_is_copied_with_its_holes() {
        let dir = tempfile::tempdir().expect("a directory");
        let from = dir.path().join("from");
        let mut bytes = vec![0; 10 << 20];
        for (start, byte) in [(0, 1), (3 << 20, 2), ((5 << 20) + 8192, 3)] {
            bytes[start..start + 8192].fill(byte);
        }
        for len in [bytes.len(), (5 << 20) + 8192 + 5000, 3 << 20] {
            let file = File::create(&from).expect("made");
            file.set_len(len as u64).expect("sized");
            for start in [0, 3 << 20, (5 << 20) + 8192].into_iter().filter(|start| *start < len) {
                file.write_all_at(&bytes[start..(start + 8192).min(len)], start as u64).expect("written");
            }
            copied(&from, &bytes[..len]);
        }
    }

    #[test]
    fn a_file_of_any_size_is_copied_to_its_last_byte() {
        let dir = tempfile::tempdir().expect("a directory");
        let from = dir.path().join("from");
        for len in [0, 1, 70_000, (3_u32 << 20) + 77] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            fs::write(&from, &bytes).expect("written");
            copied(&from, &bytes);
        }
    }

    #[test]
    fn copying_and_summing_up_a_large_file_can_be_stopped() {
        let dir = tempfile::tempdir().expect("a directory");
        let from = dir.path().join("from");
        fs::write(&from, vec![1; 3 << 20]).expect("written");
        let stop = AtomicBool::new(true);
        let [name, new] = ["from", "to"].map(Path::new);
        let stopped = copy_file((dir.path(), name), (dir.path(), new), false, &stop);
        assert!(stopped.is_err_and(|error| error.to_string().contains("was stopped")));
        assert!(sum_file(&from, &stop).is_err_and(|error| error.to_string().contains("was stopped")));
    }
}
