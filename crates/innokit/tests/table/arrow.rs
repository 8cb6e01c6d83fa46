//! Parquet and Arrow files: what a build without the feature says, and what one with it does. `rows_servers.rs` shows that other readers
//! get the same values from them.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use crate::common::{Dir, Run, fixture, innokit};

fn export(format: &str) -> (Run, Dir) {
    let dir = Dir::new();
    let table = dir.file("t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let mut command = innokit();
    command.args(["table", "export", "--format", format, "-o"]).arg(dir.path().join("out")).arg(table);
    (Run::of(&command.output().expect("innokit runs")), dir)
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so_and_writes_nothing() {
    for format in ["parquet", "arrow"] {
        let (run, dir) = export(format);
        assert_eq!(run.status, 2);
        assert!(
            run.errors.contains("this build has no Parquet and no Arrow: build with --features parquet"),
            "{}",
            run.errors
        );
        assert!(!dir.path().join("out").exists());
    }
}

#[cfg(feature = "parquet")]
#[test]
fn files_begin_and_end_as_their_formats_do() {
    for (format, magic) in [("parquet", b"PAR1".as_slice()), ("arrow", b"ARROW1")] {
        let (run, dir) = export(format);
        assert_eq!((run.status, run.errors.as_str()), (0, ""));
        let bytes = std::fs::read(dir.path().join("out")).expect("written");
        assert!(bytes.starts_with(magic) && bytes.ends_with(magic) && bytes.len() > 1000, "{} bytes", bytes.len());
    }
}
