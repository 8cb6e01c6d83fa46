//! `redo archive` on logs written here, byte by byte as a server writes them: laps, stale blocks, resizes, restores, kills.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail where they must")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use format::Lsn;
use format::page::checksum::crc32c;
use innokit_jobs::{
    ArchiveError, ArchiveEvent, ArchiveOptions, ArchiveReport, ArchiveStatus, ArchiveUntil, LogServer, ServerError,
    archive, archive_beside, verify_archive,
};
use redo::checkpoint::clean_slot;
use redo::mariadb::{Checkpoint, Format, LogFile, START_OFFSET};
use redo::segment::SegmentHeader;
use tempfile::TempDir;

const FIRST: u64 = 12_288;
const BLOCK: u64 = 4096;
/// No hope, but an end.
const PATIENCE: Duration = Duration::from_secs(600);

/// A server that writes a log and nothing else.
struct FakeServer {
    dir: TempDir,
    file: File,
    first: u64,
    capacity: u64,
    /// Everything from LSN 12288 on, with the end markers of a segment.
    truth: Vec<u8>,
    /// Offsets of the end markers in it.
    markers: Vec<usize>,
}

impl FakeServer {
    fn new(capacity: u64) -> Self {
        let dir = TempDir::new().expect("a directory");
        fs::create_dir(dir.path().join("data")).expect("made");
        let file = log_file(&dir.path().join("data/ib_logfile0"), FIRST, capacity);
        Self { dir, file, first: FIRST, capacity, truth: Vec::new(), markers: Vec::new() }
    }

