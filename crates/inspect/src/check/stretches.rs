//! The files of a redo log as one, in the order in which the log runs through them.

use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use datadir::files::File;

/// A stretch of one of the files.
#[derive(Clone, Copy)]
pub(super) struct LogRange {
    pub file: usize,
    pub offset: u64,
    pub len: u64,
}

/// The stretches, readable as one file.
pub(super) struct Stretches<'f> {
    pub handles: &'f [&'f File],
    pub stretches: &'f [LogRange],
    pub now: usize,
    pub done: u64,
}

impl Read for Stretches<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(stretch) = self.stretches.get(self.now) {
            let left = usize::try_from(stretch.len - self.done).unwrap_or(usize::MAX).min(into.len());
            let into = into.get_mut(..left).unwrap_or_default();
            let file = self.handles.get(stretch.file).ok_or(io::ErrorKind::NotFound)?;
            let got = if left == 0 { 0 } else { file.read_at(into, stretch.offset + self.done)? };
            if got > 0 {
                self.done += got as u64;
                return Ok(got);
            }
            (self.now, self.done) = (self.now + 1, 0);
        }
        Ok(0)
    }
}
