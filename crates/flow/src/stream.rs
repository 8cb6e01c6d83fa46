//! A pipe, or anything else that can only be read in order.

use std::io::{self, ErrorKind, Read};

use crate::counters::{WorkerCounters, add};
use crate::{BLOCK_ALIGN, Buffer, FileId, Piece};

/// Hands over a stream as pieces of a file: `FileId(0)`, offsets ascending from 0, one block of unknown length.
///
/// Every piece but the last has the full size. Because the length is not known in advance, `asked` is the number of bytes received, and
/// `last` is set on the piece after which the stream ended. An empty stream has no pieces. Memory is two pieces.
#[derive(Debug)]
pub struct StreamReader<'c, R> {
    stream: R,
    counters: &'c WorkerCounters,
    offset: u64,
    piece_size: u32,
    current: Buffer,
    ahead: Buffer,
    ahead_len: u32,
    started: bool,
    ended: bool,
    error: Option<io::Error>,
}

impl<'c, R: Read> StreamReader<'c, R> {
    /// Pieces of `piece_size` bytes, rounded up to a multiple of [`BLOCK_ALIGN`].
    ///
    /// # Errors
    /// `OutOfMemory` if the system does not provide the memory for two pieces.
    pub fn new(stream: R, piece_size: u32, counters: &'c WorkerCounters) -> io::Result<Self> {
        let piece_size = piece_size.clamp(1, 1 << 30).next_multiple_of(BLOCK_ALIGN);
        let (current, ahead) = (Buffer::alone(piece_size)?, Buffer::alone(piece_size)?);
        Ok(Self {
            stream,
            counters,
            offset: 0,
            piece_size,
            current,
            ahead,
            ahead_len: 0,
            started: false,
            ended: false,
            error: None,
        })
    }

    /// The next piece.
    ///
    /// # Errors
    /// The stream failed; all bytes before that were handed over, and the stream counts as ended.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the reader, which Iterator cannot say")]
    pub fn next(&mut self) -> Option<io::Result<Piece<'_>>> {
        if !self.started {
            self.started = true;
            self.fill_ahead();
        }
        if self.ahead_len == 0 {
            return self.error.take().map(Err);
        }
        let (offset, len) = (self.offset, self.ahead_len);
        std::mem::swap(&mut self.current, &mut self.ahead);
        self.offset += u64::from(len);
        self.ahead_len = 0;
        self.fill_ahead();
        add(&self.counters.bytes_read, u64::from(len));
        let last = self.ahead_len == 0 && self.error.is_none();
        Some(Ok(Piece { file: FileId(0), offset, bytes: self.current.first(len), asked: len, gaps: &[], last }))
    }

    /// Reads until the piece is full or the stream ends.
    fn fill_ahead(&mut self) {
        while !self.ended && self.ahead_len < self.piece_size {
            add(&self.counters.requests, 1);
            match self.stream.read(self.ahead.range_mut(self.ahead_len..self.piece_size)) {
                Ok(0) => self.ended = true,
                Ok(got) => self.ahead_len += u32::try_from(got).unwrap_or(u32::MAX),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.error = Some(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives `left` bytes in reads of a prime number, then ends or fails.
    struct Drip {
        left: usize,
        fails: bool,
    }

    impl Read for Drip {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 && self.fails {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let len = self.left.min(bytes.len()).min(9973);
            bytes[..len].fill(7);
            self.left -= len;
            Ok(len)
        }
    }

    /// The pieces as (offset, length, last), and whether an error came after them.
    fn pieces(left: usize, fails: bool) -> (Vec<(u64, usize, bool)>, bool) {
        let counters = WorkerCounters::default();
        let mut reader = StreamReader::new(Drip { left, fails }, 65536, &counters).expect("memory");
        let (mut pieces, mut failed) = (Vec::new(), false);
        while let Some(piece) = reader.next() {
            match piece {
                Ok(piece) => {
                    assert!(piece.bytes.iter().all(|&byte| byte == 7));
                    pieces.push((piece.offset, piece.bytes.len(), piece.last));
                }
                Err(_) => failed = true,
            }
        }
        assert_eq!(counters.counts().bytes_read, left as u64);
        (pieces, failed)
    }

    #[test]
    fn a_stream_comes_in_full_pieces_and_the_last_one_says_so() {
        assert_eq!(pieces(0, false), (vec![], false));
        assert_eq!(pieces(1, false), (vec![(0, 1, true)], false));
        assert_eq!(pieces(65536, false), (vec![(0, 65536, true)], false));
        assert_eq!(pieces(131_073, false), (vec![(0, 65536, false), (65536, 65536, false), (131_072, 1, true)], false));
    }

    #[test]
    fn a_stream_that_fails_first_hands_over_what_came() {
        assert_eq!(pieces(65546, true), (vec![(0, 65536, false), (65536, 10, false)], true));
        assert_eq!(pieces(0, true), (vec![], true));
    }
}