    fn datadir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn archive(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    fn lsn(&self) -> u64 {
        FIRST + self.truth.len() as u64
    }

    /// Commits `count` mini-transactions of various lengths, and returns the LSN after them.
    fn commit(&mut self, count: usize) -> u64 {
        for _ in 0..count {
            let number = self.markers.len();
            let len = 150 + number * 37 % 700;
            let mut bytes = record(len, number as u8);
            let crc = crc32c(&bytes);
            let start = self.truth.len();
            self.markers.push(start + bytes.len());
            bytes.push(1);
            bytes.extend(crc.to_be_bytes());
            self.truth.extend(&bytes);
            self.put(FIRST + start as u64, FIRST + self.truth.len() as u64);
        }
        // The byte after the last one ends the log.
        self.write(self.lsn(), &[0]);
        self.lsn()
    }

    /// Writes a part of the truth, with the markers of its lap.
    fn put(&self, from: u64, to: u64) {
        let range = (from - FIRST) as usize..(to - FIRST) as usize;
        let mut bytes = self.truth[range.clone()].to_vec();
        for marker in &self.markers[self.markers.partition_point(|marker| *marker < range.start)..] {
            let Some(byte) = bytes.get_mut(marker.wrapping_sub(range.start)) else { break };
            let lap = (FIRST + *marker as u64 - self.first) / self.capacity;
            *byte = u8::from(lap.is_multiple_of(2));
        }
        self.write(from, &bytes);
    }

    fn write(&self, lsn: u64, bytes: &[u8]) {
        for (at, byte) in (lsn..).zip(bytes) {
            let offset = START_OFFSET as u64 + (at - self.first) % self.capacity;
            self.file.write_all_at(&[*byte], offset).expect("written");
        }
    }

    /// A checkpoint at the start of a mini-transaction.
    fn checkpoint(&self, lsn: u64) {
        assert!(lsn == FIRST || self.markers.iter().any(|marker| FIRST + *marker as u64 + 5 == lsn));
        self.file.write_all_at(&clean_slot(Lsn(lsn)).expect("a slot"), 8192).expect("written");
    }

    /// Replaces the log by one that starts `before` bytes before the end and has everything since.
    fn resize(&mut self, capacity: u64, before: u64) {
        let new = self.datadir().join("ib_logfile101");
        (self.first, self.capacity) = ((self.lsn() - before).max(FIRST), capacity);
        self.file = log_file(&new, self.first, capacity);
        self.put(self.first, self.lsn());
        let boundary = self.markers.iter().map(|marker| FIRST + *marker as u64 + 5).find(|lsn| *lsn >= self.first);
        self.checkpoint(boundary.expect("one"));
        fs::rename(new, self.datadir().join("ib_logfile0")).expect("renamed");
    }

    /// A past in which everything from `lsn` on went differently.
    fn restore_to(&mut self, lsn: u64) {
        let kept = (lsn - FIRST) as usize;
        self.truth.truncate(kept);
        self.markers.retain(|marker| *marker < kept);
        // Its mini-transactions have other content from now on.
        self.file.write_all_at(&vec![0; self.capacity as usize], START_OFFSET as u64).expect("written");
        self.put(FIRST.max(lsn.saturating_sub(self.capacity)), lsn);
        let bytes = record(333, 0xAB);
        let crc = crc32c(&bytes);
        self.markers.push(kept + bytes.len());
        self.truth.extend([bytes, vec![1], crc.to_be_bytes().to_vec()].concat());
        self.put(lsn, self.lsn());
    }

    fn run(&self, options: &ArchiveOptions) -> (ArchiveStatus, Vec<String>) {
        let mut gaps = Vec::new();
        let done = archive(&self.datadir(), options, &AtomicBool::new(false), &mut |event| {
            if let ArchiveEvent::Gap(why) = event {
                gaps.push((*why).to_owned());
            }
        });
        (done.expect("archived"), gaps)
    }

    /// Archives what is certain at once.
    fn once(&self) -> (ArchiveStatus, Vec<String>) {
        self.run(&ArchiveOptions { until: ArchiveUntil::Once, ..self.options() })
    }

    /// Archives all there is.
    fn caught_up(&self) -> (ArchiveStatus, Vec<String>) {
        self.run(&self.options())
    }

    fn options(&self) -> ArchiveOptions {
        ArchiveOptions {
            to: self.archive(),
            until: ArchiveUntil::CaughtUp,
            poll: Duration::from_millis(1),
            segment_size: 64 << 10,
            settle: Duration::from_millis(20),
        }
    }

    /// The archive, every byte of which must be the server's.
    fn verified(&self) -> ArchiveReport {
        let report = verify_archive(&self.archive()).expect("read");
        assert_eq!(report.damage, Vec::<String>::new());
        self.compare(&report);
        report
    }

    fn compare(&self, report: &ArchiveReport) {
        let last = report.ranges.last().expect("a range");
        for range in report.ranges.iter().filter(|range| range.timeline == last.timeline) {
            let bytes = bytes_of(&self.archive(), range.timeline, range.start_lsn, range.end_lsn);
            let [from, to] = [range.start_lsn, range.end_lsn].map(|lsn| (lsn - FIRST) as usize);
            assert!(bytes == self.truth[from..to], "LSN {} to {}", range.start_lsn, range.end_lsn);
        }
    }
}

/// A record of `len` bytes.
fn record(len: usize, fill: u8) -> Vec<u8> {
    let length = len - 1 - 15 - 128;
    let mut bytes = vec![0x30, 0x80 | (length >> 8) as u8, length as u8];
    bytes.resize(len, fill | 2);
    bytes
}

fn log_file(path: &Path, first: u64, capacity: u64) -> File {
    let mut server = vec![0; START_OFFSET];
    server[..4].copy_from_slice(&0x5068_7973_u32.to_be_bytes());
    let checkpoint = Some(Checkpoint { lsn: Lsn(first), end_lsn: Lsn(first) });
    let header =
        SegmentHeader { start: Lsn(first), timeline: 1, checkpoint, format: Format::Stream { encrypted: None } };
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("made");
    file.set_len(START_OFFSET as u64 + capacity).expect("a length");
    file.write_all_at(&header.build(&server).expect("a header"), 0).expect("written");
    assert!(LogFile::parse(&fs::read(path).expect("read"), START_OFFSET as u64 + capacity).is_ok());
    file
}

/// The archived bytes of a range.
fn bytes_of(dir: &Path, timeline: u32, from: u64, to: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while from + (bytes.len() as u64) < to {
        let at = from + bytes.len() as u64;
        let suffix = if timeline > 1 { format!(".{timeline}") } else { String::new() };
        let name = format!("redo.{at:016x}{suffix}");
        let segment = fs::read(dir.join(&name)).expect("a segment");
        let end = fs::read(dir.join(format!("{name}.end"))).ok();
        let end = end.map_or(to, |end| u64::from_be_bytes(end[16..24].try_into().expect("eight")));
        assert!(end > at, "{name}");
        bytes.extend(&segment[START_OFFSET..START_OFFSET + (end.min(to) - at) as usize]);
    }
    bytes
}

#[test]
fn a_log_is_followed_around_its_ring_and_every_byte_is_the_servers() {
    let mut server = FakeServer::new(96 << 10);
    server.commit(10);
    for round in 0..60 {
        let before = server.lsn();
        server.commit(37);
        if round % 3 == 0 {
            server.caught_up()
        } else {
            server.once()
        };
        server.checkpoint(before);
    }
    let (done, gaps) = server.caught_up();
    assert_eq!((done.lsn, gaps.len(), done.lag_bytes), (server.lsn(), 0, 0));
    let report = server.verified();
    assert_eq!((report.ranges.len(), report.exit_status()), (1, 0));
    assert_eq!((report.ranges[0].start_lsn, report.ranges[0].end_lsn), (FIRST, server.lsn()));
    assert_eq!(report.mtrs, server.markers.len() as u64);
    assert!(server.lsn() > 8 * server.capacity && report.segments > 10, "{report:?}");
}

#[test]
fn a_server_that_laps_the_archive_leaves_a_gap_and_never_wrong_bytes() {
    for laps in [1, 2, 3] {
        let mut server = FakeServer::new(96 << 10);
        server.commit(100);
        let (before, _) = server.caught_up();
        let end = before.lsn + laps * server.capacity;
        let mut recent = server.lsn();
        while server.lsn() < end {
            recent = server.lsn();
            server.commit(1);
        }
        server.checkpoint(recent);
        let (done, gaps) = server.once();
        assert_eq!((gaps.len(), done.gaps), (1, 1), "{laps} laps");
        server.commit(50);
        let (done, _) = server.caught_up();
        assert_eq!(done.lsn, server.lsn());
        let report = server.verified();
        assert_eq!((report.ranges.len(), report.exit_status()), (2, 1), "{laps} laps");
        assert_eq!([report.ranges[0].end_lsn, report.ranges[1].start_lsn], [before.lsn, recent]);
        let gap = report.ranges[1].gap.as_deref().expect("a reason");
        assert!(gap.contains(&before.lsn.to_string()) && gap.contains("overwritten"), "{gap}");
        assert_eq!(gaps[0], gap);
    }
}

/// What a server leaves in its last block: stale mini-transactions, sound by every test, behind the last true one.
#[test]
fn stale_mini_transactions_in_the_last_block_are_never_archived() {
    let mut server = FakeServer::new(256 << 10);
    server.commit(60);
    for round in 0..30 {
        server.commit(3 + round % 5);
        let end = server.lsn();
        let block_end = end.next_multiple_of(BLOCK);
        let mut stale = Vec::new();
        while end + (stale.len() as u64) + 300 < block_end {
            let bytes = record(200, 0x77);
            stale.extend([bytes.clone(), vec![1], crc32c(&bytes).to_be_bytes().to_vec()].concat());
        }
        server.write(end, &stale);
        let patient =
            ArchiveOptions { until: ArchiveUntil::Once, settle: Duration::from_secs(600), ..server.options() };
        let (done, _) = server.run(&patient);
        assert!(done.lsn <= end, "round {round}: {} of {end}", done.lsn);
        server.compare(&verify_archive(&server.archive()).expect("read"));
        // The server writes the block again before long.
        server.write(end, &vec![0; stale.len()]);
    }
    server.commit(40);
    assert_eq!(server.caught_up().0.lsn, server.lsn());
    assert_eq!(server.verified().ranges.len(), 1);
}

#[test]
fn a_killed_run_goes_on_where_it_ended_and_clears_what_it_tore() {
    let mut server = FakeServer::new(256 << 10);
    for round in 0..8_u64 {
        server.commit(20);
        server.caught_up();
        // A torn append: sectors behind the end, and a file that had no name yet.
        let newest = newest(&server.archive());
        let file = File::options().write(true).read(true).open(&newest).expect("opens");
        let len = file.metadata().expect("is there").len();
        let start = u64::from_str_radix(&newest.extension().expect("an LSN").to_string_lossy(), 16).expect("an LSN");
        let used = START_OFFSET as u64 + (server.lsn() - start);
        let torn = (used + 512 * round).next_multiple_of(512);
        if torn + 512 <= len {
            file.write_all_at(&[0x33; 512], torn).expect("written");
        }
        fs::write(server.archive().join("redo.0000000000ffffff.new"), "half").expect("written");
    }
    let report = server.verified();
    assert_eq!((report.ranges.len(), report.ranges[0].end_lsn), (1, server.lsn()));
    let (done, _) = server.caught_up();
    assert_eq!((done.bytes, done.lsn), (0, server.lsn()));
    let mut rest = Vec::new();
    File::open(newest(&server.archive())).expect("opens").read_to_end(&mut rest).expect("read");
    assert!(!rest.windows(8).any(|bytes| bytes == [0x33; 8]), "what was torn is cleared");
    assert!(!server.archive().join("redo.0000000000ffffff.new").exists());
}

fn newest(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir).expect("read").map(|entry| entry.expect("an entry").path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|lsn| lsn.len() == 16);
    entries.filter(is_segment).max().expect("a segment")
}

