//! Page builders shared by the tests.
#![allow(dead_code, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail tests")]

use innokit_format::{
    Algorithm, Corruption, Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceId, Verdict, Why, seal_page,
    verify_page,
};

/// The default place of test pages.
pub const HERE: PageId = PageId::new(5, 4);
/// An LSN whose halves differ.
pub const LSN: Lsn = Lsn(0x0000_0003_1234_5678);
pub const INDEX: u16 = 17_855;

/// Bytes for checksum vectors: byte `i` is `31 i + 7`.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| ((31 * at + 7) % 256) as u8).collect()
}

pub fn hex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub fn size(bytes: u32) -> PageSize {
    PageSize::new(bytes).unwrap()
}

pub fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    page[at..at + bytes.len()].copy_from_slice(bytes);
}

pub fn put_u32(page: &mut [u8], at: usize, value: u32) {
    put(page, at, &value.to_be_bytes());
}

pub fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(page[at..at + 4].try_into().unwrap())
}

pub fn classic(family: Family, bytes: u32) -> SpaceFormat {
    SpaceFormat::new(family, Scheme::Classic, size(bytes), size(bytes), HERE.space).unwrap()
}

pub fn zip(family: Family, logical: u32, physical: u32) -> SpaceFormat {
    SpaceFormat::new(family, Scheme::Zip, size(logical), size(physical), HERE.space).unwrap()
}

pub fn full(bytes: u32) -> SpaceFormat {
    SpaceFormat::new(Family::MariaDb, Scheme::FullCrc32, size(bytes), size(bytes), HERE.space).unwrap()
}

/// A page with content, header and place, without checksums.
pub fn unsealed(format: &SpaceFormat, id: PageId, kind: u16) -> Vec<u8> {
    let len = format.physical().bytes();
    let mut page: Vec<u8> = (0..len).map(|at| (at * 131 + at / 127 + id.page_no.0 as usize * 89) as u8).collect();
    put(&mut page, 0, &[0; 8]);
    put_u32(&mut page, 4, id.page_no.0);
    put(&mut page, 8, &[0xFF; 8]);
    put(&mut page, 24, &kind.to_be_bytes());
    put(&mut page, 26, &[0; 8]);
    put_u32(&mut page, 34, id.space.0);
    page
}

/// The same, sealed.
pub fn sealed(format: &SpaceFormat, id: PageId, algorithm: Algorithm) -> Vec<u8> {
    sealed_as(format, id, algorithm, INDEX)
}

pub fn sealed_as(format: &SpaceFormat, id: PageId, algorithm: Algorithm, kind: u16) -> Vec<u8> {
    let mut page = unsealed(format, id, kind);
    seal_page(&mut page, LSN, algorithm, format).unwrap();
    page
}

/// Every kind of page that has a checksum: format and algorithm, for every page size.
pub fn kinds() -> Vec<(SpaceFormat, Algorithm)> {
    let ordinary = [Algorithm::Crc32, Algorithm::Crc32BigEndian, Algorithm::Innodb];
    let mut kinds = Vec::new();
    for bytes in [4096, 8192, 16_384, 32_768, 65_536] {
        kinds.extend(ordinary.map(|algorithm| (classic(Family::MySql, bytes), algorithm)));
        kinds.extend(
            [Algorithm::Crc32, Algorithm::Innodb].map(|algorithm| (classic(Family::MariaDb, bytes), algorithm)),
        );
        kinds.push((full(bytes), Algorithm::FullCrc32));
    }
    for bytes in [1024, 2048, 4096, 8192, 16_384] {
        kinds.extend(ordinary.map(|algorithm| (zip(Family::MySql, 16_384, bytes), algorithm)));
        kinds.extend(
            [Algorithm::Crc32, Algorithm::Innodb].map(|algorithm| (zip(Family::MariaDb, 16_384, bytes), algorithm)),
        );
    }
    kinds
}

/// Whether the byte at `at` is covered by the checksum, part of it, or compared by another rule.
pub fn is_guarded(format: &SpaceFormat, at: usize) -> bool {
    match format.scheme() {
        Scheme::FullCrc32 => true,
        Scheme::Classic => !(26..34).contains(&at),
        Scheme::Zip => !(16..24).contains(&at) && !(26..34).contains(&at),
    }
}

pub fn corruption(verdict: Verdict) -> Corruption {
    match verdict {
        Verdict::Corrupt(corruption) => corruption,
        other => panic!("expected damage, got {other:?}"),
    }
}

pub fn reason(page: &[u8], format: &SpaceFormat) -> &'static str {
    corruption(verify_page(page, HERE, format)).reason()
}

pub fn ok(algorithm: Algorithm) -> Verdict {
    Verdict::Ok(algorithm)
}

pub fn unverifiable(why: Why) -> Verdict {
    Verdict::Unverifiable(why)
}

pub fn space(id: u32) -> SpaceId {
    SpaceId(id)
}
