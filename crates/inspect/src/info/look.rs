//! What a single page shows, inflated if compressed, decrypted if its key is known: verdict, type, LSN, index, fill, encryption,
//! compression.

use format::bytes::be;
use format::fil::{self, FIL_PAGE_DATA, FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_NEXT, FIL_PAGE_PREV, PageType};
use format::page::index::{
    N_HEAP_COMPACT, PAGE_GARBAGE, PAGE_HEAP_TOP, PAGE_INDEX_ID, PAGE_LEVEL, PAGE_N_DIR_SLOTS, PAGE_N_HEAP, PAGE_N_RECS,
};
use format::page::view;
use format::{Encryption, Family, PageNo, Scheme, SpaceFormat, Verdict};

use super::grid::{Class, Dab};
use datadir::page::PageOpener;
use datadir::space::SpacePart;

/// A page's allocation according to the extent descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Used,
    Free,
    NeverUsed,
    Unknown,
}

/// What was seen of a page.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub page_no: u32,
    pub verdict: Verdict,
    pub in_use: Use,
    pub page_type: PageType,
    /// The type under compression or encryption, if it differs and is known.
    pub inside: Option<PageType>,
    /// LSN of a sound page outside the doublewrite area; otherwise 0.
    pub lsn: u64,
    pub index: Option<IndexLook>,
    pub encrypted: bool,
    /// Algorithm, and number of bytes with data.
    pub compressed: Option<(&'static str, u64)>,
    /// Encrypted or compressed and not opened, so its records and index are unknown.
    pub closed: bool,
}

/// The page header of an index page.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexLook {
    pub id: Option<u64>,
    pub level: u16,
    pub records: u16,
    pub used: u64,
    pub free: u64,
    /// No previous or next page: the root, or the only page of its level.
    pub alone: bool,
}

impl IndexLook {
    /// For a page that could not be opened.
    const HIDDEN: Self = Self { id: None, level: 0, records: 0, used: 0, free: 0, alone: false };
}

/// Where records start, after infimum and supremum, by format.
const HEAP_START_COMPACT: u64 = 120;
const HEAP_START_REDUNDANT: u64 = 125;
const TRAILER: u64 = 8;

/// MySQL, in the flushed LSN field: version, algorithm, original type, original size, compressed size.
const MYSQL_ALGORITHM: usize = FIL_PAGE_FILE_FLUSH_LSN + 1;
const MYSQL_ORIGINAL_TYPE: usize = FIL_PAGE_FILE_FLUSH_LSN + 2;
const MYSQL_COMPRESSED_SIZE: usize = FIL_PAGE_FILE_FLUSH_LSN + 6;
/// MariaDB without full_crc32: stream length, then (for encrypted pages) the algorithm.
const MARIADB_STREAM_SIZE: usize = FIL_PAGE_DATA;
const MARIADB_ENCRYPTED_ALGORITHM: usize = FIL_PAGE_DATA + 2;
/// MariaDB with full_crc32: a compressed page's type field holds its size in units of 256 bytes.
const FULL_CRC32_SIZE_MASK: u16 = 0x7FFF;

