//! The leaves of a clustered index while its table is used: which rows are on which page. Rows are a key and a size; their bytes are made
//! when the file is written.
//!
//! ```text
//! append   to the last leaf while 15/16 of it are filled, else to a new one behind it
//! grow     in place, or, where the row no longer fits, into one half of its leaf: the upper half moves to a new page
//! delete   and, if less than half of the leaf is filled, its rows move to a neighbour with room for them, and its page is freed
//! ```
//!
//! (`btr0btr.cc` and `btr0cur.cc` of MySQL: `btr_page_split_and_insert`, `btr_compress`; `MERGE_THRESHOLD` 50.)

use std::collections::BTreeMap;

use super::extents::{Extents, Owner};

/// Bytes of a leaf for records and their directory: 16,384 without headers, the two system records and the two slots for these.
const ROOM: u32 = 16384 - 120 - 8 - 4;
/// What ascending inserts leave free: a sixteenth of a page.
const RESERVE: u32 = 16384 / 16;
/// A leaf with fewer bytes of records gives them to a neighbour, if possible.
const MERGE_BELOW: u32 = 16384 / 2;
/// Bytes of a record beside its text: two for the text's length, a header of five, the key, transaction id and roll pointer.
pub(super) const RECORD: u32 = 2 + 5 + 8 + 6 + 7;
/// The longest text, bytes.
pub(super) const TEXT_MAX: u16 = 1500;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub key: u32,
    /// Bytes of its text.
    pub text: u16,
}

impl Row {
    fn bytes(self) -> u32 {
        RECORD + u32::from(self.text)
    }
}

/// A leaf.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub page_no: u32,
    /// In key order.
    pub rows: Vec<Row>,
    /// Bytes of their records.
    bytes: u32,
}

impl Leaf {
    fn of(page_no: u32, rows: Vec<Row>) -> Self {
        let bytes = rows.iter().map(|row| row.bytes()).sum();
        Self { page_no, rows, bytes }
    }
}

/// Whether a page can hold so many records with so many bytes; there is a directory slot for every four.
fn fits(records: usize, bytes: u32) -> bool {
    bytes + 2 * (records as u32).div_ceil(4) <= ROOM
}

/// The leaves, and the pages that they take.
#[derive(Debug)]
pub(super) struct Leaves {
    /// By the key from which on they hold rows; the first by 0.
    leaves: BTreeMap<u32, Leaf>,
    pub splits: u64,
    pub merges: u64,
}

impl Leaves {
    /// An empty table: one leaf.
    pub(super) fn new(space: &mut Extents) -> Self {
        let first = Leaf::of(space.allocate(Owner::Leaves, 0, false), Vec::new());
        Self { leaves: BTreeMap::from([(0, first)]), splits: 0, merges: 0 }
    }

    /// The leaves in key order, with the key from which on each holds rows.
    pub(super) fn in_order(&self) -> impl ExactSizeIterator<Item = (u32, &Leaf)> {
        self.leaves.iter().map(|(from, leaf)| (*from, leaf))
    }

    /// Adds a row with the highest key.
    pub(super) fn append(&mut self, row: Row, space: &mut Extents) {
        let Some((_, leaf)) = self.leaves.iter_mut().next_back() else { return };
        if leaf.rows.len() < 2 || fits(leaf.rows.len() + 1, leaf.bytes + row.bytes() + RESERVE) {
            leaf.bytes += row.bytes();
            leaf.rows.push(row);
            return;
        }
        let page_no = space.allocate(Owner::Leaves, leaf.page_no + 1, true);
        self.leaves.insert(row.key, Leaf::of(page_no, vec![row]));
    }

    /// Makes the text of a row longer. Returns whether there is such a row.
    pub(super) fn grow(&mut self, key: u32, by: u16, space: &mut Extents) -> bool {
        let Some((_, leaf)) = self.leaves.range_mut(..=key).next_back() else { return false };
        let Ok(at) = leaf.rows.binary_search_by_key(&key, |row| row.key) else { return false };
        let count = leaf.rows.len();
        let Some(row) = leaf.rows.get_mut(at) else { return false };
        let before = row.bytes();
        row.text = row.text.saturating_add(by).min(TEXT_MAX);
        leaf.bytes += row.bytes() - before;
        if fits(count, leaf.bytes) {
            return true;
        }
        let upper = leaf.rows.split_off(count / 2);
        let page_no = space.allocate(Owner::Leaves, leaf.page_no + 1, true);
        *leaf = Leaf::of(leaf.page_no, std::mem::take(&mut leaf.rows));
        self.splits += 1;
        if let Some(first) = upper.first() {
            self.leaves.insert(first.key, Leaf::of(page_no, upper));
        }
        true
    }

