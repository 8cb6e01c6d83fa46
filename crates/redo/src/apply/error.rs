//! Why a record cannot be applied.

use thiserror::Error;

use crate::record::{RecordError, RowStyle};
use format::page::zip::{ZipDamage, ZipEditError};
use format::types::PageNo;

/// Why a redo record does not apply to the page that it is for: one of the two is damaged, or the page is not the one that the
/// server changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ApplyError {
    /// Not the length of a page of this tablespace.
    #[error("redo was to be applied to {len} bytes, but the page has {expected}")]
    Length {
        /// Bytes given.
        len: usize,
        /// Bytes of a page.
        expected: usize,
    },
    /// The record reaches beyond the page.
    #[error("a redo record reaches {len} bytes from byte {offset} on, beyond the page's {size}")]
    OutsidePage {
        /// Where it begins.
        offset: usize,
        /// How far it reaches, bytes.
        len: usize,
        /// Bytes of the page.
        size: usize,
    },
    /// A change that is logged by what was done, to a ROW_FORMAT=COMPRESSED page: those are logged by their bytes.
    #[error("a redo record for uncompressed pages names a ROW_FORMAT=COMPRESSED page")]
    Compressed,
    /// The first pages of a tablespace are neither index nor undo pages.
    #[error("a redo record for index or undo pages names page {0}, which is neither in any tablespace")]
    NotAnIndex(PageNo),
    /// The page's records have another layout than the one inserted or deleted.
    #[error("a redo record for {} records names a page whose records are laid out otherwise", style_name(*.0))]
    RowStyle(RowStyle),
    /// A list or the directory of the page leads to where no record can begin.
    #[error("the page's records lead to byte {offset}, where no record can be")]
    RecordPointer {
        /// Where they lead.
        offset: usize,
    },
    /// No record that owns its neighbours follows.
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
    /// The page directory cannot be that long, or that short.
    #[error("the page directory has {slots} slots, which cannot be")]
    Directory {
        /// Slots in it.
        slots: usize,
    },
    /// The record to be inserted does not fit where it should go.
    #[error("a redo record inserts {len} bytes at byte {offset}, where there is no room for them")]
    NoRoom {
        /// Where it should go.
        offset: usize,
        /// Bytes that it takes.
        len: usize,
    },
    /// The lengths in a record to be inserted contradict each other.
    #[error("a redo record inserts an index record whose lengths contradict each other")]
    RecordLength,
    /// The undo page is full, or its end lies before its beginning.
    #[error("a redo record adds {len} bytes of undo at byte {offset}, where they cannot be")]
    UndoEnd {
        /// Where the page's undo records end.
        offset: usize,
        /// Bytes to be added.
        len: usize,
    },
    /// What the log says of the index cannot be.
    #[error("a redo record describes an index that cannot be")]
    IndexInfo,
    /// A change to a compressed page, but the page is not.
    #[error("a redo record for ROW_FORMAT=COMPRESSED pages names a page that is not compressed")]
    NotCompressed,
    /// A change to records of a compressed page that has none.
    #[error("a redo record for index records names a ROW_FORMAT=COMPRESSED page that is not of an index")]
    NotZipIndex,
    /// A compressed page that cannot be unpacked, or not changed in that way.
    #[error("{0}")]
    Zip(#[from] ZipEditError),
    /// The log says which checksum the page has now, and it has another.
    #[error("the redo log says that the page's checksum is {stored:08x} now, its content gives {computed:08x}")]
    Checksum {
        /// The checksum in the log.
        stored: u32,
        /// That of the page.
        computed: u32,
    },
    /// The log's bytes are no records.
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
