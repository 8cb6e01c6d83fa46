//! Arbitrary records of MySQL onto arbitrary compressed pages: no panic, and a page that could be unpacked before it was changed still can.
//!
//! The first byte chooses the sizes of the page; the bytes of the page follow, and then records, of which those for page 5:4 count.
#![no_main]

use format::page::zip::Unpacker;
use format::{Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceId};
use libfuzzer_sys::fuzz_target;
use redo::apply::{Outcome, Replay};
use redo::record::{Grammar, Mtr};

const HERE: PageId = PageId::new(5, 4);

fuzz_target!(|input: &[u8]| {
    let Some((&[sizes], rest)) = input.split_first_chunk() else { return };
    let sizes = (PageSize::new(1024 << (sizes & 3)), PageSize::new(4096 << (sizes >> 4 & 3)));
    let (Some(physical), Some(logical)) = sizes else { return };
    let Some(format) = SpaceFormat::new(Family::MySql, Scheme::Zip, logical, physical, SpaceId(5)) else { return };
    let Some((page, log)) = rest.split_at_checked(physical.bytes()) else { return };
    let (mut page, before) = (page.to_vec(), page);
    let unpacks = |page: &[u8]| {
        let is_index = page[24..26] == [0x45, 0xBF];
        is_index && Unpacker::new().unpack(page, &format, &mut vec![0; logical.bytes()]).is_ok()
    };
    let was_sound = unpacks(before);
    let Ok(mut replay) = Replay::onto(&mut page, HERE, &format) else { return };
    // Each record is a mini-transaction: one that cannot be applied hides none behind it.
    let mut records = Grammar::MySql.records(log);
    let mut from = 0;
    while let Some(Ok(_)) = records.next() {
        let to = records.position();
        let mtr = Mtr { start: Lsn(8204), end: Lsn(8716), bytes: &log[from..to], grammar: Grammar::MySql };
        if let Err(error) = replay.apply(&mtr) {
            assert!(!error.to_string().is_empty());
            return;
        }
        from = to;
    }
    match replay.finish() {
        Ok(Outcome::Unchanged) => assert!(page == before, "a page to which nothing was applied is as it was"),
        Ok(_) if was_sound && page[24..26] == before[24..26] => assert!(unpacks(&page), "what was made can be read"),
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
