//! What each server accepts and rejects, one rule a test.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod common;

use common::{
    HERE, INDEX, LSN, classic, corruption, full, ok, put, put_u32, reason, sealed, sealed_as, u32_at, unsealed,
    unverifiable, zip,
};
use innokit_format::checksum::{self, NO_CHECKSUM_MAGIC};
use innokit_format::{
    Algorithm, ChecksumField, Corruption, Encryption, Family, Lsn, PageId, PageNo, SpaceFormat, SpaceId, Verdict, Why,
    seal_page, verify_page,
};

const N: usize = 4096;

fn mysql() -> SpaceFormat {
    classic(Family::MySql, N as u32)
}

fn mariadb() -> SpaceFormat {
    classic(Family::MariaDb, N as u32)
}

/// The content of a checksum field, computed from the page.
type Field = fn(&[u8]) -> u32;

/// A page with two checksum fields chosen from its own checksums.
fn with_fields(format: &SpaceFormat, header: Field, trailer: Field) -> Verdict {
    let mut page = sealed(format, HERE, Algorithm::Crc32);
    let header = header(&page);
    put_u32(&mut page, 0, header);
    let trailer = trailer(&page);
    put_u32(&mut page, N - 8, trailer);
    verify_page(&page, HERE, format)
}

fn zero(_: &[u8]) -> u32 {
    0
}

fn magic(_: &[u8]) -> u32 {
    NO_CHECKSUM_MAGIC
}

fn high_lsn(_: &[u8]) -> u32 {
    (LSN.0 >> 32) as u32
}

#[test]
fn both_accept_every_algorithm_in_both_fields() {
    for (format, algorithm) in common::kinds() {
        let page = sealed(&format, HERE, algorithm);
        let expected = match (format.family(), algorithm) {
            (Family::MariaDb, Algorithm::Crc32BigEndian) => unverifiable(Why::OldBigEndianChecksum),
            _ => ok(algorithm),
        };
        assert_eq!(verify_page(&page, HERE, &format), expected, "{format:?} {algorithm}");
    }
}

#[test]
fn both_accept_none() {
    for format in [mysql(), mariadb(), zip(Family::MySql, 16_384, 8192), zip(Family::MariaDb, 16_384, 8192)] {
        let page = sealed(&format, HERE, Algorithm::None);
        assert_eq!(verify_page(&page, HERE, &format), ok(Algorithm::None));
    }
}

#[test]
fn mariadb_alone_is_unsure_about_big_endian_checksums() {
    for format in [mariadb(), zip(Family::MariaDb, 16_384, 8192)] {
        let page = sealed(&format, HERE, Algorithm::Crc32BigEndian);
        assert_eq!(verify_page(&page, HERE, &format), unverifiable(Why::OldBigEndianChecksum));
    }
}

#[test]
fn both_accept_the_variants_of_innodb_from_before_4_1() {
    for format in [mysql(), mariadb()] {
        for trailer in [checksum::innodb_old, high_lsn] {
            for header in [zero, checksum::innodb_new] {
                assert_eq!(with_fields(&format, header, trailer), ok(Algorithm::Innodb), "{format:?}");
            }
        }
    }
}

#[test]
fn mixed_fields_are_accepted_by_mariadb_and_rejected_by_mysql() {
    let mixes: [(Field, Field); 4] =
        [(magic, checksum::innodb_old), (magic, high_lsn), (checksum::innodb_new, magic), (zero, magic)];
    for (header, trailer) in mixes {
        assert_eq!(with_fields(&mariadb(), header, trailer), ok(Algorithm::Mixed));
        let rejected = corruption(with_fields(&mysql(), header, trailer));
        assert_eq!(rejected.reason(), "checksum_mismatch");
    }
}

#[test]
fn both_reject_a_crc32_in_one_field_alone() {
    let mixes: [(Field, Field); 5] = [
        (checksum::crc32, magic),
        (magic, checksum::crc32),
        (checksum::crc32, checksum::innodb_old),
        (checksum::innodb_new, checksum::crc32),
        (checksum::crc32, checksum::crc32_big_endian),
    ];
    for format in [mysql(), mariadb()] {
        for (header, trailer) in mixes {
            assert_eq!(corruption(with_fields(&format, header, trailer)).reason(), "checksum_mismatch");
        }
    }
}

