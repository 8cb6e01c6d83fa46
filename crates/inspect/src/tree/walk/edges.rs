//! The keys on both sides of each border between leaves, for indexes in which node pointers do not decide the order of all keys.
//!
//! Under some collations, the last key of a leaf and the first of the next can be compared with each other, but not with the node pointer
//! between them. So the two are compared directly, once the second of them arrives. Until then a copy of the first is kept.

use std::cmp::Ordering;
use std::collections::HashMap;

use format::page::index::IndexPage;
use format::record::{Record, RecordFields};
use format::schema::{IndexDef, KeyCopy};

/// One side of a border; `None`: the leaf has no key there.
#[derive(Debug)]
struct Side {
    is_first: bool,
    key: Option<KeyCopy>,
}

/// Borders with one side known, keyed by the index of the leaf after the border.
#[derive(Debug, Default)]
pub(super) struct Edges {
    sides: HashMap<u32, Side>,
    bytes: usize,
    bytes_max: usize,
}

impl Edges {
    /// An empty set that holds no more than about `bytes_max` bytes of keys at a time.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// The borders of the next stretch. Of this one, only the border after its last leaf, number `count`, carries over.
    pub fn next_stretch(mut self, count: u32) -> Self {
        let mut next = Self::new(self.bytes_max);
        if let Some(side) = self.sides.remove(&count) {
            next.bytes = side.size();
            next.sides.insert(0, side);
        }
        next
    }

    /// Adds a side of border `number`: the first key after it, or the last before it. Returns `false` if the keys are known to be out of
    /// order, or take too much memory.
    pub fn add(
        &mut self,
        number: u32,
        is_first: bool,
        key: Option<KeyCopy>,
        (index, count): (&IndexDef, usize),
    ) -> bool {
        let side = Side { is_first, key };
        let Some(other) = self.sides.remove(&number) else {
            self.bytes += side.size();
            self.sides.insert(number, side);
            return self.bytes <= self.bytes_max;
        };
        self.bytes -= other.size();
        let (first, last) = if is_first { (side, other) } else { (other, side) };
        let (Some(first_key), Some(last_key)) = (&first.key, &last.key) else {
            return first.is_first && !last.is_first;
        };
        first.is_first && !last.is_first && last_key.compare(first_key, index, count).is_none_or(Ordering::is_lt)
    }
}

impl Side {
    fn size(&self) -> usize {
        // Twice the map's own entry, since the map may be half empty.
        2 * size_of::<(u32, Self)>() + self.key.as_ref().map_or(0, KeyCopy::size)
    }
}

/// A copy of the key of a record on the page.
pub(super) fn copied(
    index: &IndexDef,
    page: &IndexPage<'_>,
    record: Option<Record<'_>>,
    fields: &mut RecordFields,
) -> Option<KeyCopy> {
    let record = record?;
    index.layout.locate(&record, fields).ok()?;
    Some(KeyCopy::new(page.bytes(), fields, index.layout.key_fields()))
}

/// Whether node pointers may leave the order of keys undecided.
pub(super) fn are_needed(index: &IndexDef) -> bool {
    index.fields.iter().take(index.layout.key_fields()).any(|field| !field.order.is_total())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

    use super::*;
    use crate::table::one::One;

    /// First and last key of three leaves in a row, and their index.
    fn keys() -> (Vec<[Option<KeyCopy>; 2]>, IndexDef) {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
        let bytes = zstd::decode_all(std::fs::File::open(packed).expect("the fixture")).expect("fixtures are zstd");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("scattered.ibd");
        std::fs::write(&path, &bytes).expect("written");
        let one = One::open(&path).expect("a tablespace");
        let named =
            one.trees.iter().filter_map(|tree| Some((tree.root.index_id, tree.named.as_ref()?.index.as_ref()?)));
        let (id, index) = named.into_iter().find(|(_, index)| index.name == "PRIMARY").expect("the clustered index");
        let page = |number: usize| {
            let page = bytes.get(number * 16384..(number + 1) * 16384)?;
            let page = IndexPage::parse(page, &one.space.format).ok()?;
            (page.level() == 0 && page.index_id() == id).then_some(page)
        };
        let mut at = (0..bytes.len() / 16384).find(|number| page(*number).is_some_and(|page| page.prev().is_none()));
        let mut keys = Vec::new();
        while let Some(leaf) = at.and_then(page).filter(|_| keys.len() < 3) {
            let mut fields = RecordFields::default();
            let last = leaf.records().filter_map(Result::ok).last();
            let first = leaf.records().next().and_then(Result::ok);
            keys.push([first, last].map(|record| copied(index, &leaf, record, &mut fields)));
            at = leaf.next().map(|next| next.0 as usize);
        }
        assert!(keys.len() == 3 && keys.iter().flatten().all(Option::is_some));
        (keys, index.clone())
    }

    #[test]
    fn keys_on_both_sides_of_a_border_are_compared_whichever_comes_first() {
        let (keys, index) = keys();
        let key = (&index, index.layout.key_fields());
        let [one, two, three] = [0, 1, 2].map(|leaf: usize| keys.get(leaf).cloned().expect("three"));
        let mut edges = Edges::new(1 << 20);
        assert!(edges.add(2, true, three[0].clone(), key) && edges.add(1, false, one[1].clone(), key));
        assert!(edges.add(1, true, two[0].clone(), key) && edges.add(2, false, two[1].clone(), key));
        assert!(edges.sides.is_empty() && edges.bytes == 0);
        assert!(edges.add(1, false, three[1].clone(), key), "one side alone");
        assert!(!edges.add(1, true, two[0].clone(), key), "the leaf before has greater keys");
        assert!(
            edges.add(1, true, two[0].clone(), key) && !edges.add(1, true, two[0].clone(), key),
            "the same side twice"
        );
    }

    #[test]
    fn the_last_border_of_a_stretch_is_the_first_of_the_next() {
        let (keys, index) = keys();
        let key = (&index, index.layout.key_fields());
        let [last, first] = [&keys.first().expect("three")[1], &keys.get(1).expect("three")[0]];
        let mut edges = Edges::new(1 << 20);
        assert!(edges.add(7, false, last.clone(), key));
        let mut next = edges.next_stretch(7);
        assert!(next.sides.len() == 1 && next.add(0, true, first.clone(), key) && next.sides.is_empty());
        assert!(!Edges::new(8).add(7, false, last.clone(), key), "no memory");
    }
}
