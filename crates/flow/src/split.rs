//! Reads as much of a block as the device can give: short reads are continued, failing reads are halved until one bad sector costs one unit
//! of 4096 bytes.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

/// The smallest stretch to give up on, in bytes: the largest logical sector in use, and the most that `O_DIRECT` may require of any device.
pub const SPLIT_UNIT: u32 = 4096;

/// How often an interrupted call is retried for one stretch before that counts as a failure.
const INTERRUPTED_MAX: u32 = 64;

/// The error inside an [`io::Error`] that is about the whole file, not about the bytes requested: the file was replaced, access was
/// withdrawn, or the way to it is closed. An engine returns it so that the same bytes are not requested again in smaller parts: the file's
/// other blocks fail too, with this error and without a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WholeFile(pub String);

/// Whether nothing else of the file can be read either.
pub(crate) fn is_of_whole_file(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<WholeFile>())
}

/// A stretch that the device could not read. Zeros are handed over in its place.
#[derive(Debug, Clone)]
pub struct Gap {
    /// Where it starts in the file, in bytes; a multiple of [`SPLIT_UNIT`].
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// The system's error.
    pub error: Arc<io::Error>,
}

/// The state of reading one stretch of a file: which ranges to request next, and what is known so far. It does no I/O itself, so that queue
/// reads and the worker's own reads share it.
#[derive(Debug)]
pub(crate) struct Splitter {
    offset: u64,
    aligned: bool,
    /// Ranges to read, the first one last.
    todo: Vec<Range<u32>>,
    valid: u32,
    interrupted: u32,
    gaps: Vec<Gap>,
}

impl Splitter {
    /// `want` bytes at `offset` of the file; `aligned`: every request must start and end at multiples of [`SPLIT_UNIT`].
    pub(crate) fn new(offset: u64, want: u32, aligned: bool) -> Self {
        let end = if aligned { want.next_multiple_of(SPLIT_UNIT) } else { want };
        Self { offset, aligned, todo: vec![Range { start: 0, end }], valid: 0, interrupted: 0, gaps: Vec::new() }
    }

    /// The next range to request, relative to the start of the stretch; `None` when everything is known.
    pub(crate) fn next(&mut self) -> Option<Range<u32>> {
        self.todo.pop()
    }

    /// Records the result for the range from [`Splitter::next`]: the number of bytes read, or the error.
    pub(crate) fn record(&mut self, range: Range<u32>, result: io::Result<u32>) {
        match result {
            Ok(got) if got >= range.len() as u32 => self.valid = range.end,
            Ok(got) => self.continue_after(range, got),
            Err(error) => self.failed(range, error),
        }
    }

    fn continue_after(&mut self, range: Range<u32>, got: u32) {
        let end = range.start + got;
        self.valid = self.valid.max(end);
        // A request must start aligned, so the bytes after the last boundary are requested again. If that brings nothing new, the file ends
        // here.
        let next = if self.aligned { end - end % SPLIT_UNIT } else { end };
        if next > range.start {
            self.todo.push(next..range.end);
        } else {
            self.todo.clear();
        }
    }

    fn failed(&mut self, range: Range<u32>, error: io::Error) {
        let again = matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN));
        if again && self.interrupted < INTERRUPTED_MAX {
            self.interrupted += 1;
            self.todo.push(range);
            return;
        }
        self.interrupted = 0;
        let len = range.len() as u32;
        if len > SPLIT_UNIT {
            let half = range.start + (len / 2).next_multiple_of(SPLIT_UNIT);
            self.todo.push(half..range.end);
            self.todo.push(range.start..half);
            return;
        }
        self.valid = range.end;
        self.lose(range, error);
    }

    /// Records a lost unit; neighbours lost for the same reason become one gap.
    fn lose(&mut self, range: Range<u32>, error: io::Error) {
        let offset = self.offset + u64::from(range.start);
        let len = range.len() as u32;
        if let Some(last) = self.gaps.last_mut()
            && last.offset + u64::from(last.len) == offset
            && last.error.raw_os_error() == error.raw_os_error()
            && last.error.kind() == error.kind()
        {
            last.len += len;
        } else {
            self.gaps.push(Gap { offset, len, error: Arc::new(error) });
        }
    }

    /// How many bytes from the start are known, including gaps, and the gaps.
    pub(crate) fn finish(self) -> (u32, Vec<Gap>) {
        (self.valid, self.gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of `size` bytes whose `bad` units fail; returns known bytes, gaps as (offset, len), and requests.
    fn read(want: u32, size: u32, bad: &[u32], aligned: bool, chunk: u32) -> (u32, Vec<(u64, u32)>, u32) {
        let mut splitter = Splitter::new(1 << 20, want, aligned);
        let mut requests = 0;
        while let Some(range) = splitter.next() {
            requests += 1;
            let fails = bad.iter().any(|unit| range.start < (unit + 1) * 4096 && unit * 4096 < range.end);
            let available = size.saturating_sub(range.start).min(range.len() as u32).min(chunk);
            let result = if fails { Err(Errno::IO.into()) } else { Ok(available) };
            splitter.record(range, result);
        }
        let (valid, gaps) = splitter.finish();
        (valid, gaps.iter().map(|gap| (gap.offset - (1 << 20), gap.len)).collect(), requests)
    }

    #[test]
    fn one_bad_unit_costs_one_gap_of_one_unit() {
        for bad in [0, 1, 100, 255] {
            let (valid, gaps, requests) = read(1 << 20, 1 << 20, &[bad], true, u32::MAX);
            assert_eq!((valid, gaps), (1 << 20, vec![(u64::from(bad) * 4096, 4096)]));
            assert_eq!(requests, 1 + 2 * 8, "one failing and one good half for each of eight levels");
        }
    }

    #[test]
    fn neighbouring_bad_units_are_one_gap_and_others_are_not() {
        let (_, gaps, _) = read(1 << 20, 1 << 20, &[7, 8, 10], true, u32::MAX);
        assert_eq!(gaps, [(7 * 4096, 8192), (10 * 4096, 4096)]);
    }

    #[test]
    fn short_reads_are_continued() {
        assert_eq!(read(70_000, 70_000, &[], false, 1000), (70_000, vec![], 70));
        assert_eq!(read(65536, 65536, &[], true, 4096), (65536, vec![], 16));
    }

    #[test]
    fn a_file_that_ends_early_is_short() {
        assert_eq!(read(65536, 5000, &[], false, u32::MAX), (5000, vec![], 2));
        assert_eq!(read(65536, 5000, &[], true, u32::MAX), (5000, vec![], 2));
        assert_eq!(read(65536, 0, &[], true, u32::MAX), (0, vec![], 1));
    }

    #[test]
    fn odd_tails_split_too() {
        let (valid, gaps, _) = read(10_000, 10_000, &[2], false, u32::MAX);
        assert_eq!((valid, gaps), (10_000, vec![(8192, 1808)]));
    }

    #[test]
    fn interruptions_are_tried_again_but_not_for_ever() {
        let mut splitter = Splitter::new(0, 4096, false);
        let mut requests = 0;
        while let Some(range) = splitter.next() {
            requests += 1;
            splitter.record(range, Err(Errno::INTR.into()));
        }
        assert_eq!(requests, 1 + INTERRUPTED_MAX);
        assert_eq!(splitter.finish().1.len(), 1);
    }
}
