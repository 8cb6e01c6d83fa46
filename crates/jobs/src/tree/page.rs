//! A page from its stored bytes to what the server works on: verified, decrypted, inflated, unpacked.

use std::sync::Arc;

use format::bytes::be;
use format::page::fil::{self, PageType};
use format::page::zip::Unpacker;
use format::{Lsn, Scheme, Verdict};

use super::Tablespace;
use crate::source::page::PageOpener;

/// What became of a page.
#[derive(Debug)]
pub struct Opened {
    /// The verdict of its checksum and its place.
    pub verdict: Verdict,
    /// The page as the server works on it, whatever the verdict; or why there is none, as a clause.
    pub image: Result<Arc<[u8]>, String>,
}

/// Opens pages; owns the buffers that this takes.
#[derive(Debug, Default)]
pub struct Opener {
    pages: PageOpener,
    unpacker: Unpacker,
    /// The last page that was opened: its memory is for the next one, if nobody else holds it.
    last: Option<Arc<[u8]>>,
    /// The highest LSN of the sound pages that it has opened.
    newest: Lsn,
}

impl Opener {
    /// One that has opened nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The highest LSN of the sound pages that were opened since this was asked last.
    pub fn take_newest(&mut self) -> Lsn {
        std::mem::take(&mut self.newest)
    }

    /// Opens the page `page_no`, whose stored bytes these are. Pages of indexes are unpacked where they are of ROW_FORMAT=COMPRESSED.
    pub fn open(&mut self, stored: &[u8], page_no: u32, space: &Tablespace) -> Opened {
        let (at, format) = (space.at(page_no), &space.format);
        let verdict = self.pages.verdict(stored, at);
        if matches!(verdict, Verdict::Ok(_)) {
            self.newest = self.newest.max(Lsn(be::u64_at(stored, fil::FIL_PAGE_LSN).unwrap_or(0)));
        }
        let plain = match self.pages.open(stored, at) {
            Ok(opened) => opened.page,
            Err(error) => return Opened { verdict, image: Err(error.to_string()) },
        };
        let kind = PageType(be::u16_at(plain, fil::FIL_PAGE_TYPE).unwrap_or(0));
        if format.scheme() != Scheme::Zip || !kind.is_index(format.family()) {
            return Opened { verdict, image: Ok(kept(&mut self.last, plain)) };
        }
        let mut image = vec![0; format.logical().bytes()];
        let unpacked = self.unpacker.unpack(plain, format, &mut image);
        Opened { verdict, image: unpacked.map(|()| Arc::from(image)).map_err(|damage| damage.to_string()) }
    }
}

/// The page in memory of its own: in that of the page before it, where that is not held any more. A page is given up before the next is
/// opened, as a rule, so that reading a table takes no new memory for each page.
fn kept(last: &mut Option<Arc<[u8]>>, plain: &[u8]) -> Arc<[u8]> {
    if let Some(page) = last.as_mut().and_then(Arc::get_mut).filter(|page| page.len() == plain.len()) {
        page.copy_from_slice(plain);
    } else {
        *last = Some(Arc::from(plain));
    }
    last.as_ref().map_or_else(|| Arc::from(plain), Arc::clone)
}
