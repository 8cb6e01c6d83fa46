//! Each crate can be published: it has what a registry asks for, and needs no file outside its folder.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::common::repository;

fn manifest(path: &Path) -> toml::Table {
    fs::read_to_string(path).expect("a manifest").parse().expect("TOML")
}

/// The folders of the published workspace members.
fn crates() -> Vec<PathBuf> {
    let workspace = manifest(&repository().join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().expect("members").iter();
    let folders: Vec<PathBuf> = members.map(|member| repository().join(member.as_str().expect("text"))).collect();
    let is_published = |folder: &PathBuf| {
        let package = &manifest(&folder.join("Cargo.toml"))["package"];
        package.get("publish").and_then(toml::Value::as_bool) != Some(false)
    };
    let folders: Vec<PathBuf> = folders.into_iter().filter(is_published).collect();
    assert!(folders.len() >= 7, "{folders:?}");
    folders
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn each_crate_says_what_it_is() {
    for folder in crates() {
        let package = manifest(&folder.join("Cargo.toml"))["package"].clone();
        let name = package["name"].as_str().expect("a name").to_owned();
        assert!(package["description"].as_str().is_some_and(|words| words.len() > 20), "{name}: description");
        let readme = package["readme"].as_str().unwrap_or_else(|| panic!("{name}: readme"));
        assert!(fs::read_to_string(folder.join(readme)).is_ok_and(|text| text.contains(&name)), "{name}: README.md");
        for (list, most) in [("keywords", 20), ("categories", 64)] {
            let words = package[list].as_array().unwrap_or_else(|| panic!("{name}: {list}"));
            let is_good = |word: &toml::Value| word.as_str().is_some_and(|word| (2..=most).contains(&word.len()));
            assert!((1..=5).contains(&words.len()) && words.iter().all(is_good), "{name}: {list}");
        }
    }
}

#[test]
fn crates_name_the_versions_of_each_other() {
    let workspace = manifest(&repository().join("Cargo.toml"))["workspace"].clone();
    let version = &workspace["package"]["version"];
    let inner: Vec<_> = workspace["dependencies"].as_table().expect("a table").iter().collect();
    let inner = inner.into_iter().filter(|(_, dependency)| dependency.get("path").is_some());
    let mut count = 0;
    for (name, dependency) in inner {
        assert_eq!(dependency.get("version"), Some(version), "{name}");
        count += 1;
    }
    assert!(count >= 6);
}

#[test]
fn each_library_has_an_example() {
    for folder in crates().into_iter().filter(|folder| folder.join("src/lib.rs").exists()) {
        assert!(!sources(&folder.join("examples")).is_empty(), "{}", folder.display());
    }
}

#[test]
fn no_source_includes_a_file_outside_of_its_crate() {
    let mut count = 0;
    for folder in crates() {
        for source in sources(&folder.join("src")) {
            let Ok(text) = fs::read_to_string(&source) else { continue };
            let included =
                ["include_bytes!(\"", "include_str!(\""].into_iter().flat_map(|call| text.split(call).skip(1));
            for path in included.filter_map(|rest| rest.split('"').next()) {
                let below = source.strip_prefix(&folder).expect("below it").parent().expect("a folder");
                let depth = below.join(path).components().fold(0_i32, |depth, part| match part {
                    Component::ParentDir if depth < 0 => depth,
                    Component::ParentDir => depth - 1,
                    _ if depth < 0 => depth,
                    _ => depth + 1,
                });
                assert!(depth >= 0, "{}: {path}", source.display());
                count += 1;
            }
        }
    }
    assert!(count >= 9, "only {count} were found");
}

#[test]
fn the_sample_is_two_of_the_fixtures() {
    for (sample, server) in [("mysql", "mysql-9.7"), ("mariadb", "mariadb-10.11")] {
        let read = |path: String| fs::read(repository().join(path)).expect("a file");
        let fixture = read(format!("fixtures/{server}/dynamic-16k.ibd.zst"));
        assert!(read(format!("crates/innokit/sample/{sample}.ibd.zst")) == fixture, "{sample}");
    }
}

#[test]
fn the_command_prints_through_one_door() {
    let mut beside = Vec::new();
    // A terminal does what the names in a set tell it to, unless `terminal.rs` has escaped them.
    let is_door = |path: &PathBuf| path.file_name().is_some_and(|name| name == "terminal.rs");
    for path in sources(&repository().join("crates/innokit/src")).into_iter().filter(|path| !is_door(path)) {
        let prints =
            |line: &&str| ["io::stdout()", "io::stderr()", "print!(", "println!("].iter().any(|way| line.contains(way));
        let is_look = |line: &str| line.contains("is_terminal()") || line.contains("flush()");
        let text = fs::read_to_string(&path).expect("UTF-8");
        let lines = text.lines().filter(|line| !is_look(line)).filter(prints);
        beside.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
    }
    assert!(beside.is_empty(), "print through crates/innokit/src/terminal.rs:\n{}", beside.join("\n"));
}
