//! Page allocation as InnoDB does it: extents of 64 pages, which the tablespace gives to segments, and the pages of segments.
//!
//! ```text
//! a page for a segment: the hint, if it is free in an extent of the segment
//!                       else a new extent, if less than an eighth of the segment's pages is free
//!                       else a free page beside the hint, else in the first extent that has one
//!                       the first 32 pages of a segment come one by one, from extents that are shared
//! ```
//!
//! (`fsp0fsp.cc` of MySQL: `fseg_alloc_free_page_low`, `fseg_free_page_low`, `fsp_fill_free_list`.) A page that is freed can be taken again,
//! and an extent without a used page goes back to the tablespace. One difference: MySQL 8.0 lends the extents that hold pages of extent
//! descriptors to segments, one in 256; here they stay shared, as in other versions.

/// Pages of an extent.
pub(super) const EXTENT: u32 = 64;
/// Pages that a segment gets one by one.
pub(super) const FRAGMENTS: usize = 32;
/// A segment takes new extents while less than this part of its pages is free.
const RESERVE_PART: u64 = 8;
/// Extents that get a descriptor at a time, and by which a larger file grows.
const EXTENTS_AHEAD: u32 = 4;
/// A file with fewer extents grows by one.
const SMALL: u32 = 32;
/// Pages described by one page of extent descriptors, and bytes of a page.
pub(super) const PAGE: u32 = 16384;

/// The segments of the tablespace. Their ids are their places here, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The dictionary information: all its pages but the leaves, and the leaves.
    SdiTop,
    SdiLeaves,
    /// The table: the same.
    Top,
    Leaves,
}

/// What an extent is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// Its pages are taken one by one.
    Shared,
    Segment(Owner),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub state: State,
    /// One bit for each page, lowest first.
    pub used: u64,
}

/// Extents of one segment, in the order of its lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    pub fragments: Vec<Option<u32>>,
    pub free: Vec<u32>,
    pub not_full: Vec<u32>,
    pub full: Vec<u32>,
    /// Used pages in the extents of `not_full`.
    pub not_full_used: u32,
}

impl Segment {
    /// Pages that belong to it, and those that are used.
    fn pages(&self) -> (u64, u64) {
        let fragments = self.fragments.iter().flatten().count() as u64;
        let extents = (self.free.len() + self.not_full.len() + self.full.len()) as u64;
        let used = self.full.len() as u64 * u64::from(EXTENT) + u64::from(self.not_full_used);
        (fragments + extents * u64::from(EXTENT), fragments + used)
    }
}

/// The tablespace.
#[derive(Clone, Debug)]
pub(super) struct Extents {
    /// Pages of the file.
    pub size: u32,
    /// Those with a descriptor: all below the free limit.
    pub extents: Vec<Extent>,
    pub free: Vec<u32>,
    pub shared: Vec<u32>,
    pub shared_full: Vec<u32>,
    /// Used pages in the extents of `shared`.
    pub shared_used: u32,
    pub segments: [Segment; 4],
}

fn take_off(list: &mut Vec<u32>, extent: u32) {
    if let Some(at) = list.iter().position(|other| *other == extent) {
        list.remove(at);
    }
}

/// The first free page of an extent at or after `hint`, or else of the whole extent.
fn free_bit(used: u64, hint: u32) -> Option<u32> {
    let from = !used & (u64::MAX << (hint % EXTENT));
    let free = if from == 0 { !used } else { from };
    (free != 0).then(|| free.trailing_zeros())
}

impl Extents {
    /// An empty tablespace: its own pages are used, nothing else.
    pub(super) fn new() -> Self {
        let segment = || Segment { fragments: vec![None; FRAGMENTS], ..Segment::default() };
        let mut space = Self {
            size: EXTENT,
            extents: Vec::new(),
            free: Vec::new(),
            shared: Vec::new(),
            shared_full: Vec::new(),
            shared_used: 0,
            segments: [segment(), segment(), segment(), segment()],
        };
        space.describe();
        space
    }

    pub(super) fn is_used(&self, page_no: u32) -> bool {
        self.extent(page_no / EXTENT).is_some_and(|extent| extent.used & (1 << (page_no % EXTENT)) != 0)
    }

    fn extent(&self, number: u32) -> Option<&Extent> {
        self.extents.get(number as usize)
    }

    fn of(&mut self, owner: Owner) -> &mut Segment {
        let [sdi_top, sdi_leaves, top, leaves] = &mut self.segments;
        match owner {
            Owner::SdiTop => sdi_top,
            Owner::SdiLeaves => sdi_leaves,
            Owner::Top => top,
            Owner::Leaves => leaves,
        }
    }

    /// Gives the extent behind the last one a descriptor; the file grows if it has to. Returns whether the extent is free.
    fn describe(&mut self) -> bool {
        let number = self.extents.len() as u32;
        if (number + 1) * EXTENT > self.size {
            self.size += EXTENT * if self.size < SMALL * EXTENT { 1 } else { EXTENTS_AHEAD };
        }
        let holds_descriptors = (number * EXTENT).is_multiple_of(PAGE);
        if holds_descriptors {
            // The page of descriptors, and the bitmap page after it.
            self.extents.push(Extent { state: State::Shared, used: 0b11 });
            self.shared.push(number);
            self.shared_used += 2;
        } else {
            self.extents.push(Extent { state: State::Free, used: 0 });
            self.free.push(number);
        }
        !holds_descriptors
    }

