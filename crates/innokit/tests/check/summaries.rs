//! Of many tables or findings the text has a summary, or the first ones, and says how to get the rest.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::path::Path;

use serde_json::Value;

use crate::common::{Dir, fixture, innokit};

fn text(words: &[&str], path: &Path) -> (String, Option<i32>) {
    let output = innokit().args(words).arg(path).output().expect("innokit runs");
    (String::from_utf8(output.stdout).expect("UTF-8"), output.status.code())
}

#[test]
fn a_count_of_many_indexes_begins_with_a_summary() {
    let dir = Dir::new();
    let table = fixture("mysql-9.7/dynamic-4k.ibd");
    let few = dir.file("few/shop/t.ibd", &table);
    for number in 0..70 {
        dir.file(&format!("data/d{}/t{number}.ibd", number % 7), &table);
    }
    // The 180 rows of one table: see `info.rs`. Each file has three indexes, and that of its dictionary information.
    let (one, _) = text(&["table", "count"], few.parent().expect("a folder"));
    assert_eq!(one.lines().filter(|line| line.contains(" 180 rows")).count(), 3, "{one}");
    let data = dir.path().join("data");
    let (short, status) = text(&["table", "count"], &data);
    assert_eq!(status, Some(0), "{short}");
    assert!(short.lines().count() < 20 && short.contains("12,600 rows, 210 indexes"), "{short}");
    assert!(short.contains("--all") && short.contains("fx"), "{short}");
    let (long, _) = text(&["table", "count", "--all"], &data);
    assert_eq!(long.lines().filter(|line| line.contains(" 180 rows")).count(), 210);
}

#[test]
fn of_many_findings_the_first_are_printed_and_the_others_counted() {
    let dir = Dir::new();
    for number in 0..120 {
        dir.file(&format!("data/d/t{number:03}.ibd"), b"not a tablespace");
    }
    let data = dir.path().join("data");
    for command in [&["check"][..], &["table", "check"], &["table", "count"]] {
        let named = |text: &str| text.lines().filter(|line| line.contains(".ibd: ")).count();
        let (short, status) = text(command, &data);
        assert_ne!(status, Some(0), "{command:?}: {short}");
        assert_eq!(named(&short), 100, "{command:?}: {short}");
        assert!(short.contains("... and 20 more ") && short.contains("(--all prints them)"), "{command:?}: {short}");
        let all = [command, &["--all"]].concat();
        assert_eq!(named(&text(&all, &data).0), 120, "{command:?}");
        let json: Value = serde_json::from_str(&text(&[command, &["--json"]].concat(), &data).0).expect("JSON");
        assert_eq!(json["files"].as_array().map(Vec::len), Some(120), "{command:?}");
    }
}
