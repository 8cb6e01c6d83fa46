//! Power is cut between any two steps of the archiver's own writing: segments created, filled, closed and removed, end records, marks and
//! gap notes. Whatever survives of the unsynced part, everything reported as archived is there, no byte is wrong, and the next run
//! continues.
//!
//! `FLOW_SEED=n` uses another random seed.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail where they must")]

mod fake_log;
mod fake_mysql;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fake_log::{FIRST, FakeServer};
use fake_mysql::FakeMySql;
use flow::steps::{self, Step};
use innokit_recovery::{ArchiveEvent, ArchiveOptions, ArchiveReport, ArchiveUntil, archive, verify_archive};
use tempfile::TempDir;

const SECTOR: usize = 512;
/// What a crash leaves of each step: everything written (a killed process), only what was synced, or a random part.
const OUTCOMES: u64 = 5;

struct Dice(u64);

impl Dice {
    fn is_heads(&mut self) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 40 & 1 == 1
    }
}

/// A file: its durable content, and the steps since.
#[derive(Default, Clone)]
struct Inode {
    durable: Vec<u8>,
    unsynced: Vec<Step>,
}

/// A file system in which names and contents are durable only once they are synced.
#[derive(Default)]
struct Disk {
    inodes: Vec<Inode>,
    /// Names as programs see them, and the durable ones.
    seen: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    /// Pending name changes, and the file of each.
    unsynced: Vec<(Step, usize)>,
    /// A lying device: it reports syncs that it did not perform.
    lies: bool,
}

/// Writes bytes into a file, which may have to grow.
fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    file.resize(file.len().max(offset + bytes.len()), 0);
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, from: &Path, to: &Path) {
    let moved: Vec<PathBuf> = names.keys().filter(|name| name.starts_with(from)).cloned().collect();
    for name in moved {
        let below = name.strip_prefix(from).expect("below");
        let new = if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) };
        let inode = names.remove(&name).expect("named");
        names.insert(new, inode);
    }
}

fn change(names: &mut BTreeMap<PathBuf, usize>, step: &Step, inode: usize) {
    match step {
        Step::Create(path) => drop(names.insert(path.clone(), inode)),
        Step::Remove(path) => drop(names.remove(path)),
        // A name that was never durable cannot be renamed, but the file may get the new one.
        Step::Rename(from, to) if !names.keys().any(|name| name.starts_with(from)) => {
            names.insert(to.clone(), inode);
        }
        Step::Rename(from, to) => rename(names, from, to),
        _ => unreachable!("{step:?}"),
    }
}

fn directory_of(step: &Step) -> &Path {
    let (Step::Create(path) | Step::Remove(path) | Step::Rename(_, path)) = step else { unreachable!("{step:?}") };
    path.parent().expect("in a directory")
}

impl Disk {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Create(_) => {
                // An existing file is truncated; a new file in its place is equivalent.
                self.inodes.push(Inode::default());
                self.name(step, self.inodes.len() - 1);
            }
            Step::Remove(path) | Step::Rename(path, _) => {
                let inode = self.seen.get(path).copied().unwrap_or(usize::MAX);
                self.name(step, inode);
            }
            Step::Write(path, ..) | Step::Resize(path, _) => {
                let inode = self.seen[path];
                self.inodes[inode].unsynced.push(step.clone());
            }
            Step::Sync(_) if self.lies => {}
            Step::Sync(path) => {
                let inode = &mut self.inodes[self.seen[path]];
                for step in inode.unsynced.drain(..) {
                    match step {
                        Step::Write(_, offset, bytes) => put(&mut inode.durable, offset as usize, &bytes),
                        Step::Resize(_, len) => inode.durable.resize(len as usize, 0),
                        _ => unreachable!(),
                    }
                }
            }
            Step::SyncDirectory(dir) => {
                let (done, left): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut self.unsynced).into_iter().partition(|(step, _)| directory_of(step) == dir);
                self.unsynced = left;
                for (step, inode) in done {
                    change(&mut self.durable, &step, inode);
                }
            }
        }
    }

    fn name(&mut self, step: &Step, inode: usize) {
        change(&mut self.seen, step, inode);
        self.unsynced.push((step.clone(), inode));
    }

    /// Whether a crash now can leave more than one state.
    fn is_open(&self) -> bool {
        !self.unsynced.is_empty() || self.inodes.iter().any(|inode| !inode.unsynced.is_empty())
    }

    /// Writes what a crash leaves into `to`, for paths below `from`.
    fn crash(&self, survives: &mut dyn FnMut() -> bool, from: &Path, to: &Path) {
        let mut names = self.durable.clone();
        for (step, inode) in &self.unsynced {
            if survives() {
                change(&mut names, step, *inode);
            }
        }
        for (name, inode) in names.into_iter().filter(|(_, inode)| *inode != usize::MAX) {
            let inode = &self.inodes[inode];
            let mut bytes = inode.durable.clone();
            for step in &inode.unsynced {
                match step {
                    Step::Write(_, offset, written) => {
                        for (at, sector) in (*offset as usize..).step_by(SECTOR).zip(written.chunks(SECTOR)) {
                            if survives() {
                                put(&mut bytes, at, sector);
                            }
                        }
                    }
                    Step::Resize(_, len) if survives() => bytes.resize(*len as usize, 0),
                    _ => {}
                }
            }
            let path = to.join(name.strip_prefix(from).expect("of the archive"));
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, bytes).expect("written");
        }
    }
}

