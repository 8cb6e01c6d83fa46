//! The file that closes a log of MySQL 8.0.3 or later. It has a checkpoint after everything in the log, followed by the table states that
//! the dictionary lacks: AUTO_INCREMENT counters are stored nowhere else.
//!
//! In a chain of files (8.0.30 and later) it is one more file, which starts where the newest one ends. In a ring it replaces the first
//! file. The others keep their old blocks, whose numbers are too low to continue the new ones.
//!
//! Source: MySQL 8.0.30 to 9.7 `log0files_io.cc`, `dict0dd.cc`, and MySQL 8.0.12 to 8.0.16 `log0log.cc`, `log0recv.cc`. Servers of 9.7 and
//! 8.0.15 start on such files and apply nothing.

use super::{
    COPIED, FORMAT_MANY_FILES, FORMAT_MID_GROUP, LOG_CHECKPOINT_1, LOG_CHECKPOINT_2, LOG_CHECKPOINT_BUF_SIZE,
    LOG_CHECKPOINT_LSN, LOG_CHECKPOINT_NO, LOG_CHECKPOINT_OFFSET, LOG_ENCRYPTION, LOG_FILE_HDR_SIZE,
    LOG_HEADER_CHECKSUM, LOG_HEADER_CREATOR, LOG_HEADER_FLAGS, LOG_HEADER_FORMAT, LOG_HEADER_START_LSN, Slot,
};
use crate::block::{
    EPOCH_BLOCKS, LOG_BLOCK_CHECKSUM, LOG_BLOCK_EPOCH_NO, LOG_BLOCK_FIRST_REC_GROUP, LOG_BLOCK_HDR_DATA_LEN,
    LOG_BLOCK_HDR_NO, LOG_BLOCK_HDR_SIZE, LOG_BLOCK_SIZE, block_number,
};
use format::bytes::be;
use format::checksum::crc32c;
use format::types::Lsn;

/// A table's record, which is a mini-transaction of its own.
pub(super) const SINGLE_TABLE_DYNAMIC_META: u8 = 0x80 | 62;
const META_AUTO_INCREMENT: u8 = 2;
const PAYLOAD_SIZE: usize = LOG_BLOCK_CHECKSUM - LOG_BLOCK_HDR_SIZE;

/// A table state that the dictionary lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableNote {
    /// The table's id in the dictionary.
    pub table: u64,
    /// Version of its definition.
    pub version: u64,
    /// The last AUTO_INCREMENT value given.
    pub auto_increment: Option<u64>,
    /// Everything after the version, as stored in the log.
    pub state: Vec<u8>,
}

impl TableNote {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(SINGLE_TABLE_DYNAMIC_META);
        put_mc64(bytes, self.table);
        put_mc64(bytes, self.version);
        match self.auto_increment {
            Some(value) => {
                bytes.push(META_AUTO_INCREMENT);
                put_mc64(bytes, value);
            }
            None => bytes.extend_from_slice(&self.state),
        }
    }
}

fn put_mc64(bytes: &mut Vec<u8>, value: u64) {
    const LONG: u8 = 0xFF;
    let [high, low] = [value >> 32, value & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or(u32::MAX));
    if high != 0 {
        bytes.push(LONG);
        put_cint(bytes, high);
    }
    put_cint(bytes, low);
}

fn put_cint(bytes: &mut Vec<u8>, value: u32) {
    let [_, b1, b2, b3] = value.to_be_bytes();
    match value {
        0..=0x7F => bytes.push(b3),
        0x80..=0x3FFF => bytes.extend([0x80 | b2, b3]),
        0x4000..=0x1F_FFFF => bytes.extend([0xC0 | b1, b2, b3]),
        0x20_0000..=0xFFF_FFFF => bytes.extend((value | 0xE000_0000).to_be_bytes()),
        _ => {
            bytes.push(0xF0);
            bytes.extend(value.to_be_bytes());
        }
    }
}

/// The checkpoint of a file that starts at `start`.
#[must_use]
pub const fn checkpoint_of(start: Lsn) -> Lsn {
    Lsn(start.0.saturating_add(LOG_BLOCK_HDR_SIZE as u64))
}

/// The creator's name in a file that follows a copy of a log: the copy does not hold the log's own creator.
pub(super) const CREATOR: &[u8] = b"innokit";

