//! Making a log of MariaDB 10.8 and later clean: what is written behind its end, and the slot that says so.
//!
//! The mini-transaction goes first, to [`LogFile::offset_of`] the end of the log, and is made durable; then the slot. Until the slot is
//! written the log is as it was, and the slot is one sector.
//!
//! Source: MariaDB 10.8 to 11.8 `log0log.cc`, `log0recv.cc`; a server of 10.11 starts on such a log without recovery.

use crate::bytes::be;
use crate::page::checksum::crc32c;
use crate::redo::mariadb::{
    CHECKPOINT_1, CHECKPOINT_2, CHECKPOINT_CHECKSUM, CHECKPOINT_END_LSN, CHECKPOINT_LSN, Format, LogFile,
};
use crate::types::Lsn;

/// Bytes of a checkpoint slot.
pub const SLOT_SIZE: usize = 64;
/// First byte of FILE_CHECKPOINT, the numbers of tablespace and page, LSN.
const RECORD_SIZE: usize = 11;
/// The record, end marker and checksum, and a zero behind it, so that what lies there is no mini-transaction.
pub const CLOSING_SIZE: usize = RECORD_SIZE + 1 + 4 + 1;
const FILE_CHECKPOINT: u8 = 0xF0 | (RECORD_SIZE as u8 - 1);

/// What closes a log that ends at `end`: a mini-transaction that names `end` as the checkpoint, and a zero behind it. It may wrap, as
/// all of the log does. `None` for formats that are closed otherwise: encrypted ones and those before 10.8.
#[must_use]
pub fn closing(file: &LogFile, end: Lsn) -> Option<[u8; CLOSING_SIZE]> {
    if file.format != (Format::Stream { encrypted: None }) || end < file.first_lsn {
        return None;
    }
    let mut bytes = [0; CLOSING_SIZE];
    *bytes.first_mut()? = FILE_CHECKPOINT;
    be::put_u64(&mut bytes, 3, end.0)?;
    *bytes.get_mut(RECORD_SIZE)? = file.sequence_bit(end.0.checked_add(RECORD_SIZE as u64)?);
    let crc = crc32c(bytes.get(..RECORD_SIZE)?);
    be::put_u32(&mut bytes, RECORD_SIZE + 1, crc)?;
    Some(bytes)
}

/// A checkpoint slot for a log that ends where its checkpoint is.
#[must_use]
pub fn clean_slot(lsn: Lsn) -> Option<[u8; SLOT_SIZE]> {
    let mut slot = [0; SLOT_SIZE];
    be::put_u64(&mut slot, CHECKPOINT_LSN, lsn.0)?;
    be::put_u64(&mut slot, CHECKPOINT_END_LSN, lsn.0)?;
    let crc = crc32c(slot.get(..CHECKPOINT_CHECKSUM)?);
    be::put_u32(&mut slot, CHECKPOINT_CHECKSUM, crc)?;
    Some(slot)
}

/// File offset of the slot that does not hold the newest checkpoint, given the file's header.
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
    use crate::redo::LogState;
    use crate::redo::mariadb::{LOG_HEADER_CHECKSUM, LOG_HEADER_START_LSN, START_OFFSET};

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
        let close = |lsn| closing(&file, Lsn(lsn)).expect("closes")[..16].to_vec();
        assert_eq!(close(12288)[..11], [0xFA, 0, 0, 0, 0, 0, 0, 0, 0, 0x30, 0]);
        assert_eq!(close(12288)[11..], [1, 0x1F, 0xEC, 0x1A, 0x80]);
        assert_eq!(close(45495)[11..], [1, 0x91, 0x52, 0x6E, 0x2C]);
        assert_eq!(clean_slot(Lsn(45463)).expect("a slot")[60..], [0xC9, 0xFD, 0xCC, 0x34]);
        assert_eq!(clean_slot(Lsn(45313)).expect("a slot")[60..], [0xAB, 0x0A, 0x53, 0x15]);
    }

    #[test]
    fn closing_makes_a_log_clean_wherever_it_ends() {
        const SIZE: usize = START_OFFSET + 4096;
        for end in 12288 + 4000..12288 + 9000 {
            let mut bytes = log(12288, [12300, 12288], SIZE);
            let file = LogFile::parse(&bytes, SIZE as u64).expect("a log");
            let mut at = file.offset_of(Lsn(end)).expect("a place") as usize;
            for byte in closing(&file, Lsn(end)).expect("closes") {
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
