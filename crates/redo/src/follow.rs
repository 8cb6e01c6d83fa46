//! Follows a log of MariaDB 10.8 and later while its server writes it: which bytes may be taken, and their form in a segment.
//!
//! At the live end of the log, a mini-transaction with the right checksum and the right end marker proves nothing. The server writes its
//! last, partial block from a buffer whose rest is stale, and keeps appending to that buffer during the write. So a block on disk may hold
//! sound mini-transactions and, behind them, up to its end, stale ones from an earlier use of the buffer that pass every test. A later
//! write repairs the block. Therefore nothing beyond a fence is taken: the LSN that the server says it has flushed or, from the file alone,
//! the start of the block in which the walk ended ([`Walk::held_back`]).
//!
//! Source: live experiments with MariaDB 10.11; MDEV-39468.

use crate::mariadb::{Format, LogFile};
use crate::mtr_reader::MtrReader;
use format::types::Lsn;

/// The largest block in which a server writes its log, bytes.
pub const WRITE_BLOCK_MAX: u64 = 4096;

/// The mini-transactions in a stretch of log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// Offset of each end marker from the first byte, and of the byte after its mini-transaction.
    ends: Vec<(usize, usize)>,
    from: Lsn,
    /// More bytes could continue the last mini-transaction.
    is_cut: bool,
}

impl Walk {
    /// Walks the `bytes` of `file` from LSN `from` on, where a mini-transaction starts.
    #[must_use]
    pub fn over(file: &LogFile, from: Lsn, bytes: &[u8]) -> Self {
        if !matches!(file.format, Format::Stream { .. }) {
            return Self { from, ..Self::default() };
        }
        let mut reader = MtrReader::new(file, None, from);
        let mut ends = Vec::new();
        let mut input = bytes;
        while let Some(mtr) = reader.next_mtr(&mut input) {
            let offset = |lsn: Lsn| usize::try_from(lsn.0 - from.0).unwrap_or(usize::MAX);
            ends.push((offset(mtr.start).saturating_add(mtr.bytes.len()), offset(mtr.end)));
        }
        Self { ends, from, is_cut: !reader.has_ended() }
    }

    /// Where the walk ended.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.lsn(self.ends.last().map_or(0, |(_, end)| *end))
    }

    /// Whether the walk ended only because the bytes did.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// How many bytes and mini-transactions of the walk end at or before `fence`.
    #[must_use]
    pub fn up_to(&self, fence: Lsn) -> (usize, u64) {
        let taken = self.ends.partition_point(|(_, end)| self.lsn(*end) <= fence);
        let len = taken.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |(_, end)| *end);
        (len, taken as u64)
    }

    /// Like [`up_to`](Self::up_to), but at most `max` bytes.
    #[must_use]
    pub fn up_to_within(&self, fence: Lsn, max: usize) -> (usize, u64) {
        self.up_to(fence.min(self.lsn(max)))
    }

    /// The fence from the file alone. A chain of stale mini-transactions breaks within the block in which it began, at its end at the
    /// latest. So nothing in the block of the last byte walked is taken.
    #[must_use]
    pub fn held_back(&self, file: &LogFile) -> Lsn {
        let end = self.end();
        let last = Lsn(end.0.saturating_sub(1)).max(self.from);
        let in_block = file.offset_of(last).map_or(0, |offset| offset % WRITE_BLOCK_MAX);
        Lsn(last.0.saturating_sub(in_block))
    }

    /// Gives the end markers in the first `len` bytes the value they have in a segment.
    pub fn straighten(&self, bytes: &mut [u8], len: usize) {
        for (marker, _) in self.ends.iter().take_while(|(_, end)| *end <= len) {
            bytes.get_mut(*marker).into_iter().for_each(|marker| *marker = 1);
        }
    }

    /// Like [`straighten`](Self::straighten), for bytes that start at LSN `lsn`, anywhere in the walk.
    pub fn straighten_from(&self, lsn: u64, bytes: &mut [u8]) {
        let first = usize::try_from(lsn.saturating_sub(self.from.0)).unwrap_or(usize::MAX);
        let start = self.ends.partition_point(|(marker, _)| *marker < first);
        for (marker, _) in self.ends.get(start..).unwrap_or_default() {
            let Some(byte) = bytes.get_mut(marker - first) else { return };
            *byte = 1;
        }
    }

    fn lsn(&self, offset: usize) -> Lsn {
        Lsn(self.from.0.saturating_add(offset as u64))
    }
}
