//! Makes a log of MariaDB 10.8 or later clean: what to write after its end, and the checkpoint slot for it.
//!
//! Write the mini-transaction first, at [`LogFile::offset_of`] the log's end, and make it durable; then write the slot. Until the slot is
//! written, the log is unchanged. The slot is a single sector.
//!
//! Source: MariaDB 10.8 to 11.8 `log0log.cc`, `log0recv.cc`; a server of 10.11 starts on such a log without recovery.

use crate::log_key::LogKey;
use crate::mariadb::{
    CHECKPOINT_1, CHECKPOINT_2, CHECKPOINT_CHECKSUM, CHECKPOINT_END_LSN, CHECKPOINT_LSN, Format, LOG_HEADER_CHECKSUM,
    LOG_HEADER_KEY, LOG_HEADER_START_LSN, LogFile, START_OFFSET,
};
use format::bytes::be;
use format::checksum::crc32c;
use format::types::{Lsn, SpaceId};

/// Bytes of a checkpoint slot.
pub const SLOT_SIZE: usize = 64;
const FILE_MODIFY: u8 = 0xB0;
const FILE_CHECKPOINT: u8 = 0xF0;
/// Lengths up to this one fit in a record's first byte.
const SHORT_MAX: usize = 15;

/// The bytes that close a log which ends at `end`: for each tablespace in `named`, a mini-transaction with its file name (`./db/t.ibd`),
/// then one that names `end` as the checkpoint, and a zero, so that whatever comes after it is no mini-transaction. They may wrap, like
/// everything in the log. An encrypted log is closed with its `key`. `None` for formats before 10.8, which are closed differently, for an
/// encrypted log without its key, and for an `end` before the log's start.
///
/// A tablespace must be named if the log created or renamed its file. If that transaction had not finished, the server will roll it back,
/// and until then the dictionary does not have the file's name.
#[must_use]
pub fn closing<'n>(
    file: &LogFile,
    key: Option<&LogKey>,
    end: Lsn,
    named: impl IntoIterator<Item = (SpaceId, &'n [u8])>,
) -> Option<Vec<u8>> {
    if end < file.first_lsn {
        return None;
    }
    let mut bytes = Vec::new();
    for (space, name) in named {
        put_mtr(&mut bytes, file, key, end, &record(FILE_MODIFY, space, name)?)?;
    }
    put_mtr(&mut bytes, file, key, end, &record(FILE_CHECKPOINT, SpaceId::SYSTEM, &end.0.to_be_bytes())?)?;
    bytes.push(0);
    Some(bytes)
}

/// A file record: type and length, tablespace, page 0, and the rest.
fn record(kind: u8, space: SpaceId, rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = varint(space.0)?;
    body.push(0);
    body.extend_from_slice(rest);
    let mut record = vec![kind];
    if body.len() <= SHORT_MAX {
        *record.first_mut()? |= u8::try_from(body.len()).ok()?;
    } else {
        // The length includes its own bytes.
        let lens = (1..=3).filter_map(|own| varint(u32::try_from(body.len() + own - SHORT_MAX).ok()?));
        record.extend(lens.zip(1..).find(|(len, own)| len.len() == *own)?.0);
    }
    record.extend(body);
    Some(record)
}

/// A number in its shortest form; each form starts where the previous one ends.
fn varint(value: u32) -> Option<Vec<u8>> {
    const FORMS: [(u8, u32); 5] = [(0, 0), (0x80, 128), (0xC0, 16512), (0xE0, 2_113_664), (0xF0, 270_549_120)];
    let (number, (mark, from)) = FORMS.into_iter().enumerate().rfind(|&(_, (_, from))| value >= from)?;
    let len = number + 1;
    let mut bytes = (value - from).to_be_bytes().to_vec();
    if len > bytes.len() {
        bytes.insert(0, 0);
    }
    let mut bytes = bytes.split_off(bytes.len() - len);
    *bytes.first_mut()? |= mark;
    Some(bytes)
}

