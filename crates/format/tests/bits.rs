//! No flipped bit passes the checksums: every bit of small pages, and random bits of all page sizes with random content.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

mod common;

use common::{HERE, is_guarded, kinds, put, put_u32, sealed};
use innokit_format::{Algorithm, Lsn, Scheme, SpaceFormat, Verdict, seal_page, verify_page};
use proptest::prelude::*;

fn flip(page: &mut [u8], bit: usize) {
    if let Some(byte) = page.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

/// An emulated processor is ten times slower: a sample is tried there, the rest on a real one.
fn is_emulated() -> bool {
    std::env::var_os("INNOKIT_EMULATED").is_some()
}

#[test]
fn every_bit_of_the_smallest_pages_is_guarded() {
    let small = kinds().into_iter().filter(|(format, _)| format.physical().bytes() <= 4096);
    for (format, algorithm) in small.filter(|(_, algorithm)| *algorithm != Algorithm::Innodb) {
        let mut page = sealed(&format, HERE, algorithm);
        // 9 and 8 have no common divisor: the sample has every bit of a byte.
        let bits = (0..page.len() * 8).step_by(if is_emulated() { 9 } else { 1 });
        for bit in bits.filter(|bit| is_guarded(&format, bit / 8)) {
            flip(&mut page, bit);
            let verdict = verify_page(&page, HERE, &format);
            assert!(matches!(verdict, Verdict::Corrupt(_)), "bit {bit} of {format:?} {algorithm}: {verdict:?}");
            flip(&mut page, bit);
        }
    }
}

#[test]
fn bits_outside_the_checksum_do_not_matter() {
    for (format, algorithm) in kinds().into_iter().filter(|(format, _)| format.scheme() != Scheme::FullCrc32) {
        let mut page = sealed(&format, HERE, algorithm);
        let sound = verify_page(&page, HERE, &format);
        for bit in 26 * 8..34 * 8 {
            flip(&mut page, bit);
            assert_eq!(verify_page(&page, HERE, &format), sound, "bit {bit} of {format:?}");
            flip(&mut page, bit);
        }
    }
}

fn random_page(format: &SpaceFormat, algorithm: Algorithm, seed: u64, kind: u16, lsn: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut page: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(format.physical().bytes())
    .collect();
    put_u32(&mut page, 0, 0);
    put_u32(&mut page, 4, HERE.page_no.0);
    put(&mut page, 24, &kind.to_be_bytes());
    put(&mut page, 26, &[0; 8]);
    put_u32(&mut page, 34, HERE.space.0);
    seal_page(&mut page, Lsn(lsn), algorithm, format).expect("sealed");
    page
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else if is_emulated() { 64 } else { 1024 }))]

    #[test]
    fn a_flipped_bit_is_found(
        which in 0..kinds().len(),
        at in any::<prop::sample::Index>(),
        seed in any::<u64>(),
        kind in prop::sample::select(vec![0_u16, 2, 3, 5, 6, 7, 10, 11, 12, 18, 22, 23, 24, 25, 28, 17_853, 17_854, 17_855]),
        lsn in 1_u64..1 << 40,
    ) {
        let (format, algorithm) = kinds()[which];
        let mut page = random_page(&format, algorithm, seed, kind, lsn);
        let sound = verify_page(&page, HERE, &format);
        prop_assert!(!matches!(sound, Verdict::Corrupt(_) | Verdict::Empty), "{:?}", sound);
        let guarded: Vec<usize> = (0..page.len()).filter(|&at| is_guarded(&format, at)).collect();
        let bit = at.index(guarded.len() * 8);
        flip(&mut page, guarded[bit / 8] * 8 + bit % 8);
        let verdict = verify_page(&page, HERE, &format);
        prop_assert!(matches!(verdict, Verdict::Corrupt(_)), "{format:?} {algorithm}: {verdict:?}");
    }

    #[test]
    fn arbitrary_bytes_are_never_ok(which in 0..kinds().len(), seed in any::<u64>()) {
        let (format, algorithm) = kinds()[which];
        let mut page = random_page(&format, algorithm, seed, 17_855, 1);
        let len = page.len();
        page[40] ^= 0x55;
        page[len / 2] ^= 0x55;
        prop_assert!(matches!(verify_page(&page, HERE, &format), Verdict::Corrupt(_)));
    }
}
