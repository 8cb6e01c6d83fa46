//! Follows an off-page value from page to page. It reads no page itself: the caller supplies the pages it asks for.

use flate2::{Decompress, FlushDecompress, Status};
use thiserror::Error;

use super::zip_pieces::ZipPieces;
use super::{Chain, LobEntry, LobFirst, LobPart, Reference, ZLOB_FIRST_INDEX_LIST, lob_data, zip_part};
use crate::bytes::be;
use crate::fil::{FIL_PAGE_DATA, FIL_PAGE_NEXT, FIL_PAGE_TYPE};
use crate::kind::Family;
use crate::page::fsp::{FileAddress, ListBase};
use crate::types::PageNo;

/// Why an off-page value cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum LobDamage {
    /// No value starts on the first page.
    #[error("page {page_no} does not begin an off-page value: its type is {stored}")]
    NotAValue {
        /// The page.
        page_no: PageNo,
        /// Its type.
        stored: u16,
    },
    /// A page without a part of the value.
    #[error("page {page_no} holds no part of the off-page value")]
    NotAPart {
        /// The page.
        page_no: PageNo,
    },
    /// The value ends too early or too late.
    #[error("the off-page value has {found} bytes, but its row says {expected}")]
    Length {
        /// Bytes found.
        found: u64,
        /// Bytes according to the reference.
        expected: u64,
    },
    /// The zlib stream is damaged.
    #[error("the off-page value cannot be decompressed at page {page_no}")]
    Stream {
        /// The page where it breaks.
        page_no: PageNo,
    },
}

/// The piece of `len` bytes on a first page or a data page.
fn piece(page: &[u8], len: u32) -> Option<&[u8]> {
    let data = match be::u16_at(page, FIL_PAGE_TYPE)? {
        24 => LobFirst::read(page)?.data,
        _ => lob_data(page)?,
    };
    (data.len() == len as usize).then_some(data)
}

/// Follows one value. Ask [`LobReader::wants`] and pass that page to [`LobReader::take`] until nothing is wanted.
///
/// Every page adds at least one byte and the value has the length in its reference, so cycles end.
pub struct LobReader {
    reference: Reference,
    family: Family,
    value: Option<Vec<u8>>,
    found: u64,
    state: LobState,
}

enum LobState {
    First,
    /// The next part.
    Parts(PageNo),
    /// The next page of the stream.
    Zip(PageNo, Box<Decompress>),
    /// Pieces still to be read, the last one first, and the address of the entries after them.
    Pieces {
        pieces: Vec<(PageNo, u32)>,
        next: FileAddress,
    },
    /// Pieces that are compressed separately.
    ZipPieces(Box<ZipPieces>),
    Done,
}

impl std::fmt::Debug for LobReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LobReader")
            .field("reference", &self.reference)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

impl LobReader {
    /// Follows `reference`. With `keep` the value is collected in memory, up to the length in the reference.
    #[must_use]
    pub fn new(reference: Reference, family: Family, keep: bool) -> Self {
        Self { reference, family, value: keep.then(Vec::new), found: 0, state: LobState::First }
    }

    /// The next page; `None` at the end.
    #[must_use]
    pub fn wants(&self) -> Option<PageNo> {
        match &self.state {
            LobState::First => Some(self.reference.page_no),
            LobState::Parts(page_no) | LobState::Zip(page_no, _) => Some(*page_no),
            LobState::Pieces { pieces, next } => Some(pieces.last().map_or(next.page_no, |(page_no, _)| *page_no)),
            LobState::ZipPieces(pieces) => Some(pieces.wants()),
            LobState::Done => None,
        }
    }

    /// Bytes of the value so far.
    #[must_use]
    pub const fn found(&self) -> u64 {
        self.found
    }

    /// The collected bytes.
    #[must_use]
    pub fn into_value(self) -> Vec<u8> {
        self.value.unwrap_or_default()
    }

    /// Takes the requested page, as stored except that it is decrypted and, if page-compressed, inflated.
    ///
    /// # Errors
    /// The page does not continue the value, or the value's length is wrong.
    pub fn take(&mut self, page: &[u8]) -> Result<(), LobDamage> {
        let Some(page_no) = self.wants() else { return Ok(()) };
        match std::mem::replace(&mut self.state, LobState::Done) {
            LobState::First => self.first(page, page_no)?,
            LobState::Parts(_) => self.part(page, page_no, FIL_PAGE_DATA)?,
            LobState::Zip(_, zlib) => self.packed(page, page_no, FIL_PAGE_NEXT, zlib)?,
            LobState::Pieces { mut pieces, next } => match pieces.pop() {
                Some((_, len)) => {
                    self.add(piece(page, len).ok_or(LobDamage::NotAPart { page_no })?)?;
                    self.state = LobState::Pieces { pieces, next };
                }
                None => self.entries(page, page_no, next)?,
            },
            LobState::ZipPieces(pieces) => self.zip_pieces(page, page_no, pieces)?,
            LobState::Done => {}
        }
        self.settle()
    }

