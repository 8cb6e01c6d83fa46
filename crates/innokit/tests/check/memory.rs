//! Memory does not grow with the data.

use std::fs::OpenOptions;
use std::io::BufRead;
use std::process::Stdio;

use crate::common::{Dir, fixture};

const LIMIT_MIB: u64 = 200;

/// Limit for `table check` on any table, MiB.
const TABLE_LIMIT_MIB: u64 = 256;

/// Limit for `table export` on any table, MiB.
const ROWS_LIMIT_MIB: u64 = 512;

/// Checks a file with the defaults. Returns the process's peak resident memory in MiB, which it reports from the kernel's count.
fn peak_of(path: &std::path::Path) -> (u64, String) {
    peak(&["check", "--verbose"], path)
}

fn peak(arguments: &[&str], path: &std::path::Path) -> (u64, String) {
    let output =
        crate::common::innokit().args(arguments).arg(path).stdout(Stdio::piped()).output().expect("innokit runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = output.stderr.lines().map_while(Result::ok).find(|line| line.contains("peak memory")).expect(&errors);
    let number = line.split("peak memory ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    (number.parse().expect("MiB"), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[cfg_attr(not(servers), ignore = "takes minutes: make test")]
fn a_file_of_64_gib_takes_less_than_200_mib() {
    let dir = Dir::new();
    let path = dir.file("large.ibd", &fixture("mysql-9.7/zip-1k.ibd"));
    OpenOptions::new().write(true).open(&path).expect("opens").set_len(64 << 30).expect("a sparse file");
    let (peak, text) = peak_of(&path);
    assert!(text.contains("all well"), "{text}");
    assert!(text.contains("68,719,476,736"), "{text}");
    assert!(peak < LIMIT_MIB, "{peak} MiB");
}

#[test]
fn damage_on_every_page_takes_less_than_200_mib() {
    let dir = Dir::new();
    let page = fixture("mysql-9.7/dynamic-4k.ibd")[5 * 4096..6 * 4096].to_vec();
    let mut bytes = fixture("mysql-9.7/dynamic-4k.ibd");
    while bytes.len() < 512 << 20 {
        bytes.extend_from_slice(&page);
    }
    let (peak, text) = peak_of(&dir.file("wrecked.ibd", &bytes));
    assert!(text.contains("DAMAGE FOUND"), "{text}");
    assert!(peak < LIMIT_MIB, "{peak} MiB");
}

/// Rows are read in ranges, each page once, and output that waits for its turn is bounded.
#[test]
fn rows_of_a_table_take_less_than_512_mib_and_each_page_is_read_once() {
    let dir = Dir::new();
    let path = dir.file("scattered.ibd", &fixture("scattered/scattered-16k.ibd"));
    let len = std::fs::metadata(&path).expect("there").len();
    for threads in ["1", "16"] {
        let arguments = ["table", "export", "--verbose", "--format", "jsonl", "--threads", threads];
        let (peak, text) = peak(&arguments, &path);
        assert_eq!(text.lines().count(), 10_000, "{threads}");
        assert!(peak < ROWS_LIMIT_MIB, "{peak} MiB with {threads} threads");
        let sums =
            crate::common::innokit().args(["table", "checksum", "--json", "--threads", threads]).arg(&path).output();
        let sums: serde_json::Value = serde_json::from_slice(&sums.expect("innokit runs").stdout).expect("JSON");
        let bytes = sums["bytes"].as_u64().expect("a number");
        assert!(bytes <= len, "{bytes} bytes of {len} with {threads} threads");
    }
}

/// Leaves are read in file order, with all parents in memory, and in key order.
#[test]
fn a_scattered_table_takes_less_than_256_mib_in_any_order() {
    let dir = Dir::new();
    let path = dir.file("scattered.ibd", &fixture("scattered/scattered-16k.ibd"));
    for ahead in ["logical", "none"] {
        for threads in ["1", "64"] {
            let options = ["table", "check", "--verbose", "--threads", threads, "--read-ahead", ahead];
            let (peak, text) = peak(&options, &path);
            assert!(text.contains("all well") && text.contains("20,002 entries"), "{text}");
            assert!(peak < TABLE_LIMIT_MIB, "{peak} MiB with {threads} threads, {ahead}");
        }
    }
}
