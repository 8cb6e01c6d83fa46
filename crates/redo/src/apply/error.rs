//! Why a record cannot be applied.

use thiserror::Error;

use crate::record::{RecordError, RowStyle};
use format::page::zip::{ZipDamage, ZipEditError};
use format::types::PageNo;

/// Why a redo record does not apply to its page: one of the two is damaged, or this is not the page that the server changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ApplyError {
    /// Not the page size of this tablespace.
    #[error("redo cannot be applied to {len} bytes: the page has {expected}")]
    Length {
        /// Bytes given.
        len: usize,
        /// Page size, bytes.
        expected: usize,
    },
    /// The record reaches beyond the page.
    #[error("a redo record reaches {len} bytes from byte {offset} on, beyond the page's {size}")]
    OutsidePage {
        /// Start offset.
        offset: usize,
        /// Length, bytes.
        len: usize,
        /// Page size, bytes.
        size: usize,
    },
    /// A logical change to a ROW_FORMAT=COMPRESSED page, whose changes are logged as bytes.
    #[error("a redo record for uncompressed pages names a ROW_FORMAT=COMPRESSED page")]
    Compressed,
    /// The first pages of a tablespace are neither index nor undo pages.
    #[error("a redo record for index or undo pages names page {0}, which is neither of these in any tablespace")]
    NotAnIndex(PageNo),
    /// The page's records have another format than the record inserted or deleted.
    #[error("a redo record for {} records names a page whose records have another layout", style_name(*.0))]
    RowStyle(RowStyle),
    /// A list or the directory of the page leads to an impossible offset.
    #[error("the page's records lead to byte {offset}, where no record can be")]
    RecordPointer {
        /// The offset.
        offset: usize,
    },
    /// No owner follows the record.
    #[error("no owner follows the page's record at byte {offset}")]
    NoOwner {
        /// The record.
        offset: usize,
    },
    /// The owner of a group of records is not in the page's directory.
    #[error("the page's record at byte {offset} owns others, but the page directory does not know it")]
    NoSlot {
        /// The record.
        offset: usize,
    },
    /// The number of directory slots is impossible.
    #[error("the page directory has {slots} slots, which is impossible")]
    Directory {
        /// Number of slots.
        slots: usize,
    },
    /// The record to insert does not fit at its position.
    #[error("a redo record inserts {len} bytes at byte {offset}, where there is no room for them")]
    NoRoom {
        /// The position.
        offset: usize,
        /// Its size, bytes.
        len: usize,
    },
    /// The lengths in a record to insert contradict each other.
    #[error("a redo record inserts an index record whose lengths contradict each other")]
    RecordLength,
    /// The undo page is full, or its end is before its start.
    #[error("a redo record adds {len} bytes of undo at byte {offset}, where they cannot be")]
    UndoEnd {
        /// Where the page's undo records end.
        offset: usize,
        /// Bytes to add.
        len: usize,
    },
    /// The log's description of the index is impossible.
    #[error("a redo record describes an impossible index")]
    IndexInfo,
    /// A change to a compressed page, but the page is not compressed.
    #[error("a redo record for ROW_FORMAT=COMPRESSED pages names a page that is not compressed")]
    NotCompressed,
    /// A change to index records of a compressed page that is not an index page.
    #[error("a redo record for index records names a ROW_FORMAT=COMPRESSED page that is not an index page")]
    NotZipIndex,
    /// A compressed page that cannot be unpacked, or cannot be changed in this way.
    #[error("{0}")]
    Zip(#[from] ZipEditError),
    /// The log gives the page's checksum, and it does not match.
    #[error("the redo log says that the page's checksum is {stored:08x} now, but its content gives {computed:08x}")]
    Checksum {
        /// The checksum in the log.
        stored: u32,
        /// The checksum of the page.
        computed: u32,
    },
    /// The log's bytes are not valid records.
    #[error("{0}")]
    Record(#[from] RecordError),
}

impl From<ZipDamage> for ApplyError {
    fn from(damage: ZipDamage) -> Self {
        Self::Zip(damage.into())
    }
}

const fn style_name(style: RowStyle) -> &'static str {
    match style {
        RowStyle::Redundant => "REDUNDANT",
        RowStyle::Dynamic => "DYNAMIC",
    }
}
