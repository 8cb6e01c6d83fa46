//! Verifies the redo log of MariaDB 10.5 and later.
//!
//! 10.5 to 10.7 write blocks: see [`verify_blocks`](super::verify_blocks). Since 10.8 the log is a stream of mini-transactions, each with a
//! CRC-32C, and nothing records its end: a mini-transaction that does not parse is the end. The checksum covers the stored bytes, so
//! encrypted logs are verified without a key.
//!
//! What follows tells damage from the end. Bytes after the end are from the previous lap, whose mini-transactions have another end marker.
//! So if two consecutive mini-transactions with the right markers and checksums follow a place that does not parse, the log went on and
//! that place is damaged. Bytes up to the next multiple of 4096 in the file are not trusted: the server pads its last write with old buffer
//! content. Within them, damage looks the same as an incomplete write: [`StreamEnd::Torn`]. And the log cannot end before the end LSN that
//! the checkpoint names.

use crate::RedoError;
use crate::block::LOG_BLOCK_SIZE;
use crate::mariadb::{Checkpoint, Format, Kept, LogFile};
use crate::mtr::{self, MTR_SIZE_MAX, Marker, Parsed};
use crate::mtr_search::{self, Search};
use crate::verify_blocks::{BlockScheme, BlockVerifier};
use format::bytes::be;
use format::pieces::{clamp, gather, take};
use format::types::Lsn;

const NONCE_SIZE: usize = 8;
/// The largest unit in which a server writes the log, and the alignment of those writes in the file.
const WRITE_SIZE_MAX: u64 = 4096;
/// How far to search for the log's continuation after a place that does not parse. A damaged mini-transaction is at most [`MTR_SIZE_MAX`]
/// long, so a single one is covered, together with the two that prove it unless both are huge.
const SEARCH_SIZE: usize = 2 * MTR_SIZE_MAX;
/// How much of that to search first, and the factor by which it grows while nothing is found.
const SEARCH_SIZE_FIRST: usize = 16 << 10;
const SEARCH_GROWTH: usize = 16;
/// High half of the first byte of a FILE_CHECKPOINT record, and its body: space and page 0, LSN.
const FILE_CHECKPOINT: u8 = 0xF0;
const FILE_CHECKPOINT_BODY_SIZE: usize = 10;

/// A range of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins, bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// How to verify a log.
#[derive(Debug)]
pub struct MariaDbVerifyPlan {
    /// What to read, in the order in which to feed the verifier: from the checkpoint once around the file.
    pub segments: Vec<Segment>,
    /// Consumes the bytes of the segments.
    pub verifier: Verifier,
}

/// The verifier of the log's format.
#[derive(Debug)]
pub enum Verifier {
    /// 10.5 to 10.7.
    Blocks(BlockVerifier),
    /// 10.8 and later.
    Stream(StreamVerifier),
}

/// Plans the verification of a log.
///
/// # Errors
/// [`RedoError::NoCheckpoint`] if the file has no room for a log.
pub fn plan(file: &LogFile) -> Result<MariaDbVerifyPlan, RedoError> {
    let lsn = file.checkpoint.lsn;
    let offset = file.offset_of(lsn).ok_or(RedoError::NoCheckpoint)?;
    let start = file.payload_start();
    let (from, verifier) = match file.format {
        Format::Blocks { encrypted } => {
            let scheme = if encrypted { BlockScheme::MariaDbEncrypted } else { BlockScheme::MariaDb };
            let in_block = lsn.0 % LOG_BLOCK_SIZE as u64;
            let first = Lsn(lsn.0 - in_block);
            let verifier = BlockVerifier::new(scheme, first, lsn);
            (offset.saturating_sub(in_block).max(start), Verifier::Blocks(verifier))
        }
        Format::Stream { .. } => (offset, Verifier::Stream(StreamVerifier::new(file))),
    };
    let segments = vec![
        Segment { offset: from, len: file.size.saturating_sub(from) },
        Segment { offset: start, len: from - start },
    ];
    Ok(MariaDbVerifyPlan { segments, verifier })
}

/// Bytes of the log that do not parse although the log continues after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamDamage {
    /// Start of the first mini-transaction that does not parse.
    pub from: Lsn,
    /// Start of the next one that does.
    pub to: Lsn,
}

/// How the log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// With the end marker that the server writes after its last mini-transaction.
    Marked,
    /// In bytes that are neither a mini-transaction nor an end marker: an incomplete write, or damage.
    Torn,
    /// With the file: the log fills all of it.
    Full,
}

/// The result for a whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSummary {
    /// Mini-transactions with the right checksum.
    pub mtrs: u64,
    /// Their bytes, including end markers and checksums.
    pub bytes: u64,
    /// Number of damaged stretches.
    pub damaged: u64,
    /// Where the log ends.
    pub end: Lsn,
    /// How it ends there.
    pub ends: StreamEnd,
    /// Whether the record that names the checkpoint was found after the checkpoint's end LSN. Without it no server starts. If records are
    /// encrypted, any record of its kind and length counts.
    pub names_checkpoint: bool,
}

