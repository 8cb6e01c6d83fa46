//! Which pages of a tablespace are used, and by which segment: extent descriptors and segment inodes combined.
//!
//! Memory is that of `super::extents` plus the inodes.

use std::collections::BTreeMap;

use format::bytes::be;
use format::fil::FIL_PAGE_TYPE;
use format::page::inode::Segment;
use format::page::xdes::ExtentState;
use format::{ExtentMap, PageNo, SpaceHeader};

use super::extents::{Extents, Links};
use super::inodes::Inodes;
use super::lists::Lists;
pub use super::segment::PlacedSegment;
use super::{Rule, TreeFinding};
use datadir::tablespace::{Opener, Tablespace};

/// Offset of the change buffer bitmap, 4 bits per page, on the page after each page of extent descriptors.
const IBUF_BITMAP: usize = 94;
/// MariaDB leaves tables with the smallest compressed pages this many free pages short.
const SHORT_MAX: u32 = 3;
/// The bits, of the two pages that share a byte, that say that changes to a page are buffered.
const IBUF_BUFFERED: u8 = 0b0100_0100;

/// Page allocation in a tablespace.
#[derive(Debug, Default)]
pub struct SpaceMap {
    extents: Extents,
    /// Pages from here on are free.
    free_limit: u32,
    /// Segments by id.
    pub segments: BTreeMap<u64, PlacedSegment>,
    inodes: Inodes,
    /// The system tablespace holds buffered changes to its secondary indexes: the pages do not contain all entries.
    pub has_buffered_changes: bool,
    /// Faults in the descriptors, segments and lists.
    pub findings: Vec<TreeFinding>,
}

impl SpaceMap {
    /// Reads the map of a tablespace; without a sound page 0 nothing is known.
    #[must_use]
    pub fn read(space: &Tablespace, opener: &mut Opener) -> Self {
        let mut map = Self { extents: Extents::new(space.format.extent_pages()), ..Self::default() };
        let Some(header) = space.header else {
            map.extents.forget();
            return map;
        };
        map.free_limit = header.free_limit.0;
        let links = map.read_extents(space, &header, opener);
        map.read_segments(space, &header, opener);
        map.hold_together(space, &header, &links);
        map
    }

    fn read_extents(&mut self, space: &Tablespace, header: &SpaceHeader, opener: &mut Opener) -> Links {
        let size = space.format.physical().get();
        let end = space.pages().min(header.free_limit.0.max(1));
        let firsts = (0..end).step_by(size as usize);
        // The bitmap follows the descriptors, so both are one request.
        let pages: Vec<u32> = firsts.flat_map(|first| [first, first + 1]).collect();
        let mut links = Links::default();
        space.each_stored_with(&pages, opener, |page_no, stored, opener| {
            let page = stored.and_then(|stored| space.opened(page_no, stored, opener));
            if !page_no.is_multiple_of(size) {
                let bits = page.as_ref().ok().filter(|page| be::u16_at(page, FIL_PAGE_TYPE) == Some(5));
                let bits = bits.and_then(|page| page.get(IBUF_BITMAP..)?.get(..size as usize / 2));
                self.has_buffered_changes |= bits.is_some_and(|bits| bits.iter().any(|byte| byte & IBUF_BUFFERED != 0));
                return;
            }
            let parse = |page: &[u8]| ExtentMap::parse(page, PageNo(page_no), &space.format);
            match page.and_then(|page| parse(&page).map(|map| (page, map)).map_err(|why| why.to_string())) {
                Ok((page, map)) => self.extents.add(&page, &map, &mut links, &space.format),
                Err(why) => {
                    self.extents.add_unknown(page_no, size, &mut links);
                    self.findings.push(TreeFinding::new(Rule::Descriptors, page_no, 0, 0).because(&why));
                }
            }
        });
        self.extents.sort();
        links
    }

    fn read_segments(&mut self, space: &Tablespace, header: &SpaceHeader, opener: &mut Opener) {
        self.inodes = Inodes::read(space, header, opener);
        if !self.inodes.is_whole {
            // A segment lost from the lists still has its inode, on an allocated fragment page that no segment owns.
            let lost: Vec<u32> = self.single_pages().filter(|page_no| self.is_unclaimed(*page_no, space)).collect();
            for page_no in lost {
                self.inodes.add_lost_page(page_no, (space, header), opener);
            }
        }
        self.segments = std::mem::take(&mut self.inodes.segments);
        self.findings.append(&mut self.inodes.findings);
    }

