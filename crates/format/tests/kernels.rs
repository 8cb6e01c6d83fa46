//! The inner loops: every path that a processor may take gives the same result as the plainest one.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail tests")]

mod common;

use common::{classic, full, zip};
use innokit_format::bytes::is_zero;
use innokit_format::checksum::{self, PAGES_MAX, innodb_new, innodb_new_many};
use innokit_format::{Algorithm, Family, Lsn, PageId, PageNo, PageRun, SpaceFormat, SpaceId, seal_page, verify_page};
use proptest::prelude::*;

/// Bytes without a pattern that could hide errors of vector code.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 56) as u8
    };
    (0..len).map(|_| next(&mut state)).collect()
}

/// A CRC bit by bit.
fn plain_crc(polynomial: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (polynomial & 0_u32.wrapping_sub(crc & 1)))
    })
}

const CRC_32C: u32 = 0x82F6_3B78;
const CRC_32: u32 = 0xEDB8_8320;

/// The 7 sizes of pages, compressed ones among them.
fn page_size() -> impl Strategy<Value = usize> {
    (10_u32..=16).prop_map(|bits| 1_usize << bits)
}

/// A format for pages of `size` bytes.
fn format_of(kind: u8, size: usize) -> SpaceFormat {
    let size = size.max(if kind == 3 { 1024 } else { 4096 });
    let bytes = u32::try_from(size).expect("a page size");
    match kind {
        0 => classic(Family::MySql, bytes),
        1 => classic(Family::MariaDb, bytes),
        2 => full(bytes),
        _ => zip(Family::MySql, 16_384, bytes.min(16_384)),
    }
}

/// `count` pages: with various checksums, empty, or damaged.
fn pages(format: &SpaceFormat, count: u32, seed: u64) -> Vec<u8> {
    let size = format.physical().bytes();
    let mut bytes = noise(seed, size * count as usize);
    for (number, page) in (0_u32..).zip(bytes.chunks_exact_mut(size)) {
        let kind = noise(seed ^ u64::from(number) << 7, 1)[0] % 8;
        if kind == 7 {
            page.fill(0);
            continue;
        }
        page[4..8].copy_from_slice(&number.to_be_bytes());
        page[24..34].fill(0);
        page[24..26].copy_from_slice(&17_855_u16.to_be_bytes());
        page[34..38].copy_from_slice(&format.space().0.to_be_bytes());
        let algorithm =
            [Algorithm::Innodb, Algorithm::Crc32, Algorithm::FullCrc32, Algorithm::Innodb][usize::from(kind % 4)];
        // Fields that the format lacks stay random.
        if seal_page(page, Lsn(0x12_3456_7890), algorithm, format).is_ok() && kind == 4 {
            page[size / 2] ^= 4;
        }
    }
    bytes
}

proptest! {
    #[test]
    fn many_pages_have_the_innodb_checksums_that_they_have_one_by_one(
        size in page_size(), count in 0_usize..20, cut in 0_usize..100, seed: u64,
    ) {
        let bytes = noise(seed, (size * count).saturating_sub(cut));
        let mut expected = [0; PAGES_MAX];
        for (expected, page) in expected.iter_mut().zip(bytes.chunks_exact(size)) {
            *expected = innodb_new(page);
        }
        prop_assert_eq!(innodb_new_many(&bytes, size), expected);
    }

    #[test]
    fn pages_in_a_run_have_the_verdicts_that_they_have_alone(
        kind in 0_u8..4, size in page_size(), count in 0_u32..40, cut in 0_usize..2, seed: u64,
    ) {
        let format = format_of(kind, size);
        let size = format.physical().bytes();
        let count = count.min(1 << (20 - size.ilog2())); // 1 MiB at most
        let bytes = pages(&format, count, seed);
        let bytes = &bytes[..bytes.len() - cut.min(bytes.len())];
        let run = PageRun::new(bytes, &format);
        prop_assert_eq!(run.pages().count(), bytes.len() / size);
        // In both orders: a neighbour must leave no state behind.
        let (there, back) = (0..run.pages().count(), (0..run.pages().count()).rev());
        for index in there.chain(back) {
            let id = PageId { space: format.space(), page_no: PageNo(u32::try_from(index).expect("few")) };
            prop_assert_eq!(run.verify(index, id), verify_page(&bytes[index * size..][..size], id, &format));
        }
    }

    #[test]
    fn zeros_are_what_a_loop_over_the_bytes_calls_zeros(
        len in 0_usize..1200, start in 0_usize..16, other in prop::option::of((any::<prop::sample::Index>(), 1_u8..)),
    ) {
        let mut bytes = vec![0; start + len];
        bytes[..start].fill(1);
        let slice = &mut bytes[start..];
        if let Some((at, byte)) = other && len > 0 {
            slice[at.index(len)] = byte;
        }
        prop_assert_eq!(is_zero(slice), slice.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn the_processors_crc_is_the_crc_bit_by_bit(len in 0_usize..3000, start in 0_usize..64, seed: u64) {
        let bytes = noise(seed, start + len);
        let slice = &bytes[start..];
        prop_assert_eq!(checksum::crc32c(slice), plain_crc(CRC_32C, slice));
        prop_assert_eq!(crc_fast::crc32_iso_hdlc(slice), plain_crc(CRC_32, slice));
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let (first, rest) = slice.split_at(len / 3);
        digest.update(first);
        digest.update(rest);
        prop_assert_eq!(digest.finalize(), u64::from(plain_crc(CRC_32C, slice)));
    }
}

#[test]
fn crcs_of_whole_pages_of_every_size_are_those_bit_by_bit() {
    for size in (10..=16).map(|bits| 1_usize << bits) {
        let page = noise(size as u64, size);
        assert_eq!(checksum::crc32c(&page), plain_crc(CRC_32C, &page), "{size}");
        assert_eq!(crc_fast::crc32_iso_hdlc(&page), plain_crc(CRC_32, &page), "{size}");
        assert_eq!(checksum::full_crc32(&page), plain_crc(CRC_32C, &page[..size - 4]), "{size}");
        let parts = [&page[4..26], &page[38..size - 8]].map(|part| plain_crc(CRC_32C, part));
        assert_eq!(checksum::crc32(&page), parts[0] ^ parts[1], "{size}");
    }
}

#[test]
fn pages_beyond_the_run_are_cut_pages() {
    let format = classic(Family::MySql, 4096);
    let run = PageRun::new(&[], &format);
    let id = PageId { space: SpaceId(5), page_no: PageNo(0) };
    assert_eq!(run.verify(3, id), verify_page(&[], id, &format));
}

#[cfg(target_arch = "aarch64")]
#[test]
fn crcs_take_the_crc_and_polynomial_multiply_instructions_of_aarch64() {
    assert!(std::arch::is_aarch64_feature_detected!("crc"));
    assert!(std::arch::is_aarch64_feature_detected!("pmull"));
    for algorithm in [crc_fast::CrcAlgorithm::Crc32Iscsi, crc_fast::CrcAlgorithm::Crc32IsoHdlc] {
        let target = crc_fast::get_calculator_target(algorithm);
        assert!(target.starts_with("aarch64-") && target.contains("pmull"), "{target}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn crcs_take_carry_less_multiplication_where_x86_has_it() {
    let target = crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let has = std::arch::is_x86_feature_detected!("pclmulqdq") && std::arch::is_x86_feature_detected!("sse4.1");
    assert_eq!(target.contains("pclmulqdq"), has, "{target}");
}
