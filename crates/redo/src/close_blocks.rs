//! Makes a log of MariaDB 10.5 to 10.7 clean, as a shutdown does: its newest checkpoint is its end, and nothing follows.
//!
//! ```text
//! if the log ends within a mini-transaction: remove the blocks behind the last one, from the end back
//!   -> last_block, at the end -> clean_slot, which is one sector
//! ```
//!
//! Or a new log that starts with that block replaces it: `restarted_blocks`.
//!
//! Until the slot is written, the log is unchanged and ends where it did: only an incomplete mini-transaction is removed. Page 0 of the
//! system tablespace must name the same LSN ([`seal_flush_lsn`](format::page::seal::seal_flush_lsn)): if the two differ, a server runs
//! recovery.
//!
//! Encrypted parts stay encrypted: a block with the log's key, in the version that the checkpoint names. The checkpoint itself is plain and
//! names the same key as the previous one.
//!
//! Source: logs left by servers of 10.5 at shutdown; such a server starts on a log closed here without recovery.

use crate::block::{
    FLUSH_BIT, LOG_BLOCK_EPOCH_NO, LOG_BLOCK_FIRST_REC_GROUP, LOG_BLOCK_HDR_DATA_LEN, LOG_BLOCK_HDR_NO,
    LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, LogBlock, block_number, block_start, offset_in_block,
};
use crate::log_key::{BLOCKS_KEY, LogKey};
use crate::mariadb::{
    BLOCKS_CHECKPOINT_LSN, BLOCKS_CHECKPOINT_NO, BLOCKS_CHECKPOINT_OFFSET, BLOCKS_END_LSN, BLOCKS_SLOTS, BLOCKS_START,
    LOG_HEADER_START_LSN, LogFile, newest_slot,
};
use crate::plain_block::{plain_block, seal};
use format::bytes::be;
use format::types::Lsn;

/// The block in which the log ends at `end`, built from `found`, the block stored there, with nothing after the end. If the log ends with a
/// full block, this block may not exist yet, since the end is then its first payload byte. `header` is the file's. `key` is the key of an
/// encrypted log; both blocks are then encrypted.
#[must_use]
pub fn last_block(
    found: &[u8; LOG_BLOCK_SIZE],
    end: Lsn,
    header: &[u8],
    key: Option<&LogKey>,
) -> Option<[u8; LOG_BLOCK_SIZE]> {
    let used = offset_in_block(end);
    let plain = plain_block(found, end, key).unwrap_or([0; LOG_BLOCK_SIZE]);
    let block = match LogBlock::parse(&plain, end) {
        Some(block) if usize::from(block.data_len) == used => return Some(*found),
        Some(block) if usize::from(block.data_len) > used => Some(block),
        _ if used == LOG_BLOCK_HDR_SIZE => None,
        _ => return None,
    };
    let len = u16::try_from(used).ok()?;
    let mut bytes = [0; LOG_BLOCK_SIZE];
    if block.is_some() {
        bytes.get_mut(..used)?.copy_from_slice(plain.get(..used)?);
    } else {
        let (_, number) = newest_slot(header)?;
        be::put_u32(&mut bytes, LOG_BLOCK_HDR_NO, block_number(end) | FLUSH_BIT)?;
        be::put_u16(&mut bytes, LOG_BLOCK_FIRST_REC_GROUP, len)?;
        be::put_u32(&mut bytes, LOG_BLOCK_EPOCH_NO, u32::try_from(number & u64::from(u32::MAX)).ok()?)?;
    }
    be::put_u16(&mut bytes, LOG_BLOCK_HDR_DATA_LEN, len)?;
    if let Some(key) = key {
        key.seal_block(&mut bytes, block_start(end));
    }
    seal(&mut bytes)?;
    Some(bytes)
}

/// The checkpoint which says that the log ends at `end` with nothing to recover, and its file offset: that of the slot without the newest
/// checkpoint. `header` is the file's.
#[must_use]
pub fn clean_slot(header: &[u8], file: &LogFile, end: Lsn) -> Option<([u8; LOG_BLOCK_SIZE], usize)> {
    let (mut slot, spare) = next_slot(header, end, file.offset_of(end)?)?;
    seal(&mut slot)?;
    Some((slot, spare))
}

/// The first bytes of a log that starts with the block of `end` and has its checkpoint and end there. Everything else is as in `header`.
/// `found` is that block in the old log. `keys` are the old and the [new](LogKey::renewed) key of an encrypted log.
#[must_use]
pub fn restarted_blocks(
    header: &[u8],
    found: &[u8; LOG_BLOCK_SIZE],
    end: Lsn,
    keys: Option<(&LogKey, &LogKey)>,
) -> Option<Vec<u8>> {
    let (old, renewed) = keys.unzip();
    let mut new = header.get(..LOG_BLOCK_SIZE)?.to_vec();
    be::put_u64(&mut new, LOG_HEADER_START_LSN, block_start(end).0)?;
    seal(new.first_chunk_mut()?)?;
    new.resize(BLOCKS_START as usize, 0);
    let (mut slot, at) = next_slot(header, end, BLOCKS_START + offset_in_block(end) as u64)?;
    let mut block = plain_block(&last_block(found, end, header, old)?, end, old)?;
    if let Some(key) = renewed {
        key.put_message(&mut slot, BLOCKS_KEY)?;
        key.seal_block(&mut block, block_start(end));
    }
    seal(&mut slot)?;
    seal(&mut block)?;
    new.get_mut(at..at + LOG_BLOCK_SIZE)?.copy_from_slice(&slot);
    new.extend_from_slice(&block);
    Some(new)
}

/// The checkpoint after the newest one, at LSN `end` and file offset `offset`, without its checksum; and the offset of its slot.
fn next_slot(header: &[u8], end: Lsn, offset: u64) -> Option<([u8; LOG_BLOCK_SIZE], usize)> {
    let (newest, number) = newest_slot(header)?;
    let spare = BLOCKS_SLOTS.into_iter().find(|&at| at != newest)?;
    let mut slot: [u8; LOG_BLOCK_SIZE] = *header.get(newest..)?.first_chunk()?;
    be::put_u64(&mut slot, BLOCKS_CHECKPOINT_NO, number.checked_add(1)?)?;
    be::put_u64(&mut slot, BLOCKS_CHECKPOINT_LSN, end.0)?;
    be::put_u64(&mut slot, BLOCKS_CHECKPOINT_OFFSET, offset)?;
    be::put_u64(&mut slot, BLOCKS_END_LSN, end.0)?;
    Some((slot, spare))
}
