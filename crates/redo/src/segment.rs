//! Segments of an archived log of MariaDB 10.8 and later: the server's own format, laid out straight.
//!
//! A segment has the header of a log file and the same payload, but it never wraps: the byte of LSN `start + n` is at offset
//! [`START_OFFSET`]` + n`, and every end marker is that of a first lap. So anything that reads a log reads a segment. Checksums do not
//! cover end markers, so straightening them changes nothing else, and an encrypted payload stays as it is. Unwritten space is zero, and a
//! zero is no mini-transaction: the first one ends the segment.
//!
//! | offset | bytes | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 512 | | as in `ib_logfile0`: format, first LSN, creator, key, checksum |
//! | 448 | 8 | `magic` | `innokit1` |
//! | 456 | 4 | `timeline` | from 1; the next one begins where LSNs repeat with other content |
//! | 4096 | 64 | | the checkpoint at which the segment starts, if it starts at one; zeros otherwise |
//!
//! A closed segment has an end record beside it, of 64 bytes:
//!
//! | offset | bytes | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 8 | `magic` | `innokEND` |
//! | 8 | 8 | `start` | LSN of the first byte |
//! | 16 | 8 | `end` | LSN after the last byte |
//! | 24 | 8 | `mtrs` | mini-transactions |
//! | 32 | 4 | `timeline` | of the segment |
//! | 36 | 4 | `crc` | CRC-32C of the header and the payload up to the end |
//! | 60 | 4 | `checksum` | CRC-32C of bytes 0 to 59 |

use crate::mariadb::{
    CHECKPOINT_1, CHECKPOINT_CHECKSUM, CHECKPOINT_END_LSN, CHECKPOINT_LSN, Checkpoint, Format, LOG_HEADER_CHECKSUM,
    LOG_HEADER_CREATOR, LOG_HEADER_KEY, LOG_HEADER_KEY_SIZE, LOG_HEADER_START_LSN, LogFile, START_OFFSET,
};
use crate::{RedoError, check_crc};
use format::bytes::be;
use format::checksum::crc32c;
use format::types::Lsn;

/// Bytes of an end record.
pub const END_RECORD_SIZE: usize = 64;
pub(crate) const MAGIC: &[u8; 8] = b"innokit1";
pub(crate) const MAGIC_AT: usize = 448;
pub(crate) const TIMELINE_AT: usize = 456;
const END_MAGIC: &[u8; 8] = b"innokEND";
const END_CHECKSUM_AT: usize = 60;
const CREATOR: &[u8; 32] = b"innokit redo archive\0\0\0\0\0\0\0\0\0\0\0\0";

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// LSN of the first byte, where a mini-transaction starts.
    pub start: Lsn,
    /// From 1; the next timeline begins where LSNs repeat with other content.
    pub timeline: u32,
    /// The checkpoint at which the segment starts.
    pub checkpoint: Option<Checkpoint>,
    /// Whether and how the payload is encrypted.
    pub format: Format,
}

impl SegmentHeader {
    /// The header for a log whose own header is `log`. `None` if `log` is too short.
    #[must_use]
    pub fn build(&self, log: &[u8]) -> Option<Vec<u8>> {
        let mut header = vec![0; START_OFFSET];
        for kept in [0..LOG_HEADER_START_LSN, LOG_HEADER_KEY..LOG_HEADER_KEY + LOG_HEADER_KEY_SIZE] {
            header.get_mut(kept.clone())?.copy_from_slice(log.get(kept)?);
        }
        be::put_u64(&mut header, LOG_HEADER_START_LSN, self.start.0)?;
        header.get_mut(LOG_HEADER_CREATOR..)?.get_mut(..CREATOR.len())?.copy_from_slice(CREATOR);
        header.get_mut(MAGIC_AT..)?.get_mut(..MAGIC.len())?.copy_from_slice(MAGIC);
        be::put_u32(&mut header, TIMELINE_AT, self.timeline)?;
        let crc = crc32c(header.get(..LOG_HEADER_CHECKSUM)?);
        be::put_u32(&mut header, LOG_HEADER_CHECKSUM, crc)?;
        if let Some(checkpoint) = self.checkpoint {
            let slot = header.get_mut(CHECKPOINT_1..)?;
            be::put_u64(slot, CHECKPOINT_LSN, checkpoint.lsn.0)?;
            be::put_u64(slot, CHECKPOINT_END_LSN, checkpoint.end_lsn.0)?;
            let crc = crc32c(slot.get(..CHECKPOINT_CHECKSUM)?);
            be::put_u32(slot, CHECKPOINT_CHECKSUM, crc)?;
        }
        Some(header)
    }

