//! Records of MariaDB's redo log: every type, every way the bytes can be wrong, and mini-transactions in all framings.
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

use common::hex;
use innokit_format::{Lsn, PageId, SpaceId};
use innokit_redo::record::{
    Change, Delete, FileRecord, RecordError, RecordFault, RecordSource, RedoRecord, RowStyle, records, subjects,
};
use proptest::prelude::*;

fn read(text: &str) -> Result<Vec<(PageId, String)>, RecordFault> {
    let bytes = hex(text);
    let all: Result<Vec<RedoRecord<'_>>, RecordError> = records(&bytes).collect();
    let page = |record: RedoRecord<'_>| match record {
        RedoRecord::Page(record) => (record.id, format!("{:?}", record.change)),
        RedoRecord::File(record) => panic!("{record:?}"),
    };
    all.map(|all| all.into_iter().map(page).collect()).map_err(|error| error.fault)
}

fn changes<'a>(bytes: &'a [u8]) -> Vec<Change<'a>> {
    let page = |record: Result<RedoRecord<'a>, RecordError>| match record.expect("a record") {
        RedoRecord::Page(record) => record.change,
        RedoRecord::File(record) => panic!("{record:?}"),
    };
    records(bytes).map(page).collect()
}

#[test]
fn records_of_a_page_go_on_where_the_one_before_ended() {
    let bytes = hex("36405760123456b57f23345678c30804ff");
    let [first, second, third] = changes(&bytes)[..] else { panic!("three records") };
    assert_eq!(first, Change::Write { offset: 96, data: &[0x12, 0x34, 0x56] });
    let far = Change::Write { offset: 96 + 3 + 127, data: &[0x23, 0x34, 0x56, 0x78] };
    assert_eq!(second, far);
    assert_eq!(third, Change::Set { offset: 226 + 4 + 8, len: 4, pattern: &[0xFF] });
}

#[test]
fn every_type_of_page_record_is_read() {
    let one = |text: &str| format!("{:?}", changes(&hex(text)));
    let expect = |change: Change<'_>| format!("{:?}", [change]);
    assert_eq!(one("02200e"), expect(Change::Free));
    assert_eq!(one("120100"), expect(Change::Init));
    assert_eq!(one("46022d28040110"), expect(Change::Set { offset: 40, len: 4, pattern: &[1, 0x10] }));
    assert_eq!(one("550102640610"), expect(Change::Move { offset: 100, len: 6, source: 109 }));
    assert_eq!(one("55010264060b"), expect(Change::Move { offset: 100, len: 6, source: 94 }));
    assert_eq!(one("23010500"), expect(Change::InitIndex(RowStyle::Redundant)));
    assert_eq!(one("23010501"), expect(Change::InitIndex(RowStyle::Dynamic)));
    assert_eq!(one("23010502"), expect(Change::UndoInit));
    assert_eq!(one("26010503aabbcc"), expect(Change::UndoAppend(&[0xAA, 0xBB, 0xCC])));
    assert_eq!(one("2301050a"), expect(Change::Trim));
    assert_eq!(one("7701050001020304"), expect(Change::Checksum(0x0102_0304)));
    let delete = Delete { style: RowStyle::Redundant, prev: 34, header_size: 0, data_size: 0 };
    assert_eq!(one("2409030822"), expect(Change::Delete(delete)));
    let delete = Delete { style: RowStyle::Dynamic, prev: 28, header_size: 2, data_size: 19 };
    assert_eq!(one("260803091c0213"), expect(Change::Delete(delete)));
}

#[test]
fn an_insert_says_what_is_copied_and_where_its_room_is() {
    let insert = |shift: &str| {
        let bytes = hex(&["200a08030750", shift, "080103010400000000001b880000002d011078"].concat());
        let Change::Insert(insert) = changes(&bytes)[0] else { panic!("an insert") };
        assert_eq!((insert.style, insert.prev, insert.data), (RowStyle::Dynamic, 80, &bytes[10..]));
        assert_eq!((insert.header, insert.header_copied, insert.data_copied), (8, 1, 3));
        insert.place
    };
    assert_eq!(insert("00"), RecordSource::Reuse { shift: 0 });
    assert_eq!(insert("03"), RecordSource::Reuse { shift: -1 });
    assert_eq!(insert("04"), RecordSource::Reuse { shift: 2 });
}

#[test]
fn records_of_files_are_read_in_their_short_and_long_forms() {
    let file = |text: &str| match records(&hex(text)).next() {
        Some(Ok(RedoRecord::File(record))) => format!("{record:?}"),
        other => panic!("{other:?}"),
    };
    let expect = |record: FileRecord<'_>| format!("{record:?}");
    assert_eq!(file("fa00000000000000003000"), expect(FileRecord::Checkpoint(Lsn(12_288))));
    assert_eq!(file("fa00000000000005615ca2"), expect(FileRecord::Checkpoint(Lsn(90_266_786))));
    assert_eq!(file("f20000"), expect(FileRecord::Padding));
    let modify = FileRecord::Modify { space: SpaceId(8), name: b"./v/d.ibd" };
    assert_eq!(file("bb08002e2f762f642e696264"), expect(modify));
    let long = FileRecord::Delete { space: SpaceId(50), name: b"./w/x_1_79.ibd" };
    assert_eq!(file("900232002e2f772f785f315f37392e696264"), expect(long));
    let renamed = FileRecord::Rename { space: SpaceId(54), from: b"./w/x_1_369.ibd", to: b"./w/rx_1_369.ibd" };
    let text = "a01436002e2f772f785f315f3336392e696264002e2f772f72785f315f3336392e696264";
    assert_eq!(file(text), expect(renamed));
}