impl StreamSummary {
    /// Whether the log is damaged.
    #[must_use]
    pub const fn is_damaged(&self) -> bool {
        self.damaged > 0 || !self.names_checkpoint
    }
}

/// Verifies a log of 10.8 or later, fed from its checkpoint on, in pieces of any size. Memory: 2 MiB, plus 8 MiB while searching for the
/// end.
#[derive(Debug)]
pub struct StreamVerifier {
    first_lsn: Lsn,
    capacity: u64,
    nonce: usize,
    checkpoint: Checkpoint,
    kept: Option<Kept>,
    state: MtrState,
    /// The log from `at` on, as far as it was needed.
    bytes: Vec<u8>,
    /// How much of `bytes` is before `at`.
    done: usize,
    /// Start of the next mini-transaction.
    at: Lsn,
    /// No more bytes will come.
    ended: bool,
    summary: StreamSummary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MtrState {
    Walk,
    /// The bytes at `at` do not parse: does the log continue after them?
    Search,
    /// The log is damaged from there to the checkpoint's end LSN, which is a boundary.
    Skip(Lsn),
    Done,
}

impl StreamVerifier {
    /// A verifier that starts at the log's checkpoint.
    #[must_use]
    pub fn new(file: &LogFile) -> Self {
        Self::at(file, file.checkpoint.lsn)
    }

    /// A verifier that starts at any place where a mini-transaction starts or the log ends. Fed from there on, it tells whether that is the
    /// end.
    #[must_use]
    pub fn at(file: &LogFile, at: Lsn) -> Self {
        let encrypted = !matches!(file.format, Format::Stream { encrypted: None });
        let summary =
            StreamSummary { mtrs: 0, bytes: 0, damaged: 0, end: at, ends: StreamEnd::Full, names_checkpoint: false };
        Self {
            first_lsn: file.first_lsn,
            capacity: file.size.saturating_sub(file.payload_start()),
            nonce: if encrypted { NONCE_SIZE } else { 0 },
            checkpoint: file.checkpoint,
            kept: file.kept_as(),
            state: MtrState::Walk,
            bytes: Vec::new(),
            done: 0,
            at,
            ended: false,
            summary,
        }
    }

    /// The next certain damage; consumes what it needs from the front of `input`. `None` if `input` is used up.
    pub fn next_damage(&mut self, input: &mut &[u8]) -> Option<StreamDamage> {
        loop {
            self.drop_done();
            // Enough for every decision: the longest mini-transaction, and the search.
            gather(&mut self.bytes, input, SEARCH_SIZE);
            if let Some(damage) = self.advance() {
                return Some(damage);
            }
            if let MtrState::Skip(from) = self.state
                && let Some(damage) = self.skip(input, from)
            {
                return Some(damage);
            }
            if self.state == MtrState::Done {
                *input = &[];
            }
            if input.is_empty() {
                return None;
            }
        }
    }

    /// Whether the end was found, so that no more bytes are needed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == MtrState::Done
    }

    /// To be called when the whole log was fed: returns the remaining damage, and the summary.
    #[must_use]
    pub fn finish(mut self) -> (Vec<StreamDamage>, StreamSummary) {
        self.ended = true;
        let mut left = Vec::new();
        while self.state != MtrState::Done {
            left.extend(self.advance());
            if let MtrState::Skip(from) = self.state {
                left.extend(self.skip(&mut &[][..], from));
            }
        }
        let end_lsn = self.checkpoint.end_lsn;
        if self.summary.end < end_lsn {
            self.summary.damaged += 1;
            left.push(StreamDamage { from: self.summary.end, to: end_lsn });
        }
        (left, self.summary)
    }

    /// Walks as far as the bytes allow, until there is damage to report.
    fn advance(&mut self) -> Option<StreamDamage> {
        loop {
            match self.state {
                MtrState::Walk => {
                    if !self.walk() {
                        return None;
                    }
                }
                MtrState::Search => {
                    let rest = self.bytes.len().saturating_sub(self.done);
                    if rest < SEARCH_SIZE && !self.ended {
                        return None;
                    }
                    return self.search();
                }
                MtrState::Skip(_) | MtrState::Done => return None,
            }
        }
    }

    /// Consumes one mini-transaction. `false` if more bytes are needed.
    fn walk(&mut self) -> bool {
        let rest = self.bytes.get(self.done..).unwrap_or_default();
        let marker = |offset| self.kept.map_or_else(|| self.of_lap(self.at, offset), |_| Marker::Either);
        match mtr::parse(rest, self.nonce, marker) {
            Parsed::Mtr(records, len) => {
                let names_it = self.at >= self.checkpoint.end_lsn && self.names_checkpoint(records);
                self.done += len;
                self.at = after(self.at, len);
                self.summary.mtrs += 1;
                self.summary.bytes = self.summary.bytes.saturating_add(len as u64);
                self.summary.end = self.at;
                self.summary.names_checkpoint |= names_it;
            }
            Parsed::MoreBytes if !self.ended => return false,
            Parsed::MoreBytes if rest.is_empty() => self.state = MtrState::Done,
            Parsed::MoreBytes | Parsed::End => self.state = MtrState::Search,
        }
        true
    }

