//! MariaDB's binary logs within InnoDB: what its source writes is sound, and every damage is told.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a helper of a test may fail the test"
)]

mod ibb_writer;

use ibb_writer::{ROOM, Writer, seal, seal_header};
use innokit_logs::ibb::{
    Corruption, Error, Gtid, HeaderFault, Kind, PAGE_SIZE, Page, Summary, Verdict, Verifier, file_number,
};
use proptest::prelude::*;

/// Verifies a file in pieces of `piece` bytes; the pages that are not sound, and the summary.
fn verify_by(file: &[u8], number: Option<u64>, piece: usize) -> Result<(Vec<Page>, Summary), Error> {
    let mut verifier = Verifier::new(number);
    let mut pages = Vec::new();
    for mut input in file.chunks(piece) {
        while let Some(page) = verifier.next_page(&mut input)? {
            if !matches!(page.verdict, Verdict::Ok | Verdict::Empty) {
                pages.push(page);
            }
        }
    }
    Ok((pages, verifier.finish()))
}

fn verify(file: &[u8], number: u64) -> (Vec<Page>, Summary) {
    verify_by(file, Some(number), 100_000).unwrap()
}

fn first_corruption(file: &[u8], number: u64) -> (u32, Corruption) {
    let (pages, _) = verify(file, number);
    let Some(Page { number, verdict: Verdict::Corrupt(corruption) }) = pages.into_iter().next() else {
        panic!("no page is damaged")
    };
    (number, corruption)
}

/// Every kind of record, several files, records that go on in the next page and in the next file, a state within a record.
fn log() -> Writer {
    let mut writer = Writer::new(6, 2);
    writer.commit(&[], (0, 1, 1), &[1; 100]);
    let first = writer.out_of_band(0, (0, 0), (0, 0), &[2; 20_000]);
    let second = writer.out_of_band(1, (0, 0), first, &[3; 9_000]);
    let third = writer.out_of_band(2, first, second, &[4; 9_000]);
    writer.commit(&[(3, first, third)], (0, 1, 2), &[5; 300]);
    writer.xa(ibb_writer::XA_PREPARE, b"global", b"branch");
    writer.commit(&[], (7, 2, 9), &[6; 60_000]);
    writer.xa(ibb_writer::XA_COMPLETE, b"global", b"branch");
    writer.commit(&[(3, first, third), (3, first, third)], (0, 1, 3), &[7; 10]);
    writer.flush();
    writer.commit(&[], (0, 1, 4), &[8; 70_000]);
    writer.commit(&[], (0, 1, 5), &[9; 50_000]);
    writer
}

#[test]
fn what_the_source_writes_is_sound() {
    let log = log();
    assert_eq!(log.files.len(), 4);
    for (number, file) in log.files.iter().enumerate() {
        for piece in [1, 511, 16_384, 1_000_000] {
            let (pages, summary) = verify_by(file, Some(number as u64), piece).unwrap();
            assert_eq!((pages, summary.corrupt, summary.unknown, summary.rest), (vec![], 0, 0, 0), "file {number}");
            assert_eq!(summary.header.unwrap().file, number as u64);
            assert_eq!(summary.pages as usize * PAGE_SIZE, file.len());
        }
    }
    let summaries: Vec<Summary> = (0_u64..).zip(&log.files).map(|(number, file)| verify(file, number).1).collect();
    let sum = |kind: Kind| summaries.iter().map(|summary| summary.records[kind as usize - 1]).sum::<u64>();
    let counts = [Kind::Commit, Kind::OutOfBand, Kind::Dummy, Kind::XaPrepare, Kind::XaComplete].map(sum);
    assert_eq!(counts, [6, 3, 1, 1, 1]);
    assert!(sum(Kind::GtidState) > 6, "they stand on every second page too");
    let gtid = |domain, server, number| Gtid { domain, server, number };
    let state = summaries[2].gtids.clone().unwrap();
    assert_eq!(state.gtids, [gtid(7, 2, 9), gtid(0, 1, 3)], "with what the file before ended");
    assert_eq!((summaries[0].end, summaries[0].open), (None, Some(Kind::Commit)), "goes on in the next file");
    assert!(summaries[3].end.is_some() && summaries[3].empty > 0 && summaries[3].open.is_none());
}

