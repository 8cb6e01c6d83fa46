//! Redo records onto pages: the vectors of the format facts, which a real server's pages were compared with.

mod common;

use common::{full, hex};
use innokit_format::page::checksum::crc32c;
use innokit_format::redo::apply::apply;
use innokit_format::redo::record::{PageRecord, RedoRecord, records};

const PAGE: u32 = 16_384;

/// A dynamic table: what was done, its records (one mini-transaction each), the page's CRC afterwards.
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

/// The same for a redundant one.
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
