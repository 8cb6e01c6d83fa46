//! `--part K/N`: the parts add up to the whole, and each damaged page is in exactly one of them. `--since-lsn`: only newer pages count.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{Dir, all_datadirs, check, check_json, fixture, manifest, total};
use serde_json::Value;

/// The totals that must add up across parts: page counts and bytes.
const SUMS: [&str; 9] =
    ["files", "pages", "ok", "empty", "corrupt", "unverifiable", "freed_damage", "missing", "bytes"];

/// A 40 MiB tablespace with 4 KiB pages in three stretches. The last two are holes except for one damaged page.
fn long_file(dir: &Dir) {
    let path = dir.file("long/t.ibd", &fixture("mysql-9.7/dynamic-4k.ibd"));
    let file = OpenOptions::new().write(true).open(path).expect("a file");
    file.set_len(40 << 20).expect("longer");
    file.write_all_at(&[0x5a; 4096], 20 << 20).expect("written");
}

fn parts(path: &Path, of: u32) -> Vec<Value> {
    let part = |number| check_json(path, &["--part", &format!("{number}/{of}")]).0;
    (1..=of).map(part).collect()
}

/// What identifies a finding.
fn told(report: &Value) -> Vec<String> {
    let finding = |finding: &Value| format!("{} {} {}", finding["path"], finding["page"], finding["reason"]);
    let mut told: Vec<String> = report["findings"].as_array().expect("findings").iter().map(finding).collect();
    told.sort();
    told
}

fn assert_parts_are_the_whole(path: &Path) {
    let (whole, _) = check_json(path, &[]);
    for of in [1, 2, 7] {
        let parts = parts(path, of);
        for name in SUMS.iter().filter(|name| **name != "files") {
            let sum: u64 = parts.iter().map(|part| total(part, name)).sum();
            assert_eq!(sum, total(&whole, name), "{name} of {} in {of} parts", path.display());
        }
        let mut found: Vec<String> = parts.iter().flat_map(told).collect();
        found.sort();
        assert_eq!(found, told(&whole), "{} in {of} parts", path.display());
        for (number, part) in (1..).zip(&parts) {
            assert_eq!(part["part"], serde_json::json!({"number": number, "of": of}));
        }
    }
}

#[test]
fn parts_of_damaged_files_are_the_whole_and_each_finding_is_in_one_of_them() {
    let dir = Dir::new();
    for entry in manifest("broken") {
        dir.file(&entry.name, &entry.bytes());
    }
    for name in ["mysql-9.7/dynamic-64k.ibd", "mariadb-10.11/zip-1k.ibd", "mysql-9.7/undo-16k.ibd"] {
        dir.file(name, &fixture(name));
    }
    long_file(&dir);
    assert_parts_are_the_whole(dir.path());
    // Every part has pages: it is not one part with everything and the rest empty.
    let pages: Vec<u64> = parts(dir.path(), 7).iter().map(|part| total(part, "pages")).collect();
    assert!(pages.iter().filter(|pages| **pages > 0).count() >= 5, "{pages:?}");
}

#[test]
fn a_long_file_is_in_several_parts_and_its_damage_in_one() {
    let dir = Dir::new();
    long_file(&dir);
    assert_parts_are_the_whole(dir.path());
    let parts = parts(dir.path(), 7);
    let read: Vec<u64> = parts.iter().map(|part| total(part, "bytes")).filter(|bytes| *bytes > 0).collect();
    let mut sorted = read.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [8 << 20, 16 << 20, 16 << 20]);
    let damaged: Vec<i64> = parts.iter().filter_map(|part| part["exit_status"].as_i64()).filter(|s| *s == 1).collect();
    assert_eq!(damaged.len(), 1);
}

