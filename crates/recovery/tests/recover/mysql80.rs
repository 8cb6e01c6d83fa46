//! MySQL before 8.0.30: its log is a ring of files, and before 8.0.20 its doublewrite copies are in the system tablespace. The server is
//! 8.0.15.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use datadir::keys::KeyFiles;
use format::checksum::crc32c;
use innokit_recovery::RecoverOptions;
use tempfile::TempDir;

use crate::mishaps::{
    assert_killed_runs_end_in_the_same_bytes, assert_refused_unchanged, assert_torn_first_page_is_restored, change,
};
use crate::mysql::{
    TELLS, assert_applied_nothing, assert_killed_server_is_recovered, compare, crash, number, run, set_options,
};
use crate::mysql_load;
use crate::server::{Server, copy, script};

const KIND: &str = "mysql80";
const OPTIONS: [&[&str]; 3] = [
    &["--innodb-log-file-size=32M"],
    // A small ring, which wraps several times.
    &[
        "--innodb-page-size=8k",
        "--innodb-log-file-size=4M",
        "--innodb-log-files-in-group=3",
        "--innodb-buffer-pool-size=24M",
    ],
    UNFLUSHED,
];
/// Flushes no page before it must, so that redo accumulates.
const UNFLUSHED: &[&str] = &[
    "--innodb-log-file-size=48M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-buffer-pool-size=256M",
];

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_of_mysql_80_starts_at_once_and_finds_what_its_own_recovery_finds() {
    let first = number("INNOKIT_MYSQL_FIRST", 1);
    let changes = mysql_load::changes(&mysql_load::zip_names(16));
    for number in first..first + number("INNOKIT_MYSQL_CRASHES", 1) {
        assert_killed_server_is_recovered(KIND, OPTIONS[number as usize % OPTIONS.len()], number, &changes);
    }
}

