//! Every length, pointer, state and counter of the lists that pages are allocated from: wrong ones are found under correct checksums, and
//! lists written by servers raise no finding.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests fail the test")]

use crate::broken_table::{Ibd, seal};
use crate::common::{Dir, all_datadirs, fixture};
use format::page::fsp::xdes_size;
use inspect::{TableOptions, TableReport};

/// Tablespaces of every page size and kind. Their names say what they are for.
const SPACES: [(&str, &str); 12] = [
    ("mysql-9.7/dynamic-16k.ibd", "t.ibd"),
    ("mysql-9.7/dynamic-4k.ibd", "t.ibd"),
    ("mysql-9.7/dynamic-64k.ibd", "t.ibd"),
    ("mysql-9.7/zip-8k.ibd", "t.ibd"),
    ("mysql-9.7/zip-1k.ibd", "t.ibd"),
    ("mysql-9.7/undo-16k.ibd", "undo_001"),
    ("mysql-9.7/system-16k.ibd", "ibdata1"),
    ("mariadb-10.11/dynamic-16k.ibd", "t.ibd"),
    ("mariadb-10.11/dynamic-4k-crc32.ibd", "t.ibd"),
    ("mariadb-10.11/zip-2k.ibd", "t.ibd"),
    ("mariadb-10.11/undo-16k.ibd", "undo001"),
    ("mariadb-10.11/system-16k.ibd", "ibdata1"),
];

struct Broken {
    dir: Dir,
    name: &'static str,
    ibd: Ibd,
}

impl Broken {
    fn of(name: &'static str, sound: &[u8]) -> Self {
        let dir = Dir::new();
        let ibd = Ibd::at(&dir.file(name, sound));
        Self { dir, name, ibd }
    }

    fn check(&self, bytes: &[u8]) -> TableReport {
        let path = self.dir.file(self.name, bytes);
        crate::any_workers::report_on(&[path], &TableOptions::default())
    }

    /// The findings after these bytes were written at this offset of this page.
    fn edited(&self, page: u32, at: usize, bytes: &[u8]) -> TableReport {
        let mut all = self.ibd.bytes.clone();
        let size = self.ibd.format.physical().bytes();
        let page = &mut all[page as usize * size..][..size];
        page[at..at + bytes.len()].copy_from_slice(bytes);
        seal(page, &self.ibd.format);
        self.check(&all)
    }

    /// Asserts that the edit is reported under this rule, with these words.
    fn found(&self, (page, at): (u32, usize), bytes: &[u8], rule: &str, words: &str) {
        let report = self.edited(page, at, bytes);
        let is_it = |finding: &&inspect::report::table_finding::TableFinding| {
            finding.rule.as_str() == rule && finding.message.contains(words)
        };
        let place = format!("{} page {page} byte {at}", self.name);
        assert!(report.findings.iter().any(|finding| is_it(&finding)), "{place}: {:#?}", report.findings);
        assert_eq!(report.exit_status(), 1, "{place}");
    }
}

fn number(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(page[at..at + 4].try_into().expect("4 bytes"))
}

/// The list bases on page 0 and in the inodes on page 2, with their names.
fn bases(ibd: &Ibd) -> Vec<((u32, usize), String)> {
    let of_space =
        [(62, "FREE"), (78, "FREE_FRAG"), (94, "FULL_FRAG"), (118, "SEG_INODES_FULL"), (134, "SEG_INODES_FREE")];
    let mut bases: Vec<_> = of_space.iter().map(|(at, name)| ((0, *at), format!("list {name}"))).collect();
    let size = 64 + 2 * ibd.format.extent_pages() as usize;
    let page = ibd.stored(2);
    for at in (50..page.len() - 10 - size).step_by(size).filter(|at| number(page, at + 4) != 0).take(12) {
        let id = number(page, at + 4);
        for (list, name) in [(12, "FREE"), (28, "NOT_FULL"), (44, "FULL")] {
            bases.push(((2, at + list), format!("list {name} of segment {id}")));
        }
    }
    bases
}

#[test]
fn tablespaces_of_servers_are_sound() {
    for (fixture_name, name) in SPACES {
        let report = {
            let sound = fixture(fixture_name);
            Broken::of(name, &sound).check(&sound)
        };
        assert_eq!((report.exit_status(), report.findings), (0, vec![]), "{fixture_name}");
    }
}

