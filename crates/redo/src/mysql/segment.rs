//! Segments of an archived log of MySQL 8.0.30 and later: files of the server's own format, each of which continues the previous one.
//!
//! A segment has the header of a log file and its blocks: the block of LSN `start + n` is at offset [`LOG_FILE_HDR_SIZE`]` + n`. Unwritten
//! space is zero, and zeros are no block: the first one ends the segment, and so does a block that is not full. A full segment has no zeros
//! and ends where the next one starts. So closed segments are a log like any other, with one exception: only a segment that starts at a
//! checkpoint has one.
//!
//! | offset | bytes | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 512 | | as in `#ib_redo0`: format, number of the log, first LSN, creator, checksum |
//! | 448 | 8 | `magic` | `innokit1` |
//! | 456 | 4 | `timeline` | from 1; the next one begins where LSNs repeat with other content |
//! | 512 | 512 | | the checkpoint in whose block the segment starts, if it starts at one; LSN 0 otherwise |
//! | 1536 | 512 | | a checkpoint of LSN 0: none |
//!
//! The end record beside a closed segment has the form of [`crate::segment`]. It counts the mini-transactions that begin and end in the
//! segment. Its end is the first LSN behind the last block if that block is full, otherwise the end of the data in it.

use super::{
    FORMAT_MANY_FILES, LOG_CHECKPOINT_1, LOG_CHECKPOINT_2, LOG_CHECKPOINT_LSN, LOG_FILE_HDR_SIZE, LOG_HEADER_CHECKSUM,
    LOG_HEADER_FLAGS, LOG_HEADER_FORMAT, LOG_HEADER_LOG_UUID, LOG_HEADER_START_LSN,
};
use crate::block::{LOG_BLOCK_SIZE, block_start};
use crate::segment::{MAGIC, MAGIC_AT, TIMELINE_AT};
use crate::{RedoError, check_crc};
use format::bytes::be;
use format::checksum::crc32c;
use format::types::Lsn;

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// LSN of its first block.
    pub start: Lsn,
    /// From 1; the next timeline begins where LSNs repeat with other content.
    pub timeline: u32,
    /// The checkpoint in its first block.
    pub checkpoint: Option<Lsn>,
    /// The number that all files of one server's log share.
    pub log_uuid: u32,
}

impl SegmentHeader {
    /// The header for a log one of whose files has the header `log`; keeps its number and creator. `None` if `log` is too short or of
    /// another format, or if `start` is not the start of a block.
    #[must_use]
    pub fn build(start: Lsn, timeline: u32, checkpoint: Option<Lsn>, log: &[u8]) -> Option<Vec<u8>> {
        if be::u32_at(log, LOG_HEADER_FORMAT)? != FORMAT_MANY_FILES || start != block_start(start) {
            return None;
        }
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        header.get_mut(..LOG_HEADER_FLAGS)?.copy_from_slice(log.get(..LOG_HEADER_FLAGS)?);
        be::put_u64(&mut header, LOG_HEADER_START_LSN, start.0)?;
        header.get_mut(MAGIC_AT..)?.get_mut(..MAGIC.len())?.copy_from_slice(MAGIC);
        be::put_u32(&mut header, TIMELINE_AT, timeline)?;
        be::put_u64(&mut header, LOG_CHECKPOINT_1 + LOG_CHECKPOINT_LSN, checkpoint.map_or(0, |lsn| lsn.0))?;
        for at in [0, LOG_CHECKPOINT_1, LOG_CHECKPOINT_2] {
            let crc = crc32c(header.get(at..at + LOG_HEADER_CHECKSUM)?);
            be::put_u32(&mut header, at + LOG_HEADER_CHECKSUM, crc)?;
        }
        Some(header)
    }

