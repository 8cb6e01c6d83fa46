//! A server's buffer pool, as far as it decides which pages are read ahead: which pages are in it, which of them were accessed and when,
//! which are young. No bytes, no I/O.
//!
//! ```text
//! a page is missing   take a frame, read; then random():  >= 13 pages of its area were accessed and are young -> the rest of the area
//! first access        accessed(); then linear():          all but 8 pages of its area were accessed in order  -> the next area
//! ```
//!
//! An area is 64 pages, aligned in the tablespace; in a pool of fewer than 1,056 pages it is a 32nd of the pool, rounded up to a power of two.
//! (`buf0rea.cc`, `buf0buf.ic` and `buf0lru.cc` of MySQL and MariaDB, whose defaults are used: `innodb_read_ahead_threshold` 56,
//! `innodb_old_blocks_pct` 37.)
//!
//! The model has no clock. A scan accesses each page once, which is too short for `innodb_old_blocks_time` (1 s), so its pages stay old. A
//! page that is accessed again counts as accessed after that time.

use std::collections::HashMap;
use std::ops::Range;

use super::lru::{Lru, OLD_RATIO, RATIO_DIV};

/// The largest area, pages.
const AREA_MAX: u32 = 64;
/// A pool has at least this many areas, roughly.
const AREAS_MIN: u32 = 32;
/// Pages of an area that need not have been accessed in order: 64 less `innodb_read_ahead_threshold`.
const OUT_OF_ORDER_MAX: u32 = 64 - 56;
/// Nothing is read ahead while more than this part of the pool waits for a read.
const PENDING_PART: usize = 2;
/// Distance from a multiple of the page size, in pages, of the change buffer's bitmaps, which are never read ahead.
const IBUF_BITMAP_OFFSET: u32 = 1;

/// A page in the pool.
#[derive(Clone, Copy, Debug)]
struct Frame {
    page_no: u32,
    is_loading: bool,
    /// Evictions from the pool before the page was last put at the head of the list; 0 if it never was.
    clock: u64,
    /// When it was first accessed, as a number that grows from access to access; 0: not yet.
    accessed: u64,
}

/// The pool.
#[derive(Debug)]
pub(super) struct Pool {
    capacity: usize,
    /// Pages of the tablespace.
    file_pages: u32,
    /// Bytes of a page on disk.
    page_size: u32,
    frames: Vec<Frame>,
    free: Vec<usize>,
    places: HashMap<u32, usize>,
    lru: Lru,
    /// Pages evicted so far.
    evicted: u64,
    accesses: u64,
    loading: usize,
}

impl Pool {
    /// An empty pool of `capacity` pages for a tablespace of `file_pages` pages of `page_size` bytes.
    pub(super) fn new(capacity: usize, file_pages: u32, page_size: u32) -> Self {
        Self {
            capacity: capacity.max(1),
            file_pages,
            page_size,
            frames: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            lru: Lru::new(),
            evicted: 0,
            accesses: 0,
            loading: 0,
        }
    }

    /// Pages that are judged together and read ahead together.
    pub(super) fn area(&self) -> u32 {
        let part = u32::try_from(self.capacity).unwrap_or(u32::MAX) / AREAS_MIN;
        part.max(1).checked_next_power_of_two().unwrap_or(AREA_MAX).min(AREA_MAX)
    }

    /// The frame of a page, and whether it still waits for its bytes; `None` if the page is not in the pool.
    pub(super) fn find(&self, page_no: u32) -> Option<(usize, bool)> {
        let place = *self.places.get(&page_no)?;
        Some((place, self.frames.get(place)?.is_loading))
    }