#[test]
fn an_empty_part_is_well_and_says_which_part_it_is() {
    let dir = Dir::new();
    dir.file("t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let runs: Vec<_> = (1..=3).map(|number| check(dir.path(), &["--part", &format!("{number}/3")])).collect();
    let results: Vec<&str> = runs.iter().map(|run| run.text.lines().next().expect("a line")).collect();
    assert!(runs.iter().all(|run| run.status == 0), "{results:?}");
    assert_eq!(results.iter().filter(|line| line.starts_with("result  all well in part ")).count(), 1, "{results:?}");
    let empty = results.iter().filter(|line| line.starts_with("result  nothing to verify in part "));
    assert_eq!(empty.count(), 2, "{results:?}");
}

#[test]
fn what_is_no_part_is_refused() {
    let dir = Dir::new();
    dir.file("t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    for wrong in ["0/7", "8/7", "3", "3/", "a/b"] {
        let run = check(dir.path(), &["--part", wrong]);
        assert!(run.status == 2 && run.errors.contains("1/N to N/N"), "{wrong}: {}", run.errors);
    }
    let run = check(dir.path(), &["--part", "1/2", "--level", "structure"]);
    assert!(run.status == 2 && run.errors.contains("--level structure"), "{}", run.errors);
}

#[test]
fn monitoring_is_told_which_part() {
    let dir = Dir::new();
    dir.file("t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let metrics = dir.path().join("m.prom");
    check(dir.path(), &["--part", "1/1", "--metrics", metrics.to_str().expect("UTF-8")]);
    let text = fs::read_to_string(&metrics).expect("metrics");
    assert!(text.contains("innokit_check_part{of=\"1\"} 1\n"), "{text}");
    let said = check(dir.path(), &["--part", "1/1", "--nagios"]).text;
    assert!(said.contains("files verified in part 1 of 1 |"), "{said}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn parts_of_real_datadirs_are_the_whole() {
    for name in ["mariadb-4k", "mysql-4k", "mysql-16k-crashed"] {
        assert_parts_are_the_whole(&all_datadirs().join(name));
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_first_part_compares_the_whole_datadir_with_its_dictionary() {
    let dir = Dir::new();
    let datadir = dir.path().join("mysql-4k");
    crate::common::copy(&all_datadirs().join("mysql-4k"), &datadir);
    fs::remove_file(datadir.join("shop/row_compact.ibd")).expect("removed");
    let missing = |report: &Value| told(report).iter().filter(|told| told.contains("missing_file")).count();
    let found: Vec<usize> = parts(&datadir, 7).iter().map(missing).collect();
    assert_eq!(found, [1, 0, 0, 0, 0, 0, 0]);
}

/// A page's LSN.
fn lsn(bytes: &[u8], page: usize) -> u64 {
    u64::from_be_bytes(bytes[page * 16384 + 16..][..8].try_into().expect("8 bytes"))
}

#[test]
fn older_pages_are_counted_and_not_verified() {
    let dir = Dir::new();
    let mut bytes = fixture("mysql-9.7/dynamic-16k-updated.ibd");
    // Leaves sorted by LSN: damage one that is older than `since` and one that is not.
    let mut leaves: Vec<usize> = (7..bytes.len() / 16384).filter(|page| lsn(&bytes, *page) > 0).collect();
    leaves.sort_by_key(|page| lsn(&bytes, *page));
    let (old, new) = (leaves[0], leaves[leaves.len() / 2]);
    let since = lsn(&bytes, new);
    let older = (3..bytes.len() / 16384).filter(|page| (1..since).contains(&lsn(&bytes, *page))).count();
    for page in [old, new] {
        bytes[page * 16384 + 200] ^= 0xff;
    }
    let path = dir.file("t.ibd", &bytes);
    let pages = |report: &Value| -> Vec<u64> {
        let findings = report["findings"].as_array().expect("findings").iter();
        let mut pages: Vec<u64> = findings.filter_map(|finding| finding["page"].as_u64()).collect();
        pages.sort_unstable();
        pages
    };
    let (whole, _) = check_json(&path, &[]);
    let mut both = [old as u64, new as u64];
    both.sort_unstable();
    assert_eq!(pages(&whole), both);
    let (report, status) = check_json(&path, &["--since-lsn", &since.to_string()]);
    assert_eq!((pages(&report), status), (vec![new as u64], 1));
    assert_eq!((total(&report, "older"), report["since_lsn"].as_u64()), (older as u64, Some(since)));
    assert!(older > 0);
    let sum: u64 = ["ok", "empty", "corrupt", "unverifiable", "freed_damage", "older"]
        .iter()
        .map(|name| total(&report, name))
        .sum();
    assert_eq!(sum, total(&report, "pages"));
    let later = check(&path, &["--since-lsn", &u64::MAX.to_string()]);
    assert_eq!(later.status, 0, "{}", later.text);
    assert!(later.text.starts_with("result  all well since LSN ") && later.text.contains("older and not verified"));
}

#[test]
fn a_page_that_lost_its_lsn_with_all_else_is_found_at_any_age() {
    let dir = Dir::new();
    let path = dir.file("t.ibd", &fixture("broken/zeroed-page-mysql-16k.ibd"));
    let (report, status) = check_json(&path, &["--since-lsn", &u64::MAX.to_string()]);
    assert_eq!((crate::common::reasons(&report), status), (vec!["zero_page_in_use"], 1));
}
