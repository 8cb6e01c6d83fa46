//! The report on tables is the same for any number of workers, with even the smallest trees divided among them.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::path::PathBuf;

use inspect::{TableOptions, TableReport};

/// One worker's report, after two and eight workers gave the same.
pub fn report_on(paths: &[PathBuf], options: &TableOptions) -> TableReport {
    let by = |workers, shared_leaves_min| {
        let options = TableOptions { workers, shared_leaves_min, ..options.clone() };
        inspect::tables(paths, &options).expect("a report")
    };
    let alone = by(1, TableOptions::default().shared_leaves_min);
    let expected = told(&alone);
    for workers in [2, 8] {
        assert_eq!(told(&by(workers, 1)), expected, "{workers} workers");
    }
    alone
}

/// A report without its times.
pub fn told(report: &TableReport) -> serde_json::Value {
    let mut report = report.clone();
    report.totals.seconds = 0.0;
    for index in report.files.iter_mut().flat_map(|file| &mut file.indexes) {
        index.seconds = 0.0;
    }
    serde_json::to_value(report).expect("JSON")
}
