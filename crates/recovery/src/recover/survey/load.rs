//! The amount of redo per group of pages, to divide the pages into parts whose redo fits in memory.
//!
//! Reading and writing the pages a second time costs far more than reading the log once more, so each page should get all its redo at once.

use std::cmp::Ordering;
use std::mem::{size_of, take};
use std::ops::Range;

use foldhash::HashMap;
use format::{PageId, SpaceId};
use redo::record::Effect;

use crate::redo_batch::RedoBatch;

/// Pages counted together, as a power of two.
const GROUP_BITS: u32 = 6;
/// Bytes per group: the map entry, and about as much empty space until the map grows again.
const PLACE_SIZE: usize = 2 * (size_of::<(GroupId, Group)>() + 1);

/// A group is worth reading as a whole if this many of its pages must be read: then those are 64 KiB apart at most, where the pass over the
/// pages too reads what is between.
const DENSE: u32 = 16;

/// A group of nearby pages: the tablespace, and the page number without its low bits.
pub(in crate::recover) type GroupId = (SpaceId, u32);

/// The numbers of the pages of a group.
pub(in crate::recover) const fn pages_of(group: GroupId) -> Range<u32> {
    let first = group.1 << GROUP_BITS;
    first..first.saturating_add(1 << GROUP_BITS)
}

/// The group of a page, and the page's bit in the group.
const fn place_of(id: PageId) -> (GroupId, u64) {
    ((id.space, id.page_no.0 >> GROUP_BITS), 1 << (id.page_no.0 % (1 << GROUP_BITS)))
}

// The pages that a batch keeps together always belong to one group.
const _: () = assert!(RedoBatch::GROUP_PAGES.is_power_of_two() && RedoBatch::GROUP_PAGES <= 1 << GROUP_BITS);

/// The redo of a group of pages.
#[derive(Debug, Default, Clone, Copy)]
struct Group {
    /// Memory it takes in bytes, without the cost of the pages.
    bytes: u64,
    /// One bit per page with redo.
    pages: u64,
    /// One bit per page whose last redo frees it, or that was later truncated away.
    freed: u64,
    /// One bit per page whose first redo initializes or frees it: its old content does not matter.
    made: u64,
}

impl Group {
    fn add(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.made |= more.made & !self.pages;
        self.pages |= more.pages;
        // Any record that does not free the page puts it back in use.
        self.freed = (self.freed & !more.pages) | more.freed;
    }

    const fn is_dense(self) -> bool {
        (self.pages & !self.made).count_ones() >= DENSE
    }

    fn memory(self) -> u64 {
        let together = (1 << RedoBatch::GROUP_PAGES) - 1;
        let firsts = (0..1 << GROUP_BITS).step_by(RedoBatch::GROUP_PAGES as usize);
        let groups = firsts.filter(|first| self.pages >> first & together != 0).count();
        self.bytes + (groups * RedoBatch::GROUP_COST) as u64
    }
}

/// The amount of redo by page group.
#[derive(Debug, Default)]
pub(in crate::recover) struct PageLoad {
    groups: HashMap<GroupId, Group>,
    /// The group of the last records, not yet in the map: a mini-transaction mostly changes the same pages as the previous one, and this
    /// saves the lookup.
    last: Option<(GroupId, Group)>,
    /// Groups that became dense and were not taken yet.
    dense: Vec<GroupId>,
}

/// A range of pages, ordered by tablespace and page number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::recover) struct PageRange {
    from: PageId,
    /// `None`: through the last page.
    to: Option<PageId>,
}

impl PageRange {
    pub fn has(self, id: PageId) -> bool {
        id >= self.from && self.to.is_none_or(|to| id < to)
    }
}

impl PageLoad {
    /// Counts a record of `len` bytes for the page; `goes_on` if it continues the mini-transaction's previous one.
    pub fn add(&mut self, id: PageId, effect: Effect, len: usize, goes_on: bool) {
        let (group, page) = place_of(id);
        let cost = if goes_on { 0 } else { RedoBatch::ENTRY_COST };
        let freed = if effect == Effect::Frees { page } else { 0 };
        let made = if effect.voids_page() { page } else { 0 };
        let more = Group { bytes: (len + cost) as u64, pages: page, freed, made };
        match &mut self.last {
            Some((last, sum)) if *last == group => sum.add(more),
            last => {
                let before = last.replace((group, more));
                self.put(before);
            }
        }
        if effect == Effect::Trims {
            self.trim(id);
        }
    }

