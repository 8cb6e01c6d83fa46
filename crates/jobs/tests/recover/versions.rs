//! Servers of other versions: 10.5, whose log is made of blocks, and 11.8.

use std::fs;
use std::path::Path;
use std::time::Duration;

use format::Lsn;
use format::page::checksum::crc32c;
use format::redo::block::{LOG_BLOCK_SIZE, LogBlock, block_number};
use format::redo::mariadb::{LogFile, START_OFFSET};
use format::redo::mtr_reader::MtrReader;
use innokit_jobs::source::keys::KeyFiles;
use innokit_jobs::{Check, CheckOptions, RecoverOptions, TableOptions, recover, tables};
use tempfile::TempDir;

use crate::mishaps::{assert_killed_runs_end_in_the_same_bytes, assert_refused_unchanged, change, info_of};
use crate::server::{Server, copy};
use crate::{assert_recovered_as_by_the_server, assert_started_without_recovery, crashes, files_of, try_crash};

pub const OLD: &str = "mariadb105";
const NEW: &str = "mariadb118";

#[test]
fn a_server_of_10_5_starts_at_once_and_finds_what_its_own_recovery_finds() {
    (0..crashes(1)).for_each(|number| try_crash(OLD, number));
}

#[test]
fn a_server_of_11_8_starts_at_once_and_finds_what_its_own_recovery_finds() {
    (0..crashes(1)).for_each(|number| try_crash(NEW, number));
}

/// A server of 10.5 that was killed with much to recover.
fn crashed(dir: &Path) -> Server {
    let options =
        ["--innodb-log-file-size=64M", "--innodb-max-dirty-pages-pct=99", "--innodb-max-dirty-pages-pct-lwm=0"];
    let server = Server::start_kind(OLD, &dir.join("crashed"), &options);
    server.crash(Duration::from_millis(300));
    server
}

/// Bytes of payload in a block, behind its header and before its checksum.
const HEADER: usize = 12;
const CHECKSUM: usize = 508;

/// Puts bytes behind the end of the log of a datadir, as its server would have written them.
fn append(datadir: &Path, payload: &[u8]) {
    let path = datadir.join("ib_logfile0");
    let mut bytes = fs::read(&path).expect("a log");
    let file = LogFile::parse(&bytes[..START_OFFSET], bytes.len() as u64).expect("a log");
    let mut end = info_of(&path).end_lsn;
    // The front of a mini-transaction that the server was writing when it was killed would be taken to go on from here.
    for lsn in (end - end % LOG_BLOCK_SIZE as u64..).step_by(LOG_BLOCK_SIZE).skip(1).map(Lsn) {
        let place = MtrReader::place(&file, lsn).expect("within the file") as usize;
        let block = &mut bytes[place..place + LOG_BLOCK_SIZE];
        if LogBlock::parse((&*block).try_into().expect("a block"), lsn).is_none() {
            break;
        }
        block.fill(0);
    }
    let mut left = payload;
    while !left.is_empty() {
        let place = MtrReader::place(&file, Lsn(end)).expect("within the file") as usize;
        let block = &mut bytes[place..place + LOG_BLOCK_SIZE];
        let at = end as usize % LOG_BLOCK_SIZE;
        let (now, later) = left.split_at(left.len().min(CHECKSUM - at));
        if at == HEADER {
            block.fill(0);
        }
        block[..4].copy_from_slice(&block_number(Lsn(end)).to_be_bytes());
        block[at..at + now.len()].copy_from_slice(now);
        let used = if at + now.len() == CHECKSUM { LOG_BLOCK_SIZE } else { at + now.len() };
        block[4..6].copy_from_slice(&(used as u16).to_be_bytes());
        let crc = crc32c(&block[..CHECKSUM]);
        block[CHECKSUM..].copy_from_slice(&crc.to_be_bytes());
        end += if used == LOG_BLOCK_SIZE { LOG_BLOCK_SIZE - at + HEADER } else { now.len() } as u64;
        left = later;
    }
    fs::write(&path, bytes).expect("writes");
}

/// The front of a record of the longest kind: it says that it is longer than what follows.
fn cut_off() -> Vec<u8> {
    // WRITE, 4000 bytes and more, to page 1 of tablespace 1.
    let mut record = vec![0x30, 0x80 | 0x10, 0, 1, 1];
    record.resize(1800, 7);
    record
}

/// Payload that ends with the block in which the log ends: mini-transactions that do nothing.
fn up_to_the_next_block(datadir: &Path) -> Vec<u8> {
    let end = info_of(&datadir.join("ib_logfile0")).end_lsn as usize;
    vec![0; CHECKSUM - end % LOG_BLOCK_SIZE]
}

