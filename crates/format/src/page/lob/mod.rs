#![doc = include_str!("../../../docs/lob.md")]

mod reader;
mod zip_pieces;

use crate::bytes::be;
use crate::fil::{FIL_PAGE_DATA, FIL_PAGE_NEXT, FIL_PAGE_TYPE, PageType};
use crate::kind::Family;
use crate::page::fsp::{FileAddress, ListBase};
use crate::types::{PageNo, SpaceId};

pub use reader::{LobDamage, LobReader};

/// Tablespace. 4 bytes.
pub const BTR_EXTERN_SPACE_ID: usize = 0;
/// First page. 4 bytes.
pub const BTR_EXTERN_PAGE_NO: usize = 4;
/// Offset of the part's header on that page, or version of the value. 4 bytes.
pub const BTR_EXTERN_OFFSET: usize = 8;
/// Flags and length. 8 bytes.
pub const BTR_EXTERN_LEN: usize = 12;
/// Bytes of a reference: the last ones of the field.
pub const BTR_EXTERN_FIELD_REF_SIZE: usize = 20;

const NOT_OWNER: u64 = 1 << 63;
const INHERITED: u64 = 1 << 62;
const BEING_MODIFIED: u64 = 1 << 61;

/// Length of the part. 4 bytes.
pub const BTR_BLOB_HDR_PART_LEN: usize = 0;
/// Page of the next part. 4 bytes.
pub const BTR_BLOB_HDR_NEXT_PAGE_NO: usize = 4;
/// Start of the part.
pub const BTR_BLOB_HDR_SIZE: usize = 8;

/// Version of the value. 4 bytes.
pub const LOB_FIRST_VERSION: usize = 40;
/// Data on the first page. 4 bytes.
pub const LOB_FIRST_DATA_LEN: usize = 54;
/// List of the value's pieces in use. 16 bytes.
pub const LOB_FIRST_INDEX_LIST: usize = 64;
/// The data of the first page.
pub const LOB_FIRST_DATA: usize = 696;

/// Next piece. 6 bytes.
pub const LOB_ENTRY_NEXT: usize = 6;
/// List of the piece's older versions. 16 bytes.
pub const LOB_ENTRY_VERSIONS: usize = 12;
/// Page of the piece. 4 bytes.
pub const LOB_ENTRY_PAGE_NO: usize = 48;
/// Bytes of the piece. 2 bytes; the server leaves the following 2 unused.
pub const LOB_ENTRY_DATA_LEN: usize = 52;
/// Version that wrote the piece. 4 bytes.
pub const LOB_ENTRY_VERSION: usize = 56;
/// The next entry.
pub const LOB_ENTRY_SIZE: usize = 60;

/// Length of the data. 4 bytes.
pub const LOB_DATA_LEN: usize = 39;
/// The data.
pub const LOB_DATA: usize = 49;

/// First page of a value compressed in pieces: bytes of data on it. 4 bytes.
pub const ZLOB_FIRST_DATA_LEN: usize = 54;
/// List of the value's pieces in use. 16 bytes.
pub const ZLOB_FIRST_INDEX_LIST: usize = 88;
/// Start of the piece entries; fragment entries follow, then data.
pub const ZLOB_FIRST_ENTRIES: usize = 136;
/// Bytes of a fragment entry.
pub const ZLOB_FRAG_ENTRY_SIZE: usize = 24;

/// Page where the piece's stream starts. 4 bytes.
pub const ZLOB_ENTRY_PAGE_NO: usize = 48;
/// Index of the fragment with the end of the stream, on its page. 2 bytes.
pub const ZLOB_ENTRY_FRAGMENT: usize = 52;
/// Bytes of the piece when inflated. 4 bytes.
pub const ZLOB_ENTRY_DATA_LEN: usize = 54;
/// Bytes of its stream. 4 bytes.
pub const ZLOB_ENTRY_ZLIB_LEN: usize = 58;
/// The next entry.
pub const ZLOB_ENTRY_SIZE: usize = 66;

/// Number of fragments on a page, at this distance from its end. 2 bytes.
const ZLOB_FRAGMENTS_FROM_END: usize = 10;
/// The first fragment's offset, at this distance from the page's end; the others' are below. 2 bytes.
const ZLOB_FRAGMENT_0_FROM_END: usize = 12;
/// In a fragment: its length, including this field. 2 bytes.
const ZLOB_FRAGMENT_LEN: usize = 4;
/// In a fragment: its data.
const ZLOB_FRAGMENT_DATA: usize = 8;