    fn put(&mut self, counted: Option<(GroupId, Group)>) {
        if let Some((group, sum)) = counted {
            let all = self.groups.entry(group).or_default();
            let was_dense = all.is_dense();
            all.add(sum);
            if !was_dense && all.is_dense() {
                self.dense.push(group);
            }
        }
    }

    /// The groups that have become worth reading as a whole since the last call, each once.
    pub fn take_dense(&mut self) -> Vec<GroupId> {
        take(&mut self.dense)
    }

    /// The tablespace is truncated to the pages before this one; an undo tablespace is recreated and loses everything.
    fn trim(&mut self, first: PageId) {
        let last = self.last.take();
        self.put(last);
        let from = if first.space == SpaceId::SYSTEM { first.page_no.0 } else { 0 };
        let (border, page) = (from >> GROUP_BITS, place_of(PageId::new(first.space.0, from)).1);
        for ((_, number), group) in self.groups.iter_mut().filter(|((space, _), _)| *space == first.space) {
            match (*number).cmp(&border) {
                Ordering::Less => {}
                Ordering::Equal => group.freed |= group.pages & !(page - 1),
                Ordering::Greater => group.freed = group.pages,
            }
        }
    }

    fn group(&self, id: GroupId) -> Group {
        let mut group = self.groups.get(&id).copied().unwrap_or_default();
        self.last.iter().filter(|(last, _)| *last == id).for_each(|(_, more)| group.add(*more));
        group
    }

    /// The tablespaces with redo, with repeats.
    pub fn spaces(&self) -> impl Iterator<Item = SpaceId> {
        self.groups.keys().map(|(space, _)| *space).chain(self.last.map(|((space, _), _)| space))
    }

    /// Whether the page has redo.
    pub fn has(&self, id: PageId) -> bool {
        let (group, page) = place_of(id);
        self.group(group).pages & page != 0
    }

