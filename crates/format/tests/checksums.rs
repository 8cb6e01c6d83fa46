//! The checksum algorithms against values computed by other implementations.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod common;

use common::{HERE, classic, full, hex, ok, pattern, put, put_u32, size, u32_at, unverifiable, zip};
use innokit_format::checksum;
use innokit_format::codec::{Context, Scratch};
use innokit_format::{Algorithm, Family, Lsn, Verdict, Why, seal_page, verify_inside, verify_page};

#[test]
fn crc32c_of_the_check_string() {
    assert_eq!(checksum::crc32c(b"123456789"), 0xE306_9283);
    assert_eq!(checksum::crc32c(&pattern(64)[4..26]), 0x5137_BE27);
}

#[test]
fn fold_of_the_check_string_and_of_a_zero_byte() {
    assert_eq!(checksum::fold(b"123456789"), 0xBFC5_157C);
    assert_eq!(checksum::fold(&[0]), 0xC354_9A87);
}

#[test]
fn big_endian_crc_reverses_whole_groups_of_eight() {
    let bytes: Vec<u8> = (0..16).collect();
    assert_eq!(checksum::crc32c(&bytes), 0xD9C9_08EB);
    assert_eq!(checksum::crc32c_swapped(&bytes, 0, 16), 0xCE4C_3333);
}

#[test]
fn ordinary_pages() {
    let expected = [
        (4096, 0x7F94_9BBD, 0xCEEB_8193, 0xB02E_B44C, 0x9776_150B, 0xFD13_8994),
        (16_384, 0xE412_B49B, 0x65F5_09F1, 0x88BA_7C4C, 0x8377_BA57, 0xEDF9_DEC3),
        (65_536, 0x665B_8ED1, 0xA662_E6E6, 0x3921_9C4C, 0xB123_7A9D, 0xD51E_192E),
    ];
    for (len, crc32, big_endian, innodb_new, innodb_old, full_crc32) in expected {
        let mut page = pattern(len);
        assert_eq!(checksum::crc32(&page), crc32, "crc32 of {len} bytes");
        assert_eq!(checksum::crc32_big_endian(&page), big_endian, "big-endian crc32 of {len} bytes");
        assert_eq!(checksum::innodb_new(&page), innodb_new, "new innodb formula on {len} bytes");
        assert_eq!(checksum::full_crc32(&page), full_crc32, "full_crc32 of {len} bytes");
        put_u32(&mut page, 0, innodb_new);
        assert_eq!(checksum::innodb_old(&page), innodb_old, "old innodb formula on {len} bytes");
    }
}

#[test]
fn zip_pages() {
    let expected = [
        (1024, 0x97DB_4900, 0xB02E_A705, 0x60EA_F551),
        (4096, 0x1ECF_347A, 0x447F_293C, 0x6F99_EFAB),
        (8192, 0x90AC_C40E, 0xDF5C_E229, 0x0D06_E823),
        (16_384, 0xE4F2_7143, 0x7807_53E9, 0xB29B_D913),
    ];
    for (len, crc32, big_endian, adler) in expected {
        let page = pattern(len);
        assert_eq!(checksum::zip_crc32(&page), crc32, "crc32 of {len} bytes");
        assert_eq!(checksum::zip_crc32_big_endian(&page), big_endian, "big-endian crc32 of {len} bytes");
        assert_eq!(checksum::zip_adler(&page), adler, "Adler-32 of {len} bytes");
    }
}

#[test]
fn checksums_of_slices_that_are_no_pages_are_defined() {
    for len in 0..64 {
        let short = pattern(len);
        let sums = [
            checksum::crc32(&short),
            checksum::crc32_big_endian(&short),
            checksum::innodb_new(&short),
            checksum::zip_crc32(&short),
            checksum::zip_crc32_big_endian(&short),
            checksum::zip_adler(&short),
        ];
        assert!(len >= 34 || (sums[0] == 0 && sums[3] == 0 && sums[5] == 0), "{len} bytes: {sums:x?}");
    }
}

