//! `--until` with a time: its zone is read and said, and the report says how much of what came before it is there.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Run, all_datadirs, innokit};

/// A time in microseconds since 1970 as `--until` takes it: UTC, and without a zone.
fn clock(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let date = Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%F %T"]).output().expect("date runs");
    format!("{}.{micros:06}", String::from_utf8(date.stdout).expect("text").trim_end())
}

fn run(dir: &Path, words: &[&str]) -> Run {
    Run::of(&innokit().args(words).current_dir(dir).env("TZ", "UTC").output().expect("innokit runs"))
}

/// The last marks of two runs that archive a stopped server's log.
fn archived(dir: &Path, datadir: &str) -> [Value; 2] {
    [(); 2].map(|()| {
        let done = run(dir, &["redo", "archive", "--until-caught-up", "--to", "redo", datadir]);
        assert_eq!(done.status, 0, "{}", done.errors);
        std::thread::sleep(Duration::from_millis(20));
        run(dir, &["redo", "verify", "--json", "redo"]).json()["last_mark"].clone()
    })
}

fn a_time_is_read_in_its_zone(crashed: &str) {
    const HOUR: u64 = 3_600_000_000;
    let dir = TempDir::new().expect("a folder");
    let datadir = all_datadirs().join(crashed).display().to_string();
    let [first, last] = archived(dir.path(), &datadir);
    assert_eq!(first["lsn"], last["lsn"], "{crashed}: nothing was written in between");
    let time = |mark: &Value| mark["at_us"].as_u64().expect("a time");
    let recover = |until: &str, more: &[&str]| {
        run(dir.path(), &[&["recover", "--dry-run", "--redo", "redo", "--until", until], more, &[&datadir]].concat())
    };
    // Both marks are at one LSN, so nothing is missing in between.
    let between = u64::midpoint(time(&first), time(&last));
    let plain = recover(&clock(between), &["--require-until"]);
    let says = format!(" UTC (no zone was given): LSN {}\n", last["lsn"]);
    assert!(plain.status == 0 && plain.text.contains(&says), "{}{}", plain.text, plain.errors);
    assert!(!plain.text.contains("complete up to"), "{}", plain.text);
    for (shift, zone) in [(HOUR, "+01:00"), (HOUR, "UTC+01"), (0, "local"), (0, "Z")] {
        let there = recover(&format!("{} {zone}", clock(between + shift)), &[]);
        assert!(there.status == 0, "{zone}: {}", there.errors);
        assert_eq!(there.text.contains(" UTC+01:00, "), shift > 0, "{zone}: {}", there.text);
        assert!(there.text.contains(&clock(between)[..19]), "{zone}: {}", there.text);
    }
    let early = recover(&format!("{} +01:00", clock(between)), &[]);
    assert!(early.status == 2 && early.errors.contains("before the first mark"), "{}", early.errors);
    // The last mark says that the archive was complete when its look began, a moment before it was written.
    let at_last = clock(time(&last));
    let done = recover(&at_last, &[]);
    assert!(done.status == 0 && done.text.contains("complete up to "), "{}{}", done.text, done.errors);
    let json = recover(&at_last, &["--json"]).json();
    let complete = json["moment"]["complete_us"].as_u64().expect("a time");
    assert!(complete < time(&last) && time(&first) < complete, "{json:#}");
    let refused = recover(&at_last, &["--require-until"]);
    assert!(refused.status == 2 && refused.errors.contains("--require-until"), "{}", refused.errors);
    // Later than the archive: the LSN that the refusal names leads to the archive's end.
    let refused = recover(&clock(time(&last) + HOUR), &[]);
    let way_out = format!("--until {}", last["lsn"]);
    assert!(refused.status == 2 && refused.errors.contains(&way_out), "{}", refused.errors);
    let done = recover(&last["lsn"].to_string(), &[]);
    assert_eq!(done.status, 0, "{}", done.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_time_for_mariadb_is_read_in_its_zone_and_the_report_says_what_may_be_missing() {
    a_time_is_read_in_its_zone("mariadb-16k");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_time_for_mysql_is_read_in_its_zone_and_the_report_says_what_may_be_missing() {
    a_time_is_read_in_its_zone("mysql-16k");
}

#[test]
fn a_time_that_no_clock_or_two_showed_is_refused() {
    let dir = TempDir::new().expect("a folder");
    let refused = |until: &str, says: &str| {
        let run = run(dir.path(), &["recover", "--dry-run", "--redo", "redo", "--until", until, "data"]);
        assert!(run.status == 2 && run.errors.contains(says), "{until}: {}", run.errors);
    };
    refused("2026-11-28 07:25:00 Mars/Base", "give the offset from UTC instead");
    refused("2026-11-28 07:25:00 ../../etc/localtime", "no time zone");
    refused("2026-02-30 07:25:00", "an LSN, or a time");
    if Path::new("/usr/share/zoneinfo/Europe/Berlin").exists() {
        refused("2026-03-29 02:30:00 Europe/Berlin", "put forward over it");
        refused("2026-10-25 02:30:00 Europe/Berlin", "give the offset UTC+02:00 for the first time, or UTC+01:00");
    }
}
