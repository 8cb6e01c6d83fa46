//! Reads the records of a mini-transaction.

use format::types::{PageId, SpaceId};

use super::change::Change;
use super::cursor::Cursor;
use super::extended;
use super::fault::{RecordError, RecordFault};
use super::file::{self, FileRecord};
use super::frame::{Frame, SAME_PAGE, frame};
use super::whole::{PageRecord, RedoRecord};

/// No record may touch bytes before this offset (checksum and page number). Pages of the binary log have neither.
pub const WRITE_OFFSET_MIN: usize = 8;
/// The running offset after a record that creates or changes the whole page.
const OFFSET_AFTER_WHOLE_PAGE: usize = format::fil::FIL_PAGE_TYPE;

/// The records in `bytes`: those of one mini-transaction, decrypted, without end marker and checksum.
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

/// The page that a record without a page number is about.
#[derive(Debug, Clone, Copy)]
enum Page {
    /// No page record so far.
    None,
    /// A page, and the base of the next record's offset.
    At(PageId, usize),
    /// The previous record left nothing to continue.
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
    /// Length of the records so far, which is where the next one starts.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    fn record(&mut self, rest: &'a [u8]) -> Result<RedoRecord<'a>, RecordFault> {
        let Frame { first, head_len, len } = frame(rest).ok_or(RecordFault::Length)?;
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

    /// The page of a record, and the base of its offset.
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

/// The change, and the state for the next record of the same page.
fn page_change<'a>(
    first: u8,
    id: PageId,
    last: usize,
    body: &mut Cursor<'a>,
) -> Result<(Change<'a>, Page), RecordFault> {
    let kind = first >> 4 & 7;
    let whole = Page::At(id, OFFSET_AFTER_WHOLE_PAGE);
    Ok(match kind {
        // Both always name their page: they never continue another record.
        0 | 1 if first & SAME_PAGE != 0 => return Err(RecordFault::NoPage),
        0 => (body.ended(Change::Free)?, Page::Gone),
        1 => (body.ended(Change::Init)?, whole),
        2 => {
            let change = extended::parse(body)?;
            (change, if change == Change::Trim { Page::Gone } else { whole })
        }
        3..=5 => {
            let from = if SpaceId::MARIADB_BINLOG.contains(&id.space) { 0 } else { WRITE_OFFSET_MIN };
            let (change, end) = bytes_change(kind, (last, from), body)?;
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

/// WRITE, MEMSET or MEMMOVE, and the end of the bytes that it writes. Its offset counts from `last`, and is at least `from`.
fn bytes_change<'a>(
    kind: u8,
    (last, from): (usize, usize),
    body: &mut Cursor<'a>,
) -> Result<(Change<'a>, usize), RecordFault> {
    let offset = last.checked_add(body.size()?).ok_or(RecordFault::Fields)?;
    if offset < from {
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

/// A move's source is stored relative to its target, with the sign in the lowest bit.
fn moved_from(target: usize, code: usize) -> Result<usize, RecordFault> {
    let distance = (code >> 1) + 1;
    let source = if code & 1 == 1 { target.checked_sub(distance) } else { target.checked_add(distance) };
    source.filter(|&source| source >= WRITE_OFFSET_MIN).ok_or(RecordFault::Offset(0))
}
