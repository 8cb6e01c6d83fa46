//! Redo logs that MariaDB 13.0 keeps as an archive, written by the rules of its sources.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod kept_writer;

use std::convert::Infallible;

use format::checksum::crc32c;
use innokit_format::Lsn;
use innokit_redo::LogState;
use innokit_redo::archived::{Head, Newest, SLOTS, file_name, first_lsn, header, newest, next_entry, stray_byte};
use innokit_redo::mariadb::{Format, LogFile};
use innokit_redo::verify_mariadb::{StreamDamage, StreamEnd, StreamSummary, StreamVerifier};
use kept_writer::{CAPACITY, FILE_SIZE, START, Writer, file_checkpoint, file_modify, mtr, write};
use proptest::prelude::*;

extern crate format as innokit_format;

const FORMAT: Format = Format::Stream { encrypted: None };

/// Three checkpoints, and changes behind the last.
fn log() -> Writer {
    let mut log = Writer::new(START);
    for round in 0..3_u8 {
        let lsn = log.end();
        for change in 0..40 {
            log.append(&write(7, &[round, change, 1]));
        }
        log.checkpoint(lsn);
    }
    for change in 0..200 {
        log.append(&write(7, &[9, change, 2]));
    }
    log
}

fn places(file: &[u8]) -> Vec<u64> {
    match Head::read(file, file.len() as u64) {
        Head::List(places) => places,
        other => panic!("{other:?}"),
    }
}

/// The newest checkpoint of a log in one file that begins at `first`.
fn newest_of(file: &[u8], first: u64) -> Option<Newest> {
    let Head::List(places) = Head::read(file, file.len() as u64) else { return None };
    let read = |lsn: Lsn, len: usize| {
        let from = usize::try_from(START + lsn.0 - first).expect("short");
        Ok::<_, Infallible>(file.get(from..file.len().min(from + len)).unwrap_or_default().to_vec())
    };
    newest(&places, Lsn(first), read).expect("never fails")
}

/// Verifies a log in one file from its first checkpoint's records on.
fn verified(file: &[u8], first: u64) -> (Vec<StreamDamage>, StreamSummary) {
    let newest = newest_of(file, first).expect("a checkpoint");
    let parsed = LogFile::kept(FORMAT, Lsn(first), newest.checkpoint, newest.first_marker);
    let from = places(file)[0];
    let mut verifier = StreamVerifier::at(&parsed, Lsn(first + from - START));
    let (mut bytes, mut found) = (&file[from as usize..], Vec::new());
    while let Some(damage) = verifier.next_damage(&mut bytes) {
        found.push(damage);
    }
    let (left, summary) = verifier.finish();
    found.extend(left);
    (found, summary)
}

#[test]
fn files_are_named_for_their_first_lsn() {
    assert_eq!(first_lsn("ib_ffffffffff803000.log"), Some(Lsn(0xffff_ffff_ff80_3000)));
    assert_eq!(file_name(Lsn(12_288)), "ib_0000000000003000.log");
    for other in
        ["ib_0000000000002fff.log", "ib_3000.log", "ib_000000000000300g.log", "ib_logfile0", "ib_+000000000003000.log"]
    {
        assert_eq!(first_lsn(other), None, "{other}");
    }
}

#[test]
fn headers_are_told_apart() {
    let read = |head: &[u8]| {
        let mut file = head.to_vec();
        file.resize(START as usize, 0);
        Head::read(&file, FILE_SIZE)
    };
    assert_eq!(read(&[]), Head::Blank);
    assert_eq!(read(&header(START)), Head::List(vec![START]));
    assert_eq!(read(&1_u64.to_be_bytes()), Head::Encrypted);
    // `innodb/t/log_archive.test` of a preview writes offsets of four bytes.
    assert_eq!(read(&4_194_303_u32.to_be_bytes()), Head::Preview(4_194_303));
    assert_eq!(read(&FILE_SIZE.to_be_bytes()), Head::Unknown, "outside of the file");
    assert_eq!(read(&(START - 1).to_be_bytes()), Head::Unknown, "in the header");
    assert_eq!(Head::read(&[0; 100], FILE_SIZE), Head::Unknown, "cut off");
    let mut ring = vec![0; 512];
    ring[..4].copy_from_slice(&0x5068_7973_u32.to_be_bytes());
    ring[8..16].copy_from_slice(&START.to_be_bytes());
    let sum = crc32c(&ring[..508]);
    ring[508..].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(read(&ring), Head::Ring);
    ring[20] ^= 1;
    assert_eq!(read(&ring), Head::Unknown, "its checksum is wrong");
}

