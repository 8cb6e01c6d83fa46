//! What records do to their pages.

use super::row_style::RowStyle;
use crate::mysql;

/// What a record does to its page. Offsets are bytes from the start of the page, lengths are bytes; neither is checked against
/// the size of the page, which only [`apply`](crate::apply::apply) knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// FREE_PAGE: the page is no longer in use; what it holds is void.
    Free,
    /// INIT_PAGE: nothing of the old content is kept.
    Init,
    /// WRITE: `data` to `offset`.
    Write {
        /// First byte written.
        offset: usize,
        /// At least one byte.
        data: &'a [u8],
    },
    /// MEMSET: `pattern`, again and again, the last time cut.
    Set {
        /// First byte written.
        offset: usize,
        /// Bytes written.
        len: usize,
        /// At least one byte.
        pattern: &'a [u8],
    },
    /// MEMMOVE within the page; source and target may overlap.
    Move {
        /// First byte written.
        offset: usize,
        /// Bytes moved.
        len: usize,
        /// First byte read.
        source: usize,
    },
    /// EXTENDED: an empty index page.
    InitIndex(RowStyle),
    /// EXTENDED: an empty undo page.
    UndoInit,
    /// EXTENDED: an undo record, without the pointers around it.
    UndoAppend(&'a [u8]),
    /// EXTENDED: an index record is inserted.
    Insert(Insert<'a>),
    /// EXTENDED: an index record is removed.
    Delete(Delete),
    /// EXTENDED: the tablespace is cut down to the record's page number.
    Trim,
    /// OPTION: the checksum that the page has now. Only debug builds of the server write it.
    Checksum(u32),
    /// OPTION of another kind; it may be ignored.
    Option(u8),
    /// What a record of MySQL does.
    MySql(mysql::change::Change<'a>),
}

impl Change<'_> {
    /// The server's name for the record's type.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Free => "FREE_PAGE",
            Self::Init => "INIT_PAGE",
            Self::Write { .. } => "WRITE",
            Self::Set { .. } => "MEMSET",
            Self::Move { .. } => "MEMMOVE",
            Self::InitIndex(RowStyle::Redundant) => "INIT_ROW_FORMAT_REDUNDANT",
            Self::InitIndex(RowStyle::Dynamic) => "INIT_ROW_FORMAT_DYNAMIC",
            Self::UndoInit => "UNDO_INIT",
            Self::UndoAppend(_) => "UNDO_APPEND",
            Self::Insert(insert) => insert.name(),
            Self::Delete(Delete { style: RowStyle::Redundant, .. }) => "DELETE_ROW_FORMAT_REDUNDANT",
            Self::Delete(Delete { style: RowStyle::Dynamic, .. }) => "DELETE_ROW_FORMAT_DYNAMIC",
            Self::Trim => "TRIM_PAGES",
            Self::Checksum(_) | Self::Option(_) => "OPTION",
            Self::MySql(change) => change.name(),
        }
    }

    /// Whether the page is made from nothing: what it held before need not even be read.
    #[must_use]
    pub const fn voids_page(&self) -> bool {
        matches!(self, Self::Free | Self::Init)
    }

    /// Whether the page is made from nothing, but only if it is not later already: what is there must be read.
    #[must_use]
    pub const fn makes_page(&self) -> bool {
        matches!(self, Self::MySql(change) if change.makes_page())
    }

    /// The 32-bit field at `offset` of the page, where the record writes it whole. So the size and the flags of a tablespace are
    /// learnt from the records of its page 0 before that is read.
    #[must_use]
    pub fn written_u32(&self, offset: usize) -> Option<u32> {
        match self {
            Self::Write { offset: from, data } => format::bytes::be::u32_at(data, offset.checked_sub(*from)?),
            _ => None,
        }
    }
}

/// Where an inserted record gets its space from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSource {
    /// The end of the heap.
    Heap,
    /// The first record of the page's free list.
    Reuse {
        /// How much later than the freed record's header the new one begins, bytes; negative: earlier.
        shift: i32,
    },
}

/// An index record is inserted behind another. What the two have in common is copied from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert<'a> {
    /// Layout of the record.
    pub style: RowStyle,
    /// Where its space comes from.
    pub place: RecordSource,
    /// Origin of the record before it, bytes after the origin of the infimum.
    pub prev: usize,
    /// Dynamic: bytes of the header that are in `data`, times 8, and flags. Redundant: fields less one, times 8, and flags.
    pub header: usize,
    /// Bytes of the header copied from the record before.
    pub header_copied: usize,
    /// Bytes of the payload copied from the record before.
    pub data_copied: usize,
    /// The bytes that are not copied: first the header's, then the payload's.
    pub data: &'a [u8],
}

impl Insert<'_> {
    /// The server's name for the record's subtype.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match (self.place, self.style) {
            (RecordSource::Heap, RowStyle::Redundant) => "INSERT_HEAP_REDUNDANT",
            (RecordSource::Reuse { .. }, RowStyle::Redundant) => "INSERT_REUSE_REDUNDANT",
            (RecordSource::Heap, RowStyle::Dynamic) => "INSERT_HEAP_DYNAMIC",
            (RecordSource::Reuse { .. }, RowStyle::Dynamic) => "INSERT_REUSE_DYNAMIC",
        }
    }
}

/// The index record behind another is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete {
    /// Layout of the record.
    pub style: RowStyle,
    /// Origin of the record before it, bytes after the origin of the infimum.
    pub prev: usize,
    /// Dynamic: bytes of its header without the fixed part. The redundant style finds it in the record.
    pub header_size: usize,
    /// Dynamic: bytes of its payload. The redundant style finds it in the record.
    pub data_size: usize,
}