#[test]
fn the_field_that_differs_is_the_one_reported() {
    let mut page = sealed(&mysql(), HERE, Algorithm::Crc32);
    let computed = checksum::crc32(&page);
    put_u32(&mut page, N - 8, 7);
    let expected = Corruption::ChecksumMismatch {
        algorithm: Algorithm::Crc32,
        field: ChecksumField::Trailer,
        stored: 7,
        computed,
    };
    assert_eq!(corruption(verify_page(&page, HERE, &mysql())), expected);
    assert_eq!((expected.stored(), expected.computed()), (Some(7), Some(u64::from(computed))));

    let mut page = sealed(&mysql(), HERE, Algorithm::Innodb);
    let computed = checksum::innodb_old(&page);
    put_u32(&mut page, N - 8, 9);
    let expected = Corruption::ChecksumMismatch {
        algorithm: Algorithm::Innodb,
        field: ChecksumField::Trailer,
        stored: 9,
        computed,
    };
    assert_eq!(corruption(verify_page(&page, HERE, &mysql())), expected);
}

#[test]
fn a_body_damaged_under_innodb_is_reported_in_the_header_field() {
    let mut page = sealed(&mysql(), HERE, Algorithm::Innodb);
    page[100] ^= 1;
    let found = corruption(verify_page(&page, HERE, &mysql()));
    let computed = checksum::innodb_new(&page);
    let stored = u32_at(&page, 0);
    assert_eq!(
        found,
        Corruption::ChecksumMismatch { algorithm: Algorithm::Innodb, field: ChecksumField::Header, stored, computed }
    );
}

#[test]
fn a_zero_page_is_empty_in_every_format() {
    for (format, _) in common::kinds() {
        let page = vec![0; format.physical().bytes()];
        assert_eq!(verify_page(&page, HERE, &format), Verdict::Empty, "{format:?}");
    }
}

#[test]
fn bytes_26_to_33_of_an_ordinary_zero_page_may_hold_anything() {
    let mut page = vec![0; N];
    put(&mut page, 26, &[0xAB; 8]);
    assert_eq!(verify_page(&page, HERE, &mysql()), Verdict::Empty);
    assert_eq!(verify_page(&page, HERE, &mariadb()), Verdict::Empty);
    assert_eq!(reason(&page, &zip(Family::MySql, 16_384, 4096)), "not_zero_page");
    assert_eq!(reason(&page, &full(4096)), "checksum_mismatch");
}

#[test]
fn a_page_without_checksum_and_lsn_that_is_not_zero_is_damaged() {
    for format in [mysql(), mariadb(), zip(Family::MySql, 16_384, 4096), zip(Family::MariaDb, 16_384, 4096)] {
        let mut page = vec![0; N];
        page[2000] = 1;
        let found = corruption(verify_page(&page, HERE, &format));
        assert!(matches!(found, Corruption::NotZeroPage { offset: 2000, .. }), "{found}");
    }
}

#[test]
fn differing_lsn_halves_are_rejected_whatever_the_checksum_says() {
    for format in [mysql(), mariadb()] {
        for algorithm in [Algorithm::Crc32, Algorithm::Innodb, Algorithm::None] {
            let mut page = sealed(&format, HERE, algorithm);
            put_u32(&mut page, N - 4, 77);
            let found = corruption(verify_page(&page, HERE, &format));
            assert_eq!(found, Corruption::LsnMismatch { header: LSN.low32(), trailer: 77 });
        }
    }
    let mut page = unsealed(&full(4096), HERE, INDEX);
    seal_page(&mut page, LSN, Algorithm::FullCrc32, &full(4096)).expect("sealed");
    put_u32(&mut page, N - 8, 77);
    let crc = checksum::full_crc32(&page);
    put_u32(&mut page, N - 4, crc);
    assert_eq!(reason(&page, &full(4096)), "lsn_mismatch");
}

#[test]
fn zip_pages_have_no_lsn_trailer() {
    let format = zip(Family::MySql, 16_384, 16_384);
    let page = sealed(&format, HERE, Algorithm::Crc32);
    assert_ne!(u32_at(&page, 16_384 - 4), LSN.low32());
    assert_eq!(verify_page(&page, HERE, &format), ok(Algorithm::Crc32));
}

#[test]
fn torn_page_is_reported_with_both_lsn_halves() {
    for (format, algorithm) in
        [(mysql(), Algorithm::Crc32), (mariadb(), Algorithm::Innodb), (full(4096), Algorithm::FullCrc32)]
    {
        let old = sealed(&format, HERE, algorithm);
        for cut in (512..N).step_by(512) {
            let mut torn = unsealed(&format, HERE, INDEX);
            torn[1000..3000].fill(9);
            seal_page(&mut torn, Lsn(LSN.0 + 1), algorithm, &format).expect("sealed");
            torn[cut..].copy_from_slice(&old[cut..]);
            let found = corruption(verify_page(&torn, HERE, &format));
            assert_eq!(found, Corruption::TornPage { header: LSN.low32() + 1, trailer: LSN.low32() }, "cut at {cut}");
            assert_eq!(
                (found.stored(), found.computed()),
                (Some(u64::from(LSN.low32()) + 1), Some(u64::from(LSN.low32())))
            );
        }
    }
}