#[test]
fn a_file_that_was_only_made_is_empty() {
    let (pages, summary) = verify(&vec![0; 4 * PAGE_SIZE], 9);
    assert_eq!((pages.len(), summary.empty, summary.header, summary.end), (0, 4, None, Some((0, 0))));
}

#[test]
fn every_bit_counts() {
    let log = log();
    let mut file = log.files[0].clone();
    // Bits of the length and of what is left of a page are guarded by its checksum only: a sample is enough. 9 and 8 have no common divisor.
    for bit in (0..file.len() * 8).step_by(9 * 41) {
        file[bit / 8] ^= 1 << (bit % 8);
        let (pages, _) = verify(&file, 0);
        let damaged = pages.first().map(|page| page.number as usize);
        assert_eq!(damaged, Some(bit / 8 / PAGE_SIZE), "bit {bit}");
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn each_field_of_the_header_counts_though_its_checksum_is_right() {
    let log = log();
    let broken = |at: usize, byte: u8| {
        let mut file = log.files[2].clone();
        file[at] = byte;
        seal_header(&mut file[..PAGE_SIZE]);
        file
    };
    let header = |fault| (0, Corruption::Header(fault));
    assert_eq!(first_corruption(&broken(0, 0xff), 2), header(HeaderFault::Magic));
    for shift in [0, 8, 17, 255] {
        assert_eq!(first_corruption(&broken(4, shift), 2), header(HeaderFault::PageSize { shift: shift.into() }));
    }
    assert_eq!(first_corruption(&broken(16, 3), 2), header(HeaderFault::File { stored: 3, expected: 2 }));
    assert_eq!(first_corruption(&log.files[2], 7), header(HeaderFault::File { stored: 2, expected: 7 }));
    for at in [64, 507, 512, PAGE_SIZE - 5] {
        assert_eq!(first_corruption(&broken(at, 1), 2), header(HeaderFault::Padding { offset: at }));
    }
    for major in [0, 2, 9] {
        let error = verify_by(&broken(8, major), Some(2), 4096).unwrap_err();
        assert_eq!(error, Error::Version { major: major.into(), minor: 0 });
    }
    // A later minor version may have fields that are not known.
    let mut later = broken(12, 1);
    later[64] = 1;
    seal_header(&mut later[..PAGE_SIZE]);
    assert!(verify(&later, 2).0.is_empty());

    let mut own = log.files[2].clone();
    own[508] ^= 1;
    seal(&mut own[..PAGE_SIZE]);
    assert!(matches!(first_corruption(&own, 2), (0, Corruption::Header(HeaderFault::Checksum { .. }))));
    let mut smaller = broken(4, 13);
    smaller[512] = 0;
    seal_header(&mut smaller[..PAGE_SIZE]);
    assert!(!verify(&smaller, 2).0.is_empty(), "pages of 8 KiB have no right checksum");
}

/// A file with one page of records: the first chunk is at 0, of the GTID state.
fn small() -> (Vec<u8>, usize) {
    let mut writer = Writer::new(4, 64);
    writer.commit(&[], (0, 1, 1), &[1; 100]);
    let first = usize::from(writer.files[0][PAGE_SIZE + 1]) + 3;
    (writer.files.remove(0), first)
}

/// Writes `bytes` at `at` of page 1, with the right checksum.
fn with(file: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    file[PAGE_SIZE + at..PAGE_SIZE + at + bytes.len()].copy_from_slice(bytes);
    seal(&mut file[PAGE_SIZE..2 * PAGE_SIZE]);
    file
}

#[test]
fn each_field_of_a_chunk_counts_though_the_checksum_is_right() {
    let (file, at) = small();
    let found = |bytes: &[u8]| first_corruption(&with(&file, at, bytes), 0);
    assert!(verify(&with(&file, at, &[]), 0).0.is_empty());
    // Types: none, flags without a type, continuing what has not begun (after the state only what the file before began may), unknown.
    assert_eq!(found(&[0]), (1, Corruption::AfterEnd { offset: at + 1, end: 1 }));
    assert_eq!(found(&[0x40]), (1, Corruption::Type { offset: at, number: 0 }));
    let unknown = verify(&with(&file, at, &[0x49]), 0);
    assert_eq!(unknown.0[0].verdict, Verdict::Unknown { number: 9 });
    assert_eq!(unknown.1.unknown, 1);
    // A record that has more chunks ends only where its page ends.
    assert_eq!(found(&[1]), (1, Corruption::Length { offset: at, len: 101 }));
    assert_eq!(found(&[0x41, 0, 0]), (1, Corruption::Length { offset: at, len: 0 }));
    assert_eq!(found(&[0x41, 0xff, 0xff]), (1, Corruption::Length { offset: at, len: 0xffff }));
    assert!(matches!(
        found(&[0x41, 100, 0]).1,
        Corruption::Length { .. } | Corruption::Type { .. } | Corruption::AfterEnd { .. }
    ));
    // Behind a whole record nothing continues.
    let behind = at + 3 + 101;
    let record = [0xc1, 1, 0, 0];
    let (page, corruption) = first_corruption(&with(&file, behind, &record), 0);
    assert_eq!((page, corruption), (1, Corruption::NotBegun { offset: behind, kind: Kind::Commit }));
    // Bytes behind the end of the log, on its page and on a later one.
    let (page, corruption) = first_corruption(&with(&file, ROOM - 1, &[1]), 0);
    assert_eq!((page, corruption), (1, Corruption::AfterEnd { offset: ROOM - 1, end: 1 }));
    let mut later = file.clone();
    later[3 * PAGE_SIZE..3 * PAGE_SIZE + 4].copy_from_slice(&[0x41, 1, 0, 0]);
    seal(&mut later[3 * PAGE_SIZE..]);
    assert_eq!(first_corruption(&later, 0), (3, Corruption::AfterEnd { offset: 0, end: 1 }));
}

#[test]
fn what_records_say_is_looked_at() {
    let records = |kind: u8, content: &[u8]| {
        let mut writer = Writer::new(4, 64);
        writer.record(kind, Some(content));
        let (pages, _) = verify(&writer.files[0], 0);
        pages.into_iter().next().map(|page| page.verdict)
    };
    let why = |verdict: Option<Verdict>| match verdict {
        Some(Verdict::Corrupt(Corruption::Record { why, .. })) => why,
        other => panic!("{other:?}"),
    };
    let number = |values: &[u64]| {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| ibb_writer::number(&mut bytes, *value));
        bytes
    };
    // Commits and out-of-band records refer only to earlier places, at which an out-of-band record begins.
    assert!(why(records(1, &number(&[1, 0, 16_385, 0, 16_385]))).contains("no out-of-band record begins"));
    assert!(why(records(1, &number(&[1, 0, 60_000, 0, 60_000]))).contains("not before it"));
    assert!(why(records(1, &number(&[1, 3, 0, 3, 0]))).contains("file 3"));
    assert!(why(records(1, &[7])).contains("ends within a number"));
    assert!(why(records(3, &number(&[0, 0, 0, 0, 16_385]))).contains("first of its transaction"));
    assert!(why(records(3, &number(&[1, 0, 0, 0, 16_385]))).contains("no out-of-band record begins"));
    assert!(why(records(3, &number(&[1, 0]))).contains("ends within a number"));
    // GTID states.
    let (file, _) = small();
    let state = |content: &[u8]| {
        let mut chunk = vec![0; ROOM];
        chunk[..3].copy_from_slice(&[0x42, content.len() as u8, 0]);
        chunk[3..3 + content.len()].copy_from_slice(content);
        verify(&with(&file, 0, &chunk), 0).0.into_iter().next().map(|page| page.verdict)
    };
    assert_eq!(state(&number(&[1, 0, 7, 1, 1])), None);
    assert!(why(state(&number(&[2, 0, 0, 1, 1]))).contains("ends within a number"));
    assert!(why(state(&number(&[1, 0, 1 << 32, 1, 1]))).contains("more than 32 bits"));
    assert_eq!(records(2, &number(&[0, 0])), Some(Verdict::Corrupt(Corruption::Misplaced { offset: 5 })));
    // XIDs.
    assert!(why(records(5, &[42, 1, 0, 0, 0, 0, 65, 0])).contains("65 and 0 bytes"));
    assert!(why(records(5, &[42, 1, 0, 0, 0, 0, 3, 1, 9, 9])).contains("ends within its XID"));
    assert!(why(records(6, &[0, 0, 0, 0, 0, 1])).contains("ends within its XID"));
    assert_eq!(records(4, &[0]), None, "a dummy may have anything");
}

#[test]
fn lost_pages_are_told() {
    let log = log();
    let file = &log.files[2];
    let page = |number: usize| number * PAGE_SIZE..(number + 1) * PAGE_SIZE;
    // Zeroed: what follows stands behind an end.
    for number in 0..5 {
        let mut lost = file.clone();
        lost[page(number)].fill(0);
        assert!(!verify(&lost, 2).0.is_empty(), "page {number}");
    }
    // Left out, and the first ones twice.
    for number in 1..5 {
        let mut shifted = file.clone();
        shifted.drain(page(number));
        let (pages, summary) = verify(&shifted, 2);
        assert!(!pages.is_empty() || summary.is_cut(), "without page {number}");
        let mut twice = file.clone();
        twice.splice(page(number).start..page(number).start, file[page(number)].to_vec());
        assert!(!verify(&twice, 2).0.is_empty(), "page {number} twice");
    }
    // Cut behind a page, and within one.
    for pages in 2..6 {
        assert!(verify(&file[..pages * PAGE_SIZE], 2).1.is_cut());
    }
    assert!(log.files.iter().zip(0..).all(|(file, number)| !verify(file, number).1.is_cut()));
    let (_, summary) = verify(&file[..file.len() - 100], 2);
    assert_eq!(summary.rest, PAGE_SIZE - 100);
}

#[test]
fn names_of_files_have_a_number() {
    assert_eq!(file_number("binlog-000123.ibb"), Some(123));
    assert_eq!(file_number("binlog-18446744073709551615.ibb"), Some(u64::MAX));
    for other in [
        "binlog-.ibb",
        "binlog-1.ibd",
        "binlog-+1.ibb",
        "binlog-1x.ibb",
        "mybinlog-1.ibb",
        "binlog-99999999999999999999.ibb",
    ] {
        assert_eq!(file_number(other), None, "{other}");
    }
}

proptest! {
    #[test]
    fn arbitrary_pages_never_panic(
        pages in prop::collection::vec(prop::collection::vec((0_usize..ROOM, any::<u8>()), 0..30), 1..4), number: Option<u64>, piece in 1_usize..40_000,
    ) {
        let (mut file, _) = small();
        for (at, changes) in pages.iter().enumerate() {
            let page = &mut file[at * PAGE_SIZE..(at + 1) * PAGE_SIZE];
            changes.iter().for_each(|(offset, byte)| page[*offset] = *byte);
            if at == 0 { seal_header(page) } else { seal(page) }
        }
        match verify_by(&file, number, piece) {
            Ok((_, summary)) => {
                prop_assert_eq!(summary.pages, summary.ok + summary.empty + summary.unknown + summary.corrupt);
            }
            Err(Error::Version { major, .. }) => prop_assert!(major != 1),
        }
    }
}