/// The reference to the rest of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Tablespace: the same as the row's.
    pub space: SpaceId,
    /// First page.
    pub page_no: PageNo,
    /// Offset of the part's header on that page; for values of type LOB and ZLOB, the version of the value.
    pub offset: u32,
    /// Length of the off-page data, uncompressed.
    pub len: u32,
    /// Whether another row owns it: purge must not free it.
    pub not_owner: bool,
    /// Whether it came from an earlier version of the row: rollback must not free it.
    pub inherited: bool,
    /// MySQL 8: whether it is being written.
    pub being_modified: bool,
}

impl Reference {
    /// Reads a reference; `None` if there are too few bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let len = be::u64_at(bytes, BTR_EXTERN_LEN)?;
        Some(Self {
            space: SpaceId(be::u32_at(bytes, BTR_EXTERN_SPACE_ID)?),
            page_no: PageNo(be::u32_at(bytes, BTR_EXTERN_PAGE_NO)?),
            offset: be::u32_at(bytes, BTR_EXTERN_OFFSET)?,
            len: (len & u64::from(u32::MAX)) as u32,
            not_owner: len & NOT_OWNER != 0,
            inherited: len & INHERITED != 0,
            being_modified: len & BEING_MODIFIED != 0,
        })
    }

    /// Whether address and length are zero: the row was written, but not yet its off-page data.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.space.0 == 0 && self.page_no.0 == 0 && self.offset == 0 && self.len == 0
    }
}

/// How the pages of an off-page value are linked. The type of the first page decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chain {
    /// Each page has a part and the number of the next page: [`LobPart`]. All values of MariaDB and of MySQL up to 5.7, and large SDI
    /// records.
    Parts,
    /// One zlib stream over pages linked by [`FIL_PAGE_NEXT`]: ROW_FORMAT=COMPRESSED; [`zip_part`].
    Zip,
    /// MySQL 8: the first page lists the pieces: [`LobFirst`].
    Lob,
    /// MySQL 8, ROW_FORMAT=COMPRESSED, large values: pieces compressed separately, [`ZipEntry`].
    ZipLob,
}

impl Chain {
    /// Decides by the type of the first page; `None` if no value starts there.
    #[must_use]
    pub fn of(page: &[u8], family: Family) -> Option<Self> {
        match be::u16_at(page, FIL_PAGE_TYPE)? {
            10 => Some(Self::Parts),
            // MySQL before 5.1 wrote these pages without a type.
            0 if family == Family::MySql => Some(Self::Parts),
            kind if kind == PageType::INSTANT.0 && family == Family::MySql => Some(Self::Parts),
            11 | 12 | 19 => Some(Self::Zip),
            24 => Some(Self::Lob),
            25 => Some(Self::ZipLob),
            _ => None,
        }
    }
}

/// A page's part of a value stored as [`Chain::Parts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LobPart<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// The page of the next part; `None` at the end.
    pub next: Option<PageNo>,
}

impl<'a> LobPart<'a> {
    /// Reads the part whose header is at `offset`: given by the reference on the first page, [`FIL_PAGE_DATA`] on later ones. `None` if it
    /// exceeds the page.
    #[must_use]
    pub fn read(page: &'a [u8], offset: usize) -> Option<Self> {
        let header = page.get(offset..)?;
        let len = be::u32_at(header, BTR_BLOB_HDR_PART_LEN)? as usize;
        let next = PageNo(be::u32_at(header, BTR_BLOB_HDR_NEXT_PAGE_NO)?);
        let data = header.get(BTR_BLOB_HDR_SIZE..)?.get(..len)?;
        Some(Self { data, next: (next != PageNo::NONE).then_some(next) })
    }
}

/// A page's part of a value stored as [`Chain::Zip`]: bytes of the zlib stream, which marks its own end. `offset` is given by the reference
/// on the first page and is `FIL_PAGE_NEXT` (12) on later ones.
#[must_use]
pub fn zip_part(page: &[u8], offset: usize) -> Option<LobPart<'_>> {
    let next = PageNo(be::u32_at(page, offset)?);
    let start = if offset == FIL_PAGE_NEXT { FIL_PAGE_DATA } else { offset + 4 };
    Some(LobPart { data: page.get(start..)?, next: (next != PageNo::NONE && next.0 != 0).then_some(next) })
}

/// First page of a value stored as [`Chain::Lob`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LobFirst<'a> {
    /// Version of the value.
    pub version: u32,
    /// The data of the first piece, which is on this page.
    pub data: &'a [u8],
    /// The pieces in order: nodes of [`LobEntry`], on this page and on pages of type 22.
    pub entries: ListBase,
}

