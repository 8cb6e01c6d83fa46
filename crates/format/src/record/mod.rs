#![doc = include_str!("../../docs/record.md")]

#[cfg(test)]
pub(crate) mod any;
pub mod compact;
pub mod fields;
pub mod layout;
mod locate;
pub mod redundant;
pub mod shape;

use crate::bytes::be;
use crate::page::index::{IndexFinding, IndexRule};

pub use fields::{RecordFields, Slot, Stored};
pub use layout::REFERENCE_BYTES;
pub use layout::{FieldLayout, Instant, Layout, Storage};

/// Info bit: the lowest key of a level above the leaves; in MariaDB also the metadata record of an instantly altered table.
pub const REC_INFO_MIN_REC: u8 = 0x10;
/// Info bit: delete-marked, not yet purged.
pub const REC_INFO_DELETED: u8 = 0x20;
/// Info bit: a row version follows the header (MySQL 8.0.29 and later).
pub const REC_INFO_VERSION: u8 = 0x40;
/// Info bit: a field count follows the header (MySQL 8.0.12 to 8.0.28).
pub const REC_INFO_INSTANT: u8 = 0x80;
/// The bits of the info byte with `n_owned`: how many records the directory slot owns.
const N_OWNED_MASK: u8 = 0x0F;

/// Info bits and `n_owned`, in the header of a compact record. 1 byte.
pub const REC_NEW_INFO_BITS: usize = 0;
/// Heap number and status, in the header of a compact record. 2 bytes.
pub const REC_NEW_HEAP_NO: usize = 1;
/// Distance to the next record, in the header of a compact record. 2 bytes.
pub const REC_NEW_NEXT: usize = 3;
/// Bytes of the fixed header of a compact record; its origin follows.
pub const REC_N_NEW_EXTRA_BYTES: usize = 5;

/// Info bits and `n_owned`, in the header of a REDUNDANT record. 1 byte.
pub const REC_OLD_INFO_BITS: usize = 0;
/// Heap number, number of fields and size of their offsets, in the header of a REDUNDANT record. 3 bytes.
pub const REC_OLD_HEAP_NO: usize = 1;
/// Offset of the next record, in the header of a REDUNDANT record. 2 bytes.
pub const REC_OLD_NEXT: usize = 4;
/// Bytes of the fixed header of a REDUNDANT record; its origin follows.
pub const REC_N_OLD_EXTRA_BYTES: usize = 6;

const _: () = assert!(REC_NEW_NEXT + 2 == REC_N_NEW_EXTRA_BYTES && REC_OLD_NEXT + 2 == REC_N_OLD_EXTRA_BYTES);

/// The two styles of records; a page has records of one style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordStyle {
    /// ROW_FORMAT=REDUNDANT, and the tables of InnoDB's own dictionary.
    Redundant,
    /// Every other row format.
    Compact,
}

impl RecordStyle {
    /// Bytes of the fixed header, right below the origin.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Redundant => REC_N_OLD_EXTRA_BYTES,
            Self::Compact => REC_N_NEW_EXTRA_BYTES,
        }
    }
}

/// The kind of a record, from its header or, for REDUNDANT records without a status, from its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// A row, or an entry of a secondary index.
    Ordinary,
    /// A key, and the child page that starts with it.
    NodePointer,
    /// The record before all others on a page.
    Infimum,
    /// The record after all others on a page.
    Supremum,
    /// MariaDB: a row with a field count of its own.
    Instant,
    /// A number that no server writes.
    Unknown(u8),
}

impl Status {
    const fn from_bits(bits: u16) -> Self {
        match bits & 7 {
            0 => Self::Ordinary,
            1 => Self::NodePointer,
            2 => Self::Infimum,
            3 => Self::Supremum,
            4 => Self::Instant,
            other => Self::Unknown(other as u8),
        }
    }

    /// Its number in a compact record.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ordinary => 0,
            Self::NodePointer => 1,
            Self::Infimum => 2,
            Self::Supremum => 3,
            Self::Instant => 4,
            Self::Unknown(bits) => bits,
        }
    }
}

