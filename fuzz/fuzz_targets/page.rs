//! `verify_page` over arbitrary bytes under an arbitrary format: no panic, and verdicts that do not contradict each other.
//!
//! The first bytes of the input choose the format and the place; bit 0 of the fourth seals the page first, so that what
//! lies behind a valid checksum is reached too.
#![no_main]

use format::{
    Algorithm, Encryption, Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceId, Verdict, index_id, seal_page,
    verify_page,
};
use libfuzzer_sys::fuzz_target;

fn size(choice: u8) -> PageSize {
    PageSize::ALL[usize::from(choice) % PageSize::ALL.len()]
}

fn arbitrary_format(choice: [u8; 3], space: SpaceId) -> Option<SpaceFormat> {
    let [kind, sizes, extras] = choice;
    let family = if kind & 1 == 0 { Family::MySql } else { Family::MariaDb };
    let scheme = [Scheme::Classic, Scheme::Zip, Scheme::FullCrc32][usize::from(kind >> 1) % 3];
    let physical = size(sizes & 7);
    let logical = if scheme == Scheme::Zip { size(sizes >> 4) } else { physical };
    let encryption = [Encryption::None, Encryption::MySql, Encryption::MariaDb][usize::from(extras & 3) % 3];
    let format = SpaceFormat::new(family, scheme, logical, physical, space)?;
    Some(format.with_encryption(encryption).with_temporary(extras & 4 != 0).with_page_compressed(extras & 8 != 0))
}

fuzz_target!(|input: &[u8]| {
    let Some((&[kind, sizes, extras, how, space, page_no], bytes)) = input.split_first_chunk() else { return };
    let id = PageId::new(u32::from(space) % 3, u32::from(page_no));
    let Some(format) = arbitrary_format([kind, sizes, extras], id.space) else { return };
    // As it came: usually too short.
    let _ = verify_page(bytes, id, &format);
    let mut page = bytes.to_vec();
    page.resize(format.physical().bytes(), how);
    let algorithm = Algorithm::ALL[usize::from(how >> 1) % Algorithm::ALL.len()];
    let sealed = how & 1 != 0 && seal_page(&mut page, Lsn(u64::from(how) << 20 | 1), algorithm, &format).is_ok();
    let verdict = verify_page(&page, id, &format);
    if let Verdict::Corrupt(corruption) = verdict {
        assert!(!corruption.reason().is_empty() && !corruption.to_string().is_empty());
        let _ = (corruption.stored(), corruption.computed());
    }
    assert!(!(sealed && verdict == Verdict::Empty), "a sealed page carries an LSN");
    assert_eq!(verdict, verify_page(&page, id, &format), "the same bytes, the same verdict");
    let _ = index_id(&page, &format);
});