impl<'a> LobFirst<'a> {
    /// Reads the first page; `None` if its data would exceed it.
    #[must_use]
    pub fn read(page: &'a [u8]) -> Option<Self> {
        let len = be::u32_at(page, LOB_FIRST_DATA_LEN)? as usize;
        Some(Self {
            version: be::u32_at(page, LOB_FIRST_VERSION)?,
            data: page.get(LOB_FIRST_DATA..)?.get(..len)?,
            entries: ListBase::read(page, LOB_FIRST_INDEX_LIST)?,
        })
    }
}

/// A piece of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LobEntry {
    /// The next piece's entry; its page is [`PageNo::NONE`] at the end.
    pub next: FileAddress,
    /// Older versions of this piece.
    pub versions: ListBase,
    /// The page with its bytes: the first page itself, or a page of type 23.
    pub page_no: PageNo,
    /// Number of bytes.
    pub len: u32,
    /// The version of the value that wrote it.
    pub version: u32,
}

impl LobEntry {
    /// Reads the entry at `offset` of a page.
    #[must_use]
    pub fn read(page: &[u8], offset: u16) -> Option<Self> {
        let entry = page.get(usize::from(offset)..)?.get(..LOB_ENTRY_SIZE)?;
        Some(Self {
            next: FileAddress::read(entry, LOB_ENTRY_NEXT)?,
            versions: ListBase::read(entry, LOB_ENTRY_VERSIONS)?,
            page_no: PageNo(be::u32_at(entry, LOB_ENTRY_PAGE_NO)?),
            len: be::u16_at(entry, LOB_ENTRY_DATA_LEN)?.into(),
            version: be::u32_at(entry, LOB_ENTRY_VERSION)?,
        })
    }
}

/// The bytes on a page of type 23; `None` if they would exceed it.
#[must_use]
pub fn lob_data(page: &[u8]) -> Option<&[u8]> {
    let len = be::u32_at(page, LOB_DATA_LEN)? as usize;
    page.get(LOB_DATA..)?.get(..len)
}

/// A piece of a value stored as [`Chain::ZipLob`]: a zlib stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZipEntry {
    /// The next piece's entry; its page is [`PageNo::NONE`] at the end.
    pub next: FileAddress,
    /// The page where its stream starts.
    pub page_no: PageNo,
    /// Index of its fragment, if its stream ends in one.
    pub fragment: u16,
    /// Bytes of the piece.
    pub len: u32,
    /// Bytes of its stream.
    pub zlib_len: u32,
}

impl ZipEntry {
    /// Reads the entry at `offset` of a page.
    #[must_use]
    pub fn read(page: &[u8], offset: u16) -> Option<Self> {
        let entry = page.get(usize::from(offset)..)?.get(..ZLOB_ENTRY_SIZE)?;
        Some(Self {
            next: FileAddress::read(entry, LOB_ENTRY_NEXT)?,
            page_no: PageNo(be::u32_at(entry, ZLOB_ENTRY_PAGE_NO)?),
            fragment: be::u16_at(entry, ZLOB_ENTRY_FRAGMENT)?,
            len: be::u32_at(entry, ZLOB_ENTRY_DATA_LEN)?,
            zlib_len: be::u32_at(entry, ZLOB_ENTRY_ZLIB_LEN)?,
        })
    }
}

/// The number of piece entries and of fragment entries on a first page of this size.
const fn zip_first_entries(page_len: usize) -> (usize, usize) {
    match page_len {
        16_384.. => (100, 200),
        8192.. => (80, 100),
        4096.. => (40, 40),
        2048.. => (20, 20),
        _ => (5, 5),
    }
}

/// The bytes of a stream on a page: on the value's first page, on a page of type 26, or in the fragment with this index on a page of type
/// 28. `None` for other pages, and if the bytes would exceed the page.
#[must_use]
pub fn zip_lob_data(page: &[u8], fragment: u16) -> Option<&[u8]> {
    match be::u16_at(page, FIL_PAGE_TYPE)? {
        25 => {
            let (pieces, fragments) = zip_first_entries(page.len());
            let start = ZLOB_FIRST_ENTRIES + pieces * ZLOB_ENTRY_SIZE + fragments * ZLOB_FRAG_ENTRY_SIZE;
            page.get(start..)?.get(..be::u32_at(page, ZLOB_FIRST_DATA_LEN)? as usize)
        }
        26 => lob_data(page),
        28 => {
            let count = be::u16_at(page, page.len().checked_sub(ZLOB_FRAGMENTS_FROM_END)?)?;
            let slot = page.len().checked_sub(ZLOB_FRAGMENT_0_FROM_END + 2 * usize::from(fragment))?;
            let node = page.get(usize::from(be::u16_at(page, slot)?)..).filter(|_| fragment < count)?;
            node.get(ZLOB_FRAGMENT_DATA..usize::from(be::u16_at(node, ZLOB_FRAGMENT_LEN)?))
        }
        _ => None,
    }
}