#[test]
fn mysql_temporary_pages_without_checksum_are_unverifiable() {
    let temporary = mysql().with_temporary(true);
    let page = sealed(&temporary, HERE, Algorithm::None);
    assert_eq!(verify_page(&page, HERE, &temporary), unverifiable(Why::NoChecksum));
    let mut garbage = page.clone();
    put_u32(&mut garbage, 0, 1);
    assert_eq!(verify_page(&garbage, HERE, &temporary), unverifiable(Why::NoChecksum));
    put_u32(&mut garbage, N - 4, 1);
    assert_eq!(reason(&garbage, &temporary), "torn_page");
    let zip = zip(Family::MySql, 16_384, 4096).with_temporary(true);
    assert_eq!(verify_page(&sealed(&zip, HERE, Algorithm::None), HERE, &zip), unverifiable(Why::NoChecksum));
}

#[test]
fn mariadb_temporary_pages_are_verified() {
    let temporary = full(4096).with_temporary(true);
    let mut page = sealed(&temporary, HERE, Algorithm::FullCrc32);
    assert_eq!(verify_page(&page, HERE, &temporary), ok(Algorithm::FullCrc32));
    page[300] ^= 4;
    assert_eq!(reason(&page, &temporary), "checksum_mismatch");
}

/// A page encrypted by MySQL: type and original type, with random bytes as body and trailer.
fn mysql_encrypted(format: &SpaceFormat, original: u16) -> Vec<u8> {
    let mut page = sealed(format, HERE, Algorithm::Crc32);
    put(&mut page, 24, &15_u16.to_be_bytes());
    put(&mut page, 28, &original.to_be_bytes());
    page[38..].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) ^ 0x5A);
    page
}

#[test]
fn mysql_encrypted_pages_are_unverifiable_but_must_lie_in_their_place() {
    for format in [mysql(), zip(Family::MySql, 16_384, 4096)] {
        let page = mysql_encrypted(&format, INDEX);
        assert_eq!(verify_page(&page, HERE, &format), unverifiable(Why::EncryptedNoKey));
        let other_page = verify_page(&page, PageId::new(5, 9), &format);
        assert_eq!(corruption(other_page), Corruption::WrongPageNumber { stored: PageNo(4), expected: PageNo(9) });
        let other_space = verify_page(&page, PageId::new(6, 4), &format);
        assert_eq!(corruption(other_space), Corruption::WrongSpaceId { stored: SpaceId(5), expected: SpaceId(6) });
    }
}

#[test]
fn an_encrypted_page_without_type_is_believed_only_in_an_encrypted_tablespace() {
    let page = mysql_encrypted(&mysql(), 0);
    assert_eq!(
        verify_page(&page, HERE, &mysql().with_encryption(Encryption::MySql)),
        unverifiable(Why::EncryptedNoKey)
    );
    assert_ne!(verify_page(&page, HERE, &mysql()), unverifiable(Why::EncryptedNoKey));
}

#[test]
fn a_damaged_type_field_does_not_pass_for_encryption_or_compression() {
    for (format, algorithm) in common::kinds() {
        for (kind, damaged) in [(10_u16, 14_u16), (11, 15), (7, 15), (24, 16), (25, 17)] {
            let mut page = sealed_as(&format, HERE, algorithm, kind);
            put(&mut page, 24, &damaged.to_be_bytes());
            let verdict = verify_page(&page, HERE, &format);
            assert!(matches!(verdict, Verdict::Corrupt(_)), "{format:?} {algorithm} {kind} -> {damaged}: {verdict:?}");
        }
    }
}

#[test]
fn mysql_compressed_pages_with_impossible_sizes_are_damaged() {
    let mut page = unsealed(&mysql(), HERE, 14);
    put(&mut page, 16, &LSN.0.to_be_bytes());
    put(&mut page, 26, &[2, 1, 0x45, 0xBF, 0x0F, 0xDA, 0x00, 0x30]);
    assert_eq!(verify_page(&page, HERE, &mysql()), unverifiable(Why::PageCompressed));
    for (at, bytes) in [(26, [3_u8, 1]), (26, [2, 9]), (30, [0, 1]), (32, [0xFF, 0xFF])] {
        let mut bad = page.clone();
        put(&mut bad, at, &bytes);
        assert!(matches!(verify_page(&bad, HERE, &mysql()), Verdict::Corrupt(_)), "{bytes:?} at {at}");
    }
}

