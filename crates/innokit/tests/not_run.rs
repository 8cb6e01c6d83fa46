//! Prints how many tests `cargo test` leaves to `make test`. It has no harness, so its output is visible.
#![allow(clippy::expect_used, reason = "a test that cannot read its own sources fails")]

use std::fs;
use std::path::{Path, PathBuf};

/// The attribute of tests that need real servers, without its closing bracket.
const MARK: &str = "#[cfg_attr(not(servers), ignore";

fn main() {
    // Tools that list tests expect no other lines.
    if cfg!(servers) || std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let marked: usize = entries(&crates).iter().map(|one| marks(&one.join("tests"))).sum();
    assert!(marked > 0, "no test needs real servers?");
    println!("not run: {marked} tests need `make test`");
}

/// Counts the marked tests in all sources below `dir`. This file mentions the mark only in quotes, not at the start of a line.
fn marks(dir: &Path) -> usize {
    let of = |path: &PathBuf| match path.extension() {
        Some(extension) if extension == "rs" => {
            let source = fs::read_to_string(path).expect("a source file");
            source.lines().filter(|line| line.trim_start().starts_with(MARK)).count()
        }
        _ => marks(path),
    };
    entries(dir).iter().map(of).sum()
}

/// The entries of `dir`; none if it is not a directory.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}