    /// Reads the first [`LOG_FILE_HDR_SIZE`] bytes of a segment.
    ///
    /// # Errors
    /// [`RedoError`]; [`RedoError::NoCheckpoint`] for a log file that is no segment: it lacks the magic.
    pub fn parse(header: &[u8]) -> Result<Self, RedoError> {
        let short = RedoError::TooShort { len: header.len() as u64, needed: LOG_FILE_HDR_SIZE as u64 };
        let header = header.get(..LOG_FILE_HDR_SIZE).ok_or(short)?;
        let format = be::u32_at(header, LOG_HEADER_FORMAT).ok_or(short)?;
        if format != FORMAT_MANY_FILES {
            return Err(RedoError::UnknownFormat { format });
        }
        check_crc(header, LOG_HEADER_CHECKSUM)?;
        let is_segment = header.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC);
        let timeline = be::u32_at(header, TIMELINE_AT).filter(|_| is_segment).ok_or(RedoError::NoCheckpoint)?;
        let start = Lsn(be::u64_at(header, LOG_HEADER_START_LSN).ok_or(short)?);
        let log_uuid = be::u32_at(header, LOG_HEADER_LOG_UUID).ok_or(short)?;
        let slot = header.get(LOG_CHECKPOINT_1..LOG_CHECKPOINT_1 + LOG_BLOCK_SIZE).ok_or(short)?;
        let checkpoint = check_crc(slot, LOG_HEADER_CHECKSUM).ok().and_then(|()| be::u64_at(slot, LOG_CHECKPOINT_LSN));
        let checkpoint = checkpoint.map(Lsn).filter(|lsn| block_start(*lsn) == start);
        Ok(Self { start, timeline, checkpoint, log_uuid })
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
mod tests {
    use super::*;
    use crate::mysql::{LogFile, newest_checkpoint};

    fn of_server() -> Vec<u8> {
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        header[3] = 6;
        header[4..8].copy_from_slice(&[1, 2, 3, 4]);
        header[16..27].copy_from_slice(b"MySQL 9.7.4");
        header[48..52].copy_from_slice(&[0, 0, 0, 8]);
        header
    }

    #[test]
    fn a_segments_header_is_that_of_a_log_file_and_says_what_it_is() {
        let start = Lsn(84_237_312);
        let checkpoint = Some(Lsn(start.0 + 300));
        let built = SegmentHeader::build(start, 3, checkpoint, &of_server()).expect("a header");
        let header = SegmentHeader { start, timeline: 3, checkpoint, log_uuid: 0x0102_0304 };
        assert_eq!(SegmentHeader::parse(&built), Ok(header));
        let parsed = LogFile::parse(&built, 1 << 20).expect("a log file");
        assert_eq!((parsed.start_lsn, parsed.flags, parsed.creator.as_str()), (start, 0, "MySQL 9.7.4"));
        assert_eq!(newest_checkpoint(&[parsed]).expect("a checkpoint").lsn, Lsn(start.0 + 300));
        let without = SegmentHeader::build(start, 3, None, &of_server()).expect("a header");
        assert_eq!(SegmentHeader::parse(&without).map(|header| header.checkpoint), Ok(None));
    }

    #[test]
    fn what_is_no_segment_is_told_apart() {
        let start = Lsn(84_237_312);
        assert_eq!(SegmentHeader::build(Lsn(start.0 + 1), 1, None, &of_server()), None);
        assert_eq!(SegmentHeader::build(start, 1, None, &[0; LOG_FILE_HDR_SIZE]), None);
        let mut built = SegmentHeader::build(start, 1, None, &of_server()).expect("a header");
        built[MAGIC_AT] ^= 1;
        assert!(matches!(SegmentHeader::parse(&built), Err(RedoError::HeaderChecksum { .. })));
        let crc = crc32c(&built[..LOG_HEADER_CHECKSUM]);
        be::put_u32(&mut built, LOG_HEADER_CHECKSUM, crc).expect("put");
        assert_eq!(SegmentHeader::parse(&built), Err(RedoError::NoCheckpoint));
        assert!(matches!(SegmentHeader::parse(&built[..100]), Err(RedoError::TooShort { .. })));
    }
}
