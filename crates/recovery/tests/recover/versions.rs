//! Other server versions: 10.5, whose log consists of blocks, and 11.8.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use datadir::keys::KeyFiles;
use format::Lsn;
use format::checksum::crc32c;
use innokit_recovery::{RecoverOptions, recover};
use inspect::{Check, CheckOptions, TableOptions, tables};
use redo::block::{LOG_BLOCK_SIZE, LogBlock, block_number};
use redo::log_key::LogKey;
use redo::mariadb::{LogFile, START_OFFSET};
use redo::mtr_reader::MtrReader;
use redo::plain_block::plain_block;
use tempfile::TempDir;

use crate::mishaps::{
    assert_killed_runs_end_in_the_same_bytes, assert_refused_unchanged_with, change, in_place_with, info_with,
};
use crate::server::{Server, copy};
use crate::{
    assert_recovered_as_by_the_server, assert_started_without_recovery, crashes, encrypted, files_of, try_crash,
};

pub const OLD: &str = "mariadb105";
pub const NEW: &str = "mariadb118";

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_of_10_5_starts_at_once_and_finds_what_its_own_recovery_finds() {
    (0..crashes(1)).for_each(|number| try_crash(OLD, number));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_of_11_8_starts_at_once_and_finds_what_its_own_recovery_finds() {
    (0..crashes(1)).for_each(|number| try_crash(NEW, number));
}

/// A 10.5 server killed with much to recover, and its keys. It flushes no page before most of its log is in use.
fn crashed(dir: &Path, is_encrypted: bool) -> (Server, KeyFiles) {
    let options = [
        "--innodb-log-file-size=64M",
        "--innodb-adaptive-flushing-lwm=70",
        "--innodb-max-dirty-pages-pct=99",
        "--innodb-max-dirty-pages-pct-lwm=0",
    ];
    let (server, keys) = if is_encrypted {
        encrypted::start_kind(OLD, dir, &[&options[..], &encrypted::EVERYTHING].concat())
    } else {
        (Server::start_kind(OLD, &dir.join("crashed"), &options), KeyFiles::default())
    };
    server.crash(Duration::from_millis(300));
    (server, keys)
}

/// Payload bytes in a block: after its header and before its checksum, or before the key version.
const HEADER: usize = 12;
const CHECKSUM: usize = 508;
const KEY_VERSION: usize = 504;

/// The log of a datadir of 10.5.
struct Log {
    path: PathBuf,
    bytes: Vec<u8>,
    file: LogFile,
    key: Option<LogKey>,
    /// The LSNs of its checkpoint and its end.
    from: u64,
    end: u64,
}

impl Log {
    fn of(datadir: &Path, keys: &KeyFiles) -> Self {
        let path = datadir.join("ib_logfile0");
        let bytes = fs::read(&path).expect("a log");
        let file = LogFile::parse(&bytes[..START_OFFSET], bytes.len() as u64).expect("a log");
        let at_end = MtrReader::place(&file, file.checkpoint.end_lsn).expect("within the file") as usize;
        let store = keys.read().expect("keys");
        let key = LogKey::unlock(&file, &bytes[..START_OFFSET], &store, &bytes[at_end..]).expect("opens");
        let info = info_with(&path, keys);
        Self { path, bytes, file, key, from: info.checkpoint.lsn, end: info.end_lsn }
    }

    fn place(&self, lsn: u64) -> usize {
        MtrReader::place(&self.file, Lsn(lsn)).expect("within the file") as usize
    }

    /// The offset where payload ends in a block.
    fn payload_end(&self) -> usize {
        if self.key.is_some() { KEY_VERSION } else { CHECKSUM }
    }

    /// The decrypted block at an LSN.
    fn block(&self, lsn: u64) -> [u8; LOG_BLOCK_SIZE] {
        let found = self.bytes[self.place(lsn)..].first_chunk().expect("a block");
        plain_block(found, Lsn(lsn), self.key.as_ref()).unwrap_or([0; LOG_BLOCK_SIZE])
    }

    /// Writes it back, encrypted if the log is.
    fn put(&mut self, lsn: u64, mut block: [u8; LOG_BLOCK_SIZE]) {
        if let Some(key) = &self.key {
            key.seal_block(&mut block, Lsn(lsn - lsn % LOG_BLOCK_SIZE as u64));
        }
        let crc = crc32c(&block[..CHECKSUM]);
        block[CHECKSUM..].copy_from_slice(&crc.to_be_bytes());
        let place = self.place(lsn);
        self.bytes[place..place + LOG_BLOCK_SIZE].copy_from_slice(&block);
    }

    fn write(&self) {
        fs::write(&self.path, &self.bytes).expect("writes");
    }
}

/// Appends bytes to a datadir's log as its server would have written them.
fn append(datadir: &Path, keys: &KeyFiles, payload: &[u8]) {
    let mut log = Log::of(datadir, keys);
    let (mut end, payload_end) = (log.end, log.payload_end());
    // The beginning of a mini-transaction that the server was writing when it was killed would seem to continue here.
    for lsn in (end - end % LOG_BLOCK_SIZE as u64..).step_by(LOG_BLOCK_SIZE).skip(1) {
        if LogBlock::parse(&log.block(lsn), Lsn(lsn)).is_none() {
            break;
        }
        let place = log.place(lsn);
        log.bytes[place..place + LOG_BLOCK_SIZE].fill(0);
    }
    let mut left = payload;
    while !left.is_empty() {
        let at = end as usize % LOG_BLOCK_SIZE;
        let (now, later) = left.split_at(left.len().min(payload_end - at));
        let mut block = if at == HEADER { [0; LOG_BLOCK_SIZE] } else { log.block(end) };
        block[..4].copy_from_slice(&block_number(Lsn(end)).to_be_bytes());
        block[at..at + now.len()].copy_from_slice(now);
        let used = if at + now.len() == payload_end { LOG_BLOCK_SIZE } else { at + now.len() };
        block[4..6].copy_from_slice(&(used as u16).to_be_bytes());
        log.put(end, block);
        end += if used == LOG_BLOCK_SIZE { LOG_BLOCK_SIZE - at + HEADER } else { now.len() } as u64;
        left = later;
    }
    log.write();
}

/// The beginning of a record of the longest kind: its length exceeds what follows.
fn cut_off() -> Vec<u8> {
    // WRITE, 4000 bytes and more, to page 1 of tablespace 1.
    let mut record = vec![0x30, 0x80 | 0x10, 0, 1, 1];
    record.resize(1800, 7);
    record
}

/// Empty mini-transactions that fill the log's last block to its end.
fn up_to_the_next_block(log: &Log) -> Vec<u8> {
    vec![0; log.payload_end() - log.end as usize % LOG_BLOCK_SIZE]
}

fn assert_closed_wherever_it_ends(is_encrypted: bool) {
    let dir = TempDir::new().expect("a directory");
    let (server, keys) = crashed(dir.path(), is_encrypted);
    let log = Log::of(&server.0, &keys);
    let (end, whole) = (log.end, up_to_the_next_block(&log));
    let next = end - end % 512 + 512 + HEADER as u64;
    // A log that ends with a block, with none after it yet; one that ends within a mini-transaction, which then does not count; and both.
    let ends = [(whole.clone(), next), (cut_off(), end), ([whole, cut_off()].concat(), next)];
    for (number, (payload, end)) in (0..).zip(ends) {
        let folder = dir.path().join(number.to_string());
        let variant = Server(folder.join("crashed"), OLD);
        copy(&server.0, &variant.0);
        server.lend_options(&variant.0);
        append(&variant.0, &keys, &payload);
        let options = RecoverOptions { dry_run: true, keys: keys.clone(), ..RecoverOptions::default() };
        assert_eq!(recover(&variant.0, &options).expect("recovers").end_lsn, end, "variant {number}");
        assert_closing_may_be_interrupted(&variant.0, &keys);
        assert_recovered_as_by_the_server(&variant, &folder, number, &keys);
    }
    assert_killed_runs_end_in_the_same_bytes(&server.0, &keys);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_of_blocks_is_closed_wherever_it_ends() {
    assert_closed_wherever_it_ends(false);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_log_of_blocks_is_closed_wherever_it_ends() {
    assert_closed_wherever_it_ends(true);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_goes_on_with_an_encrypted_log_of_blocks_that_was_closed() {
    let dir = TempDir::new().expect("a directory");
    let (server, keys) = crashed(dir.path(), true);
    in_place_with(&server.0, None, &keys).expect("recovers");
    let server = Server::again_kind(OLD, &server.0);
    assert_started_without_recovery(&server);
    let before = fs::read(server.0.join("ib_logfile0")).expect("a log");
    server.run("USE shop; INSERT INTO dynamic (a, b) SELECT seq, REPEAT(SHA1(seq), 3) FROM seq_1_to_20000");
    server.kill();
    let after = fs::read(server.0.join("ib_logfile0")).expect("a log");
    assert_eq!(before[..512], after[..512], "it is the same log");
    assert_recovered_as_by_the_server(&server, dir.path(), 0, &keys);
}

/// Recovers a datadir with its log in each state that closing it passes through: everything needed is still there.
fn assert_closing_may_be_interrupted(crashed: &Path, keys: &KeyFiles) {
    let dir = TempDir::new().expect("a directory");
    let done = dir.path().join("done");
    let options = RecoverOptions { keys: keys.clone(), ..RecoverOptions::default() };
    recover(crashed, &RecoverOptions { to: Some(done.clone()), ..options.clone() }).expect("recovers");
    let expected = files_of(&done);
    let read = |datadir: &Path| fs::read(datadir.join("ib_logfile0")).expect("a log");
    let (before, after) = (read(crashed), read(&done));
    // The blocks after the end, the last one first, then the block with the end, then a slot in the file header.
    let block = |bytes: &[u8], number: usize| bytes[number * LOG_BLOCK_SIZE..][..LOG_BLOCK_SIZE].to_vec();
    let blocks = before.len() / LOG_BLOCK_SIZE;
    let changed: Vec<usize> =
        (0..blocks).rev().filter(|&number| block(&before, number) != block(&after, number)).collect();
    assert!(!changed.is_empty());
    let mut log = before;
    for (count, number) in changed.iter().enumerate() {
        fs::write(done.join("ib_logfile0"), &log).expect("writes");
        recover(&done, &options).unwrap_or_else(|error| panic!("after {count} blocks: {error}"));
        assert_eq!(files_of(&done), expected, "after {count} blocks of {changed:?}");
        log[number * LOG_BLOCK_SIZE..][..LOG_BLOCK_SIZE].copy_from_slice(&block(&after, *number));
    }
    assert!(log == after);
}

fn assert_damage_is_refused(is_encrypted: bool) {
    let dir = TempDir::new().expect("a directory");
    let (server, keys) = crashed(dir.path(), is_encrypted);
    let [whole, mut log] = [(); 2].map(|()| Log::of(&server.0, &keys));
    let refused = |is_damage, says| assert_refused_unchanged_with(&server.0, &keys, is_damage, says);
    let middle = whole.from + (whole.end - whole.from) / 2;
    change(&whole.path, whole.place(middle) as u64 + 100, 0x10);
    refused(true, "damaged");
    // A block as it was before it was full, or with another key version.
    let mut block = log.block(middle);
    block[4..6].copy_from_slice(&100_u16.to_be_bytes());
    log.put(middle, block);
    log.write();
    refused(true, "old version");
    if is_encrypted {
        let place = whole.place(middle);
        log.bytes.clone_from(&whole.bytes);
        log.bytes[place + KEY_VERSION..place + CHECKSUM].copy_from_slice(&2_u32.to_be_bytes());
        let crc = crc32c(&log.bytes[place..place + CHECKSUM]);
        log.bytes[place + CHECKSUM..place + LOG_BLOCK_SIZE].copy_from_slice(&crc.to_be_bytes());
        log.write();
        refused(false, "with version 2 of the key");
    }
    // A log cut off at its checkpoint must not pass as one with nothing to recover.
    log.bytes.clone_from(&whole.bytes);
    log.bytes[whole.place(whole.from)..].fill(0);
    log.write();
    refused(true, "log");
    fs::write(&whole.path, []).expect("writes");
    refused(true, "ib_logfile0");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_damaged_log_of_blocks_is_refused_before_anything_is_written() {
    assert_damage_is_refused(false);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_damaged_encrypted_log_of_blocks_is_refused_before_anything_is_written() {
    assert_damage_is_refused(true);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_that_was_shut_down_has_nothing_to_recover_and_no_damage() {
    for (kind, options) in [(OLD, &[][..]), (NEW, &[]), (OLD, &encrypted::EVERYTHING)] {
        let dir = TempDir::new().expect("a directory");
        let (server, keys) = encrypted::start_kind(kind, dir.path(), options);
        server.run(&crate::load::tables());
        server.run(&crate::load::rounds(1..12));
        server.stop();
        let options = RecoverOptions { keys: keys.clone(), ..RecoverOptions::default() };
        let done = recover(&server.0, &options).expect("nothing to do");
        assert!(done.was_clean && done.pages_changed == 0, "{kind}: {done:?}");
        assert!(info_with(&server.0, &keys).state == inspect::RedoState::Clean, "{kind}");
        let paths = [server.0.clone()];
        let check = Check::plan(&paths, CheckOptions { keys: keys.clone(), ..CheckOptions::default() })
            .expect("options")
            .run(None)
            .expect("checks");
        assert_eq!((check.findings.as_slice(), check.exit_status()), ([].as_slice(), 0), "{kind}");
        for extended in [false, true] {
            let report = tables(&paths, &TableOptions { extended, keys: keys.clone(), ..TableOptions::default() })
                .expect("checks");
            assert_eq!((report.totals.findings, report.totals.failed_files), (0, 0), "{kind}: {:?}", report.findings);
            assert!(report.totals.entries > 1000, "{kind}: there were tables to check");
        }
        let again = Server::again_kind(kind, &server.0);
        assert_started_without_recovery(&again);
    }
}
