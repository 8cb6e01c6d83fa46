//! Backups of xtrabackup. The tool runs on no system that the tests run on, so we take them from a live server as the tool does. Its source
//! and documentation say what a backup contains, and what `--prepare` does with the copied log before a server recovers from it.
//!
//! Source: Percona XtraBackup 8.4, `redo_log.cc` (the copy and its header), `xtrabackup.cc` (notes; how the copy is turned back into a
//! log).

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use datadir::Severity;
use datadir::keys::KeyFiles;
use format::bytes::be;
use format::checksum::crc32c;
use format::{Lsn, PageId, SpaceFormat, Verdict, verify_page};
use innokit_recovery::{RecoverError, RecoverOptions, recover};
use inspect::Finding;
use redo::block::{LOG_BLOCK_SIZE, block_number, block_start};
use redo::mysql::{
    LOG_CHECKPOINT_1, LOG_CHECKPOINT_2, LOG_CHECKPOINT_LSN, LOG_FILE_HDR_SIZE, LOG_HEADER_CHECKSUM, LOG_HEADER_CREATOR,
    LOG_HEADER_FLAGS, LOG_HEADER_START_LSN, LogFile, newest_checkpoint,
};
use tempfile::TempDir;

use crate::mysql::{TELLS, assert_same_content, assert_started_without_recovery, content, load, run};
use crate::server::{Server, copy, repository};
use crate::{KeptOnFailure, assert_sound, files_of, findings_of, mysql_load};

