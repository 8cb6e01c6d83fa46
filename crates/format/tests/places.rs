//! A page must be at the place that its header states.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod common;

use common::{HERE, INDEX, LSN, classic, corruption, full, ok, put, put_u32, reason, sealed, sealed_as, space};
use innokit_format::{Algorithm, Corruption, Encryption, Family, PageId, PageNo, SpaceFormat, SpaceId, verify_page};

const N: usize = 4096;

fn mysql() -> SpaceFormat {
    classic(Family::MySql, N as u32)
}

fn mariadb() -> SpaceFormat {
    classic(Family::MariaDb, N as u32)
}

#[test]
fn a_page_elsewhere_is_named() {
    for (format, algorithm) in common::kinds() {
        let page = sealed(&format, HERE, algorithm);
        for (lies_at, reason) in [(PageId::new(5, 8), "misplaced_page"), (PageId::new(77, 4), "misplaced_page")] {
            let found = corruption(verify_page(&page, lies_at, &format));
            assert_eq!(found.reason(), reason, "{format:?} {algorithm}");
            assert_eq!(
                found,
                Corruption::MisplacedPage { space: Some(space(5)), page_no: PageNo(4), expected: lies_at }
            );
            assert_eq!(found.to_string(), "page 4 of space 5 is here instead, with a valid checksum");
        }
    }
}

#[test]
fn mysql_takes_a_page_that_names_page_0_of_space_0_for_uninitialised() {
    let origin = PageId::new(0, 0);
    let page = sealed_as(&mysql(), origin, Algorithm::Crc32, 0);
    assert_eq!(verify_page(&page, HERE, &mysql()), ok(Algorithm::Crc32));
    let page = sealed_as(&mariadb(), origin, Algorithm::Crc32, 0);
    assert_eq!(reason(&page, &mariadb()), "misplaced_page");
}

#[test]
fn the_first_page_of_the_system_tablespace_is_misplaced_anywhere_else() {
    let page = sealed_as(&mysql(), PageId::new(0, 0), Algorithm::Crc32, 8);
    assert_eq!(reason(&page, &mysql()), "misplaced_page");
}

#[test]
fn the_oldest_pages_of_mysqls_system_tablespace_have_no_space_id() {
    let system = mysql().with_space(SpaceId::SYSTEM);
    let id = PageId::new(0, 3);
    let mut page = sealed(&system, PageId::new(9, 3), Algorithm::Innodb);
    assert_eq!(corruption(verify_page(&page, id, &system)).reason(), "misplaced_page");
    put_u32(&mut page, N - 8, (LSN.0 >> 32) as u32);
    assert_eq!(verify_page(&page, id, &system), ok(Algorithm::Innodb));
}

#[test]
fn the_index_id_is_told_only_where_it_can_be_read() {
    let format = mysql();
    let id = |page: &[u8], format: &SpaceFormat| innokit_format::index_id(page, format);
    let mut page = sealed(&format, HERE, Algorithm::Crc32);
    put(&mut page, 66, &193_u64.to_be_bytes());
    assert_eq!(id(&page, &format), Some(193));
    assert_eq!(id(&page, &full(4096)), None, "a checksum would be a key version");
    put(&mut page, 24, &10_u16.to_be_bytes());
    assert_eq!(id(&page, &format), None, "a BLOB page");
    put(&mut page, 24, &18_u16.to_be_bytes());
    assert_eq!((id(&page, &format), id(&page, &mariadb())), (None, Some(193)));
    put(&mut page, 24, &INDEX.to_be_bytes());
    put_u32(&mut page, 26, 1);
    assert_eq!(id(&page, &mariadb()), Some(193), "left-over bytes in a plain tablespace");
    assert_eq!(id(&page, &mariadb().with_encryption(Encryption::MariaDb)), None);
    assert_eq!(id(&page[..70], &format), None);
}