/// Examines the page `bytes`, stored at `page_no`.
pub(super) fn look(bytes: &[u8], page_no: u32, part: &SpacePart, in_use: Use, opener: &mut PageOpener) -> Look {
    let (format, at) = (&part.format, part.at(PageNo(page_no)));
    let verdict = opener.verdict(bytes, at);
    let page_type = view::page_type(bytes, format).unwrap_or(PageType::ALLOCATED);
    let sound = matches!(verdict, Verdict::Ok(_) | Verdict::Unverifiable(_));
    let believed = sound && !format.is_doublewrite_slot(at.id);
    let lsn = fil::lsn(bytes).filter(|_| believed).map_or(0, |lsn| lsn.0);
    let (encrypted, compressed) = if believed {
        (is_encrypted(bytes, page_type, format), compressed(bytes, page_type, format))
    } else {
        (false, None)
    };
    let sealed = encrypted || compressed.is_some();
    let opened = if sealed { opener.open(bytes, at).ok().map(|opened| opened.page) } else { None };
    let plain = format.with_encryption(Encryption::None).with_page_compressed(false);
    let type_inside = opened.and_then(|page| view::page_type(page, &plain));
    Look {
        page_no,
        verdict,
        in_use,
        page_type,
        inside: type_inside.or_else(|| type_behind(bytes, page_type, format)).filter(|inside| *inside != page_type),
        lsn,
        index: match (opened, type_inside) {
            (Some(page), Some(page_type)) => index(page, page_type, &plain),
            _ if sealed => page_type.is_index(format.family()).then_some(IndexLook::HIDDEN),
            _ if believed => index(bytes, page_type, format),
            _ => None,
        },
        encrypted,
        compressed,
        closed: sealed && opened.is_none(),
    }
}

/// MySQL stores the original type of an encrypted or compressed page in its header.
fn type_behind(page: &[u8], page_type: PageType, format: &SpaceFormat) -> Option<PageType> {
    match page_type.0 {
        14..=16 if format.family() == Family::MySql => be::u16_at(page, MYSQL_ORIGINAL_TYPE).map(PageType),
        17 if format.family() == Family::MySql => Some(PageType::RTREE),
        _ => None,
    }
}

fn is_encrypted(page: &[u8], page_type: PageType, format: &SpaceFormat) -> bool {
    let word = |offset| be::u32_at(page, offset).unwrap_or(0);
    match (format.family(), format.scheme()) {
        (Family::MySql, _) => (15..=17).contains(&page_type.0),
        (Family::MariaDb, Scheme::FullCrc32) => word(fil::FIL_PAGE_SPACE_OR_CHKSUM) != 0,
        (Family::MariaDb, _) if page_type == PageType::PAGE_COMPRESSED_ENCRYPTED => true,
        // R-tree pages keep a split number in this field and are never encrypted.
        (Family::MariaDb, _) => {
            format.encryption() == Encryption::MariaDb
                && !matches!(page_type, PageType::FSP_HDR | PageType::RTREE | PageType::PAGE_COMPRESSED)
                && word(FIL_PAGE_FILE_FLUSH_LSN) != 0
        }
    }
}

fn compressed(page: &[u8], page_type: PageType, format: &SpaceFormat) -> Option<(&'static str, u64)> {
    let half = |offset| be::u16_at(page, offset).unwrap_or(0);
    let (algorithm, bytes) = match (format.family(), format.scheme(), page_type) {
        (Family::MySql, _, PageType::COMPRESSED | PageType::COMPRESSED_AND_ENCRYPTED) => {
            let name = match page.get(MYSQL_ALGORITHM) {
                Some(1) => "zlib",
                Some(2) => "lz4",
                _ => "unknown",
            };
            (name, FIL_PAGE_DATA as u64 + u64::from(half(MYSQL_COMPRESSED_SIZE)))
        }
        (Family::MariaDb, Scheme::FullCrc32, PageType::PAGE_COMPRESSED) => {
            let size = u64::from(half(fil::FIL_PAGE_TYPE) & FULL_CRC32_SIZE_MASK) * 256;
            (mariadb_algorithm((format.flags() >> 5) & 7), size)
        }
        (Family::MariaDb, _, PageType::PAGE_COMPRESSED) => {
            let number = be::u64_at(page, FIL_PAGE_FILE_FLUSH_LSN).unwrap_or(0);
            let stream = u64::from(half(MARIADB_STREAM_SIZE));
            (mariadb_algorithm(u32::try_from(number).unwrap_or(u32::MAX)), MARIADB_STREAM_SIZE as u64 + 2 + stream)
        }
        (Family::MariaDb, _, PageType::PAGE_COMPRESSED_ENCRYPTED) => {
            let number = u32::from(half(MARIADB_ENCRYPTED_ALGORITHM));
            let stream = u64::from(half(MARIADB_STREAM_SIZE));
            (mariadb_algorithm(number), MARIADB_ENCRYPTED_ALGORITHM as u64 + 2 + stream)
        }
        _ => return None,
    };
    Some((algorithm, bytes.min(page.len() as u64)))
}

