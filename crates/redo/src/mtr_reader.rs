//! Reads and decrypts the mini-transactions in MariaDB's redo log.
//!
//! ```text
//! MtrReader::place(file, lsn) -> where to read
//! bytes from there on, in pieces of any size, once around the ring -> MtrReader::next_mtr -> Mtr -> records
//! ```
//!
//! The reader stops before the first incomplete mini-transaction, like a server, and does not ask why: the
//! [verifier](super::verify_mariadb) distinguishes the end of the log from damage.

use std::ops::Range;

use crate::block::{
    BLOCK_TRAILER, BLOCK_TRAILER_ENCRYPTED, FLUSH_BIT, LOG_BLOCK_CHECKSUM, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_NO,
    LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_number, block_start, offset_in_block,
};
use crate::log_key::LogKey;
use crate::mariadb::{Format, LogFile, StreamEncryption};
use crate::mtr::{self, MTR_SIZE_MAX, Marker, Parsed};
use crate::record::{Grammar, Mtr, frame};
use format::bytes::be;
use format::checksum::crc32c;
use format::pieces::{gather, take};
use format::types::Lsn;

/// Bytes of blocks consumed at a time.
const FILL_SIZE: usize = MTR_SIZE_MAX;
/// The least number of bytes consumed at once for a mini-transaction that started in the previous piece.
const CARRY_MIN: usize = 4 << 10;
/// Bytes between the end marker and the checksum of an encrypted mini-transaction.
const NONCE_SIZE: usize = 8;

/// Reads the mini-transactions of a log, fed in log order. Those of 10.8 and later are returned in place, without a copy, unless they are
/// encrypted or started in the previous piece. Memory: that of the longest mini-transaction, 3 MiB.
#[derive(Debug)]
pub struct MtrReader {
    framing: Framing,
    opener: Opener,
    /// With blocks, their payload from `at` on, and some before; without, the bytes carried over from one piece to the next.
    payload: Vec<u8>,
    /// How much of `payload` is before `at`.
    done: usize,
    /// LSN of the next mini-transaction.
    at: Lsn,
    /// No more payload will come.
    ended: bool,
    /// See [`MtrReader::is_garbled`].
    is_garbled: bool,
}

/// Decrypts mini-transactions.
#[derive(Debug)]
struct Opener {
    key: Option<LogKey>,
    /// The last mini-transaction, decrypted.
    plain: Vec<u8>,
}

#[derive(Debug)]
enum Framing {
    /// 10.8 and later.
    Stream(Stream),
    /// 10.5 to 10.7.
    Blocks {
        /// LSN of the next block.
        next: Lsn,
        /// The part of it received so far.
        block: Vec<u8>,
        /// Bytes after the payload of a block.
        trailer: usize,
        /// Bytes of the next block before the reader's start.
        skip: usize,
    },
}

/// The framing of 10.8 and later.
#[derive(Debug, Clone, Copy)]
struct Stream {
    first_lsn: Lsn,
    /// Bytes per lap.
    capacity: u64,
    encryption: Option<StreamEncryption>,
    /// See [`LogFile::is_kept`].
    is_kept: bool,
}

impl Stream {
    /// Parses the mini-transaction at `lsn`, where `bytes` start.
    fn parse(self, bytes: &[u8], lsn: Lsn) -> Parsed<'_> {
        let nonce = if self.encryption.is_some() { NONCE_SIZE } else { 0 };
        let of_lap = |offset| Marker::Of(sequence_bit(self.first_lsn, self.capacity, lsn, offset));
        mtr::parse(bytes, nonce, |offset| if self.is_kept { Marker::Either } else { of_lap(offset) })
    }
}

impl Opener {
    /// The records of a mini-transaction: the first `len` bytes of `whole`, decrypted if they are encrypted and there is a key.
    fn records<'a>(&'a mut self, stream: Stream, whole: &'a [u8], len: usize) -> &'a [u8] {
        let records = whole.get(..len).unwrap_or_default();
        let (Some(scheme), Some(key)) = (stream.encryption, &self.key) else { return records };
        let nonce = be::u64_at(whole, len + 1).unwrap_or(0);
        key.open_mtr(records, nonce.to_be_bytes(), scheme, &mut self.plain);
        &self.plain
    }
}

/// A mini-transaction in the payload of blocks.
struct Frame {
    records: Range<usize>,
    /// Its end in the payload.
    end: usize,
}

enum FrameStep {
    Mtr(Frame),
    End,
    MoreBytes,
}

