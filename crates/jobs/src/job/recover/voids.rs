//! From where on the redo of a page counts.
//!
//! A page that is freed is not written any more, while the checkpoint moves on: its file may hold what the page was long before, or
//! nothing. Redo from before a page was freed or made anew for the last time therefore need not fit what the file holds, and must not
//! be applied, even where the page is freed only in a later round.

use std::collections::HashMap;
use std::mem::size_of;

use format::{Lsn, PageId};

/// Bytes that a page takes here: what the map holds and, until that grows again, about as much that is empty.
const PLACE_SIZE: usize = 2 * (size_of::<(PageId, Lsn)>() + 1);

/// The mini-transactions that freed pages, or made them anew, for the last time.
#[derive(Debug, Default)]
pub(super) struct Voids(HashMap<PageId, Lsn>);

impl Voids {
    /// The mini-transaction that began at `start` voids the page.
    pub fn add(&mut self, id: PageId, start: Lsn) {
        self.0.insert(id, start);
    }

    /// Whether redo of the mini-transaction that began at `start` is of use for the page.
    pub fn spare(&self, id: PageId, start: Lsn) -> bool {
        self.0.get(&id).is_none_or(|&from| start >= from)
    }

    /// Bytes that are in use.
    pub fn memory(&self) -> usize {
        self.0.capacity() * PLACE_SIZE
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
}
