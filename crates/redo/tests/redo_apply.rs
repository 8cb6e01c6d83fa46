//! Redo records applied to pages: vectors whose results were compared with a real server's pages.
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

use common::{HERE, full, hex, put, u32_at, zip};
use format::checksum::crc32c;
use innokit_format::page::seal::seal_recovered;
use innokit_format::{Family, Lsn, PageId, SealError, SpaceFormat, Verdict, verify_page};
use innokit_redo::apply::{ApplyError, Outcome, Replay, apply};
use innokit_redo::record::{Grammar, Mtr, PageRecord, RedoRecord, records};
use proptest::prelude::*;

const PAGE: u32 = 16_384;

/// A DYNAMIC table: the statement, its records (one mini-transaction each), and the page's CRC afterwards.
const DYNAMIC: [(&str, &[&str], &str); 16] = [
    (
        "init",
        &[
            "120803",
            "3408031906",
            "b24332",
            "3408035b02",
            "3408035708",
            "34080353f2",
            "3408035102",
            "3408034d08",
            "a101",
            "b23117",
        ],
        "618ecb06",
    ),
    ("insert 1 'aa'", &["200e08030600100000020080000001000000000013840000002e01106161"], "8bc96ec7"),
    ("insert 2 'bb'", &["200b0803061c100003020002000000000013840000002e011c6262"], "cea72250"),
    ("insert 3 'ccc'", &["200b080306360801030303000000000013840000002e0128636363"], "b9ebfc07"),
    ("delete-mark 2", &["350803801420", "b90d17060000002e0110"], "8b0bf697"),
    ("purge 2", &["260803091c0213"], "23eb031e"),
    ("insert 4 'x'", &["200a0803075000080103010400000000001b880000002d011078"], "5551b0d0"),
    ("insert 5 'a'", &["200908030636080103010500000000001f8a0000002e011061"], "42534118"),
    ("insert 6 'b'", &["20090803066b080103010600000000001f8a0000002e011c62"], "09ef3cd5"),
    ("insert 7 'c'", &["200a0803068004080103010700000000001f8a0000002e012863"], "b7a9283c"),
    ("insert 8 'd'", &["200a080306801d080103010800000000001f8a0000002e013464"], "d7608eed"),
    ("insert 9 'e'", &["200a0803068036080103010900000000001f8a0000002e014065"], "c7131ffb"),
    ("insert 10 'f'", &["200a080306804f080103010a00000000001f8a0000002e014c66"], "ad4eed21"),
    ("delete-mark 10", &["35080380c620", "b90d210b0000002e0110"], "c14e5e5e"),
    ("purge 10, the heap's last", &["27080309804f0212"], "a3d62d2c"),
    (
        "update 1 to 'zz9'",
        &["26080309000213", "a00d06001000000300800000010000000000230c0000002d01107a7a39"],
        "70871604",
    ),
];

/// The same for a REDUNDANT table.
const REDUNDANT: [(&str, &[&str], &str); 7] = [
    (
        "init",
        &[
            "120903",
            "3409031906",
            "b24332",
            "3409035b02",
            "3409035709",
            "34090353f2",
            "3409035102",
            "3409034d09",
            "a100",
            "b23118",
        ],
        "2c78144f",
    ),
    ("insert 1 'aa'", &["2010090304001c000013110a0480000001000000000015850000002e01106161"], "ca9021ae"),
    ("insert 2 'bb'", &["200d090304221c000313110a0402000000000015850000002e011c6262"], "15ff0ecd"),
    ("insert 3 'ccc'", &["200b0903043f1c03031403000000000015850000002e0128636363"], "7da29bf0"),
    ("delete-mark 2", &["350903801e20", "b90e19070000002f0110"], "64c160cf"),
    ("purge 2", &["2409030822"], "6cd85360"),
    ("insert 4 'x'", &["20090903055c1c0303120400000000001d890000002d011078"], "2768bb0f"),
];

fn page_records(bytes: &[u8]) -> impl Iterator<Item = PageRecord<'_>> {
    records(bytes).map(|record| match record.expect("a record") {
        RedoRecord::Page(record) => record,
        RedoRecord::File(record) => panic!("{record:?}"),
    })
}

fn run(steps: &[(&str, &[&str], &str)]) -> Vec<u8> {
    let (format, mut page) = (full(PAGE), vec![0; PAGE as usize]);
    for (step, texts, crc) in steps {
        for record in page_records(&hex(&texts.concat())) {
            apply(&record, &mut page, &format).unwrap_or_else(|error| panic!("{step}: {error}"));
        }
        assert_eq!(format!("{:08x}", crc32c(&page)), *crc, "{step}");
    }
    page
}

