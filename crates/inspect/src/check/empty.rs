//! Pages of indexes without records. A bulk insert, like the bulk build of an index, allocates each page in a mini-transaction of its own,
//! before the one that fills it, and links the pages to the root when all are full. After a crash in between, pages are in use that were
//! never written, and only the rollback frees them.
//!
//! Facts: `btr0bulk.cc` of MariaDB 10.11; seen in crashed datadirs.

use std::collections::HashSet;

use crate::tree::{SpaceMap, roots};
use datadir::tablespace::{Opener, Tablespace};

/// The indexes of one tablespace whose root is a leaf without records.
pub(super) struct EmptyIndexes {
    /// The tablespace's file, by its number in the run.
    pub file: u32,
    map: SpaceMap,
    segments: HashSet<u64>,
}

impl EmptyIndexes {
    /// Reads the tablespace's extent descriptors, inodes and roots.
    pub fn of(file: u32, space: &Tablespace) -> Self {
        let mut opener = Opener::new();
        let map = SpaceMap::read(space, &mut opener);
        let roots = roots::find(space, &map, &[], &mut opener, &mut Vec::new());
        let empty = roots.iter().filter(|root| root.is_empty);
        let segments = empty.flat_map(|root| root.leaf_segment.into_iter().chain(root.top_segment)).collect();
        Self { file, map, segments }
    }

    /// Whether the page belongs to one of them.
    pub fn own(&self, page: u32) -> bool {
        self.map.owner(page).is_some_and(|segment| self.segments.contains(&segment))
    }
}

#[cfg(test)]
mod tests {
    use format::keyring::KeyStore;
    use format::page::index::{PAGE_LEVEL, PAGE_N_RECS};

    use super::*;
    use datadir::tablespace::FoundFile;

    const PAGE: usize = 16384;
    const ROOT: usize = 3;

    fn index_pages(change: impl Fn(&mut [u8])) -> Vec<bool> {
        let dir = tempfile::tempdir().expect("a directory");
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mariadb-10.11/dynamic-16k.ibd.zst");
        let packed = std::fs::File::open(packed).expect("the fixture");
        let mut bytes = zstd::decode_all(packed).expect("fixtures are zstd");
        change(&mut bytes[ROOT * PAGE..][..PAGE]);
        let path = dir.path().join("t.ibd");
        std::fs::write(&path, &bytes).expect("written");
        let file = FoundFile::of(path).expect("a length");
        let space = Tablespace::open(&[file], &KeyStore::default(), None).expect("a tablespace");
        let empty = EmptyIndexes::of(0, &space);
        (0..space.pages()).map(|page| empty.own(page)).collect()
    }

    #[test]
    fn all_pages_belong_to_an_empty_index_only_if_the_root_is_a_leaf_without_records() {
        let set = |page: &mut [u8], at: usize, value: u16| page[at..at + 2].copy_from_slice(&value.to_be_bytes());
        assert!(!index_pages(|_| {}).contains(&true));
        assert!(!index_pages(|root| set(root, PAGE_N_RECS, 0)).contains(&true));
        assert!(!index_pages(|root| set(root, PAGE_LEVEL, 0)).contains(&true));
        let empty = index_pages(|root| {
            set(root, PAGE_LEVEL, 0);
            set(root, PAGE_N_RECS, 0);
        });
        assert_eq!(empty[..ROOT], [false; ROOT], "the maps and inodes belong to no index");
        assert!(empty[ROOT..].iter().filter(|own| **own).count() > 1, "{empty:?}");
        assert!(empty[ROOT..].contains(&false), "there is a second index");
    }
}
