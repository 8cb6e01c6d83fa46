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
use crate::block::{
    ENCRYPTED_BIT, EPOCH_BLOCKS, LOG_BLOCK_CHECKSUM, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE,
    LogBlock, block_start,
};
use crate::record::mysql_reader::{MLOG_DUMMY_RECORD, MLOG_MULTI_REC_END, SINGLE_RECORD, parse};
use crate::record::{Grammar, Mtr, RecordError, RecordFault};
use format::bytes::be;
use format::codec::TablespaceKey;
use format::pieces::gather;
use format::types::Lsn;

/// Payload bytes of a block.
const PAYLOAD_SIZE: u64 = (LOG_BLOCK_CHECKSUM - LOG_BLOCK_HDR_SIZE) as u64;
/// Payload consumed at a time.
const FILL_SIZE: usize = 1 << 20;
/// Bytes of the longest mini-transaction that is read. The server's recovery gives up at `innodb_log_buffer_size` bytes, which are 16 or
/// 64 MiB by default. Without a limit, a log whose blocks are sound but never end a mini-transaction would be kept in memory whole.
const MTR_SIZE_MAX: usize = 256 << 20;
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
    /// What has been parsed of the mini-transaction at `done`, so that no record is parsed again when more payload comes.
    group: Group,
    /// LSN of the next mini-transaction.
    at: Lsn,
    /// LSN of the first of them, once it has been found.
    first: Option<Lsn>,
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
            group: Group::default(),
            at: checkpoint,
            first: None,
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

    /// LSN of the first mini-transaction that begins in the blocks consumed; one that began before them ends there.
    #[must_use]
    pub const fn first(&self) -> Option<Lsn> {
        self.first
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

    /// The mini-transaction at `done`, if it is complete. A fault ends the log.
    fn group(&mut self) -> Option<Group> {
        self.parse_group().unwrap_or_else(|fault| {
            self.fault = Some(RecordError { at: self.group.len, fault });
            self.ended = true;
            None
        })
    }

    fn parse_group(&mut self) -> Result<Option<Group>, RecordFault> {
        let bytes = self.payload.get(self.done..).unwrap_or_default();
        let group = &mut self.group;
        while let Some((rest, &first)) = bytes.get(group.len..).and_then(|rest| Some((rest, rest.first()?))) {
            let len = match parse(rest) {
                Ok((_, len)) => len,
                Err(RecordFault::Length) => break,
                Err(fault) => return Err(fault),
            };
            let is_only = first & SINGLE_RECORD != 0 || first == MLOG_DUMMY_RECORD;
            if is_only && group.len > 0 {
                return Err(RecordFault::Kind(first));
            }
            // Changes before the checkpoint are in the files.
            if self.at < self.checkpoint && advance(self.at, group.len as u64) < self.checkpoint {
                group.skip = group.len + len;
            }
            group.len += len;
            if first != MLOG_MULTI_REC_END {
                group.end = group.len;
            }
            if is_only || first == MLOG_MULTI_REC_END {
                return Ok(Some(std::mem::take(group)));
            }
        }
        if bytes.len() > MTR_SIZE_MAX { Err(RecordFault::MtrSize) } else { Ok(None) }
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
        if self.first.is_some() {
            self.payload.extend_from_slice(found.payload_from(0, LOG_BLOCK_SIZE - LOG_BLOCK_CHECKSUM));
        } else {
            let first = usize::from(found.first_rec_group);
            if (LOG_BLOCK_HDR_SIZE..LOG_BLOCK_SIZE).contains(&first) {
                self.at = Lsn(lsn.0 + first as u64);
                self.first = Some(self.at);
                self.payload.extend_from_slice(found.payload_from(first, LOG_BLOCK_SIZE - LOG_BLOCK_CHECKSUM));
            }
        }
        Some(found.is_full())
    }
}

/// A mini-transaction in the payload.
#[derive(Debug, Clone, Default)]
struct Group {
    /// Length with its end record.
    len: usize,
    /// Length without it.
    end: usize,
    /// Bytes of records from before the checkpoint.
    skip: usize,
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
mod tests {
    use super::*;
    use crate::block::{LOG_BLOCK_FIRST_REC_GROUP, LOG_BLOCK_HDR_NO, block_number};
    use format::checksum::crc32c;

    const START: Lsn = Lsn(84_237_312);
    /// `MLOG_WRITE_STRING` of 489 bytes to page 1 of tablespace 0: the payload of a block.
    const RECORD: [u8; 7] = [30, 0, 1, 0x05, 0x46, 0x01, 0xE9];

    /// 1 MiB of full blocks from `lsn` on, each one record of the same mini-transaction, which started at `START`.
    fn endless(lsn: Lsn) -> Vec<u8> {
        let mut blocks = vec![0xAB; 1 << 20];
        for (number, block) in blocks.as_chunks_mut::<LOG_BLOCK_SIZE>().0.iter_mut().enumerate() {
            let at = Lsn(lsn.0 + (number * LOG_BLOCK_SIZE) as u64);
            block[..LOG_BLOCK_HDR_SIZE].fill(0);
            block[LOG_BLOCK_HDR_NO..4].copy_from_slice(&block_number(at).to_be_bytes());
            block[LOG_BLOCK_HDR_DATA_LEN..6].copy_from_slice(&512_u16.to_be_bytes());
            let first = if at == START { 12_u16 } else { 0 };
            block[LOG_BLOCK_FIRST_REC_GROUP..8].copy_from_slice(&first.to_be_bytes());
            block[LOG_BLOCK_HDR_SIZE..][..RECORD.len()].copy_from_slice(&RECORD);
            let crc = crc32c(&block[..LOG_BLOCK_CHECKSUM]);
            block[LOG_BLOCK_CHECKSUM..].copy_from_slice(&crc.to_be_bytes());
        }
        blocks
    }

    #[test]
    fn no_record_is_parsed_twice_when_a_long_mini_transaction_comes_in_pieces() {
        let mut reader = MtrReader::new(5, START, Vec::new());
        for mib in 0..4 {
            let blocks = endless(Lsn(START.0 + (mib << 20)));
            assert!(reader.next_mtr(&mut blocks.as_slice()).is_none());
            assert_eq!(reader.group.len as u64, (mib + 1) * 2048 * PAYLOAD_SIZE, "where parsing goes on");
            assert_eq!((reader.at(), reader.has_ended()), (Lsn(START.0 + 12), false));
        }
    }

    #[test]
    fn a_mini_transaction_that_never_ends_is_a_fault_and_not_kept_whole() {
        let mut reader = MtrReader::new(5, START, Vec::new());
        let fed = (0_u64..300).take_while(|mib| {
            assert!(reader.next_mtr(&mut endless(Lsn(START.0 + (mib << 20))).as_slice()).is_none());
            !reader.has_ended()
        });
        assert_eq!(fed.count(), 264, "MiB of blocks, of which 496 bytes in 512 are payload");
        assert_eq!(reader.fault().map(|error| error.fault), Some(RecordFault::MtrSize));
        assert!(reader.unfinished().is_empty());
    }
}