#[test]
fn a_dynamic_page_is_what_the_server_made_of_it_after_every_step() {
    run(&DYNAMIC);
}

#[test]
fn a_redundant_page_is_what_the_server_made_of_it_after_every_step() {
    run(&REDUNDANT);
}

#[test]
fn an_undo_page_gets_its_record_with_pointers_on_both_sides() {
    let (format, mut page) = (full(PAGE), vec![0; PAGE as usize]);
    for record in page_records(&hex("12022da1022006022d030b01020800000000000000120400000000")) {
        apply(&record, &mut page, &format).expect("applies");
    }
    assert_eq!(page[42..44], [0x00, 0x4D]);
    assert_eq!(page[56..58], [0x00, 0x4D]);
    assert_eq!(page[58..75], hex("0b01020800000000000000120400000000"));
    assert_eq!(page[75..77], [0x00, 0x38]);
    assert_eq!(page[24..26], [0, 2]);
    assert_eq!(page[44..56], hex("ffffffff0000ffffffff0000"));
}

/// A page of tablespace 5, number 4, with the LSN 1000.
fn page_at_1000() -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    put(&mut page, 16, &1000_u64.to_be_bytes());
    page
}

fn mtr(start: u64, end: u64, bytes: &[u8]) -> Mtr<'_> {
    Mtr { start: Lsn(start), end: Lsn(end), bytes, grammar: Grammar::MariaDb }
}

#[test]
fn a_mini_transaction_is_skipped_if_it_began_before_the_pages_lsn_and_only_then() {
    let (format, mut page) = (full(PAGE), page_at_1000());
    let [first, second, third] = ["340504407f", "340504417f", "340504427f"].map(hex);
    let mut replay = Replay::onto(&mut page, HERE, &format).expect("a page");
    replay.apply(&mtr(999, 1010, &first)).expect("skipped");
    replay.apply(&mtr(1000, 1020, &second)).expect("applied");
    replay.apply(&mtr(1010, 1030, &third)).expect("applied, though the page's LSN would be larger now");
    assert_eq!(replay.finish(), Ok(Outcome::Changed(Lsn(1030))));
    assert_eq!(page[0x40..0x43], [0, 0x7F, 0x7F]);
    assert_eq!(page[16..24], 1030_u64.to_be_bytes());
}

#[test]
fn a_page_that_has_it_all_is_left_as_it_is() {
    let (format, mut page) = (full(PAGE), page_at_1000());
    let before = page.clone();
    let mut replay = Replay::onto(&mut page, HERE, &format).expect("a page");
    replay.apply(&mtr(900, 910, &hex("340504407f"))).expect("skipped");
    replay.apply(&mtr(1000, 1010, &hex("340604407f"))).expect("another page's");
    assert_eq!(replay.finish(), Ok(Outcome::Unchanged));
    assert_eq!(page, before);
}

#[test]
fn a_freed_page_is_not_to_be_written_unless_the_log_initializes_it() {
    let (format, mut page) = (full(PAGE), page_at_1000());
    let mut replay = Replay::onto(&mut page, HERE, &format).expect("a page");
    replay.apply(&mtr(1000, 1010, &hex("340504407f020504"))).expect("applied");
    assert_eq!(replay.finish(), Ok(Outcome::Freed));
    let mut replay = Replay::onto_nothing(&mut page, HERE, &format).expect("a page");
    replay.apply(&mtr(100, 110, &hex("020504"))).expect("applied");
    replay.apply(&mtr(120, 130, &hex("120504b2407e"))).expect("applied, though it is older than the page was");
    assert_eq!(replay.finish(), Ok(Outcome::Changed(Lsn(130))));
    assert_eq!((u32_at(&page, 4), u32_at(&page, 34), page[64 + 24]), (4, 5, 0x7E));
    assert_eq!(page[8..16], [0xFF; 8]);
}

