//! Which pages are in use according to the space header, the extent descriptors and the segment inodes.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod common;

use common::{classic, put, put_u32, size, zip};
use innokit_format::corruption::SEGMENT_MAGIC;
use innokit_format::page::fsp::{self, SpaceHeader};
use innokit_format::page::inode::{self, parse_inodes};
use innokit_format::page::xdes::{XDES_BITMAP, XDES_STATE};
use innokit_format::{Corruption, ExtentMap, ExtentState, Family, PageNo, SpaceFormat, page_in_use};

fn formats() -> Vec<SpaceFormat> {
    let ordinary = [4096, 8192, 16_384, 32_768, 65_536].map(|bytes| classic(Family::MySql, bytes));
    let zips = [(16_384, 1024), (16_384, 8192), (8192, 4096), (4096, 1024)];
    ordinary.into_iter().chain(zips.map(|(logical, physical)| zip(Family::MySql, logical, physical))).collect()
}

/// An XDES page with all extents in `state`, all pages free.
fn xdes_page(format: &SpaceFormat, kind: u16, state: u32) -> Vec<u8> {
    let mut page = vec![0; format.physical().bytes()];
    put(&mut page, 24, &kind.to_be_bytes());
    let entry = fsp::xdes_size(format.logical());
    let extents = format.physical().get() / format.extent_pages();
    for at in (0..extents as usize).map(|extent| fsp::XDES_ARR_OFFSET + extent * entry) {
        put_u32(&mut page, at + XDES_STATE, state);
        page[at + XDES_BITMAP..at + entry].fill(0xFF);
    }
    page
}

/// Clears the free bit of the page `index` places after the XDES page.
fn use_page(page: &mut [u8], format: &SpaceFormat, index: u32) {
    let extent = (index / format.extent_pages()) as usize;
    let within = (index % format.extent_pages()) as usize;
    let at = fsp::XDES_ARR_OFFSET + extent * fsp::xdes_size(format.logical()) + XDES_BITMAP;
    page[at + within / 4] &= !(1 << (2 * (within % 4)));
}

#[test]
fn an_xdes_page_describes_as_many_pages_as_it_has_bytes() {
    for format in formats() {
        let n = format.physical().get();
        let mut page = xdes_page(&format, 9, 4);
        let used = [0, 1, 3, 4, 63, n / 2, n - 1];
        used.iter().for_each(|&index| use_page(&mut page, &format, index));
        let map = ExtentMap::parse(&page, PageNo(n), &format).expect("a map");
        assert_eq!((map.first(), map.len()), (PageNo(n), n), "{format:?}");
        for index in 0..n {
            assert_eq!(map.is_free(PageNo(n + index)), Some(!used.contains(&index)), "page {index} of {format:?}");
        }
        assert_eq!((map.is_free(PageNo(n - 1)), map.is_free(PageNo(2 * n))), (None, None));
        assert_eq!(map.state(PageNo(n)), Some(ExtentState::Segment));
        assert_eq!(map.free_words().len(), n as usize / 64);
    }
}

#[test]
fn a_page_is_in_use_below_the_limit_in_a_described_extent_without_its_free_bit() {
    let format = classic(Family::MySql, 16_384);
    let mut page = xdes_page(&format, 8, 2);
    [3, 70, 130].iter().for_each(|&index| use_page(&mut page, &format, index));
    put_u32(&mut page, fsp::XDES_ARR_OFFSET + 40 + XDES_STATE, 0);
    put_u32(&mut page, fsp::FSP_FREE_LIMIT, 128);
    let header = SpaceHeader::parse(&page).expect("a header");
    let map = ExtentMap::parse(&page, PageNo(0), &format).expect("a map");
    let in_use = |page_no| page_in_use(PageNo(page_no), &header, &map);
    assert_eq!(in_use(3), Some(true));
    assert_eq!(in_use(4), Some(false), "its free bit is set");
    assert_eq!(in_use(70), Some(false), "its extent is not initialised");
    assert_eq!(in_use(130), Some(false), "beyond the free limit");
    assert_eq!(in_use(16_384), None, "described on another page");
}

#[test]
fn extent_states_and_page_types_that_do_not_exist_are_damage() {
    let format = classic(Family::MySql, 16_384);
    let mut page = xdes_page(&format, 8, 4);
    put_u32(&mut page, fsp::XDES_ARR_OFFSET + 40 + XDES_STATE, 6);
    assert_eq!(
        ExtentMap::parse(&page, PageNo(0), &format),
        Err(Corruption::BadExtentState { page_no: PageNo(64), state: 6 })
    );
    let page = xdes_page(&format, 17_855, 4);
    let expected = Corruption::WrongPageType { stored: 17_855, expected: 9 };
    assert_eq!(ExtentMap::parse(&page, PageNo(16_384), &format), Err(expected));
    let truncated = Corruption::TruncatedPage { len: 100, expected: 16_384 };
    assert_eq!(ExtentMap::parse(&page[..100], PageNo(0), &format), Err(truncated));
}

#[test]
fn the_last_extents_of_the_numbers_do_not_overflow() {
    let format = classic(Family::MySql, 4096);
    let page = xdes_page(&format, 9, 7);
    assert!(ExtentMap::parse(&page, PageNo(u32::MAX - 10), &format).is_err());
    let page = xdes_page(&format, 9, 4);
    let map = ExtentMap::parse(&page, PageNo(u32::MAX - 10), &format).expect("a map");
    assert_eq!(map.is_free(PageNo(u32::MAX)), Some(true));
}

#[test]
fn inode_pages_hold_as_many_inodes_as_the_servers_say() {
    let counts = [(16_384, 85, 192), (4096, 7, 576), (65_536, 341, 192), (8192, 25, 320)];
    for (bytes, count, bytes_each) in counts {
        assert_eq!(inode::inodes_per_page(size(bytes), size(bytes)), count, "{bytes}");
        assert_eq!(inode::inode_size(size(bytes)), bytes_each, "{bytes}");
    }
}

#[test]
fn used_inodes_are_read_and_free_slots_left_out() {
    let format = classic(Family::MySql, 16_384);
    let mut page = vec![0; 16_384];
    put(&mut page, 24, &3_u16.to_be_bytes());
    for (slot, id) in [(0, 1_u64), (2, 7)] {
        let at = inode::FSEG_ARR_OFFSET + slot * 192;
        put(&mut page, at, &id.to_be_bytes());
        put_u32(&mut page, at + 8, 11);
        put_u32(&mut page, at + 28, 2);
        put_u32(&mut page, at + 60, SEGMENT_MAGIC);
        page[at + 64..at + 192].fill(0xFF);
        put_u32(&mut page, at + 64, 3);
        put_u32(&mut page, at + 72, 9);
    }
    let segments = parse_inodes(&page, &format).expect("inodes");
    let ids: Vec<u64> = segments.iter().map(|segment| segment.id).collect();
    assert_eq!(ids, [1, 7]);
    let first = segments.first().expect("two segments");
    assert_eq!(first.fragments, [PageNo(3), PageNo(9)]);
    assert_eq!((first.not_full.len, first.not_full_n_used), (2, 11));

    put_u32(&mut page, inode::FSEG_ARR_OFFSET + 2 * 192 + 60, 5);
    assert_eq!(parse_inodes(&page, &format), Err(Corruption::BadSegmentMagic { slot: 2, stored: 5 }));
    put(&mut page, 24, &17_855_u16.to_be_bytes());
    assert_eq!(parse_inodes(&page, &format), Err(Corruption::WrongPageType { stored: 17_855, expected: 3 }));
}
