//! Binary logs over arbitrary bytes: no panic, every byte accounted for, and the same events however the bytes are cut.
//!
//! The first byte says how long the pieces are; the first bits of the second put a magic number, and a format description of a real
//! server, before the rest.
#![no_main]

use std::sync::Arc;

use format::keyring::{KeyStore, Secret};
use logs::binlog::{Error, Event, MAGIC, MAGIC_ENCRYPTED, Summary, Verifier};
use libfuzzer_sys::fuzz_target;

/// A format description by MySQL 8.4 as far as its fields go: version 4, lengths of the post-headers, checksums on.
fn format_description(in_use: bool) -> Vec<u8> {
    let mut event = vec![0; 19];
    event.extend(4_u16.to_le_bytes());
    let mut version = b"8.4.3".to_vec();
    version.resize(50, 0);
    event.extend(version);
    event.extend([0; 4]);
    event.push(19);
    event.extend([13; 42]);
    event.push(1);
    let len = event.len() as u32 + 4;
    event[4] = 15;
    event[9..13].copy_from_slice(&len.to_le_bytes());
    event[13..17].copy_from_slice(&(len + 4).to_le_bytes());
    let crc = crc32(&event);
    event[17] = u8::from(in_use);
    event.extend(crc.to_le_bytes());
    event
}

/// CRC-32 as zlib computes it.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xEDB8_8320 })
    };
    !bytes.iter().fold(!0, step)
}

fn read(log: &[u8], piece: usize) -> (Vec<Event>, Result<Summary, Error>) {
    let mut keys = KeyStore::new();
    keys.insert_named("key", Secret::new(vec![7; 32]));
    keys.insert_numbered(1, 1, Secret::new(vec![7; 16]));
    let mut verifier = Verifier::with_keys(Arc::new(keys));
    let mut events = Vec::new();
    for mut piece in log.chunks(piece) {
        loop {
            match verifier.next_event(&mut piece) {
                Ok(None) => break,
                Ok(Some(event)) => events.push(event),
                Err(error) => return (events, Err(error)),
            }
        }
        assert!(piece.is_empty(), "all input is taken before more is asked for");
    }
    if let Err(error) = verifier.end() {
        return (events, Err(error));
    }
    loop {
        match verifier.next_event(&mut &[][..]) {
            Ok(None) => return (events, verifier.finish()),
            Ok(Some(event)) => events.push(event),
            Err(error) => return (events, Err(error)),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[how, head], rest)) = input.split_first_chunk() else { return };
    let mut log = match head & 3 {
        0 => Vec::new(),
        1 => MAGIC_ENCRYPTED.to_vec(),
        _ => MAGIC.to_vec(),
    };
    if head & 3 == 3 {
        log.extend(format_description(head & 4 != 0));
    }
    log.extend(rest);
    let (events, summary) = read(&log, log.len().max(1));
    assert_eq!((events.clone(), summary.clone()), read(&log, usize::from(how) + 1), "however the bytes are cut");
    for event in &events {
        assert!(event.position < log.len() as u64, "an event begins within the log");
    }
    if let Ok(summary) = summary {
        assert_eq!(summary.events, events.len() as u64);
        assert_eq!(summary.events, summary.ok + summary.no_checksum + summary.unverifiable + summary.corrupt);
    }
});
