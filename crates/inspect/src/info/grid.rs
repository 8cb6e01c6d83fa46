//! A file reduced to the cells of a picture: however many pages it has, at most [`CELLS_MAX`] sums.

/// Cells per grid at most: enough for a picture, and a bound on memory.
pub const CELLS_MAX: u64 = 4096;

/// How a page is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Leaf of an index.
    Leaf,
    /// Index page above the leaves.
    Inner,
    /// MySQL's dictionary information (SDI).
    Dictionary,
    /// Off-page columns.
    Blob,
    /// Undo log.
    Undo,
    /// Space header, extent descriptors, inodes, change buffer, transaction system.
    Management,
    /// Encrypted.
    Encrypted,
    /// Page-compressed.
    Compressed,
    /// Another type, or allocated without one.
    Other,
    /// Free, with old content.
    Freed,
    /// All zero.
    Empty,
    /// Damaged.
    Damaged,
}

impl Class {
    /// All classes, each at the index of its discriminant.
    pub const ALL: [Self; 12] = [
        Self::Leaf,
        Self::Inner,
        Self::Dictionary,
        Self::Blob,
        Self::Undo,
        Self::Management,
        Self::Encrypted,
        Self::Compressed,
        Self::Other,
        Self::Freed,
        Self::Empty,
        Self::Damaged,
    ];
}

/// Sums over the pages of a cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pages: [u32; Class::ALL.len()],
    used: u64,
    room: u64,
    lsn_max: u64,
    /// The majority candidate (Boyer-Moore) and its lead: an index with more than half of the cell's pages always wins.
    index: u64,
    lead: u32,
}

/// A file's pages in order, grouped into cells.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Number of the first page.
    pub first_page: u32,
    /// Pages in the file.
    pub pages: u64,
    /// Pages in a cell; the last cell may have fewer.
    pub pages_per_cell: u64,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// A page's contribution to its cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dab {
    pub class: Class,
    /// Bytes used and bytes available, for index pages in use.
    pub fill: Option<(u64, u64)>,
    /// The page's index id.
    pub index: Option<u64>,
    pub lsn: u64,
}

impl Grid {
    pub(super) fn new(first_page: u32, pages: u64) -> Self {
        let pages_per_cell = pages.div_ceil(CELLS_MAX).max(1);
        let cells = usize::try_from(pages.div_ceil(pages_per_cell)).unwrap_or(0);
        Self { first_page, pages, pages_per_cell, cells: vec![Cell::default(); cells] }
    }

    pub(super) fn add(&mut self, page: u32, dab: Dab) {
        let index = u64::from(page.wrapping_sub(self.first_page)) / self.pages_per_cell;
        let cell = usize::try_from(index).ok().and_then(|index| self.cells.get_mut(index));
        let Some(cell) = cell else { return };
        if let Some(count) = cell.pages.get_mut(dab.class as usize) {
            *count += 1;
        }
        if let Some((used, room)) = dab.fill {
            cell.used += used;
            cell.room += room;
        }
        cell.lsn_max = cell.lsn_max.max(dab.lsn);
        match dab.index {
            Some(index) if cell.lead == 0 => (cell.index, cell.lead) = (index, 1),
            Some(index) if cell.index == index => cell.lead += 1,
            Some(_) => cell.lead -= 1,
            None => {}
        }
    }
}

impl Cell {
    /// The class of most of its pages; damaged if any page is.
    #[must_use]
    pub fn class(&self) -> Class {
        let most = |best: (Class, u32), next: (Class, u32)| if next.1 > best.1 { next } else { best };
        let rows = Class::ALL.into_iter().zip(self.pages);
        let damaged = self.pages.get(Class::Damaged as usize).is_some_and(|pages| *pages > 0);
        if damaged { Class::Damaged } else { rows.fold((Class::Empty, 0), most).0 }
    }

    /// The index with more than half of its index pages, if there is one.
    #[must_use]
    pub fn index(&self) -> Option<u64> {
        (self.lead > 0).then_some(self.index)
    }

    /// Used fraction of its index pages, 0 to 1; `None` if it has none.
    #[must_use]
    pub fn fill(&self) -> Option<f64> {
        (self.room > 0).then(|| self.used as f64 / self.room as f64)
    }

    /// The largest LSN of its sound pages; `None` if there is none.
    #[must_use]
    pub fn lsn(&self) -> Option<u64> {
        (self.lsn_max > 0).then_some(self.lsn_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_counted_under_its_own_name() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index, "{class:?}");
        }
    }

    #[test]
    fn a_terabyte_takes_no_more_cells_than_a_picture_has() {
        let grid = Grid::new(0, 1 << 26);
        assert_eq!(grid.cells.len() as u64, CELLS_MAX);
        assert_eq!(Grid::new(0, 4097).cells.len(), 2049);
        assert!(Grid::new(0, 0).cells.is_empty());
    }

    #[test]
    fn one_damaged_page_shows_among_many_sound_ones() {
        let mut grid = Grid::new(10, 8192);
        let dab = |class| Dab { class, fill: Some((1, 2)), index: Some(157), lsn: 7 };
        grid.add(10, dab(Class::Leaf));
        grid.add(11, dab(Class::Leaf));
        grid.add(12, dab(Class::Leaf));
        assert_eq!(grid.cells[0].class(), Class::Leaf);
        assert_eq!((grid.cells[1].fill(), grid.cells[1].index()), (Some(0.5), Some(157)));
        assert_eq!(grid.cells[2].class(), Class::Empty);
        grid.add(11, dab(Class::Damaged));
        assert_eq!(grid.cells[0].class(), Class::Damaged);
        grid.add(9, dab(Class::Damaged));
        grid.add(u32::MAX, dab(Class::Damaged));
        assert_eq!(grid.cells.iter().filter(|cell| cell.class() == Class::Damaged).count(), 1);
    }
}
