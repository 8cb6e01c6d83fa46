//! What MariaDB's log still holds from before its checkpoint: nothing overwrites it until the ring comes around.
//!
//! Where a mini-transaction begins there is told by blocks in 10.5 to 10.7, and later by checksums: the first place from which
//! mini-transactions follow without a gap.

use crate::block::{LOG_BLOCK_SIZE, LogBlock, block_start};
use crate::mariadb::{Format, LogFile};
use crate::mtr_search::{Search, resumption};
use format::types::Lsn;

/// Behind the end marker of encrypted mini-transactions.
const NONCE_SIZE: usize = 8;

/// Where the first mini-transaction begins in `bytes`, which lie at [`MtrReader::place`](crate::mtr_reader::MtrReader::place) of `from`. `None`
/// where none can be told: the bytes are of a later lap, were never written, or are blocks that are encrypted.
#[must_use]
pub fn first_mtr(file: &LogFile, from: Lsn, bytes: &[u8]) -> Option<Lsn> {
    match file.format {
        Format::Blocks { encrypted: true } => None,
        Format::Blocks { encrypted: false } => first_of_blocks(block_start(from), bytes),
        // The log began there.
        Format::Stream { .. } if from == file.first_lsn => Some(from),
        Format::Stream { encrypted } => {
            let nonce = if encrypted.is_some() { NONCE_SIZE } else { 0 };
            let sequence_bit = |offset: usize| file.sequence_bit(from.0.saturating_add(offset as u64));
            match resumption(bytes, 1, nonce, true, sequence_bit) {
                Search::Found(found) => Some(Lsn(from.0.saturating_add(found.resumed as u64))),
                Search::Nowhere | Search::MoreBytes => None,
            }
        }
    }
}

fn first_of_blocks(from: Lsn, bytes: &[u8]) -> Option<Lsn> {
    let mut at = from.0;
    for block in bytes.chunks_exact(LOG_BLOCK_SIZE) {
        let parsed = LogBlock::parse(block.first_chunk()?, Lsn(at));
        if let Some(first) = parsed.map(|block| block.first_rec_group).filter(|first| *first > 0) {
            return Some(Lsn(at.saturating_add(u64::from(first))));
        }
        at = at.saturating_add(LOG_BLOCK_SIZE as u64);
    }
    None
}