/// The first bytes of another file for the log whose files have this `header`: it starts at `start`, a multiple of 512, with its checkpoint
/// there, and holds `notes`. Zeros must follow. `None` for a header of another format and any other `start`.
#[must_use]
pub fn new_file(header: &[u8], start: Lsn, notes: &[TableNote]) -> Option<Vec<u8>> {
    let mut file = vec![0; LOG_FILE_HDR_SIZE];
    let old = header.get(..LOG_HEADER_FLAGS)?;
    if be::u32_at(old, LOG_HEADER_FORMAT)? != FORMAT_MANY_FILES || !start.0.is_multiple_of(LOG_BLOCK_SIZE as u64) {
        return None;
    }
    file.get_mut(..LOG_HEADER_FLAGS)?.copy_from_slice(old);
    let creator = file.get_mut(LOG_HEADER_CREATOR..LOG_HEADER_FLAGS)?;
    if creator.starts_with(COPIED) {
        creator.fill(0);
        creator.get_mut(..CREATOR.len())?.copy_from_slice(CREATOR);
    }
    be::put_u64(&mut file, LOG_HEADER_START_LSN, start.0)?;
    be::put_u64(&mut file, LOG_CHECKPOINT_1 + LOG_CHECKPOINT_LSN, checkpoint_of(start).0)?;
    seal_header(&mut file)?;
    put_notes(&mut file, start, notes, epoch_of)?;
    Some(file)
}

/// The first bytes of the file that replaces `ib_logfile0` in a ring, whose first file has this `header`: its first block is that of
/// `start`, a multiple of 512, with the checkpoint there, and it holds `notes`. Zeros must follow, up to the size of the old file. `None`
/// for a header without a checkpoint or of another format, and for any other `start`.
#[must_use]
pub fn new_first_file(header: &[u8], start: Lsn, notes: &[TableNote]) -> Option<Vec<u8>> {
    let old = header.get(..LOG_FILE_HDR_SIZE)?;
    let format = be::u32_at(old, LOG_HEADER_FORMAT)?;
    if !(FORMAT_MID_GROUP..FORMAT_MANY_FILES).contains(&format) || !start.0.is_multiple_of(LOG_BLOCK_SIZE as u64) {
        return None;
    }
    let slots = [LOG_CHECKPOINT_1, LOG_CHECKPOINT_2].map(|at| Some((at, Slot::read(old, at)?)));
    let (newest, Slot { number, .. }) = slots.into_iter().flatten().max_by_key(|(_, slot)| slot.number)?;
    let next = number.checked_add(1)?;
    let mut file = vec![0; LOG_FILE_HDR_SIZE];
    file.get_mut(..LOG_HEADER_FLAGS)?.copy_from_slice(old.get(..LOG_HEADER_FLAGS)?);
    be::put_u64(&mut file, LOG_HEADER_START_LSN, start.0)?;
    // The server continues to encrypt with this key.
    file.get_mut(LOG_ENCRYPTION..LOG_CHECKPOINT_2)?.copy_from_slice(old.get(LOG_ENCRYPTION..LOG_CHECKPOINT_2)?);
    for at in [LOG_CHECKPOINT_1, LOG_CHECKPOINT_2] {
        be::put_u64(&mut file, at + LOG_CHECKPOINT_NO, next)?;
        be::put_u64(&mut file, at + LOG_CHECKPOINT_LSN, checkpoint_of(start).0)?;
        be::put_u64(&mut file, at + LOG_CHECKPOINT_OFFSET, (LOG_FILE_HDR_SIZE + LOG_BLOCK_HDR_SIZE) as u64)?;
        let buffer = be::u64_at(old, newest + LOG_CHECKPOINT_BUF_SIZE)?;
        be::put_u64(&mut file, at + LOG_CHECKPOINT_BUF_SIZE, buffer)?;
    }
    seal_header(&mut file)?;
    // Blocks name the checkpoint that will follow them, by the low half of its number.
    let following = u32::try_from(next.checked_add(1)? & u64::from(u32::MAX)).ok()?;
    put_notes(&mut file, start, notes, |_| Some(following))?;
    Some(file)
}

/// Recomputes the checksums of the header block and of both checkpoint slots.
fn seal_header(file: &mut [u8]) -> Option<()> {
    for at in [0, LOG_CHECKPOINT_1, LOG_CHECKPOINT_2] {
        let crc = crc32c(file.get(at..at + LOG_HEADER_CHECKSUM)?);
        be::put_u32(file, at + LOG_HEADER_CHECKSUM, crc)?;
    }
    Some(())
}

