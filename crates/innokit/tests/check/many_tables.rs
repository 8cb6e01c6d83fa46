//! Work grows with the number of tables, not with its square: a folder of 400 tables is listed as often as one of 50, and each of its files
//! is opened as often. Counted by the kernel (inotify), so no clock takes part.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tempfile::TempDir;

use crate::common::{Dir, check, fixture, innokit, repository};

/// How often a folder and each of its files were opened.
#[derive(Debug, Default)]
struct Opened {
    folder: usize,
    files: BTreeMap<String, usize>,
}

impl Opened {
    fn most(&self) -> usize {
        self.files.values().copied().max().unwrap_or(0)
    }

    fn all(&self) -> usize {
        self.files.values().sum()
    }
}

/// Runs the command and counts what it opens in these folders.
fn opened(command: &mut Command, folders: [&Path; 2]) -> [Opened; 2] {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
    // Closing is listed too because the kernel merges equal events that follow each other.
    let numbers = folders.map(|folder| {
        inotify::add_watch(&watch, folder, WatchFlags::OPEN | WatchFlags::CLOSE).expect("the folder is watched")
    });
    let mut counts = [Opened::default(), Opened::default()];
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("innokit runs");
    loop {
        let status = child.try_wait().expect("the process is ours");
        drain(&watch, numbers, &mut counts);
        if let Some(status) = status {
            assert_eq!(status.code(), Some(0), "{command:?}");
            return counts;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn drain(watch: &OwnedFd, numbers: [i32; 2], counts: &mut [Opened; 2]) {
    let mut buffer = [MaybeUninit::uninit(); 1 << 16];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    while let Ok(event) = reader.next() {
        assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "the kernel dropped events");
        let Some(place) = numbers.iter().position(|number| *number == event.wd()) else { continue };
        let (Some(count), true) = (counts.get_mut(place), event.events().contains(ReadFlags::OPEN)) else { continue };
        match event.file_name() {
            None => count.folder += 1,
            Some(name) => *count.files.entry(name.to_string_lossy().into_owned()).or_default() += 1,
        }
    }
}

/// The most openings of one file by any of the commands: its head, its dictionary or definition, its pages, the comparison.
const OPENINGS_MAX: usize = 12;
/// The same of a folder.
const LISTINGS_MAX: usize = 3;

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn eight_times_the_tables_of_mariadb_take_no_more_listings_and_no_more_openings_of_each_file() {
    eight_times_the_tables("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn eight_times_the_tables_of_mysql_take_no_more_listings_and_no_more_openings_of_each_file() {
    eight_times_the_tables("mysql");
}

fn eight_times_the_tables(kind: &str) {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let made = Command::new(repository().join("scripts/make-many-tables.sh"))
        .arg(&data)
        .args([kind, "450", "400"])
        .status()
        .expect("bash runs");
    assert!(made.success());
    let folders = ["d00001", "d00000"].map(|name| data.join(name));
    let out = folder.path().join("rows");
    std::fs::create_dir(&out).expect("a folder");
    let commands: [&[&str]; 8] = [
        &["check"],
        &["check", "--live"],
        &["table", "check"],
        &["table", "count"],
        &["table", "checksum"],
        &["table", "schema"],
        &["table", "export", "--format", "jsonl", "-o", out.to_str().expect("a path")],
        &["info"],
    ];
    for words in commands {
        let [few, many] = opened(innokit().args(words).arg(&data), [&folders[0], &folders[1]]);
        assert!(few.all() >= 50, "{words:?}: {few:?}");
        // Not compared with each other: the kernel merges equal events, more of them if it has much to do.
        for folder in [&few, &many] {
            assert!(folder.folder <= LISTINGS_MAX, "{words:?}: {} listings", folder.folder);
            assert!(folder.most() <= OPENINGS_MAX, "{words:?}: {} openings of one file", folder.most());
        }
    }
    few_open_files_are_enough(&data, &folder.path().join("limited"));
}

/// Fewer than there are tables.
fn few_open_files_are_enough(data: &Path, rows: &Path) {
    let program = innokit();
    for words in ["check", "table check", "table checksum", "table schema", "info", "table export -o \"$2/\""] {
        let line = format!("ulimit -Sn 64 && ulimit -Hn 64 && exec \"$0\" {words} \"$1\"");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line]).arg(program.get_program()).args([data, rows]).output().expect("sh runs");
        assert_eq!(output.status.code(), Some(0), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let whole = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "csv");
    let files = std::fs::read_dir(rows).expect("a folder").map(|entry| entry.expect("an entry"));
    assert_eq!(files.filter(whole).count(), 450);
}

/// A night's mail has a hundred lines about a broken disk, and says how many more there are.
#[test]
fn more_than_a_hundred_findings_are_counted_unless_all_are_wanted() {
    let dir = Dir::new();
    let mut damaged = fixture("mysql-9.7/dynamic-4k.ibd");
    damaged[4 * 4096 + 900] ^= 1;
    for number in 0..103 {
        dir.file(&format!("shop/t{number:03}.ibd"), &damaged);
    }
    let lines = |run: &str| run.lines().filter(|line| line.contains(".ibd") && line.contains("checksum")).count();
    let (short, long) = (check(dir.path(), &[]), check(dir.path(), &["--all"]));
    assert_eq!((short.status, long.status), (1, 1), "{}", short.text);
    assert!(short.text.contains("... and 3 more findings (--all prints them)"), "{}", short.text);
    assert!(!long.text.contains("more findings"), "{}", long.text);
    assert_eq!(lines(&long.text) - lines(&short.text), 3, "{}", short.text);
}
