//! Records of MySQL's redo log as a 9.7 server wrote them, applied to its pages.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

extern crate format as innokit_format; // what the shared helpers of tests call it

#[path = "../../format/tests/common/mod.rs"]
mod common;
mod damaged;

use innokit_format::page::seal::seal_mysql;
use innokit_format::{Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceId};
use innokit_redo::apply::{ApplyError, Outcome, Replay};
use innokit_redo::mysql::mtr_reader::advance;
use innokit_redo::mysql::undo_number;
use innokit_redo::record::mysql::change::Change as MySqlChange;
use innokit_redo::record::{Change, FileRecord, Grammar, Mtr, RecordFault, RedoRecord, TableState};
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    common::hex(&text.replace(' ', ""))
}

const HERE: PageId = PageId::new(5, 4);

fn read(text: &str) -> String {
    let bytes = hex(text);
    let mut records = Grammar::MySql.records(&bytes);
    let record = match records.next() {
        Some(Ok(RedoRecord::Page(record))) => {
            let Change::MySql(change) = record.change else { panic!("{record:?}") };
            format!("{}:{} {} {change:?}", record.id.space.0, record.id.page_no.0, change.name())
        }
        Some(Ok(RedoRecord::File(file))) => format!("{} {file:?}", file.name()),
        other => panic!("{other:?}"),
    };
    assert_eq!((records.next(), records.position()), (None, bytes.len()), "{record}");
    record
}

#[test]
fn records_of_a_server_are_read() {
    let cases = [
        ("01 fb fe 00 01 76 80 af", "4294967294:0 MLOG_1BYTE Write { offset: 374, len: 1, value: 175 }"),
        ("04 fb fe 84 84 33 fa 22", "4294967294:1156 MLOG_4BYTES Write { offset: 13306, len: 4, value: 34 }"),
        ("08 fb fe 00 05 46 00 00 00 00 00", "4294967294:0 MLOG_8BYTES Write { offset: 1350, len: 8, value: 0 }"),
        ("18 fb ef 81 8a 00 00 00 24 92", "4294967279:394 MLOG_UNDO_HDR_REUSE UndoHeaderReuse(9362)"),
        (
            "94 fb ef 81 8a 00 0b 0b 00 84 33 06 00 00 00 00 03 00",
            "4294967279:394 MLOG_UNDO_INSERT UndoInsert([11, 0, 132, 51, 6, 0, 0, 0, 0, 3, 0])",
        ),
        (
            "0b fb fe 83 be 01 02 51",
            "4294967294:958 MLOG_REC_SEC_DELETE_MARK DeleteMark { index: None, value: true, system: None, record: 593 }",
        ),
        (
            "c1 0c 00 00 00 00 00 00 01 c0 00 00 00 00 00 00 00 40 00",
            "FILE_EXTEND Extend { space: SpaceId(12), end: 131072 }",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), expected, "{text}");
    }
    let marked = read(
        "c4 fb fe 06 01 01 00 08 00 02 80 00 ff ff 80 06 80 07 80 04 80 08 80 08 80 08 00 01 02 02 00 00 01 b3 01 10 00 00 00 24 96 03 da",
    );
    assert!(marked.contains("MLOG_REC_CLUST_DELETE_MARK") && marked.ends_with("record: 986 }"), "{marked}");
    assert!(marked.contains("position: 2, trx_id: 9366"), "{marked}");
    let deleted = read("c5 0e 04 01 05 00 07 00 05 00 01 80 06 80 06 80 07 00 00 00 00 00 00 00 00 01 31");
    assert!(deleted.contains("n_instant: Some(5), n_fields: 7, n_unique: 1"), "{deleted}");
    assert!(deleted.ends_with("record: 305 }"), "{deleted}");
}

