//! InnoDB's list of the pages in its buffer pool, by how soon they are evicted: `young pages | old pages -> evicted`.
//!
//! A page that was just read enters at the head of the old part, not of the whole list, so that one scan does not evict everything else.
//! While the list is shorter than [`OLD_LEN_MIN`], there is no old part, and pages enter at the head. The border then follows the length of
//! the list: 37% of it is old (`innodb_old_blocks_pct`), give or take [`TOLERANCE`] pages. (`buf0lru.cc` of MySQL and MariaDB.)

/// The list has no old part while it has fewer pages.
const OLD_LEN_MIN: usize = 512;
/// The border moves only when it is further than this from its place, pages.
const TOLERANCE: usize = 20;
/// At least this many pages are young, beside the tolerance.
const YOUNG_LEN_MIN: usize = 5;
/// Denominator of [`OLD_RATIO`].
pub(super) const RATIO_DIV: usize = 1024;
/// The old part of the list: `innodb_old_blocks_pct` of 37%.
pub(super) const OLD_RATIO: usize = 37 * RATIO_DIV / 100;

/// No frame.
const NONE: usize = usize::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: usize,
    after: usize,
    is_old: bool,
}

/// The list. Its members are frames, by index.
#[derive(Debug)]
pub(super) struct Lru {
    links: Vec<Link>,
    first: usize,
    last: usize,
    len: usize,
    /// The first page of the old part; [`NONE`] if there is no such part.
    old: usize,
    old_len: usize,
}

impl Lru {
    pub(super) fn new() -> Self {
        Self { links: Vec::new(), first: NONE, last: NONE, len: 0, old: NONE, old_len: 0 }
    }

    pub(super) fn is_old(&self, frame: usize) -> bool {
        self.links.get(frame).is_some_and(|link| link.is_old)
    }

    /// Frames from the next one to evict on.
    pub(super) fn next_to_evict(&self) -> impl Iterator<Item = usize> {
        let there = |frame: usize| (frame != NONE).then_some(frame);
        std::iter::successors(there(self.last), move |frame| there(self.links.get(*frame)?.before))
    }

    /// Adds a frame at the head of the old part. Returns whether it became young instead, because there is no old part yet.
    pub(super) fn add_old(&mut self, frame: usize) -> bool {
        let young = self.len < OLD_LEN_MIN;
        if young {
            self.add_first(frame);
        } else {
            let after = self.links.get(self.old).map_or(NONE, |link| link.after);
            self.link(frame, self.old, after);
            self.old_len += 1;
            self.len += 1;
        }
        self.settle(frame, true);
        young
    }

    /// Moves a frame to the head of the list.
    pub(super) fn make_young(&mut self, frame: usize) {
        self.remove(frame);
        self.add_first(frame);
        self.settle(frame, false);
    }

    /// Takes a frame off the list.
    pub(super) fn remove(&mut self, frame: usize) {
        let Some(link) = self.links.get(frame).copied() else { return };
        if frame == self.old {
            // The page before becomes old in its place; the length is corrected below.
            self.old = link.before;
            self.set_old(link.before, true);
            self.old_len += 1;
        }
        match self.links.get_mut(link.before) {
            Some(before) => before.after = link.after,
            None => self.first = link.after,
        }
        match self.links.get_mut(link.after) {
            Some(after) => after.before = link.before,
            None => self.last = link.before,
        }
        self.len -= 1;
        if self.len < OLD_LEN_MIN {
            self.links.iter_mut().for_each(|link| link.is_old = false);
            (self.old, self.old_len) = (NONE, 0);
            return;
        }
        self.old_len -= usize::from(link.is_old);
        self.adjust();
    }

    fn add_first(&mut self, frame: usize) {
        self.link(frame, NONE, self.first);
        self.len += 1;
    }

    fn link(&mut self, frame: usize, before: usize, after: usize) {
        if self.links.len() <= frame {
            self.links.resize(frame + 1, Link { before: NONE, after: NONE, is_old: false });
        }
        if let Some(link) = self.links.get_mut(frame) {
            *link = Link { before, after, is_old: false };
        }
        match self.links.get_mut(before) {
            Some(link) => link.after = frame,
            None => self.first = frame,
        }
        match self.links.get_mut(after) {
            Some(link) => link.before = frame,
            None => self.last = frame,
        }
    }