/// The new file starts a little before the server's end, and may lack what the archive still wants: that is in the old one.
#[test]
fn a_resized_log_is_followed_into_its_new_file() {
    let mut server = FakeServer::new(96 << 10);
    server.commit(10);
    let (datadir, options) = (server.datadir(), ArchiveOptions { until: ArchiveUntil::Stopped, ..server.options() });
    let (stop, reached) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let archiver = std::thread::spawn({
        let (stop, reached) = (Arc::clone(&stop), Arc::clone(&reached));
        move || {
            archive(&datadir, &options, &stop, &mut |event| match event {
                ArchiveEvent::Status(status) => reached.store(status.lsn, Ordering::SeqCst),
                ArchiveEvent::Gap(why) => panic!("{why}"),
            })
        }
    });
    let wait_for = |lsn: u64| {
        let started = Instant::now();
        while reached.load(Ordering::SeqCst) < lsn {
            assert!(started.elapsed() < PATIENCE, "LSN {lsn} is not reached");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for (capacity, before) in [(200 << 10, 20_000), (64 << 10, 50_000), (128 << 10, 1000), (96 << 10, 30_000)] {
        let recent = server.commit(40);
        wait_for(recent);
        server.checkpoint(recent);
        server.commit(30);
        server.resize(capacity, before);
        wait_for(server.commit(10));
    }
    stop.store(true, Ordering::SeqCst);
    let done = archiver.join().expect("ends").expect("archived");
    assert_eq!((done.lsn, done.gaps), (server.lsn(), 0));
    let report = server.verified();
    assert_eq!((report.ranges.len(), report.ranges[0].end_lsn), (1, server.lsn()));
}

#[test]
fn a_log_replaced_by_one_that_starts_later_leaves_a_gap() {
    let mut server = FakeServer::new(96 << 10);
    server.commit(40);
    let (before, _) = server.caught_up();
    server.commit(100);
    server.resize(96 << 10, 5000);
    let (_, gaps) = server.once();
    assert!(gaps.len() == 1 && gaps[0].contains("replaced"), "{gaps:?}");
    server.commit(10);
    server.caught_up();
    assert_eq!(server.verified().ranges[0].end_lsn, before.lsn);
}

#[test]
fn a_log_with_another_history_starts_a_timeline() {
    let mut server = FakeServer::new(256 << 10);
    server.commit(50);
    let restored = server.commit(50);
    server.commit(50);
    server.caught_up();
    server.restore_to(restored);
    server.commit(80);
    server.checkpoint(restored);
    let (done, gaps) = server.caught_up();
    assert_eq!((done.timeline, done.lsn), (2, server.lsn()));
    assert!(gaps.len() == 1 && gaps[0].contains("other changes"), "{gaps:?}");
    let report = server.verified();
    assert_eq!((report.ranges.len(), report.exit_status()), (2, 1));
    assert_eq!((report.ranges[1].timeline, report.ranges[1].start_lsn), (2, restored));
    assert!(server.archive().join(format!("redo.{restored:016x}.2")).exists());
}

#[test]
fn damage_and_lost_segments_of_an_archive_are_named() {
    let mut server = FakeServer::new(256 << 10);
    for _ in 0..8 {
        let before = server.commit(60);
        server.caught_up();
        server.checkpoint(before);
    }
    assert!(server.verified().segments > 3);
    let segments = |server: &FakeServer| {
        let paths = fs::read_dir(server.archive()).expect("read").map(|entry| entry.expect("one").path());
        let mut paths: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|lsn| lsn.len() == 16)).collect();
        paths.sort();
        paths
    };
    let second = segments(&server)[1].clone();
    let good = fs::read(&second).expect("read");
    for offset in [300, START_OFFSET + 50, START_OFFSET + 20_000] {
        let mut bad = good.clone();
        bad[offset] ^= 4;
        fs::write(&second, bad).expect("written");
        let report = verify_archive(&server.archive()).expect("read");
        let name = second.display().to_string();
        assert!(report.damage.len() == 1 && report.damage[0].starts_with(&name), "{offset}: {:?}", report.damage);
        assert_eq!(report.exit_status(), 1);
    }
    fs::write(&second, good).expect("written");
    // The newest has no end record: what it had is known by the last mark.
    server.commit(60);
    server.caught_up();
    let newest = segments(&server).pop().expect("one");
    assert!(!PathBuf::from(format!("{}.end", newest.display())).exists(), "it is open");
    let good = fs::read(&newest).expect("read");
    let mut bad = good.clone();
    bad[START_OFFSET + 50] ^= 4;
    for bytes in [Some(bad), None] {
        match bytes {
            Some(bytes) => fs::write(&newest, bytes).expect("written"),
            None => fs::remove_file(&newest).expect("removed"),
        }
        let report = verify_archive(&server.archive()).expect("read");
        let told = report.damage.iter().any(|damage| damage.contains("had reached LSN"));
        assert!(told && report.exit_status() == 1, "{:?}", report.damage);
    }
    fs::write(&newest, good).expect("written");
    assert_eq!(verify_archive(&server.archive()).expect("read").damage, Vec::<String>::new());
    fs::remove_file(&second).expect("removed");
    let report = verify_archive(&server.archive()).expect("read");
    assert!(report.ranges.len() == 2 && report.exit_status() == 1, "{report:?}");
    assert!(report.ranges[1].gap.as_deref().is_some_and(|gap| gap.contains("missing")), "{report:?}");
}

