//! `--database` and `--table`, on every command that takes a directory.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::path::Path;

use serde_json::Value;

use crate::common::{Dir, fixture, innokit};

fn run(words: &[&str], path: &Path) -> (String, Option<i32>) {
    let output = innokit().args(words).arg(path).output().expect("innokit runs");
    (String::from_utf8(output.stdout).expect("UTF-8"), output.status.code())
}

/// Three databases with three tables each.
fn shops() -> Dir {
    let dir = Dir::new();
    let table = fixture("mysql-9.7/dynamic-4k.ibd");
    for database in ["shop", "shop@002dold", "stock"] {
        for name in ["items", "orders", "orders@002ditems"] {
            dir.file(&format!("data/{database}/{name}.ibd"), &table);
        }
    }
    dir
}

#[test]
fn patterns_select_files_by_the_names_of_their_tables() {
    let dir = shops();
    let data = dir.path().join("data");
    let commands: [&[&str]; 5] =
        [&["check"], &["check", "--level", "structure"], &["table", "check"], &["table", "count"], &["info"]];
    for command in commands {
        let files = |words: &[&str], path: &Path| -> Vec<String> {
            let (text, _) = run(&[command, &["--json"], words].concat(), path);
            let document: Value = serde_json::from_str(&text).expect("JSON");
            let files = document["files"].as_array().expect("files");
            let name = |file: &Value| {
                let path = Path::new(file["path"].as_str().expect("a path")).strip_prefix(&data).map(Path::to_path_buf);
                path.expect("below the directory").display().to_string()
            };
            files.iter().map(name).collect()
        };
        assert_eq!(files(&[], &data).len(), 9, "{command:?}");
        let of_shop = ["shop/items.ibd", "shop/orders.ibd", "shop/orders@002ditems.ibd"];
        assert_eq!(files(&["--database", "shop"], &data), of_shop, "{command:?}");
        let orders = ["shop/orders.ibd", "shop@002dold/orders.ibd"];
        assert_eq!(files(&["--database", "shop*", "--table", "orders"], &data), orders, "{command:?}");
        let two = ["shop@002dold/orders@002ditems.ibd", "stock/items.ibd"];
        assert_eq!(files(&["--table", "shop-old.*-items", "--table", "stock.item?"], &data), two, "{command:?}");
        // What is named itself is taken, whatever is in the patterns.
        let named = data.join("stock/items.ibd");
        assert_eq!(files(&["--database", "shop"], &named), ["stock/items.ibd"], "{command:?}");
    }
}

#[test]
fn patterns_select_the_tables_whose_rows_or_definitions_are_read() {
    let dir = shops();
    let data = dir.path().join("data");
    let one = ["--database", "shop", "--table", "orders"];
    let (text, status) = run(&[&["table", "checksum", "--json"][..], &one].concat(), &data);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, document["tables"].as_array().map(Vec::len)), (Some(0), Some(1)), "{text}");
    // The 180 rows of the table: see `info.rs`.
    let (text, status) = run(&[&["table", "export", "--format", "jsonl"][..], &one].concat(), &data);
    assert_eq!((status, text.lines().count()), (Some(0), 180));
    let (text, status) = run(&[&["table", "schema"][..], &one].concat(), &data);
    assert_eq!((status, text.matches("CREATE TABLE").count()), (Some(0), 1), "{text}");
}

#[test]
fn patterns_without_a_match_are_no_good_news() {
    let dir = shops();
    let data = dir.path().join("data");
    for command in [&["check"][..], &["table", "check"], &["table", "count"], &["info"], &["table", "schema"]] {
        let (text, status) = run(&[command, &["--database", "none*"]].concat(), &data);
        assert_eq!(status, Some(2), "{command:?}: {text}");
    }
    let output = innokit().args(["check", "--table", "a", "-"]).output().expect("innokit runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard input"), "{output:?}");
}
