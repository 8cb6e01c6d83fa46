//! Arbitrary records onto pages: no panic, whatever is in the page. The pages begin as empty index pages of either layout, with the
//! header and the records that the input names, so that inserts and deletes are reached.
//!
//! The first byte chooses layout, size and kind of the page; the second says how many places of the page the input overwrites
//! (offset 2 bytes, value 1 byte); the rest is records, whose page is put right.
#![no_main]

use redo::apply::apply;
use redo::apply::{Outcome, Replay};
use redo::record::{Change, Grammar, Mtr, PageRecord, RedoRecord, RowStyle, records};
use format::{Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceId};
use libfuzzer_sys::fuzz_target;

const HERE: PageId = PageId::new(5, 4);

fn page_format(choice: u8) -> SpaceFormat {
    let size = |bytes| PageSize::new(bytes).expect("a page size");
    let (scheme, logical, physical) = match choice >> 1 & 3 {
        0 => (Scheme::FullCrc32, 4096, 4096),
        1 => (Scheme::Classic, 16_384, 16_384),
        2 => (Scheme::FullCrc32, 65_536, 65_536),
        _ => (Scheme::Zip, 16_384, 4096),
    };
    SpaceFormat::new(Family::MariaDb, scheme, size(logical), size(physical), SpaceId(5)).expect("a format")
}

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, places], rest)) = input.split_first_chunk() else { return };
    let format = page_format(choice);
    let mut page = vec![0; format.physical().bytes()];
    let style = if choice & 1 == 0 { RowStyle::Dynamic } else { RowStyle::Redundant };
    let init = PageRecord { id: HERE, change: Change::InitIndex(style), bytes: &[] };
    assert!(apply(&init, &mut page, &format).is_ok() || format.scheme() == Scheme::Zip);
    let (overwritten, log) = rest.split_at(rest.len().min(3 * usize::from(places % 64)));
    for place in overwritten.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([place[0], place[1]])) % page.len();
        page[at] = place[2];
    }
    let before = page.clone();
    for record in records(log).map_while(Result::ok) {
        let RedoRecord::Page(mut record) = record else { continue };
        record.id = HERE;
        if let Err(error) = apply(&record, &mut page, &format) {
            assert!(!error.to_string().is_empty());
        }
    }
    let mut page = before.clone();
    let mut replay = Replay::onto(&mut page, HERE, &format).expect("a page");
    let mtr = Mtr { start: Lsn(u64::from(choice)), end: Lsn(u64::from(choice) + 1), bytes: log, grammar: Grammar::MariaDb };
    if replay.apply(&mtr).is_ok() && replay.finish() == Ok(Outcome::Unchanged) {
        assert!(page == before, "a page to which nothing was applied is as it was");
    }
});
