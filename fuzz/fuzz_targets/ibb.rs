//! MariaDB's binary logs within InnoDB over arbitrary pages: no panic, every page counted once, and the same verdicts however the bytes are cut.
//!
//! The first byte says how long the pieces are, the second whether the pages have right checksums: then their chunks are looked at. The rest
//! is the header's fields and pages of 512 bytes, the smallest that there may be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logs::ibb::{Error, Page, Summary, Verdict, Verifier};

const PAGE: usize = 512;

fn read(file: &[u8], number: Option<u64>, piece: usize) -> (Vec<Page>, Result<Summary, Error>) {
    let mut verifier = Verifier::new(number);
    let mut pages = Vec::new();
    for mut piece in file.chunks(piece) {
        loop {
            match verifier.next_page(&mut piece) {
                Ok(None) => break,
                Ok(Some(page)) => pages.push(page),
                Err(error) => return (pages, Err(error)),
            }
        }
        assert!(piece.is_empty(), "all input is taken before more is asked for");
    }
    (pages, Ok(verifier.finish()))
}

fn seal(bytes: &mut [u8]) {
    if let Some((content, sum)) = bytes.split_last_chunk_mut::<4>() {
        *sum = format::checksum::crc32c(content).to_le_bytes();
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[piece, how], rest)) = input.split_first_chunk() else { return };
    let mut file = vec![0xfe, 0xfe, 0x0d, 0x01, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    file.extend(rest);
    if how & 1 != 0 {
        file.resize(file.len().next_multiple_of(PAGE), 0);
        file.chunks_mut(PAGE).for_each(seal);
    }
    let number = (how & 2 != 0).then_some(u64::from(how >> 4));
    let (pages, summary) = read(&file, number, file.len());
    assert_eq!((pages.clone(), summary.clone()), read(&file, number, usize::from(piece) + 1), "however the bytes are cut");
    let Ok(summary) = summary else { return };
    assert_eq!(summary.pages, pages.len() as u64);
    assert_eq!(summary.pages, summary.ok + summary.empty + summary.unknown + summary.corrupt);
    assert!((0..).zip(&pages).all(|(number, page)| page.number == number));
    let damaged = pages.iter().filter(|page| matches!(page.verdict, Verdict::Corrupt(_))).count();
    assert_eq!(summary.corrupt, damaged as u64);
});
