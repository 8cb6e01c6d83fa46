//! Redo logs, binary logs and doublewrite files of real servers: intact ones pass, also after `kill -9`, and one flipped byte is reported
//! with its LSN or position.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Dir, all_datadirs, check, check_json, is_torn_end, reasons, repository, total};
use serde_json::Value;

/// Runs `scripts/server.sh KIND ARGS` with `input` on its standard input.
fn server(kind: &str, args: &[&str], input: &str) {
    use std::io::Write;
    let script = repository().join("scripts/server.sh");
    let mut child =
        Command::new(script).arg(kind).args(args).stdin(std::process::Stdio::piped()).spawn().expect("bash runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("taken");
    assert!(child.wait().expect("ends").success(), "{kind} {args:?}");
}

fn big_endian(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn little_endian(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// The rows of one kind.
fn rows<'d>(document: &'d Value, kind: &str) -> Vec<&'d Value> {
    document["files"].as_array().expect("files").iter().filter(|file| file["kind"] == kind).collect()
}

fn findings(document: &Value) -> &Vec<Value> {
    document["findings"].as_array().expect("findings")
}

fn units(document: &Value, unit: &str, verdict: &str) -> u64 {
    document["totals"][unit][verdict].as_u64().expect("a sum")
}

// --- Redo logs -------------------------------------------------------------------------------------------------------------

/// The redo log files of a datadir that are in use, in order.
fn redo_files(datadir: &str) -> Vec<PathBuf> {
    let dir = all_datadirs().join(datadir);
    let redo = dir.join("#innodb_redo");
    let (dir, prefix) = if redo.is_dir() { (redo, "#ib_redo") } else { (dir, "ib_logfile") };
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let number = |path: &PathBuf| -> Option<u32> { path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok() };
    let mut files: Vec<(u32, PathBuf)> = entries.filter_map(|path| Some((number(&path)?, path))).collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// A log that needs no recovery may still be one on which the server does not start.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_redo_file_of_a_length_that_no_server_makes_is_damage() {
    let (dir, copies) = redo_copy("mysql-16k");
    let last = copies.last().expect("a file");
    assert_eq!(check_json(dir.path(), &[]).1, 0);
    let file = std::fs::OpenOptions::new().write(true).open(last).expect("opened");
    let len = file.metadata().expect("a file").len();
    file.set_len(len - 512).expect("cut");
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((reasons(&document).contains(&"redo_files"), status), (true, 1), "{document:#}");
}

/// A copy of the redo log of a datadir.
fn redo_copy(datadir: &str) -> (Dir, Vec<PathBuf>) {
    let dir = Dir::new();
    let copies = redo_files(datadir).into_iter().map(|path| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        dir.file(&name, &std::fs::read(&path).expect("readable"))
    });
    let copies = copies.collect();
    (dir, copies)
}