    /// The pages with redo that are not freed at its end, by tablespace and number.
    pub fn in_use(&self) -> impl Iterator<Item = PageId> {
        let mut groups: Vec<GroupId> = self.groups.keys().copied().chain(self.last.map(|(id, _)| id)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.into_iter().flat_map(|(space, number)| {
            let group = self.group((space, number));
            let is_in_use = move |bit: &u32| (group.pages & !group.freed) >> bit & 1 == 1;
            let page = move |bit| PageId::new(space.0, (number << GROUP_BITS) + bit);
            (0..1 << GROUP_BITS).filter(is_in_use).map(page)
        })
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.groups.capacity() * PLACE_SIZE
    }

    /// Divides the pages with redo into parts of at most `memory` bytes of redo each, unless a single group has more. Returns a single part
    /// if there would be more than `parts_max`: then the log is applied in rounds.
    pub fn parts(&self, memory: usize, parts_max: usize) -> Vec<PageRange> {
        let mut groups: Vec<_> = self.groups.iter().map(|(id, group)| (*id, group.memory())).collect();
        groups.extend(self.last.map(|(id, group)| (id, group.memory())));
        groups.sort_unstable();
        let all = PageRange { from: PageId::new(0, 0), to: None };
        let mut parts = vec![all];
        let mut sum = 0;
        let full = RedoBatch::room_in(memory) as u64;
        for ((space, number), bytes) in groups {
            if sum > 0 && sum + bytes > full {
                let border = PageId::new(space.0, number << GROUP_BITS);
                if let Some(last) = parts.last_mut().filter(|last| last.from != border) {
                    last.to = Some(border);
                    parts.push(PageRange { from: border, to: None });
                    sum = 0;
                }
            }
            sum += bytes;
        }
        if parts.len() > parts_max { vec![all] } else { parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_every_page_once_and_fit_into_memory() {
        let mut load = PageLoad::default();
        let pages: Vec<PageId> = (0..5000).map(|number| PageId::new(number % 3, number * 37)).collect();
        pages.iter().for_each(|id| load.add(*id, Effect::Changes, 10_000, false));
        let memory = 24 << 20;
        let parts = load.parts(memory, usize::MAX);
        assert!(parts.len() > 1);
        for part in &parts {
            let bytes: usize = pages
                .iter()
                .filter(|id| part.has(**id))
                .map(|_| 10_000 + RedoBatch::ENTRY_COST + RedoBatch::GROUP_COST)
                .sum();
            assert!(bytes > 0 && bytes <= memory, "{part:?}: {bytes}");
        }
        for id in pages.iter().chain([&PageId::new(0, 0), &PageId::new(9, 9)]) {
            assert_eq!(parts.iter().filter(|part| part.has(*id)).count(), 1, "{id:?}");
        }
        let all = PageLoad::default().parts(0, 16);
        assert_eq!(load.parts(usize::MAX, 16), all, "one part has it all");
        assert_eq!(load.parts(1 << 20, 16), all, "nobody reads a log so often");
        assert!(load.parts(1 << 20, usize::MAX).len() > 16, "unless nothing else is possible");
        assert!(load.memory() > 0);
    }

    #[test]
    fn pages_are_in_use_unless_the_log_frees_them_last_or_cuts_them_off() {
        let id = |page_no| PageId::new(3, page_no);
        let mut load = PageLoad::default();
        let records = [(5, Effect::Changes), (6, Effect::Frees), (200, Effect::Changes), (7, Effect::Frees)];
        let later = [(7, Effect::Inits), (8, Effect::Inits), (300, Effect::Changes), (8, Effect::Frees)];
        records.into_iter().chain(later).for_each(|(page_no, effect)| load.add(id(page_no), effect, 1, false));
        let in_use = |load: &PageLoad| load.in_use().collect::<Vec<_>>();
        assert_eq!(in_use(&load), [5, 7, 200, 300].map(id));
        assert!([5, 6, 7, 8].iter().all(|page_no| load.has(id(*page_no))) && !load.has(id(9)));
        // An undo tablespace is recreated.
        load.add(id(64), Effect::Trims, 1, false);
        load.add(id(200), Effect::Inits, 1, false);
        assert_eq!(in_use(&load), [id(200)]);
        // The system tablespace keeps the pages before this one.
        let system = |page_no| PageId::new(SpaceId::SYSTEM.0, page_no);
        let mut load = PageLoad::default();
        [1, 70, 99, 100, 300].iter().for_each(|page_no| load.add(system(*page_no), Effect::Changes, 1, false));
        load.add(system(100), Effect::Trims, 1, false);
        assert_eq!(in_use(&load), [1, 70, 99].map(system));
    }

    #[test]
    fn a_group_is_dense_once_a_quarter_of_its_pages_must_be_read() {
        let mut load = PageLoad::default();
        let add = |load: &mut PageLoad, page_no, effect| load.add(PageId::new(3, page_no), effect, 1, false);
        // Pages that the log makes need not be read, whatever follows; one that it changes first must be.
        for page_no in 0..40 {
            add(&mut load, page_no, Effect::Inits);
            add(&mut load, page_no, Effect::Changes);
        }
        (48..63).for_each(|page_no| add(&mut load, page_no, Effect::Changes));
        add(&mut load, 50, Effect::Inits);
        add(&mut load, 64, Effect::Changes);
        assert!(load.take_dense().is_empty());
        add(&mut load, 63, Effect::Changes);
        (128..192).for_each(|page_no| add(&mut load, page_no, Effect::Changes));
        add(&mut load, 64, Effect::Changes);
        assert_eq!(load.take_dense(), [(SpaceId(3), 0), (SpaceId(3), 2)]);
        (0..64).for_each(|page_no| add(&mut load, page_no, Effect::Changes));
        add(&mut load, 64, Effect::Changes);
        assert!(load.take_dense().is_empty(), "only once");
        assert_eq!(pages_of((SpaceId(3), 2)), 128..192);
    }
}