#[test]
fn the_last_entry_that_leads_to_a_checkpoint_counts() {
    let mut log = log();
    let [.., before, last] = log.checkpoints[..] else { panic!("three") };
    let (_, file) = log.files().remove(0);
    let found = newest_of(&file, START).expect("found");
    assert_eq!((found.entries, found.checkpoint.end_lsn, found.first_marker), (3, Lsn(last), 1));
    assert!(found.checkpoint.lsn < Lsn(last) && found.checkpoint.lsn > Lsn(before));
    assert_eq!(stray_byte(&file, 3), None);
    // All entries are in use: the last one is written again.
    while log.checkpoints.len() < SLOTS + 5 {
        let lsn = log.end();
        log.checkpoint(lsn);
    }
    let last = *log.checkpoints.last().expect("some");
    log.checkpoints.drain(SLOTS - 1..SLOTS + 4);
    let (_, file) = log.files().remove(0);
    let found = newest_of(&file, START).expect("found");
    assert_eq!((found.entries, found.checkpoint.end_lsn), (SLOTS, Lsn(last)));
    assert_eq!(next_entry(SLOTS, START), (START as usize - 8, START.to_be_bytes()));
}

#[test]
fn any_damaged_bit_of_the_list_is_seen_and_leads_to_no_later_checkpoint() {
    let (_, file) = log().files().remove(0);
    let sound = newest_of(&file, START).expect("found");
    for bit in 0..4 * 8 * 8 {
        let mut file = file.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        let entries = match Head::read(&file, FILE_SIZE) {
            Head::List(places) => places.len(),
            // It may look like the form of a preview: its place leads to no checkpoint.
            Head::Preview(place) => {
                let rest = usize::try_from(place).ok().and_then(|place| file.get(place..)).unwrap_or_default();
                assert!(!rest.starts_with(&[0xfa]), "bit {bit}");
                continue;
            }
            _ => continue,
        };
        let found = newest_of(&file, START);
        let counted = found.map_or(0, |found| found.entries);
        assert!(counted < entries || stray_byte(&file, counted).is_some(), "bit {bit}: {found:?}");
        assert!(found.is_none_or(|found| found.checkpoint.end_lsn <= sound.checkpoint.end_lsn), "bit {bit}");
    }
    let mut file = file;
    file[START as usize - 1] = 7;
    assert_eq!(stray_byte(&file, 3), Some(START as usize - 1));
}

#[test]
fn what_a_ring_left_in_the_header_is_no_damage() {
    let (_, mut file) = log().files().remove(0);
    for at in [4096, 8192] {
        file[at..at + 8].copy_from_slice(&99_u64.to_be_bytes());
        let sum = crc32c(&file[at..at + 60]);
        file[at + 60..at + 64].copy_from_slice(&sum.to_be_bytes());
    }
    assert_eq!(stray_byte(&file, 3), None);
    file[4100] ^= 1;
    assert_eq!(stray_byte(&file, 3), Some(4100), "its checksum is wrong now");
}

#[test]
fn a_sound_log_is_walked_to_its_end_whatever_its_end_markers_are() {
    let log = log();
    let (_, file) = log.files().remove(0);
    let (found, summary) = verified(&file, START);
    assert_eq!((found, summary.ends, summary.end), (Vec::new(), StreamEnd::Marked, Lsn(log.end())));
    assert!(summary.names_checkpoint);
    let mut mixed = Writer::new(START);
    mixed.append(&write(7, b"before"));
    let lsn = mixed.end();
    mixed.checkpoint(lsn);
    // While the file was a ring, in a lap with the other marker.
    for round in 0..50 {
        mixed.log.extend(mtr(&write(7, &[round]), round & 1));
    }
    let (_, file) = mixed.files().remove(0);
    let (found, summary) = verified(&file, START);
    assert_eq!((found, summary.end), (Vec::new(), Lsn(mixed.end())));
}