pub const COPY: &str = "xtrabackup_logfile";
pub const NOTE: &str = "xtrabackup_checkpoints";
/// A flag in a log file's header: the log continues in the next file.
const FULL: u32 = 8;
/// A log large enough for the whole backup, as every tool that copies a log needs. No page is flushed before it must be, so that there is
/// much to apply.
pub const OPTIONS: [&str; 6] = [
    "--innodb-redo-log-capacity=1G",
    "--innodb-buffer-pool-size=256M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-idle-flush-pct=0",
];
/// Longer than any wait here takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A connection that holds a lock while it is open.
struct Session {
    client: Child,
    statements: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Session {
    fn open(server: &Server) -> Self {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([server.1, "sql", server.path(), "-N", "-B", "-n"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn().expect("bash runs");
        let (statements, answers) = (client.stdin.take().expect("a pipe"), client.stdout.take().expect("a pipe"));
        Self { client, statements, answers: BufReader::new(answers) }
    }

    /// Runs statements, the last of which returns one line.
    fn ask(&mut self, sql: &str) -> String {
        self.statements.write_all(sql.as_bytes()).and_then(|()| self.statements.write_all(b";\n")).expect("writes");
        self.statements.flush().expect("writes");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("reads");
        line.trim().to_owned()
    }

    fn close(mut self) {
        drop(self.statements);
        self.client.wait().expect("ends");
    }
}

/// The log's files with their headers.
fn log_files(datadir: &Path) -> Vec<(File, Vec<u8>, LogFile)> {
    let names = fs::read_dir(datadir.join("#innodb_redo")).expect("a directory").flatten();
    let is_in_use = |name: &str| !name.ends_with("_tmp");
    let open = |path: PathBuf| {
        let file = File::open(path).ok()?;
        let mut header = vec![0; LOG_FILE_HDR_SIZE];
        file.read_exact_at(&mut header, 0).ok()?;
        let parsed = LogFile::parse(&header, file.metadata().ok()?.len()).ok()?;
        Some((file, header, parsed))
    };
    names
        .filter(|entry| is_in_use(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| open(entry.path()))
        .collect()
}

fn seal(header: &mut [u8]) {
    for at in [0, LOG_CHECKPOINT_1, LOG_CHECKPOINT_2] {
        let crc = crc32c(&header[at..at + LOG_HEADER_CHECKSUM]);
        be::put_u32(header, at + LOG_HEADER_CHECKSUM, crc).expect("room");
    }
}

/// The LSN at which a copy of the log begins, and its header.
fn start_of_copy(datadir: &Path) -> (Lsn, Vec<u8>) {
    let started = Instant::now();
    loop {
        let files = log_files(datadir);
        let parsed: Vec<LogFile> = files.iter().map(|(_, _, parsed)| parsed.clone()).collect();
        if let Ok(checkpoint) = newest_checkpoint(&parsed) {
            let mut header = files[checkpoint.file].1.clone();
            for slot in [LOG_CHECKPOINT_1, LOG_CHECKPOINT_2] {
                be::put_u64(&mut header, slot + LOG_CHECKPOINT_LSN, checkpoint.lsn.0).expect("room");
            }
            // The header of the checkpoint's file. It may be marked full, although the copy continues in this one file.
            let flags = be::u32_at(&header, LOG_HEADER_FLAGS).expect("flags");
            be::put_u32(&mut header, LOG_HEADER_FLAGS, flags | FULL).expect("room");
            seal(&mut header);
            // The tool writes its name last, so the checksum no longer matches.
            header[LOG_HEADER_CREATOR..LOG_HEADER_CREATOR + 25].copy_from_slice(b"xtrabkup 261123 20:10:00\0");
            return (checkpoint.lsn, header);
        }
        assert!(started.elapsed() < PATIENCE, "the log has a checkpoint");
    }
}

/// The log's blocks starting with the one that contains `from`, and their end.
fn blocks(datadir: &Path, from: Lsn) -> (Vec<u8>, Lsn) {
    let files = log_files(datadir);
    let (mut all, mut at) = (Vec::new(), block_start(from));
    let read = |at: Lsn| {
        let (file, offset) = files.iter().find_map(|(file, _, parsed)| Some((file, parsed.offset_of(at)?)))?;
        let mut block = vec![0; LOG_BLOCK_SIZE];
        file.read_exact_at(&mut block, offset).ok()?;
        let is_whole = be::u32_at(&block, 508)? == crc32c(&block[..508]);
        (is_whole && be::u32_at(&block, 0)? & 0x7FFF_FFFF == block_number(at)).then_some(block)
    };
    while let Some(block) = read(at) {
        let len = u64::from(be::u16_at(&block, 4).expect("a length"));
        all.extend(&block);
        if len < LOG_BLOCK_SIZE as u64 {
            return (all, Lsn(at.0 + len));
        }
        at = Lsn(at.0 + LOG_BLOCK_SIZE as u64);
    }
    (all, at)
}

/// Copies a tablespace in use by a server. Torn pages are read again.
pub fn copy_tablespace(from: &Path, to: &Path) {
    let mut bytes = fs::read(from).expect("reads");
    let format = SpaceFormat::from_page0(&bytes).expect("the format of its pages");
    let size = format.physical().bytes();
    let file = File::open(from).expect("opens");
    for (number, page) in bytes.chunks_exact_mut(size).enumerate() {
        let id = PageId::new(format.space().0, u32::try_from(number).expect("a page number"));
        let started = Instant::now();
        while matches!(verify_page(page, id, &format), Verdict::Corrupt { .. }) {
            assert!(started.elapsed() < PATIENCE, "{}: {id:?} is whole in the end", from.display());
            file.read_exact_at(page, (number * size) as u64).expect("reads");
        }
    }
    fs::write(to, bytes).expect("writes");
}

pub fn is_tablespace(name: &str) -> bool {
    name.ends_with(".ibd") || name.ends_with(".ibu") || name.starts_with("ibdata") || name.starts_with("undo_")
}

/// Copies the files that belong to a backup.
pub fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("makes the directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_left = ["#innodb_redo", "#innodb_temp", "auto.cnf", "ibtmp1"].contains(&name.as_str())
            || [".dblwr", ".bdblwr", ".pid", ".sock", ".lock", "binlog."].iter().any(|part| name.contains(part));
        let is_space = is_tablespace(&name);
        match entry.file_type().expect("a type") {
            kind if kind.is_dir() && !is_left => copy_files(&path, &to.join(name)),
            kind if kind.is_file() && !is_left && is_space => copy_tablespace(&path, &to.join(name)),
            kind if kind.is_file() && !is_left => drop(fs::copy(&path, to.join(name)).expect("copies")),
            _ => {}
        }
    }
}

/// Takes a backup of a server as the tool does.
pub fn back_up(server: &Server, to: &Path) {
    back_up_with(server, to, &|| {}, &|| copy_files(&server.0, to));
}

/// The same, with actions before and after definitions are locked.
pub fn back_up_with(server: &Server, to: &Path, before: &dyn Fn(), after: &dyn Fn()) {
    let (checkpoint, header) = start_of_copy(&server.0);
    before();
    let mut session = Session::open(server);
    assert_eq!(session.ask("LOCK INSTANCE FOR BACKUP; SELECT 'held'"), "held");
    after();
    let status = session.ask(
        "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS; SELECT CONCAT_WS(' ', storage_engines->'$.InnoDB.LSN', \
         storage_engines->'$.InnoDB.LSN_checkpoint') FROM performance_schema.log_status",
    );
    let lsns: Vec<u64> = status.split(' ').map(|lsn| lsn.parse().expect("an LSN")).collect();
    let [last, reached] = lsns[..] else { panic!("{status}") };
    let started = Instant::now();
    let copied = loop {
        let (bytes, end) = blocks(&server.0, checkpoint);
        if end.0 >= last {
            break bytes;
        }
        assert!(started.elapsed() < PATIENCE, "the log is written to {last}");
    };
    assert_eq!(session.ask("UNLOCK INSTANCE; SELECT 'free'"), "free");
    session.close();
    fs::write(to.join(COPY), [header, copied].concat()).expect("writes");
    let note = format!(
        "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = {reached}\nlast_lsn = {last}\nflushed_lsn = {last}\nredo_memory = 0\nredo_frames = 0\n"
    );
    fs::write(to.join(NOTE), note).expect("writes");
    let info = "uuid = \nname = \ntool_name = xtrabackup\ntool_command = --backup\ntool_version = 8.4.0-6\npartial = N\nincremental = N\nformat = file\n";
    fs::write(to.join("xtrabackup_info"), info).expect("writes");
}

/// Turns the copied log back into the server's, as the tool's `--prepare` does, so that the server can recover. Unlike the server built
/// into the tool, ours honours the flag that marks a file as full.
pub fn make_log_of_copy(backup: &Path) {
    let mut log = fs::read(backup.join(COPY)).expect("reads");
    let checkpoint = Lsn(be::u64_at(&log, LOG_CHECKPOINT_1 + LOG_CHECKPOINT_LSN).expect("a checkpoint"));
    be::put_u64(&mut log, LOG_HEADER_START_LSN, block_start(checkpoint).0).expect("room");
    let flags = be::u32_at(&log, LOG_HEADER_FLAGS).expect("flags");
    be::put_u32(&mut log, LOG_HEADER_FLAGS, flags & !FULL).expect("room");
    seal(&mut log);
    log.resize((log.len() * 9 / 8).max(8 << 20).next_multiple_of(64 << 10), 0);
    fs::create_dir(backup.join("#innodb_redo")).expect("makes the directory");
    fs::write(backup.join("#innodb_redo/#ib_redo0"), log).expect("writes");
    fs::remove_file(backup.join(COPY)).expect("removes");
}

fn refusal(backup: &Path) -> RecoverError {
    recover(backup, &RecoverOptions { dry_run: true, ..RecoverOptions::default() }).expect_err("is refused")
}

/// A tablespace with a damaged first page is not treated as missing. Some tablespaces no backup can lack.
fn assert_needed(backup: &Path, name: &str) {
    let (path, aside) = (backup.join(name), backup.join("aside"));
    let mut first = vec![0; 200];
    let file = File::options().read(true).write(true).open(&path).expect("opens");
    file.read_exact_at(&mut first, 0).expect("reads");
    let flipped: Vec<u8> = first.iter().map(|byte| byte ^ 1).collect();
    file.write_all_at(&flipped[100..], 100).expect("writes");
    let error = refusal(backup);
    assert!(error.is_damage() && error.to_string().contains("first page"), "{name}: {error}");
    file.write_all_at(&first, 0).expect("writes");
    fs::rename(&path, &aside).expect("renames");
    if !name.starts_with("shop/") {
        let error = refusal(backup).to_string();
        assert!(error.contains("missing in the backup"), "{name}: {error}");
    } else {
        let dry = RecoverOptions { dry_run: true, ..RecoverOptions::default() };
        assert_eq!(recover(backup, &dry).expect("a partial backup").not_in_backup.len(), 1, "{name}");
    }
    fs::rename(&aside, &path).expect("renames");
}

/// An incomplete backup, or one of a kind that we cannot prepare, is refused before anything is written.
fn assert_refused(backup: &Path) {
    let note = fs::read_to_string(backup.join(NOTE)).expect("reads");
    fs::write(backup.join(NOTE), note.replace("full-backuped", "incremental")).expect("writes");
    let error = refusal(backup).to_string();
    assert!(error.contains("an incremental backup") && error.contains("--increment"), "{error}");
    fs::write(backup.join(NOTE), note.replace("full-backuped", "log-applied")).expect("writes");
    assert!(refusal(backup).to_string().contains("--apply-log-only"));
    fs::write(backup.join(NOTE), note).expect("writes");
    let renamed = backup.join("shop/17.ren");
    fs::write(&renamed, "2\n./shop/other.ibd").expect("writes");
    assert!(refusal(backup).to_string().contains("17.ren: a note in a form"));
    fs::remove_file(renamed).expect("removes");
    for name in ["mysql.ibd", "undo_001", "shop/blobs.ibd"] {
        assert_needed(backup, name);
    }
    let packed = backup.join("shop/b.ibd.zst");
    fs::write(&packed, "").expect("writes");
    assert!(refusal(backup).to_string().contains("packed: unpack the backup first"));
    fs::remove_file(packed).expect("removes");
    let log = fs::read(backup.join(COPY)).expect("reads");
    fs::write(backup.join(COPY), &log[..LOG_FILE_HDR_SIZE + 2 * LOG_BLOCK_SIZE]).expect("writes");
    let error = refusal(backup);
    assert!(error.is_damage() && error.to_string().contains("cut off"), "{error}");
    let mut torn = log.clone();
    torn[LOG_FILE_HDR_SIZE + 2 * LOG_BLOCK_SIZE + 100] ^= 1;
    fs::write(backup.join(COPY), torn).expect("writes");
    assert!(refusal(backup).is_damage());
    fs::remove_file(backup.join(COPY)).expect("removes");
    assert!(refusal(backup).to_string().contains(COPY), "{}", refusal(backup));
    let findings = findings_of(backup, &KeyFiles::default());
    let is_told = |finding: &Finding| finding.severity == Severity::Damage && finding.message.starts_with(COPY);
    assert!(findings.iter().any(is_told), "{findings:?}");
    fs::write(backup.join(COPY), log).expect("writes");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_that_xtrabackup_took_is_prepared() {
    let dir = TempDir::new().expect("a directory");
    let [backup, ours, theirs] = ["backup", "ours", "theirs"].map(|name| dir.path().join(name));
    let server = Server::start_kind("mysql", &dir.path().join("live"), &[&OPTIONS[..], &[TELLS]].concat());
    let _kept = KeptOnFailure(dir.path(), 0);
    let mut client = load(&server, 16, &mysql_load::changes(&mysql_load::zip_names(16)));
    back_up(&server, &backup);
    server.kill();
    client.wait().expect("it loses its server");
    assert_sound(&backup, &KeyFiles::default());
    assert_refused(&backup);
    copy(&backup, &theirs);
    make_log_of_copy(&theirs);
    let before = files_of(&backup);
    let done = run(&backup, RecoverOptions { to: Some(ours.clone()), ..RecoverOptions::default() });
    println!("{done:?}");
    assert!(done.was_backup && !done.was_clean && done.pages_changed > 0, "{done:?}");
    assert_eq!(files_of(&backup), before, "the backup is as it was");
    assert!(!ours.join(COPY).exists(), "what the files have now is not said again");
    assert!(fs::read_to_string(ours.join(NOTE)).expect("reads").contains("backup_type = full-prepared"));
    assert!(run(&ours, RecoverOptions::default()).was_clean, "there is nothing more to do");
    assert_sound(&ours, &KeyFiles::default());
    // A run may be killed after the new log is in place and before the note says so.
    let prepared = files_of(&ours);
    for name in [COPY, NOTE] {
        fs::copy(backup.join(name), ours.join(name)).expect("copies");
    }
    run(&ours, RecoverOptions::default());
    assert_eq!(files_of(&ours), prepared, "a second run comes to what the first did");
    server.lend_options(&ours);
    server.lend_options(&theirs);
    let (ours, theirs) = (Server::again_kind("mysql", &ours), Server::again_kind("mysql", &theirs));
    assert_started_without_recovery(&ours, &theirs);
    assert_same_content(&content(&ours, 16), &content(&theirs, 16), 0);
}

/// Makes the server wait between the binary log and the engine's commit: it waits for the acknowledgement of a semi-synchronous replica
/// that does not exist.
const STALL: &str = "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; SET GLOBAL rpl_semi_sync_source_timeout = 1000000000; \
                     SET GLOBAL rpl_semi_sync_source_enabled = ON;";

/// The files of a killed server, as a backup.
fn back_up_killed(server: &Server, to: &Path) {
    let (checkpoint, header) = start_of_copy(&server.0);
    copy_files(&server.0, to);
    let (copied, last) = blocks(&server.0, checkpoint);
    fs::write(to.join(COPY), [header, copied].concat()).expect("writes");
    let note = format!(
        "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = {checkpoint}\nlast_lsn = {last}\nflushed_lsn = {last}\nredo_memory = 0\nredo_frames = 0\n"
    );
    fs::write(to.join(NOTE), note).expect("writes");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_servers_binary_log_in_a_backup_decides_about_prepared_transactions() {
    let dir = TempDir::new().expect("a directory");
    let options = ["--log-bin=bin", "--server-id=7", "--innodb-flush-log-at-trx-commit=1"];
    let server = Server::start_kind("mysql", &dir.path().join("data"), &options);
    server.run("CREATE DATABASE shop; CREATE TABLE shop.a (a INT PRIMARY KEY); INSERT INTO shop.a VALUES (1)");
    server.run(STALL);
    let mut stalled = Command::new(repository().join("scripts/server.sh"));
    stalled.args(["mysql", "sql", server.path(), "-e", "INSERT INTO shop.a VALUES (2)"]).stdin(Stdio::null());
    let mut stalled = stalled.stderr(Stdio::null()).spawn().expect("bash runs");
    let started = Instant::now();
    while !server.ask("SHOW STATUS LIKE 'Rpl_semi_sync_source_wait_sessions'").trim().ends_with("\t1") {
        assert!(started.elapsed() < PATIENCE, "it does not wait");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.run("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS");
    server.kill();
    assert!(!stalled.wait().expect("ends").success(), "it is committed");
    let (with, without) = (dir.path().join("with"), dir.path().join("without"));
    back_up_killed(&server, &with);
    copy(&with, &without);
    fs::remove_file(without.join("bin.index")).expect("removes");
    for (backup, given_up, rows) in [(&with, 0, "1\n2\n"), (&without, 1, "1\n")] {
        let done = run(backup, RecoverOptions::default());
        assert_eq!((done.waiting.given_up, done.waiting.for_server), (given_up, 1 - given_up), "{done:?}");
        server.lend_options(backup);
        if given_up > 0 {
            // A server with binary logs that are in no index does not start.
            let logs = fs::read_dir(backup).expect("a directory").flatten().map(|entry| entry.path());
            let is_log =
                |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bin."));
            logs.filter(is_log).for_each(|log| fs::remove_file(log).expect("removes"));
        }
        let server = Server::again_kind("mysql", backup);
        assert_eq!(server.ask("SELECT a FROM shop.a FOR UPDATE"), rows);
    }
}
