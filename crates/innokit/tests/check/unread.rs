//! What the system does not let us read is no damage, and no verdict: status 2, with the file's name.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{Dir, Run, fixture, innokit};

const SAMPLE: &str = "mariadb-10.11/dynamic-16k.ibd";
const PAGE: usize = 16384;

fn run(words: &[&str], path: &Path) -> Run {
    Run::of(&innokit().args(words).args(["--progress", "never"]).arg(path).output().expect("innokit runs"))
}

/// The pages that are roots: the first fragment page of a segment that is an index page without siblings.
fn roots(bytes: &[u8]) -> Vec<usize> {
    let inodes = &bytes[2 * PAGE..3 * PAGE];
    let firsts = (0..84).map(|slot| 50 + slot * 192).filter(|at| inodes[*at..at + 8] != [0; 8]);
    let first = |at: usize| u32::from_be_bytes(inodes[at + 64..at + 68].try_into().expect("4 bytes"));
    let mut pages: Vec<usize> = firsts.map(first).filter(|page| *page != u32::MAX).map(|page| page as usize).collect();
    // A root lies in the segment of its inner pages, the first of each pair.
    pages.retain(|page| bytes[page * PAGE + 24..page * PAGE + 26] == [0x45, 0xBF]);
    pages.retain(|page| bytes[page * PAGE + 8..page * PAGE + 16] == [0xFF; 8]);
    pages.dedup();
    pages
}

#[test]
fn a_count_names_the_index_whose_root_is_not_recognised() {
    let dir = Dir::new();
    let mut bytes = fixture(SAMPLE);
    let whole = run(&["table", "count", "--json"], &dir.file("whole.ibd", &bytes));
    let indexes = |run: &Run| run.json()["files"][0]["indexes"].as_array().map_or(0, Vec::len);
    assert_eq!(whole.status, 0, "{}", whole.text);
    let last = *roots(&bytes).last().expect("a root");
    bytes[last * PAGE + 25..last * PAGE + 33].fill(b'X');
    let broken = run(&["table", "count", "--json"], &dir.file("broken.ibd", &bytes));
    assert_eq!(indexes(&broken) + 1, indexes(&whole), "{}", broken.text);
    assert_eq!(broken.status, 1, "{}", broken.text);
    assert_eq!(broken.json()["findings"][0]["page"].as_u64(), Some(last as u64), "{}", broken.text);
}

#[test]
fn a_file_that_cannot_be_opened_is_undecided() {
    let dir = Dir::new();
    dir.file("shop/sound.ibd", &fixture(SAMPLE));
    symlink("loop.ibd", dir.path().join("shop/loop.ibd")).expect("linked");
    for words in [&["check"][..], &["table", "check"], &["table", "count"], &["table", "checksum"]] {
        let run = run(words, dir.path());
        assert_eq!(run.status, 2, "{words:?}: {}{}", run.text, run.errors);
        let said = format!("{}{}", run.text, run.errors);
        assert!(said.contains("loop.ibd") && !said.contains("damage:"), "{words:?}: {said}");
    }
}

#[test]
fn too_few_descriptors_are_no_damage() {
    let dir = Dir::new();
    for name in ["a", "b", "c"] {
        dir.file(&format!("shop/{name}.ibd"), &fixture(SAMPLE));
    }
    for words in ["check", "table check", "table count", "table checksum", "table schema"] {
        let statuses: Vec<i32> = (3..14)
            .map(|limit| {
                let program = env!("CARGO_BIN_EXE_innokit");
                let line = format!("ulimit -n {limit}; exec {program} {words} {}", dir.path().display());
                let run = Run::of(&Command::new("bash").args(["-c", &line]).output().expect("bash runs"));
                assert!(matches!(run.status, 0 | 2 | 127), "{words}, {limit}: {}{}", run.text, run.errors);
                run.status
            })
            .collect();
        assert!(statuses.contains(&2), "{words}: {statuses:?}");
    }
}