    /// The bytes at `at` do not parse: searches all the bytes read for the log's continuation.
    fn search(&mut self) -> Option<StreamDamage> {
        let is_before_end = self.at < self.checkpoint.end_lsn;
        let rest = self.bytes.get(self.done..).unwrap_or_default();
        let from = if is_before_end { 1 } else { self.to_write_end(self.at) };
        let Some(resumed) = self.resumption(rest, from) else {
            self.ends_here(is_before_end);
            return None;
        };
        let damage = StreamDamage { from: self.at, to: after(self.at, resumed) };
        self.done += resumed;
        self.at = damage.to;
        self.state = MtrState::Walk;
        self.summary.damaged += 1;
        Some(damage)
    }

    /// Where the log continues in `rest`. Two mini-transactions from `from` on prove it, or the log's last one. Everything that leads to
    /// the proof belongs to the log too. The proof is usually near, so a small part is searched first.
    ///
    /// In a log that is kept as an archive, markers mean nothing but this: if it was a ring once, what is left of the lap before has the other
    /// marker, so only one proves a continuation.
    fn resumption(&self, rest: &[u8], from: usize) -> Option<usize> {
        let is_before_end = self.at < self.checkpoint.end_lsn;
        let mut len = from.saturating_add(SEARCH_SIZE_FIRST);
        loop {
            let front = rest.get(..len).unwrap_or(rest);
            let is_all = front.len() == rest.len();
            let marker = |offset| match self.kept {
                Some(_) if is_before_end => Marker::Either,
                Some(kept) => Marker::Of(kept.own_marker),
                None => self.of_lap(self.at, offset),
            };
            match mtr_search::resumption(front, from, self.nonce, is_all, marker) {
                Search::Found(found) => return Some(found.resumed),
                Search::Nowhere | Search::MoreBytes if is_all => return None,
                Search::Nowhere | Search::MoreBytes => len = len.saturating_mul(SEARCH_GROWTH),
            }
        }
    }

    fn ends_here(&mut self, is_before_end: bool) {
        if is_before_end {
            self.state = MtrState::Skip(self.at);
            return;
        }
        let marked = self.bytes.get(self.done).is_none_or(|&first| first <= 1);
        self.summary.ends = if marked { StreamEnd::Marked } else { StreamEnd::Torn };
        self.state = MtrState::Done;
    }

    /// Drops bytes up to the checkpoint's end LSN. Returns the damage from `from` on, once there.
    fn skip(&mut self, input: &mut &[u8], from: Lsn) -> Option<StreamDamage> {
        let to = self.checkpoint.end_lsn;
        let left = to.0.saturating_sub(self.at.0);
        let at_hand = self.bytes.len().saturating_sub(self.done).min(clamp(left));
        self.done += at_hand;
        let dropped = take(input, clamp(left.saturating_sub(at_hand as u64))).len();
        self.at = after(self.at, at_hand + dropped);
        if self.at < to {
            self.state = if self.ended { MtrState::Done } else { MtrState::Skip(from) };
            return None;
        }
        self.state = MtrState::Walk;
        self.summary.end = to;
        self.summary.damaged += 1;
        Some(StreamDamage { from, to })
    }

    fn names_checkpoint(&self, records: &[u8]) -> bool {
        mtr::records(records).any(|(first, body)| {
            first & 0xF0 == FILE_CHECKPOINT
                && body.len() == FILE_CHECKPOINT_BODY_SIZE
                && (self.nonce > 0 || be::u64_at(body, 2) == Some(self.checkpoint.lsn.0))
        })
    }

    /// Bytes from `lsn` to the end of the write that contains it.
    fn to_write_end(&self, lsn: Lsn) -> usize {
        let in_file = lsn.0.saturating_sub(self.first_lsn.0).checked_rem(self.capacity).unwrap_or(0);
        clamp(WRITE_SIZE_MAX - in_file % WRITE_SIZE_MAX)
    }

    /// The end marker of a mini-transaction that starts at `lsn` and has its marker `offset` bytes on: it changes with every lap.
    fn of_lap(&self, lsn: Lsn, offset: usize) -> Marker {
        let from_first = after(lsn, offset).0.saturating_sub(self.first_lsn.0);
        Marker::Of(u8::from(from_first.checked_div(self.capacity).unwrap_or(0).is_multiple_of(2)))
    }

    fn drop_done(&mut self) {
        self.bytes.drain(..self.done.min(self.bytes.len()));
        self.done = 0;
    }
}

/// The LSN `len` bytes after `lsn`.
fn after(lsn: Lsn, len: usize) -> Lsn {
    Lsn(lsn.0.saturating_add(len as u64))
}
