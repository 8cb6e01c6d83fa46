//! Runs of `innokit bench`, and what is read from their documents.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::innokit;

/// Arguments of `bench device`: everything that the test is not about is fixed, which leaves a handful of measurements.
pub const DEVICE: [&str; 5] = ["device", "--size=4M", "--seconds=0.01", "--engine=threads", "--block-size=64K"];

/// A directory on the file system of the build rather than in memory: benches want a block device if there is one.
pub fn dir() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory")
}

pub fn bench(arguments: &[&str], path: &Path) -> Output {
    innokit().arg("bench").args(arguments).arg(path).output().expect("innokit runs")
}

pub fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub fn entries(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("is there");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn rows<'v>(document: &'v Value, list: &str) -> &'v Vec<Value> {
    document[list].as_array().unwrap_or_else(|| panic!("no list {list}"))
}

/// Asserts that this is a rate, measured `times` times.
pub fn is_rate(rate: &Value, times: usize) {
    let values: Vec<f64> = rate["values"].as_array().expect("values").iter().filter_map(Value::as_f64).collect();
    assert!(values.len() >= times && values.iter().all(|value| *value > 0.0), "{rate}");
    let of = |name: &str| rate[name].as_f64().expect("a number");
    assert!(of("low") <= of("median") && of("median") <= of("high"), "{rate}");
}
