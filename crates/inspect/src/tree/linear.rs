//! Linear read-ahead as the servers do it, for comparison: predicts the next pages from those already read.
//!
//! InnoDB looks at areas of 64 pages, aligned in the tablespace. When the page at an area's border is accessed for the first time and at
//! least `innodb_read_ahead_threshold` (56) of the area's pages were accessed in one direction, the page's link to its neighbour in that
//! direction (`FIL_PAGE_NEXT` or `FIL_PAGE_PREV`) names the area to read ahead asynchronously, as a whole; but only if that neighbour is at
//! a border of its own area. (MySQL manual, "Configuring InnoDB Buffer Pool Prefetching"; `buf0rea.cc` of MySQL and MariaDB.)
//!
//! This model is kinder than a server in one way: of a predicted area it reads only the pages that the scan reaches next.

use std::collections::HashMap;
use std::ops::Range;

use flow::ReadAhead;

/// Pages tracked together and read ahead together.
pub const AREA: u32 = 64;
/// Default of `innodb_read_ahead_threshold`.
const THRESHOLD: u32 = 56;

/// The policy, with buffer space for an area of the largest pages.
pub const LINEAR: ReadAhead = ReadAhead::Linear { bytes: (AREA as u64) << 16 };

/// Accesses to one area so far.
#[derive(Debug, Default)]
struct Area {
    last: Option<u32>,
    ascending: u32,
    descending: u32,
}

/// Follows a scan and predicts pages.
#[derive(Debug, Default)]
pub struct Linear {
    areas: HashMap<u32, Area>,
    guessed: Range<u32>,
}

impl Linear {
    /// A model that has seen nothing, if `ahead` asks for one.
    #[must_use]
    pub fn of(ahead: ReadAhead) -> Option<Self> {
        matches!(ahead, ReadAhead::Linear { .. }).then(Self::default)
    }

    /// Whether the page is in a predicted area.
    #[must_use]
    pub fn has_guessed(&self, page_no: u32) -> bool {
        self.guessed.contains(&page_no)
    }

    /// Notes that the scan accesses a page with these neighbours.
    pub fn accessed(&mut self, page_no: u32, prev: Option<u32>, next: Option<u32>) {
        let first = page_no / AREA * AREA;
        let area = self.areas.entry(first).or_default();
        // The first access to an area counts for both directions.
        area.ascending += u32::from(area.last.is_none_or(|last| page_no > last));
        area.descending += u32::from(area.last.is_none_or(|last| page_no < last));
        area.last = Some(page_no);
        let neighbour = if page_no == first + (AREA - 1) && area.ascending >= THRESHOLD {
            next
        } else if page_no == first && area.descending >= THRESHOLD {
            prev
        } else {
            None
        };
        if let Some(neighbour) = neighbour.filter(|neighbour| matches!(neighbour % AREA, 0 | 63)) {
            let first = neighbour / AREA * AREA;
            self.guessed = first..first.saturating_add(AREA);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The prediction after a scan over `pages`, forwards if they ascend, else backwards.
    fn guessed(pages: &[u32]) -> Range<u32> {
        let mut linear = Linear::of(LINEAR).expect("linear");
        for (at, page) in pages.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| pages.get(at)).copied();
            let after = pages.get(at + 1).copied();
            let (prev, next) = if pages.is_sorted() { (before, after) } else { (after, before) };
            linear.accessed(*page, prev, next);
        }
        linear.guessed
    }

    #[test]
    fn an_area_read_in_order_is_followed_by_the_next_one() {
        assert_eq!(guessed(&(64..129).collect::<Vec<_>>()), 128..192);
        let all_but_eight: Vec<u32> = (72..128).chain([640]).collect();
        assert_eq!(guessed(&all_but_eight), 640..704, "where the link leads, not what comes next in the file");
        let down: Vec<u32> = (128..192).rev().chain([127]).collect();
        assert_eq!(guessed(&down), 64..128);
    }

    #[test]
    fn too_few_pages_or_no_order_or_no_border_is_no_guess() {
        assert_eq!(guessed(&(73..129).collect::<Vec<_>>()), 0..0, "55 pages");
        assert_eq!(guessed(&(64..128).chain([200]).collect::<Vec<_>>()), 0..0, "the neighbour lies inside its area");
        let scattered: Vec<u32> = (64..126).map(|page| page ^ 1).chain([126, 127]).collect();
        let mut linear = Linear::default();
        scattered.iter().for_each(|page| linear.accessed(*page, Some(63), Some(128)));
        assert_eq!(linear.guessed, 0..0, "every other page is out of order");
        assert!(Linear::of(ReadAhead::LOGICAL).is_none());
    }
}