/// A record on an index page: the page's bytes and the offset of the record's data (its origin). The header is below the origin.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    page: &'a [u8],
    origin: u16,
    style: RecordStyle,
    leaf: bool,
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("origin", &self.origin).field("style", &self.style).finish_non_exhaustive()
    }
}

impl<'a> Record<'a> {
    /// The record at `origin` of `page`. For REDUNDANT records, `leaf` decides the status. `None` if the header would be outside the page.
    #[must_use]
    pub fn new(page: &'a [u8], origin: u16, style: RecordStyle, leaf: bool) -> Option<Self> {
        let at = usize::from(origin);
        (at >= style.header_bytes() && at <= page.len()).then_some(Self { page, origin, style, leaf })
    }

    /// Offset of its data from the start of the page; identifies the record within its page.
    #[inline]
    #[must_use]
    pub const fn origin(&self) -> u16 {
        self.origin
    }

    /// The page it is on.
    #[must_use]
    pub const fn page(&self) -> &'a [u8] {
        self.page
    }

    /// Its style.
    #[must_use]
    pub const fn style(&self) -> RecordStyle {
        self.style
    }

    /// Whether its page is a leaf.
    #[must_use]
    pub const fn is_leaf(&self) -> bool {
        self.leaf
    }

    #[inline]
    fn header_start(&self) -> usize {
        usize::from(self.origin) - self.style.header_bytes()
    }

    /// Info bits: [`REC_INFO_MIN_REC`], [`REC_INFO_DELETED`], [`REC_INFO_VERSION`], [`REC_INFO_INSTANT`].
    #[inline]
    #[must_use]
    pub fn info(&self) -> u8 {
        self.info_byte() & !N_OWNED_MASK
    }

    /// Number of records owned by this one's directory slot; 0 if it has none.
    #[inline]
    #[must_use]
    pub fn n_owned(&self) -> u8 {
        self.info_byte() & N_OWNED_MASK
    }

    #[inline]
    fn info_byte(&self) -> u8 {
        self.page.get(self.header_start()).copied().unwrap_or(0)
    }

    /// Whether it is delete-marked and waiting for purge.
    #[inline]
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.info() & REC_INFO_DELETED != 0
    }

    /// Whether it is flagged as the lowest of its level.
    #[inline]
    #[must_use]
    pub fn is_min_rec(&self) -> bool {
        self.info() & REC_INFO_MIN_REC != 0
    }

    /// MariaDB: whether it is not a row but describes an instantly altered table. Only the first record of the leftmost leaf can be.
    #[must_use]
    pub fn is_metadata(&self) -> bool {
        self.leaf && self.is_min_rec()
    }

    #[inline]
    fn heap_word(&self) -> u16 {
        be::u16_at(self.page, self.header_start() + REC_NEW_HEAP_NO).unwrap_or(0)
    }

    /// Its number in allocation order on the page; infimum is 0, supremum 1.
    #[inline]
    #[must_use]
    pub fn heap_no(&self) -> u16 {
        self.heap_word() >> 3
    }

    /// Its kind.
    #[inline]
    #[must_use]
    pub fn status(&self) -> Status {
        match (self.style, self.leaf) {
            (RecordStyle::Compact, _) => Status::from_bits(self.heap_word()),
            (RecordStyle::Redundant, true) => Status::Ordinary,
            (RecordStyle::Redundant, false) => Status::NodePointer,
        }
    }

    /// Origin of the next record, according to the header; 0 for none. Unchecked: a damaged header may have any value.
    #[inline]
    #[must_use]
    pub fn next_origin(&self) -> u16 {
        let stored = be::u16_at(self.page, usize::from(self.origin) - 2).unwrap_or(0);
        match self.style {
            RecordStyle::Compact if stored != 0 => self.origin.wrapping_add(stored),
            _ => stored,
        }
    }

    /// The byte `distance` below the origin; 1 is the last byte of the header.
    #[inline]
    fn below(&self, distance: usize) -> Option<u8> {
        self.page.get(usize::from(self.origin).checked_sub(distance)?).copied()
    }

    pub(crate) const fn finding(&self, rule: IndexRule, found: u64, expected: u64) -> IndexFinding {
        IndexFinding { rule, record: Some(self.origin), found, expected }
    }
}
