//! A copy of a live log of MySQL 8.0.30 or later: which blocks belong to it, how it is cut off, and the header that makes it one file.
//!
//! Full blocks are final. The newest block is written again and again, in place, until it is full; a reader may catch it half written, and
//! its checksum shows that. Block numbers and epochs follow from the LSN, so blocks from an earlier use of a file are never taken for new
//! ones.
//!
//! Source: MySQL 8.0.30 to 9.7 `log0files_io.cc`, `log0recv.cc`; a server of 9.7 recovers from such files.

use super::{
    FORMAT_MANY_FILES, LOG_CHECKPOINT_1, LOG_CHECKPOINT_2, LOG_CHECKPOINT_LSN, LOG_ENCRYPTION, LOG_FILE_HDR_SIZE,
    LOG_HEADER_CHECKSUM, LOG_HEADER_FLAGS, LOG_HEADER_FORMAT, LOG_HEADER_START_LSN,
};
use crate::block::{
    ENCRYPTED_BIT, EPOCH_BLOCKS, LOG_BLOCK_CHECKSUM, LOG_BLOCK_FIRST_REC_GROUP, LOG_BLOCK_HDR_DATA_LEN,
    LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, LogBlock, block_start, offset_in_block,
};
use format::bytes::be;
use format::checksum::crc32c;
use format::codec::TablespaceKey;
use format::types::Lsn;

/// The verdict on a block of a live log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveBlock {
    /// It belongs there and holds the log up to this LSN.
    Sound(Lsn),
    /// It is encrypted, and no key opens it.
    Locked,
    /// It is not written yet, half written, or from another time.
    Other,
}

/// Judges the block stored for `lsn`, which may be the LSN of any of its bytes.
#[must_use]
pub fn judge(stored: &[u8; LOG_BLOCK_SIZE], lsn: Lsn, keys: &[TablespaceKey]) -> LiveBlock {
    let start = block_start(lsn);
    let Some(plain) = plain(stored, start, keys) else {
        let is_ours = LogBlock::parse(stored, start).is_some_and(|block| block.encrypted && has_epoch(&block, start));
        return if is_ours { LiveBlock::Locked } else { LiveBlock::Other };
    };
    match LogBlock::parse(&plain, start) {
        // The log continues behind the next block's header.
        Some(block) if block.is_full() => LiveBlock::Sound(Lsn(start.0 + (LOG_BLOCK_SIZE + LOG_BLOCK_HDR_SIZE) as u64)),
        Some(block) => LiveBlock::Sound(Lsn(start.0 + u64::from(block.data_len))),
        None => LiveBlock::Other,
    }
}

fn has_epoch(block: &LogBlock<'_>, start: Lsn) -> bool {
    u64::from(block.epoch) == start.0 / LOG_BLOCK_SIZE as u64 / EPOCH_BLOCKS + 1
}

/// The block at `start` in plain text, if it belongs there.
fn plain(stored: &[u8; LOG_BLOCK_SIZE], start: Lsn, keys: &[TablespaceKey]) -> Option<[u8; LOG_BLOCK_SIZE]> {
    let length = be::u16_at(stored, LOG_BLOCK_HDR_DATA_LEN)?;
    let plain = if length & ENCRYPTED_BIT == 0 {
        *stored
    } else {
        keys.iter().find_map(|key| decrypted(stored, start, key))?
    };
    LogBlock::parse(&plain, start).is_some_and(|block| has_epoch(&block, start)).then_some(plain)
}

/// A decrypted block with its flag cleared, the form that its checksum covers; `None` if this is the wrong key.
pub(super) fn decrypted(block: &[u8; LOG_BLOCK_SIZE], lsn: Lsn, key: &TablespaceKey) -> Option<[u8; LOG_BLOCK_SIZE]> {
    let mut plain = *block;
    key.decrypt(plain.get_mut(LOG_BLOCK_HDR_SIZE..)?);
    let length = be::u16_at(&plain, LOG_BLOCK_HDR_DATA_LEN)? & !ENCRYPTED_BIT;
    be::put_u16(&mut plain, LOG_BLOCK_HDR_DATA_LEN, length)?;
    LogBlock::parse(&plain, lsn).map(|_| plain)
}