    /// Reads the first [`START_OFFSET`] bytes of a segment.
    ///
    /// # Errors
    /// [`RedoError`]; [`RedoError::NoCheckpoint`] for a log file that is no segment: it lacks the magic.
    pub fn parse(header: &[u8]) -> Result<Self, RedoError> {
        let short = RedoError::TooShort { len: header.len() as u64, needed: START_OFFSET as u64 };
        if header.len() < START_OFFSET {
            return Err(short);
        }
        check_crc(header, LOG_HEADER_CHECKSUM)?;
        let number = be::u32_at(header, 0).ok_or(short)?;
        let format = Format::of_header(header).ok_or(RedoError::UnknownFormat { format: number })?;
        let is_segment = header.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC);
        let timeline = be::u32_at(header, TIMELINE_AT).filter(|_| is_segment).ok_or(RedoError::NoCheckpoint)?;
        let start = Lsn(be::u64_at(header, LOG_HEADER_START_LSN).ok_or(short)?);
        let slot = header.get(CHECKPOINT_1..).unwrap_or_default();
        let checkpoint = check_crc(slot, CHECKPOINT_CHECKSUM).ok().and_then(|()| {
            let (lsn, end_lsn) = (be::u64_at(slot, CHECKPOINT_LSN)?, be::u64_at(slot, CHECKPOINT_END_LSN)?);
            (lsn == start.0).then_some(Checkpoint { lsn: Lsn(lsn), end_lsn: Lsn(end_lsn) })
        });
        Ok(Self { start, timeline, checkpoint, format })
    }

    /// The segment as a log that never wraps.
    #[must_use]
    pub fn as_log(&self) -> LogFile {
        LogFile::straight(self.format, self.start)
    }
}

/// The end record of a closed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndRecord {
    /// LSN of the first byte.
    pub start: Lsn,
    /// LSN after the last byte.
    pub end: Lsn,
    /// Number of mini-transactions.
    pub mtrs: u64,
    /// The segment's timeline.
    pub timeline: u32,
    /// CRC-32C of the header and the payload up to the end.
    pub crc: u32,
}

impl EndRecord {
    /// The record as stored, with its checksum.
    #[must_use]
    pub fn encode(&self) -> [u8; END_RECORD_SIZE] {
        let mut bytes = [0; END_RECORD_SIZE];
        let put = |bytes: &mut [u8]| {
            bytes.get_mut(..END_MAGIC.len())?.copy_from_slice(END_MAGIC);
            be::put_u64(bytes, 8, self.start.0)?;
            be::put_u64(bytes, 16, self.end.0)?;
            be::put_u64(bytes, 24, self.mtrs)?;
            be::put_u32(bytes, 32, self.timeline)?;
            be::put_u32(bytes, 36, self.crc)?;
            let crc = crc32c(bytes.get(..END_CHECKSUM_AT)?);
            be::put_u32(bytes, END_CHECKSUM_AT, crc)
        };
        // All places are within the record.
        put(&mut bytes).unwrap_or_default();
        bytes
    }

    /// Reads an end record; `None` if the bytes are not one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..END_RECORD_SIZE).filter(|bytes| bytes.starts_with(END_MAGIC))?;
        check_crc(bytes, END_CHECKSUM_AT).ok()?;
        let (start, end) = (Lsn(be::u64_at(bytes, 8)?), Lsn(be::u64_at(bytes, 16)?));
        let (mtrs, timeline, crc) = (be::u64_at(bytes, 24)?, be::u32_at(bytes, 32)?, be::u32_at(bytes, 36)?);
        (end >= start).then_some(Self { start, end, mtrs, timeline, crc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mariadb::key_information;

    #[test]
    fn a_header_is_read_as_it_was_built_and_as_that_of_a_log() {
        let mut log = vec![0; START_OFFSET];
        be::put_u32(&mut log, 0, 0xF09F_979D).expect("a format");
        log.get_mut(LOG_HEADER_KEY..LOG_HEADER_KEY + LOG_HEADER_KEY_SIZE).expect("a key").fill(7);
        let format = Format::of_header(&log).expect("known");
        for checkpoint in [None, Some(Checkpoint { lsn: Lsn(90_000), end_lsn: Lsn(95_000) })] {
            let header = SegmentHeader { start: Lsn(90_000), timeline: 3, checkpoint, format };
            let bytes = header.build(&log).expect("built");
            assert_eq!(SegmentHeader::parse(&bytes), Ok(header));
            assert_eq!(key_information(&bytes), [7; LOG_HEADER_KEY_SIZE]);
            // What reads a log reads a segment that starts at a checkpoint.
            let read = LogFile::parse(&bytes, 1 << 20).map(|log| (log.first_lsn, log.checkpoint)).ok();
            assert_eq!(read, checkpoint.map(|checkpoint| (header.start, checkpoint)));
        }
        assert_eq!(SegmentHeader::parse(&log).map_err(|error| error.to_string().len() > 20), Err(true));
    }

    #[test]
    fn any_flipped_bit_of_an_end_record_is_noticed() {
        let record = EndRecord { start: Lsn(12_288), end: Lsn(99_999), mtrs: 17, timeline: 2, crc: 0xDEAD_BEEF };
        let bytes = record.encode();
        assert_eq!(EndRecord::parse(&bytes), Some(record));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes.get_mut(bit / 8).into_iter().for_each(|byte| *byte ^= 1 << (bit % 8));
            assert_eq!(EndRecord::parse(&bytes), None, "bit {bit}");
        }
        assert_eq!(EndRecord::parse(&bytes[..63]), None);
    }
}