    /// Gives a missing page a frame, in which it waits for its bytes. Evicts another page if the pool is full; `None` if all of them wait.
    pub(super) fn take(&mut self, page_no: u32) -> Option<usize> {
        if self.places.len() >= self.capacity {
            let is_idle = |place: &usize| self.frames.get(*place).is_some_and(|frame| !frame.is_loading);
            let victim = self.lru.next_to_evict().find(is_idle)?;
            self.release(victim);
            self.evicted += 1;
        }
        let place = self.free.pop().unwrap_or(self.frames.len());
        let young = self.lru.add_old(place);
        let clock = if young { self.evicted } else { 0 };
        let frame = Frame { page_no, is_loading: true, clock, accessed: 0 };
        match self.frames.get_mut(place) {
            Some(old) => *old = frame,
            None => self.frames.push(frame),
        }
        self.places.insert(page_no, place);
        self.loading += 1;
        Some(place)
    }

    /// Notes that the bytes of a page came. Returns its frame.
    pub(super) fn loaded(&mut self, page_no: u32) -> Option<usize> {
        let place = *self.places.get(&page_no)?;
        let frame = self.frames.get_mut(place)?;
        self.loading -= usize::from(std::mem::take(&mut frame.is_loading));
        Some(place)
    }

    /// Notes that the bytes of a page could not be read.
    pub(super) fn failed(&mut self, page_no: u32) {
        if let Some(place) = self.loaded(page_no) {
            self.release(place);
        }
    }

    fn release(&mut self, place: usize) {
        self.lru.remove(place);
        if let Some(frame) = self.frames.get(place) {
            self.places.remove(&frame.page_no);
        }
        self.free.push(place);
    }

    /// Notes an access to a page. Returns whether it is the first since the page was read.
    pub(super) fn accessed(&mut self, page_no: u32) -> bool {
        let Some(&place) = self.places.get(&page_no) else { return false };
        self.accesses += 1;
        let Some(frame) = self.frames.get_mut(place) else { return false };
        let is_first = frame.accessed == 0;
        if is_first {
            frame.accessed = self.accesses;
        }
        let frame = *frame;
        // Before the first eviction nothing moves: there is room for all.
        let is_too_old = if self.lru.is_old(place) { !is_first } else { !self.is_young(&frame) };
        if self.evicted > 0 && is_too_old {
            self.lru.make_young(place);
            if let Some(frame) = self.frames.get_mut(place) {
                frame.clock = self.evicted;
            }
        }
        is_first
    }

    /// Whether a page is in no danger of being evicted soon, as the server guesses it: since the page came to the head of the list, less
    /// than a quarter of the young part's length was evicted.
    fn is_young(&self, frame: &Frame) -> bool {
        let quarter = self.capacity * (RATIO_DIV - OLD_RATIO) / (RATIO_DIV * 4);
        self.evicted < frame.clock + quarter as u64
    }

    fn area_of(&self, page_no: u32) -> Range<u32> {
        let first = page_no / self.area() * self.area();
        first..first.saturating_add(self.area())
    }

    /// The frame of a page that was accessed.
    fn used(&self, page_no: u32) -> Option<&Frame> {
        self.frames.get(*self.places.get(&page_no)?).filter(|frame| frame.accessed > 0)
    }

    fn may_read_ahead(&self, page_no: u32) -> bool {
        self.loading <= self.capacity / PENDING_PART && !self.is_bitmap(page_no)
    }

    fn is_bitmap(&self, page_no: u32) -> bool {
        page_no % self.page_size == IBUF_BITMAP_OFFSET
    }

    /// Pages of a range that are not in the pool.
    fn missing(&self, pages: Range<u32>) -> Vec<u32> {
        pages.filter(|page| !self.places.contains_key(page) && !self.is_bitmap(*page)).collect()
    }

    /// Random read-ahead, after a missing page was read and before it counts as accessed: the other pages of its area, if enough of these
    /// were accessed and are young.
    pub(super) fn random(&self, page_no: u32) -> Vec<u32> {
        let area = self.area_of(page_no);
        let area = area.start..area.end.min(self.file_pages);
        let is_recent = |page: &u32| self.used(*page).is_some_and(|frame| self.is_young(frame));
        let recent = area.clone().filter(is_recent).count();
        let is_due = recent >= 5 + self.area() as usize / 8 && self.may_read_ahead(page_no);
        if is_due { self.missing(area) } else { Vec::new() }
    }

