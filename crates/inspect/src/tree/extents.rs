//! The extents of a tablespace, as read from their descriptors: state, owner, list neighbours, and which pages are free.
//!
//! Memory is 25 bytes per extent while lists are walked, 17 afterwards, plus one bit per page: 25 MiB for a terabyte of 16 KiB pages.

use std::collections::HashMap;

use format::page::fsp::{FileAddress, XDES_ARR_OFFSET, xdes_size};
use format::page::xdes::{self, ExtentState};
use format::{ExtentMap, PageNo, SpaceFormat};

/// Where a list node points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// The end of the list.
    End,
    /// The extent with this number.
    Extent(u32),
    /// An address at which no descriptor has its list node.
    Nowhere(FileAddress),
}

impl Link {
    pub fn of(address: FileAddress, format: &SpaceFormat) -> Self {
        match xdes::extent_at(address, format) {
            _ if address.is_none() => Self::End,
            Some(extent) => Self::Extent(extent),
            None => Self::Nowhere(address),
        }
    }
}

/// Sentinels in place of an extent number: the end of a list, and an address that belongs to no descriptor.
const END: u32 = u32::MAX;
const NOWHERE: u32 = u32::MAX - 1;
/// The address of zeros, which every descriptor that was never used has. It stands for itself, because most tablespaces are small and have
/// hundreds of them: in a map they were a tenth of the time that checking such a tablespace takes.
const ZEROS: u32 = u32::MAX - 2;
const ADDRESS_OF_ZEROS: FileAddress = FileAddress { page_no: PageNo(0), offset: 0 };

/// The previous and next extent of each extent in its list.
#[derive(Debug, Default)]
pub(super) struct Links {
    prev: Vec<u32>,
    next: Vec<u32>,
    /// Addresses that lead to no list node, keyed by extent and by whether the address is its `next` pointer.
    strange: HashMap<(u32, bool), FileAddress>,
}

impl Links {
    fn push(&mut self, (prev, next): (Link, Link)) {
        let extent = self.prev.len() as u32;
        let mut number = |link: Link, is_next: bool| match link {
            Link::End => END,
            Link::Extent(number) => number,
            Link::Nowhere(ADDRESS_OF_ZEROS) => ZEROS,
            Link::Nowhere(address) => {
                self.strange.insert((extent, is_next), address);
                NOWHERE
            }
        };
        let (prev, next) = (number(prev, false), number(next, true));
        self.prev.push(prev);
        self.next.push(next);
    }

    fn link(&self, extent: u32, number: Option<&u32>, is_next: bool) -> Link {
        match number {
            None | Some(&END) => Link::End,
            Some(&ZEROS) => Link::Nowhere(ADDRESS_OF_ZEROS),
            Some(&NOWHERE) => self.strange.get(&(extent, is_next)).map_or(Link::End, |address| Link::Nowhere(*address)),
            Some(&number) => Link::Extent(number),
        }
    }

    /// The extent before this one in its list.
    pub fn prev(&self, extent: u32) -> Link {
        self.link(extent, self.prev.get(extent as usize), false)
    }

    /// The extent after this one in its list.
    pub fn next(&self, extent: u32) -> Link {
        self.link(extent, self.next.get(extent as usize), true)
    }
}

/// The extents of a tablespace in order, whether or not their descriptors could be read.
#[derive(Debug, Default)]
pub(super) struct Extents {
    /// Pages per extent.
    pub pages: u32,
    states: Vec<ExtentState>,
    /// The owning segment, or 0.
    owners: Vec<u64>,
    /// One bit per page, set if free.
    free: Vec<u64>,
    /// Page ranges (from, to) whose descriptors could not be read.
    unknown: Vec<(u32, u32)>,
    /// The extents with an owner, sorted by owner, then number.
    by_owner: Vec<u32>,
}

impl Extents {
    pub fn new(pages: u32) -> Self {
        Self { pages, ..Self::default() }
    }