/// MariaDB's ids of compression algorithms.
pub(super) fn mariadb_algorithm(number: u32) -> &'static str {
    match number {
        0 => "none",
        1 => "zlib",
        2 => "lz4",
        3 => "lzo",
        4 => "lzma",
        5 => "bzip2",
        6 => "snappy",
        _ => "unknown",
    }
}

/// Reads the page header. For compressed (zip) pages, header and sizes are those of the inflated page.
fn index(page: &[u8], page_type: PageType, format: &SpaceFormat) -> Option<IndexLook> {
    if !page_type.is_index(format.family()) {
        return None;
    }
    let half = |offset| be::u16_at(page, offset).unwrap_or(0);
    let compact = half(PAGE_N_HEAP) & N_HEAP_COMPACT != 0;
    let start = if compact { HEAP_START_COMPACT } else { HEAP_START_REDUNDANT };
    let room = format.logical().bytes() as u64 - TRAILER - start;
    let directory = 2 * u64::from(half(PAGE_N_DIR_SLOTS));
    // 65536 does not fit the field, but the heap of a 64 KiB page ends below it anyway.
    let heap = u64::from(half(PAGE_HEAP_TOP)).saturating_sub(start);
    let used = (heap.saturating_sub(u64::from(half(PAGE_GARBAGE))) + directory).min(room);
    let none = |offset| be::u32_at(page, offset) == Some(PageNo::NONE.0);
    Some(IndexLook {
        id: be::u64_at(page, PAGE_INDEX_ID),
        level: half(PAGE_LEVEL),
        records: half(PAGE_N_RECS),
        used,
        free: room - used,
        alone: none(FIL_PAGE_PREV) && none(FIL_PAGE_NEXT),
    })
}

impl Look {
    /// Whether the page has content and is not known to be free.
    pub fn is_live(&self) -> bool {
        let content = matches!(self.verdict, Verdict::Ok(_) | Verdict::Unverifiable(_));
        content && matches!(self.in_use, Use::Used | Use::Unknown)
    }

    /// The page's contribution to the grid.
    pub fn dab(&self) -> Dab {
        let live = self.is_live();
        let fill = self.index.filter(|look| live && look.used + look.free > 0);
        Dab {
            class: self.class(),
            fill: fill.map(|look| (look.used, look.used + look.free)),
            index: self.index.filter(|_| live).and_then(|look| look.id),
            lsn: if self.verdict == Verdict::Empty { 0 } else { self.lsn },
        }
    }

    fn class(&self) -> Class {
        match (&self.verdict, self.in_use) {
            (Verdict::Corrupt(_), _) => Class::Damaged,
            (Verdict::Empty, _) => Class::Empty,
            (_, Use::Free | Use::NeverUsed) => Class::Freed,
            _ if self.compressed.is_some() => Class::Compressed,
            _ if self.encrypted => Class::Encrypted,
            _ => class_of(self.page_type, self.index),
        }
    }
}

fn class_of(page_type: PageType, index: Option<IndexLook>) -> Class {
    match (page_type, index) {
        (PageType::SDI, _) => Class::Dictionary,
        (_, Some(look)) if look.level > 0 => Class::Inner,
        (_, Some(_)) => Class::Leaf,
        // 18 and 19 are MySQL's off-page SDI; MariaDB's 18 is an index page.
        (PageType(18 | 19), None) => Class::Dictionary,
        (PageType(2 | 21), _) => Class::Undo,
        (PageType(3..=9), _) => Class::Management,
        (PageType(10..=12 | 22..=29), _) => Class::Blob,
        _ => Class::Other,
    }
}