/// A server killed with much to recover.
fn crashed(dir: &TempDir) -> Server {
    let server = Server::start_kind(KIND, &dir.path().join("crashed"), &[UNFLUSHED, &[TELLS]].concat());
    crash(&server, 16, &mysql_load::changes(&mysql_load::zip_names(16)), Duration::from_millis(1500));
    server
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_of_a_killed_server_of_mysql_80_become_what_its_own_recovery_makes_of_them() {
    let dir = TempDir::new().expect("a directory");
    // Without changes of definitions: the server itself may not survive these with innodb_force_recovery.
    let server = Server::start_kind(KIND, &dir.path().join("crashed"), &[UNFLUSHED, &[TELLS]].concat());
    server.run(&mysql_load::tables(&mysql_load::zip_tables(16)));
    server.run(&mysql_load::rows_only(&["zip_8k", "zip_16k"], 12));
    server.kill();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    copy(&server.0, &theirs);
    let done = run(&server.0, RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
    server.lend_options(&theirs);
    let theirs = Server(theirs, KIND);
    script("server.sh", &[KIND, "start", theirs.path(), "--innodb-force-recovery=3"]);
    theirs.stop();
    let seen = compare(&ours, &theirs.0, &done);
    println!("{seen:?}");
    assert_eq!(seen.different, Vec::<String>::new(), "of {} pages", seen.same);
    assert!(seen.same > 500 && seen.later < seen.same / 4, "{seen:?}");
}

/// A ring of two files: where its newest checkpoint is.
struct Ring {
    /// Size of a file, bytes.
    size: u64,
    /// Offset of the checkpoint's block in the blocks of both files.
    checkpoint: u64,
}

const HEADER: u64 = 2048;

impl Ring {
    fn of(datadir: &Path) -> Self {
        let first = fs::read(datadir.join("ib_logfile0")).expect("a log");
        let field = |at: usize| u64::from_be_bytes(first[at..at + 8].try_into().expect("8 bytes"));
        let newest = if field(512) > field(1536) { 512 } else { 1536 };
        let (size, offset) = (first.len() as u64, field(newest + 16));
        let checkpoint = offset / size * (size - HEADER) + offset % size - HEADER;
        Self { size, checkpoint: checkpoint / 512 * 512 }
    }

    /// The file and the offset in it that are this many bytes after the start of the checkpoint's block.
    fn after_checkpoint(&self, bytes: u64) -> (String, u64) {
        let payload = self.size - HEADER;
        let at = (self.checkpoint + bytes) % (2 * payload);
        (format!("ib_logfile{}", at / payload), HEADER + at % payload)
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_ring_that_is_not_whole_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let server = crashed(&dir);
    let (data, away) = (&server.0, dir.path().join("away"));
    let [first, second] = ["ib_logfile0", "ib_logfile1"].map(|name| data.join(name));

    fs::rename(&second, &away).expect("renames");
    assert_refused_unchanged(data, true, "ib_logfile1 is missing");
    fs::write(&second, vec![0; 1 << 20]).expect("writes");
    assert_refused_unchanged(data, true, "differ in size");
    fs::rename(&away, &second).expect("renames");

    let (name, at) = Ring::of(data).after_checkpoint(4096 + 100);
    change(&data.join(&name), at, 1);
    assert_refused_unchanged(data, true, "the redo log is damaged at LSN");
    change(&data.join(&name), at, 1);

    let whole = fs::read(&first).expect("a log");
    let mut older = whole[..512].to_vec();
    older[3] = 2;
    let crc = crc32c(&older[..508]).to_be_bytes();
    older[508..].copy_from_slice(&crc);
    let file = File::options().write(true).open(&first).expect("opens");
    file.write_all_at(&older, 0).expect("writes");
    assert_refused_unchanged(data, false, "which innokit does not recover");
    file.write_all_at(&whole[..512], 0).expect("writes");

    fs::create_dir(data.join("#innodb_redo")).expect("makes the directory");
    assert_refused_unchanged(data, false, "both exist");
    fs::remove_dir(data.join("#innodb_redo")).expect("removes");

    let archive = RecoverOptions { redo: Some(away), dry_run: true, ..RecoverOptions::default() };
    let error = innokit_recovery::recover(data, &archive).expect_err("there is no archive of such logs");
    assert!(!error.is_damage() && error.to_string().contains("is not archived"), "{error}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_ring_is_closed_by_its_first_file_alone_however_often_that_is_interrupted() {
    let dir = TempDir::new().expect("a directory");
    let server = crashed(&dir);
    // In the first run of the doublewrite area, as a page of ibdata1.
    assert_torn_first_page_is_restored(&server.0, |dir, page| {
        let system = File::options().write(true).open(dir.join("ibdata1")).expect("opens");
        system.write_all_at(page, 64 * page.len() as u64).expect("writes");
    });
    assert_killed_runs_end_in_the_same_bytes(&server.0, &KeyFiles::default());
    let before = ["ib_logfile0", "ib_logfile1"].map(|name| fs::read(server.0.join(name)).expect("a log"));
    // A run that was killed before it could replace the first file leaves this, and so does a server that changes its log's size.
    fs::write(server.0.join("ib_logfile101"), &before[0][..4096]).expect("writes");
    let done = run(&server.0, RecoverOptions::default());
    assert!(done.pages_changed > 500 && !done.was_clean, "{done:?}");
    let after = ["ib_logfile0", "ib_logfile1"].map(|name| fs::read(server.0.join(name)).expect("a log"));
    assert!(after[0] != before[0] && after[0].len() == before[0].len() && after[1] == before[1]);
    assert!(!server.0.join("ib_logfile101").exists(), "it has become the first file");
    assert!(run(&server.0, RecoverOptions::default()).was_clean, "there is nothing more to do");
    set_options(&server.0, &[UNFLUSHED, &[TELLS]].concat());
    let server = Server::again_kind(KIND, &server.0);
    assert_applied_nothing(&server.log());
    // The log is a log again: the server fills it, dies and recovers from it.
    server.ask(
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1;
         INSERT INTO shop.dynamic (a, b) SELECT seq, 'after recovery' FROM shop.nums",
    );
    server.kill();
    script("server.sh", &[KIND, "start", server.path()]);
    assert_eq!(server.ask("SELECT COUNT(*) FROM shop.dynamic WHERE b = 'after recovery'").trim(), "1000");
}
