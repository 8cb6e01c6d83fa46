//! A page from its stored bytes to what the server works on: verified, decrypted, inflated, unpacked.

use std::sync::Arc;

use format::bytes::be;
use format::fil::{self, PageType};
use format::page::zip::Unpacker;
use format::{Lsn, Scheme, Verdict, Why};

use super::Tablespace;
use super::space::OpenFile;
use crate::page::PageOpener;

/// An opened page.
#[derive(Debug)]
pub struct Opened {
    /// The verdict on its checksum and place.
    pub verdict: Verdict,
    /// The page as the server works on it, whatever the verdict; or why it could not be opened, as a clause.
    pub image: Result<Arc<[u8]>, String>,
}

/// Opens pages; owns the buffers for that.
#[derive(Debug, Default)]
pub struct Opener {
    pages: PageOpener,
    unpacker: Unpacker,
    /// The last page opened: its memory is reused unless someone still holds it.
    last: Option<Arc<[u8]>>,
    /// The highest LSN of the sound pages opened.
    newest: Lsn,
    /// The file of the page read last.
    pub file: OpenFile,
}

impl Opener {
    /// An opener that has opened nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The highest LSN of the sound pages opened since the last call.
    pub fn take_newest(&mut self) -> Lsn {
        std::mem::take(&mut self.newest)
    }

    /// Accounts for pages opened elsewhere: `newest` is the highest LSN of the sound ones.
    pub fn saw(&mut self, newest: Lsn) {
        self.newest = self.newest.max(newest);
    }

    /// Whether the tablespace's key opens the page; `None` if it is not encrypted, or damaged.
    pub fn unlocks(&mut self, stored: &[u8], page_no: u32, space: &Tablespace) -> Option<bool> {
        match self.pages.verdict(stored, space.at(page_no)) {
            Verdict::Unverifiable(Why::WrongKey) => Some(false),
            Verdict::Ok(_) => {
                self.pages.open(stored, space.at(page_no)).ok().and_then(|page| page.decrypted.then_some(true))
            }
            _ => None,
        }
    }

    /// Opens page `page_no` from its stored bytes. Index pages with ROW_FORMAT=COMPRESSED are unpacked.
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

/// Copies the page into the previous page's memory if no one holds that any more, else into new memory. Reuse is the common case, so
/// reading a table does not allocate for every page.
fn kept(last: &mut Option<Arc<[u8]>>, plain: &[u8]) -> Arc<[u8]> {
    if let Some(page) = last.as_mut().and_then(Arc::get_mut).filter(|page| page.len() == plain.len()) {
        page.copy_from_slice(plain);
    } else {
        *last = Some(Arc::from(plain));
    }
    last.as_ref().map_or_else(|| Arc::from(plain), Arc::clone)
}