impl MtrReader {
    /// A reader that starts at `from`, which must be the start of a mini-transaction: the log's checkpoint, or the end LSN that it names.
    /// An encrypted log is read with its `key`; without it, mini-transactions are returned encrypted.
    #[must_use]
    pub fn new(file: &LogFile, key: Option<LogKey>, from: Lsn) -> Self {
        let capacity = file.size.saturating_sub(file.payload_start());
        let (framing, at) = match file.format {
            Format::Stream { encrypted: encryption } => {
                let (first_lsn, is_kept) = (file.first_lsn, file.is_kept());
                (Framing::Stream(Stream { first_lsn, capacity, encryption, is_kept }), from)
            }
            Format::Blocks { encrypted } => {
                let trailer = if encrypted { BLOCK_TRAILER_ENCRYPTED } else { BLOCK_TRAILER };
                let skip = offset_in_block(from).max(LOG_BLOCK_HDR_SIZE);
                let next = block_start(from);
                let at = Lsn(next.0.saturating_add(skip as u64));
                (Framing::Blocks { next, block: Vec::new(), trailer, skip }, at)
            }
        };
        let opener = Opener { key, plain: Vec::new() };
        Self { framing, opener, payload: Vec::new(), done: 0, at, ended: false, is_garbled: false }
    }

    /// File offset of the first byte needed by a reader that starts at `lsn`. At the end of the file, the log continues at
    /// [`LogFile::payload_start`].
    #[must_use]
    pub fn place(file: &LogFile, lsn: Lsn) -> Option<u64> {
        let offset = file.offset_of(lsn)?;
        match file.format {
            Format::Stream { .. } => Some(offset),
            Format::Blocks { .. } => offset.checked_sub(lsn.0 % LOG_BLOCK_SIZE as u64),
        }
    }

    /// The LSN of the next mini-transaction; once the log has [ended](Self::has_ended), its end.
    #[must_use]
    pub const fn at(&self) -> Lsn {
        self.at
    }

    /// Whether the log has ended. Nothing after its end is read.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the log ended in bytes that are not records although their blocks are sound. A log without blocks always ends like that.
    #[must_use]
    pub const fn is_garbled(&self) -> bool {
        self.is_garbled
    }

    /// The next mini-transaction; consumes what it needs from the front of `input`. `None` if `input` is used up, or the log has ended.
    pub fn next_mtr<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Option<Mtr<'a>> {
        match self.framing {
            Framing::Stream(_) if self.ended => None,
            Framing::Stream(stream) => self.next_of_stream(stream, input),
            Framing::Blocks { .. } => self.next_of_blocks(input),
        }
    }

    fn next_of_stream<'a, 'i: 'a>(&'a mut self, stream: Stream, input: &mut &'i [u8]) -> Option<Mtr<'a>> {
        if self.done > 0 {
            self.payload.clear();
            self.done = 0;
        }
        let start = self.at;
        let (whole, len) = if self.payload.is_empty() {
            match stream.parse(input, start) {
                Parsed::Mtr(records, len) => (take(input, len), records.len()),
                Parsed::End => {
                    self.ended = true;
                    return None;
                }
                Parsed::MoreBytes => {
                    self.payload.extend_from_slice(take(input, input.len()));
                    return None;
                }
            }
        } else {
            let len = self.carry_on(stream, input)?;
            (self.payload.get(..self.done).unwrap_or_default(), len)
        };
        self.at = Lsn(start.0.saturating_add(whole.len() as u64));
        Some(Mtr { start, end: self.at, bytes: self.opener.records(stream, whole, len), grammar: Grammar::MariaDb })
    }

    /// Consumes the rest of the mini-transaction carried over. Returns the length of its records.
    fn carry_on(&mut self, stream: Stream, input: &mut &[u8]) -> Option<usize> {
        let (whole, carried) = (*input, self.payload.len());
        loop {
            let more = take(input, self.payload.len().max(CARRY_MIN));
            if more.is_empty() {
                return None;
            }
            self.payload.extend_from_slice(more);
            match stream.parse(&self.payload, self.at) {
                Parsed::Mtr(records, len) => {
                    self.done = len;
                    // Return the bytes taken beyond it.
                    *input = whole.get(len.saturating_sub(carried)..).unwrap_or_default();
                    return Some(records.len());
                }
                Parsed::End => {
                    self.ended = true;
                    return None;
                }
                Parsed::MoreBytes => {}
            }
        }
    }

    fn next_of_blocks(&mut self, input: &mut &[u8]) -> Option<Mtr<'_>> {
        let frame = loop {
            match self.step() {
                FrameStep::Mtr(frame) => break frame,
                FrameStep::End => {
                    (self.ended, self.is_garbled) = (true, true);
                    return None;
                }
                FrameStep::MoreBytes if self.ended || input.is_empty() => return None,
                FrameStep::MoreBytes => self.fill(input),
            }
        };
        let start = self.at;
        self.at = self.after(frame.end - self.done);
        self.done = frame.end;
        Some(Mtr {
            start,
            end: self.at,
            bytes: self.payload.get(frame.records).unwrap_or_default(),
            grammar: Grammar::MariaDb,
        })
    }

    /// Consumes more blocks and drops what was read.
    fn fill(&mut self, input: &mut &[u8]) {
        self.payload.drain(..self.done.min(self.payload.len()));
        self.done = 0;
        let Framing::Blocks { next, block, trailer, skip } = &mut self.framing else { return };
        while self.payload.len() < FILL_SIZE && gather(block, input, LOG_BLOCK_SIZE) {
            let opened = open_block(block, *next, self.opener.key.as_ref());
            block.clear();
            let Some((opened, len)) = opened else {
                self.ended = true;
                return;
            };
            let end = len.min(LOG_BLOCK_SIZE - *trailer);
            self.payload.extend_from_slice(opened.get(*skip..end).unwrap_or_default());
            *skip = LOG_BLOCK_HDR_SIZE;
            *next = Lsn(next.0.saturating_add(LOG_BLOCK_SIZE as u64));
            if len < LOG_BLOCK_SIZE {
                self.ended = true;
                return;
            }
        }
    }

    /// Parses a mini-transaction in blocks at `done`.
    fn step(&self) -> FrameStep {
        match closed_by_zero(self.payload.get(self.done..).unwrap_or_default()) {
            Ok(Some(len)) => FrameStep::Mtr(Frame { records: self.done..self.done + len, end: self.done + len + 1 }),
            Ok(None) => FrameStep::MoreBytes,
            Err(()) => FrameStep::End,
        }
    }

    /// The LSN `len` bytes of payload after `at`.
    fn after(&self, len: usize) -> Lsn {
        let Framing::Blocks { trailer, .. } = self.framing else {
            return Lsn(self.at.0.saturating_add(len as u64));
        };
        let per_block = LOG_BLOCK_SIZE - LOG_BLOCK_HDR_SIZE - trailer;
        let in_block = offset_in_block(self.at);
        let payload = in_block.saturating_sub(LOG_BLOCK_HDR_SIZE) + len;
        let offset = payload / per_block * LOG_BLOCK_SIZE + LOG_BLOCK_HDR_SIZE + payload % per_block;
        Lsn((self.at.0 - in_block as u64).saturating_add(offset as u64))
    }
}

