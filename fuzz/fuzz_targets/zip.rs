//! Unpacking arbitrary compressed pages: no panic, bounded, and what comes out can be checked like any page.
#![no_main]

use format::page::index::{IndexPage, TreePlace, check_index_page};
use format::page::zip::Unpacker;
use format::{Family, PageSize, Scheme, SpaceFormat, SpaceId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[sizes], bytes)) = input.split_first_chunk() else { return };
    let sizes = (PageSize::new(1024 << (sizes & 3)), PageSize::new(4096 << (sizes >> 4 & 3)));
    let (Some(physical), Some(logical)) = sizes else { return };
    let Some(format) = SpaceFormat::new(Family::MySql, Scheme::Zip, logical, physical, SpaceId(5)) else { return };
    let mut page = bytes.to_vec();
    page.resize(physical.bytes(), 0);
    let mut out = vec![0; logical.bytes()];
    let mut unpacker = Unpacker::new();
    match unpacker.unpack(&page, &format, &mut out) {
        Err(damage) => assert!(!damage.to_string().is_empty()),
        Ok(()) => {
            if let Ok(page) = IndexPage::parse(&out, &format) {
                assert!(check_index_page(&page, None, TreePlace::Unknown).len() <= 32);
            }
            let mut again = vec![0xEE; logical.bytes()];
            assert!(unpacker.unpack(&page, &format, &mut again).is_ok() && again == out);
        }
    }
});
