//! The same tests with encrypted logs and tablespaces.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use datadir::keys::KeyFiles;
use innokit_recovery::{RecoverOptions, Recovered, recover};
use inspect::{RedoInfoOptions, redo_info};
use tempfile::TempDir;

use crate::mishaps::change;
use crate::server::{Server, copy, repository};
use crate::versions::OLD;
use crate::{assert_recovered_as_by_the_server, files_of, load};

/// `INNOKIT_RECOVER_ENCRYPTED`: crashes of encrypted servers, 2 by default.
fn crashes() -> u32 {
    std::env::var("INNOKIT_RECOVER_ENCRYPTED").ok().and_then(|number| number.parse().ok()).unwrap_or(2)
}

const KEYS: &str = "1;770A8A65DA156D24EE2A093277530142\n2;18420B5CBA31CCDFFE9716E91EB61374D05914F3ADE23E03\n";
pub const LOG: &str = "--innodb-encrypt-log=ON";
pub const TABLES: &str = "--innodb-encrypt-tables=ON";
/// Background threads that encrypt and decrypt tablespaces.
const THREADS: &str = "--innodb-encryption-threads=2";
pub const CTR: &str = "--loose-file-key-management-encryption-algorithm=aes_ctr";
const OLDER_LAYOUT: &str = "--innodb-checksum-algorithm=crc32";
const UNDO: &str = "--innodb-undo-tablespaces=3";

/// Everything is encrypted.
pub const EVERYTHING: [&str; 3] = [LOG, TABLES, THREADS];

/// Server settings, which differ from crash to crash.
const SETTINGS: [&[&str]; 6] = [
    &[LOG, TABLES, THREADS, UNDO],
    &[LOG, TABLES, THREADS, CTR, OLDER_LAYOUT],
    &[LOG, CTR],
    &[TABLES, THREADS, CTR, UNDO, "--innodb-log-file-size=8M"],
    &[LOG, TABLES, OLDER_LAYOUT, "--innodb-page-size=8k"],
    &[TABLES, THREADS, OLDER_LAYOUT],
];
/// From this crash on, every other one has encryption turned on and off during the load.
const TURNED_FROM: u32 = 2;

/// A server with keys. Returns it and the key file.
pub fn start(dir: &Path, options: &[&str]) -> (Server, KeyFiles) {
    start_kind("mariadb", dir, options)
}

pub fn start_kind(kind: &'static str, dir: &Path, options: &[&str]) -> (Server, KeyFiles) {
    fs::create_dir_all(dir).expect("makes the directory");
    let path = dir.join("keys");
    fs::write(&path, KEYS).expect("writes");
    let file = format!("--loose-file-key-management-filename={}", path.display());
    let plugin = ["--plugin-load-add=file_key_management", &file, "--innodb-encryption-rotate-key-age=1"];
    let server = Server::start_kind(kind, &dir.join("crashed"), &[&plugin, options].concat());
    (server, keys(path))
}

fn keys(path: PathBuf) -> KeyFiles {
    KeyFiles { key_file: Some((path, None)), ..KeyFiles::default() }
}

/// Tables of the load that request encryption, another key, or none. One of them is flushed, so that something in the datadir is encrypted
/// whatever the server does until it is killed.
fn tables_of_their_own() -> String {
    let columns = "id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(120), c TEXT, KEY (a), KEY (b)";
    format!(
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE packed ({columns}) ENGINE=InnoDB PAGE_COMPRESSED=1 ENCRYPTED=YES ENCRYPTION_KEY_ID=2;
         CREATE TABLE zip ({columns}) ENGINE=InnoDB ROW_FORMAT=COMPRESSED ENCRYPTED=YES;
         CREATE TABLE compact ({columns}) ENGINE=InnoDB ROW_FORMAT=COMPACT ENCRYPTED=NO;
         CREATE TABLE merged ({columns}) ENGINE=InnoDB STATS_PERSISTENT=0 ENCRYPTED=YES ENCRYPTION_KEY_ID=2;
         FLUSH TABLES merged FOR EXPORT; UNLOCK TABLES;"
    )
}