#[test]
fn a_wrong_length_or_end_of_a_list_is_named() {
    for (fixture_name, name) in SPACES {
        let broken = Broken::of(name, &fixture(fixture_name));
        let ibd = &broken.ibd;
        for ((page, at), list) in bases(ibd).into_iter().take(11) {
            let len = number(ibd.stored(page), at);
            broken.found((page, at), &(len + 1).to_be_bytes(), "list_length", &list);
            // The first and the last member: an address in page 0 where no descriptor is.
            broken.found((page, at + 4), &[0, 0, 0, 0, 0, 99], "list_pointer", &list);
            broken.found((page, at + 10), &[0, 0, 0, 0, 0, 99], "list_pointer", &list);
        }
    }
}

#[test]
fn every_descriptor_field_is_held_against_the_others() {
    for (fixture_name, name) in SPACES {
        let broken = Broken::of(name, &fixture(fixture_name));
        let ibd = &broken.ibd;
        let size = xdes_size(ibd.format.logical());
        let is_used = |extent: &usize| number(ibd.stored(0), 150 + extent * size + 20) != 0;
        let count = ibd.pages().min(ibd.format.physical().get()) / ibd.format.extent_pages();
        for extent in (0..count.max(1) as usize).filter(is_used).take(6) {
            let at = 150 + extent * size;
            let first = extent as u32 * ibd.format.extent_pages();
            let words = format!("the extent of page {first} names");
            broken.found((0, at + 8), &[0, 0, 0, 0, 0, 99], "list_pointer", &words);
            broken.found((0, at + 14), &[0, 0, 0, 0, 0, 99], "list_pointer", &words);
            // A node that points to itself.
            let node = [&[0; 4][..], &(at as u16 + 8).to_be_bytes()].concat();
            broken.found((0, at + 14), &node, "list_pointer", &words);
            let state = if number(ibd.stored(0), at + 20) == 1 { 4_u32 } else { 1 };
            let words = format!("the extent of page {first} is in the state");
            broken.found((0, at + 20), &state.to_be_bytes(), "list_member", &words);
        }
    }
}

#[test]
fn counters_and_limits_are_held_against_the_extents() {
    for (fixture_name, name) in SPACES {
        let broken = Broken::of(name, &fixture(fixture_name));
        let ibd = &broken.ibd;
        let page0 = ibd.stored(0);
        broken.found((0, 58), &(number(page0, 58) + 1).to_be_bytes(), "fragments_used", "FREE_FRAG");
        broken.found((0, 50), &(number(page0, 50) + 1).to_be_bytes(), "free_limit", "");
        broken.found((0, 110), &1_u64.to_be_bytes(), "segment_id", "");
        let page2 = ibd.stored(2);
        broken.found((2, 50 + 8), &(number(page2, 50 + 8) + 1).to_be_bytes(), "segment_used", "NOT_FULL");
        broken.found((2, 50 + 60), &[0; 4], "segment_magic", "segment");
        broken.found((2, 24), &[0, 6], "not_an_inode_page", "SEG_INODES");
        let second = 50 + 64 + 2 * ibd.format.extent_pages() as usize;
        broken.found((2, second), &page2[50..58], "segment_id_twice", "");
        // The bit of page 0 itself, and of the inodes.
        broken.found((0, 150 + 24), &[page0[150 + 24] | 1], "map_page_free", "");
        broken.found((0, 150 + 24), &[page0[150 + 24] | 16], "map_page_free", "");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn extents_that_no_list_has_are_missed_and_single_pages_lie_among_single_pages() {
    let table = std::fs::read(all_datadirs().join("mysql-16k/shop/row_dynamic.ibd")).expect("a table");
    let broken = Broken::of("t.ibd", &table);
    let ibd = &broken.ibd;
    // A list emptied at its base: length and both ends.
    let (at, _) =
        bases(ibd).into_iter().rfind(|((page, at), _)| *page == 2 && number(ibd.stored(2), *at) > 0).expect("a list");
    let empty = [&[0; 4][..], &[0xFF; 4], &[0; 2], &[0xFF; 4], &[0; 2]].concat();
    broken.found(at, &empty, "list_missing", "of segment");
    let owned =
        (0..40).find(|extent| number(ibd.stored(0), 150 + extent * 40 + 20) == 4).expect("an extent of a segment");
    let free =
        (0..32).map(|slot| 50 + 64 + 4 * slot).find(|at| number(ibd.stored(2), *at) == u32::MAX).expect("a slot");
    broken.found((2, free), &(owned as u32 * 64).to_be_bytes(), "fragment_extent", "segment");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn undo_tablespaces_are_looked_at_too() {
    let report =
        inspect::tables(&[all_datadirs().join("mysql-16k/undo_001")], &TableOptions::default()).expect("a report");
    assert_eq!((report.files.len(), report.skipped.len(), report.exit_status()), (1, 0, 0));
}
