//! The doublewrite area of the system tablespace holds copies of other pages.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod common;

use common::{classic, full, ok, sealed, unverifiable, zip};
use innokit_format::{Algorithm, Family, PageId, SpaceFormat, SpaceId, Verdict, Why, verify_page};

const SLOT: PageId = PageId::new(0, 70);
const FOREIGN: PageId = PageId::new(9, 33);

fn verdict(page: &[u8], format: SpaceFormat) -> Verdict {
    let mut slot = page.to_vec();
    slot.resize(16_384, 0);
    verify_page(&slot, SLOT, &format.with_space(SpaceId::SYSTEM))
}

#[test]
fn a_slot_may_hold_a_page_of_any_space() {
    let mysql = classic(Family::MySql, 16_384);
    assert_eq!(verdict(&sealed(&mysql, FOREIGN, Algorithm::Crc32), mysql), ok(Algorithm::Crc32));
    assert_eq!(verdict(&sealed(&mysql, FOREIGN, Algorithm::Innodb), mysql), ok(Algorithm::Innodb));
    let copy = sealed(&full(16_384), FOREIGN, Algorithm::FullCrc32);
    assert_eq!(verdict(&copy, full(16_384)), ok(Algorithm::FullCrc32));
    for bytes in [1024, 2048, 4096, 8192, 16_384] {
        let copy = sealed(&zip(Family::MariaDb, 16_384, bytes), FOREIGN, Algorithm::Crc32);
        assert_eq!(verdict(&copy, full(16_384)), ok(Algorithm::Crc32), "zip page of {bytes} bytes");
        let copy = sealed(&zip(Family::MySql, 16_384, bytes), FOREIGN, Algorithm::Innodb);
        assert_eq!(verdict(&copy, mysql), ok(Algorithm::Innodb), "zip page of {bytes} bytes");
    }
}

#[test]
fn a_torn_or_stale_slot_is_no_damage() {
    let mysql = classic(Family::MySql, 16_384);
    let mut copy = sealed(&mysql, FOREIGN, Algorithm::Crc32);
    copy[5000..].fill(3);
    assert_eq!(verdict(&copy, mysql), unverifiable(Why::DoublewriteSlot));
    let mut copy = sealed(&full(16_384), FOREIGN, Algorithm::FullCrc32);
    copy[5000] ^= 1;
    assert_eq!(verdict(&copy, full(16_384)), unverifiable(Why::DoublewriteSlot));
}

#[test]
fn what_follows_a_zip_page_in_its_slot_does_not_count() {
    let zip = zip(Family::MySql, 16_384, 4096);
    for algorithm in [Algorithm::Crc32, Algorithm::Innodb] {
        let mut slot = sealed(&zip, FOREIGN, algorithm);
        slot.resize(16_384, 0);
        assert_eq!(verdict(&slot, classic(Family::MySql, 16_384)), ok(algorithm));
        slot[9000] = 1;
        assert_eq!(verdict(&slot, classic(Family::MySql, 16_384)), ok(algorithm));
        slot[2000] ^= 1;
        assert_eq!(verdict(&slot, classic(Family::MySql, 16_384)), unverifiable(Why::DoublewriteSlot));
    }
}

#[test]
fn an_unused_slot_is_empty() {
    assert_eq!(verdict(&[], classic(Family::MySql, 16_384)), Verdict::Empty);
    assert_eq!(verdict(&[], full(16_384)), Verdict::Empty);
}

#[test]
fn the_same_pages_are_damage_anywhere_else_in_the_system_tablespace() {
    let system = classic(Family::MySql, 16_384).with_space(SpaceId::SYSTEM);
    let copy = sealed(&system, FOREIGN, Algorithm::Crc32);
    for page_no in [63, 192] {
        let verdict = verify_page(&copy, PageId::new(0, page_no), &system);
        assert_eq!(common::corruption(verdict).reason(), "misplaced_page");
    }
}

#[test]
fn slots_of_smaller_pages_lie_further_on() {
    let system = classic(Family::MySql, 4096).with_space(SpaceId::SYSTEM);
    let copy = sealed(&system, FOREIGN, Algorithm::Crc32);
    assert_eq!(verify_page(&copy, PageId::new(0, 256), &system), ok(Algorithm::Crc32));
    assert_eq!(verify_page(&copy, PageId::new(0, 767), &system), ok(Algorithm::Crc32));
    assert!(matches!(verify_page(&copy, PageId::new(0, 255), &system), Verdict::Corrupt(_)));
    assert!(matches!(verify_page(&copy, PageId::new(0, 768), &system), Verdict::Corrupt(_)));
}