    /// Says of a frame just added whether it is old, and moves the border to its place.
    fn settle(&mut self, frame: usize, is_old: bool) {
        if self.len == OLD_LEN_MIN {
            self.links.iter_mut().for_each(|link| link.is_old = true);
            (self.old, self.old_len) = (self.first, self.len);
        } else {
            self.set_old(frame, is_old && self.len > OLD_LEN_MIN);
        }
        self.adjust();
    }

    fn set_old(&mut self, frame: usize, is_old: bool) {
        if let Some(link) = self.links.get_mut(frame) {
            link.is_old = is_old;
        }
    }

    fn adjust(&mut self) {
        let wanted = (self.len * OLD_RATIO / RATIO_DIV).min(self.len.saturating_sub(TOLERANCE + YOUNG_LEN_MIN));
        while let Some(link) = self.links.get(self.old).copied() {
            if self.old_len + TOLERANCE < wanted {
                self.old = link.before;
                self.set_old(self.old, true);
                self.old_len += 1;
            } else if self.old_len > wanted + TOLERANCE {
                self.set_old(self.old, false);
                self.old = link.after;
                self.old_len -= 1;
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames from the head on, and how many of them are old.
    fn walked(lru: &Lru) -> (Vec<usize>, usize) {
        let mut frames: Vec<usize> = lru.next_to_evict().collect();
        frames.reverse();
        let old = frames.iter().filter(|frame| lru.is_old(**frame)).count();
        let border = frames.iter().position(|frame| lru.is_old(*frame)).unwrap_or(frames.len());
        assert_eq!(frames.len() - border, old, "the old pages are at the end");
        assert_eq!((frames.len(), old), (lru.len, lru.old_len));
        assert_eq!(frames.get(border).copied().unwrap_or(NONE), lru.old);
        (frames, old)
    }

    #[test]
    fn a_short_list_is_a_plain_one() {
        let mut lru = Lru::new();
        for frame in 0..OLD_LEN_MIN - 1 {
            assert!(lru.add_old(frame));
        }
        let (frames, old) = walked(&lru);
        assert_eq!((frames, old), ((0..OLD_LEN_MIN - 1).rev().collect(), 0));
        lru.make_young(7);
        lru.remove(0);
        let (frames, _) = walked(&lru);
        assert_eq!((frames[0], frames[frames.len() - 1], frames.len()), (7, 1, OLD_LEN_MIN - 2));
    }

    #[test]
    fn what_is_read_enters_in_the_middle_and_is_evicted_before_the_young() {
        let mut lru = Lru::new();
        for frame in 0..1000 {
            assert_eq!(lru.add_old(frame), frame < OLD_LEN_MIN, "{frame}");
            walked(&lru);
        }
        let (frames, old) = walked(&lru);
        let wanted = 1000 * OLD_RATIO / RATIO_DIV;
        assert!(old.abs_diff(wanted) <= TOLERANCE, "{old}, {wanted}");
        // Pages come and go at the old end; the young ones stay.
        let young: Vec<usize> = frames[..frames.len() - old - TOLERANCE * 2].to_vec();
        for frame in 1000..3000 {
            let last = lru.next_to_evict().next().expect("a thousand");
            lru.remove(last);
            assert!(!lru.add_old(frame));
        }
        let (frames, _) = walked(&lru);
        assert_eq!(frames[..young.len()], young);
        lru.make_young(2999);
        assert_eq!(walked(&lru).0[0], 2999);
        assert!(!lru.is_old(2999));
    }

    #[test]
    fn a_list_that_becomes_short_has_no_old_part() {
        let mut lru = Lru::new();
        for frame in 0..OLD_LEN_MIN + 10 {
            lru.add_old(frame);
        }
        for frame in 0..10 {
            lru.remove(frame);
            assert!(walked(&lru).1 > 0);
        }
        lru.remove(10);
        assert_eq!(walked(&lru).1, 0);
        assert!(lru.add_old(0));
        assert!(walked(&lru).1 > 0);
    }
}
