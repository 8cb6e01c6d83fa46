//! Reads a file from front to back, many requests ahead of whoever takes its bytes.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use flow::{Counters, Cursor, FileSet, ReadOptions, Reader};

/// Takes the bytes of a file at an offset.
type Take<'t, E> = dyn FnMut(u64, &[u8]) -> Result<(), E> + 't;

/// Passes the first `len` bytes of a file to `take` in order, with their offset, or as many as there are. `failed` makes the error of a
/// read that failed.
pub fn each_piece<E>(
    (file, path): (&File, &Path),
    len: u64,
    take: &mut Take<'_, E>,
    failed: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let files = FileSet::of_open(file.try_clone().map_err(&failed)?, path.to_path_buf(), len);
    let options = ReadOptions::default();
    let (cursor, counters) = (Cursor::sweep(&files, options.block_size), Counters::new(1));
    let reader = Reader::new(&files, &cursor, &options, counters.worker(0));
    let mut reader = reader.map_err(|error| failed(io::Error::other(error)))?;
    while let Some(piece) = reader.next() {
        let piece = piece.map_err(|failure| failed(io::Error::other(failure.error)))?;
        if let Some(gap) = piece.gaps.first() {
            return Err(failed(io::Error::other(Arc::clone(&gap.error))));
        }
        take(piece.offset, piece.bytes)?;
        // The file ends here: it was cut off after it was measured.
        if piece.bytes.len() < piece.asked as usize {
            break;
        }
    }
    Ok(())
}
