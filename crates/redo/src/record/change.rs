//! What records do to their pages.

use super::mysql;
use super::row_style::RowStyle;

/// What a record does to its page. Offsets are bytes from the start of the page, lengths are bytes; neither is checked against the page
/// size, which only [`apply`](crate::apply::apply) knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// FREE_PAGE: the page is no longer in use; its content is void.
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
    /// MEMSET: `pattern` over and over; the last repetition may be cut.
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
    /// EXTENDED: the tablespace is truncated to the record's page number.
    Trim,
    /// OPTION: the page's checksum. Only debug builds of the server write it.
    Checksum(u32),
    /// Another kind of OPTION, which may be ignored.
    Option(u8),
    /// A change by a MySQL record.
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

    /// Whether the page is created from nothing: its old content need not even be read.
    #[must_use]
    pub const fn voids_page(&self) -> bool {
        matches!(self, Self::Free | Self::Init)
    }

    /// Whether the page is created from nothing unless it is newer already: its old content must be read.
    #[must_use]
    pub const fn makes_page(&self) -> bool {
        matches!(self, Self::MySql(change) if change.makes_page())
    }

    /// The 32-bit field at `offset` of the page, if the record writes all of it. This reveals a tablespace's size and flags from the
    /// records of its page 0 before that is read.
    #[must_use]
    pub fn written_u32(&self, offset: usize) -> Option<u32> {
        match self {
            Self::Write { offset: from, data } => format::bytes::be::u32_at(data, offset.checked_sub(*from)?),
            _ => None,
        }
    }
}

/// Where an inserted record's space comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSource {
    /// The end of the heap.
    Heap,
    /// The first record of the page's free list.
    Reuse {
        /// Offset of the new record's header from the freed one's, bytes; negative if it starts earlier.
        shift: i32,
    },
}

/// Inserts an index record after another, from which the common bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert<'a> {
    /// Format of the record.
    pub style: RowStyle,
    /// Where its space comes from.
    pub place: RecordSource,
    /// Origin of the previous record, bytes after the origin of the infimum.
    pub prev: usize,
    /// Dynamic: length of the header part in `data`, times 8, and flags. Redundant: number of fields less one, times 8, and flags.
    pub header: usize,
    /// Bytes of the header copied from the previous record.
    pub header_copied: usize,
    /// Bytes of the payload copied from the previous record.
    pub data_copied: usize,
    /// The bytes that are not copied: the header's, then the payload's.
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

/// Removes the index record after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete {
    /// Format of the record.
    pub style: RowStyle,
    /// Origin of the previous record, bytes after the origin of the infimum.
    pub prev: usize,
    /// Dynamic: length of its header without the fixed part. REDUNDANT records state it themselves.
    pub header_size: usize,
    /// Dynamic: length of its payload. REDUNDANT records state it themselves.
    pub data_size: usize,
}
