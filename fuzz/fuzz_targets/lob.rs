//! Off-page values over arbitrary pages, of both servers: no panic, no walk without end, and a value is as long as its row says.
#![no_main]

use format::page::lob::{LobReader, Reference};
use format::{Family, PageNo, SpaceId};
use libfuzzer_sys::fuzz_target;

/// Enough for every kind of chain, and few enough for many runs.
const VALUE_MAX: u32 = 1 << 18;

fuzz_target!(|input: &[u8]| {
    let Some((&[flags, first, len @ .., high, low], pages)) = input.split_first_chunk::<7>() else { return };
    let family = if flags & 1 == 0 { Family::MySql } else { Family::MariaDb };
    let page_size = [1024, 2048, 4096, 16384][usize::from(flags >> 1 & 3)];
    let pages: Vec<&[u8]> = pages.chunks(page_size).collect();
    let [a, b, c] = len;
    let reference = Reference {
        space: SpaceId(1),
        page_no: PageNo(first.into()),
        offset: u16::from_be_bytes([high, low]).into(),
        len: u32::from_be_bytes([0, a, b, c]) % VALUE_MAX,
        not_owner: false,
        inherited: false,
        being_modified: false,
    };
    let mut reader = LobReader::new(reference, family, true);
    // A page adds a byte, or names pieces of which each does; a stream may take a little more than it gives.
    let mut steps_left = 3 * u64::from(reference.len) + 16_384;
    while let Some(PageNo(page_no)) = reader.wants() {
        assert!(steps_left > 0, "it goes on without end");
        steps_left -= 1;
        let Some(page) = pages.get(page_no as usize) else { return };
        if reader.take(page).is_err() {
            return;
        }
        assert!(reader.found() <= u64::from(reference.len));
    }
    assert_eq!(reader.into_value().len(), reference.len as usize);
});