    /// Adds the extents that one page describes.
    pub fn add(&mut self, page: &[u8], map: &ExtentMap, links: &mut Links, format: &SpaceFormat) {
        for extent in xdes::descriptors(page, format) {
            let owned = matches!(extent.state, ExtentState::Segment | ExtentState::SegmentFrag);
            self.states.push(extent.state);
            self.owners.push(if owned { extent.owner } else { 0 });
            links.push((Link::of(extent.node.prev, format), Link::of(extent.node.next, format)));
        }
        self.free.extend_from_slice(map.free_words());
    }

    /// Adds the extents of a descriptor page that cannot be read.
    pub fn add_unknown(&mut self, first: u32, size: u32, links: &mut Links) {
        for _ in 0..size.checked_div(self.pages).unwrap_or(0) {
            self.states.push(ExtentState::NotInitialised);
            self.owners.push(0);
            links.push((Link::End, Link::End));
        }
        self.free.resize(self.free.len() + size as usize / 64, 0);
        self.unknown.push((first, first.saturating_add(size)));
    }

    /// Marks every page as unknown.
    pub fn forget(&mut self) {
        self.unknown.push((0, u32::MAX));
    }

    /// Sorts the owned extents by owner, once all are there.
    pub fn sort(&mut self) {
        let owners = &self.owners;
        self.by_owner = (0..owners.len() as u32).filter(|extent| owners.get(*extent as usize) != Some(&0)).collect();
        self.by_owner.sort_by_key(|extent| owners.get(*extent as usize));
    }

    pub fn len(&self) -> u32 {
        self.states.len() as u32
    }

    pub fn is_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Whether the page's descriptor was readable, or never needed.
    pub fn knows(&self, page_no: u32) -> bool {
        let after = self.unknown.partition_point(|(from, _)| *from <= page_no);
        let before = after.checked_sub(1).and_then(|at| self.unknown.get(at));
        before.is_none_or(|(_, to)| page_no >= *to)
    }

    pub fn state(&self, extent: u32) -> Option<ExtentState> {
        self.states.get(extent as usize).copied()
    }

    /// The segment that owns the extent.
    pub fn owner(&self, extent: u32) -> Option<u64> {
        self.owners.get(extent as usize).copied().filter(|owner| *owner != 0)
    }

    /// The extent of a page.
    pub fn of(&self, page_no: u32) -> u32 {
        page_no.checked_div(self.pages).unwrap_or(0)
    }

    /// The first page of an extent.
    pub fn first(&self, extent: u32) -> u32 {
        extent.saturating_mul(self.pages)
    }

    /// The pages of an extent.
    pub fn range(&self, extent: u32) -> std::ops::Range<u32> {
        self.first(extent)..self.first(extent).saturating_add(self.pages)
    }

    /// Used pages of an extent.
    pub fn used(&self, extent: u32) -> u32 {
        let words = self.pages as usize / 64;
        let words = self.free.iter().skip(extent as usize * words).take(words);
        words.map(|word| word.count_zeros()).sum()
    }

    /// Whether the descriptors mark the page as free; `None` if none covers it.
    pub fn is_free(&self, page_no: u32) -> Option<bool> {
        Some(self.free.get(page_no as usize / 64)? >> (page_no % 64) & 1 == 1)
    }

    /// The extents of a segment, ascending.
    pub fn of_owner(&self, owner: u64) -> impl Iterator<Item = u32> + '_ {
        let owner_of = |extent: &u32| self.owners.get(*extent as usize).copied().unwrap_or(0);
        let from = self.by_owner.partition_point(|extent| owner_of(extent) < owner);
        let rest = self.by_owner.get(from..).unwrap_or(&[]);
        rest.iter().copied().take_while(move |extent| owner_of(extent) == owner)
    }

    /// The last extent with an owner.
    pub fn last_owned(&self) -> Option<u32> {
        self.owners.iter().rposition(|owner| *owner != 0).map(|extent| extent as u32)
    }

    /// The page of an extent's descriptor, and its byte offset.
    pub fn place(&self, extent: u32, format: &SpaceFormat) -> (u32, usize) {
        let each = format.physical().get();
        let number = (self.first(extent) % each).checked_div(self.pages).unwrap_or(0);
        (self.first(extent) / each * each, XDES_ARR_OFFSET + number as usize * xdes_size(format.logical()))
    }
}
