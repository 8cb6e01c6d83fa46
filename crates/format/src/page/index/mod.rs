#![doc = include_str!("../../../docs/index.md")]

mod bits;
mod check;
mod walk;

use crate::bytes::be;
use crate::corruption::Corruption;
use crate::fil::{self, FIL_PAGE_DATA, FIL_PAGE_DATA_END, FIL_PAGE_NEXT, FIL_PAGE_PREV, FIL_PAGE_TYPE, PageType};
use crate::kind::Family;
use crate::page::fsp::FileAddress;
use crate::page::space_format::SpaceFormat;
use crate::record::{Record, RecordStyle};
use crate::types::{PageNo, SpaceId};

pub use crate::index_rule::{IndexFinding, IndexRule};
pub use check::{IndexChecker, PageCounts, TreePlace, check_index_page};
pub use walk::{FreeRecords, Records};

/// Directory slots. 2 bytes.
pub const PAGE_N_DIR_SLOTS: usize = FIL_PAGE_DATA;
/// End of the record heap. 2 bytes.
pub const PAGE_HEAP_TOP: usize = 40;
/// Records in the heap; bit 15 marks every format but REDUNDANT. 2 bytes.
pub const PAGE_N_HEAP: usize = 42;
/// First free record. 2 bytes.
pub const PAGE_FREE: usize = 44;
/// Bytes of free records. 2 bytes.
pub const PAGE_GARBAGE: usize = 46;
/// The record inserted last. 2 bytes.
pub const PAGE_LAST_INSERT: usize = 48;
/// Direction of inserts; MariaDB uses the higher bits otherwise. 2 bytes.
pub const PAGE_DIRECTION: usize = 50;
/// Inserts in that direction. 2 bytes.
pub const PAGE_N_DIRECTION: usize = 52;
/// Records in the chain. 2 bytes.
pub const PAGE_N_RECS: usize = 54;
/// Last transaction to change a page of a secondary index. 8 bytes.
pub const PAGE_MAX_TRX_ID: usize = 56;
/// Levels below. 2 bytes.
pub const PAGE_LEVEL: usize = 64;
/// The index. 8 bytes.
pub use crate::fil::PAGE_INDEX_ID;
/// Segment of the leaves, on the root. 10 bytes.
pub const PAGE_BTR_SEG_LEAF: usize = 74;
/// Segment of the other pages, on the root. 10 bytes.
pub const PAGE_BTR_SEG_TOP: usize = 84;
/// Start of the records.
pub const PAGE_DATA: usize = 94;

const _: () = assert!(PAGE_INDEX_ID == PAGE_LEVEL + 2 && PAGE_BTR_SEG_LEAF == PAGE_INDEX_ID + 8);
const _: () = assert!(PAGE_DATA == PAGE_BTR_SEG_TOP + SEGMENT_HEADER_BYTES);

/// Bytes of a segment header: space, inode page, offset of the inode.
pub const SEGMENT_HEADER_BYTES: usize = 10;
/// Bytes of a directory slot: an origin.
pub const PAGE_DIR_SLOT_SIZE: usize = 2;
/// The most records that one directory slot owns.
pub const PAGE_DIR_SLOT_MAX_N_OWNED: u8 = 8;
/// Flag in [`PAGE_N_HEAP`]: not REDUNDANT.
pub const N_HEAP_COMPACT: u16 = 0x8000;

/// Positions of the two system records, and of the heap, in each style.
impl RecordStyle {
    /// Origin of the record before all others.
    #[must_use]
    pub const fn infimum(self) -> u16 {
        match self {
            Self::Redundant => 101,
            Self::Compact => 99,
        }
    }

    /// Origin of the record after all others.
    #[must_use]
    pub const fn supremum(self) -> u16 {
        match self {
            Self::Redundant => 116,
            Self::Compact => 112,
        }
    }

    /// Where user records start, including their headers.
    #[must_use]
    pub const fn heap_start(self) -> u16 {
        match self {
            Self::Redundant => 125,
            Self::Compact => 120,
        }
    }
}

