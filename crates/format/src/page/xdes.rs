//! Extent descriptors: which pages are in use. Byte map in [`super::fsp`].

use std::fmt::{self, Display, Formatter};

use crate::bytes::{be, le};
use crate::corruption::Corruption;
use crate::fil::{self, PageType};
use crate::page::fsp::{FileAddress, ListNode, SpaceHeader, XDES_ARR_OFFSET, xdes_size};
use crate::page::space_format::SpaceFormat;
use crate::types::PageNo;

/// Owner of the extent: a segment id. 8 bytes.
pub const XDES_ID: usize = 0;
/// Node of the list that the extent is on. 12 bytes.
pub const XDES_FLST_NODE: usize = 8;
/// State. 4 bytes.
pub const XDES_STATE: usize = 20;
/// Two bits per page, lowest first: free, and clean (always 1, unused).
pub const XDES_BITMAP: usize = 24;

/// What an extent is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExtentState {
    /// Beyond the free limit, without a descriptor.
    NotInitialised,
    /// No page is used.
    Free,
    /// Pages are allocated singly; some are free.
    FreeFrag,
    /// Pages are allocated singly; none is free.
    FullFrag,
    /// Belongs to a segment.
    Segment,
    /// Belongs to a segment that allocates its pages singly (MySQL 8.0 and later).
    SegmentFrag,
}

impl ExtentState {
    const fn from_number(state: u32) -> Option<Self> {
        Some(match state {
            0 => Self::NotInitialised,
            1 => Self::Free,
            2 => Self::FreeFrag,
            3 => Self::FullFrag,
            4 => Self::Segment,
            5 => Self::SegmentFrag,
            _ => return None,
        })
    }
}

impl Display for ExtentState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInitialised => "NOT_INITED",
            Self::Free => "FREE",
            Self::FreeFrag => "FREE_FRAG",
            Self::FullFrag => "FULL_FRAG",
            Self::Segment => "FSEG",
            Self::SegmentFrag => "FSEG_FRAG",
        })
    }
}

/// An extent descriptor without its bitmap; [`ExtentMap`] has the bitmaps of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentDescriptor {
    /// The owning segment, in states that have an owner; otherwise an old value.
    pub owner: u64,
    /// Its list node.
    pub node: ListNode,
    /// What it is used for.
    pub state: ExtentState,
}

impl ExtentDescriptor {
    fn read(entry: &[u8]) -> Option<Self> {
        Some(Self {
            owner: be::u64_at(entry, XDES_ID)?,
            node: ListNode::read(entry, XDES_FLST_NODE)?,
            state: ExtentState::from_number(be::u32_at(entry, XDES_STATE)?)?,
        })
    }
}

/// The descriptors of a page that [`ExtentMap::parse`] accepts, in extent order.
pub fn descriptors<'p>(page: &'p [u8], format: &SpaceFormat) -> impl Iterator<Item = ExtentDescriptor> + use<'p> {
    let extents = format.physical().get() / format.extent_pages();
    let entries = page.get(XDES_ARR_OFFSET..).unwrap_or(&[]).chunks_exact(xdes_size(format.logical()));
    entries.take(extents as usize).map_while(ExtentDescriptor::read)
}

/// Number of the extent whose list node has this address; `None` if no descriptor has its node there.
#[must_use]
pub fn extent_at(address: FileAddress, format: &SpaceFormat) -> Option<u32> {
    let (size, entry) = (format.physical().get(), xdes_size(format.logical()));
    let at = usize::from(address.offset).checked_sub(XDES_ARR_OFFSET + XDES_FLST_NODE)?;
    let number = u32::try_from(at / entry).ok()?;
    let is_there = address.page_no.0.is_multiple_of(size)
        && at.is_multiple_of(entry)
        && number < size / format.extent_pages()
        && !address.is_none();
    is_there.then(|| address.page_no.0 / format.extent_pages() + number)
}

/// The extent descriptors of one XDES page (page 0, or a multiple of the physical page size), which describe the pages up to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentMap {
    first: PageNo,
    extent_pages: u32,
    states: Vec<ExtentState>,
    /// One bit per page, lowest first, set if free.
    free: Vec<u64>,
}

impl ExtentMap {
    /// Reads the extent descriptors on XDES page `page_no`. The page should have been verified: this checks only its length, its type and
    /// the states.
    ///
    /// # Errors
    /// [`Corruption::TruncatedPage`], [`Corruption::WrongPageType`], [`Corruption::BadExtentState`].
    pub fn parse(page: &[u8], page_no: PageNo, format: &SpaceFormat) -> Result<Self, Corruption> {
        let map = Self::parse_any_type(page, page_no, format);
        if matches!(map, Err(Corruption::TruncatedPage { .. })) {
            return map;
        }
        check_type(page, page_no).and(map)
    }