    /// Ends the walk once no piece is left, and checks the length.
    fn settle(&mut self) -> Result<(), LobDamage> {
        if let LobState::Pieces { pieces, next } = &self.state
            && pieces.is_empty()
            && next.page_no == PageNo::NONE
        {
            self.state = LobState::Done;
        }
        let expected = u64::from(self.reference.len);
        match self.state {
            LobState::Done if self.found != expected => Err(LobDamage::Length { found: self.found, expected }),
            _ => Ok(()),
        }
    }

    fn first(&mut self, page: &[u8], page_no: PageNo) -> Result<(), LobDamage> {
        let stored = be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0);
        let offset = self.reference.offset as usize;
        match Chain::of(page, self.family).ok_or(LobDamage::NotAValue { page_no, stored })? {
            Chain::Parts => self.part(page, page_no, offset),
            Chain::Zip => self.packed(page, page_no, offset, Box::new(Decompress::new(true))),
            Chain::ZipLob => {
                let list = ListBase::read(page, ZLOB_FIRST_INDEX_LIST).ok_or(LobDamage::NotAPart { page_no })?;
                self.zip_pieces(page, page_no, Box::new(ZipPieces::from(list.first)))
            }
            Chain::Lob => {
                let first = LobFirst::read(page).ok_or(LobDamage::NotAPart { page_no })?;
                self.entries(page, page_no, first.entries.first)
            }
        }
    }

    fn part(&mut self, page: &[u8], page_no: PageNo, offset: usize) -> Result<(), LobDamage> {
        let part = LobPart::read(page, offset).filter(|part| !part.data.is_empty());
        let part = part.ok_or(LobDamage::NotAPart { page_no })?;
        self.add(part.data)?;
        self.state = part.next.map_or(LobState::Done, LobState::Parts);
        Ok(())
    }

    fn packed(
        &mut self,
        page: &[u8],
        page_no: PageNo,
        offset: usize,
        mut zlib: Box<Decompress>,
    ) -> Result<(), LobDamage> {
        // A page cut off before its data adds nothing, and may name itself as the next one.
        let part = zip_part(page, offset).filter(|part| !part.data.is_empty());
        let part = part.ok_or(LobDamage::NotAPart { page_no })?;
        let mut buffer = [0; 4096];
        let mut input = part.data;
        loop {
            let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
            let status = zlib.decompress(input, &mut buffer, FlushDecompress::None);
            let status = status.map_err(|_| LobDamage::Stream { page_no })?;
            let (taken, given) = ((zlib.total_in() - before_in) as usize, (zlib.total_out() - before_out) as usize);
            input = input.get(taken..).unwrap_or(&[]);
            self.add(buffer.get(..given).unwrap_or(&[]))?;
            if status == Status::StreamEnd {
                return Ok(());
            }
            if taken == 0 && given == 0 || input.is_empty() && given < buffer.len() {
                break;
            }
        }
        // A stream may consume bytes without producing any, but no server's stream is much longer than its output.
        let len = u64::from(self.reference.len);
        let more = zlib.total_in() <= len + len / 64 + 4096;
        let next = part.next.filter(|_| input.is_empty() && more).ok_or(LobDamage::Stream { page_no })?;
        self.state = LobState::Zip(next, zlib);
        Ok(())
    }

    /// Reads the entries from `at` on, until one is on another page.
    fn entries(&mut self, page: &[u8], page_no: PageNo, at: FileAddress) -> Result<(), LobDamage> {
        let mut next = at;
        let mut pieces = Vec::new();
        let mut total = self.found;
        while next.page_no == page_no {
            let entry = LobEntry::read(page, next.offset).filter(|entry| entry.len > 0);
            let entry = entry.ok_or(LobDamage::NotAPart { page_no })?;
            total += u64::from(entry.len);
            self.limit(total)?;
            if pieces.is_empty() && entry.page_no == page_no {
                // The first piece is on the same page as the first entries.
                self.add(piece(page, entry.len).ok_or(LobDamage::NotAPart { page_no })?)?;
            } else {
                pieces.push((entry.page_no, entry.len));
            }
            next = entry.next;
        }
        pieces.reverse();
        self.state = LobState::Pieces { pieces, next };
        Ok(())
    }

    /// Takes this page's entries or stream bytes, whichever are wanted.
    fn zip_pieces(&mut self, page: &[u8], page_no: PageNo, mut pieces: Box<ZipPieces>) -> Result<(), LobDamage> {
        if pieces.is_at_entries() {
            let room = u64::from(self.reference.len) - self.found;
            pieces.read_entries(page, page_no, room).ok_or(LobDamage::NotAPart { page_no })?;
        } else if let Some(inflated) = pieces.take_data(page, page_no)? {
            self.add(&inflated)?;
        }
        self.state = if pieces.is_done() { LobState::Done } else { LobState::ZipPieces(pieces) };
        Ok(())
    }

    fn add(&mut self, data: &[u8]) -> Result<(), LobDamage> {
        self.found += data.len() as u64;
        self.limit(self.found)?;
        if let Some(value) = &mut self.value {
            value.extend_from_slice(data);
        }
        Ok(())
    }

    const fn limit(&self, found: u64) -> Result<(), LobDamage> {
        let expected = self.reference.len as u64;
        if found > expected { Err(LobDamage::Length { found, expected }) } else { Ok(()) }
    }
}
