//! `redo archive` on logs written here byte by byte, as a server writes them: laps, stale blocks, resizes, restores, kills.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail where they must")]

mod fake_log;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use datadir::server::{BinlogPosition, LogServer, ServerError};
use fake_log::{BLOCK, FIRST, FakeServer, record};
use format::Lsn;
use format::checksum::crc32c;
use innokit_recovery::{
    ArchiveError, ArchiveEvent, ArchiveOptions, ArchiveUntil, archive, archive_beside, verify_archive,
};
use redo::mariadb::START_OFFSET;
use tempfile::TempDir;

/// Only keeps a hung test from running forever.
const PATIENCE: Duration = Duration::from_secs(600);

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

/// Stale mini-transactions after the last true one, as a server leaves them in its last block. They pass every test.
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
        // The server soon writes the block again.
        server.write(end, &vec![0; stale.len()]);
    }
    server.commit(40);
    assert_eq!(server.caught_up().0.lsn, server.lsn());
    assert_eq!(server.verified().ranges.len(), 1);
}

/// A server that hangs in a write leaves stale mini-transactions for longer than it takes to be considered idle.
#[test]
fn stale_mini_transactions_of_a_server_that_hung_are_taken_back() {
    let mut server = FakeServer::new(256 << 10);
    let (stop, archived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let options = ArchiveOptions { until: ArchiveUntil::Stopped, ..server.options() };
    let (datadir, ended, lsn) = (server.datadir(), Arc::clone(&stop), Arc::clone(&archived));
    let run = std::thread::spawn(move || {
        archive(&datadir, &options, &ended, &mut |event| {
            if let ArchiveEvent::Status(status) = event {
                lsn.store(status.lsn, Ordering::SeqCst);
            }
        })
    });
    let wait_for = |is_there: &dyn Fn(u64) -> bool| {
        let started = Instant::now();
        while !is_there(archived.load(Ordering::SeqCst)) {
            assert!(started.elapsed() < PATIENCE, "{}", archived.load(Ordering::SeqCst));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut tried = 0;
    for round in 0..20 {
        server.commit(11 + round % 5);
        let end = server.lsn();
        wait_for(&|lsn| lsn == end);
        let mut stale = Vec::new();
        while end + (stale.len() as u64) + 300 < end.next_multiple_of(BLOCK) {
            let bytes = record(200, 0x77);
            stale.extend([bytes.clone(), vec![1], crc32c(&bytes).to_be_bytes().to_vec()].concat());
        }
        if stale.is_empty() {
            continue;
        }
        tried += 1;
        server.write(end, &stale);
        wait_for(&|lsn| lsn == end + stale.len() as u64);
        // Finally the server completes its write.
        server.write(end, &vec![0; stale.len()]);
        wait_for(&|lsn| lsn == end);
    }
    let end = server.commit(30);
    wait_for(&|lsn| lsn == end);
    stop.store(true, Ordering::SeqCst);
    let done = run.join().expect("ends").expect("archived");
    assert!(tried > 5 && done.gaps == 0, "{tried} {done:?}");
    let report = server.verified();
    assert_eq!((report.ranges.len(), report.ranges[0].end_lsn), (1, server.lsn()));
}

#[test]
fn a_killed_run_goes_on_where_it_ended_and_clears_what_it_tore() {
    let mut server = FakeServer::new(256 << 10);
    for round in 0..8_u64 {
        server.commit(20);
        server.caught_up();
        // A torn append: sectors past the end, and a file that was not renamed yet.
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

/// The new file starts shortly before the server's end, and may lack redo that the archive still needs from the old one.
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
                ArchiveEvent::Unlogged(index) => panic!("{index:?}"),
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
    // The newest segment has no end record: the last mark shows what it once had.
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

/// A server's answer: its directory, and its flushed LSN.
struct Word {
    datadir: PathBuf,
    flushed: Result<u64, ServerError>,
    binlog: Result<Option<BinlogPosition>, ServerError>,
}

impl LogServer for Word {
    fn datadir(&mut self) -> Result<PathBuf, ServerError> {
        Ok(self.datadir.clone())
    }

    fn flushed_lsn(&mut self) -> Result<Lsn, ServerError> {
        self.flushed.clone().map(Lsn)
    }

    fn binlog(&mut self) -> Result<Option<BinlogPosition>, ServerError> {
        self.binlog.clone()
    }
}

#[test]
fn what_the_server_says_to_be_durable_is_taken_at_once_and_nothing_more() {
    let mut server = FakeServer::new(1 << 20);
    let flushed = server.commit(40);
    let end = server.commit(25);
    // Only the server's answer can explain this: the last block never stays unchanged for that long.
    let options = ArchiveOptions { settle: Duration::from_secs(86_400), ..server.options() };
    let run = |datadir: PathBuf, flushed: Result<u64, ServerError>| {
        let mut word = Word { datadir, flushed, binlog: Ok(None) };
        archive_beside(Some(&mut word), &server.datadir(), &options, &AtomicBool::new(false), &mut |_| {})
    };
    assert_eq!(run(server.datadir(), Ok(flushed)).expect("archived").lsn, flushed);
    // Inside a mini-transaction: archive up to the one before it.
    let once = ArchiveOptions { until: ArchiveUntil::Once, ..options.clone() };
    let mut word = Word { datadir: server.datadir(), flushed: Ok(end - 1), binlog: Ok(None) };
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

#[test]
fn marks_say_where_the_binary_log_was_if_the_server_tells() {
    let mut server = FakeServer::new(1 << 20);
    let marked = |server: &FakeServer| {
        let report = verify_archive(&server.archive()).expect("read");
        assert_eq!(report.exit_status(), 0, "{report:?}");
        let (first, last) = (report.first_mark.expect("marked"), report.last_mark.expect("marked"));
        assert!(first.at_us <= last.at_us && last.lsn == server.lsn() && last.timeline == 1, "{first:?} {last:?}");
        (first.binlog, last.binlog)
    };
    server.commit(20);
    server.caught_up();
    // Marks in the format from before servers were asked.
    assert_eq!(marked(&server), (None, None));
    let at = |position, gtid: &str| {
        Some(BinlogPosition { file: "db1-bin.000004".to_owned(), position, gtid: gtid.to_owned() })
    };
    let denied = ServerError::Privilege { statement: "SHOW MASTER STATUS".into(), says: "denied".into() };
    let long = at(7, &"1-2-3,".repeat(20_000));
    let answers = [
        (Ok(at(1846, "0-7-5310,1-7-22")), at(1846, "0-7-5310,1-7-22")),
        (Ok(None), None),
        (Ok(at(u64::MAX, "")), at(u64::MAX, "")),
        (Ok(long), None),
        // An account without the privilege to ask can still archive.
        (Err(denied), None),
    ];
    for (binlog, expected) in answers {
        let flushed = server.commit(5);
        let mut word = Word { datadir: server.datadir(), flushed: Ok(flushed), binlog };
        let stop = AtomicBool::new(false);
        archive_beside(Some(&mut word), &server.datadir(), &server.options(), &stop, &mut |_| {}).expect("archived");
        assert_eq!(marked(&server), (None, expected));
    }
    let lost = Err(ServerError::Lost { statement: "SHOW MASTER STATUS".into(), why: "broken".into() });
    let mut word = Word { datadir: server.datadir(), flushed: Ok(server.lsn()), binlog: lost };
    let ended =
        archive_beside(Some(&mut word), &server.datadir(), &server.options(), &AtomicBool::new(false), &mut |_| {});
    assert!(matches!(ended, Err(ArchiveError::Server(ServerError::Lost { .. }))), "{ended:?}");
}
