//! Thousands of files, few descriptors.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use innokit_flow::{Counters, Cursor, FileSet, IoMode, ReadOptions, Reader, run_workers};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Files, options, read};

/// The descriptor limit applies to the whole process, so the tests of this file take turns.
static TURN: Mutex<()> = Mutex::new(());

/// This process's open descriptors of files below a directory.
fn open_below(dir: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|target| target.starts_with(dir)).count()
}

/// The maximum number of open files while two workers read everything.
fn open_files_max(files: &Files, options: &ReadOptions) -> usize {
    let set = files.set();
    let cursor = Cursor::sweep(&set, options.block_size);
    let counters = Counters::new(2);
    let most = run_workers(2, |worker| {
        let mut reader = Reader::new(&set, &cursor, options, counters.worker(worker)).unwrap();
        let (mut most, mut pieces) = (0, 0);
        while let Some(piece) = reader.next() {
            piece.unwrap();
            pieces += 1;
            if pieces % 50 == 0 {
                most = open_below(files.dir.path()).max(most);
            }
        }
        most
    });
    assert_eq!(counters.total().bytes_read, files.total());
    assert_eq!(open_below(files.dir.path()), 0, "all are closed at the end");
    most.into_iter().max().unwrap()
}

#[test]
fn open_files_follow_the_windows_not_the_number_of_files() {
    let _turn = TURN.lock();
    let files = Files::new(&[9000; 3000]);
    let hot = files.while_hot(|| open_files_max(&files, &options(IoMode::Auto)));
    assert!((1..=4).contains(&hot), "{hot} open: each worker has the file it reads and may open the next");
    files.make_cold();
    let cold = open_files_max(&files, &options(IoMode::Auto));
    let bound = 2 * 2 * (8 + 1);
    assert!((8..=bound).contains(&cold), "{cold} open: two workers, two handles each for a window of 8, and one more");
}

#[test]
fn lack_of_descriptors_makes_the_window_smaller_not_the_result() {
    let _turn = TURN.lock();
    let files = Files::new(&[9000; 60]);
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 8), ..before }).unwrap();
    let set: FileSet = files.set();
    let outcome = read(&set, &ReadOptions { depth: 32, ..options(IoMode::Direct) }, 1);
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(outcome.contents == files.contents, "{:?}", outcome.failed);
    assert!(outcome.counts.in_flight_max < 16, "{:?}", outcome.counts);
}