/// A page encrypted by MariaDB without full_crc32: key version and the checksum of the ciphertext.
fn mariadb_encrypted(format: &SpaceFormat) -> Vec<u8> {
    let mut page = sealed(format, HERE, Algorithm::Crc32);
    put_u32(&mut page, 26, 1);
    let end = if format.scheme() == innokit_format::Scheme::Classic { page.len() - 8 } else { page.len() };
    page[38..end].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) ^ 0x5A);
    let zip = format.scheme() == innokit_format::Scheme::Zip;
    let sum = if zip { checksum::zip_crc32(&page) } else { checksum::crc32(&page) };
    put_u32(&mut page, 30, sum);
    page
}

#[test]
fn mariadb_encrypted_pages_are_verified_without_the_key() {
    for format in [mariadb(), zip(Family::MariaDb, 16_384, 4096)] {
        let mut page = mariadb_encrypted(&format);
        assert_eq!(verify_page(&page, HERE, &format), ok(Algorithm::Crc32));
        page[200] ^= 1;
        assert!(matches!(verify_page(&page, HERE, &format), Verdict::Corrupt(_)));
    }
    let mut page = mariadb_encrypted(&mariadb());
    put_u32(&mut page, N - 4, 3);
    assert_eq!(reason(&page, &mariadb()), "lsn_mismatch");
}