/// The epoch of a block of format 6.
fn epoch_of(lsn: Lsn) -> Option<u32> {
    u32::try_from(lsn.0 / LOG_BLOCK_SIZE as u64 / EPOCH_BLOCKS + 1).ok()
}

/// Appends blocks with `notes` to a file whose first block is that of `start`. `counter_of` gives a block's epoch or checkpoint number.
fn put_notes(
    file: &mut Vec<u8>,
    start: Lsn,
    notes: &[TableNote],
    counter_of: impl Fn(Lsn) -> Option<u32>,
) -> Option<()> {
    let (mut payload, mut starts) = (Vec::new(), Vec::new());
    for note in notes {
        starts.push(payload.len());
        note.put(&mut payload);
    }
    // The next record starts after the last one.
    starts.push(payload.len());
    let count = payload.len() / PAYLOAD_SIZE + 1;
    for number in 0..count {
        let from = number * PAYLOAD_SIZE;
        let data = payload.get(from..payload.len().min(from + PAYLOAD_SIZE))?;
        let first = starts.get(starts.partition_point(|at| *at < from)).map(|at| at - from);
        let first = first.filter(|at| *at < PAYLOAD_SIZE);
        let lsn = Lsn(start.0.checked_add((number * LOG_BLOCK_SIZE) as u64)?);
        file.extend(block(lsn, counter_of(lsn)?, data, first)?);
    }
    Some(())
}

