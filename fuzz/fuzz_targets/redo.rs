//! Redo log headers, log blocks and mini-transactions over arbitrary bytes: no panic, and the same findings however the bytes are
//! cut.
//!
//! The first byte chooses the format; the second says how long the pieces are. The header's and the checkpoints' checksums are
//! put right, so that what lies behind them is reached.
#![no_main]

use format::checksum::crc32c;
use redo::verify_blocks::{BlockScheme, BlockVerifier};
use redo::verify_mariadb::{self, StreamVerifier, Verifier};
use redo::{identify, mariadb, mysql, verify_mysql};
use format::Lsn;
use libfuzzer_sys::fuzz_target;

fn seal(bytes: &mut [u8], start: usize, at: usize) {
    let Some(covered) = bytes.get(start..start + at) else { return };
    let sum = crc32c(covered).to_be_bytes();
    if let Some(place) = bytes.get_mut(start + at..start + at + 4) {
        place.copy_from_slice(&sum);
    }
}

fn blocks(new: impl Fn() -> BlockVerifier, bytes: &[u8], piece: usize) {
    let read = |piece: usize| {
        let mut verifier = new();
        let mut found = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while let Some(damage) = verifier.next_damage(&mut piece) {
                found.push(damage);
            }
        }
        (found, verifier.finish())
    };
    assert_eq!(read(bytes.len().max(1)), read(piece), "however the bytes are cut");
}

fn stream(log: &mariadb::LogFile, bytes: &[u8], piece: usize) {
    let read = |piece: usize| {
        let mut verifier = StreamVerifier::new(log);
        let mut found = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while let Some(damage) = verifier.next_damage(&mut piece) {
                assert!(damage.from <= damage.to);
                found.push(damage);
            }
        }
        (found, verifier.finish())
    };
    assert_eq!(read(bytes.len().max(1)), read(piece), "however the bytes are cut");
}

fn mysql_log(mut file: Vec<u8>, format: u32, piece: usize) {
    file[..4].copy_from_slice(&format.to_be_bytes());
    for start in [0, mysql::LOG_CHECKPOINT_1, mysql::LOG_CHECKPOINT_2] {
        seal(&mut file, start, 508);
    }
    // MariaDB 10.2 has the number of MySQL 5.7 and is told by its name.
    assert!(identify(&file).is_ok() || (format == 1 && file[16..].starts_with(b"MariaDB")));
    let Ok(log) = mysql::LogFile::parse(&file, file.len() as u64) else { return };
    let Ok(plan) = verify_mysql::plan(&[log]) else { return };
    for part in &plan.segments {
        assert!(part.offset + part.len <= file.len() as u64, "segments lie within the file");
    }
    let body = &file[mysql::LOG_FILE_HDR_SIZE..];
    let scheme = if format == 6 { BlockScheme::MySqlFiles } else { BlockScheme::MySqlRing };
    let start = Lsn(plan.checkpoint.0 - plan.checkpoint.0 % 512);
    blocks(|| BlockVerifier::new(scheme, start, plan.checkpoint), body, piece);
}

fn mariadb_log(mut file: Vec<u8>, format: u32, piece: usize) {
    file[..4].copy_from_slice(&format.to_be_bytes());
    seal(&mut file, 0, 508);
    for start in [512, 1536] {
        seal(&mut file, start, 508);
    }
    for start in [mariadb::CHECKPOINT_1, mariadb::CHECKPOINT_2] {
        seal(&mut file, start, 60);
    }
    let Ok(log) = mariadb::LogFile::parse(&file, file.len() as u64) else { return };
    let Ok(plan) = verify_mariadb::plan(&log) else { return };
    let body: Vec<u8> = plan
        .segments
        .iter()
        .flat_map(|part| file[part.offset as usize..(part.offset + part.len) as usize].iter().copied())
        .collect();
    match plan.verifier {
        Verifier::Blocks(_) => {
            let start = Lsn(log.checkpoint.lsn.0 - log.checkpoint.lsn.0 % 512);
            let is_encrypted = log.format == mariadb::Format::Blocks { encrypted: true };
            let scheme = if is_encrypted { BlockScheme::MariaDbEncrypted } else { BlockScheme::MariaDb };
            blocks(|| BlockVerifier::new(scheme, start, log.checkpoint.lsn), &body, piece);
        }
        Verifier::Stream(_) => stream(&log, &body, piece),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, piece], rest)) = input.split_first_chunk() else { return };
    let piece = usize::from(piece) * 7 + 1;
    // A whole header costs the fuzzer thousands of bytes that mean nothing: only what has a meaning is taken from the input.
    let mut file = vec![0; mariadb::START_OFFSET];
    let (fields, body) = rest.split_at(rest.len().min(64));
    for (at, bytes) in [8, 16, 48, 512, 520, 528, 1544, 4096, 8192].into_iter().zip(fields.chunks(8)) {
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }
    match choice % 10 {
        format @ 0..=5 => {
            file.truncate(mysql::LOG_FILE_HDR_SIZE);
            file.extend(body);
            mysql_log(file, u32::from(format) + 1, piece);
        }
        6 | 7 => {
            file.truncate(2048);
            file.extend(body);
            mariadb_log(file, if choice % 10 == 6 { 0x5048_5953 } else { 0xD048_5953 }, piece);
        }
        last => {
            file.extend(body);
            mariadb_log(file, if last == 8 { 0x5068_7973 } else { 0xF09F_979D }, piece);
        }
    }
});