/// The block as if the log had ended at `until`, which is in it. An encrypted block stays encrypted. `None` if the block is not sound, ends
/// before `until`, or cannot be opened.
#[must_use]
pub fn cut(stored: &[u8; LOG_BLOCK_SIZE], until: Lsn, keys: &[TablespaceKey]) -> Option<[u8; LOG_BLOCK_SIZE]> {
    let (start, len) = (block_start(until), offset_in_block(until));
    let mut block = plain(stored, start, keys)?;
    let now = usize::from(LogBlock::parse(&block, start)?.data_len);
    if len < LOG_BLOCK_HDR_SIZE || len > now.min(LOG_BLOCK_CHECKSUM) {
        return None;
    }
    block.get_mut(len..)?.fill(0);
    be::put_u16(&mut block, LOG_BLOCK_HDR_DATA_LEN, u16::try_from(len).ok()?)?;
    // It may equal the length: then the next mini-transaction starts here.
    if usize::from(be::u16_at(&block, LOG_BLOCK_FIRST_REC_GROUP)?) > len {
        be::put_u16(&mut block, LOG_BLOCK_FIRST_REC_GROUP, 0)?;
    }
    let crc = crc32c(block.get(..LOG_BLOCK_CHECKSUM)?);
    be::put_u32(&mut block, LOG_BLOCK_CHECKSUM, crc)?;
    if be::u16_at(stored, LOG_BLOCK_HDR_DATA_LEN)? & ENCRYPTED_BIT != 0 {
        let key = keys.iter().find(|key| decrypted(stored, start, key).is_some())?;
        key.encrypt(block.get_mut(LOG_BLOCK_HDR_SIZE..)?);
        be::put_u16(&mut block, LOG_BLOCK_HDR_DATA_LEN, u16::try_from(len).ok()? | ENCRYPTED_BIT)?;
    }
    Some(block)
}

/// The block with the encryption information in a file's header: zeros if its blocks were never encrypted.
#[must_use]
pub fn encryption_block(header: &[u8]) -> Option<&[u8]> {
    header.get(LOG_ENCRYPTION..LOG_CHECKPOINT_2)
}

