//! Decompressing pages of compressed tables: a handmade one, and pages cut off or changed at every place.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use common::{hex, put, put_u32, zip};
use innokit_format::page::index::{IndexPage, TreePlace, check_index_page};
use innokit_format::page::zip::{Unpacker, ZipDamage};
use innokit_format::{Family, SpaceFormat};

const ORIGINS: [u16; 4] = [127, 232, 200, 155];

fn format() -> SpaceFormat {
    zip(Family::MySql, 16384, 1024)
}

/// `id int primary key, a varchar(20), b text`: five records, all of them in the modification log; the third in the chain is deleted.
fn packed() -> Vec<u8> {
    let mut page = vec![0; 1024];
    put_u32(&mut page, 4, 4);
    put(&mut page, 8, &[0xFF; 8]);
    put(&mut page, 24, &17855_u16.to_be_bytes());
    put_u32(&mut page, 34, 0x67);
    put(&mut page, 38, &hex("000201108006000000000000000500000004"));
    put(&mut page, 66, &[0, 0, 0, 0, 0, 0, 0, 0xAA]);
    let stream = "6881e29466a86304000000ffff0300019b00a4";
    let log = "020203800000016f6e65 0401c01480000002 060005018000000374687265 6578 080003c0148000000254574f 040204800000056669766500";
    put(&mut page, 94, &hex(stream));
    put(&mut page, 94 + stream.len() / 2, &hex(&log.replace(' ', "")));
    put(&mut page, 1016, &hex("009b80c800e8007f"));
    let trailer = [
        "00000000204a82000000f40110",
        "00000000205081000000f90110",
        "00000000205202000000f90932",
        "00000000204e02000000f70571",
    ];
    for (number, part) in trailer.iter().enumerate() {
        put(&mut page, 1016 - 13 * (number + 1), &hex(part));
    }
    put(&mut page, 1016 - 52 - 20, &hex("00000067000000070000000c0000000000002328"));
    page
}

fn unpacked(page: &[u8]) -> Result<Vec<u8>, ZipDamage> {
    let mut out = vec![0xEE; 16384];
    Unpacker::new().unpack(page, &format(), &mut out).map(|()| out)
}

#[test]
fn the_worked_example_comes_out_as_the_server_sees_it() {
    let out = unpacked(&packed()).expect("unpacked");
    let at = |start: usize, expected: &str| {
        let expected = hex(&expected.replace(' ', ""));
        assert_eq!(out[start..start + expected.len()], expected, "byte {start}");
    };
    at(120, "03 02 00 0010 0069 80000001 00000000204a 82000000f40110 6f6e65");
    at(148, "04 02 00 0018 ffd5 80000005 000000002050 81000000f90110 66697665");
    at(192, "01 05 00 20 0020 ffd3 80000003 000000002052 02000000f90932 7468726565 78");
    at(
        223,
        "14 c0 03 00 00 0028 ffe0 80000002 00000000204e 02000000f70571 54574f 00000067000000070000000c0000000000002328",
    );
    at(107, "05 000b 0000");
    at(16384 - 12, "0070 0063 0000000000000000");
    let format = format();
    let page = IndexPage::parse(&out, &format).expect("an index page");
    let origins: Vec<u16> = page.records().map(|record| record.expect("a record").origin()).collect();
    assert_eq!(origins, ORIGINS);
    let deleted: Vec<bool> = page.records().map(|record| record.expect("a record").is_deleted()).collect();
    assert_eq!(deleted, [false, false, true, false]);
    assert_eq!(check_index_page(&page, None, TreePlace::Unknown), []);
}

#[test]
fn every_bent_byte_ends_in_a_page_or_in_damage() {
    let sound = packed();
    let (mut damaged, mut unpacker, mut out) = (0, Unpacker::new(), vec![0; 16384]);
    for at in 0..sound.len() {
        for bits in [0x01, 0x80, 0xFF] {
            let mut page = sound.clone();
            page[at] ^= bits;
            damaged += u32::from(unpacker.unpack(&page, &format(), &mut out).is_err());
        }
    }
    // The header, the stream, the log's structure and the directory, but not the values in log and trailer, nor the unused bytes.
    assert!((100..1500).contains(&damaged), "{damaged}");
}

#[test]
fn what_damage_is_called() {
    let with = |at: usize, bytes: &[u8]| {
        let mut page = packed();
        put(&mut page, at, bytes);
        unpacked(&page).expect_err("damaged")
    };
    assert_eq!(with(54, &[0, 5]), ZipDamage::Counts { records: 5, heap: 4 });
    assert_eq!(with(38, &[0, 3]), ZipDamage::Slots { found: 2, expected: 3 });
    assert_eq!(with(1022, &[0, 0xE8]), ZipDamage::Directory { origin: 0xE8 });
    assert_eq!(with(96, &[0xFF]), ZipDamage::Stream);
    assert_eq!(with(113, &[0]), ZipDamage::Missing { origin: 127 });
    assert_eq!(with(113, &[9]), ZipDamage::Log { at: 113 });
    assert_eq!(unpacked(&packed()[..512]), Err(ZipDamage::Size { len: 512, out: 16384 }));
}
