//! Which pages a tablespace uses and to which segment each belongs: extent descriptors and segment inodes together.
//!
//! Memory is 12 bytes for each extent, two bits of them for each page of 16 KiB: 20 MiB for a terabyte.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::bytes::be;
use format::page::fil::{FIL_PAGE_DATA, FIL_PAGE_TYPE};
use format::page::fsp::{FileAddress, XDES_ARR_OFFSET, xdes_size};
use format::page::inode::{FSEG_ARR_OFFSET, Segment, inode_size, inodes_per_page};
use format::page::xdes::{ExtentState, XDES_ID};
use format::{ExtentMap, PageNo, SpaceHeader};

use super::{Opener, Rule, Space, TreeFinding};

/// The list node of an inode page: the address of the next one follows that of the one before.
const INODE_LIST_NEXT: usize = FIL_PAGE_DATA + 6;
/// The first page of the insert buffer bitmaps follows each page of extent descriptors: 4 bits a page.
const IBUF_BITMAP: usize = 94;
/// MariaDB leaves the files of tables with the smallest compressed pages so many free pages short.
const SHORT_MAX: u32 = 3;
/// In these bits: changes of the page wait in the insert buffer.
const IBUF_BUFFERED: u8 = 0b0100_0100;

/// A segment and where its inode lies.
#[derive(Debug, Clone)]
pub struct PlacedSegment {
    /// Page and byte of the inode: what roots name.
    pub at: (u32, u16),
    /// The inode.
    pub segment: Segment,
}

/// The use of a tablespace's pages.
#[derive(Debug, Default)]
pub struct SpaceMap {
    extent_pages: u32,
    /// Pages from here on are free.
    free_limit: u32,
    /// Of each extent: its segment, if a segment owns it.
    owners: Vec<u64>,
    /// One bit a page: free.
    free: Vec<u64>,
    /// Pages whose descriptors could not be read: from, to.
    unknown: Vec<(u32, u32)>,
    /// The segments by their ids.
    pub segments: BTreeMap<u64, PlacedSegment>,
    /// The segments of single pages.
    fragments: BTreeMap<u32, u64>,
    /// Changes of secondary indexes wait in the system tablespace (change buffering): entries in the pages are not all there are.
    pub has_buffered_changes: bool,
    /// What is wrong with it.
    pub findings: Vec<TreeFinding>,
}

impl SpaceMap {
    /// Reads the map of a tablespace. Without a sound page 0 nothing is known.
    #[must_use]
    pub fn read(space: &Space, opener: &mut Opener) -> Self {
        let mut map = Self { extent_pages: space.format.extent_pages(), ..Self::default() };
        let Some(header) = space.header else {
            map.unknown.push((0, u32::MAX));
            return map;
        };
        map.free_limit = header.free_limit.0;
        map.read_extents(space, &header, opener);
        map.read_segments(space, &header, opener);
        map.hold_together(space, &header);
        map
    }

    fn read_extents(&mut self, space: &Space, header: &SpaceHeader, opener: &mut Opener) {
        let size = space.format.physical().get();
        let end = space.pages().min(header.free_limit.0.max(1));
        let firsts = (0..end).step_by(size as usize);
        // The bitmap lies behind the descriptors, so that both are one request.
        let pages: Vec<u32> = firsts.flat_map(|first| [first, first + 1]).collect();
        space.each_stored(&pages, |page_no, stored| {
            let page = stored.and_then(|stored| space.opened(page_no, stored, opener));
            if page_no.is_multiple_of(size) {
                self.descriptors(page_no, page, space);
                return;
            }
            let bits = page.as_ref().ok().filter(|page| be::u16_at(page, FIL_PAGE_TYPE) == Some(5));
            let bits = bits.and_then(|page| page.get(IBUF_BITMAP..)?.get(..size as usize / 2));
            self.has_buffered_changes |= bits.is_some_and(|bits| bits.iter().any(|byte| byte & IBUF_BUFFERED != 0));
        });
    }

    fn descriptors(&mut self, first: u32, page: Result<Arc<[u8]>, String>, space: &Space) {
        let map = page
            .as_ref()
            .map_err(String::clone)
            .and_then(|page| ExtentMap::parse(page, PageNo(first), &space.format).map_err(|why| why.to_string()));
        match (page, map) {
            (Ok(page), Ok(map)) => self.add(&page, &map, space),
            (_, Err(why)) | (Err(why), _) => {
                let size = space.format.physical().get();
                let extents = size / self.extent_pages;
                self.owners.resize(self.owners.len() + extents as usize, 0);
                self.free.resize(self.free.len() + size as usize / 64, 0);
                self.unknown.push((first, first.saturating_add(size)));
                self.findings.push(TreeFinding::new(Rule::Descriptors, first, 0, 0).because(&why));
            }
        }
    }