#[test]
fn a_created_file_is_followed_by_its_first_page() {
    let bytes = hex("8b08002e2f762f642e696264120800");
    let all: Vec<_> = records(&bytes).map(|record| record.expect("a record")).collect();
    assert_eq!(all[0], RedoRecord::File(FileRecord::Create { space: SpaceId(8), name: b"./v/d.ibd" }));
    let RedoRecord::Page(page) = all[1] else { panic!("{all:?}") };
    assert_eq!((page.id, page.change, page.bytes), (PageId::new(8, 0), Change::Init, &bytes[12..]));
}

#[test]
fn what_no_server_writes_is_refused_and_nothing_behind_it_is_read() {
    let cases = [
        ("63010508", RecordFault::Type(6)),
        ("2301050b", RecordFault::Subtype(11)),
        ("02200e93000000", RecordFault::NoPage),
        ("2301050ab20899", RecordFault::NoPage),
        ("120100910000", RecordFault::NoPage),
        ("340105", RecordFault::Length),
        ("30f0", RecordFault::Length),
        ("30ff", RecordFault::Length),
        ("33010560", RecordFault::Fields),
        ("02ff05", RecordFault::Fields),
        ("06f0ffffffff05", RecordFault::Fields),
        ("0301050a", RecordFault::Fields),
        ("25010503aabb", RecordFault::Fields),
        ("34010507ff", RecordFault::Offset(7)),
        ("5401056406", RecordFault::Fields),
        ("5501050a0613", RecordFault::Offset(0)),
    ];
    for (text, fault) in cases {
        assert_eq!(read(text).expect_err(text), fault, "{text}");
    }
    let files = [
        ("b708002e2f762f64", RecordFault::FileName),
        ("bb08012e2f762f642e696264", RecordFault::Fields),
        ("cb08002e2f762f642e696264", RecordFault::Type(12)),
        ("fa01000000000000003000", RecordFault::Fields),
        ("fa00000000000000003000bb08002e2f762f642e696264", RecordFault::AfterCheckpoint),
    ];
    for (text, fault) in files {
        let bytes = hex(text);
        let mut all = records(&bytes);
        let error = all.next().expect("a record").expect_err(text);
        assert_eq!(error, RecordError { at: 0, fault }, "{text}");
        assert!(all.next().is_none(), "{text}");
    }
}

#[test]
fn numbers_of_every_length_are_read() {
    let cases = [
        ("7f", 127),
        ("8000", 128),
        ("bfff", 16_511),
        ("c00000", 16_512),
        ("dfffff", 2_113_663),
        ("e0000000", 2_113_664),
        ("efffffff", 270_549_119),
        ("f000000000", 270_549_120),
        ("f0efdfbf7e", 4_294_967_294),
    ];
    for (text, value) in cases {
        let record = format!("0{}{text}05", text.len() / 2 + 1);
        assert_eq!(read(&record).expect(text), [(PageId::new(value, 5), "Free".to_owned())], "{text}");
    }
}

#[test]
fn a_field_that_a_record_writes_whole_is_known_without_the_page() {
    let bytes = hex("38010030aabbccddee");
    let change = changes(&bytes)[0];
    assert_eq!(change, Change::Write { offset: 48, data: &[0xAA, 0xBB, 0xCC, 0xDD, 0xEE] });
    assert_eq!(change.written_u32(48), Some(0xAABB_CCDD));
    assert_eq!((change.written_u32(46), change.written_u32(50)), (None, None));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_and_records_lie_one_behind_the_other(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut end = 0;
        for record in records(&bytes) {
            match record {
                Ok(RedoRecord::Page(page)) => end += page.bytes.len(),
                Ok(RedoRecord::File(_)) => {}
                Err(error) => prop_assert!(error.at <= bytes.len()),
            }
        }
        prop_assert!(end <= bytes.len());
    }

    #[test]
    fn what_records_are_about_is_what_they_are_read_as(
        chosen in proptest::collection::vec(0..SAMPLES.len(), 1..12),
        rest in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = hex(&chosen.iter().map(|&sample| SAMPLES[sample]).collect::<String>());
        bytes.extend(rest);
        let (mut found, mut all, mut at) = (subjects(&bytes), records(&bytes), 0);
        while let Some(Ok(record)) = all.next() {
            let place = std::mem::replace(&mut at, all.position())..all.position();
            prop_assert_eq!(found.next(), Some((record.subject(), place)));
        }
    }
}

/// A record of each kind, with and without its own page number.
const SAMPLES: [&str; 9] = [
    "bb08002e2f762f642e696264",
    "020105",
    "120105",
    "1203c00000",
    "2301050a",
    "26010503aabbcc",
    "38010030aabbccddee",
    "b305aabb",
    "a403aabbcc",
];