/// A fake server that only writes a log.
trait Writes {
    fn datadir(&self) -> PathBuf;
    fn first(&self) -> u64;
    fn lsn(&self) -> u64;
    fn commit(&mut self, mtrs: usize);
    fn compare_in(&self, archive: &Path, report: &ArchiveReport);
}

macro_rules! writes {
    ($server:ty, $first:expr) => {
        impl Writes for $server {
            fn datadir(&self) -> PathBuf {
                <$server>::datadir(self)
            }
            fn first(&self) -> u64 {
                $first
            }
            fn lsn(&self) -> u64 {
                <$server>::lsn(self)
            }
            fn commit(&mut self, mtrs: usize) {
                <$server>::commit(self, mtrs);
            }
            fn compare_in(&self, archive: &Path, report: &ArchiveReport) {
                <$server>::compare_in(self, archive, report);
            }
        }
    };
}
writes!(FakeServer, FIRST);
writes!(FakeMySql, fake_mysql::FIRST);

/// The life of an archive: its steps, and the LSN reported as archived before each.
struct Life<S> {
    server: S,
    archive: PathBuf,
    steps: Vec<Step>,
    reported: Vec<(usize, u64)>,
    /// From here on a gap is expected.
    gap: u64,
}

fn options(to: &Path) -> ArchiveOptions {
    ArchiveOptions {
        to: to.to_path_buf(),
        until: ArchiveUntil::CaughtUp,
        poll: Duration::from_millis(1),
        segment_size: 32 << 10,
        settle: Duration::ZERO,
        definitions: false,
    }
}

impl Life<FakeServer> {
    fn new(dir: &Path) -> Self {
        Self::of(FakeServer::new(512 << 10), dir)
    }
}

impl<S: Writes> Life<S> {
    fn of(server: S, dir: &Path) -> Self {
        let archive = dir.join("archive");
        fs::create_dir(&archive).expect("made");
        Self { server, archive, steps: Vec::new(), reported: vec![(0, 0)], gap: u64::MAX }
    }

    /// Commits, then archives what was committed in a new run.
    fn go_on(&mut self, mtrs: usize) {
        self.server.commit(mtrs);
        let (mut reported, before) = (Vec::new(), self.steps.len());
        let (done, steps) = steps::recorded(|| {
            archive(&self.server.datadir(), &options(&self.archive), &AtomicBool::new(false), &mut |event| {
                if let ArchiveEvent::Status(status) = event {
                    reported.push((before + steps::count(), status.lsn));
                }
            })
        });
        assert_eq!(done.expect("archived").lsn, self.server.lsn());
        self.steps.extend(steps);
        self.reported.extend(reported);
    }