#[test]
fn left_over_bytes_in_the_key_version_do_not_spoil_a_plain_page() {
    let mut page = sealed(&mariadb(), HERE, Algorithm::Crc32);
    put(&mut page, 26, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(verify_page(&page, HERE, &mariadb()), ok(Algorithm::Crc32));
}

#[test]
fn mariadb_page_compressed_types_need_the_flag() {
    for (kind, why) in [(34_354_u16, Why::PageCompressed), (37_401, Why::EncryptedNoKey)] {
        let mut page = sealed_as(&mariadb(), HERE, Algorithm::Crc32, kind);
        put_u32(&mut page, 0, NO_CHECKSUM_MAGIC);
        let flagged = mariadb().with_page_compressed(true);
        assert_eq!(verify_page(&page, HERE, &flagged), unverifiable(why));
        assert!(matches!(verify_page(&page, HERE, &mariadb()), Verdict::Corrupt(_)));
        assert_eq!(corruption(verify_page(&page, PageId::new(5, 5), &flagged)).reason(), "wrong_page_number");
    }
    let mut hinted = mariadb_encrypted(&mariadb());
    put(&mut hinted, 24, &37_401_u16.to_be_bytes());
    let sum = checksum::crc32(&hinted);
    put_u32(&mut hinted, 30, sum);
    assert_eq!(verify_page(&hinted, HERE, &mariadb().with_page_compressed(true)), ok(Algorithm::Crc32));
}

#[test]
fn full_crc32_tries_no_other_algorithm() {
    let mut page = unsealed(&full(4096), HERE, INDEX);
    put(&mut page, 16, &LSN.0.to_be_bytes());
    put_u32(&mut page, N - 8, LSN.low32());
    for sum in [NO_CHECKSUM_MAGIC, 0, checksum::crc32(&page)] {
        put_u32(&mut page, N - 4, sum);
        assert_eq!(reason(&page, &full(4096)), "checksum_mismatch");
    }
}

#[test]
fn full_crc32_compressed_sizes_must_be_smaller_than_the_page() {
    for (kind, good) in [(0x8001_u16, true), (0x800F, true), (0x8010, false), (0x8011, false), (0x8000, false)] {
        let mut page = unsealed(&full(4096), HERE, kind);
        let size = usize::from(kind & 0x7FFF) * 256;
        if (256..N).contains(&size) {
            let crc = checksum::full_crc32(&page[..size]);
            put_u32(&mut page, size - 4, crc);
        }
        match verify_page(&page, HERE, &full(4096)) {
            Verdict::Ok(algorithm) => assert!(good && algorithm == Algorithm::FullCrc32),
            verdict => assert!(!good && corruption(verdict).reason() == "bad_compressed_size", "{kind:x}: {verdict:?}"),
        }
    }
}

#[test]
fn full_crc32_ciphertext_hides_space_and_lsn_trailer() {
    let mut page = sealed(&full(4096), HERE, Algorithm::FullCrc32);
    put_u32(&mut page, 0, 1);
    put(&mut page, 26, &[0xC7; 12]);
    put_u32(&mut page, N - 8, 0x0BAD_F00D);
    let crc = checksum::full_crc32(&page);
    put_u32(&mut page, N - 4, crc);
    assert_eq!(verify_page(&page, HERE, &full(4096)), ok(Algorithm::FullCrc32));
    let moved = corruption(verify_page(&page, PageId::new(5, 6), &full(4096)));
    assert_eq!(moved, Corruption::MisplacedPage { space: None, page_no: PageNo(4), expected: PageId::new(5, 6) });
}

#[test]
fn pages_of_the_wrong_length_are_truncated() {
    for len in [0, 1, 37, 4095, 4097] {
        let found = corruption(verify_page(&vec![1; len], HERE, &mysql()));
        assert_eq!(found, Corruption::TruncatedPage { len: len as u32, expected: 4096 });
    }
}

/// Four bytes of the body chosen so that the page's crc32 is `target`: the CRC is linear in them.
fn forge_crc32(page: &mut [u8], target: u32) {
    const AT: usize = 100;
    put_u32(page, AT, 0);
    let mut missing = checksum::crc32(page) ^ target;
    let base = checksum::crc32(page);
    let mut columns: Vec<(u32, u32)> = Vec::new();
    for bit in 0..32 {
        put_u32(page, AT, 1 << bit);
        let (mut effect, mut bits) = (checksum::crc32(page) ^ base, 1_u32 << bit);
        for &(pivot, pivot_bits) in &columns {
            if effect & (1 << pivot.ilog2()) != 0 {
                (effect, bits) = (effect ^ pivot, bits ^ pivot_bits);
            }
        }
        columns.push((effect, bits));
    }
    let mut chosen = 0;
    for &(pivot, bits) in &columns {
        if missing & (1 << pivot.ilog2()) != 0 {
            (missing, chosen) = (missing ^ pivot, chosen ^ bits);
        }
    }
    put_u32(page, AT, chosen);
}

#[test]
fn a_checksum_that_happens_to_be_zero_is_accepted_only_with_an_lsn() {
    for (lsn, expected) in [(LSN, ok(Algorithm::Crc32)), (Lsn(0), Verdict::Empty)] {
        let mut page = unsealed(&mysql(), HERE, INDEX);
        put(&mut page, 16, &lsn.0.to_be_bytes());
        forge_crc32(&mut page, 0);
        seal_page(&mut page, lsn, Algorithm::Crc32, &mysql()).expect("sealed");
        assert_eq!((checksum::crc32(&page), u32_at(&page, 0)), (0, 0));
        match verify_page(&page, HERE, &mysql()) {
            Verdict::Corrupt(found) => {
                assert!(expected == Verdict::Empty && found.reason() == "not_zero_page", "{found}")
            }
            verdict => assert_eq!(verdict, expected),
        }
    }
}

#[test]
fn a_plain_page_of_an_encrypted_tablespace_does_not_pass_with_a_damaged_type() {
    let format = mysql().with_encryption(Encryption::MySql);
    let mut page = sealed_as(&format, HERE, Algorithm::Crc32, 7);
    assert_eq!(
        verify_page(&page, HERE, &format),
        ok(Algorithm::Crc32),
        "undo tablespaces mix plain and encrypted pages"
    );
    put(&mut page, 24, &15_u16.to_be_bytes());
    assert_eq!(reason(&page, &format), "checksum_mismatch");
}

#[test]
fn page_0_of_mariadb_is_never_encrypted() {
    let origin = PageId::new(5, 0);
    let mut page = mariadb_encrypted(&mariadb());
    put_u32(&mut page, 4, 0);
    let sum = checksum::crc32(&page);
    put_u32(&mut page, 30, sum);
    assert_eq!(corruption(verify_page(&page, origin, &mariadb())).reason(), "checksum_mismatch");
}

#[test]
fn a_page_without_checksum_whose_type_says_that_it_is_transformed_is_not_sound() {
    let format = classic(Family::MySql, 16_384);
    let id = PageId::new(9, 33);
    for (kind, expected) in [
        (14, unverifiable(Why::PageCompressed)),
        (15, unverifiable(Why::EncryptedNoKey)),
        (16, unverifiable(Why::EncryptedNoKey)),
        (17, unverifiable(Why::EncryptedNoKey)),
        (17_855, ok(Algorithm::None)),
    ] {
        let page = sealed_as(&format, id, Algorithm::None, kind);
        assert_eq!(verify_page(&page, id, &format.with_space(id.space)), expected, "type {kind}");
    }
}
