//! Recognises a file without the help of page 0: damaged headers, and later files of the system tablespace.

use crate::bytes::be;
use crate::checksum::{self, Algorithm};
use crate::fil::{FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE, PageType};
use crate::kind::{Family, Scheme};
use crate::page::content::content;
use crate::page::full_crc32;
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::Verdict;
use crate::types::{PageNo, PageSize, SpaceId};

/// Pages examined for each size. In a trial with 935 files, the first 63 pages always decided.
const PAGES_MAX: usize = 64;

/// The most likely format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guess {
    /// The format of its pages. Its space is [`SpaceId::NONE`] if no page shows the space id.
    pub format: SpaceFormat,
    /// Number of the file's first page: 0, unless it is a later file of the system tablespace.
    pub first_page_no: PageNo,
    /// Pages whose number is the one expected from the page size and the first number.
    pub hits: u32,
}

/// A page size with the first page number that most pages agree on.
#[derive(Debug, Clone, Copy)]
struct Numbering {
    size: PageSize,
    first: u32,
    hits: usize,
}

impl SpaceFormat {
    /// Guesses the format from the first bytes of a file without a readable page 0. More bytes give a better answer; the first 64 pages are
    /// used.
    ///
    /// For each page size, counts the pages that agree on the number of the file's first page; the size with most agreement wins. Pages
    /// smaller than `hint_logical` (the server's page size, if known) are compressed ones. The checksums that match decide the rest. `None`
    /// if no two pages agree.
    #[must_use]
    pub fn guess(head: &[u8], hint_logical: Option<PageSize>) -> Option<Guess> {
        let best = PageSize::ALL
            .iter()
            .filter_map(|&size| numbering(head, size))
            .reduce(|best, next| if next.hits > best.hits { next } else { best })?;
        if best.hits < 2 {
            return None;
        }
        let format = best_format(head, &best, hint_logical)?;
        let format = format.with_space(majority_space(head, &best, &format));
        Some(Guess { format, first_page_no: PageNo(best.first), hits: u32::try_from(best.hits).unwrap_or(u32::MAX) })
    }
}

/// How many pages of this size, after the first, have the number `first` plus their position.
pub(crate) fn numbered_pages(head: &[u8], size: PageSize, first: u32) -> usize {
    (1_u32..).zip(pages(head, size).skip(1)).filter(|&(place, page)| number(page) == first.checked_add(place)).count()
}

fn pages(head: &[u8], size: PageSize) -> impl Iterator<Item = &[u8]> {
    head.chunks_exact(size.bytes()).take(PAGES_MAX)
}

fn number(page: &[u8]) -> Option<u32> {
    be::u32_at(page, FIL_PAGE_OFFSET)
}

fn numbering(head: &[u8], size: PageSize) -> Option<Numbering> {
    // Zero pages drop out: number 0 is right only at position 0 of a first file.
    let firsts = (0_u32..).zip(pages(head, size)).filter_map(|(place, page)| number(page)?.checked_sub(place));
    let (first, hits) = most_frequent(firsts.collect())?;
    Some(Numbering { size, first, hits })
}

/// The space id that most numbered pages name; [`SpaceId::NONE`] if encryption or compression hides all of them.
fn majority_space(head: &[u8], numbering: &Numbering, format: &SpaceFormat) -> SpaceId {
    let readable = numbered(head, numbering)
        .filter(|(_, page)| format.scheme() != Scheme::FullCrc32 || full_crc32::is_plain(page))
        .filter_map(|(_, page)| be::u32_at(page, FIL_PAGE_SPACE_ID));
    most_frequent(readable.collect()).map_or(SpaceId::NONE, |(space, _)| SpaceId(space))
}

fn numbered<'a>(head: &'a [u8], numbering: &Numbering) -> impl Iterator<Item = (PageNo, &'a [u8])> {
    let first = numbering.first;
    (0_u32..).zip(pages(head, numbering.size)).filter_map(move |(place, page)| {
        let stored = number(page)?;
        (Some(stored) == first.checked_add(place)).then_some((PageNo(stored), page))
    })
}

fn most_frequent(mut values: Vec<u32>) -> Option<(u32, usize)> {
    values.sort_unstable();
    values.chunk_by(|a, b| a == b).max_by_key(|run| run.len()).and_then(|run| Some((*run.first()?, run.len())))
}

/// Among the formats with pages of this size, the one that fits the pages best (`score`); the plainest on a tie.
fn best_format(head: &[u8], numbering: &Numbering, hint: Option<PageSize>) -> Option<SpaceFormat> {
    let physical = numbering.size;
    let logical = hint.filter(|&hint| hint >= physical).unwrap_or(physical.max(PageSize::DEFAULT));
    let make = |family, scheme, logical| SpaceFormat::new(family, scheme, logical, physical, SpaceId::NONE);
    let mut candidates = [
        make(Family::MySql, Scheme::Classic, physical),
        make(Family::MariaDb, Scheme::FullCrc32, physical),
        make(Family::MySql, Scheme::Zip, logical),
        // What only MariaDB accepts: pages with its post-encryption checksum, and its page_compressed pages.
        make(Family::MariaDb, Scheme::Classic, physical).map(|format| format.with_page_compressed(true)),
        make(Family::MariaDb, Scheme::Zip, logical),
    ];
    // Among formats that fit equally well, prefer the server's known page size.
    candidates.sort_by_key(|format| hint.is_some() && format.map(|format| format.logical()) != hint);
    let scored = candidates.into_iter().flatten().map(|format| (score(head, numbering, &format), format));
    let (_, format) = scored.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    Some(if format.family() == Family::MariaDb {
        format.with_page_compressed(has_compressed(head, numbering))
    } else {
        format
    })
}

/// Sound pages count twice. A page without a checksum fits several formats and counts once.
fn score(head: &[u8], numbering: &Numbering, format: &SpaceFormat) -> u32 {
    let value = |(page_no, page): (PageNo, &[u8])| {
        let crc = if format.scheme() == Scheme::Zip { checksum::zip_crc32(page) } else { checksum::crc32(page) };
        match content(page, page_no, format, crc) {
            Verdict::Ok(Algorithm::None) => 1,
            Verdict::Ok(_) | Verdict::Unverifiable(_) => 2,
            Verdict::Empty | Verdict::Corrupt(_) => 0,
        }
    };
    numbered(head, numbering).map(value).sum()
}

/// Whether any page is page_compressed in the form of tablespaces without full_crc32.
fn has_compressed(head: &[u8], numbering: &Numbering) -> bool {
    numbered(head, numbering).any(|(_, page)| {
        let kind = be::u16_at(page, FIL_PAGE_TYPE).map(PageType);
        matches!(kind, Some(PageType::PAGE_COMPRESSED | PageType::PAGE_COMPRESSED_ENCRYPTED))
    })
}