#[test]
fn any_damaged_bit_of_the_log_is_found() {
    let log = log();
    let (_, file) = log.files().remove(0);
    let (from, end) = (places(&file)[0] as usize, (START + log.end() - log.first) as usize);
    let sound = verified(&file, START).1;
    for at in (from..end).step_by(7) {
        let mut file = file.clone();
        file[at] ^= 1 << (at % 8);
        if newest_of(&file, START).is_none() {
            continue;
        }
        let (found, summary) = verified(&file, START);
        let marker = summary == sound;
        assert!(marker || !found.is_empty() || summary.ends == StreamEnd::Torn || summary.end < sound.end, "byte {at}");
        // Only a marker may have either value.
        assert!(!marker || file[at] <= 1, "byte {at}");
    }
}

#[test]
fn an_earlier_lap_behind_the_end_is_no_continuation() {
    for own in [0, 1] {
        let mut ring = Writer::new(START);
        ring.log.extend(mtr(&write(7, b"change"), own));
        let lsn = ring.end();
        ring.checkpoints.push(lsn);
        ring.log.extend(mtr(&file_modify(7, "./a/b.ibd"), own));
        ring.log.extend(mtr(&file_checkpoint(lsn), own));
        for round in 0..2000_u16 {
            ring.log.extend(mtr(&write(7, &round.to_be_bytes()), own));
        }
        let end = ring.end();
        // An incomplete write, and behind it the lap before.
        ring.log.extend([0x35; 9]);
        for round in 0..2000_u16 {
            ring.log.extend(mtr(&write(7, &round.to_be_bytes()), 1 - own));
        }
        let (_, mut file) = ring.files().remove(0);
        let (found, summary) = verified(&file, START);
        assert_eq!((found, summary.end, summary.ends), (Vec::new(), Lsn(end), StreamEnd::Torn), "marker {own}");
        // In the middle of its own lap, that is damage.
        let at = (START + end - START - 20_000) as usize;
        file[at] ^= 0x10;
        let (found, _) = verified(&file, START);
        assert_eq!(found.len(), 1, "marker {own}: {found:?}");
    }
}

#[test]
fn a_log_that_ends_at_its_checkpoint_is_clean() {
    let mut log = Writer::new(5 * START);
    log.append(&write(7, b"change"));
    let lsn = log.end();
    log.checkpoint(lsn);
    let (_, file) = log.files().remove(0);
    let newest = newest_of(&file, log.first).expect("found");
    let parsed = LogFile::kept(FORMAT, Lsn(log.first), newest.checkpoint, newest.first_marker);
    let at = (START + lsn - log.first) as usize;
    assert_eq!(parsed.state(&file[at..]), Ok(LogState::Clean));
    assert_eq!(parsed.clean_end(&file[at..]), Lsn(log.end()));
    log.append(&write(7, b"more"));
    let (_, file) = log.files().remove(0);
    assert_eq!(parsed.state(&file[at..]), Ok(LogState::NeedsRecovery));
}

#[test]
fn names_without_end_before_a_checkpoint_are_read() {
    let mut log = Writer::new(START);
    let lsn = log.end();
    log.checkpoints.push(lsn);
    // `innodb/t/log_archive.test` has 139,819 of them.
    for _ in 0..100_000 {
        log.append(&file_modify(7, "a/b.ibd"));
    }
    log.append(&file_checkpoint(lsn));
    assert!((log.log.len() as u64) < CAPACITY);
    let (_, file) = log.files().remove(0);
    assert_eq!(newest_of(&file, START).map(|found| found.checkpoint.lsn), Some(Lsn(lsn)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_judged_without_panic(
        head in proptest::collection::vec(any::<u8>(), 0..64),
        places in proptest::collection::vec(START..START + 600, 0..8),
        payload in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut file = if places.is_empty() { head } else { places.iter().flat_map(|place| place.to_be_bytes()).collect() };
        file.resize(START as usize, 0);
        file.extend(payload);
        file.resize(START as usize + 600, 0);
        if newest_of(&file, START).is_some() {
            let (_, summary) = verified(&file, START);
            prop_assert!(summary.end >= Lsn(START));
        }
        prop_assert!(stray_byte(&file, 0).is_none_or(|at| at < START as usize));
    }
}