/// The end marker expected `offset` bytes after `lsn`: it changes with every lap.
fn sequence_bit(first_lsn: Lsn, capacity: u64, lsn: Lsn, offset: usize) -> u8 {
    let distance = lsn.0.saturating_add(offset as u64).saturating_sub(first_lsn.0);
    u8::from(distance.checked_div(capacity).unwrap_or(0).is_multiple_of(2))
}

/// The number of bytes before the zero that ends a mini-transaction of 10.5 to 10.7. `None` if more bytes are needed.
fn closed_by_zero(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let mut len = 0;
    while let Some(&first) = bytes.get(len) {
        match (first, frame(bytes.get(len..).unwrap_or_default())) {
            (0, _) => return Ok(Some(len)),
            (1, _) => return Err(()),
            (_, Some(record)) => len += record.len,
            // An incomplete length, or an invalid one.
            (_, None) if bytes.len() - len < 4 => return Ok(None),
            (_, None) => return Err(()),
        }
        if len > MTR_SIZE_MAX {
            return Err(());
        }
    }
    Ok(None)
}

/// The block at `lsn`, decrypted, and how much of it is used. `None` if it does not belong there.
fn open_block(block: &[u8], lsn: Lsn, key: Option<&LogKey>) -> Option<([u8; LOG_BLOCK_SIZE], usize)> {
    let mut bytes: [u8; LOG_BLOCK_SIZE] = *block.first_chunk()?;
    let number = be::u32_at(&bytes, LOG_BLOCK_HDR_NO)? & !FLUSH_BIT;
    let computed = crc32c(bytes.get(..LOG_BLOCK_CHECKSUM)?);
    if number != block_number(lsn) || be::u32_at(&bytes, LOG_BLOCK_CHECKSUM)? != computed {
        return None;
    }
    if let Some(key) = key {
        key.open_block(&mut bytes, lsn);
    }
    let len = usize::from(be::u16_at(&bytes, LOG_BLOCK_HDR_DATA_LEN)?);
    let fits = len == LOG_BLOCK_SIZE || (LOG_BLOCK_HDR_SIZE..=LOG_BLOCK_CHECKSUM).contains(&len);
    fits.then_some((bytes, len))
}
