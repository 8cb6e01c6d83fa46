//! Logs of MariaDB 10.8 and later that are sound up to where the input damages them: the same mini-transactions however the bytes are
//! cut, none behind the damage, and each record about what it is read as.
//!
//! The first bytes say how long the pieces are and what is flipped; of the rest each slice is the body of a WRITE, and three make a
//! mini-transaction.
#![no_main]

use format::checksum::crc32c;
use redo::mariadb::{LogFile, START_OFFSET};
use redo::mtr_reader::MtrReader;
use redo::record::{records, subjects};
use libfuzzer_sys::fuzz_target;

const FIRST_LSN: u64 = START_OFFSET as u64;

fn seal(bytes: &mut [u8], start: usize, at: usize) {
    let sum = crc32c(&bytes[start..start + at]).to_be_bytes();
    bytes[start + at..start + at + 4].copy_from_slice(&sum);
}

/// A log that begins with its checkpoint.
fn header(size: u64) -> LogFile {
    let mut bytes = vec![0; START_OFFSET];
    bytes[..4].copy_from_slice(b"Phys");
    bytes[8..16].copy_from_slice(&FIRST_LSN.to_be_bytes());
    seal(&mut bytes, 0, 508);
    bytes[4096..4104].copy_from_slice(&FIRST_LSN.to_be_bytes());
    bytes[4104..4112].copy_from_slice(&FIRST_LSN.to_be_bytes());
    seal(&mut bytes, 4096, 60);
    LogFile::parse(&bytes, size).expect("a header")
}

fn read(file: &LogFile, bytes: &[u8], piece: usize) -> Vec<(u64, Vec<u8>)> {
    let mut reader = MtrReader::new(file, None, file.checkpoint.lsn);
    let mut found = Vec::new();
    for mut input in bytes.chunks(piece) {
        while let Some(mtr) = reader.next_mtr(&mut input) {
            found.push((mtr.end.0, mtr.bytes.to_vec()));
        }
    }
    found
}

fuzz_target!(|input: &[u8]| {
    let Some((&[piece, at, more, flip], body)) = input.split_first_chunk() else { return };
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for mtr in body.chunks(27) {
        let start = bytes.len();
        for data in mtr.chunks(9) {
            bytes.push(0x30 | data.len() as u8);
            bytes.extend_from_slice(data);
        }
        let sum = crc32c(&bytes[start..]).to_be_bytes();
        // The ring is longer than the log: it is the first time around.
        bytes.push(1);
        bytes.extend_from_slice(&sum);
        ends.push(bytes.len());
    }
    let file = header(FIRST_LSN + bytes.len() as u64 + 512);
    let at = usize::from(u16::from_be_bytes([at, more]));
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= flip;
    }
    let damaged = if flip == 0 { bytes.len() } else { at };
    let sound = ends.iter().filter(|end| **end <= damaged).count();
    let whole = read(&file, &bytes, bytes.len().max(1));
    assert!(whole.len() >= sound, "what lies before the damage is read");
    assert!(flip == 0 || at >= bytes.len() || whole.len() < ends.len(), "and not what is damaged");
    assert_eq!(whole, read(&file, &bytes, usize::from(piece) + 1), "however it is cut");
    for (_, bytes) in &whole {
        let (mut all, mut about, mut at) = (records(bytes), subjects(bytes), 0);
        while let Some(Ok(record)) = all.next() {
            let place = std::mem::replace(&mut at, all.position())..all.position();
            assert_eq!(about.next(), Some((record.subject(), place)));
        }
    }
});
