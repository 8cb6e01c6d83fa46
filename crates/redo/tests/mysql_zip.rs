//! Records of MySQL's redo log applied to a ROW_FORMAT=COMPRESSED page, handmade after a server's.
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

use common::{put, put_u32};
use innokit_format::page::zip::{Unpacker, ZipEditError};
use innokit_format::{Family, Lsn, PageId, SpaceFormat};
use innokit_redo::apply::{ApplyError, Outcome, Replay};
use innokit_redo::record::{Grammar, Mtr};
use proptest::prelude::*;

const HERE: PageId = PageId::new(5, 4);
/// `id int primary key, a varchar(20), b text`: five fields, the first of which is the unique key.
const INDEX: &str = "05 04 01 01 00 05 00 01 80 04 80 06 80 07 00 00 7f ff";
/// The end of that page's modification log.
const LOG_END: usize = 168;

fn hex(text: &str) -> Vec<u8> {
    common::hex(&text.replace(' ', ""))
}

fn format() -> SpaceFormat {
    common::zip(Family::MySql, 16384, 1024).with_space(HERE.space)
}

/// Four rows, all of them in the modification log: 127, 155, 200 (deleted) and 232, the last with an off-page value.
fn packed() -> Vec<u8> {
    let mut page = vec![0; 1024];
    put_u32(&mut page, 4, 4);
    put(&mut page, 8, &[0xFF; 8]);
    put(&mut page, 24, &17855_u16.to_be_bytes());
    put_u32(&mut page, 34, 5);
    put(&mut page, 38, &hex("000201108006000000000000000500000004"));
    put(&mut page, 66, &[0, 0, 0, 0, 0, 0, 0, 0xAA]);
    put(&mut page, 94, &hex("6881e29466a86304000000ffff0300019b00a4"));
    let log = "020203800000016f6e65 0401c01480000002 060005018000000374687265 6578 080003c0148000000254574f 040204800000056669766500";
    put(&mut page, 113, &hex(log));
    put(&mut page, 1016, &hex("009b80c800e8007f"));
    let stored = [
        "00000000204a82000000f40110",
        "00000000205081000000f90110",
        "00000000205202000000f90932",
        "00000000204e02000000f70571",
    ];
    for (number, part) in stored.iter().enumerate() {
        put(&mut page, 1016 - 13 * (number + 1), &hex(part));
    }
    put(&mut page, 944, &hex("00000067000000070000000c0000000000002328"));
    page
}

/// Applies records as one mini-transaction.
fn replayed(page: &mut [u8], texts: &[String]) -> Result<Outcome, ApplyError> {
    let format = format();
    let mut replay = Replay::onto(page, HERE, &format)?;
    let bytes: Vec<u8> = texts.iter().flat_map(|text| hex(text)).collect();
    replay.apply(&Mtr { start: Lsn(8204), end: Lsn(8716), bytes: &bytes, grammar: Grammar::MySql })?;
    replay.finish()
}

fn after(texts: &[String]) -> Vec<u8> {
    let mut page = packed();
    assert_eq!(replayed(&mut page, texts), Ok(Outcome::Changed(Lsn(8716))));
    page
}

#[track_caller]
fn at(page: &[u8], start: usize, expected: &str) {
    let expected = hex(expected);
    assert_eq!(page[start..start + expected.len()], expected, "byte {start}");
}

fn inside(page: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 16384];
    Unpacker::new().unpack(page, &format(), &mut out).expect("unpacks");
    out
}

/// A row `(id, a, NULL)` after the record at `cursor`.
fn insert(cursor: &str, id: u8, a: &str) -> String {
    format!("43 {INDEX} {cursor} 37 00 07 00 03 02 00 00 00 00 00 800000{id:02x} 000000002060 82000000aa0110 {a}")
}

fn delete(record: &str) -> String {
    format!("45 {INDEX} {record}")
}

#[test]
fn a_row_that_comes_goes_into_the_log_and_moves_the_trailer() {
    let page = after(&[insert("009b", 6, "736978")]);
    at(&page, 38, "0002 012b 8007 0000 0000 0117 0005 0000 0005");
    at(&page, LOG_END, "0a 02 03 80000006 736978 00 00");
    at(&page, 1014, "0117 009b 80c8 00e8 007f");
    at(&page, 1001, "00000000204a82000000f40110");
    at(&page, 962, "00000000204e02000000f70571");
    at(&page, 949, "000000002060 82000000aa0110");
    at(&page, 929, "00000067000000070000000c0000000000002328");
    at(&page, 914, "000000000000000000000000000000");
    at(&inside(&page), 272, "03 02 00 0030 ff59 80000006 000000002060 82000000aa0110 736978");
}

#[test]
fn a_row_that_goes_is_free_and_its_place_is_used_where_its_origin_can_stay() {
    let page = after(&[delete("00e8")]);
    at(&page, 38, "0002 0110 8006 00e8 0031 0000 0005 0000 0003");
    at(&page, 1016, "00e8 009b 80c8 007f");
    at(&page, 944, &"00".repeat(33));
    at(&page, LOG_END, "00");
    let page = after(&[delete("00e8"), insert("007f", 2, "736576")]);
    at(&page, 38, "0002 0110 8006 0000 0016 00e8 0005 0000 0004");
    at(&page, LOG_END, "08 02 03 80000002 736576 00");
    at(&page, 1016, "009b 80c8 00e8 007f");
    at(&page, 964, "000000002060 82000000aa0110");
    // The free record is too short for the new one, which goes to the end of the heap.
    let page = after(&[
        delete("007f"),
        insert("0063", 0, "736576").replace(" 37 ", " 39 ").replace("03 02 00", "04 02 00") + "78",
    ]);
    at(&page, 40, "012c 8007 007f");
}