/// The page that the vectors start from: page 4 of space 5, LSN 0x1234, ten bytes of content.
fn base_page() -> Vec<u8> {
    let mut page = vec![0; 4096];
    put_u32(&mut page, 4, 4);
    put(&mut page, 8, &[0xFF; 8]);
    put(&mut page, 24, &17_855_u16.to_be_bytes());
    put_u32(&mut page, 34, 5);
    put(&mut page, 38, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    page
}

#[test]
fn sealing_the_base_page_gives_the_known_checksums() {
    let mut page = base_page();
    let format = classic(Family::MySql, 4096);
    seal_page(&mut page, Lsn(0x1234), Algorithm::Crc32, &format).expect("sealed");
    assert_eq!((u32_at(&page, 0), u32_at(&page, 4088), u32_at(&page, 4092)), (0x062D_253A, 0x062D_253A, 0x1234));
    assert_eq!(verify_page(&page, HERE, &format), ok(Algorithm::Crc32));

    let mut page = base_page();
    seal_page(&mut page, Lsn(0x1234), Algorithm::FullCrc32, &full(4096)).expect("sealed");
    assert_eq!((u32_at(&page, 0), u32_at(&page, 4088), u32_at(&page, 4092)), (0, 0x1234, 0x3C3E_A463));
    assert_eq!(verify_page(&page, HERE, &full(4096)), ok(Algorithm::FullCrc32));
}

/// The leading bytes of a page of 4096 bytes.
fn padded(text: &str) -> Vec<u8> {
    let mut page = hex(text);
    page.resize(4096, 0);
    page
}

#[test]
fn mysql_compressed_and_encrypted_images_of_the_base_page_are_unverifiable() {
    let zlib = "062d253a00000004ffffffffffffffff0000000000001234000e020145bf0fda00300000000578daedc1b11180201000b007f4014b76b0b4a372ffc19cc3bb24a5b6e3cc3ee615000000c06fe473bf116b7f7a560110";
    let lz4 = "062d253a00000004ffffffffffffffff0000000000001234000e020245bf0fda002700000005bf0102030405060708090a000100ffffffffffffffffffffffffffffffc380062d253a00001234";
    let encrypted = "062d253a00000004ffffffffffffffff00000000000012340010020145bf0fda003000000005419d11a24f31c1c3232f41eabdeace1e1d644e88cceaf0a76cf2c473b74feb118b0a677e4ac35b164e9279d6e987b415";
    let format = classic(Family::MySql, 4096);
    assert_eq!(verify_page(&padded(zlib), HERE, &format), unverifiable(Why::PageCompressed));
    assert_eq!(verify_page(&padded(lz4), HERE, &format), unverifiable(Why::PageCompressed));
    assert_eq!(verify_page(&padded(encrypted), HERE, &format), unverifiable(Why::EncryptedNoKey));
}

#[test]
fn a_page_of_zeros_that_an_import_into_mysql_compressed_is_judged_by_what_is_inside() {
    // A free page as MySQL 9.7 leaves it, without checksum and LSN.
    let packed = "000000000000000000000000000000000000000000000000000e020100003fda002700000000\
                  789cedc13101000000c2a0f54f6d0a3fa0000000000000000000000000000000809f013fda0001";
    let format = classic(Family::MySql, 16_384);
    let mut page = hex(packed);
    page.resize(16_384, 0);
    assert_eq!(verify_page(&page, HERE, &format), unverifiable(Why::PageCompressed));
    let (context, mut scratch) = (Context::MySql { key: None }, Scratch::new());
    let inside = verify_inside(&page, HERE, &format, &context, &mut scratch, verify_page(&page, HERE, &format));
    assert_eq!(inside, Verdict::Empty);
    // Other pages that are almost zeros are still no pages of zeros.
    put(&mut page, 26, &[0]);
    assert!(matches!(verify_page(&page, HERE, &format), Verdict::Corrupt(_)));
    assert!(matches!(verify_page(&page, HERE, &classic(Family::MariaDb, 16_384)), Verdict::Corrupt(_)));
}

#[test]
fn mariadb_page_compressed_images_of_the_base_page() {
    let old = "deadbeef00000004ffffffffffffffff000000000000123486320000000000000001000000050042789cedd7b10d80201445d107c25729d981928e8adeb9190d1362e20c24f76c71ac962e29cc8f96dc9ea15f74fe08d1ceeb4e020000000000dbb0f5fedc5ed6ba0aed";
    let format = classic(Family::MariaDb, 4096).with_page_compressed(true);
    assert_eq!(verify_page(&padded(old), HERE, &format), unverifiable(Why::PageCompressed));

    let zlib = "0000000000000004ffffffffffffffff00000000000012348001789cedc7c709002014c0d06f2f47677105e77634c502ce20e41d0211d9ecb8ce96daba3c4e69639d0f31650100000000001f29757502b50509c9";
    let lz4 = "0000000000000004ffffffffffffffff0000000000001234800112000100\
               2304ff0100020f0042123445bf0a00010200b1050102030405060708090a10000f0200ffffffffffffffffffffffffffffffc160123400000000";
    let mut page = padded(zlib);
    put_u32(&mut page, 252, 0x0E1A_3699);
    assert_eq!(verify_page(&page, HERE, &full(4096)), ok(Algorithm::FullCrc32));
    let mut page = padded(&lz4.replace(' ', ""));
    page[251] = 0x5D;
    put_u32(&mut page, 252, 0x6857_CD19);
    assert_eq!(verify_page(&page, HERE, &full(4096)), ok(Algorithm::FullCrc32));
}

#[test]
fn sealing_refuses_what_the_format_cannot_carry() {
    let mut page = vec![0; 4096];
    let zip = zip(Family::MySql, 16_384, 4096);
    let refused = [
        (&full(4096), Algorithm::Crc32),
        (&classic(Family::MariaDb, 4096), Algorithm::FullCrc32),
        (&classic(Family::MariaDb, 4096), Algorithm::Mixed),
        (&zip, Algorithm::FullCrc32),
        (&classic(Family::MySql, 8192), Algorithm::Crc32),
    ];
    for (format, algorithm) in refused {
        assert!(seal_page(&mut page, Lsn(1), algorithm, format).is_err(), "{format:?} {algorithm}");
    }
    assert_eq!(page, vec![0; 4096], "nothing was written");
    assert_eq!(zip.physical(), size(4096));
}
