//! `redo archive` on MySQL logs written here block by block: laps, half-written blocks, mini-transactions that a recovering server drops,
//! other histories.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail where they must")]

mod fake_mysql;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use fake_mysql::{FILE_BLOCKS, FIRST, FakeMySql};
use format::Lsn;
use innokit_recovery::{
    ArchiveError, ArchiveEvent, ArchiveOptions, ArchiveReport, ArchiveStatus, ArchiveUntil, archive, verify_archive,
};
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::copy::cut;

const PATIENCE: Duration = Duration::from_secs(300);

fn options(server: &FakeMySql, until: ArchiveUntil) -> ArchiveOptions {
    ArchiveOptions {
        to: server.archive(),
        until,
        poll: Duration::from_millis(1),
        segment_size: 32 << 10,
        settle: Duration::from_millis(20),
        definitions: false,
    }
}

fn archived(server: &FakeMySql, until: ArchiveUntil) -> (ArchiveStatus, Vec<String>) {
    let mut gaps = Vec::new();
    let done = archive(&server.datadir(), &options(server, until), &AtomicBool::new(false), &mut |event| {
        if let ArchiveEvent::Gap(why) = event {
            gaps.push((*why).to_owned());
        }
    });
    (done.expect("archived"), gaps)
}

/// Archives while `during` runs, which is given a function that waits until the archive has reached an LSN, and returns what it reaches.
/// Returns the gaps.
fn beside_archiver(datadir: &Path, options: &ArchiveOptions, during: impl FnOnce(&dyn Fn(u64) -> u64)) -> Vec<String> {
    let (at, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let archiver = scope.spawn(|| {
            let mut gaps = Vec::new();
            let done = archive(datadir, options, &stop, &mut |event| match event {
                ArchiveEvent::Status(status) => at.store(status.lsn, Ordering::Relaxed),
                ArchiveEvent::Gap(why) => gaps.push((*why).to_owned()),
                ArchiveEvent::Unlogged(_) => {}
            });
            done.expect("archived");
            gaps
        });
        let started = Instant::now();
        during(&|lsn| loop {
            let reached = at.load(Ordering::Relaxed);
            if reached >= lsn {
                return reached;
            }
            assert!(started.elapsed() < PATIENCE, "LSN {lsn} is never archived");
            thread::sleep(Duration::from_millis(1));
        });
        stop.store(true, Ordering::Relaxed);
        archiver.join().expect("ended")
    })
}

fn verified(server: &FakeMySql) -> ArchiveReport {
    let report = verify_archive(&server.archive()).expect("read");
    assert_eq!(report.damage, Vec::<String>::new());
    server.compare_in(&server.archive(), &report);
    report
}

#[test]
fn a_log_is_followed_from_file_to_file_and_every_block_is_the_servers() {
    let mut server = FakeMySql::new();
    for round in 0..24 {
        server.commit(1 + round * 40);
        let until = if round % 3 == 0 { ArchiveUntil::CaughtUp } else { ArchiveUntil::Once };
        let (done, gaps) = archived(&server, until);
        assert_eq!(gaps.len(), 0);
        // A block that is not full is taken once it has stopped changing.
        let behind = server.lsn() - done.lsn;
        assert!(behind == 0 || (until == ArchiveUntil::Once && behind < 512 + 30), "{behind}");
    }
    let (done, _) = archived(&server, ArchiveUntil::CaughtUp);
    assert_eq!((done.lsn, done.lag_bytes), (server.lsn(), 0));
    let report = verified(&server);
    assert_eq!((report.ranges.len(), report.exit_status(), report.mtrs), (1, 0, server.notes.len() as u64));
    assert_eq!((report.ranges[0].start_lsn, report.ranges[0].end_lsn), (FIRST, server.lsn()));
    assert!(report.segments > 5, "{report:?}");
}

#[test]
fn files_that_the_server_used_again_leave_a_gap_and_never_wrong_bytes() {
    let mut server = FakeMySql::new();
    server.commit(3000);
    let (before, _) = archived(&server, ArchiveUntil::CaughtUp);
    server.commit(9000);
    server.lap();
    let (done, gaps) = archived(&server, ArchiveUntil::Once);
    assert_eq!((gaps.len(), done.gaps), (1, 1));
    assert!(gaps[0].contains(&before.lsn.to_string()) && gaps[0].contains("innodb_redo_log_capacity"), "{gaps:?}");
    server.commit(100);
    assert_eq!(archived(&server, ArchiveUntil::CaughtUp).0.lsn, server.lsn());
    let report = verified(&server);
    assert_eq!((report.ranges.len(), report.exit_status()), (2, 1));
    assert_eq!(report.ranges[1].gap.as_deref(), Some(gaps[0].as_str()));
}