/// A segment as named by the root of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentHeader {
    /// Tablespace of the segment: the same as the index's.
    pub space: SpaceId,
    /// Address of its inode.
    pub inode: FileAddress,
}

impl SegmentHeader {
    fn read(page: &[u8], offset: usize) -> Option<Self> {
        Some(Self { space: SpaceId(be::u32_at(page, offset)?), inode: FileAddress::read(page, offset + 4)? })
    }
}

/// A page of a B-tree or R-tree as the server sees it: opened, and unpacked if it has ROW_FORMAT=COMPRESSED. Its numbers are returned as
/// stored; [`check_index_page`] checks them against each other.
#[derive(Clone, Copy)]
pub struct IndexPage<'a> {
    bytes: &'a [u8],
    style: RecordStyle,
    family: Family,
}

impl std::fmt::Debug for IndexPage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (page_no, index) = (self.page_no(), self.index_id());
        f.debug_struct("IndexPage").field("page_no", &page_no).field("index_id", &index).finish_non_exhaustive()
    }
}

impl<'a> IndexPage<'a> {
    /// Views a page of a tablespace with this format.
    ///
    /// # Errors
    /// [`Corruption::TruncatedPage`] unless it is as long as a logical page, [`Corruption::WrongPageType`] unless it is an index page.
    pub fn parse(page: &'a [u8], format: &SpaceFormat) -> Result<Self, Corruption> {
        let expected = format.logical();
        if page.len() != expected.bytes() {
            let len = u32::try_from(page.len()).unwrap_or(u32::MAX);
            return Err(Corruption::TruncatedPage { len, expected: expected.get() });
        }
        let stored = be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0);
        if !PageType(stored).is_index(format.family()) {
            return Err(Corruption::WrongPageType { stored, expected: PageType::INDEX.0 });
        }
        let compact = be::u16_at(page, PAGE_N_HEAP).unwrap_or(0) & N_HEAP_COMPACT != 0;
        let style = if compact { RecordStyle::Compact } else { RecordStyle::Redundant };
        Ok(Self { bytes: page, style, family: format.family() })
    }

    #[inline]
    fn u16(&self, offset: usize) -> u16 {
        be::u16_at(self.bytes, offset).unwrap_or(0)
    }

    /// The bytes of the page.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The server whose rules it follows.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }

    /// The style of its records.
    #[must_use]
    pub const fn style(&self) -> RecordStyle {
        self.style
    }

    /// Its number.
    #[must_use]
    pub fn page_no(&self) -> PageNo {
        fil::page_no(self.bytes).unwrap_or(PageNo::NONE)
    }

    /// Its tablespace.
    #[must_use]
    pub fn space(&self) -> SpaceId {
        fil::space_id(self.bytes).unwrap_or(SpaceId::NONE)
    }

    /// Its type.
    #[must_use]
    pub fn page_type(&self) -> PageType {
        PageType(self.u16(FIL_PAGE_TYPE))
    }

    /// The previous page on the same level; `None` for the leftmost.
    #[must_use]
    pub fn prev(&self) -> Option<PageNo> {
        self.neighbour(FIL_PAGE_PREV)
    }

    /// The next page on the same level; `None` for the rightmost.
    #[must_use]
    pub fn next(&self) -> Option<PageNo> {
        self.neighbour(FIL_PAGE_NEXT)
    }

    fn neighbour(&self, offset: usize) -> Option<PageNo> {
        be::u32_at(self.bytes, offset).map(PageNo).filter(|page_no| *page_no != PageNo::NONE)
    }

    /// Levels below it; 0 for a leaf.
    #[inline]
    #[must_use]
    pub fn level(&self) -> u16 {
        self.u16(PAGE_LEVEL)
    }

    /// Whether it is a leaf.
    #[inline]
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    /// Id of its index.
    #[must_use]
    pub fn index_id(&self) -> u64 {
        be::u64_at(self.bytes, PAGE_INDEX_ID).unwrap_or(0)
    }

    /// Records in the chain, including delete-marked ones and MariaDB's metadata record.
    #[must_use]
    pub fn record_count(&self) -> u16 {
        self.u16(PAGE_N_RECS)
    }

    /// Records in the heap, including infimum, supremum and free ones.
    #[must_use]
    pub fn heap_count(&self) -> u16 {
        self.u16(PAGE_N_HEAP) & !N_HEAP_COMPACT
    }

    /// End of the heap, bytes from the start of the page.
    #[must_use]
    pub fn heap_top(&self) -> u16 {
        self.u16(PAGE_HEAP_TOP)
    }

    /// Bytes of the heap not used by records in the chain.
    #[must_use]
    pub fn garbage(&self) -> u16 {
        self.u16(PAGE_GARBAGE)
    }

    /// Origin of the first free record; 0 if there is none.
    #[must_use]
    pub fn first_free(&self) -> u16 {
        self.u16(PAGE_FREE)
    }

    /// Directory slots, including those of infimum and supremum.
    #[must_use]
    pub fn slot_count(&self) -> u16 {
        self.u16(PAGE_N_DIR_SLOTS)
    }

    /// The origin in directory slot `number`; slot 0 is the infimum's. `None` if the slot would be outside the page.
    #[inline]
    #[must_use]
    pub fn slot(&self, number: usize) -> Option<u16> {
        let below = FIL_PAGE_DATA_END + PAGE_DIR_SLOT_SIZE * (number + 1);
        be::u16_at(self.bytes, self.bytes.len().checked_sub(below)?)
    }

    /// Offset where the directory starts, computed from its number of slots; 0 if the page cannot hold that many.
    #[must_use]
    pub fn directory_start(&self) -> usize {
        let slots = usize::from(self.slot_count()) * PAGE_DIR_SLOT_SIZE;
        self.bytes.len().saturating_sub(FIL_PAGE_DATA_END + slots)
    }

    /// The last transaction to change an entry, on secondary index leaves. On clustered roots MariaDB uses the field for other values.
    #[must_use]
    pub fn max_trx_id(&self) -> u64 {
        be::u64_at(self.bytes, PAGE_MAX_TRX_ID).unwrap_or(0)
    }

    /// MariaDB: the last AUTO_INCREMENT value given, on the root of the clustered index.
    #[must_use]
    pub fn auto_increment(&self, family: Family) -> Option<u64> {
        (family == Family::MariaDb && self.prev().is_none() && self.next().is_none()).then(|| self.max_trx_id())
    }

    /// The leaf segment and the segment of other pages, as named on the root of an index. Meaningless on other pages.
    #[must_use]
    pub fn segments(&self) -> Option<(SegmentHeader, SegmentHeader)> {
        Some((SegmentHeader::read(self.bytes, PAGE_BTR_SEG_LEAF)?, SegmentHeader::read(self.bytes, PAGE_BTR_SEG_TOP)?))
    }

    /// MariaDB, on the root of an instantly altered clustered index: the number of fields of records that do not store their own count.
    #[must_use]
    pub fn instant_core(&self) -> Option<u16> {
        let altered = self.family == Family::MariaDb && self.page_type() == PageType::INSTANT;
        altered.then(|| self.u16(PAGE_DIRECTION) >> 3)
    }

    /// The bytes at `origin` as a record, unchecked; `None` if its header would start before the page.
    #[inline]
    #[must_use]
    pub fn record(&self, origin: u16) -> Option<Record<'a>> {
        Record::new(self.bytes, origin, self.style, self.is_leaf())
    }

    /// The records in chain order, without infimum and supremum. Ends after the first error.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records::new(*self)
    }

    /// The free records in list order. Ends after the first error.
    #[must_use]
    pub fn free_records(&self) -> FreeRecords<'a> {
        FreeRecords::new(*self)
    }
}
