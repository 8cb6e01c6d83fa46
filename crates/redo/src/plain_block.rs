//! A block of the log of MariaDB 10.5 to 10.7, decrypted and sealed.

use crate::block::{LOG_BLOCK_CHECKSUM, LOG_BLOCK_SIZE, block_start};
use crate::check_crc;
use crate::log_key::LogKey;
use format::bytes::be;
use format::checksum::crc32c;
use format::types::Lsn;

/// Decrypts a log block, if it is encrypted, into the form that [`LogBlock::parse`](crate::block::LogBlock::parse) reads. `lsn` may be that
/// of any of its bytes. `None` if its checksum, which covers the encrypted bytes, does not match.
#[must_use]
pub fn plain_block(found: &[u8; LOG_BLOCK_SIZE], lsn: Lsn, key: Option<&LogKey>) -> Option<[u8; LOG_BLOCK_SIZE]> {
    let mut plain = *found;
    if let Some(key) = key {
        check_crc(found, LOG_BLOCK_CHECKSUM).ok()?;
        key.open_block(&mut plain, block_start(lsn));
        seal(&mut plain)?;
    }
    Some(plain)
}

/// Writes a block's checksum.
pub(super) fn seal(block: &mut [u8; LOG_BLOCK_SIZE]) -> Option<()> {
    let crc = crc32c(block.get(..LOG_BLOCK_CHECKSUM)?);
    be::put_u32(block, LOG_BLOCK_CHECKSUM, crc)
}