/// Flips the byte at `at` of `file`, and restores it. Returns the findings and the exit status.
fn with_flip(file: &Path, at: u64, look_at: &Path) -> (Vec<Value>, i32) {
    use std::os::unix::fs::FileExt;
    let handle = std::fs::OpenOptions::new().read(true).write(true).open(file).expect("opens");
    let mut byte = [0];
    handle.read_exact_at(&mut byte, at).expect("reads");
    handle.write_all_at(&[byte[0] ^ 0x10], at).expect("writes");
    let (document, status) = check_json(look_at, &[]);
    handle.write_all_at(&byte, at).expect("writes");
    (findings(&document).clone(), status)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn redo_logs_of_killed_servers_are_sound() {
    for (datadir, unit) in [("mysql-16k-crashed", "log_blocks"), ("mariadb-16k-crashed", "mini_transactions")] {
        let (dir, copies) = redo_copy(datadir);
        let (document, status) = check_json(dir.path(), &[]);
        let torn = findings(&document).iter().filter(|finding| is_torn_end(finding)).count();
        let expected = (torn, if torn > 0 { 2 } else { 0 });
        assert_eq!((findings(&document).len(), status), expected, "{datadir}: {:#}", document["findings"]);
        assert_eq!(rows(&document, "redo log").len(), copies.len());
        assert!(units(&document, unit, "ok") > 1000, "{:#}", document["totals"]);
        assert_eq!(units(&document, unit, "ok"), units(&document, unit, "examined"));
        assert_eq!(total(&document, "pages"), 0, "pages are those of tablespaces");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_flipped_byte_in_any_block_of_a_mysql_log_is_named_with_its_lsn() {
    let (dir, copies) = redo_copy("mysql-16k-crashed");
    let newest = |file: &PathBuf| {
        let bytes = std::fs::read(file).expect("readable");
        big_endian(&bytes, 512 + 8).max(big_endian(&bytes, 1536 + 8))
    };
    let checkpoint = copies.iter().map(newest).max().expect("files");
    let (document, unflipped) = check_json(dir.path(), &[]);
    let mut left = units(&document, "log_blocks", "examined");
    for file in &copies {
        let bytes = std::fs::read(file).expect("readable");
        let blocks = ((bytes.len() as u64 - 2048) / 512).min(left);
        left -= blocks;
        let is_last = left == 0;
        // The log's end in its last file is up to the server: it may have few blocks there, or none.
        let tried = if blocks > 3 { vec![0, blocks / 3, blocks - 2, blocks - 1] } else { Vec::new() };
        for block in tried {
            for within in [0, 5, 100, 510] {
                let lsn = big_endian(&bytes, 8) + block * 512;
                let (found, status) = with_flip(file, 2048 + block * 512 + within, dir.path());
                let named = found.iter().find(|finding| finding["lsn"].as_u64().is_some_and(|at| at - at % 512 == lsn));
                // The log's last block may be a torn write. Then the log ends before it.
                let torn = is_last && block == blocks - 1;
                assert!(named.is_some() || (torn && found.iter().any(is_torn_end)), "{lsn} byte {within}: {found:#?}");
                let expected = match (torn, lsn + 512 > checkpoint) {
                    (true, _) => 2,
                    (false, true) => 1,
                    (false, false) => unflipped,
                };
                assert!(status == expected || (torn && status < 2), "{lsn} byte {within}: {found:#?}");
            }
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_flipped_byte_in_a_mariadb_log_is_named_with_its_lsn() {
    const START: u64 = 12288;
    let (dir, copies) = redo_copy("mariadb-16k-crashed");
    let bytes = std::fs::read(&copies[0]).expect("readable");
    let first = big_endian(&bytes, 8);
    let checkpoint = big_endian(&bytes, 4096).max(big_endian(&bytes, 8192));
    let capacity = bytes.len() as u64 - START;
    for step in 0..24 {
        let lsn = checkpoint + 100 + step * 20_011;
        let offset = START + (lsn - first) % capacity;
        let (mut found, status) = with_flip(&copies[0], offset, dir.path());
        found.retain(|finding| !is_torn_end(finding));
        assert_eq!((found.len(), status), (1, 1), "{lsn}: {found:#?}");
        let from = found[0]["lsn"].as_u64().expect("an LSN");
        let to = found[0]["message"].as_str().expect("words").split("to LSN ").nth(1).expect("an end");
        let to: u64 = to.split(' ').next().expect("a number").parse().expect("a number");
        assert!(from <= lsn && lsn < to, "{lsn}: {found:#?}");
    }
    for at in [8, 40] {
        let (mut found, status) = with_flip(&copies[0], at, dir.path());
        found.retain(|finding| !is_torn_end(finding));
        assert_eq!((found[0]["reason"].as_str(), status), (Some("redo_header"), 1), "{found:#?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_missing_file_of_a_mysql_log_is_damage() {
    let (dir, copies) = redo_copy("mysql-16k-crashed");
    assert!(copies.len() > 3, "{copies:?}");
    std::fs::remove_file(&copies[1]).expect("removed");
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 1, "{:#}", document["findings"]);
    assert!(reasons(&document).contains(&"redo_files"), "{:#}", document["findings"]);
}

#[test]
fn spare_files_of_the_log_are_not_read() {
    let dir = Dir::new();
    dir.file("#innodb_redo/#ib_redo9_tmp", &[7; 8192]);
    dir.file("ib_logfile101", &[7; 8192]);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((total(&document, "skipped_files"), total(&document, "files"), status), (2, 0, 2));
}

// --- Binary logs -----------------------------------------------------------------------------------------------------------

/// Binary logs, the last one left open by `kill -9`, and the rest of the datadir.
fn datadir_with_binlogs(kind: &str, options: &[&str], session: &str) -> Dir {
    let dir = Dir::new();
    let datadir = dir.path().join("data").to_string_lossy().into_owned();
    server(kind, &[&["init", datadir.as_str()], options].concat(), "");
    server(kind, &["start", &datadir], "");
    let sql = format!(
        "CREATE DATABASE shop; USE shop; CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(900)) ENGINE=InnoDB;\n\
         INSERT INTO t VALUES (1, 'a'), (2, REPEAT('b', 800)); {session}\n\
         INSERT INTO t VALUES (3, REPEAT('c', 800)), (4, REPEAT('d', 800)); FLUSH BINARY LOGS;\n\
         INSERT INTO t VALUES (5, REPEAT('e', 800)); UPDATE t SET a = 'f' WHERE id < 4; DELETE FROM t;\n"
    );
    server(kind, &["sql", &datadir], &sql);
    server(kind, &["kill9", &datadir], "");
    dir
}

fn binlogs(dir: &Dir) -> Vec<PathBuf> {
    let numbers = 1..10;
    let paths = numbers.map(|number| dir.path().join(format!("data/binlog.{number:06}")));
    paths.filter(|path| path.exists()).collect()
}

/// Offset and length of each event.
fn events(log: &[u8]) -> Vec<(usize, usize)> {
    let mut events = Vec::new();
    let mut at = 4;
    while at + 19 <= log.len() {
        let len = little_endian(log, at + 9);
        events.push((at, len));
        at += len;
    }
    events
}

fn assert_binlogs(kind: &str, dir: &Dir) {
    let logs = binlogs(dir);
    let (closed, open) = (&logs[logs.len() - 2], &logs[logs.len() - 1]);
    let (document, _) = check_json(&dir.path().join("data"), &[]);
    assert_eq!(total(&document, "damage"), 0, "{kind}: {:#}", document["findings"]);
    assert_eq!(rows(&document, "binary log").len(), logs.len());
    let counted: usize = logs.iter().map(|log| events(&std::fs::read(log).expect("readable")).len()).sum();
    assert_eq!(units(&document, "events", "ok"), counted as u64, "{kind}: every event");
    for log in [closed, open] {
        let bytes = std::fs::read(log).expect("readable");
        assert_eq!(check(log, &[]).status, 0, "{kind}: also as a file named");
        for (at, len) in events(&bytes) {
            for within in [len / 2, len - 1] {
                let (found, status) = with_flip(log, (at + within) as u64, log);
                let named = found.iter().any(|finding| finding["position"].as_u64() == Some(at as u64));
                assert!(named && status == 1, "{kind}: event at {at}, byte {within}: {found:#?}");
            }
        }
        let (last, _) = *events(&bytes).last().expect("events");
        let (document, status) = check_json(&dir.file("cut", &bytes[..last + 25]), &[]);
        assert_eq!(findings(&document)[0]["position"].as_u64(), Some(last as u64), "{:#}", document["findings"]);
        let expected = if log == open { ("log_in_use", 0) } else { ("log_cut", 1) };
        assert_eq!((reasons(&document)[0], status), expected, "{kind}: a log still being written is not damaged");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn binary_logs_of_mysql_are_verified_event_by_event() {
    let options = ["--skip-disable-log-bin", "--log-bin=binlog", "--innodb-doublewrite=DETECT_ONLY"];
    let dir = datadir_with_binlogs("mysql", &options, "SET binlog_transaction_compression = ON;");
    assert_binlogs("mysql", &dir);
    let (document, _) = check_json(&dir.path().join("data"), &[]);
    let slots = rows(&document, "doublewrite file");
    assert!(slots.iter().any(|row| row["path"].as_str().expect("a path").ends_with(".bdblwr")), "{slots:#?}");
    assert_eq!(units(&document, "slots", "unverifiable"), 0, "{slots:#?}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn binary_logs_of_mariadb_are_verified_event_by_event() {
    let options = ["--log-bin=binlog", "--log-bin-compress=ON"];
    let dir = datadir_with_binlogs("mariadb", &options, "");
    assert_binlogs("mariadb", &dir);
    let log = &binlogs(&dir)[0];
    let relay = dir.file("host-relay-bin.000001", &std::fs::read(log).expect("readable"));
    let (document, status) = check_json(&relay, &[]);
    assert_eq!((rows(&document, "relay log").len(), status), (1, 0), "{:#}", document["files"]);
}

/// Puts a keyring beside the datadir for its server to use. The server program's own manifests come with `all_datadirs`.
fn keyring(dir: &Dir) -> PathBuf {
    let keys = dir.path().join("keys");
    all_datadirs();
    dir.file("data/mysqld.my", b"{ \"components\": \"file://component_keyring_file\" }\n");
    let config = format!("{{ \"path\": \"{}\", \"read_only\": false }}\n", keys.display());
    dir.file("data/component_keyring_file.cnf", config.as_bytes());
    keys
}

/// What must hold for encrypted logs: with the key each unit is verified and damage is named, without it nothing is called damaged, and a
/// wrong key is reported as such.
fn assert_encrypted(log: &Path, option: &str, right: &Path, wrong: &Path, unit: &str) -> u64 {
    let with = |keys: &Path| check_json(log, &[option, &keys.to_string_lossy()]);
    let (document, status) = with(right);
    assert_eq!((findings(&document).len(), status), (0, 0), "{}: {:#}", log.display(), document["findings"]);
    assert_eq!(units(&document, unit, "unverifiable"), 0);
    let (without, status) = check_json(log, &[]);
    assert_eq!((reasons(&without), status), (vec!["encrypted_no_key"], 2), "{:#}", without["findings"]);
    let (document_wrong, status) = with(wrong);
    assert_eq!((reasons(&document_wrong), status), (vec!["wrong_key"], 2), "{:#}", document_wrong["findings"]);
    assert_eq!(units(&document_wrong, unit, "corrupt"), 0);
    units(&document, unit, "ok")
}

/// The findings with `keys` after flipping the byte at `at` of `log`.
fn with_flip_and_keys(log: &Path, at: usize, option: &str, keys: &Path) -> (Vec<Value>, i32) {
    let sound = std::fs::read(log).expect("readable");
    let mut bytes = sound.clone();
    bytes[at] ^= 0x10;
    std::fs::write(log, &bytes).expect("written");
    let (document, status) = check_json(log, &[option, &keys.to_string_lossy()]);
    std::fs::write(log, &sound).expect("written");
    (findings(&document).clone(), status)
}

/// A copy of the keyring `keys` with every key changed, and one without the needed keys.
fn wrong_keyrings(dir: &Dir, keys: &Path) -> [PathBuf; 2] {
    let mut keyring: Value = serde_json::from_slice(&std::fs::read(keys).expect("readable")).expect("JSON");
    for element in keyring["elements"].as_array_mut().expect("keys") {
        let digits = element["data"].as_str().expect("digits").to_owned();
        let digits: String = digits.chars().rev().map(|digit| if digit == '0' { '1' } else { '0' }).collect();
        element["data"] = digits.into();
    }
    let changed = dir.file("changed", keyring.to_string().as_bytes());
    for element in keyring["elements"].as_array_mut().expect("keys") {
        element["data_id"] = "another".into();
    }
    [changed, dir.file("missing", keyring.to_string().as_bytes())]
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn encrypted_logs_of_mysql_are_verified_with_their_keyring() {
    let dir = Dir::new();
    let datadir = dir.path().join("data").to_string_lossy().into_owned();
    server("mysql", &["init", &datadir, "--skip-disable-log-bin", "--log-bin=binlog"], "");
    let keys = keyring(&dir);
    // A server that idles until it is killed writes its pages, and then removes the log files that are no longer needed.
    let options = ["--innodb-redo-log-encrypt=ON", "--binlog-encryption=ON", "--innodb-idle-flush-pct=0"];
    server("mysql", &[&["start", datadir.as_str()][..], &options].concat(), "");
    let insert = "INSERT INTO t SELECT id + (SELECT MAX(id) FROM t), REPEAT('b', 800) FROM t;\n".repeat(6);
    let sql = format!(
        "CREATE DATABASE shop; USE shop; CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(900)) ENGINE=InnoDB;\n\
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');\n{insert}FLUSH BINARY LOGS;\n\
         ALTER INSTANCE ROTATE INNODB MASTER KEY;\n{insert}"
    );
    server("mysql", &["sql", &datadir], &sql);
    server("mysql", &["kill9", &datadir], "");
    let wrong = wrong_keyrings(&dir, &keys);

    let redo = dir.path().join("data/#innodb_redo");
    for wrong in &wrong {
        let blocks = assert_encrypted(&redo, "--keyring", &keys, wrong, "log_blocks");
        assert!(blocks > 100, "{blocks} blocks");
    }
    // The file with the most encrypted blocks that are in their right place.
    let blocks_of = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("readable");
        let first = big_endian(&bytes, 8) / 512 + 1;
        let is_encrypted = |block: &usize| {
            let head = &bytes[2048 + block * 512..][..8];
            head[4] & 0x80 != 0 && big_endian(head, 0) >> 32 == first + *block as u64
        };
        (0..bytes.len() / 512 - 4).filter(is_encrypted).collect::<Vec<usize>>()
    };
    let files = std::fs::read_dir(&redo).expect("a directory").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| !path.to_string_lossy().ends_with("_tmp"));
    let (newest, encrypted) =
        files.map(|path| (path.clone(), blocks_of(&path))).max_by_key(|(_, blocks)| blocks.len()).expect("a file");
    let bytes = std::fs::read(&newest).expect("readable");
    assert!(encrypted.len() > 20, "{} encrypted blocks", encrypted.len());
    for block in encrypted.iter().step_by(encrypted.len() / 5).take(4) {
        for within in [20, 300, 511] {
            use std::os::unix::fs::FileExt;
            let at = 2048 + block * 512 + within;
            let file = std::fs::OpenOptions::new().write(true).open(&newest).expect("opens");
            file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("writes");
            let (document, _) = check_json(&redo, &["--keyring", &keys.to_string_lossy()]);
            file.write_all_at(&[bytes[at]], at as u64).expect("writes");
            let lsn = big_endian(&bytes, 8) + *block as u64 * 512;
            let named = |finding: &Value| finding["reason"] == "log_block" && finding["lsn"].as_u64() == Some(lsn);
            assert!(findings(&document).iter().any(named), "LSN {lsn}: {:#}", document["findings"]);
        }
    }

    let logs = binlogs(&dir);
    let encrypted: Vec<&PathBuf> =
        logs.iter().filter(|log| std::fs::read(log).expect("readable").starts_with(b"\xFDbin")).collect();
    assert!(encrypted.len() >= 2, "{logs:?}");
    for log in encrypted {
        for wrong in &wrong {
            let events = assert_encrypted(log, "--keyring", &keys, wrong, "events");
            assert!(events > 20, "{events} events");
        }
        let len = std::fs::metadata(log).expect("a file").len();
        for part in 1..12 {
            let at = usize::try_from(600 + (len - 700) * part / 12).expect("small");
            let (found, status) = with_flip_and_keys(log, at, "--keyring", &keys);
            let position = found.first().and_then(|finding| finding["position"].as_u64()).expect("a position");
            assert!(status == 1 && position <= at as u64, "byte {at}: {found:#?}");
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn encrypted_binary_logs_of_mariadb_are_verified_with_their_key_file() {
    for mode in ["aes_cbc", "aes_ctr"] {
        let dir = Dir::new();
        let keys = dir.file("keys", b"1;770A8A65DA156D24EE2A093277530142\n");
        let wrong = dir.file("wrong", b"1;770A8A65DA156D24EE2A093277530143\n");
        let missing = dir.file("missing", b"2;770A8A65DA156D24EE2A093277530142\n");
        let datadir = dir.path().join("data").to_string_lossy().into_owned();
        let (file, algorithm) = (
            format!("--loose-file-key-management-filename={}", keys.display()),
            format!("--loose-file-key-management-encryption-algorithm={mode}"),
        );
        let plugin = "--plugin-load-add=file_key_management";
        server(
            "mariadb",
            &["init", &datadir, "--log-bin=binlog", "--encrypt-binlog=ON", plugin, &file, &algorithm],
            "",
        );
        server("mariadb", &["start", &datadir], "");
        let insert =
            "INSERT INTO t SELECT id + (SELECT MAX(id) FROM t), REPEAT('b', 800 + id % 90) FROM t;\n".repeat(5);
        let sql = format!(
            "CREATE DATABASE shop; USE shop; CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(1500)) ENGINE=InnoDB;\n\
             INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');\nSET binlog_format=ROW;\n{insert}FLUSH BINARY LOGS;\n\
             {insert}"
        );
        server("mariadb", &["sql", &datadir], &sql);
        server("mariadb", &["kill9", &datadir], "");
        let logs = binlogs(&dir);
        assert!(logs.len() >= 2, "{logs:?}");
        for log in &logs {
            let bytes = std::fs::read(log).expect("readable");
            let events = events(&bytes);
            for wrong in [&wrong, &missing] {
                let found = assert_encrypted(log, "--key-file", &keys, wrong, "events");
                assert_eq!(found, events.len() as u64, "{mode}: every event");
            }
            for &(at, len) in events.iter().step_by(5) {
                for within in [16, len - 1] {
                    let (found, status) = with_flip_and_keys(log, at + within, "--key-file", &keys);
                    let named = found.iter().any(|finding| finding["position"].as_u64() == Some(at as u64));
                    assert!(named && status == 1, "{mode}: event at {at}, byte {within}: {found:#?}");
                }
            }
        }
    }
}

#[test]
fn an_encrypted_binary_log_is_undecided_without_its_key() {
    let mut log = b"\xFDbin\x01\x01\x0Ereplication-k1\x02".to_vec();
    log.extend([7; 32]);
    log.push(3);
    log.extend([9; 16]);
    log.resize(512, 0);
    log.extend([0xA5; 3000]);
    let dir = Dir::new();
    let (document, status) = check_json(&dir.file("binlog.000007", &log), &[]);
    assert_eq!((reasons(&document), status), (vec!["encrypted_no_key"], 2), "{:#}", document["findings"]);
}

// --- Doublewrite files -----------------------------------------------------------------------------------------------------

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn copies_of_pages_are_judged_by_their_own_tablespaces_and_a_stale_one_is_a_note() {
    for datadir in ["mysql-4k", "mysql-16k", "mysql-16k-crashed"] {
        let (document, _) = check_json(&all_datadirs().join(datadir), &[]);
        let rows = rows(&document, "doublewrite file");
        assert_eq!(rows.len(), 2, "{rows:#?}");
        assert!(units(&document, "slots", "ok") > 20, "{:#}", document["totals"]);
        assert_eq!(units(&document, "slots", "unverifiable"), 0, "{datadir}: {:#}", document["totals"]);
    }
    let dir = Dir::new();
    let mut slots = std::fs::read(all_datadirs().join("mysql-16k/#ib_16384_0.dblwr")).expect("readable");
    let (document, status) = check_json(&dir.file("#ib_16384_0.dblwr", &slots), &[]);
    assert_eq!((findings(&document).len(), status), (0, 0), "without the tablespaces: {:#}", document["findings"]);
    slots[3 * 16384 + 500] ^= 1;
    let (document, status) = check_json(&dir.file("#ib_16384_0.dblwr", &slots), &[]);
    assert_eq!((reasons(&document), status), (vec!["doublewrite_slot"], 0));
    assert_eq!(findings(&document)[0]["position"].as_u64(), Some(3 * 16384));
    assert_eq!(units(&document, "slots", "unverifiable"), 1);
}
