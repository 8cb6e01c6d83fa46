//! Changed pages of an increment, and their note, over arbitrary bytes: no panic, the same pages however the bytes are cut, and those in
//! rising order.
//!
//! The first byte says how long the pieces are; bit 7 puts the magic of a cluster, or of the last one, wherever the rest has a byte 0xFE
//! or 0xFD. The second byte picks the size of pages, smaller than any server's.
#![no_main]

use logs::delta::{Error, Meta, Parser};
use libfuzzer_sys::fuzz_target;

/// What was read: numbers, places, and a sum over the bytes.
type Pages = Vec<(u32, u64, u64)>;

fn read(bytes: &[u8], meta: Meta, piece: usize) -> (Pages, Result<(), Error>) {
    let mut parser = Parser::new(meta);
    let mut pages = Pages::new();
    for mut piece in bytes.chunks(piece) {
        loop {
            match parser.next_page(&mut piece) {
                Ok(None) => break,
                Ok(Some(page)) => {
                    assert_eq!(page.bytes.len(), meta.page_size as usize);
                    let at = usize::try_from(page.position).expect("in memory");
                    assert_eq!(bytes.get(at..at + page.bytes.len()), Some(page.bytes), "they lie where it says");
                    let sum = page.bytes.iter().map(|byte| u64::from(*byte)).sum();
                    assert!(pages.last().is_none_or(|(before, ..)| *before < page.number), "numbers rise");
                    pages.push((page.number, page.position, sum));
                }
                Err(error) => {
                    assert_eq!(parser.finish(), Err(error.clone()), "an error stays");
                    return (pages, Err(error));
                }
            }
        }
        assert!(piece.is_empty(), "all input is taken before more is asked for");
    }
    (pages, parser.finish())
}

fuzz_target!(|input: &[u8]| {
    if let Some(meta) = Meta::parse(input) {
        assert!(meta.page_size.is_power_of_two() && (1024..=65536).contains(&meta.page_size));
    }
    let Some((&[how, size], rest)) = input.split_first_chunk::<2>() else { return };
    let meta = Meta { page_size: 16 << (size % 5), space: Some(7), flags: None };
    let mut bytes = Vec::new();
    for byte in rest {
        match byte {
            0xFE if how & 0x80 != 0 => bytes.extend(b"xtra"),
            0xFD if how & 0x80 != 0 => bytes.extend(b"XTRA"),
            _ => bytes.push(*byte),
        }
    }
    let whole = read(&bytes, meta, bytes.len().max(1));
    assert_eq!(whole, read(&bytes, meta, usize::from(how & 0x7F) + 1), "however the bytes are cut");
});
