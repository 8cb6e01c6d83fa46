//! Files of a set, and beneath a target, are made, opened for writing, renamed and removed through the door (`crates/recovery/src/door.rs`). What is
//! still done by path stands here with its reason: a new place shows in this test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::repository;

/// How the standard library changes files by path.
const CHANGES: [&str; 13] = [
    "fs::write(",
    "fs::copy(",
    "fs::rename(",
    "fs::remove_file(",
    "fs::remove_dir(",
    "fs::remove_dir_all(",
    "fs::create_dir",
    "File::create",
    "File::options(",
    "OpenOptions::new(",
    "DirBuilder::new(",
    "chown(",
    "set_permissions(path",
];

/// The files of `crates/recovery/src` in which something is changed by path, how many times, and why that is no hole.
const BY_PATH: [(&str, usize, &str); 22] = [
    (
        "archive/definitions.rs",
        3,
        "folders and files in the archive, which is innokit's own and 0700 if innokit made it",
    ),
    ("archive/marks.rs", 2, "a folder in the archive, which is innokit's own and 0700 if innokit made it"),
    ("archive/mod.rs", 1, "the folder that the user named"),
    ("archive/mysql/writer.rs", 1, "ZeroedFile removes what has the name and makes it with O_EXCL"),
    ("archive/writer.rs", 1, "the same"),
    ("backup/chain.rs", 1, "the folder that the user named"),
    ("backup/mod.rs", 4, "the folder that the user named, and the staging folder in it"),
    ("backup/mysql/mod.rs", 1, "from the staging folder of this run into one that it has just made"),
    ("backup/proof.rs", 1, "a folder that this run has made; remove_dir_all follows no link"),
    ("backup/tablespaces.rs", 2, "copies in the staging folder of this run"),
    ("innochecksum/input.rs", 1, "the file that the user named"),
    ("innochecksum/writer.rs", 1, "the journal beside it; a link is removed itself"),
    ("recover/foreign/backup.rs", 1, "the folder of the log; remove_dir_all follows no link"),
    ("recover/finish/definition_files.rs", 1, "an empty folder of the copy; a link is no folder to rmdir"),
    (
        "recover/place/durable.rs",
        1,
        "folders on the way to the target that the user named, or outside with --with-outside",
    ),
    ("recover/increments/put.rs", 1, "an empty folder; a link is no folder to rmdir"),
    ("recover/run/nearest.rs", 2, "a folder that this run has made; remove_dir_all follows no link"),
    ("recover/replay/reach.rs", 2, "outside of the datadir, only with --with-outside"),
    ("recover/place/unfinished.rs", 3, "a copy that this run has made; remove_dir_all follows no link"),
    ("restore/moving.rs", 6, "the folders that the user named, and an empty one beside them"),
    ("unpack/target.rs", 2, "the folder that the user named"),
    ("door.rs", 0, "the door itself, which is not looked at"),
];

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

fn start_of_tests(text: &str) -> usize {
    let mut marks = text.match_indices("#[cfg(test)]").map(|(at, _)| at);
    marks.find(|at| text[*at..].lines().take(3).any(|line| line.contains("mod tests"))).unwrap_or(text.len())
}

/// How many times each file of a crate changes something by path, outside of tests.
fn changes_in(name: &str) -> BTreeMap<String, usize> {
    let root = repository().join("crates").join(name).join("src");
    let mut found = BTreeMap::new();
    for path in sources(&root) {
        let name = path.strip_prefix(&root).expect("below").display().to_string();
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.get(..start_of_tests(&text)).expect("a boundary");
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let count: usize =
            lines.map(|line| CHANGES.iter().map(|change| line.matches(change).count()).sum::<usize>()).sum();
        if count > 0 && !name.ends_with("tests.rs") {
            found.insert(name, count);
        }
    }
    found
}

#[test]
fn files_are_changed_by_path_only_where_a_reason_is_given() {
    let mut found = changes_in("recovery");
    found.remove("door.rs");
    let known: BTreeMap<String, usize> = BY_PATH
        .iter()
        .filter(|(_, count, _)| *count > 0)
        .map(|(name, count, _)| ((*name).to_owned(), *count))
        .collect();
    assert_eq!(found, known, "go through crates/recovery/src/door.rs, or give the reason in this test");
}

#[test]
fn what_inspects_changes_nothing() {
    for name in ["datadir", "inspect"] {
        assert_eq!(changes_in(name), BTreeMap::new(), "{name}: it reads only; what writes belongs in recovery");
        let manifest =
            fs::read_to_string(repository().join("crates").join(name).join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = manifest.parse().expect("TOML");
        let dependencies = manifest["dependencies"].as_table().expect("dependencies");
        assert!(!dependencies.contains_key("recovery"), "{name}: the door to write through is in recovery");
    }
}
