//! Hidden reads as the kernel counts them for this process: none for the log, one per eight commits for the naive one.
//!
//! Only one test, because `/proc/self/io` counts the whole process. Reads by other processes are not counted. But the kernel may have to
//! read a page of this program from the disk, so the log gets several tries at zero. The naive log must show its reads in each try, or the
//! zero would mean nothing.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::path::Path;

use innokit_flow::log_writer::{Fill, LogFiles, LogOptions, LogWriter, Recycle};
use rustix::fs::Advice;

const COMMITS: u64 = 256;
const TRIES: usize = 5;

fn options(fill: Fill) -> LogOptions {
    let (file_size, group_max) = (256 << 10, 64 << 10);
    LogOptions { files: 2, file_size, group_max, fill, recycle: Recycle::Oldest, ..LogOptions::default() }
}

/// Bytes that the kernel has read from a device for this process; `None` if it does not count them.
fn bytes_read() -> Option<u64> {
    let counters = fs::read_to_string("/proc/self/io").ok()?;
    let line = counters.lines().find_map(|line| line.strip_prefix("read_bytes: "))?;
    line.parse().ok()
}

fn make_cold(dir: &Path) {
    for index in 0..2 {
        let file = File::open(dir.join(format!("log.{index:03}"))).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    }
}

/// The bytes that the kernel reads for commits of one log block each, in previously written files outside the page cache.
fn bytes_read_by_commits(fill: Fill) -> u64 {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = options(fill);
    let log = LogWriter::create(dir.path(), &options).unwrap();
    make_cold(dir.path());
    let before = bytes_read().unwrap();
    for _ in 0..COMMITS {
        log.append(&[7; 480]).unwrap();
    }
    assert_eq!((log.counts().writes, log.counts().syncs), (COMMITS, COMMITS));
    bytes_read().unwrap() - before
}

/// Whether reads are visible here: not on a file system in memory, and not without kernel counters.
fn reads_are_counted() -> bool {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    drop(LogFiles::create(dir.path(), &options(Fill::Nothing)).unwrap());
    make_cold(dir.path());
    let before = bytes_read();
    fs::read(dir.path().join("log.000")).unwrap();
    before.zip(bytes_read()).is_some_and(|(before, after)| after - before >= 256 << 10)
}

#[test]
fn commits_into_recycled_space_that_is_not_cached_read_nothing() {
    // Without counters too: the first write to each file system block covers the whole block.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let log = LogWriter::create(dir.path(), &options(Fill::FirstTouch)).unwrap();
    for commit in 0..COMMITS {
        let before = log.counts().bytes_written;
        log.append(&[7; 480]).unwrap();
        assert_eq!(log.counts().bytes_written - before, if commit % 8 == 0 { 4096 } else { 512 });
    }
    if !reads_are_counted() {
        eprintln!("left out: /proc/self/io does not count reads of this file system");
        return;
    }
    let naive: Vec<_> = (0..TRIES).map(|_| bytes_read_by_commits(Fill::Nothing)).collect();
    let ours: Vec<_> = (0..TRIES).map(|_| bytes_read_by_commits(Fill::FirstTouch)).collect();
    println!("bytes read by {COMMITS} commits: naive {naive:?}, ours {ours:?}");
    assert!(naive.iter().all(|&bytes| bytes >= COMMITS / 8 * 4096), "one block for 8 commits, each time: {naive:?}");
    assert!(ours.contains(&0), "not one try without a read: {ours:?}");
}
