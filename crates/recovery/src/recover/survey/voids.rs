//! The point in the log from which the redo of a page counts.
//!
//! A server no longer writes a freed page while the checkpoint moves on: the file may hold a much older version, or nothing. So redo from
//! before a page was last freed or initialised need not fit the file's content and must not be applied, even if the page is freed only in a
//! later round.

use std::mem::size_of;

use foldhash::HashMap;
use format::{Lsn, PageId, PageNo, SpaceId};

/// Bytes per page: the map entry, and about as much empty space until the map grows again.
const PLACE_SIZE: usize = 2 * (size_of::<(PageId, Lsn)>() + 1);

/// The mini-transactions that made the previous content of pages irrelevant.
#[derive(Debug, Default)]
pub(in crate::recover) struct Voids {
    /// The last one that freed or initialised each page.
    pages: HashMap<PageId, Lsn>,
    /// Those that truncated a tablespace, each with the first page that was cut off.
    trims: HashMap<SpaceId, Vec<(Lsn, PageNo)>>,
}

impl Voids {
    /// The mini-transaction that began at `start` voids the page.
    pub fn add(&mut self, id: PageId, start: Lsn) {
        self.pages.insert(id, start);
    }

    /// The mini-transaction that began at `start` truncates a tablespace to `pages` pages; an undo tablespace is then recreated.
    pub fn trim(&mut self, id: PageId, start: Lsn) {
        let from = if id.space == SpaceId::SYSTEM { id.page_no } else { PageNo(0) };
        let trims = self.trims.entry(id.space).or_default();
        // A later truncation to as many pages or fewer says all that an earlier one did.
        trims.retain(|(_, first)| *first < from);
        trims.push((start, from));
    }

    /// Whether the tablespace is truncated.
    pub fn is_trimmed(&self, space: SpaceId) -> bool {
        self.trims.contains_key(&space)
    }

    /// Whether redo of the mini-transaction that began at `start` still counts for the page.
    pub fn spare(&self, id: PageId, start: Lsn) -> bool {
        self.pages.get(&id).is_none_or(|&from| start >= from)
            && self.trims.get(&id.space).into_iter().flatten().all(|&(from, first)| start >= from || id.page_no < first)
    }

    /// The pages that were freed or initialised.
    pub fn pages(&self) -> impl Iterator<Item = PageId> {
        self.pages.keys().copied()
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.pages.capacity() * PLACE_SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redo_counts_from_the_last_mini_transaction_on_that_voids_the_page() {
        let mut voids = Voids::default();
        let (page, other) = (PageId::new(1, 7), PageId::new(1, 8));
        voids.add(page, Lsn(100));
        voids.add(page, Lsn(200));
        assert!(!voids.spare(page, Lsn(150)));
        assert!(voids.spare(page, Lsn(200)) && voids.spare(page, Lsn(201)) && voids.spare(other, Lsn(1)));
        assert!(voids.memory() > 0);
    }

    #[test]
    fn of_a_tablespace_that_is_cut_down_redo_from_before_counts_only_for_what_is_left() {
        let mut voids = Voids::default();
        voids.trim(PageId::new(0, 768), Lsn(100));
        voids.trim(PageId::new(3, 640), Lsn(200));
        assert!(voids.is_trimmed(SpaceId(0)) && voids.is_trimmed(SpaceId(3)) && !voids.is_trimmed(SpaceId(1)));
        assert!(voids.spare(PageId::new(0, 767), Lsn(50)) && voids.spare(PageId::new(0, 768), Lsn(100)));
        assert!(!voids.spare(PageId::new(0, 768), Lsn(99)), "the page was made again later, if at all");
        assert!(!voids.spare(PageId::new(3, 1), Lsn(199)), "undo tablespaces are recreated");
        voids.trim(PageId::new(0, 900), Lsn(300));
        voids.trim(PageId::new(3, 640), Lsn(300));
        assert!(voids.spare(PageId::new(0, 800), Lsn(100)) && !voids.spare(PageId::new(0, 800), Lsn(99)));
        assert!(!voids.spare(PageId::new(0, 900), Lsn(299)) && !voids.spare(PageId::new(3, 1), Lsn(299)));
        assert_eq!((voids.trims[&SpaceId(0)].len(), voids.trims[&SpaceId(3)].len()), (2, 1));
    }
}