#[test]
fn a_row_that_changes_goes_into_the_log_again() {
    let system = "82000000bb0220 00 00002070";
    let update = format!("46 {INDEX} 00 01 {system} 009b 00 01 03 04 46495645");
    let page = after(&[update]);
    at(&page, LOG_END, "04 02 04 80000005 46495645 00");
    at(&page, 990, "000000002070 82000000bb0220");
    let mark = format!("44 {INDEX} 00 01 01 {system} 007f");
    let page = after(&[mark]);
    at(&page, 1022, "807f");
    at(&page, 1003, "000000002070 82000000bb0220");
    at(&page, LOG_END, "00");
    let again = "0b 05 04 00 00 c8".to_owned();
    at(&after(&[again]), 1018, "00c8");
}

#[test]
fn bytes_that_have_places_of_their_own_are_written_to_both() {
    let reference = "0000006700000009 0000000c 0000000000002328";
    let page = after(&[format!("31 05 04 00fc 03b0 {reference}")]);
    at(&page, 944, reference);
    at(&inside(&page), 252, reference);
    let page = after(&["32 05 04 0c 04 00000009".to_owned(), "02 05 04 0038 8123".to_owned()]);
    at(&page, 12, "00000009");
    at(&page, 56, "0123");
    let mut page = packed();
    // The data after the header is at different offsets on the two pages.
    assert_eq!(replayed(&mut page, &["01 05 04 00c8 07".to_owned()]), Err(ApplyError::Compressed));
    // A reference written over another one, or where none is.
    let wrong = replayed(&mut packed(), &[format!("31 05 04 00fc 03a0 {reference}")]);
    assert_eq!(wrong, Err(ApplyError::Zip(ZipEditError::Different)));
}

#[test]
fn a_page_that_is_compressed_again_holds_the_same() {
    let rows = [delete("00e8"), insert("009b", 6, "736978")];
    let compress = format!("4a {INDEX} 06");
    let plain = inside(&after(&rows[..1]));
    let page = after(&[rows[0].clone(), compress.clone()]);
    assert_eq!(inside(&page)[120..], plain[120..]);
    // The modification log is empty: every record is in the stream.
    let stream_end = 94 + page[94..].windows(3).position(|bytes| bytes == [0, 0, 0]).expect("zeros");
    assert!(stream_end < 220, "{stream_end}");
    // The insert before it found the modification log full, so it took the freed space from its first byte on, as on an uncompressed page.
    let page = after(&[rows[0].clone(), rows[1].clone(), compress]);
    at(&inside(&page), 223, "03 02 00 0028");
    at(&inside(&page), 230, "80000006 000000002060 82000000aa0110 736978");
}

#[test]
fn a_whole_image_needs_nothing_of_what_was_there() {
    let made = after(&[delete("00e8")]);
    let front = &made[24..LOG_END];
    let trailer = &made[964..];
    let hex_of = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let image = format!(
        "33 05 04 {:04x} {:04x} ffffffff ffffffff {} {}",
        front.len(),
        trailer.len(),
        hex_of(front),
        hex_of(trailer)
    );
    let mut page = vec![0; 1024];
    assert_eq!(replayed(&mut page, &["3b 05 04".to_owned(), image]), Ok(Outcome::Changed(Lsn(8716))));
    assert_eq!(page[4..8], made[4..8]);
    assert_eq!(page[24..], made[24..]);
    assert_eq!(replayed(&mut vec![0; 1024], &[delete("00e8")]), Err(ApplyError::NotZipIndex));
    assert_eq!(replayed(&mut packed(), &["25 05 04".to_owned()]), Err(ApplyError::Compressed), "and no image");
}

/// Records of a compressed page with some bytes changed.
fn damaged_log() -> impl Strategy<Value = (Vec<u8>, damaged::Places)> {
    let system = "82000000bb0220 00 00002070";
    let whole = [
        insert("009b", 6, "736978"),
        delete("00e8"),
        delete("007f"),
        format!("46 {INDEX} 00 01 {system} 009b 00 01 03 04 46495645"),
        format!("44 {INDEX} 00 01 01 {system} 007f"),
        format!("4b {INDEX} 00e8"),
        format!("4c {INDEX} 00c8"),
        format!("49 {INDEX} 06"),
        format!("4a {INDEX} 06"),
        "31 05 04 00fc 03b0 00000067000000090000000c0000000000002328".to_owned(),
        "32 05 04 0c 04 00000009".to_owned(),
        "0b 05 04 00 00 c8".to_owned(),
        "24 05 04 00 7f".to_owned(),
    ];
    let records = whole.iter().map(|text| hex(text)).collect();
    damaged::log_and_places(records, 60, 1..10, (1024, 0..4))
}

proptest! {
    #[test]
    fn damaged_records_and_pages_are_an_error_at_most((log, places) in damaged_log()) {
        let (format, mut page) = (format(), packed());
        damaged::is_an_error_at_most(&mut page, HERE, &format, &log, places);
    }
}
