//! `innokit recover` on a datadir that a killed server left, and on what is none.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::path::Path;

use common::{all_datadirs, innokit};
use serde_json::Value;
use tempfile::TempDir;

/// Standard output, standard error, exit status.
fn recover(datadir: &Path, options: &[&str]) -> (String, String, Option<i32>) {
    let output = innokit().arg("recover").args(options).arg(datadir).output().expect("innokit runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_copy_is_recovered_once_and_is_clean_then() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let dir = TempDir::new().expect("a directory");
    let copy = dir.path().join("copy");
    let to = copy.to_str().expect("a name");
    let (text, errors, status) = recover(&crashed, &["--dry-run"]);
    assert!(status == Some(0) && text.contains("would be changed"), "{text}{errors}");
    let (text, errors, status) = recover(&crashed, &["--to", to, "--json"]);
    assert_eq!(status, Some(0), "{errors}");
    let done: Value = serde_json::from_str(&text).expect("JSON");
    assert!(done["pages_changed"].as_u64() > Some(0) && done["was_clean"] == false, "{text}");
    let (text, errors, status) = recover(&copy, &[]);
    assert!(status == Some(0) && text.starts_with("nothing to recover"), "{text}{errors}");
    let (_, errors, status) = recover(&crashed, &["--to", to]);
    assert!(status == Some(2) && errors.contains("something"), "{errors}");
}

#[test]
fn it_takes_no_more_memory_than_it_may() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let dir = TempDir::new().expect("a directory");
    let to = dir.path().join("copy");
    for options in [vec!["--dry-run"], vec!["--to", to.to_str().expect("a name")]] {
        let (text, errors, status) = recover(&crashed, &[&options[..], &["--verbose", "--memory", "64M"]].concat());
        assert_eq!(status, Some(0), "{text}{errors}");
        let peak = errors.split("peak memory ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
        let peak: u64 = peak.parse().expect("MiB");
        assert!(peak <= 64, "{errors}");
    }
}

#[test]
fn what_is_not_recovered_is_refused_with_a_reason() {
    let dir = TempDir::new().expect("a directory");
    let made = all_datadirs();
    for (datadir, why) in [
        (dir.path().to_path_buf(), "no datadir"),
        (made.join("mysql-16k-crashed"), "datadir"),
        (made.join("mariadb-16k-enc"), "encrypted"),
        (made.join("mariadb-16k-crc32-enc"), "encrypted"),
    ] {
        let (text, errors, status) = recover(&datadir, &["--dry-run"]);
        assert!(status == Some(2) && errors.contains(why) && text.is_empty(), "{text}{errors}");
    }
}
