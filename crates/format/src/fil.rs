#![doc = include_str!("../docs/page.md")]

use std::fmt;

use crate::bytes::be;
use crate::kind::Family;
use crate::types::{Lsn, PageNo, SpaceId};

/// First checksum; in full_crc32 the key version. 4 bytes.
pub const FIL_PAGE_SPACE_OR_CHKSUM: usize = 0;
/// Page number. 4 bytes.
pub const FIL_PAGE_OFFSET: usize = 4;
/// Previous page of the same level. 4 bytes.
pub const FIL_PAGE_PREV: usize = 8;
/// Next page of the same level. 4 bytes.
pub const FIL_PAGE_NEXT: usize = 12;
/// LSN of the last change. 8 bytes.
pub const FIL_PAGE_LSN: usize = 16;
/// Page type. 2 bytes.
pub const FIL_PAGE_TYPE: usize = 24;
/// Flushed LSN, encryption or compression information. 8 bytes.
pub const FIL_PAGE_FILE_FLUSH_LSN: usize = 26;
/// Tablespace. 4 bytes.
pub const FIL_PAGE_SPACE_ID: usize = 34;
/// End of the header, where the body starts.
pub const FIL_PAGE_DATA: usize = 38;
/// Bytes of the trailer.
pub const FIL_PAGE_DATA_END: usize = 8;
/// Index id of an index page. 8 bytes.
pub const PAGE_INDEX_ID: usize = 66;

/// The type of a page, as a number. Only the meaning of 18 depends on the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageType(pub u16);

impl PageType {
    /// Allocated, never given a type.
    pub const ALLOCATED: Self = Self(0);
    /// Undo log.
    pub const UNDO_LOG: Self = Self(2);
    /// Segment inodes.
    pub const INODE: Self = Self(3);
    /// Free-space bits of the pages after it, for the change buffer.
    pub const IBUF_BITMAP: Self = Self(5);
    /// Header of the tablespace: page 0.
    pub const FSP_HDR: Self = Self(8);
    /// Extent descriptors.
    pub const XDES: Self = Self(9);
    /// MySQL, page-compressed.
    pub const COMPRESSED: Self = Self(14);
    /// MySQL, encrypted.
    pub const ENCRYPTED: Self = Self(15);
    /// MySQL, compressed, then encrypted.
    pub const COMPRESSED_AND_ENCRYPTED: Self = Self(16);
    /// MySQL, encrypted R-tree page.
    pub const ENCRYPTED_RTREE: Self = Self(17);
    /// MariaDB: root of an instantly altered index. MySQL: off-page part of an SDI record.
    pub const INSTANT: Self = Self(18);
    /// MySQL: the pages of an undo tablespace's rollback segments.
    pub const RSEG_ARRAY: Self = Self(21);
    /// B-tree of MySQL's serialised dictionary information.
    pub const SDI: Self = Self(17853);
    /// R-tree.
    pub const RTREE: Self = Self(17854);
    /// B-tree.
    pub const INDEX: Self = Self(17855);
    /// MariaDB, page_compressed, in tablespaces that are not full_crc32.
    pub const PAGE_COMPRESSED: Self = Self(34354);
    /// MariaDB, page_compressed and encrypted, in tablespaces that are not full_crc32.
    pub const PAGE_COMPRESSED_ENCRYPTED: Self = Self(37401);

    /// The type in a few words; `None` for unknown numbers.
    #[must_use]
    pub const fn name(self, family: Family) -> Option<&'static str> {
        Some(match self.0 {
            0 => "allocated",
            1 => "unused",
            2 => "undo log",
            3 => "inode",
            4 => "insert buffer free list",
            5 => "insert buffer bitmap",
            6 => "system",
            7 => "transaction system",
            8 => "space header",
            9 => "extent descriptors",
            10 => "BLOB",
            11 => "compressed BLOB, first",
            12 => "compressed BLOB",
            13 => "unknown",
            14 => "page-compressed",
            15 => "encrypted",
            16 => "page-compressed, encrypted",
            17 => "encrypted R-tree",
            18 => match family {
                Family::MySql => "SDI BLOB",
                Family::MariaDb => "instant index root",
            },
            19 => "SDI compressed BLOB",
            20 => "legacy doublewrite",
            21 => "rollback segment array",
            22 => "LOB index",
            23 => "LOB data",
            24 => "LOB first",
            25 => "compressed LOB first",
            26 => "compressed LOB data",
            27 => "compressed LOB index",
            28 => "compressed LOB fragment",
            29 => "compressed LOB fragment entry",
            17853 => "SDI index",
            17854 => "R-tree",
            17855 => "index",
            34354 => "page_compressed",
            37401 => "page_compressed, encrypted",
            _ => return None,
        })
    }

    /// Whether the page belongs to a B-tree or R-tree, with a page header and records.
    #[must_use]
    pub const fn is_index(self, family: Family) -> bool {
        matches!(self, Self::INDEX | Self::RTREE | Self::SDI)
            || (matches!(self, Self::INSTANT) && matches!(family, Family::MariaDb))
    }
}

impl fmt::Display for PageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The page number in the page header.
#[inline]
#[must_use]
pub fn page_no(page: &[u8]) -> Option<PageNo> {
    be::u32_at(page, FIL_PAGE_OFFSET).map(PageNo)
}

/// The space id in the page header. In encrypted or page_compressed full_crc32 pages this is ciphertext or compressed data.
#[inline]
#[must_use]
pub fn space_id(page: &[u8]) -> Option<SpaceId> {
    be::u32_at(page, FIL_PAGE_SPACE_ID).map(SpaceId)
}

/// LSN of the last change; readable without keys in every format.
#[inline]
#[must_use]
pub fn lsn(page: &[u8]) -> Option<Lsn> {
    be::u64_at(page, FIL_PAGE_LSN).map(Lsn)
}