#[test]
fn what_is_not_archived_is_refused_with_the_way_out() {
    let mut server = FakeServer::new(96 << 10);
    server.commit(5);
    let refusal = |datadir: &Path, to: &Path| {
        let options = ArchiveOptions { to: to.to_path_buf(), until: ArchiveUntil::Once, ..ArchiveOptions::default() };
        let error = archive(datadir, &options, &AtomicBool::new(false), &mut |_| {}).expect_err("refused");
        (error.to_string(), matches!(error, ArchiveError::Busy(_)))
    };
    let log = server.datadir().join("ib_logfile0");
    let good = fs::read(&log).expect("read");
    for (format, says) in [(0x5048_5953_u32, "10.5 to 10.7"), (6, "MySQL"), (103, "10.3")] {
        let mut bad = good.clone();
        bad[..4].copy_from_slice(&format.to_be_bytes());
        let crc = crc32c(&bad[..508]);
        bad[508..512].copy_from_slice(&crc.to_be_bytes());
        // A slot of the older format.
        bad[512 + 8..512 + 16].copy_from_slice(&FIRST.to_be_bytes());
        let crc = crc32c(&bad[512..1020]);
        bad[1020..1024].copy_from_slice(&crc.to_be_bytes());
        fs::write(&log, bad).expect("written");
        let (error, _) = refusal(&server.datadir(), &server.archive());
        assert!(error.contains(says) && !server.archive().exists(), "{error}");
    }
    fs::write(&log, &good).expect("written");
    fs::create_dir(server.archive()).expect("made");
    let held = File::create(server.archive().join("archive.lock")).expect("made");
    assert!(flow::lock::try_lock(&held, flow::lock::Sharing::Exclusive).expect("locks"));
    assert!(refusal(&server.datadir(), &server.archive()).1);
    drop(held);
    let (error, _) = refusal(&server.datadir(), &log);
    assert!(error.contains("making the archive"), "{error}");
    let empty = TempDir::new().expect("a directory");
    assert!(verify_archive(empty.path()).expect_err("none").to_string().contains("no redo archive"));
}

