//! The map leads somewhere: each question of ARCHITECTURE.md names a file and an item that is defined in it, and every path in the maps exists.

use std::fs;
use std::path::Path;

use crate::common::repository;

/// The maps: ARCHITECTURE.md, CONTRIBUTING.md, and the page of each crate.
fn maps() -> Vec<(String, String)> {
    let mut names = vec!["ARCHITECTURE.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in fs::read_dir(repository().join("crates")).expect("the crates") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        names.push(format!("crates/{name}/README.md"));
    }
    names.sort();
    names.retain(|name| repository().join(name).exists());
    names
        .into_iter()
        .map(|name| (fs::read_to_string(repository().join(&name)).expect("a page"), name))
        .map(|(text, name)| (name, text))
        .collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn is_path(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/_.-".contains(letter);
    let is_of_us = ["crates/", "python/", "docs/", "scripts/", "fixtures/", "fuzz/", "contrib/"];
    word.chars().all(is_plain) && is_of_us.iter().any(|folder| word.starts_with(folder) && word.len() > folder.len())
}

/// Rows of the table below a heading.
fn rows<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// Whether the source defines the item.
fn defines(source: &str, item: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "const", "type"];
    let is_followed = |rest: &str| rest.starts_with(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let has = |kind: &&str| source.split(&format!("{kind} {item}")).skip(1).any(is_followed);
    kinds.iter().any(has) || source.contains(&format!("    {item}(found, expected):"))
}

/// What is wrong with a row of the questions.
fn fault(row: &[&str]) -> Option<String> {
    let [question, files, item] = row else { return Some(format!("{row:?}: not three columns")) };
    let (files, item) = (quoted(files), quoted(item));
    let Some(first) = files.first().filter(|first| Path::new(first).extension().is_some()) else {
        return Some(format!("{question}: no file"));
    };
    let Ok(source) = fs::read_to_string(repository().join(first)) else {
        return Some(format!("{question}: no {first}"));
    };
    match item.as_slice() {
        [item] if defines(&source, item) => None,
        _ => Some(format!("{question}: {first} does not define {item:?}")),
    }
}

#[test]
fn a_newcomers_questions_are_answered_in_two_steps() {
    let map = fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("the map");
    let rows = rows(&map, "## Twelve questions");
    assert_eq!(rows.len(), 12, "{rows:?}");
    let faults: Vec<String> = rows.iter().filter_map(|row| fault(row)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let about = [
        "torn page",
        "page_compressed",
        "exit status 2",
        "column type",
        "S3",
        "copy again",
        "doublewrite",
        "group commit",
        "wait for",
        "rule",
        "version",
        "escaped",
    ];
    for (row, word) in rows.iter().zip(about) {
        assert!(row[0].contains(word), "{} is not about `{word}`", row[0]);
    }
}

#[test]
fn a_question_that_leads_nowhere_is_found() {
    let outcome = "`crates/datadir/src/outcome.rs`";
    assert_eq!(fault(&["What?", outcome, "`Outcome`"]), None);
    for row in
        [["What?", outcome, "`Outcom`"], ["What?", "`crates/datadir/src/gone.rs`", "`Outcome`"], ["What?", "", ""]]
    {
        assert!(fault(&row).is_some(), "{row:?}");
    }
}

#[test]
fn every_path_in_the_maps_exists() {
    let maps = maps();
    let paths = maps.iter().flat_map(|(map, text)| quoted(text).into_iter().map(move |path| (map, path)));
    let paths: Vec<_> = paths.filter(|(_, path)| is_path(path)).collect();
    assert!(paths.len() > 300, "only {} paths were found", paths.len());
    let lost = paths.iter().filter(|(_, path)| !repository().join(path).exists());
    let lost: Vec<String> = lost.map(|(map, path)| format!("{map}: {path}")).collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

#[test]
fn the_map_stays_two_pages() {
    let map = fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("the map");
    assert!(map.lines().count() <= 140, "{} lines: a journey belongs to its crate's README.md", map.lines().count());
}
