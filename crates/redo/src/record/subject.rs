//! What records are about, without reading what they change: five times as fast.

use std::ops::Range;

use super::change::Change;
use super::cursor::Cursor;
use super::frame::{Frame, SAME_PAGE, frame};
use super::whole::RedoRecord;
use format::types::PageId;

/// The subtype of EXTENDED records that truncate a tablespace.
const TRIM_PAGES: u8 = 10;

/// The subject of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A file, or a checkpoint.
    File,
    /// A page.
    Page(PageId, Effect),
}

/// What a record does to its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Changes part of it, or all.
    Changes,
    /// FREE_PAGE: the page is no longer in use.
    Frees,
    /// INIT_PAGE: initializes the page.
    Inits,
    /// TRIM_PAGES: the page is the first one truncated from its tablespace.
    Trims,
}

impl Effect {
    /// Whether the page's old content is useless.
    #[must_use]
    pub const fn voids_page(self) -> bool {
        matches!(self, Self::Frees | Self::Inits)
    }

    const fn of(change: &Change<'_>) -> Self {
        match change {
            Change::Free => Self::Frees,
            Change::Init => Self::Inits,
            Change::Trim => Self::Trims,
            _ => Self::Changes,
        }
    }
}

impl RedoRecord<'_> {
    /// What the record is about: a file, or a page and what happens to it.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::File(_) => Subject::File,
            Self::Page(record) => Subject::Page(record.id, Effect::of(&record.change)),
        }
    }
}

/// The subjects of the records in `bytes`, and the position of each. Only for a mini-transaction whose records were all
/// [read](super::records) before and are sound: invalid bytes end the iteration early or pass as a record.
#[must_use]
pub const fn subjects(bytes: &[u8]) -> Subjects<'_> {
    Subjects { bytes, at: 0, page: None, names_page: false }
}

/// See [`subjects`].
#[derive(Debug, Clone)]
pub struct Subjects<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The page of the previous record.
    page: Option<PageId>,
    /// Whether any earlier record was about a page.
    names_page: bool,
}

impl Iterator for Subjects<'_> {
    type Item = (Subject, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        let Frame { first, head_len, len } = frame(rest)?;
        let place = self.at..self.at.checked_add(len)?;
        let mut body = Cursor::new(rest.get(head_len..len)?);
        self.at = place.end;
        if first & SAME_PAGE == 0 {
            self.page = Some(PageId::new(body.varint().ok()?, body.varint().ok()?));
            self.names_page = true;
        } else if !self.names_page {
            return Some((Subject::File, place));
        }
        let effect = match first >> 4 & 7 {
            0 => Effect::Frees,
            1 => Effect::Inits,
            2 if body.byte() == Ok(TRIM_PAGES) => Effect::Trims,
            _ => Effect::Changes,
        };
        Some((Subject::Page(self.page?, effect), place))
    }
}