    /// Linear read-ahead, after the first access to a page whose neighbours in its level are `prev` and `next`: the area that the scan will
    /// reach next, if the page is at a border of its own area and nearly all of that was accessed in the order of the scan.
    pub(super) fn linear(&self, page_no: u32, prev: u32, next: u32) -> Vec<u32> {
        let area = self.area_of(page_no);
        let (is_first, is_last) = (page_no == area.start, page_no + 1 == area.end);
        let is_border = is_first || is_last;
        if !is_border
            || area.end > self.file_pages
            || !self.may_read_ahead(page_no)
            || !self.is_in_order(area, is_first)
        {
            return Vec::new();
        }
        let onward = match (is_first, is_last) {
            (true, _) if next == page_no.wrapping_add(1) => prev,
            (_, true) if prev == page_no.wrapping_sub(1) => next,
            _ => return Vec::new(),
        };
        let ahead = self.area_of(onward);
        let starts_there = onward == ahead.start || onward == ahead.end - 1;
        if starts_there && ahead.end <= self.file_pages { self.missing(ahead) } else { Vec::new() }
    }

    fn is_in_order(&self, area: Range<u32>, descending: bool) -> bool {
        let (mut before, mut wrong) = (None, 0);
        for page in area {
            let Some(frame) = self.used(page) else {
                wrong += 1;
                continue;
            };
            wrong += u32::from(before.is_some_and(|before| (frame.accessed < before) != descending));
            before = Some(frame.accessed);
        }
        wrong <= OUT_OF_ORDER_MAX.min(self.area())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u32 = 16384;

    /// Reads a missing page, with random read-ahead. Returns what that wants, which is not read.
    fn missed(pool: &mut Pool, page_no: u32) -> Vec<u32> {
        pool.take(page_no).expect("a frame");
        pool.loaded(page_no);
        let ahead = pool.random(page_no);
        assert!(pool.accessed(page_no));
        ahead
    }

    #[test]
    fn an_area_is_64_pages_or_a_32nd_of_a_small_pool() {
        let area = |pages| Pool::new(pages, 100, PAGE).area();
        assert_eq!([1, 320, 512, 513, 1024, 1025, 1 << 20].map(area), [1, 16, 16, 16, 32, 32, 64]);
        assert_eq!([1055, 1056].map(area), [32, 64]);
    }

    #[test]
    fn thirteen_accessed_pages_of_an_area_are_enough_and_twelve_are_not() {
        let mut pool = Pool::new(8192, 6400, PAGE);
        // 5 and 64 have no common factor: every page of the area once, in no order.
        let shuffled: Vec<u32> = (0..64).map(|at| 640 + at * 5 % 64).collect();
        for page in &shuffled[..13] {
            assert_eq!(missed(&mut pool, *page), [0; 0], "at most 12 were accessed before");
        }
        let ahead = missed(&mut pool, shuffled[13]);
        let mut expected = shuffled[14..].to_vec();
        expected.sort_unstable();
        assert_eq!(ahead, expected, "13 were accessed before: the other 50");
        assert_eq!(missed(&mut pool, 704), [0; 0], "in the next area none");
    }

    #[test]
    fn pages_that_were_read_ahead_but_not_accessed_do_not_count() {
        let mut pool = Pool::new(8192, 6400, PAGE);
        for page in 0..40 {
            pool.take(page).expect("a frame");
            pool.loaded(page);
        }
        (0..12).for_each(|page| assert!(pool.accessed(page)));
        assert_eq!(missed(&mut pool, 40), [0; 0]);
        assert!(!missed(&mut pool, 41).is_empty(), "page 40 was the thirteenth");
    }

    #[test]
    fn neither_bitmaps_nor_pages_beyond_the_end_are_read_ahead() {
        let mut pool = Pool::new(8192, 30, PAGE);
        (2..15).for_each(|page| assert!(missed(&mut pool, page).is_empty()));
        let expected: Vec<u32> = [0].into_iter().chain(16..30).collect();
        assert_eq!(missed(&mut pool, 15), expected, "page 1 is a bitmap, and page 30 is not there");
    }

    #[test]
    fn pages_stop_being_recent_once_a_part_of_the_pool_was_evicted() {
        let capacity = 2048;
        let mut pool = Pool::new(capacity, 1 << 20, PAGE);
        (0..capacity as u32).for_each(|page| assert!(missed(&mut pool, page * 64).is_empty()));
        let young = capacity * (RATIO_DIV - OLD_RATIO) / (RATIO_DIV * 4);
        // 13 pages of one area, the last of them read when exactly so many pages were evicted that the first ones are still recent.
        let lonely = |at: usize| (capacity + at) as u32 * 64;
        (0..young - 14).for_each(|at| assert!(missed(&mut pool, lonely(at)).is_empty()));
        let area = lonely(capacity);
        (0..13).for_each(|at| assert!(missed(&mut pool, area + at).is_empty()));
        assert_eq!(pool.evicted as usize, young - 1);
        let rest = pool.random(area + 13);
        assert_eq!(rest.len(), 51);
        missed(&mut pool, lonely(capacity + 1));
        assert!(pool.random(area + 13).is_empty(), "{} evicted, {young} allowed", pool.evicted);
    }

    #[test]
    fn an_area_accessed_in_order_is_followed_by_the_one_that_its_last_page_links_to() {
        let walk = |pages: &[u32], links: (u32, u32)| {
            let mut pool = Pool::new(8192, 6400, PAGE);
            let (last, before) = pages.split_last().expect("pages");
            for page in before.iter().chain([last]) {
                missed(&mut pool, *page);
            }
            pool.linear(*last, links.0, links.1)
        };
        let up: Vec<u32> = (64..128).collect();
        assert_eq!(walk(&up, (126, 128)), (128..192).collect::<Vec<_>>());
        assert_eq!(walk(&up, (126, 640)), (640..704).collect::<Vec<_>>(), "where the link leads");
        assert!(walk(&up, (126, 650)).is_empty(), "it leads into the middle of an area");
        assert!(walk(&up, (99, 128)).is_empty(), "the page before is elsewhere");
        assert!(walk(&up, (126, 6400)).is_empty(), "that area is not whole");
        assert!(walk(&(64..127).collect::<Vec<_>>(), (125, 127)).is_empty(), "not at the border");
        assert_eq!(walk(&(72..128).collect::<Vec<_>>(), (126, 128)).len(), 64, "eight may be missing");
        assert!(walk(&(73..128).collect::<Vec<_>>(), (126, 128)).is_empty(), "nine may not");
        let down: Vec<u32> = (128..192).rev().collect();
        assert_eq!(walk(&down, (127, 129)), (64..128).filter(|page| *page != 1).collect::<Vec<_>>());
        let swapped: Vec<u32> = (64..126).map(|page| page ^ 1).chain([126, 127]).collect();
        assert!(walk(&swapped, (126, 128)).is_empty(), "every other page is out of order");
    }

    #[test]
    fn nothing_is_read_ahead_while_half_of_the_pool_waits() {
        let mut pool = Pool::new(2048, 6400, PAGE);
        (0..13).for_each(|page| assert!(missed(&mut pool, page + 64).is_empty()));
        (1000..2024).for_each(|page| assert!(pool.take(page).is_some()));
        assert!(!pool.random(80).is_empty(), "half of it");
        pool.take(3000).expect("a frame");
        assert!(pool.random(80).is_empty(), "more");
        let taken = (4000..5200).filter(|page| pool.take(*page).is_some()).count();
        assert_eq!(taken, 2048 - 1025, "what waits is not evicted, and the pool does not grow");
    }
}
