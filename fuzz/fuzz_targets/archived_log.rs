//! Redo logs kept as an archive over arbitrary bytes: no panic, the newest checkpoint lies in the file, and the same findings however the bytes
//! are cut.
//!
//! The first byte says how long the pieces are, the second how many entries the list of checkpoints has, with offsets from the input. The rest is
//! the log: if the third byte is odd, cut into records that get right lengths, markers and checksums, so that what lies behind them is reached.
#![no_main]

use format::Lsn;
use format::checksum::crc32c;
use libfuzzer_sys::fuzz_target;
use redo::archived::{Head, first_lsn, newest, stray_byte};
use redo::mariadb::{Format, LogFile, START_OFFSET};
use redo::verify_mariadb::StreamVerifier;

const FIRST: u64 = 0x3000;

/// Mini-transactions of one record each, whose type and marker come from the input.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    for part in bytes.chunks(13) {
        let Some((&kind, body)) = part.split_first() else { continue };
        let records = [&[(kind & 0xf0).max(0x10) | body.len().max(1) as u8][..], body, if body.is_empty() { &[0] } else { &[] }].concat();
        log.extend(&records);
        log.push(kind & 1);
        log.extend(crc32c(&records).to_be_bytes());
    }
    log
}

fuzz_target!(|input: &[u8]| {
    let Some((&[piece, entries, how], rest)) = input.split_first_chunk() else { return };
    let _ = std::str::from_utf8(rest).map(first_lsn);
    let (list, body) = rest.split_at(rest.len().min(usize::from(entries % 8) * 2));
    let mut file = Vec::new();
    for offset in list.chunks_exact(2) {
        let offset = u64::from(u16::from_be_bytes([offset[0] & 3, offset[1]]));
        file.extend((if how & 2 == 0 { START_OFFSET as u64 + offset } else { offset }).to_be_bytes());
    }
    file.resize(START_OFFSET, 0);
    file.extend(if how & 1 == 0 { body.to_vec() } else { sealed(body) });
    let size = file.len() as u64;
    let head = Head::read(&file, size);
    assert!(stray_byte(&file, usize::from(entries)).is_none_or(|at| at < START_OFFSET));
    let Head::List(places) = head else { return };
    let read = |lsn: Lsn, len: usize| {
        let from = (START_OFFSET as u64 + lsn.0 - FIRST) as usize;
        Ok::<_, ()>(file.get(from..file.len().min(from.saturating_add(len))).unwrap_or_default().to_vec())
    };
    let Ok(Some(newest)) = newest(&places, Lsn(FIRST), read) else { return };
    assert!(newest.entries <= places.len() && newest.checkpoint.lsn <= newest.checkpoint.end_lsn);
    assert!(newest.checkpoint.end_lsn.0 < FIRST + size);
    let log = LogFile::kept(Format::Stream { encrypted: None }, Lsn(FIRST), newest.checkpoint, newest.first_marker);
    let from = places[0] as usize;
    let verified = |piece: usize| {
        let mut verifier = StreamVerifier::at(&log, Lsn(FIRST + (from - START_OFFSET) as u64));
        let mut found = Vec::new();
        for mut piece in file[from..].chunks(piece) {
            while let Some(damage) = verifier.next_damage(&mut piece) {
                assert!(damage.from <= damage.to);
                found.push(damage);
            }
        }
        (found, verifier.finish())
    };
    assert_eq!(verified(file.len()), verified(usize::from(piece) * 7 + 1), "however the bytes are cut");
});
