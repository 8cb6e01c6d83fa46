//! Values that MySQL 8 compresses in pieces (ROW_FORMAT=COMPRESSED, more than 128 KiB): each piece is a zlib stream over the first page,
//! pages of type 26 and a fragment of a page of type 28, linked by their next-page fields.
//!
//! Facts: `zlob0first.h`, `zlob0index.h` and `zlob0read.cc` of MySQL 8.0; compared with values that MySQL 9.7 wrote.

use std::collections::VecDeque;

use flate2::{Decompress, FlushDecompress, Status};

use super::reader::LobDamage;
use super::{ZipEntry, zip_lob_data};
use crate::bytes::be;
use crate::fil::FIL_PAGE_NEXT;
use crate::page::fsp::FileAddress;
use crate::types::PageNo;

/// The server compresses this many bytes at a time.
const PIECE_MAX: u32 = 128 << 10;
/// A stream is at most this much longer than its content.
const ZLIB_MORE_MAX: u32 = 4096;

/// Entries and streams, read as they arrive.
pub(super) struct ZipPieces {
    /// Entries read but not yet followed.
    entries: VecDeque<ZipEntry>,
    /// Address of the next entries.
    next: FileAddress,
    /// The current stream: the page with its next bytes, and the bytes so far.
    stream: Option<(PageNo, Vec<u8>)>,
}

impl From<FileAddress> for ZipPieces {
    fn from(first: FileAddress) -> Self {
        Self { entries: VecDeque::new(), next: first, stream: None }
    }
}

impl ZipPieces {
    /// The page wanted next.
    pub fn wants(&self) -> PageNo {
        let of_entry = || self.entries.front().map_or(self.next.page_no, |entry| entry.page_no);
        self.stream.as_ref().map_or_else(of_entry, |(page_no, _)| *page_no)
    }

    pub fn is_at_entries(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_done(&self) -> bool {
        self.entries.is_empty() && self.next.page_no == PageNo::NONE
    }

    /// The consecutive entries on this page, for pieces of at most `room` bytes in all.
    pub fn read_entries(&mut self, page: &[u8], page_no: PageNo, mut room: u64) -> Option<()> {
        while self.next.page_no == page_no {
            let entry = ZipEntry::read(page, self.next.offset)?;
            let is_sane = entry.len > 0 && entry.len <= PIECE_MAX && entry.zlib_len <= entry.len + ZLIB_MORE_MAX;
            // No value is longer than its row says: this ends a cyclic list.
            room = room.checked_sub(u64::from(entry.len)).filter(|_| is_sane && entry.zlib_len > 0)?;
            self.next = entry.next;
            self.entries.push_back(entry);
        }
        Some(())
    }

    /// Takes this page's bytes of the current stream. Returns the piece once the stream is complete.
    pub fn take_data(&mut self, page: &[u8], page_no: PageNo) -> Result<Option<Vec<u8>>, LobDamage> {
        let damage = LobDamage::NotAPart { page_no };
        let entry = *self.entries.front().ok_or(damage)?;
        let mut stream = self.stream.take().map(|(_, stream)| stream).unwrap_or_default();
        let data = zip_lob_data(page, entry.fragment).filter(|data| !data.is_empty()).ok_or(damage)?;
        stream.extend_from_slice(data.get(..data.len().min(entry.zlib_len as usize - stream.len())).unwrap_or(data));
        if stream.len() < entry.zlib_len as usize {
            let next = be::u32_at(page, FIL_PAGE_NEXT).map(PageNo).filter(|next| *next != PageNo::NONE);
            self.stream = Some((next.ok_or(damage)?, stream));
            return Ok(None);
        }
        self.entries.pop_front();
        let mut piece = Vec::with_capacity(entry.len as usize + 1);
        let mut zlib = Decompress::new(true);
        let status = zlib.decompress_vec(&stream, &mut piece, FlushDecompress::Finish);
        let is_whole = matches!(status, Ok(Status::StreamEnd)) && piece.len() == entry.len as usize;
        if is_whole { Ok(Some(piece)) } else { Err(LobDamage::Stream { page_no }) }
    }
}
