//! MariaDB's full_crc32 pages: one CRC over the whole page, ciphertext and compressed data included.

use crate::bytes::{be, is_zero};
use crate::checksum::{self, Algorithm};
use crate::corruption::{ChecksumField, Corruption};
use crate::fil::FIL_PAGE_TYPE;
use crate::page::verdict::{Verdict, differing_halves};

/// In the type field of page_compressed pages; the other bits give the size in units of 256 bytes.
const COMPRESSED_BIT: u16 = 0x8000;
/// The least size of a page, bytes: the plain header of encrypted and compressed pages, and the checksum.
const SIZE_MIN: usize = 26 + 4;

/// Whether the page is neither encrypted nor page_compressed, so that space id and LSN trailer are readable.
pub(crate) fn is_plain(page: &[u8]) -> bool {
    be::u32_at(page, 0) == Some(0) && be::u16_at(page, FIL_PAGE_TYPE).is_some_and(|kind| kind & COMPRESSED_BIT == 0)
}

pub(crate) fn judge(page: &[u8]) -> Verdict {
    let kind = be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0);
    let compressed = kind & COMPRESSED_BIT != 0;
    let size = if compressed { usize::from(kind & !COMPRESSED_BIT) << 8 } else { page.len() };
    if compressed && (size >= page.len() || size < SIZE_MIN) {
        return Verdict::Corrupt(Corruption::BadCompressedSize {
            stored: u32::try_from(size).unwrap_or(u32::MAX),
            limit: u32::try_from(page.len().saturating_sub(256)).unwrap_or(u32::MAX),
        });
    }
    let part = page.get(..size).unwrap_or(page);
    let stored = be::u32_at(part, size.saturating_sub(4)).unwrap_or(0);
    if stored == 0 && !compressed && is_zero(page) {
        return Verdict::Empty;
    }
    let computed = checksum::full_crc32(part);
    let torn = if is_plain(page) { differing_halves(page, size.saturating_sub(8)) } else { None };
    match (stored == computed, torn) {
        (true, None) => Verdict::Ok(Algorithm::FullCrc32),
        (true, Some((header, trailer))) => Verdict::Corrupt(Corruption::LsnMismatch { header, trailer }),
        (false, Some((header, trailer))) => Verdict::Corrupt(Corruption::TornPage { header, trailer }),
        (false, None) => Verdict::Corrupt(Corruption::ChecksumMismatch {
            algorithm: Algorithm::FullCrc32,
            field: ChecksumField::End,
            stored,
            computed,
        }),
    }
}
