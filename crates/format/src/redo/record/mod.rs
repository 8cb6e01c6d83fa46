#![doc = include_str!("../../../docs/redo-record.md")]

mod cursor;
mod extended;
mod file;
mod subject;

use thiserror::Error;

use crate::types::{Lsn, PageId};
use cursor::Cursor;

pub use extended::{Delete, Insert, Place, RowStyle};
pub use file::FileRecord;
pub use subject::{Effect, Subject, Subjects, subjects};

/// Bytes before this offset (checksum and page number) are no record's business.
pub const WRITE_OFFSET_MIN: usize = 8;
/// Where the running offset stands after a record that makes or changes the page as a whole.
const OFFSET_AFTER_WHOLE_PAGE: usize = crate::page::fil::FIL_PAGE_TYPE;
/// First byte: the record is of the same page as the one before; before any page record: it is about a file.
const SAME_PAGE: u8 = 0x80;

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
    /// [`records`] reads, even where records of other pages stood between them.
    pub bytes: &'a [u8],
}

/// What a record does to its page. Offsets are bytes from the start of the page, lengths are bytes; neither is checked against
/// the size of the page, which only [`apply`](super::apply::apply) knows.
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
        }
    }

    /// Whether the page is made from nothing: what it held before need not even be read.
    #[must_use]
    pub const fn voids_page(&self) -> bool {
        matches!(self, Self::Free | Self::Init)
    }

    /// The 32-bit field at `offset` of the page, where the record writes it whole. So the size and the flags of a tablespace are
    /// learnt from the records of its page 0 before that is read.
    #[must_use]
    pub fn written_u32(&self, offset: usize) -> Option<u32> {
        match self {
            Self::Write { offset: from, data } => crate::bytes::be::u32_at(data, offset.checked_sub(*from)?),
            _ => None,
        }
    }
}

/// Why the bytes of a mini-transaction are no records. Its checksum was right: the server wrote what it cannot read, or this
/// program does not know it, or it was decrypted with a wrong key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("the redo record at byte {at} of its mini-transaction {fault}")]
pub struct RecordError {
    /// Where the record begins, bytes from the start of the bytes that were given.
    pub at: usize,
    /// What is wrong with it.
    pub fault: RecordFault,
}

/// What can be wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum RecordFault {
    /// It is longer than the bytes, or its length is written as no length can be.
    #[error("has a length that cannot be")]
    Length,
    /// A type that does not exist.
    #[error("has the type 0x{0:x}0, which does not exist")]
    Type(u8),
    /// A subtype that does not exist.
    #[error("has the subtype {0}, which does not exist")]
    Subtype(u8),
    /// It continues a page, but there is none to continue.
    #[error("belongs to the page of the record before, which was freed")]
    NoPage,
    /// Its fields end early, or are followed by something.
    #[error("does not hold what a record of its type holds")]
    Fields,
    /// It would write to the page's checksum or number, or move from there.
    #[error("changes byte {0} of its page, which no record may")]
    Offset(usize),
    /// A file name that is none.
    #[error("names no file")]
    FileName,
    /// A checkpoint is the last record of its mini-transaction.
    #[error("is a checkpoint, but not the last record")]
    AfterCheckpoint,
}

/// The records in `bytes`, which are those of one mini-transaction, decrypted, without end marker and checksum.
#[must_use]
pub const fn records(bytes: &[u8]) -> Records<'_> {
    Records { bytes, at: 0, page: Page::None, failed: false }
}

/// See [`records`]. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    page: Page,
    failed: bool,
}

/// The page that a record without page number is about.
#[derive(Debug, Clone, Copy)]
enum Page {
    /// No page record so far.
    None,
    /// A page, and the offset to which the next record's is relative.
    At(PageId, usize),
    /// The record before left nothing to continue.
    Gone,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RedoRecord<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty() && !self.failed)?;
        let at = self.at;
        let record = self.record(rest).map_err(|fault| RecordError { at, fault });
        self.failed = record.is_err();
        Some(record)
    }
}

impl<'a> Records<'a> {
    /// Bytes of the records so far: where the next one begins.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    fn record(&mut self, rest: &'a [u8]) -> Result<RedoRecord<'a>, RecordFault> {
        let (first, head_len, len) = frame(rest).ok_or(RecordFault::Length)?;
        let bytes = rest.get(..len).ok_or(RecordFault::Length)?;
        let mut body = Cursor::new(bytes.get(head_len..).unwrap_or_default());
        self.at += len;
        if first & SAME_PAGE != 0 && matches!(self.page, Page::None) {
            let record = file::parse(first, &mut body)?;
            if matches!(record, FileRecord::Checkpoint(_)) && self.at < self.bytes.len() {
                return Err(RecordFault::AfterCheckpoint);
            }
            return Ok(RedoRecord::File(record));
        }
        let (id, last) = self.page_of(first, &mut body)?;
        let (change, page) = page_change(first, id, last, &mut body)?;
        self.page = page;
        Ok(RedoRecord::Page(PageRecord { id, change, bytes }))
    }

    /// The page of a record, and the offset to which its own is relative.
    fn page_of(&self, first: u8, body: &mut Cursor<'a>) -> Result<(PageId, usize), RecordFault> {
        if first & SAME_PAGE == 0 {
            let (space, page_no) = (body.varint()?, body.varint()?);
            return Ok((PageId::new(space, page_no), 0));
        }
        match self.page {
            Page::At(id, last) => Ok((id, last)),
            Page::None | Page::Gone => Err(RecordFault::NoPage),
        }
    }
}