/// The header of a file that begins with the block of `checkpoint`, made from the header of any file of that log. `encryption` is the
/// [`encryption_block`] of the file that has encrypted blocks. `None` for a header of another format.
#[must_use]
pub fn header(of_file: &[u8], checkpoint: Lsn, encryption: &[u8]) -> Option<Vec<u8>> {
    let mut header = vec![0; LOG_FILE_HDR_SIZE];
    if be::u32_at(of_file, LOG_HEADER_FORMAT)? != FORMAT_MANY_FILES {
        return None;
    }
    header.get_mut(..LOG_HEADER_FLAGS)?.copy_from_slice(of_file.get(..LOG_HEADER_FLAGS)?);
    be::put_u64(&mut header, LOG_HEADER_START_LSN, block_start(checkpoint).0)?;
    be::put_u64(&mut header, LOG_CHECKPOINT_1 + LOG_CHECKPOINT_LSN, checkpoint.0)?;
    header.get_mut(LOG_ENCRYPTION..LOG_CHECKPOINT_2)?.copy_from_slice(encryption);
    for at in [0, LOG_CHECKPOINT_1, LOG_CHECKPOINT_2] {
        let crc = crc32c(header.get(at..at + LOG_HEADER_CHECKSUM)?);
        be::put_u32(&mut header, at + LOG_HEADER_CHECKSUM, crc)?;
    }
    Some(header)
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail the test")]
mod tests {
    use super::*;
    use crate::mysql::close::{TableNote, new_file};
    use crate::mysql::mtr_reader::MtrReader;
    use crate::mysql::{LogFile, newest_checkpoint};

    const START: Lsn = Lsn(84_237_312);

    /// A log of `count` mini-transactions, as its header and its blocks.
    fn log(count: u64) -> (Vec<u8>, Vec<[u8; LOG_BLOCK_SIZE]>) {
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        header[3] = 6;
        header[16..27].copy_from_slice(b"MySQL 9.7.4");
        let note = |table| TableNote { table, version: 0, auto_increment: Some(7), state: Vec::new() };
        let file = new_file(&header, START, &(0..count).map(note).collect::<Vec<_>>()).expect("a log");
        (header, file[LOG_FILE_HDR_SIZE..].as_chunks().0.to_vec())
    }

    fn ends(blocks: &[[u8; LOG_BLOCK_SIZE]], keys: &[TablespaceKey]) -> Vec<Lsn> {
        let mut reader = MtrReader::new(6, Lsn(START.0 + 12), keys.to_vec());
        let bytes = [blocks.as_flattened(), &[0; LOG_BLOCK_SIZE]].concat();
        let (mut input, mut ends) = (bytes.as_slice(), Vec::new());
        while let Some(mtr) = reader.next_mtr(&mut input) {
            ends.push(mtr.end);
        }
        assert!(reader.has_ended() && reader.fault().is_none() && !reader.lacks_key());
        ends
    }

    fn key() -> TablespaceKey {
        TablespaceKey::new(&[7; 32], &[9; 32])
    }

    fn encrypted(block: &[u8; LOG_BLOCK_SIZE]) -> [u8; LOG_BLOCK_SIZE] {
        let mut block = *block;
        key().encrypt(&mut block[LOG_BLOCK_HDR_SIZE..]);
        block[LOG_BLOCK_HDR_DATA_LEN] |= 0x80;
        block
    }

    #[test]
    fn a_log_that_is_cut_has_the_mini_transactions_up_to_there_and_no_others() {
        let (_, plain) = log(200);
        let locked: Vec<_> = plain.iter().map(encrypted).collect();
        let all = ends(&plain, &[]);
        assert_eq!(all.len(), 200);
        for (blocks, keys) in [(&plain, vec![]), (&locked, vec![key()])] {
            for (number, until) in all.iter().enumerate() {
                let last = usize::try_from((until.0 - START.0) / 512).expect("small");
                let mut kept = blocks[..last].to_vec();
                // A log that ends with a full block ends behind the header of a block that need not be there.
                if until.0 % 512 > 12 {
                    kept.push(cut(&blocks[last], *until, &keys).expect("cut"));
                }
                assert_eq!(ends(&kept, &keys), all[..=number]);
            }
        }
        let end = all.last().expect("some");
        let last = plain.last().expect("some");
        assert_eq!(cut(last, Lsn(end.0 + 1), &[]), None, "it ends before");
        assert_eq!(cut(&encrypted(last), *end, &[]), None, "no key");
    }

    #[test]
    fn only_whole_blocks_of_this_lsn_are_taken() {
        let (_, blocks) = log(200);
        let (first, last) = (blocks[0], *blocks.last().expect("some"));
        assert_eq!(judge(&first, START, &[]), LiveBlock::Sound(Lsn(START.0 + 524)));
        let at = Lsn(START.0 + 512 * (blocks.len() as u64 - 1));
        let LiveBlock::Sound(end) = judge(&last, at, &[]) else { panic!("it is sound") };
        assert!(end > at && end.0 < at.0 + 508);
        assert_eq!(judge(&first, at, &[]), LiveBlock::Other, "an older block");
        // 512 GiB later the numbers are the same, but not the epoch.
        assert_eq!(judge(&first, Lsn(START.0 + (512 << 30)), &[]), LiveBlock::Other);
        for torn in [200, 508] {
            let mut half = first;
            half[torn..].copy_from_slice(&[0x55; 512][torn..]);
            assert_eq!(judge(&half, START, &[]), LiveBlock::Other);
            let mut half = encrypted(&first);
            half[torn..].copy_from_slice(&[0x55; 512][torn..]);
            assert_ne!(judge(&half, START, &[key()]), LiveBlock::Sound(Lsn(START.0 + 524)));
        }
        assert_eq!(judge(&encrypted(&first), START, &[]), LiveBlock::Locked);
        assert_eq!(judge(&encrypted(&first), START, &[key()]), LiveBlock::Sound(Lsn(START.0 + 524)));
    }

    #[test]
    fn the_header_of_a_copy_has_its_checkpoint_and_nothing_else() {
        let (of_server, _) = log(1);
        let checkpoint = Lsn(START.0 + 300);
        let made = header(&of_server, checkpoint, &[0; 512]).expect("a header");
        let parsed = LogFile::parse(&made, 1 << 20).expect("a header");
        assert_eq!((parsed.start_lsn, parsed.flags, parsed.creator.as_str()), (START, 0, "MySQL 9.7.4"));
        assert_eq!(newest_checkpoint(&[parsed]).expect("a checkpoint").lsn, checkpoint);
        assert_eq!(header(&[0; 2048], checkpoint, &[0; 512]), None);
    }
}