/// A block with `data`, in which `first` is the offset of the first record that starts in it.
fn block(lsn: Lsn, counter: u32, data: &[u8], first: Option<usize>) -> Option<[u8; LOG_BLOCK_SIZE]> {
    let mut block = [0; LOG_BLOCK_SIZE];
    let is_full = data.len() == PAYLOAD_SIZE;
    let len = if is_full { LOG_BLOCK_SIZE } else { LOG_BLOCK_HDR_SIZE + data.len() };
    let first = first.map_or(0, |first| first + LOG_BLOCK_HDR_SIZE);
    be::put_u32(&mut block, LOG_BLOCK_HDR_NO, block_number(lsn))?;
    be::put_u16(&mut block, LOG_BLOCK_HDR_DATA_LEN, u16::try_from(len).ok()?)?;
    be::put_u16(&mut block, LOG_BLOCK_FIRST_REC_GROUP, u16::try_from(first).ok()?)?;
    be::put_u32(&mut block, LOG_BLOCK_EPOCH_NO, counter)?;
    block.get_mut(LOG_BLOCK_HDR_SIZE..LOG_BLOCK_HDR_SIZE + data.len())?.copy_from_slice(data);
    let crc = crc32c(block.get(..LOG_BLOCK_CHECKSUM)?);
    be::put_u32(&mut block, LOG_BLOCK_CHECKSUM, crc)?;
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::LogBlock;
    use crate::mysql::mtr_reader::MtrReader;
    use crate::mysql::{LogFile, newest_checkpoint};
    use crate::record::{FileRecord, RedoRecord, TableState};

    const START: Lsn = Lsn(84_237_312);

    fn note(table: u64) -> TableNote {
        TableNote { table, version: table % 3, auto_increment: Some(table * table * 77_777), state: Vec::new() }
    }

    #[test]
    fn a_log_that_is_closed_says_of_tables_what_it_said_before() {
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        header[3] = 6;
        header[16..27].copy_from_slice(b"MySQL 9.7.4");
        for count in [0, 1, 40, 41, 42, 43, 44, 1000, 20_000] {
            let notes: Vec<TableNote> = (0..count).map(note).collect();
            let file = new_file(&header, Lsn(84_237_312), &notes).expect("a file");
            let parsed = LogFile::parse(&file, file.len() as u64 + 512).expect("a header");
            assert_eq!((parsed.creator.as_str(), parsed.flags), ("MySQL 9.7.4", 0));
            let checkpoint = newest_checkpoint(&[parsed]).expect("a checkpoint");
            assert_eq!((checkpoint.lsn, checkpoint.offset), (Lsn(84_237_324), 2048));
            assert_eq!(notes_in(6, checkpoint.lsn, &[&file[2048..], &[0; 512]].concat()), notes);
        }
        assert_eq!(new_file(&header, Lsn(84_237_313), &[]), None);
    }

    /// The notes in these blocks, after which the log ends.
    fn notes_in(format: u32, checkpoint: Lsn, mut blocks: &[u8]) -> Vec<TableNote> {
        let mut reader = MtrReader::new(format, checkpoint, Vec::new());
        let mut found = Vec::new();
        while let Some(mtr) = reader.next_mtr(&mut blocks) {
            for record in mtr.records() {
                let Ok(RedoRecord::File(FileRecord::Table(state))) = record else { panic!("{record:?}") };
                let TableState { table, version, auto_increment, .. } = state;
                found.push(TableNote { table, version, auto_increment, state: Vec::new() });
            }
        }
        assert!(reader.has_ended() && reader.fault().is_none());
        found
    }

    /// A header of a ring's first file with its checkpoints: numbers and LSNs.
    fn ring_header(format: u8, checkpoints: [(u64, u64); 2]) -> Vec<u8> {
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        header[3] = format;
        header[16..28].copy_from_slice(b"MySQL 8.0.15");
        header[LOG_ENCRYPTION + 48..][..3].copy_from_slice(b"lCC");
        for (at, (number, lsn)) in [LOG_CHECKPOINT_1, LOG_CHECKPOINT_2].into_iter().zip(checkpoints) {
            header[at..][..8].copy_from_slice(&number.to_be_bytes());
            header[at + 8..][..8].copy_from_slice(&lsn.to_be_bytes());
            header[at + 24..][..8].copy_from_slice(&(16_u64 << 20).to_be_bytes());
        }
        seal_header(&mut header).expect("a header");
        header
    }

    #[test]
    fn a_ring_that_is_closed_begins_again_in_its_first_file() {
        let header = ring_header(3, [(40, 70_000_000), (41, 80_000_000)]);
        for count in [0, 1, 42, 1000] {
            let notes: Vec<TableNote> = (0..count).map(note).collect();
            let file = new_first_file(&header, START, &notes).expect("a file");
            let size = 8 << 20;
            let first = LogFile::parse(&file, size).expect("a header");
            assert_eq!((first.creator.as_str(), first.format, first.start_lsn), ("MySQL 8.0.15", 3, START));
            assert_eq!(file[LOG_ENCRYPTION..LOG_CHECKPOINT_2], header[LOG_ENCRYPTION..LOG_CHECKPOINT_2]);
            let slots = [LOG_CHECKPOINT_1, LOG_CHECKPOINT_2].map(|at| Slot::read(&file, at).expect("a checkpoint"));
            assert!(slots.iter().all(|slot| slot.number == 42 && slot.lsn == checkpoint_of(START)), "{slots:?}");
            let second = LogFile { start_lsn: Lsn(8192), ..first.clone() };
            let checkpoint = newest_checkpoint(&[first, second]).expect("a checkpoint");
            assert_eq!((checkpoint.lsn, checkpoint.file, checkpoint.offset), (checkpoint_of(START), 0, 2048));
            let block = LogBlock::parse(file[2048..2560].try_into().expect("a block"), START).expect("sound");
            assert_eq!(block.epoch, 43, "the checkpoint that follows");
            assert_eq!(notes_in(3, checkpoint.lsn, &[&file[2048..], &[0; 512]].concat()), notes);
        }
        assert_eq!(new_first_file(&header, Lsn(START.0 + 12), &[]), None);
        for format in [1, 2, 6] {
            assert_eq!(new_first_file(&ring_header(format, [(1, 8204); 2]), START, &[]), None, "format {format}");
        }
        let mut torn = header.clone();
        torn[LOG_CHECKPOINT_2 + 9] ^= 1;
        let file = new_first_file(&torn, START, &[]).expect("the other slot is whole");
        assert_eq!(Slot::read(&file, LOG_CHECKPOINT_1).map(|slot| slot.number), Some(41));
        torn[LOG_CHECKPOINT_1 + 9] ^= 1;
        assert_eq!(new_first_file(&torn, START, &[]), None);
    }

    #[test]
    fn a_record_of_a_table_is_byte_for_byte_the_servers() {
        let mut bytes = Vec::new();
        TableNote { table: 5, version: 0, auto_increment: Some(181), state: Vec::new() }.put(&mut bytes);
        assert_eq!(bytes, [0xBE, 5, 0, 2, 0x80, 0xB5]);
        bytes.clear();
        TableNote { table: 1204, version: 0, auto_increment: Some(22344), state: Vec::new() }.put(&mut bytes);
        assert_eq!(bytes, [0xBE, 0x84, 0xB4, 0, 2, 0xC0, 0x57, 0x48]);
    }
}
