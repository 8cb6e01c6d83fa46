//! A record as a whole: which page or file it is about, and what it says of it.

use format::types::PageId;

use super::change::Change;
use super::file::FileRecord;

/// One record of a mini-transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedoRecord<'a> {
    /// A change to a page.
    Page(PageRecord<'a>),
    /// Something that happened to a file, or a checkpoint.
    File(FileRecord<'a>),
}

/// A change to one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRecord<'a> {
    /// The page.
    pub id: PageId,
    /// What is changed.
    pub change: Change<'a>,
    /// The record as it stands in the log. Those of one page and mini-transaction, one behind the other, are again what
    /// [`records`](super::records) reads, even where records of other pages stood between them.
    pub bytes: &'a [u8],
}