/// Appends a mini-transaction to `bytes`, which start at LSN `end`.
fn put_mtr(bytes: &mut Vec<u8>, file: &LogFile, key: Option<&LogKey>, end: Lsn, records: &[u8]) -> Option<()> {
    let Format::Stream { encrypted } = file.format else { return None };
    let start = end.0.checked_add(bytes.len() as u64)?;
    // Unique, like the server's nonces. Those are LSNs too, of data that was durable then, so all are lower.
    let nonce = start.to_be_bytes();
    let (mut covered, nonce) = match encrypted {
        None => (records.to_vec(), [].as_slice()),
        Some(scheme) => (key?.seal_mtr(records, nonce, scheme), nonce.as_slice()),
    };
    bytes.extend_from_slice(&covered);
    bytes.push(file.sequence_bit(end.0.checked_add(bytes.len() as u64)?));
    bytes.extend_from_slice(nonce);
    covered.extend_from_slice(nonce);
    bytes.extend(crc32c(&covered).to_be_bytes());
    Some(())
}

/// A checkpoint slot for a log that ends at its checkpoint.
#[must_use]
pub fn clean_slot(lsn: Lsn) -> Option<[u8; SLOT_SIZE]> {
    let mut slot = [0; SLOT_SIZE];
    be::put_u64(&mut slot, CHECKPOINT_LSN, lsn.0)?;
    be::put_u64(&mut slot, CHECKPOINT_END_LSN, lsn.0)?;
    let crc = crc32c(slot.get(..CHECKPOINT_CHECKSUM)?);
    be::put_u32(&mut slot, CHECKPOINT_CHECKSUM, crc)?;
    Some(slot)
}

/// The first [`START_OFFSET`] bytes of a log that starts at `lsn` and has its checkpoint there. Everything else is as in `header`. The
/// bytes that [close](closing) the log at `lsn` must follow; in an encrypted log they are encrypted with the new `key`
/// ([`LogKey::renewed`]).
#[must_use]
pub fn restarted(header: &[u8], lsn: Lsn, key: Option<&LogKey>) -> Option<Vec<u8>> {
    let mut new = header.get(..START_OFFSET)?.to_vec();
    be::put_u64(&mut new, LOG_HEADER_START_LSN, lsn.0)?;
    if let Some(key) = key {
        key.put_message(&mut new, LOG_HEADER_KEY)?;
    }
    let crc = crc32c(new.get(..LOG_HEADER_CHECKSUM)?);
    be::put_u32(&mut new, LOG_HEADER_CHECKSUM, crc)?;
    new.get_mut(CHECKPOINT_1..)?.fill(0);
    new.get_mut(CHECKPOINT_1..CHECKPOINT_1 + SLOT_SIZE)?.copy_from_slice(&clean_slot(lsn)?);
    Some(new)
}