    /// [`Self::parse`] for a page of any type: the servers ignore the type.
    ///
    /// # Errors
    /// [`Corruption::TruncatedPage`], [`Corruption::BadExtentState`].
    pub fn parse_any_type(page: &[u8], page_no: PageNo, format: &SpaceFormat) -> Result<Self, Corruption> {
        let size = format.physical();
        if page.len() != size.bytes() {
            return Err(Corruption::TruncatedPage {
                len: u32::try_from(page.len()).unwrap_or(u32::MAX),
                expected: size.get(),
            });
        }
        let extent_pages = format.extent_pages();
        let extents = size.get() / extent_pages;
        let entry_size = xdes_size(format.logical());
        let entries = page.get(XDES_ARR_OFFSET..).unwrap_or(&[]).chunks_exact(entry_size);
        let mut map = Self {
            first: page_no,
            extent_pages,
            states: Vec::with_capacity(extents as usize),
            free: Vec::with_capacity(size.bytes() / 64),
        };
        let first_pages = (0..extents).map(|extent| PageNo(page_no.0.saturating_add(extent * extent_pages)));
        for (entry, extent_first) in entries.zip(first_pages) {
            map.push(entry, extent_first)?;
        }
        Ok(map)
    }

    fn push(&mut self, entry: &[u8], extent_first: PageNo) -> Result<(), Corruption> {
        let number = be::u32_at(entry, XDES_STATE).unwrap_or(0);
        let state = ExtentState::from_number(number)
            .ok_or(Corruption::BadExtentState { page_no: extent_first, state: number })?;
        self.states.push(state);
        // 16 bytes describe 64 pages.
        for pairs in entry.get(XDES_BITMAP..).unwrap_or(&[]).as_chunks::<16>().0 {
            self.free.push(free_bits(pairs));
        }
        Ok(())
    }

    /// The first page covered: the XDES page itself.
    #[must_use]
    pub const fn first(&self) -> PageNo {
        self.first
    }

    /// Number of pages covered.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.states.len()).unwrap_or(0).saturating_mul(self.extent_pages)
    }

    /// Whether no page is covered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Whether `page_no` is marked as free; `None` if it is not covered.
    #[must_use]
    pub fn is_free(&self, page_no: PageNo) -> Option<bool> {
        let index = page_no.0.checked_sub(self.first.0)?;
        let word = self.free.get(index as usize / 64)?;
        Some(word >> (index % 64) & 1 == 1)
    }

    /// State of the extent with `page_no`; `None` if it is not covered.
    #[must_use]
    pub fn state(&self, page_no: PageNo) -> Option<ExtentState> {
        let index = page_no.0.checked_sub(self.first.0)?;
        self.states.get((index / self.extent_pages) as usize).copied()
    }

    /// The free bits, 64 pages per word, lowest bit first.
    #[must_use]
    pub fn free_words(&self) -> &[u64] {
        &self.free
    }
}

/// Whether the space header and the extent descriptors say that `page_no` is in use: below the free limit, in an initialised extent, free
/// bit not set. `None` if `extents` does not cover the page.
///
/// An all-zero page in use is missing, with three exceptions that the caller must make: the doublewrite area
/// ([`SpaceFormat::is_doublewrite_slot`]), temporary tablespaces, and pages allocated to a segment ahead of need.
#[must_use]
pub fn page_in_use(page_no: PageNo, header: &SpaceHeader, extents: &ExtentMap) -> Option<bool> {
    let free = extents.is_free(page_no)?;
    let described = extents.state(page_no)? != ExtentState::NotInitialised;
    Some(page_no < header.free_limit && described && !free)
}

fn check_type(page: &[u8], page_no: PageNo) -> Result<(), Corruption> {
    let expected = if page_no.0 == 0 { PageType::FSP_HDR } else { PageType::XDES };
    let stored = be::u16_at(page, fil::FIL_PAGE_TYPE).unwrap_or(0);
    // Servers up to 5.0 wrote these pages without a type.
    if stored == expected.0 || stored == PageType::ALLOCATED.0 {
        Ok(())
    } else {
        Err(Corruption::WrongPageType { stored, expected: expected.0 })
    }
}

/// The lower bit of each of 64 pairs.
fn free_bits(pairs: &[u8; 16]) -> u64 {
    // The lowest page is in the first byte.
    let half = |at: usize| even_bits(le::u64_at(pairs, at).unwrap_or(0));
    half(0) | half(8) << 32
}

/// Compacts the bits at even positions: first pairs, then fours, and so on. An XDES page has 256 bitmaps; handling them bit by bit took as
/// long as the checksums of a small table.
const fn even_bits(bits: u64) -> u64 {
    let bits = bits & 0x5555_5555_5555_5555;
    let bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    let bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    let bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    let bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    (bits | bits >> 16) & 0xffff_ffff
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "the place is one of 64")]
mod tests {
    use super::free_bits;

    #[test]
    fn the_lower_bit_of_each_pair_is_taken_in_order() {
        for page in 0..64 {
            let mut pairs = [0; 16];
            pairs[page / 4] = 0b01 << (2 * (page % 4));
            assert_eq!(free_bits(&pairs), 1 << page, "page {page}");
            pairs[page / 4] = 0b10 << (2 * (page % 4));
            assert_eq!(free_bits(&pairs), 0, "the clean bit of page {page}");
        }
        assert_eq!(free_bits(&[0xff; 16]), u64::MAX);
    }
}
