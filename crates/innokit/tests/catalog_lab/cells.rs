//! The matrix of every kind of file and every way to lose it. `cells.tsv` records what innokit and the server said about each cell, and the
//! test checks that they agree.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};

use super::super::common::copy;
use super::{Age, Lab};

/// A kind of file: its name in the matrix, its path in the datadir or in [`Lab::far`], and the path of another of its kind to swap it with.
struct Kind {
    name: &'static str,
    file: &'static str,
    other: &'static str,
}

const fn kind(name: &'static str, file: &'static str, other: &'static str) -> Kind {
    Kind { name, file, other }
}

const MYSQL: [Kind; 8] = [
    kind("table", "shop/orders.ibd", "shop/customers.ibd"),
    kind("partition", "shop/parts#p#p0.ibd", "shop/parts#p#p1.ibd"),
    kind("general tablespace", "roomy.ibd", "shop/orders.ibd"),
    kind("far table", "far:shop/far.ibd", "shop/orders.ibd"),
    kind("ibdata1", "ibdata1", "undo_001"),
    kind("mysql.ibd", "mysql.ibd", "ibdata1"),
    kind("undo", "undo_001", "undo_002"),
    kind("redo", "#innodb_redo", ""),
];

const MARIADB: [Kind; 9] = [
    kind("table", "shop/orders.ibd", "shop/customers.ibd"),
    kind("partition", "shop/parts#P#p0.ibd", "shop/parts#P#p1.ibd"),
    kind("far table", "far:shop/far.ibd", "shop/orders.ibd"),
    kind(".frm", "shop/orders.frm", "shop/words.frm"),
    kind(".par", "shop/parts.par", "shop/subparts.par"),
    kind(".isl", "shop/far.isl", ""),
    kind("ibdata1", "ibdata1", "undo001"),
    kind("undo", "undo001", "undo002"),
    kind("redo", "ib_logfile0", "ibdata1"),
];

const WAYS: [&str; 7] = ["removed", "swapped", "older", "newer", "another server's", "truncated", "renamed"];

pub struct Cell {
    pub kind: &'static str,
    pub way: &'static str,
    file: &'static str,
    other: &'static str,
}

/// The cells of a server.
pub fn all(server: &str) -> Vec<Cell> {
    let kinds: &[Kind] = if server == "mysql" { &MYSQL } else { &MARIADB };
    let cells = kinds
        .iter()
        .flat_map(|kind| WAYS.iter().map(|way| Cell { kind: kind.name, way, file: kind.file, other: kind.other }));
    // A log of several files, or the only link, has nothing to be swapped with.
    cells.filter(|cell| cell.way != "swapped" || !cell.other.is_empty()).collect()
}

impl Cell {
    /// Damages the lab's datadir as the cell says.
    pub fn act(&self, lab: &Lab) {
        let here = |name: &str| match name.strip_prefix("far:") {
            Some(name) => lab.far().join(name),
            None => lab.data().join(name),
        };
        let there = |age: Age| match self.file.strip_prefix("far:") {
            Some(name) => lab.of(age).with_extension("far").join(name),
            None => lab.of(age).join(self.file),
        };
        let path = here(self.file);
        match self.way {
            "removed" => remove(&path),
            "swapped" => {
                let (other, aside) = (here(self.other), lab.data().join("aside"));
                fs::rename(&path, &aside).expect("moved");
                fs::rename(&other, &path).expect("moved");
                fs::rename(&aside, &other).expect("moved");
            }
            "older" => replace(&there(Age::Old), &path),
            "newer" => replace(&there(Age::New), &path),
            "another server's" => replace(&there(Age::Other), &path),
            "truncated" => cut(&path),
            _ => {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                // Set aside as people do it: under another name with the same extension.
                fs::rename(&path, path.with_file_name(format!("old_{name}"))).expect("moved");
            }
        }
    }
}

fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
}

fn replace(from: &Path, to: &Path) {
    remove(to);
    copy(from, to);
}

/// Cuts off the second half of a file; of a log, that of the file in use.
fn cut(path: &Path) {
    let file = if path.is_dir() {
        let used = |path: &PathBuf| !path.to_string_lossy().ends_with("_tmp");
        let files = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
        files.filter(used).max().expect("a log")
    } else {
        path.to_path_buf()
    };
    let len = fs::metadata(&file).expect("it is there").len();
    fs::OpenOptions::new().write(true).open(&file).expect("opens").set_len(len / 2 / 16384 * 16384).expect("cut");
}
