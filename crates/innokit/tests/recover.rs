//! `innokit recover` on a datadir that a killed server left, and on what is none.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Dir, all_datadirs, innokit, keys_of};
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
    let (_, errors, status) = recover(&crashed, &["--dry-run", "--until", "1"]);
    assert!(status == Some(2) && errors.contains("checkpoint"), "{errors}");
    let (text, errors, status) = recover(&crashed, &["--dry-run", "--until", &u64::MAX.to_string(), "--json"]);
    assert_eq!(status, Some(0), "{errors}");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    assert!(all["end_lsn"] == done["end_lsn"] && all["mtrs_dropped"] == 0, "{text}");
    let (_, errors, status) = recover(&crashed, &["--to", to]);
    assert!(status == Some(2) && errors.contains("something"), "{errors}");
}

#[test]
fn an_encrypted_datadir_is_read_with_its_key_file_plain_or_encrypted() {
    for name in ["mariadb-16k-enc", "mariadb-16k-crc32-enc"] {
        let keys = keys_of(name);
        let options: Vec<&str> = ["--dry-run"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let (text, errors, status) = recover(&all_datadirs().join(name), &options);
        assert!(status == Some(0) && text.starts_with("nothing to recover"), "{text}{errors}");
        let dir = Dir::new();
        let wrong = dir.file("keys", b"1;00000000000000000000000000000001\n");
        let wrong = ["--dry-run", "--key-file", wrong.to_str().expect("a name")];
        let (text, errors, status) = recover(&all_datadirs().join(name), &wrong);
        assert!(status == Some(2) && errors.contains("is it the key of this server?"), "{text}{errors}");
    }
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

#[test]
fn more_tablespaces_than_a_process_may_have_open_at_first_are_recovered() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let (text, errors, status) = recover(&crashed, &["--dry-run", "--json"]);
    assert_eq!(status, Some(0), "{errors}");
    let done: Value = serde_json::from_str(&text).expect("JSON");
    let few = done["tablespaces"].as_u64().expect("a number");
    let mut limited = Command::new("bash");
    limited.args(["-c", &format!("ulimit -Sn {few}; exec \"$0\" \"$@\"")]);
    limited.arg(env!("CARGO_BIN_EXE_innokit")).args(["recover", "--dry-run", "--json"]).arg(&crashed);
    let output = limited.output().expect("bash runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), text);
}

/// Path and bytes of every file below a directory.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path.clone(), fs::read(&path).expect("reads")));
        }
    }
    all.sort();
    all
}

#[test]
fn each_idea_of_recovery_is_measured_and_the_datadir_is_only_read() {
    let crashed = all_datadirs().join("mariadb-16k-crashed");
    let before = contents(&crashed);
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let chart = dir.path().join("recover.svg");
    let on_device = dir.path().join("device");
    fs::create_dir(&on_device).expect("a directory");
    let mut bench = innokit();
    bench.args(["bench", "recover", "--json", "--rounds=1", "--chart"]).arg(&chart);
    let output = bench.arg("--on-device").arg(&on_device).arg(&crashed).output().expect("innokit runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let steps = report["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 6);
    let number = |step: &Value, name: &str| step["simulated"][name].as_f64().expect("a number");
    let (serial, all) = (&steps[0], &steps[5]);
    assert!(number(serial, "in_flight_max") <= 1.0 && number(all, "in_flight_max") > 8.0, "{report}");
    assert!(number(all, "reads") < number(serial, "reads") / 2.0, "neighbours share a request: {report}");
    assert!(number(all, "times_serial") >= 3.0, "{report}");
    assert!(steps.iter().all(|step| step["seconds"]["median"].as_f64() > Some(0.0)), "{report}");
    roxmltree::Document::parse(&fs::read_to_string(&chart).expect("drawn")).expect("XML");
    assert_eq!(fs::read_dir(&on_device).expect("is there").count(), 0, "nothing is left behind");
    assert!(contents(&crashed) == before, "the datadir was only read");
    let clean = innokit().args(["bench", "recover"]).arg(all_datadirs().join("mariadb-16k")).output().expect("runs");
    assert_eq!(clean.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&clean.stderr).contains("nothing to recover"), "{clean:?}");
}