    fn add(&mut self, page: &[u8], map: &ExtentMap, space: &Space) {
        let entry = xdes_size(space.format.logical());
        let entries = page.get(XDES_ARR_OFFSET..).unwrap_or(&[]).chunks_exact(entry);
        let extents = map.len() / self.extent_pages;
        for (bytes, number) in entries.zip(0..extents) {
            let state = map.state(PageNo(map.first().0 + number * self.extent_pages));
            // The second kind: an extent that has descriptors in it, in MySQL with small pages.
            let owned = matches!(state, Some(ExtentState::Segment | ExtentState::SegmentFrag));
            self.owners.push(if owned { be::u64_at(bytes, XDES_ID).unwrap_or(0) } else { 0 });
        }
        self.free.extend_from_slice(map.free_words());
    }

    fn read_segments(&mut self, space: &Space, header: &SpaceHeader, opener: &mut Opener) {
        for list in [header.inodes_full, header.inodes_free] {
            let mut next = list.first.page_no;
            // A damaged list is no longer than it says.
            for _ in 0..list.len.min(space.pages()) {
                if next == PageNo::NONE {
                    break;
                }
                let page = match space.sound(next.0, opener) {
                    Ok(page) => page,
                    Err(why) => {
                        self.findings.push(TreeFinding::new(Rule::Unreadable, next.0, 0, 0).because(&why));
                        break;
                    }
                };
                self.add_segments(&page, next.0, space);
                next = FileAddress::read(&page, INODE_LIST_NEXT).map_or(PageNo::NONE, |address| address.page_no);
            }
        }
    }

    fn add_segments(&mut self, page: &[u8], page_no: u32, space: &Space) {
        let (logical, physical) = (space.format.logical(), space.format.physical());
        for slot in 0..inodes_per_page(logical, physical) {
            let offset = (FSEG_ARR_OFFSET + slot * inode_size(logical)) as u16;
            let Some(segment) = Segment::at(page, offset, &space.format) else { continue };
            for fragment in &segment.fragments {
                if let Some(other) = self.fragments.insert(fragment.0, segment.id) {
                    self.findings.push(TreeFinding::new(Rule::SegmentTwice, fragment.0, other, segment.id));
                }
            }
            self.segments.insert(segment.id, PlacedSegment { at: (page_no, offset), segment });
        }
    }

    /// Descriptors, segments and the files against each other.
    fn hold_together(&mut self, space: &Space, header: &SpaceHeader) {
        let mut found = Vec::new();
        for (page_no, segment) in &self.fragments {
            if self.is_free(*page_no) == Some(true) {
                found.push(TreeFinding::new(Rule::SegmentFreed, *page_no, *segment, 0));
            }
        }
        let mut extents: BTreeMap<u64, u64> = BTreeMap::new();
        for owner in self.owners.iter().filter(|owner| **owner != 0) {
            *extents.entry(*owner).or_default() += 1;
        }
        for (id, PlacedSegment { at: (page_no, _), segment }) in &self.segments {
            let listed: u64 =
                [segment.free, segment.not_full, segment.full].iter().map(|list| u64::from(list.len)).sum();
            let owned = extents.get(id).copied().unwrap_or(0);
            if owned != listed && self.unknown.is_empty() {
                found.push(TreeFinding::new(Rule::SegmentExtents, *page_no, *id, owned));
            }
        }
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

    fn highest_used(&self) -> Option<u32> {
        let owned = self.owners.iter().rposition(|owner| *owner != 0);
        let owned = owned.map(|extent| extent as u32 * self.extent_pages..(extent as u32 + 1) * self.extent_pages);
        let in_extent = owned.and_then(|mut pages| pages.rfind(|page| self.is_free(*page) == Some(false)));
        in_extent.max(self.fragments.last_key_value().map(|(page_no, _)| *page_no))
    }

    /// Whether the page is free; `None` where nobody knows.
    #[must_use]
    pub fn is_free(&self, page_no: u32) -> Option<bool> {
        if self.unknown.iter().any(|(from, to)| (*from..*to).contains(&page_no)) {
            return None;
        }
        let word = self.free.get(page_no as usize / 64).copied().unwrap_or(u64::MAX);
        Some(page_no >= self.free_limit || word >> (page_no % 64) & 1 == 1)
    }

    /// The segment that the page belongs to.
    #[must_use]
    pub fn owner(&self, page_no: u32) -> Option<u64> {
        let extent = page_no.checked_div(self.extent_pages).unwrap_or(0);
        match self.owners.get(extent as usize) {
            Some(0) | None => self.fragments.get(&page_no).copied(),
            Some(owner) => Some(*owner),
        }
    }

    /// Whether every page's use is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// The pages in use of a segment, ascending.
    pub fn pages_of(&self, segment: u64) -> impl Iterator<Item = u32> + '_ {
        let of_it = self.fragments.iter().filter(move |(_, owner)| **owner == segment);
        let single = of_it.map(|(page_no, _)| *page_no);
        let extents = self.owners.iter().zip(0_u32..).filter(move |(owner, _)| **owner == segment);
        let whole = extents.flat_map(|(_, number)| number * self.extent_pages..(number + 1) * self.extent_pages);
        single.chain(whole).filter(|page_no| self.is_free(*page_no) == Some(false))
    }

    /// The segment whose inode lies there.
    #[must_use]
    pub fn segment_at(&self, at: (u32, u16)) -> Option<&Segment> {
        self.segments.values().find(|placed| placed.at == at).map(|placed| &placed.segment)
    }
}