    /// Deletes a row. Returns whether there was one.
    pub(super) fn delete(&mut self, key: u32, space: &mut Extents) -> bool {
        let Some((&from, leaf)) = self.leaves.range_mut(..=key).next_back() else { return false };
        let Ok(at) = leaf.rows.binary_search_by_key(&key, |row| row.key) else { return false };
        leaf.bytes -= leaf.rows.remove(at).bytes();
        let (count, bytes) = (leaf.rows.len(), leaf.bytes);
        if bytes >= MERGE_BELOW {
            return true;
        }
        let has_room = |other: &Leaf| fits(other.rows.len() + count, other.bytes + bytes);
        let left = self.leaves.range(..from).next_back().filter(|(_, left)| has_room(left)).map(|(key, _)| *key);
        let right = self.leaves.range(from + 1..).next().filter(|(_, right)| has_room(right)).map(|(key, _)| *key);
        // Of the two leaves the lower one's place stays: it says from which key on the merged one holds rows.
        let (low, high, kept_is_low) = match (left, right) {
            (Some(left), _) => (left, from, true),
            (None, Some(right)) => (from, right, false),
            (None, None) => return true,
        };
        let (Some(lower), Some(upper)) = (self.leaves.remove(&low), self.leaves.remove(&high)) else { return true };
        let (page_no, freed) =
            if kept_is_low { (lower.page_no, upper.page_no) } else { (upper.page_no, lower.page_no) };
        let rows = [lower.rows, upper.rows].concat();
        self.leaves.insert(low, Leaf::of(page_no, rows));
        space.free(Owner::Leaves, freed);
        self.merges += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(leaves: &Leaves) -> Vec<u32> {
        leaves.in_order().flat_map(|(_, leaf)| leaf.rows.iter().map(|row| row.key)).collect()
    }

    /// Every rule of a tree that a checker would look for.
    fn assert_sound(leaves: &Leaves, space: &Extents) {
        let keys = rows(leaves);
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "in key order");
        let mut pages = std::collections::BTreeSet::new();
        let mut until = leaves.in_order().skip(1).map(|(from, _)| from).chain([u32::MAX]);
        for (from, leaf) in leaves.in_order() {
            let until = until.next().expect("one for each");
            assert!(leaf.rows.iter().all(|row| (from..until).contains(&row.key)), "{from}: {leaf:?}");
            assert!(
                fits(leaf.rows.len(), leaf.bytes) && leaf.bytes == leaf.rows.iter().map(|row| row.bytes()).sum::<u32>()
            );
            assert!(pages.insert(leaf.page_no) && space.is_used(leaf.page_no), "a page of its own: {leaf:?}");
        }
    }

    fn filled(count: u32) -> (Leaves, Extents) {
        let mut space = Extents::new();
        let mut leaves = Leaves::new(&mut space);
        (1..=count).for_each(|key| leaves.append(Row { key, text: 200 }, &mut space));
        (leaves, space)
    }

    #[test]
    fn rows_in_key_order_fill_fifteen_sixteenths_of_pages_in_file_order() {
        let (leaves, space) = filled(20_000);
        assert_sound(&leaves, &space);
        assert_eq!(rows(&leaves).len(), 20_000);
        let pages: Vec<u32> = leaves.in_order().map(|(_, leaf)| leaf.page_no).collect();
        let neighbours = pages.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
        assert_eq!(pages.len() - 1 - neighbours, 1, "from the shared extent to the first of its own: {pages:?}");
        let full = leaves.in_order().next().expect("a leaf").1;
        assert_eq!(full.rows.len() as u32, (ROOM - RESERVE) * 2 / (2 * (RECORD + 200) + 1));
    }

    #[test]
    fn a_row_that_outgrows_its_leaf_moves_half_of_it_to_a_new_page() {
        let (mut leaves, mut space) = filled(20_000);
        let before = leaves.in_order().len();
        assert!(leaves.grow(10_000, TEXT_MAX - 200, &mut space));
        assert_eq!((leaves.in_order().len(), leaves.splits), (before + 1, 1));
        assert_sound(&leaves, &space);
        assert!(!leaves.grow(30_000, 1, &mut space));
        assert_eq!(rows(&leaves).len(), 20_000);
    }

    #[test]
    fn a_leaf_that_lost_half_of_its_rows_gives_the_rest_to_a_neighbour_and_its_page_is_used_again() {
        let (mut leaves, mut space) = filled(20_000);
        let pages = leaves.in_order().len();
        (5_000..10_000).for_each(|key| assert!(leaves.delete(key, &mut space)));
        assert!(!leaves.delete(5_000, &mut space));
        assert_sound(&leaves, &space);
        assert_eq!(rows(&leaves).len(), 15_000);
        let left = leaves.in_order().len();
        assert!(left < pages - pages / 4 + 2, "{left} of {pages} are left");
        let size = space.size;
        (20_001..24_000).for_each(|key| leaves.append(Row { key, text: 200 }, &mut space));
        assert_sound(&leaves, &space);
        assert_eq!(space.size, size, "freed extents are filled before the file grows");
        for key in 1..24_000 {
            leaves.delete(key, &mut space);
        }
        assert_eq!((rows(&leaves).len(), leaves.in_order().len()), (0, 1));
    }
}