    /// Allocated pages in fragment extents.
    fn single_pages(&self) -> impl Iterator<Item = u32> + '_ {
        let is_single =
            |extent: &u32| matches!(self.extents.state(*extent), Some(ExtentState::FreeFrag | ExtentState::FullFrag));
        let pages = (0..self.extents.len()).filter(is_single).flat_map(|extent| self.extents.range(extent));
        pages.filter(|page_no| self.is_free(*page_no) == Some(false))
    }

    fn is_unclaimed(&self, page_no: u32, space: &Tablespace) -> bool {
        let is_map = page_no % space.format.physical().get() < 2;
        !is_map && !self.inodes.pages.contains(&page_no) && !self.inodes.fragments.contains_key(&page_no)
    }

    /// Checks descriptors, segments and files against each other.
    fn hold_together(&mut self, space: &Tablespace, header: &SpaceHeader, links: &Links) {
        let mut found = Vec::new();
        for (page_no, segment) in &self.inodes.fragments {
            if self.is_free(*page_no) == Some(true) {
                found.push(TreeFinding::new(Rule::SegmentFreed, *page_no, *segment, 0));
            } else if !self.is_single(*page_no) {
                let owner = self.extents.owner(self.extents.of(*page_no)).unwrap_or(0);
                found.push(TreeFinding::new(Rule::FragmentExtent, *page_no, *segment, owner));
            }
        }
        let size = space.format.physical().get();
        let maps = (0..self.free_limit.min(space.pages())).step_by(size as usize).flat_map(|first| [first, first + 1]);
        for page_no in maps.chain(self.inodes.pages.iter().copied()) {
            if self.is_free(page_no) == Some(true) {
                found.push(TreeFinding::new(Rule::MapFreed, page_no, 0, 0));
            }
        }
        let (limit, extent) = (header.free_limit.0, self.extents.pages);
        if limit.checked_rem(extent) != Some(0) || limit > header.size.max(extent) {
            found.push(TreeFinding::new(Rule::FreeLimit, 0, u64::from(limit), u64::from(header.size)));
        }
        let lists = Lists::new(&self.extents, links, &space.format, header.free_limit.0);
        found.extend(lists.check(header, &self.segments, self.inodes.is_whole));
        let pages = space.pages();
        let highest = self.highest_used();
        if let Some(highest) = highest.filter(|highest| *highest >= header.size) {
            found.push(TreeFinding::new(Rule::SpaceSize, 0, u64::from(header.size), u64::from(highest)));
        }
        let is_short = header.size > pages.saturating_add(SHORT_MAX);
        if header.size > pages && (is_short || highest.is_some_and(|highest| highest >= pages)) {
            found.push(TreeFinding::new(Rule::Truncated, 0, u64::from(header.size), u64::from(pages)));
        }
        self.findings.append(&mut found);
    }

    /// Whether the page is in a fragment extent, as far as the descriptors are readable.
    fn is_single(&self, page_no: u32) -> bool {
        let state = self.extents.state(self.extents.of(page_no)).filter(|_| self.extents.knows(page_no));
        !matches!(state, Some(ExtentState::Free | ExtentState::Segment | ExtentState::NotInitialised))
    }

    fn highest_used(&self) -> Option<u32> {
        let owned = self.extents.last_owned().map(|extent| self.extents.range(extent));
        let in_extent = owned.and_then(|mut pages| pages.rfind(|page| self.is_free(*page) == Some(false)));
        in_extent.max(self.inodes.fragments.last_key_value().map(|(page_no, _)| *page_no))
    }

    /// Whether the page is free; `None` if unknown.
    #[must_use]
    pub fn is_free(&self, page_no: u32) -> Option<bool> {
        if !self.extents.knows(page_no) {
            return None;
        }
        Some(page_no >= self.free_limit || self.extents.is_free(page_no).unwrap_or(true))
    }

    /// The segment that owns the page.
    #[must_use]
    pub fn owner(&self, page_no: u32) -> Option<u64> {
        let owner = self.extents.owner(self.extents.of(page_no));
        owner.or_else(|| self.inodes.fragments.get(&page_no).copied())
    }

    /// Whether the allocation of every page is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.extents.is_known()
    }

    /// A segment's used pages: first its fragment pages, then those of its extents, ascending.
    pub fn pages_of(&self, segment: u64) -> impl Iterator<Item = u32> + '_ {
        let inode = self.segments.get(&segment);
        let single = inode.into_iter().flat_map(|placed| &placed.segment.fragments).map(|page_no| page_no.0);
        // A page claimed by two segments is attributed to the last one.
        let single = single.filter(move |page_no| self.inodes.fragments.get(page_no) == Some(&segment));
        let whole = self.extents.of_owner(segment).flat_map(|extent| self.extents.range(extent));
        single.chain(whole).filter(|page_no| self.is_free(*page_no) == Some(false))
    }

    /// The segment whose inode is at this page and offset.
    #[must_use]
    pub fn segment_at(&self, at: (u32, u16)) -> Option<&Segment> {
        self.segments.get(self.inodes.places.get(&at)?).filter(|placed| placed.at == at).map(|placed| &placed.segment)
    }
}