#[test]
fn what_the_dictionary_is_told_of_tables_is_read() {
    let bytes = hex("3e 84 b4 00 02 c0 57 48 be 05 00 02 80 b5");
    let states: Vec<(u64, u64, Option<u64>)> = Grammar::MySql
        .records(&bytes)
        .map(|record| match record {
            Ok(RedoRecord::File(FileRecord::Table(TableState { table, version, auto_increment, .. }))) => {
                (table, version, auto_increment)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(states, [(1204, 0, Some(22344)), (5, 0, Some(181))]);
}

#[test]
fn bytes_that_are_no_record_are_refused_and_cut_ones_wait_for_more() {
    let fault = |text: &str| Grammar::MySql.records(&hex(text)).find_map(Result::err).expect("a fault").fault;
    assert_eq!(fault("07 05 04"), RecordFault::Kind(7));
    assert_eq!(fault("01 05 04 00 40 81 00"), RecordFault::Fields, "a byte holds no more than 255");
    assert_eq!(fault("23 05 00 00 03 61 62 63"), RecordFault::FileName, "a name ends with a zero");
    assert_eq!(fault("43 05 04 01 09 00 02"), RecordFault::Fields, "no server sets this flag");
    assert_eq!(fault("43 05 04 00 03 00 02"), RecordFault::EarlyVersions, "8.0.29 lists versions otherwise");
    let whole = hex("c3 05 04 01 01 00 02 00 02 80 04 00 00 00 63 1b 00 07 00 02 00 00 00 00 00 00 80 00 00 01 61 62");
    for len in 1..whole.len() {
        let error = Grammar::MySql.records(&whole[..len]).next().expect("a record").expect_err("is cut");
        assert_eq!(error.fault, RecordFault::Length, "{len} bytes");
    }
}

#[test]
fn lsns_count_what_frames_a_block() {
    let ends = [(495, 8699), (496, 8716), (497, 8717), (1000, 9236)];
    assert_eq!(ends.map(|(len, _)| advance(Lsn(8204), len).0), ends.map(|(_, end)| end));
    assert_eq!(advance(Lsn(8699), 0), Lsn(8699));
}

#[test]
fn undo_tablespaces_have_numbers_in_turn() {
    let numbers = [0xFFFF_FFEF, 0xFFFF_FFEE, 0xFFFF_FFEF - 127, 0xFFFF_FFF0, 0xFFFF_FFFE, 5, 0];
    let expected = [Some(1), Some(2), Some(1), None, None, None, None];
    assert_eq!(numbers.map(|number| undo_number(SpaceId(number))), expected);
}

fn page_format() -> SpaceFormat {
    let size = PageSize::new(16_384).expect("a page size");
    SpaceFormat::new(Family::MySql, Scheme::Classic, size, size, HERE.space).expect("a format")
}

/// Applies records, each as its own mini-transaction. Returns the page and its LSN.
fn replayed(page: &mut [u8], texts: &[&str]) -> Result<Outcome, ApplyError> {
    let format = page_format();
    let mut replay = Replay::onto(page, HERE, &format)?;
    for (number, text) in texts.iter().enumerate() {
        let bytes = hex(text);
        let (start, end) = (Lsn(8204 + number as u64 * 100), Lsn(8716));
        replay.apply(&Mtr { start, end, bytes: &bytes, grammar: Grammar::MySql })?;
    }
    replay.finish()
}

/// Inserts two records into a secondary index and deletes the first. The bytes are a server's.
#[test]
fn index_records_go_where_the_server_puts_them() {
    const CREATE: [&str; 2] = ["3b 05 04", "25 05 04"];
    const INDEX: &str = "05 04 01 01 00 02 00 02 80 04 00 00";
    let a = format!("c3 {INDEX} 00 63 1b 00 07 00 02 00 00 00 00 00 00 80 00 00 01 61 62");
    let b = format!("c3 {INDEX} 00 7f 06 02 63 64");
    let c = format!("c5 {INDEX} 00 7f");
    let (a, b, c) = (a.as_str(), b.as_str(), c.as_str());
    let mut page = vec![0xEE; 16_384];
    page[16..24].fill(0);
    assert_eq!(replayed(&mut page, &CREATE), Ok(Outcome::Changed(Lsn(8716))));
    assert_eq!(page[38..56], hex("00 02 00 78 80 02 00 00 00 00 00 00 00 05 00 00 00 00"));
    assert_eq!(page[16_372..16_376], hex("00 70 00 63"));
    let after = |texts: &[&str]| {
        let mut page = vec![0; 16_384];
        replayed(&mut page, texts).expect("applies");
        page
    };
    let page = after(&[CREATE[0], CREATE[1], a]);
    assert_eq!(page[38..56], hex("00 02 00 85 80 03 00 00 00 00 00 7f 00 05 00 00 00 01"));
    assert_eq!(page[120..133], hex("02 00 00 00 10 ff f1 80 00 00 01 61 62"));
    let page = after(&[CREATE[0], CREATE[1], a, b]);
    assert_eq!(page[38..56], hex("00 02 00 92 80 04 00 00 00 00 00 8c 00 02 00 01 00 02"));
    assert_eq!(page[120..146], hex("02 00 00 00 10 00 0d 80 00 00 01 61 62 02 00 00 00 18 ff e4 80 00 00 02 63 64"));
    let mut page = after(&[CREATE[0], CREATE[1], a, b, c]);
    assert_eq!(page[38..56], hex("00 02 00 92 80 04 00 7f 00 0d 00 00 00 02 00 01 00 01"));
    assert_eq!(page[94..99], hex("01 00 02 00 29"));
    assert_eq!(page[120..127], hex("02 00 00 00 10 00 00"));
    seal_mysql(&mut page, HERE, &page_format(), None).expect("seals");
    assert_eq!(page[..4], hex("c1 08 09 eb"));
}

#[test]
fn a_page_that_has_a_record_already_is_left_alone() {
    let mut page = vec![0; 16_384];
    page[16..24].copy_from_slice(&9000_u64.to_be_bytes());
    let before = page.clone();
    assert_eq!(replayed(&mut page, &["3b 05 04", "25 05 04"]), Ok(Outcome::Unchanged));
    assert_eq!(page, before, "even if the log initializes it");
    assert!(matches!(MySqlChange::InitPage, change if change.makes_page()));
}

#[test]
fn records_that_do_not_fit_their_page_are_refused() {
    let made = ["3b 05 04", "25 05 04"];
    let refused = |text: &str| {
        let mut page = vec![0; 16_384];
        replayed(&mut page, &[made[0], made[1], text]).expect_err("does not fit")
    };
    assert!(matches!(refused("04 05 04 3f fe 01"), ApplyError::OutsidePage { offset: 16_382, .. }));
    assert!(matches!(
        refused("c5 05 04 01 01 00 02 00 02 80 04 00 00 00 63"),
        ApplyError::RecordPointer { offset: 99 }
    ));
    assert!(matches!(refused("c5 05 04 01 00 00 63"), ApplyError::RowStyle(_)), "the page has the other layout");
    assert!(matches!(refused("14 05 04 00 02 01 02"), ApplyError::UndoEnd { .. }), "it is no undo page");
    let unsorted = "c3 05 04 01 01 00 02 00 02 80 04 00 00 00 63 07 00 07 40 00 61 62 63";
    assert!(matches!(refused(unsorted), ApplyError::OutsidePage { .. } | ApplyError::RecordLength));
}

/// Index records with some bytes changed, on a page with some bytes changed: any result but a panic.
fn damaged_log() -> impl Strategy<Value = (Vec<u8>, damaged::Places)> {
    const INDEX: &str = "05 04 01 01 00 02 00 02 80 04 00 00";
    let whole = [
        format!("43 {INDEX} 00 63 1b 00 07 00 02 00 00 00 00 00 00 80 00 00 01 61 62"),
        format!("43 {INDEX} 00 7f 06 02 63 64"),
        format!("45 {INDEX} 00 7f"),
        format!("48 {INDEX}"),
        format!("4b {INDEX} 00 7f"),
        format!("4c {INDEX} 00 8c"),
        format!("46 {INDEX} 00 02 00 00 00 00 00 00 00 00 00 00 00 00 7f 00 01 01 01 63"),
        "0b 05 04 01 00 7f".to_owned(),
        "24 05 04 00 7f".to_owned(),
        "14 05 04 00 02 01 02".to_owned(),
    ];
    let records = whole.iter().map(|text| hex(text)).collect();
    damaged::log_and_places(records, 40, 1..12, (16_384, 0..6))
}

proptest! {
    #[test]
    fn damaged_records_and_pages_are_an_error_at_most((log, places) in damaged_log()) {
        let (format, mut page) = (page_format(), vec![0; 16_384]);
        replayed(&mut page, &["3b 05 04", "25 05 04"]).expect("an empty page");
        page[16..24].fill(0);
        damaged::is_an_error_at_most(&mut page, HERE, &format, &log, places);
    }
}
