//! A complete record: its page or file, and what it says about it.

use format::types::PageId;

use super::change::Change;
use super::file::FileRecord;

/// One record of a mini-transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedoRecord<'a> {
    /// A change to a page.
    Page(PageRecord<'a>),
    /// A file operation, or a checkpoint.
    File(FileRecord<'a>),
}

/// A change to one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRecord<'a> {
    /// The page.
    pub id: PageId,
    /// The change.
    pub change: Change<'a>,
    /// The record as stored in the log. The records of one page and mini-transaction, concatenated, can be read
    /// again by [`records`](super::records), even if records of other pages stood between them.
    pub bytes: &'a [u8],
}