/// The word of a server: its directory, and how far its log is durable.
struct Word {
    datadir: PathBuf,
    flushed: Result<u64, ServerError>,
}

impl LogServer for Word {
    fn datadir(&mut self) -> Result<PathBuf, ServerError> {
        Ok(self.datadir.clone())
    }

    fn flushed_lsn(&mut self) -> Result<Lsn, ServerError> {
        self.flushed.clone().map(Lsn)
    }
}

#[test]
fn what_the_server_says_to_be_durable_is_taken_at_once_and_nothing_more() {
    let mut server = FakeServer::new(1 << 20);
    let flushed = server.commit(40);
    let end = server.commit(25);
    // Only the server's word can be the reason: the last block never rests for so long.
    let options = ArchiveOptions { settle: Duration::from_secs(86_400), ..server.options() };
    let run = |datadir: PathBuf, flushed: Result<u64, ServerError>| {
        let mut word = Word { datadir, flushed };
        archive_beside(Some(&mut word), &server.datadir(), &options, &AtomicBool::new(false), &mut |_| {})
    };
    assert_eq!(run(server.datadir(), Ok(flushed)).expect("archived").lsn, flushed);
    // Within a mini-transaction: up to the one before.
    let once = ArchiveOptions { until: ArchiveUntil::Once, ..options.clone() };
    let mut word = Word { datadir: server.datadir(), flushed: Ok(end - 1) };
    let before = archive_beside(Some(&mut word), &server.datadir(), &once, &AtomicBool::new(false), &mut |_| {});
    let before = before.expect("archived").lsn;
    assert!(flushed < before && before < end && server.verified().ranges[0].end_lsn == before, "{before}");
    assert_eq!(run(server.datadir(), Ok(end)).expect("archived").lsn, end);
    assert_eq!(server.verified().ranges[0].end_lsn, end);
    let other = run(server.dir.path().to_path_buf(), Ok(end)).expect_err("another datadir").to_string();
    assert!(other.contains("the server that was named works on"), "{other}");
    let lost = ServerError::Lost { statement: "SHOW".into(), why: "broken".into() };
    assert!(matches!(run(server.datadir(), Err(lost.clone())), Err(ArchiveError::Server(error)) if error == lost));
}