/// A server that dies within a mini-transaction drops it in recovery and writes others in its place.
#[test]
fn what_a_recovering_server_drops_is_not_archived_whether_or_not_the_archiver_runs_meanwhile() {
    for runs in [false, true] {
        let mut server = FakeMySql::new();
        server.commit(700);
        let ends = server.ends();
        // A mini-transaction that continues in the next block, which was never written.
        let last = (0..ends.len() - 1).rfind(|at| {
            let (end, next) = (ends[*at], ends[*at + 1]);
            end / 512 + 1 == next / 512 && end % 512 > 100 && next % 512 > 13
        });
        let last = last.expect("one");
        let mut blocks = server.blocks();
        let next = ((ends[last + 1] - FIRST) / 512) as usize;
        blocks[next..].fill([0; LOG_BLOCK_SIZE]);
        server.write(&blocks);
        let until = if runs { ArchiveUntil::Stopped } else { ArchiveUntil::Once };
        let (datadir, options) = (server.datadir(), options(&server, until));
        let gaps = beside_archiver(&datadir, &options, |wait_for| {
            assert_eq!(wait_for(ends[last]), ends[last], "the rest is not complete");
            // The server recovers: the block now ends after the last complete mini-transaction, and others follow.
            blocks[next - 1] = cut(&blocks[next - 1], Lsn(ends[last]), &[]).expect("cut");
            server.write(&blocks);
            server.notes.truncate(last + 1);
            server.notes.extend([5, 6, 7]);
            server.commit(900);
            if runs {
                wait_for(server.lsn());
            }
        });
        let (done, more) = archived(&server, ArchiveUntil::CaughtUp);
        assert_eq!((done.lsn, gaps.len(), more.len()), (server.lsn(), 0, 0), "runs: {runs}");
        assert_eq!(verified(&server).ranges.len(), 1);
    }
}

/// A mini-transaction may begin in one file and end in the next. While the log is made smaller, the server removes the first of the two as
/// soon as a checkpoint lies behind it, which may be before the next look.
#[test]
fn a_file_removed_before_the_mini_transaction_at_its_end_is_complete_leaves_no_gap() {
    let mut server = FakeMySql::new();
    server.commit(4000);
    let (ends, file_end) = (server.ends(), FIRST + (FILE_BLOCKS * LOG_BLOCK_SIZE) as u64);
    let last = ends.iter().rposition(|end| *end < file_end).expect("one");
    assert!(ends[last + 1] > file_end + 12, "the next mini-transaction reaches into the second file");
    let mut blocks = server.blocks();
    blocks.truncate(2 * FILE_BLOCKS);
    blocks[FILE_BLOCKS..].fill([0; LOG_BLOCK_SIZE]);
    server.write(&blocks);
    let (datadir, options) = (server.datadir(), options(&server, ArchiveUntil::Stopped));
    let gaps = beside_archiver(&datadir, &options, |wait_for| {
        wait_for(ends[last]);
        // Until it looks for the next block in the second file.
        thread::sleep(Duration::from_millis(50));
        server.lap();
        assert_eq!(server.oldest, 1);
        wait_for(server.lsn());
    });
    assert_eq!(gaps, Vec::<String>::new());
    assert_eq!(verified(&server).ranges.len(), 1);
}

#[test]
fn a_log_with_another_history_starts_a_timeline() {
    let mut server = FakeMySql::new();
    server.commit(2000);
    let (before, _) = archived(&server, ArchiveUntil::CaughtUp);
    server.notes.truncate(1500);
    server.notes.push(1);
    server.commit(2000);
    let (done, gaps) = archived(&server, ArchiveUntil::CaughtUp);
    assert_eq!((gaps.len(), done.timeline, done.lsn), (1, 2, server.lsn()));
    assert!(done.lsn > before.lsn && gaps[0].contains("holds other changes"), "{gaps:?}");
    assert_eq!(verified(&server).ranges.len(), 2);
    // And a log that is just shorter.
    server.notes.truncate(2500);
    for entry in fs::read_dir(server.datadir().join("#innodb_redo")).expect("read") {
        fs::remove_file(entry.expect("one").path()).expect("removed");
    }
    server.write(&server.blocks());
    let (done, gaps) = archived(&server, ArchiveUntil::CaughtUp);
    assert_eq!((gaps.len(), done.timeline, done.lsn), (1, 3, server.lsn()));
}

#[test]
fn a_killed_run_goes_on_where_it_ended_and_clears_what_it_tore() {
    let mut server = FakeMySql::new();
    server.commit(500);
    archived(&server, ArchiveUntil::CaughtUp);
    let segment = server.archive().join(format!("redo.{FIRST:016x}"));
    let whole = fs::read(&segment).expect("read");
    server.commit(500);
    // Blocks out of sequence, and half a block.
    let (blocks, used) = (server.blocks(), whole.iter().rposition(|byte| *byte != 0).expect("some") / 512 * 512 + 512);
    let mut torn = whole.clone();
    torn[used + 512..used + 1024].copy_from_slice(&blocks[(used - 2048) / 512 + 1]);
    torn[used + 2048..used + 2300].fill(0x55);
    fs::write(&segment, &torn).expect("written");
    assert_eq!(archived(&server, ArchiveUntil::CaughtUp).1.len(), 0);
    let report = verified(&server);
    assert_eq!((report.mtrs, report.ranges.len()), (1000, 1));
}

#[test]
fn an_encrypted_log_is_refused_with_the_way_out() {
    let mut server = FakeMySql::new();
    server.commit(200);
    let mut blocks = server.blocks();
    blocks[2][4] |= 0x80;
    server.write(&blocks);
    let run =
        archive(&server.datadir(), &options(&server, ArchiveUntil::CaughtUp), &AtomicBool::new(false), &mut |_| {});
    let Err(ArchiveError::Refused(why)) = run else { panic!("{run:?}") };
    let at = FIRST + 1024;
    assert!(why.contains(&format!("encrypted from LSN {at} on")) && why.contains("innodb_redo_log_encrypt"), "{why}");
}
