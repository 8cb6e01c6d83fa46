#![doc = include_str!("../docs/checksum.md")]

use std::fmt;

pub use crate::fold::{PAGES_MAX, fold, innodb_new_many};

/// Stored instead of a checksum when none is computed (`innodb_checksum_algorithm=none`).
pub const NO_CHECKSUM_MAGIC: u32 = 0xDEAD_BEEF;

/// How a page's checksum was computed.
///
/// Ordinary and compressed (zip) pages use the same names for different ranges; the `innodb` checksum of a zip page is an Adler-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// CRC-32C in both fields (in the only field of a zip page).
    Crc32,
    /// CRC-32C as big-endian machines computed it in software: MySQL 5.6 and early 5.7.
    Crc32BigEndian,
    /// The formulas used before MySQL 5.7.7, with their older variants.
    Innodb,
    /// The magic number instead of a checksum.
    None,
    /// A single CRC-32C over the whole page: MariaDB 10.4 and later.
    FullCrc32,
    /// Two fields of different algorithms; accepted by MariaDB, not by MySQL.
    Mixed,
}

impl Algorithm {
    /// Every algorithm, at the index of its discriminant.
    pub const ALL: [Self; 6] =
        [Self::Crc32, Self::Crc32BigEndian, Self::Innodb, Self::None, Self::FullCrc32, Self::Mixed];

    /// The server's name of the algorithm; stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Crc32BigEndian => "crc32_big_endian",
            Self::Innodb => "innodb",
            Self::None => "none",
            Self::FullCrc32 => "full_crc32",
            Self::Mixed => "mixed",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// CRC-32C (Castagnoli) of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The `crc32` checksum of an ordinary page: `CRC(4..26) xor CRC(38..n-8)`. 0 for pages too short to have one.
#[inline]
#[must_use]
pub fn crc32(page: &[u8]) -> u32 {
    let (Some(header), Some(body)) = (page.get(4..26), body(page)) else {
        return 0;
    };
    crc32c(header) ^ crc32c(body)
}

/// [`crc32`] in the byte order of big-endian machines.
#[must_use]
pub fn crc32_big_endian(page: &[u8]) -> u32 {
    let Some(end) = page.len().checked_sub(8) else {
        return 0;
    };
    crc32c_swapped(page, 4, 26) ^ crc32c_swapped(page, 38, end)
}

/// The newer `innodb` formula, stored at byte 0: the folds of `4..26` and `38..n-8`, added.
#[must_use]
pub fn innodb_new(page: &[u8]) -> u32 {
    let (Some(header), Some(body)) = (page.get(4..26), body(page)) else {
        return 0;
    };
    fold(header).wrapping_add(fold(body))
}

/// The older `innodb` formula, stored 8 bytes before the end: the fold of `0..26`, taken after byte 0 was written.
#[must_use]
pub fn innodb_old(page: &[u8]) -> u32 {
    page.get(..26).map_or(0, fold)
}

/// The `full_crc32` checksum of a page, or of the used part of a page_compressed page: CRC of all but its last 4 bytes.
#[inline]
#[must_use]
pub fn full_crc32(part: &[u8]) -> u32 {
    part.split_last_chunk::<4>().map_or(0, |(covered, _)| crc32c(covered))
}

/// The ranges of a zip page that its checksum covers: all but the checksum, the LSN, and bytes 26 to 33.
fn zip_ranges(page: &[u8]) -> Option<[&[u8]; 3]> {
    Some([page.get(4..16)?, page.get(24..26)?, page.get(34..)?])
}

/// The `crc32` checksum of a zip page.
#[inline]
#[must_use]
pub fn zip_crc32(page: &[u8]) -> u32 {
    zip_ranges(page).map_or(0, |[first, second, third]| crc32c(first) ^ crc32c(second) ^ crc32c(third))
}

/// [`zip_crc32`] in the byte order of big-endian machines.
#[must_use]
pub fn zip_crc32_big_endian(page: &[u8]) -> u32 {
    crc32c_swapped(page, 4, 16) ^ crc32c_swapped(page, 24, 26) ^ crc32c_swapped(page, 34, page.len())
}

/// The `innodb` checksum of a zip page: Adler-32 run over the three ranges, starting at 0 instead of 1.
#[must_use]
pub fn zip_adler(page: &[u8]) -> u32 {
    let Some(ranges) = zip_ranges(page) else {
        return 0;
    };
    let (a, b) = ranges.iter().fold((0, 0), |state, range| adler(state, range));
    b << 16 | a
}

fn body(page: &[u8]) -> Option<&[u8]> {
    page.get(38..page.len().checked_sub(8)?)
}

fn adler(state: (u32, u32), bytes: &[u8]) -> (u32, u32) {
    const MODULUS: u32 = 65_521;
    // The longest run after which the second sum still fits 32 bits.
    const RUN: usize = 5_552;
    bytes.chunks(RUN).fold(state, |(a, b), run| {
        let (a, b) = run.iter().fold((a, b), |(a, b), &byte| (a + u32::from(byte), b + a + u32::from(byte)));
        (a % MODULUS, b % MODULUS)
    })
}

/// CRC-32C of `page[start..end)` with each whole group of 8 bytes, aligned to the page, fed in reversed order.
#[must_use]
pub fn crc32c_swapped(page: &[u8], start: usize, end: usize) -> u32 {
    let Some(range) = page.get(start..end) else {
        return 0;
    };
    let lead = (start.next_multiple_of(8) - start).min(range.len());
    let (lead, groups) = range.split_at(lead);
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    crc.update(lead);
    let (groups, tail) = groups.as_chunks::<8>();
    for group in groups {
        crc.update(&u64::from_be_bytes(*group).swap_bytes().to_be_bytes());
    }
    crc.update(tail);
    u32::try_from(crc.finalize()).unwrap_or(0)
}