    /// Goes through the disk's states after each step. A crash at each must be survived in every way.
    fn crash_everywhere(&self, mut disk: Disk) -> u64 {
        let (seed, mut crashes) = (seed(), 0);
        for (done, step) in self.steps.iter().enumerate() {
            disk.take(step);
            let reported = self.reported.iter().filter(|(at, _)| *at <= done + 1).map(|(_, lsn)| *lsn).max();
            for outcome in 0..if disk.is_open() { OUTCOMES } else { 1 } {
                let mut dice =
                    Dice((seed * 1_000_003 + done as u64 * OUTCOMES + outcome + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let mut survives = || match outcome {
                    0 => true,
                    1 => false,
                    _ => dice.is_heads(),
                };
                let left = TempDir::new_in(scratch()).expect("a directory");
                disk.crash(&mut survives, &self.archive, left.path());
                let what = format!("seed {seed}, step {done} ({}), outcome {outcome}", name_of(step));
                self.is_whole(left.path(), reported.expect("some"), &what);
                crashes += 1;
            }
        }
        crashes
    }

    /// Everything reported is there before the next run, which finds the rest.
    fn is_whole(&self, left: &Path, reported: u64, what: &str) {
        let has_begun = fs::read_dir(left).expect("read").any(|entry| {
            let name = entry.expect("one").file_name();
            name.to_string_lossy().strip_prefix("redo.").is_some_and(|lsn| lsn.len() == 16)
        });
        assert!(has_begun || reported == 0, "{what}: nothing is left");
        if has_begun {
            let report = verify_archive(left).unwrap_or_else(|error| panic!("{what}: {error}"));
            self.is_sound(left, &report, reported, what);
        }
        let done = archive(&self.server.datadir(), &options(left), &AtomicBool::new(false), &mut |_| {});
        let done = done.unwrap_or_else(|error| panic!("{what}: the next run: {error}"));
        let report = verify_archive(left).expect("read");
        self.is_sound(left, &report, reported, what);
        assert_eq!(
            (done.lsn, report.ranges.last().expect("one").end_lsn),
            (self.server.lsn(), self.server.lsn()),
            "{what}"
        );
        let gaps = report.ranges.windows(2).filter(|ranges| ranges[0].end_lsn < self.gap);
        assert!(self.gap != u64::MAX || report.ranges.len() == 1, "{what}: {report:?}");
        assert!(gaps.count() <= 1, "{what}: {report:?}");
        let unfinished = fs::read_dir(left).expect("read").filter(|entry| {
            let name = entry.as_ref().expect("one").file_name();
            name.to_string_lossy().ends_with(".new")
        });
        assert_eq!(unfinished.count(), 0, "{what}: an unfinished file is left");
    }

    fn is_sound(&self, left: &Path, report: &ArchiveReport, reported: u64, what: &str) {
        assert_eq!(report.damage, Vec::<String>::new(), "{what}");
        self.server.compare_in(left, report);
        let end = report.ranges.last().expect("one").end_lsn;
        let has_start = report.ranges[0].start_lsn == self.server.first() || reported <= self.server.first();
        assert!(end >= reported && has_start, "{what}: {reported} was reported, {report:?}");
    }
}

fn name_of(step: &Step) -> String {
    let text = format!("{step:?}");
    text.split(", [").next().unwrap_or_default().to_owned()
}

/// In memory if possible, where syncs cost nothing: the real ones do not matter here.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}

fn seed() -> u64 {
    std::env::var("FLOW_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

#[test]
fn wherever_the_power_is_cut_what_was_reported_is_archived_and_the_next_run_goes_on() {
    let dir = TempDir::new_in(scratch()).expect("a directory");
    let mut life = Life::new(dir.path());
    for round in 0..11 {
        life.go_on(8 + round % 3 * 25);
    }
    let crashes = life.crash_everywhere(Disk::default());
    assert!(crashes >= 1000, "{crashes} crashes");
}

#[test]
fn wherever_the_power_is_cut_around_a_gap_both_sides_of_it_stay() {
    let dir = TempDir::new_in(scratch()).expect("a directory");
    let mut life = Life::new(dir.path());
    life.go_on(40);
    life.gap = life.server.lsn();
    // The server creates a log that begins later.
    life.server.commit(100);
    life.server.resize(512 << 10, 5000);
    life.go_on(20);
    life.go_on(60);
    life.crash_everywhere(Disk::default());
}

/// A partly filled MySQL block is rewritten in place when more follows.
#[test]
fn wherever_the_power_is_cut_blocks_of_mysql_that_were_reported_are_archived() {
    let dir = TempDir::new_in(scratch()).expect("a directory");
    let mut life = Life::of(FakeMySql::new(), dir.path());
    for round in 0..6 {
        life.go_on(10 + round % 3 * 200);
    }
    let crashes = life.crash_everywhere(Disk::default());
    assert!(crashes >= 300, "{crashes} crashes");
}

/// A check of the test itself: with a lying device it must fail.
#[test]
fn a_device_that_only_claims_to_sync_is_found_out() {
    let dir = TempDir::new_in(scratch()).expect("a directory");
    let mut life = Life::new(dir.path());
    life.go_on(20);
    life.go_on(20);
    let lying = Disk { lies: true, ..Disk::default() };
    let found = catch_unwind(AssertUnwindSafe(|| life.crash_everywhere(lying)));
    assert!(found.is_err(), "what was reported to be archived was never durable, and nothing noticed");
}