fn refused(page: &mut [u8], format: &SpaceFormat, text: &str) -> ApplyError {
    let bytes = hex(text);
    let record = page_records(&bytes).next().expect("a record");
    match apply(&record, page, format) {
        Err(error) => error,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn what_does_not_fit_the_page_is_refused() {
    let (format, compressed) = (full(PAGE), zip(Family::MariaDb, PAGE, 8192));
    let mut page = run(&DYNAMIC);
    let insert = DYNAMIC[1].1[0];
    assert_eq!(refused(&mut page[..100], &format, "120504"), ApplyError::Length { len: 100, expected: 16_384 });
    assert!(matches!(refused(&mut page, &format, "360504bf7f0101"), ApplyError::OutsidePage { offset: 16_383, .. }));
    assert_eq!(refused(&mut page[..8192], &compressed, "23050401"), ApplyError::Compressed);
    assert_eq!(refused(&mut page, &format, "23050201"), ApplyError::NotAnIndex(PageId::new(5, 2).page_no));
    assert!(matches!(refused(&mut page, &format, "2405040822"), ApplyError::RowStyle(_)));
    assert_eq!(refused(&mut page, &format, "27050409bf7f0213"), ApplyError::RecordPointer { offset: 99 + 16_383 });
    assert!(matches!(refused(&mut page, &format, "26050409090213"), ApplyError::RecordPointer { offset: 108 }));
    assert!(matches!(refused(&mut page, &format, "770504000000000f"), ApplyError::Checksum { stored: 15, .. }));
    put(&mut page, 40, &16_350_u16.to_be_bytes());
    assert!(matches!(refused(&mut page, &format, insert), ApplyError::NoRoom { offset: 16_350, .. }));
    put(&mut page, 38, &1_u16.to_be_bytes());
    assert_eq!(refused(&mut page, &format, insert), ApplyError::Directory { slots: 1 });
    let mut undo = vec![0; PAGE as usize];
    put(&mut undo, 42, &16_380_u16.to_be_bytes());
    assert_eq!(refused(&mut undo, &format, "26050403aabbcc"), ApplyError::UndoEnd { offset: 16_380, len: 3 });
}

#[test]
fn a_recovered_page_is_sealed_as_the_server_would_write_it() {
    let format = full(PAGE);
    let mut page = run(&DYNAMIC);
    put(&mut page, 0, &[0, 0, 0, 1]);
    put(&mut page, 16, &0x0000_0003_1234_5678_u64.to_be_bytes());
    let id = PageId::new(8, 3);
    seal_recovered(&mut page, id, &format).expect("seals");
    assert!(matches!(verify_page(&page, id, &format.with_space(id.space)), Verdict::Ok(_)));
    assert_eq!((u32_at(&page, 0), u32_at(&page, PAGE as usize - 8)), (0, 0x1234_5678), "the key's version is gone");
    let compressed = zip(Family::MariaDb, PAGE, 8192);
    let mut small = page[..8192].to_vec();
    put(&mut small, 26, &[7; 8]);
    seal_recovered(&mut small, id, &compressed).expect("seals");
    assert!(matches!(verify_page(&small, id, &compressed.with_space(id.space)), Verdict::Ok(_)));
    assert_eq!(small[26..34], [0; 8]);
    put(&mut small, 26, &[7; 8]);
    seal_recovered(&mut small, PageId::new(0, 0), &compressed).expect("seals");
    assert_eq!(small[26..34], [7; 8], "what page 0 keeps there stays");
    let short = seal_recovered(&mut small[..99], id, &compressed);
    assert_eq!(short, Err(SealError::Length { len: 99, expected: 8192 }));
}

proptest! {
    #[test]
    fn arbitrary_records_onto_arbitrary_pages_never_panic(
        start in 0..DYNAMIC.len(),
        damage in proptest::collection::vec((0..PAGE as usize, any::<u8>()), 0..8),
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let (format, mut page) = (full(PAGE), run(&DYNAMIC[..=start]));
        for (at, byte) in damage {
            page[at] = byte;
        }
        for record in records(&bytes).map_while(Result::ok) {
            if let RedoRecord::Page(mut record) = record {
                record.id = HERE;
                // Either outcome is right, as long as there is no panic.
                prop_assert!(apply(&record, &mut page, &format).is_ok() || page.len() == PAGE as usize);
            }
        }
    }

    #[test]
    fn real_records_onto_damaged_pages_never_panic(
        step in 1..DYNAMIC.len(),
        damage in proptest::collection::vec((38_usize..400, any::<u8>()), 1..6),
    ) {
        let (format, mut page) = (full(PAGE), run(&DYNAMIC[..step]));
        for (at, byte) in damage {
            page[at] = byte;
        }
        let before = page.len();
        for record in page_records(&hex(&DYNAMIC[step].1.concat())) {
            if let Err(error) = apply(&record, &mut page, &format) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
        prop_assert_eq!(page.len(), before);
    }
}
