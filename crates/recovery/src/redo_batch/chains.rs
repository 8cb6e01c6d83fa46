//! Each page's newest entry.
//!
//! A log revisits pages all over the tablespaces. Once the table outgrows the core's cache, every look-up costs one or two cache misses. So
//! a page takes 4 bytes, and neighbouring pages lie side by side: 100,000 pages of a table take half a megabyte. A map from page to entry
//! took eight times that, and looking pages up was half the work of gathering.

use std::mem::size_of;

use foldhash::{HashMap, HashMapExt};
use format::PageId;

use super::runs::Runs;

/// Index of an entry.
pub(super) type Index = u32;
pub(super) const NO_ENTRY: Index = Index::MAX;

/// Pages in a group: as many as fit in a cache line.
pub(super) const GROUP_PAGES: u32 = 16;
/// Groups added at a time.
const RUN_GROUPS: usize = 1 << 12;
/// The same in bytes.
pub(super) const RUN_COST: usize = RUN_GROUPS * size_of::<Group>();
/// Bytes per map entry: its content, and about as much empty space until the map grows again.
const PLACE_SIZE: usize = 2 * (size_of::<(GroupId, u32)>() + 1);
/// Bytes per group, however many of its pages have entries.
pub(super) const GROUP_COST: usize = size_of::<Group>() + PLACE_SIZE;
/// Flag in an entry's index: the page's old content need not be read. The bit is free: an entry has at least three bytes of records, and a
/// batch at most 4 GiB of them.
const VOID: u32 = 1 << 31;

/// The newest entry of each page in the group, with the flag.
type Group = [u32; GROUP_PAGES as usize];
/// The tablespace, and the page number without its low bits.
type GroupId = (u32, u32);

/// The newest entry of each page.
#[derive(Debug)]
pub(super) struct Chains {
    numbers: HashMap<GroupId, u32>,
    groups: Runs<Group>,
    /// The group looked up last: the next page is often in it too.
    last: Option<(GroupId, u32)>,
}

impl Default for Chains {
    fn default() -> Self {
        Self { numbers: HashMap::new(), groups: Runs::new(RUN_GROUPS), last: None }
    }
}

/// The group of a page, and the page's place in the group.
const fn place_of(id: PageId) -> (GroupId, usize) {
    ((id.space.0, id.page_no.0 / GROUP_PAGES), (id.page_no.0 % GROUP_PAGES) as usize)
}

impl Chains {
    /// Makes an entry the page's newest. Returns the previous one, or `NO_ENTRY` if the new one voids the page.
    pub fn put(&mut self, id: PageId, entry: Index, is_void: bool) -> Index {
        let (group, place) = place_of(id);
        let number = match self.last {
            Some((last, number)) if last == group => number,
            _ => self.number(group),
        };
        let slots = self.groups.get_mut(number as usize);
        let Some(slot) = slots.and_then(|slots| slots.get_mut(place)) else { return NO_ENTRY };
        if *slot == NO_ENTRY || is_void {
            *slot = if is_void { entry | VOID } else { entry };
            return NO_ENTRY;
        }
        let before = *slot;
        *slot = entry | (before & VOID);
        before & !VOID
    }

    /// The number of a group; adds the group if it is new.
    fn number(&mut self, group: GroupId) -> u32 {
        let groups = &mut self.groups;
        let number = *self.numbers.entry(group).or_insert_with(|| {
            let number = groups.reserve(1);
            groups.extend(&[[NO_ENTRY; GROUP_PAGES as usize]]);
            u32::try_from(number).unwrap_or(u32::MAX)
        });
        self.last = Some((group, number));
        number
    }

    /// The page's newest entry, and whether its old content need not be read.
    pub fn get(&self, id: PageId) -> (Index, bool) {
        let (group, place) = place_of(id);
        let number = self.numbers.get(&group);
        let slots = number.and_then(|&number| self.groups.get(number as usize, 1)?.first());
        match slots.and_then(|slots| slots.get(place)) {
            None | Some(&NO_ENTRY) => (NO_ENTRY, false),
            Some(slot) => (slot & !VOID, slot & VOID != 0),
        }
    }

    /// Forgets the entries of all pages that are not `is_kept`.
    pub fn retain(&mut self, is_kept: impl Fn(PageId) -> bool) {
        for (&group, &number) in &self.numbers {
            let slots = self.groups.get_mut(number as usize).into_iter().flatten();
            slots.zip(pages_of(group)).filter(|(_, id)| !is_kept(*id)).for_each(|(slot, _)| *slot = NO_ENTRY);
        }
    }

    /// The pages with entries, by tablespace and page number.
    pub fn ids(&self) -> Vec<PageId> {
        let mut groups: Vec<(GroupId, u32)> = self.numbers.iter().map(|(&group, &number)| (group, number)).collect();
        groups.sort_unstable();
        let slots = |number: u32| self.groups.get(number as usize, 1).and_then(<[Group]>::first).into_iter().flatten();
        let with_slots = groups.iter().flat_map(|&(group, number)| pages_of(group).zip(slots(number)));
        with_slots.filter(|(_, slot)| **slot != NO_ENTRY).map(|(id, _)| id).collect()
    }

    /// Bytes in use or kept for reuse.
    pub fn memory(&self) -> usize {
        self.groups.memory() + self.numbers.capacity() * PLACE_SIZE
    }

    /// Bytes in use.
    pub fn in_use(&self) -> usize {
        self.groups.in_use() + self.numbers.capacity() * PLACE_SIZE
    }

    /// Forgets everything but keeps the memory.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.groups.clear();
        self.last = None;
    }
}

fn pages_of((space, number): GroupId) -> impl Iterator<Item = PageId> {
    (0..GROUP_PAGES).map(move |page| PageId::new(space, number * GROUP_PAGES + page))
}
