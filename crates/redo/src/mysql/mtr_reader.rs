//! Reads and decrypts the mini-transactions in MySQL's redo log.
//!
//! ```text
//! Plan of verify_mysql -> where the blocks are, from the checkpoint's on
//! their bytes, in pieces of any size -> MtrReader::next_mtr -> Mtr -> records
//! ```
//!
//! Only its records delimit a mini-transaction, and only its body delimits a record, so everything must be parsed. Like a server, the
//! reader stops before the first block that is not part of this log, and before the first incomplete mini-transaction.

use super::copy::decrypted;
use super::record::{MLOG_DUMMY_RECORD, MLOG_MULTI_REC_END, SINGLE_RECORD, parse};
use crate::block::{
    ENCRYPTED_BIT, EPOCH_BLOCKS, LOG_BLOCK_CHECKSUM, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE,
    LogBlock, block_start,
};
use crate::record::{Grammar, Mtr, RecordError, RecordFault};
use format::bytes::be;
use format::codec::TablespaceKey;
use format::pieces::gather;
use format::types::Lsn;

/// Payload bytes of a block.
const PAYLOAD_SIZE: u64 = (LOG_BLOCK_CHECKSUM - LOG_BLOCK_HDR_SIZE) as u64;
/// Payload consumed at a time.
const FILL_SIZE: usize = 1 << 20;
/// The first format whose blocks have an epoch.
const FORMAT_EPOCH: u32 = 6;

/// The LSN `len` bytes of payload after `lsn`: headers and trailers of blocks count.
#[must_use]
pub const fn advance(lsn: Lsn, len: u64) -> Lsn {
    let (block, header) = (LOG_BLOCK_SIZE as u64, LOG_BLOCK_HDR_SIZE as u64);
    let payload = (lsn.0 % block).saturating_sub(header).saturating_add(len);
    let start = lsn.0 / block * block;
    Lsn(start.saturating_add(payload / PAYLOAD_SIZE * block).saturating_add(payload % PAYLOAD_SIZE + header))
}

/// Reads the mini-transactions of a log, fed with its blocks from the checkpoint's on.
#[derive(Debug, Clone)]
pub struct MtrReader {
    format: u32,
    /// Keys of encrypted blocks: those of the files, newest first.
    keys: Vec<TablespaceKey>,
    checkpoint: Lsn,
    /// The part of the next block received so far.
    block: Vec<u8>,
    block_lsn: Lsn,
    /// Payload of blocks; everything before `done` was returned.
    payload: Vec<u8>,
    done: usize,
    /// LSN of the next mini-transaction.
    at: Lsn,
    /// Whether the first of them has been found.
    is_in_step: bool,
    /// No more payload will come.
    is_last_block: bool,
    /// No more mini-transactions will be returned.
    ended: bool,
    fault: Option<RecordError>,
    /// Whether a block could not be decrypted.
    lacks_key: bool,
    met_encrypted: bool,
}

impl MtrReader {
    /// A reader of a log in this format, from its newest checkpoint on.
    #[must_use]
    pub fn new(format: u32, checkpoint: Lsn, keys: Vec<TablespaceKey>) -> Self {
        Self {
            format,
            keys,
            checkpoint,
            block: Vec::new(),
            block_lsn: block_start(checkpoint),
            payload: Vec::new(),
            done: 0,
            at: checkpoint,
            is_in_step: false,
            is_last_block: false,
            ended: false,
            fault: None,
            lacks_key: false,
            met_encrypted: false,
        }
    }