/// A client that turns table encryption on and off until the server is gone.
fn turn(server: &Server) -> Child {
    let one = "SET GLOBAL innodb_encrypt_tables=OFF; SELECT SLEEP(0.7); SET GLOBAL innodb_encrypt_tables=ON; SELECT SLEEP(0.4);";
    let mut command = Command::new(repository().join("scripts/server.sh"));
    command.args([server.1, "sql", server.path(), "-e", &one.repeat(500)]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs")
}

fn try_crash(kind: &'static str, settings: &[&str], number: u32) {
    let dir = TempDir::new().expect("a directory");
    let (server, keys) = start_kind(kind, dir.path(), settings);
    server.run(&tables_of_their_own());
    let turns = number >= TURNED_FROM && number % 2 == 1;
    let client = turns.then(|| turn(&server));
    server.crash(Duration::from_millis(u64::from(500 + number * 977 % 4000)));
    drop(client.map(|mut client| client.wait()));
    assert_recovered_as_by_the_server(&server, dir.path(), number, &keys);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_server_starts_at_once_on_what_was_encrypted_and_finds_what_its_own_recovery_finds() {
    (0..crashes()).for_each(|number| try_crash("mariadb", SETTINGS[number as usize % SETTINGS.len()], number));
}

/// The settings for 10.5. Each encrypts the log, which is done block by block.
const SETTINGS_OF_BLOCKS: [&[&str]; 4] = [
    &[LOG],
    &[LOG, TABLES, THREADS, CTR, OLDER_LAYOUT],
    // A small log that wraps several times.
    &[LOG, TABLES, THREADS, UNDO, "--innodb-log-file-size=8M"],
    &[LOG, CTR, "--innodb-page-size=8k"],
];

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_server_of_10_5_starts_at_once_on_what_was_encrypted_and_finds_what_its_own_recovery_finds() {
    let settings = |number: u32| SETTINGS_OF_BLOCKS[number as usize % SETTINGS_OF_BLOCKS.len()];
    (0..crashes()).for_each(|number| try_crash(OLD, settings(number), number));
}

fn in_place(datadir: &Path, keys: &KeyFiles) -> Result<Recovered, innokit_recovery::RecoverError> {
    recover(datadir, &RecoverOptions { keys: keys.clone(), ..RecoverOptions::default() })
}

fn assert_refused_unchanged(datadir: &Path, keys: &KeyFiles, says: &str) {
    let before = files_of(datadir);
    for dry_run in [false, true] {
        let options = RecoverOptions { keys: keys.clone(), dry_run, ..RecoverOptions::default() };
        let error = recover(datadir, &options).expect_err("cannot be recovered");
        assert!(!error.is_damage() && error.to_string().contains(says), "{error}");
    }
    assert_eq!(files_of(datadir), before);
}

const SECRET: &str = "a secret of the tests of innokit";

const WITH_SECRETS: [&str; 4] = ["dynamic", "redundant", "packed", "zip"];

/// The files that contain the secret in clear text.
fn telling(datadir: &Path) -> Vec<String> {
    let tells = |name: &String| {
        let bytes = fs::read(datadir.join(name)).expect("reads");
        bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
    };
    files_of(datadir).into_iter().map(|(name, ..)| name).filter(tells).collect()
}

/// A server that flushes no page before it must, not even when idle (`lwm=0`) or when a tenth of its log is in use (the other `lwm`), and
/// flushes its log at every commit.
const UNWRITTEN: [&str; 5] = [
    "--innodb-adaptive-flushing-lwm=70",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-log-file-size=64M",
    "--innodb-flush-log-at-trx-commit=1",
];

/// A server with secret rows, killed before it wrote their pages.
fn with_a_secret(dir: &Path, options: &[&str]) -> (PathBuf, KeyFiles) {
    with_a_secret_of("mariadb", dir, options)
}

fn with_a_secret_of(kind: &'static str, dir: &Path, options: &[&str]) -> (PathBuf, KeyFiles) {
    let (server, keys) = start_kind(kind, dir, &[options, &UNWRITTEN].concat());
    server.run(&load::tables());
    let rows = format!("SELECT seq, '{SECRET}', REPEAT(SHA1(seq), 3) FROM seq_1_to_3000");
    for table in WITH_SECRETS {
        server.run(&format!("USE shop; INSERT INTO {table} (a, b, c) {rows};"));
    }
    server.kill();
    (server.0.clone(), keys)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn without_its_keys_or_with_others_nothing_is_written_and_nothing_is_called_damage() {
    let cases = [
        ("mariadb", [LOG, TABLES].as_slice()),
        ("mariadb", &[LOG]),
        ("mariadb", &[TABLES, OLDER_LAYOUT]),
        (OLD, &[LOG, TABLES]),
        (OLD, &[LOG, CTR]),
    ];
    for (kind, options) in cases {
        let dir = TempDir::new().expect("a directory");
        let (crashed, right) = with_a_secret_of(kind, dir.path(), options);
        assert_refused_unchanged(&crashed, &KeyFiles::default(), "key");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("writes");
            keys(path)
        };
        let second = KEYS.lines().nth(1).expect("a line");
        assert_refused_unchanged(&crashed, &write("missing", second), "key");
        assert_refused_unchanged(
            &crashed,
            &write("wrong", &second.replace("2;", "1;")),
            "is it the key of this server?",
        );
        let gone = keys(dir.path().join("gone"));
        assert_refused_unchanged(&crashed, &gone, "gone");
        let done = in_place(&crashed, &right).expect("recovers");
        assert!(done.pages_changed > 0, "{done:?}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn damage_to_an_encrypted_log_is_not_taken_for_a_wrong_key() {
    let dir = TempDir::new().expect("a directory");
    let (crashed, right) = with_a_secret(dir.path(), &[LOG]);
    let log = crashed.join("ib_logfile0");
    let info = redo_info(&log, &RedoInfoOptions::default()).expect("a log");
    let at = info.checkpoint.end_lsn.expect("an LSN") - info.files[0].first_lsn;
    // Inside the record that names the checkpoint, which serves to verify keys.
    change(&log, 12288 + at % info.capacity.expect("a ring") + 5, 1);
    for keys in [&right, &KeyFiles::default()] {
        let error = in_place(&crashed, keys).expect_err("a damaged log");
        assert!(error.is_damage() && error.to_string().contains("ib_logfile0"), "{error}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_nothing_tells_how_to_encrypt_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let (server, keys) = start(dir.path(), &UNWRITTEN);
    server.run(
        "CREATE DATABASE shop; CREATE TABLE shop.t (a INT) ENGINE=InnoDB ENCRYPTED=YES; INSERT INTO shop.t VALUES (1);",
    );
    server.kill();
    // It does not matter what the server wrote of it by then: the log creates all of it.
    let file = File::options().write(true).open(server.0.join("shop/t.ibd")).expect("opens");
    let len = file.metadata().expect("a file").len();
    file.set_len(0).and_then(|()| file.set_len(len)).expect("empties");
    assert_refused_unchanged(&server.0, &keys, "aes_ctr");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_was_encrypted_stays_so() {
    let dir = TempDir::new().expect("a directory");
    let (crashed, keys) = with_a_secret(dir.path(), &[LOG, TABLES]);
    let done = in_place(&crashed, &keys).expect("recovers");
    assert!(done.pages_changed > 100, "{done:?}");
    assert_eq!(telling(&crashed), [""; 0]);
    let plain = dir.path().join("plain");
    let (crashed_plain, keys_of_plain) = with_a_secret(&plain, &[]);
    in_place(&crashed_plain, &keys_of_plain).expect("recovers");
    assert!(telling(&crashed_plain).len() > 1, "or it would not be found at all");
    let server = Server::again(&crashed);
    for table in WITH_SECRETS {
        let count = format!("SELECT COUNT(*) FROM shop.{table} WHERE b='{SECRET}'");
        assert_eq!(server.ask(&count).trim(), "3000", "{table}");
    }
}

const PAGE: usize = 16 << 10;
/// The page of ibdata1 where servers place the first block of their doublewrite area.
const DOUBLEWRITE: u64 = 64;
/// Pages to tear: their copies fit in one extent of that area.
const TORN_MAX: usize = 40;

/// Encrypted pages of tables that recovery changes: file, page number, and recovered bytes.
fn changed_pages(before: &Path, after: &Path) -> Vec<(String, usize, Vec<u8>)> {
    let mut found = Vec::new();
    for (name, ..) in
        files_of(before).into_iter().filter(|(name, ..)| name.starts_with("shop/") && name.ends_with(".ibd"))
    {
        let [before, after] = [before, after].map(|dir| fs::read(dir.join(&name)).expect("reads"));
        for (number, (old, new)) in before.chunks_exact(PAGE).zip(after.chunks_exact(PAGE)).enumerate() {
            // The key version comes first, and the space id is encrypted too.
            if old != new && new[..4] == [0, 0, 0, 1] {
                found.push((name.clone(), number, new.to_vec()));
            }
        }
    }
    found.truncate(TORN_MAX);
    found
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn torn_pages_are_restored_from_encrypted_copies() {
    let dir = TempDir::new().expect("a directory");
    let (crashed, keys) = with_a_secret(dir.path(), &[LOG, TABLES]);
    let recovered = dir.path().join("recovered");
    copy(&crashed, &recovered);
    in_place(&recovered, &keys).expect("recovers");
    let pages = changed_pages(&crashed, &recovered);
    assert!(!pages.is_empty(), "recovery changes pages of tables");
    // As if the server had been writing just these pages: their doublewrite copies are complete, the pages themselves torn.
    let open = |name: &str| File::options().write(true).open(crashed.join(name)).expect("opens");
    let system = open("ibdata1");
    for (slot, (name, number, page)) in (DOUBLEWRITE..).zip(&pages) {
        system.write_all_at(page, slot * PAGE as u64).expect("writes");
        let torn = [&page[..PAGE / 2], &[0xA5; PAGE / 2]].concat();
        open(name).write_all_at(&torn, (number * PAGE) as u64).expect("writes");
    }
    let done = in_place(&crashed, &keys).expect("recovers");
    assert_eq!(done.pages_restored, pages.len() as u64);
    let files = |dir| files_of(dir).into_iter().filter(|(name, ..)| name != "ibdata1").collect::<Vec<_>>();
    assert_eq!(files(&crashed), files(&recovered));
}
