//! [`verify_page`] checks that a page matches its checksum and its place.
//!
//! The rules are the servers' own (what the page's server accepts is never corrupt, what it rejects is never ok) plus one: a page must be
//! stored where its number and space id say. Servers compare those only when they read the page, and MySQL only logs a difference.
//!
//! The fast path: a page with `crc32` (or `full_crc32`), equal LSN halves and the right place is done after one pass over its bytes.
//! Everything else takes the cold path, which tries all that a server may have written.

use crate::bytes::{be, is_zero};
use crate::checksum::{self, Algorithm};
use crate::corruption::Corruption;
use crate::fil::{FIL_PAGE_LSN, FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE, PageType};
use crate::kind::{Family, Scheme};
use crate::page::content::content_with;
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::{InnodbNew, Verdict, Why};
use crate::page::{classic, full_crc32, slot};
use crate::types::{PageId, PageNo, SpaceId};

/// Judges the page `bytes`, stored at `id` in a tablespace with the format `format`.
///
/// `bytes` must be one physical page; any other length is [`Corruption::TruncatedPage`].
#[inline]
#[must_use]
pub fn verify_page(bytes: &[u8], id: PageId, format: &SpaceFormat) -> Verdict {
    verify_with(bytes, id, format, &|| checksum::innodb_new(bytes))
}

/// [`verify_page`] for a caller with a faster way to compute a checksum.
#[inline]
pub(crate) fn verify_with(bytes: &[u8], id: PageId, format: &SpaceFormat, innodb_new: &InnodbNew<'_>) -> Verdict {
    let len = bytes.len();
    if len != format.physical().bytes() {
        return truncated(len, format);
    }
    match format.scheme() {
        Scheme::Classic => {
            let crc = checksum::crc32(bytes);
            let stored = be::u32_at(bytes, 0);
            let halves = be::u32_at(bytes, FIL_PAGE_LSN + 4) == be::u32_at(bytes, len - 4);
            let sound = crc != 0 && stored == Some(crc) && be::u32_at(bytes, len - 8) == stored && halves;
            if sound && lies_at(bytes, id) {
                Verdict::Ok(Algorithm::Crc32)
            } else {
                judge(bytes, id, format, crc, innodb_new)
            }
        }
        Scheme::Zip => {
            let crc = checksum::zip_crc32(bytes);
            let sound = crc != 0 && be::u32_at(bytes, 0) == Some(crc);
            if sound && lies_at(bytes, id) {
                Verdict::Ok(Algorithm::Crc32)
            } else {
                judge(bytes, id, format, crc, innodb_new)
            }
        }
        Scheme::FullCrc32 => {
            let plain =
                be::u32_at(bytes, 0) == Some(0) && be::u16_at(bytes, FIL_PAGE_TYPE).is_some_and(|t| t & 0x8000 == 0);
            if !plain || !lies_at(bytes, id) {
                return judge(bytes, id, format, 0, innodb_new);
            }
            let crc = checksum::full_crc32(bytes);
            let halves = be::u32_at(bytes, FIL_PAGE_LSN + 4) == be::u32_at(bytes, len - 8);
            let sound = crc != 0 && be::u32_at(bytes, len - 4) == Some(crc) && halves;
            if sound { Verdict::Ok(Algorithm::FullCrc32) } else { judge(bytes, id, format, crc, innodb_new) }
        }
    }
}

#[inline]
fn lies_at(page: &[u8], id: PageId) -> bool {
    be::u32_at(page, FIL_PAGE_OFFSET) == Some(id.page_no.0) && be::u32_at(page, FIL_PAGE_SPACE_ID) == Some(id.space.0)
}

#[cold]
fn truncated(len: usize, format: &SpaceFormat) -> Verdict {
    Verdict::Corrupt(Corruption::TruncatedPage {
        len: u32::try_from(len).unwrap_or(u32::MAX),
        expected: format.physical().get(),
    })
}

/// Judges everything but the common case. `crc` is the scheme's CRC, already computed for classic and zip pages.
#[cold]
#[inline(never)]
fn judge(page: &[u8], id: PageId, format: &SpaceFormat, crc: u32, innodb_new: &InnodbNew<'_>) -> Verdict {
    let content = content_with(page, id.page_no, format, crc, innodb_new);
    let verdict = match content {
        Verdict::Ok(algorithm) => place(page, id, format, algorithm).map_or(content, Verdict::Corrupt),
        Verdict::Unverifiable(Why::EncryptedNoKey | Why::PageCompressed | Why::OldBigEndianChecksum) => {
            unproven_place(page, id).map_or(content, Verdict::Corrupt)
        }
        other => other,
    };
    match verdict {
        Verdict::Corrupt(_) if format.is_doublewrite_slot(id) => slot::judge(page, format),
        other => other,
    }
}

/// Checks the place of a page whose checksum is right.
fn place(page: &[u8], id: PageId, format: &SpaceFormat, algorithm: Algorithm) -> Option<Corruption> {
    let (page_no, space) = own_id(page)?;
    let hidden = format.scheme() == Scheme::FullCrc32 && !full_crc32::is_plain(page);
    let mysql = format.family() == Family::MySql;
    // MySQL considers this a page never initialised, unless it is clearly page 0 of a system tablespace.
    let uninitialised =
        mysql && (page_no.0, space.0) == (0, 0) && be::u16_at(page, FIL_PAGE_TYPE) != Some(PageType::FSP_HDR.0);
    // Before MySQL 4.1.1 the system tablespace stored something else in the space id field.
    let ancient = mysql && id.space == SpaceId::SYSTEM && algorithm == Algorithm::Innodb && classic::is_ancient(page);
    let wrong = page_no != id.page_no || (space != id.space && !hidden && !ancient);
    (wrong && !uninitialised).then_some(Corruption::MisplacedPage {
        space: (!hidden).then_some(space),
        page_no,
        expected: id,
    })
}

/// Checks the place of a page whose checksum cannot be verified.
fn unproven_place(page: &[u8], id: PageId) -> Option<Corruption> {
    let (page_no, space) = own_id(page)?;
    // MySQL compresses pages of zeros as well, which have no number: what is inside is judged.
    let has_none = space == SpaceId::SYSTEM && page.get(..FIL_PAGE_TYPE).is_some_and(is_zero);
    if has_none {
        None
    } else if page_no != id.page_no {
        Some(Corruption::WrongPageNumber { stored: page_no, expected: id.page_no })
    } else if space != id.space {
        Some(Corruption::WrongSpaceId { stored: space, expected: id.space })
    } else {
        None
    }
}

pub(crate) fn own_id(page: &[u8]) -> Option<(PageNo, SpaceId)> {
    Some((PageNo(be::u32_at(page, FIL_PAGE_OFFSET)?), SpaceId(be::u32_at(page, FIL_PAGE_SPACE_ID)?)))
}
