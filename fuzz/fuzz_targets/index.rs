//! The rules of index pages over arbitrary pages: no panic, no walk without an end, and never more findings than announced.
#![no_main]

use format::page::index::{IndexPage, TreePlace, check_index_page};
use format::schema::builtin;
use format::{Family, PageSize, Scheme, SpaceFormat, SpaceId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[kind, place], bytes)) = input.split_first_chunk() else { return };
    let family = if kind & 1 == 0 { Family::MySql } else { Family::MariaDb };
    let Some(size) = PageSize::new(4096 << (kind >> 4 & 3)) else { return };
    let Some(format) = SpaceFormat::new(family, Scheme::Classic, size, size, SpaceId(5)) else { return };
    let mut page = bytes.to_vec();
    page.resize(size.bytes(), kind);
    page[24..26].copy_from_slice(&if kind & 2 == 0 { 17_855_u16 } else { 17_853 }.to_be_bytes());
    let Ok(page) = IndexPage::parse(&page, &format) else { return };
    let place = [TreePlace::Root, TreePlace::BelowRoot, TreePlace::Unknown][usize::from(place) % 3];
    let index = builtin::sdi();
    for index in [None, index.as_ref()] {
        let findings = check_index_page(&page, index, place);
        assert!(findings.len() <= 32);
        for finding in &findings {
            assert!(!finding.to_string().contains('{'));
        }
        assert_eq!(findings, check_index_page(&page, index, place), "the same page, the same findings");
    }
    assert!(page.records().count() <= 1 << 13 && page.free_records().count() <= 1 << 13);
});
