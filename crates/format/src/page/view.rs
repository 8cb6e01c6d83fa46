//! What a page says about itself, as far as its tablespace format allows: its type, whether its body is plain, its index.

use crate::bytes::be;
use crate::fil::{FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_TYPE, PAGE_INDEX_ID, PageType};
use crate::kind::{Encryption, Family, Scheme};
use crate::page::full_crc32;
use crate::page::space_format::SpaceFormat;

/// The type as stored. Page_compressed pages of full_crc32 tablespaces store their size in this field; for them, the type that other
/// tablespaces use.
#[must_use]
pub fn page_type(page: &[u8], format: &SpaceFormat) -> Option<PageType> {
    let stored = be::u16_at(page, FIL_PAGE_TYPE)?;
    let compressed = format.scheme() == Scheme::FullCrc32 && stored & 0x8000 != 0;
    Some(if compressed { PageType::PAGE_COMPRESSED } else { PageType(stored) })
}

/// Whether the page's body can be read directly: not encrypted, not page-compressed.
#[must_use]
pub fn is_readable(page: &[u8], format: &SpaceFormat) -> bool {
    let kind = PageType(be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0));
    match (format.scheme(), format.family()) {
        (Scheme::FullCrc32, _) => full_crc32::is_plain(page),
        (_, Family::MySql) => !matches!(kind.0, 14..=17),
        (_, Family::MariaDb) => {
            let key_version = be::u32_at(page, FIL_PAGE_FILE_FLUSH_LSN).unwrap_or(0);
            // R-tree pages keep a sequence number in this field, and are never encrypted.
            let encrypted = format.encryption() == Encryption::MariaDb && key_version != 0 && kind != PageType::RTREE;
            !encrypted && !matches!(kind, PageType::PAGE_COMPRESSED | PageType::PAGE_COMPRESSED_ENCRYPTED)
        }
    }
}

/// The index id of an index page; `None` for other pages, and if encryption or compression hides it.
#[must_use]
pub fn index_id(page: &[u8], format: &SpaceFormat) -> Option<u64> {
    let index = page_type(page, format)?.is_index(format.family()) && is_readable(page, format);
    if index { be::u64_at(page, PAGE_INDEX_ID) } else { None }
}