    /// The next mini-transaction; `None` if `input` or the log ends before it does.
    pub fn next_mtr(&mut self, input: &mut &[u8]) -> Option<Mtr<'_>> {
        loop {
            if self.ended {
                return None;
            }
            match self.group() {
                Some(group) => {
                    let (start, from) = (self.at, self.done + group.skip);
                    self.done += group.len;
                    self.at = advance(start, group.len as u64);
                    if group.skip >= group.end {
                        continue;
                    }
                    let bytes = self.payload.get(from..from + group.end - group.skip).unwrap_or_default();
                    return Some(Mtr { start, end: self.at, bytes, grammar: Grammar::MySql });
                }
                None if self.ended => return None,
                None if self.is_last_block => self.ended = true,
                None if input.is_empty() => return None,
                None => self.fill(input),
            }
        }
    }

    /// LSN of the next mini-transaction; once the log has ended, its end.
    #[must_use]
    pub const fn at(&self) -> Lsn {
        self.at
    }

    /// Whether the log has ended.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Records at the end of the log whose mini-transaction was still being written; the last one may be incomplete. They change no page,
    /// but a server believes what they say about tables.
    #[must_use]
    pub fn unfinished(&self) -> &[u8] {
        if self.ended && self.fault.is_none() { self.payload.get(self.done..).unwrap_or_default() } else { &[] }
    }

    /// Why the log makes no sense at its end although its blocks are sound.
    #[must_use]
    pub const fn fault(&self) -> Option<RecordError> {
        self.fault
    }

    /// Whether the log ended at an encrypted block that no key opens.
    #[must_use]
    pub const fn lacks_key(&self) -> bool {
        self.lacks_key
    }

    /// Whether any block read was encrypted.
    #[must_use]
    pub const fn met_encrypted(&self) -> bool {
        self.met_encrypted
    }

    /// The mini-transaction at `done`, if it is complete.
    fn group(&mut self) -> Option<Group> {
        let bytes = self.payload.get(self.done..).filter(|bytes| !bytes.is_empty())?;
        let mut group = Group { len: 0, end: 0, skip: 0 };
        loop {
            let rest = bytes.get(group.len..)?;
            let first = *rest.first()?;
            let is_only = first & SINGLE_RECORD != 0 || first == MLOG_DUMMY_RECORD;
            let fault = match parse(rest) {
                Ok(_) if is_only && group.len > 0 => RecordFault::Kind(first),
                Ok((_, len)) => {
                    // Changes before the checkpoint are in the files.
                    if self.at < self.checkpoint && advance(self.at, group.len as u64) < self.checkpoint {
                        group.skip = group.len + len;
                    }
                    group.len += len;
                    if first == MLOG_MULTI_REC_END {
                        return Some(group);
                    }
                    group.end = group.len;
                    if is_only {
                        return Some(group);
                    }
                    continue;
                }
                Err(RecordFault::Length) => return None,
                Err(fault) => fault,
            };
            self.fault = Some(RecordError { at: group.len, fault });
            self.ended = true;
            return None;
        }
    }

    /// Consumes blocks, and drops the payload that was returned.
    fn fill(&mut self, input: &mut &[u8]) {
        self.payload.drain(..std::mem::take(&mut self.done));
        let enough = self.payload.len() + FILL_SIZE;
        while self.payload.len() < enough && !self.is_last_block && gather(&mut self.block, input, LOG_BLOCK_SIZE) {
            let took = self.take_block();
            self.is_last_block = took != Some(true);
            self.block.clear();
        }
    }

    /// Consumes a block. Returns whether the log continues after it.
    fn take_block(&mut self) -> Option<bool> {
        let mut block: [u8; LOG_BLOCK_SIZE] = *self.block.first_chunk()?;
        let lsn = self.block_lsn;
        if be::u16_at(&block, LOG_BLOCK_HDR_DATA_LEN)? & ENCRYPTED_BIT != 0 {
            let plain = self.keys.iter().find_map(|key| decrypted(&block, lsn, key));
            self.lacks_key = plain.is_none() && LogBlock::parse(&block, lsn).is_some();
            self.met_encrypted |= plain.is_some() || self.lacks_key;
            block = plain?;
        }
        let found = LogBlock::parse(&block, lsn)?;
        let epoch = lsn.0 / LOG_BLOCK_SIZE as u64 / EPOCH_BLOCKS + 1;
        if self.format >= FORMAT_EPOCH && u64::from(found.epoch) != epoch {
            return None;
        }
        self.block_lsn = Lsn(lsn.0.saturating_add(LOG_BLOCK_SIZE as u64));
        if self.is_in_step {
            self.payload.extend_from_slice(found.payload_from(0, LOG_BLOCK_SIZE - LOG_BLOCK_CHECKSUM));
        } else {
            let first = usize::from(found.first_rec_group);
            if (LOG_BLOCK_HDR_SIZE..LOG_BLOCK_SIZE).contains(&first) {
                self.is_in_step = true;
                self.at = Lsn(lsn.0 + first as u64);
                self.payload.extend_from_slice(found.payload_from(first, LOG_BLOCK_SIZE - LOG_BLOCK_CHECKSUM));
            }
        }
        Some(found.is_full())
    }
}

/// A mini-transaction in the payload.
struct Group {
    /// Length with its end record.
    len: usize,
    /// Length without it.
    end: usize,
    /// Bytes of records from before the checkpoint.
    skip: usize,
}
