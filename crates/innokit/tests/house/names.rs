//! Within a crate, a type's name means one thing.
//!
//! Counted are the names of types that other files of the crate can see. Names of the same thing for two systems or two vendors do not count,
//! nor those of a format's module, which are always written with it (`tar::Event`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::common::repository;

/// Names that may stand twice in a crate, and why.
const MAY: [(&str, &[&str], &str); 4] = [
    ("flow", &["Nodes", "PageCache", "IoPriority"], "the same for a system without it"),
    (
        "logs",
        &["Error", "Event", "Parser", "Page", "Verifier", "Header", "Verdict", "Corruption", "Summary"],
        "each module is a format, and its names are written with it",
    ),
    ("recovery", &["Result"], "each job's alias for its own error"),
    (
        "redo",
        &["SegmentHeader", "Segment", "LogFile", "MtrReader", "Change", "Records", "Cursor"],
        "the same for the other vendor",
    ),
];

/// The share of names with two meanings, in thousandths: it may only fall.
const TWICE_MAX: usize = 25;

/// Adds the types that a file defines for others.
fn add(path: &Path, names: &mut BTreeMap<String, BTreeSet<String>>) {
    let text = fs::read_to_string(path).expect("a source");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    for line in code.lines().map(str::trim).filter(|line| line.starts_with("pub")) {
        let words: Vec<&str> = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
        let kinds = ["struct", "enum", "trait", "union", "type"];
        let Some(at) = words.iter().position(|word| kinds.contains(word)) else { continue };
        let between = ["pub", "in", "super", "crate", "self", "recover", "unsafe", ""];
        if words[..at].iter().all(|word| between.contains(word)) {
            names.entry(words[at + 1].to_owned()).or_default().insert(path.display().to_string());
        }
    }
}

fn add_all(folder: &Path, names: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_all(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            add(&path, names);
        }
    }
}

#[test]
fn few_names_mean_two_things_in_a_crate() {
    let (mut all, mut twice) = (0, Vec::new());
    for entry in fs::read_dir(repository().join("crates")).expect("the crates") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        let mut names = BTreeMap::new();
        add_all(&folder.join("src"), &mut names);
        all += names.len();
        let may: Vec<&str> =
            MAY.iter().filter(|(of, ..)| *of == name).flat_map(|(_, names, _)| *names).copied().collect();
        for listed in &may {
            assert!(
                names.get(*listed).is_some_and(|files| files.len() > 1),
                "{name}: {listed} stands once, take it out"
            );
        }
        let is_free = |found: &(&String, &BTreeSet<String>)| found.1.len() > 1 && !may.contains(&found.0.as_str());
        twice.extend(names.iter().filter(is_free).map(|(found, _)| format!("{name}::{found}")));
    }
    assert!(all > 1000, "only {all} names were found");
    println!("{} of {all}: {}", twice.len(), twice.join(" "));
    let most = all * TWICE_MAX / 1000;
    assert!(twice.len() <= most, "{} of {all} mean two things, more than {most}:\n{}", twice.len(), twice.join("\n"));
}