    /// Takes a free extent: the hinted one, or the first.
    fn take_extent(&mut self, hint: Option<u32>, state: State) -> u32 {
        if self.free.is_empty() {
            let mut added = 0;
            // As many as the file has room for, at least one.
            while added == 0 || added < EXTENTS_AHEAD && (self.extents.len() as u32 + 1) * EXTENT <= self.size {
                added += u32::from(self.describe());
            }
        }
        let hinted = hint.filter(|hint| self.free.contains(hint));
        let number = hinted.or(self.free.first().copied()).unwrap_or(0);
        take_off(&mut self.free, number);
        if let Some(extent) = self.extents.get_mut(number as usize) {
            extent.state = state;
        }
        number
    }

    /// A new extent for a segment, put on its list of free ones.
    fn grow(&mut self, owner: Owner, hint: Option<u32>) -> u32 {
        let number = self.take_extent(hint, State::Segment(owner));
        self.of(owner).free.push(number);
        number
    }

    /// A page for a segment, near `hint`. With `up`, the caller goes through the file in ascending order.
    pub(super) fn allocate(&mut self, owner: Owner, hint: u32, up: bool) -> u32 {
        let hint = if ((hint / EXTENT) as usize) < self.extents.len() { hint } else { 0 };
        let number = hint / EXTENT;
        let (state, used) = self.extent(number).map_or((State::Free, 0), |extent| (extent.state, extent.used));
        let is_own = state == State::Segment(owner);
        let (reserved, taken) = self.of(owner).pages();
        let wants_extent = reserved - taken < reserved / RESERVE_PART && taken >= FRAGMENTS as u64;
        let page_no = if is_own && !self.is_used(hint) {
            hint
        } else if state == State::Free && wants_extent {
            self.grow(owner, Some(number));
            hint
        } else if up && wants_extent {
            self.next_extent(owner) * EXTENT
        } else if let Some(bit) = free_bit(used, hint).filter(|_| is_own) {
            number * EXTENT + bit
        } else if reserved > taken {
            let own = self.of(owner);
            let first = own.not_full.first().or(own.free.first()).copied().unwrap_or(0);
            first * EXTENT + self.extent(first).and_then(|extent| free_bit(extent.used, 0)).unwrap_or(0)
        } else if taken < FRAGMENTS as u64 {
            return self.allocate_fragment(owner, hint);
        } else {
            self.next_extent(owner) * EXTENT
        };
        self.mark(owner, page_no);
        page_no
    }

    /// The first extent of the segment without a used page, or a new one.
    fn next_extent(&mut self, owner: Owner) -> u32 {
        match self.of(owner).free.first() {
            Some(first) => *first,
            None => self.grow(owner, None),
        }
    }

    /// Marks a free page in an extent of the segment as used.
    fn mark(&mut self, owner: Owner, page_no: u32) {
        let number = page_no / EXTENT;
        let Some(extent) = self.extents.get_mut(number as usize) else { return };
        let was_empty = extent.used == 0;
        extent.used |= 1 << (page_no % EXTENT);
        let is_full = extent.used == u64::MAX;
        let own = self.of(owner);
        if was_empty {
            take_off(&mut own.free, number);
            own.not_full.push(number);
        }
        own.not_full_used += 1;
        if is_full {
            take_off(&mut own.not_full, number);
            own.full.push(number);
            own.not_full_used -= EXTENT;
        }
    }

    /// A page from an extent that is shared.
    fn allocate_fragment(&mut self, owner: Owner, hint: u32) -> u32 {
        let hinted = Some(hint / EXTENT).filter(|number| self.shared.contains(number));
        let (number, from) = match hinted.or(self.shared.first().copied()) {
            Some(number) if Some(number) == hinted => (number, hint),
            Some(number) => (number, 0),
            None => {
                let number = self.take_extent(None, State::Shared);
                self.shared.push(number);
                (number, 0)
            }
        };
        let bit = self.extent(number).and_then(|extent| free_bit(extent.used, from)).unwrap_or(0);
        if let Some(extent) = self.extents.get_mut(number as usize) {
            extent.used |= 1 << bit;
            self.shared_used += 1;
            if extent.used == u64::MAX {
                take_off(&mut self.shared, number);
                self.shared_full.push(number);
                self.shared_used -= EXTENT;
            }
        }
        let page_no = number * EXTENT + bit;
        if let Some(slot) = self.of(owner).fragments.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(page_no);
        }
        page_no
    }

    /// Takes the next page of a shared extent for the tablespace itself.
    pub(super) fn allocate_own(&mut self) -> u32 {
        let bit = self.extent(0).and_then(|extent| free_bit(extent.used, 0)).unwrap_or(0);
        if let Some(extent) = self.extents.get_mut(0) {
            extent.used |= 1 << bit;
            self.shared_used += 1;
        }
        bit
    }

    /// Frees a page of a segment.
    pub(super) fn free(&mut self, owner: Owner, page_no: u32) {
        let number = page_no / EXTENT;
        let Some(extent) = self.extents.get_mut(number as usize) else { return };
        let (state, was_full) = (extent.state, extent.used == u64::MAX);
        extent.used &= !(1 << (page_no % EXTENT));
        let is_empty = extent.used == 0;
        if is_empty {
            extent.state = State::Free;
        }
        if state == State::Shared {
            if was_full {
                take_off(&mut self.shared_full, number);
                self.shared.push(number);
                self.shared_used += EXTENT;
            }
            self.shared_used -= 1;
            if is_empty {
                take_off(&mut self.shared, number);
            }
            if let Some(slot) = self.of(owner).fragments.iter_mut().find(|slot| **slot == Some(page_no)) {
                *slot = None;
            }
        } else {
            let own = self.of(owner);
            if was_full {
                take_off(&mut own.full, number);
                own.not_full.push(number);
                own.not_full_used += EXTENT;
            }
            own.not_full_used -= 1;
            if is_empty {
                take_off(&mut own.not_full, number);
            }
        }
        if is_empty {
            self.free.push(number);
        }
    }
}