/// The change, and what a next record of the same page starts from.
fn page_change<'a>(
    first: u8,
    id: PageId,
    last: usize,
    body: &mut Cursor<'a>,
) -> Result<(Change<'a>, Page), RecordFault> {
    let kind = first >> 4 & 7;
    let whole = Page::At(id, OFFSET_AFTER_WHOLE_PAGE);
    Ok(match kind {
        // Both name their page, always: nothing before them is worth continuing.
        0 | 1 if first & SAME_PAGE != 0 => return Err(RecordFault::NoPage),
        0 => (body.ended(Change::Free)?, Page::Gone),
        1 => (body.ended(Change::Init)?, whole),
        2 => {
            let change = extended::parse(body)?;
            (change, if change == Change::Trim { Page::Gone } else { whole })
        }
        3..=5 => {
            let (change, end) = bytes_change(kind, last, body)?;
            (change, Page::At(id, end))
        }
        7 => {
            let change = match body.byte()? {
                0 => body.u32().and_then(|sum| body.ended(Change::Checksum(sum)))?,
                subtype => Change::Option(subtype),
            };
            (change, Page::At(id, last))
        }
        _ => return Err(RecordFault::Type(first >> 4)),
    })
}

/// WRITE, MEMSET, MEMMOVE, and the end of what they write.
fn bytes_change<'a>(kind: u8, last: usize, body: &mut Cursor<'a>) -> Result<(Change<'a>, usize), RecordFault> {
    let offset = last.checked_add(body.size()?).ok_or(RecordFault::Fields)?;
    if offset < WRITE_OFFSET_MIN {
        return Err(RecordFault::Offset(offset));
    }
    let (change, len) = match kind {
        3 => {
            let data = body.rest()?;
            (Change::Write { offset, data }, data.len())
        }
        4 => {
            let len = body.size()?;
            (Change::Set { offset, len, pattern: body.rest()? }, len)
        }
        _ => {
            let len = body.size()?;
            let source = body.size().and_then(|code| moved_from(offset, code))?;
            (body.ended(Change::Move { offset, len, source })?, len)
        }
    };
    Ok((change, offset.checked_add(len).ok_or(RecordFault::Fields)?))
}

/// The source of a move is stored relative to its target, the sign in the lowest bit.
fn moved_from(target: usize, code: usize) -> Result<usize, RecordFault> {
    let distance = (code >> 1) + 1;
    let source = if code & 1 == 1 { target.checked_sub(distance) } else { target.checked_add(distance) };
    source.filter(|&source| source >= WRITE_OFFSET_MIN).ok_or(RecordFault::Offset(0))
}

/// First byte, bytes before the body, and bytes of the whole record. `None` if the bytes end first or there is no such length.
#[inline]
pub(super) fn frame(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (&first, rest) = bytes.split_first()?;
    let short = usize::from(first & 15);
    if short > 0 {
        return Some((first, 1, 1 + short));
    }
    let mut length = Cursor::new(rest);
    let more = length.size().ok()?;
    let head_len = 1 + rest.len() - length.left();
    Some((first, head_len, 1 + more + 15))
}

/// Page, and place of what follows its number, of every page record in a mini-transaction of which only the page numbers can be
/// read. Ends where they cannot.
pub(super) fn payload_of_pages(bytes: &[u8]) -> impl Iterator<Item = (PageId, std::ops::Range<usize>)> {
    let (mut at, mut current) = (0, None);
    std::iter::from_fn(move || {
        loop {
            let (first, head_len, len) = frame(bytes.get(at..)?)?;
            let end = at.checked_add(len).filter(|&end| end <= bytes.len())?;
            let mut body = Cursor::new(bytes.get(at + head_len..end)?);
            at = end;
            if first & SAME_PAGE == 0 {
                current = Some(PageId::new(body.varint().ok()?, body.varint().ok()?));
            }
            if let Some(id) = current {
                return Some((id, end - body.left()..end));
            }
        }
    })
}

/// A mini-transaction: changes that belong together, all applied or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mtr<'a> {
    /// LSN of its first byte. A page whose own LSN is larger has its changes already.
    pub start: Lsn,
    /// LSN behind its last byte, which is what pages changed by it are stamped with.
    pub end: Lsn,
    /// Its records, decrypted, without end marker and checksum.
    pub bytes: &'a [u8],
}

impl<'a> Mtr<'a> {
    /// Its records, in order.
    #[must_use]
    pub const fn records(&self) -> Records<'a> {
        records(self.bytes)
    }
}
