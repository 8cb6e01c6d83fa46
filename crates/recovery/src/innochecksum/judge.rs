//! Decides whether a page is sound, by the rules of the server that wrote it ([`format::verify_page`]). Compressed pages are judged as
//! their server sees them.

use format::types::{PageId, PageNo, SpaceId};
use format::{Algorithm, Family, Scheme, SpaceFormat, Verdict, Why, fil, verify_page};

use super::layout::FileLayout;
use datadir::keys::SpaceKey;
use datadir::page::{PageAt, PageOpener};

/// The verdict on a page, in the categories of the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// Sound, with this checksum.
    Sound(Algorithm),
    /// All zeros.
    Empty,
    /// Corrupt.
    Corrupt,
    /// Marked as compressed but cannot be inflated: corrupt.
    NotInflated,
    /// Encrypted: cannot be verified without the key.
    Encrypted,
    /// Accepted by its server whatever it contains: a page of a temporary tablespace, or a doublewrite copy.
    Accepted,
}

/// A judged page.
#[derive(Debug)]
pub struct Examined<'a> {
    /// The verdict.
    pub outcome: PageOutcome,
    /// The page as its server sees it, inflated if it was compressed.
    pub page: &'a [u8],
    /// Whether it was compressed.
    pub inflated: bool,
}

/// Judges the pages of one file.
pub struct PageJudge {
    layout: FileLayout,
    /// The layout's format, without a doublewrite area: pages of the area are skipped before they get here.
    format: SpaceFormat,
    opener: PageOpener,
}

impl PageJudge {
    /// Makes a judge for a file with this layout.
    pub fn new(layout: FileLayout) -> Self {
        let format = if layout.copies { layout.format } else { layout.format.with_doublewrite_area(None) };
        Self { layout, format, opener: PageOpener::new() }
    }

    /// Judges the page at `position` (in pages of the file).
    pub fn examine<'a>(&'a mut self, page: &'a [u8], position: u64) -> Examined<'a> {
        let id = self.place(page, position);
        let at = without_key(id, &self.format);
        let steps = at.steps(page);
        if !steps.inflate || steps.decrypt || self.format.scheme() == Scheme::FullCrc32 || self.layout.copies {
            return Examined { outcome: outcome(verify_page(page, id, &self.format)), page, inflated: false };
        }
        match self.opener.open(page, at) {
            Ok(opened) => Examined {
                outcome: outcome(verify_page(opened.page, id, &self.format)),
                page: opened.page,
                inflated: true,
            },
            Err(_) => Examined { outcome: PageOutcome::NotInflated, page, inflated: false },
        }
    }

    /// Where a page belongs. For MySQL this is where its header says: MySQL's tool compares neither page number nor space id, and its
    /// server only logs a difference. MariaDB rejects misplaced pages.
    fn place(&self, page: &[u8], position: u64) -> PageId {
        if self.layout.copies {
            // Any page number in the doublewrite area marks the page as a copy.
            return PageId { space: SpaceId::SYSTEM, page_no: PageNo(self.format.extent_pages()) };
        }
        let here = u32::try_from(position).unwrap_or(u32::MAX).saturating_add(self.layout.first_page);
        match self.format.family() {
            Family::MariaDb => PageId { space: self.format.space(), page_no: PageNo(here) },
            Family::MySql => PageId {
                space: fil::space_id(page).unwrap_or(SpaceId::NONE),
                page_no: fil::page_no(page).unwrap_or(PageNo::NONE),
            },
        }
    }
}

/// Whether the page is encrypted in any way: without the key its checksums cannot be replaced.
pub(super) fn is_encrypted(page: &[u8], format: &SpaceFormat) -> bool {
    let id = PageId { space: format.space(), page_no: fil::page_no(page).unwrap_or(PageNo::NONE) };
    without_key(id, format).steps(page).decrypt
}

/// A page to be judged without its key: the original tool never has one.
const fn without_key(id: PageId, format: &SpaceFormat) -> PageAt<'_> {
    PageAt { id, format, key: &SpaceKey::None }
}

const fn outcome(verdict: Verdict) -> PageOutcome {
    match verdict {
        Verdict::Ok(algorithm) => PageOutcome::Sound(algorithm),
        Verdict::Empty => PageOutcome::Empty,
        Verdict::Corrupt(_) => PageOutcome::Corrupt,
        Verdict::Unverifiable(Why::EncryptedNoKey) => PageOutcome::Encrypted,
        Verdict::Unverifiable(_) => PageOutcome::Accepted,
    }
}
