//! The part of MariaDB's log before its checkpoint. It stays readable until the ring comes around.
//!
//! In 10.5 to 10.7, blocks say where a mini-transaction starts there. In later logs, checksums do: one starts at the first place
//! from which others follow without a gap.

use crate::block::{LOG_BLOCK_SIZE, LogBlock, block_start};
use crate::mariadb::{Format, LogFile};
use crate::mtr_search::{Search, resumption};
use format::types::Lsn;

/// Bytes between the end marker and the checksum of an encrypted mini-transaction.
const NONCE_SIZE: usize = 8;

/// The start of the first mini-transaction in `bytes`, which are at [`MtrReader::place`](crate::mtr_reader::MtrReader::place) of `from`.
/// `None` if it cannot be found: the bytes are from a later lap, were never written, or are encrypted blocks.
#[must_use]
pub fn first_mtr(file: &LogFile, from: Lsn, bytes: &[u8]) -> Option<Lsn> {
    match file.format {
        Format::Blocks { encrypted: true } => None,
        Format::Blocks { encrypted: false } => first_of_blocks(block_start(from), bytes),
        // The log started there. A file of an archive may begin with the rest of a mini-transaction.
        Format::Stream { .. } if from == file.first_lsn && !file.is_kept() => Some(from),
        Format::Stream { encrypted } => {
            let nonce = if encrypted.is_some() { NONCE_SIZE } else { 0 };
            let marker = |offset: usize| file.marker(from.0.saturating_add(offset as u64));
            match resumption(bytes, 1, nonce, true, marker) {
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