/// File offset of the slot without the newest checkpoint, given the file's header.
#[must_use]
pub fn spare_slot(header: &[u8], file: &LogFile) -> Option<usize> {
    let is_newest = |at: usize| {
        let slot = header.get(at..at + SLOT_SIZE)?;
        let is_sound = be::u32_at(slot, CHECKPOINT_CHECKSUM)? == crc32c(slot.get(..CHECKPOINT_CHECKSUM)?);
        let lsn = be::u64_at(slot, CHECKPOINT_LSN)?;
        Some(is_sound && lsn == file.checkpoint.lsn.0)
    };
    Some(if is_newest(CHECKPOINT_2)? { CHECKPOINT_1 } else { CHECKPOINT_2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogState;

    fn log(first_lsn: u64, slots: [u64; 2], size: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; size];
        bytes[..START_OFFSET].fill(0);
        bytes[..4].copy_from_slice(b"Phys");
        be::put_u64(&mut bytes, LOG_HEADER_START_LSN, first_lsn).expect("room");
        let crc = crc32c(&bytes[..LOG_HEADER_CHECKSUM]);
        be::put_u32(&mut bytes, LOG_HEADER_CHECKSUM, crc).expect("room");
        for (at, lsn) in [CHECKPOINT_1, CHECKPOINT_2].into_iter().zip(slots) {
            bytes[at..at + SLOT_SIZE].copy_from_slice(&clean_slot(Lsn(lsn)).expect("a slot"));
        }
        bytes
    }

    #[test]
    fn a_closed_log_is_byte_for_byte_a_servers() {
        let bytes = log(12288, [12288, 12288], 8 << 20);
        let file = LogFile::parse(&bytes, 8 << 20).expect("a log");
        let close = |lsn| closing(&file, None, Lsn(lsn), []).expect("closes")[..16].to_vec();
        assert_eq!(close(12288)[..11], [0xFA, 0, 0, 0, 0, 0, 0, 0, 0, 0x30, 0]);
        assert_eq!(close(12288)[11..], [1, 0x1F, 0xEC, 0x1A, 0x80]);
        assert_eq!(close(45495)[11..], [1, 0x91, 0x52, 0x6E, 0x2C]);
        assert_eq!(clean_slot(Lsn(45463)).expect("a slot")[60..], [0xC9, 0xFD, 0xCC, 0x34]);
        assert_eq!(clean_slot(Lsn(45313)).expect("a slot")[60..], [0xAB, 0x0A, 0x53, 0x15]);
    }

    #[test]
    fn names_are_recorded_byte_for_byte_as_a_server_does() {
        let bytes = log(12288, [12288, 12288], 8 << 20);
        let file = LogFile::parse(&bytes, 8 << 20).expect("a log");
        let named = [(SpaceId(8), b"./v/d.ibd".as_slice())];
        let closed = closing(&file, None, Lsn(12288), named).expect("closes");
        let server = [&[0xBB, 8, 0], b"./v/d.ibd".as_slice(), &[1, 0x32, 0x04, 0xA8, 0x8B]].concat();
        assert_eq!(closed[..17], server);
        // The checkpoint is at the start of the names.
        assert_eq!(closed[17..20], [0xFA, 0, 0]);
        assert_eq!(closed[20..28], 12288_u64.to_be_bytes());
        let long = record(0x90, SpaceId(50), b"./w/x_1_79.ibd").expect("a record");
        assert_eq!(long[..4], [0x90, 2, 0x32, 0]);
    }

    #[test]
    fn numbers_are_written_as_the_server_reads_them() {
        let cases: [(u32, &[u8]); 9] = [
            (127, &[0x7F]),
            (128, &[0x80, 0]),
            (16511, &[0xBF, 0xFF]),
            (16512, &[0xC0, 0, 0]),
            (2_113_663, &[0xDF, 0xFF, 0xFF]),
            (2_113_664, &[0xE0, 0, 0, 0]),
            (270_549_119, &[0xEF, 0xFF, 0xFF, 0xFF]),
            (270_549_120, &[0xF0, 0, 0, 0, 0]),
            (4_294_967_294, &[0xF0, 0xEF, 0xDF, 0xBF, 0x7E]),
        ];
        for (value, bytes) in cases {
            assert_eq!(varint(value).as_deref(), Some(bytes), "{value}");
        }
    }

    #[test]
    fn a_log_starts_over_at_any_lsn() {
        const SIZE: usize = START_OFFSET + 4096;
        for lsn in [12288, 45463, 90_266_787] {
            let header = restarted(&log(12288, [12300, 12288], SIZE), Lsn(lsn), None).expect("a header");
            let file = LogFile::parse(&header, SIZE as u64).expect("a log");
            assert_eq!((file.first_lsn, file.checkpoint.lsn, file.checkpoint.end_lsn), (Lsn(lsn), Lsn(lsn), Lsn(lsn)));
            assert_eq!(file.checkpoint_place(), Some(START_OFFSET as u64));
            assert_eq!(file.state(&closing(&file, None, Lsn(lsn), []).expect("closes")), Ok(LogState::Clean));
        }
    }

    #[test]
    fn closing_makes_a_log_clean_wherever_it_ends() {
        const SIZE: usize = START_OFFSET + 4096;
        for end in 12288 + 4000..12288 + 9000 {
            let mut bytes = log(12288, [12300, 12288], SIZE);
            let file = LogFile::parse(&bytes, SIZE as u64).expect("a log");
            let mut at = file.offset_of(Lsn(end)).expect("a place") as usize;
            let named = [(SpaceId(34), b"./shop/#sql-ib48.ibd".as_slice())];
            for byte in closing(&file, None, Lsn(end), named.into_iter().take(end as usize % 2)).expect("closes") {
                bytes[at] = byte;
                at = if at + 1 == SIZE { START_OFFSET } else { at + 1 };
            }
            let slot = spare_slot(&bytes, &file).expect("a slot");
            assert_eq!(slot, CHECKPOINT_2);
            bytes[slot..slot + SLOT_SIZE].copy_from_slice(&clean_slot(Lsn(end)).expect("a slot"));
            let file = LogFile::parse(&bytes, SIZE as u64).expect("a log");
            assert_eq!(file.checkpoint.lsn, Lsn(end));
            let place = file.checkpoint_place().expect("a place") as usize;
            let ring = [&bytes[place..], &bytes[START_OFFSET..place]].concat();
            assert_eq!(file.state(&ring), Ok(LogState::Clean), "end {end}");
            assert_eq!(spare_slot(&bytes, &file), Some(CHECKPOINT_1));
        }
    }
}