#[test]
fn a_log_of_blocks_is_closed_wherever_it_ends() {
    let dir = TempDir::new().expect("a directory");
    let server = crashed(dir.path());
    let end = info_of(&server.0).end_lsn;
    let whole = up_to_the_next_block(&server.0);
    let next = end - end % 512 + 512 + HEADER as u64;
    // At the end of a block, behind which there is none yet; within a mini-transaction, which then was never there; both.
    let ends = [(whole.clone(), next), (cut_off(), end), ([whole, cut_off()].concat(), next)];
    for (number, (payload, end)) in (0..).zip(ends) {
        let folder = dir.path().join(number.to_string());
        let variant = Server(folder.join("crashed"), OLD);
        copy(&server.0, &variant.0);
        server.lend_options(&variant.0);
        append(&variant.0, &payload);
        let dry = recover(&variant.0, &RecoverOptions { dry_run: true, ..RecoverOptions::default() });
        assert_eq!(dry.expect("recovers").end_lsn, end, "variant {number}");
        assert_closing_may_be_interrupted(&variant.0);
        assert_recovered_as_by_the_server(&variant, &folder, number, &KeyFiles::default());
    }
    assert_killed_runs_end_in_the_same_bytes(&server.0);
}

/// Recovers a datadir whose log lies as it does at each moment while it is closed: all that is needed is still there.
fn assert_closing_may_be_interrupted(crashed: &Path) {
    let dir = TempDir::new().expect("a directory");
    let done = dir.path().join("done");
    recover(crashed, &RecoverOptions { to: Some(done.clone()), ..RecoverOptions::default() }).expect("recovers");
    let expected = files_of(&done);
    let read = |datadir: &Path| fs::read(datadir.join("ib_logfile0")).expect("a log");
    let (before, after) = (read(crashed), read(&done));
    // Blocks behind the end, the last one first, then the block of the end, then a slot in the file's header.
    let block = |bytes: &[u8], number: usize| bytes[number * LOG_BLOCK_SIZE..][..LOG_BLOCK_SIZE].to_vec();
    let blocks = before.len() / LOG_BLOCK_SIZE;
    let changed: Vec<usize> =
        (0..blocks).rev().filter(|&number| block(&before, number) != block(&after, number)).collect();
    assert!(!changed.is_empty());
    let mut log = before;
    for (count, number) in changed.iter().enumerate() {
        fs::write(done.join("ib_logfile0"), &log).expect("writes");
        recover(&done, &RecoverOptions::default()).unwrap_or_else(|error| panic!("after {count} blocks: {error}"));
        assert_eq!(files_of(&done), expected, "after {count} blocks of {changed:?}");
        log[number * LOG_BLOCK_SIZE..][..LOG_BLOCK_SIZE].copy_from_slice(&block(&after, *number));
    }
    assert!(log == after);
}

#[test]
fn a_damaged_log_of_blocks_is_refused_before_anything_is_written() {
    let dir = TempDir::new().expect("a directory");
    let server = crashed(dir.path());
    let log = server.0.join("ib_logfile0");
    let info = info_of(&log);
    let (from, end) = (info.checkpoint.lsn, info.end_lsn);
    let bytes = fs::read(&log).expect("a log");
    let file = LogFile::parse(&bytes[..START_OFFSET], bytes.len() as u64).expect("a log");
    let place = |lsn| MtrReader::place(&file, Lsn(lsn)).expect("within");
    change(&log, place(from + (end - from) / 2) + 100, 0x10);
    assert_refused_unchanged(&server.0, true, "damaged");
    fs::write(&log, &bytes).expect("writes");
    // The log is cut off at its checkpoint: this must not pass for one with nothing to recover.
    let mut cut = bytes.clone();
    cut[place(from) as usize..].fill(0);
    fs::write(&log, &cut).expect("writes");
    assert_refused_unchanged(&server.0, true, "log");
    fs::write(&log, []).expect("writes");
    assert_refused_unchanged(&server.0, true, "ib_logfile0");
}

#[test]
fn a_server_that_was_shut_down_has_nothing_to_recover_and_no_damage() {
    for kind in [OLD, NEW] {
        let dir = TempDir::new().expect("a directory");
        let server = Server::start_kind(kind, &dir.path().join("data"), &[]);
        server.run(&crate::load::tables());
        server.run(&crate::load::rounds(1..12));
        server.stop();
        let done = recover(&server.0, &RecoverOptions::default()).expect("nothing to do");
        assert!(done.was_clean && done.pages_changed == 0, "{kind}: {done:?}");
        assert!(info_of(&server.0).state.starts_with("clean"), "{kind}");
        let paths = [server.0.clone()];
        let check = Check::plan(&paths, CheckOptions::default()).expect("options").run(None).expect("checks");
        assert_eq!((check.findings.as_slice(), check.exit_status()), ([].as_slice(), 0), "{kind}");
        for extended in [false, true] {
            let report = tables(&paths, &TableOptions { extended, ..TableOptions::default() }).expect("checks");
            assert_eq!((report.totals.findings, report.totals.failed_files), (0, 0), "{kind}: {:?}", report.findings);
            assert!(report.totals.entries > 1000, "{kind}: there were tables to check");
        }
        let again = Server::again_kind(kind, &server.0);
        assert_started_without_recovery(&again);
    }
}
