//! Compares redo applied by innokit with redo applied by the server, page by page, on datadirs of servers killed under load.
//!
//! The reference is the server's own backup tool on a copy. It applies the redo and writes the pages, but rolls nothing back and purges
//! nothing. So the pages must be equal, whatever the load was doing when the server was killed.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

mod load;
mod replay;
mod server;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use format::keyring::KeyStore;
use replay::{Log, Seen, compare};
use server::{Server, copy, datadir, repository, script};
use tempfile::TempDir;

/// Recovers the datadir with the server's backup tool, which needs the notes of a backup and the server's options. Returns whether it
/// succeeded.
fn prepare(kind: &str, datadir: &Path, settings: &[&str]) -> bool {
    let config = ["[mysqld]", "innodb_data_file_path=ibdata1:12M:autoextend", "innodb_undo_directory=./"];
    fs::write(datadir.join("backup-my.cnf"), [&config, settings, &[""]].concat().join("\n")).expect("writes");
    let checkpoint = Log::read(datadir).file.checkpoint.lsn;
    let text = format!("backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = {checkpoint}\nlast_lsn = {checkpoint}\n");
    fs::write(datadir.join("xtrabackup_checkpoints"), text).expect("writes");
    let target = format!("--target-dir={}", datadir.display());
    let defaults = format!("--defaults-file={}/backup-my.cnf", datadir.display());
    let tool = repository().join("scripts/server.sh");
    let output = Command::new(tool).args([kind, "tool", "mariadb-backup", &defaults, "--prepare", &target]).output();
    let output = output.expect("bash runs");
    println!("{}", String::from_utf8_lossy(&output.stderr));
    output.status.success()
}

/// Replays `crashed`, and compares the pages with those that the server's tool recovers in a copy.
fn assert_same_as_server(crashed: &Path, keys: &KeyStore, settings: &[&str]) -> Seen {
    assert_same_as("mariadb", crashed, keys, settings)
}

fn assert_same_as(kind: &str, crashed: &Path, keys: &KeyStore, settings: &[&str]) -> Seen {
    same_as(kind, crashed, keys, settings).expect("the tool prepares what the crash left")
}

/// The same for a new crash. The tool of 10.5 cannot prepare every crash: it aborted after one within an ALTER TABLE whose new file was
/// still empty. Without a judge there is no verdict, so crash again.
fn assert_same_as_of_crash(
    kind: &'static str,
    dir: &Path,
    options: &[&str],
    keys: &KeyStore,
    settings: &[&str],
) -> Seen {
    let mut crashes = 0..if kind == OLD { 5 } else { 1 };
    let seen = crashes.find_map(|number| {
        let server = crashed_kind(kind, &dir.join(format!("data{number}")), options);
        same_as(kind, &server.0, keys, settings)
    });
    seen.expect("the tool prepares what a crash left")
}

/// `None` if the tool cannot prepare its copy.
fn same_as(kind: &str, crashed: &Path, keys: &KeyStore, settings: &[&str]) -> Option<Seen> {
    let copy_dir = TempDir::new().expect("a directory");
    copy(crashed, copy_dir.path());
    if !prepare(kind, copy_dir.path(), settings) {
        return None;
    }
    let seen = compare(crashed, copy_dir.path(), keys);
    println!("{seen:#?}");
    assert_eq!(seen.different, Vec::<String>::new(), "of {} pages", seen.equal);
    // The tool leaves a log with one record that ends where the old log ended. Or it leaves no log, and stores that LSN in the first page.
    let end =
        if kind == OLD { flush_lsn(copy_dir.path()) } else { Log::read(copy_dir.path()).file.checkpoint.lsn.0 + 16 };
    assert_eq!(end, seen.end, "both found the same end of the log");
    assert!(seen.mtrs > 0 && seen.equal + seen.unchanged > 0, "there was something to recover");
    Some(seen)
}

/// Servers whose log consists of blocks.
const OLD: &str = "mariadb105";

/// The end of the log according to the first page of the system tablespace.
fn flush_lsn(datadir: &Path) -> u64 {
    let bytes = fs::read(datadir.join("ibdata1")).expect("reads");
    u64::from_be_bytes(bytes[26..34].try_into().expect("8 bytes"))
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_of_a_crashed_server_become_what_its_own_recovery_makes_of_them() {
    let crashed = datadir("mariadb-16k-crashed");
    assert_same_as_server(&crashed, &KeyStore::new(), &[]);
}

/// Options of a server that flushes no page before it must, not even when idle (`lwm=0`) or when a tenth of its log is in use (the other
/// `lwm`), with enough log that it never must. Otherwise it might flush every page just before it is killed and leave nothing to replay.
const LEAVES_PAGES_UNWRITTEN: [&str; 6] = [
    "--innodb-log-file-size=256M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-adaptive-flushing-lwm=70",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-buffer-pool-size=512M",
];

/// How long the load continues before the server is killed.
const LOAD: Duration = Duration::from_secs(3);

/// A server killed before it wrote the pages that it had changed.
fn crashed(datadir: &Path, options: &[&str]) -> Server {
    crashed_kind("mariadb", datadir, options)
}

fn crashed_kind(kind: &'static str, datadir: &Path, options: &[&str]) -> Server {
    let server = Server::start_kind(kind, datadir, &[&LEAVES_PAGES_UNWRITTEN, options].concat());
    server.crash(LOAD);
    server
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_of_every_row_format_become_what_the_server_makes_of_them() {
    let dir = TempDir::new().expect("a directory");
    let server = crashed(&dir.path().join("data"), &["--innodb-undo-tablespaces=3"]);
    let seen = assert_same_as_server(&server.0, &KeyStore::new(), &["innodb_undo_tablespaces=3"]);
    assert!(seen.compressed > 0, "ROW_FORMAT=COMPRESSED pages were among them");
    assert!(seen.records.contains_key("INSERT_HEAP_REDUNDANT"), "and those of the oldest row format");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_of_a_server_of_10_5_become_what_it_makes_of_them() {
    let dir = TempDir::new().expect("a directory");
    let seen = assert_same_as_of_crash(OLD, dir.path(), &[], &KeyStore::new(), &[]);
    assert!(seen.compressed > 0 && seen.records.contains_key("INSERT_HEAP_REDUNDANT"), "of every row format");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn pages_of_every_other_size_become_what_the_server_makes_of_them() {
    for size in ["4k", "8k", "32k", "64k"] {
        let dir = TempDir::new().expect("a directory");
        let setting = format!("innodb_page_size={size}");
        // The largest pages cannot be compressed, so these tables are created uncompressed.
        let server = crashed(&dir.path().join("data"), &[&format!("--{setting}"), "--innodb-strict-mode=OFF"]);
        let seen = assert_same_as_server(&server.0, &KeyStore::new(), &[&setting]);
        assert!(seen.equal > 0, "changed pages were still unwritten");
    }
}

/// The options for the server and its backup tool that encrypt log and tables with the keys in `folder`.
fn encryption(kind: &str, folder: &Path, cipher: &str) -> (KeyStore, Vec<String>, Vec<String>) {
    let path = folder.join("keys");
    let text = "1;770A8A65DA156D24EE2A093277530142\n2;18420B5CBA31CCDFFE9716E91EB61374D05914F3ADE23E03\n";
    fs::write(&path, text).expect("writes");
    let mut keys = KeyStore::new();
    keys.add_mariadb_key_file(text.as_bytes(), None).expect("keys");
    let file = format!("file_key_management_filename={}", path.display());
    let mode = format!("file_key_management_encryption_algorithm={cipher}");
    let server = ["plugin-load-add=file_key_management", "innodb-encrypt-tables=ON", "innodb-encrypt-log=ON"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("loose-{file}"), format!("loose-{mode}")])
        .map(|option| format!("--{option}"));
    let program = script("server.sh", &[kind, "command", "mariadb-backup"]);
    let tree = program.trim_end().rsplit(' ').next().and_then(|path| path.strip_suffix("/bin/mariadb-backup"));
    let plugins = format!("plugin_dir={}/lib/mysql/plugin", tree.expect("the tool's path"));
    let tool =
        vec!["plugin_load=file_key_management".to_owned(), plugins, file, mode, "innodb_encrypt_log=1".to_owned()];
    let server = server.collect();
    (keys, server, tool)
}

/// An encrypted server, killed under load and replayed.
fn assert_encrypted_same_as_server(cipher: &str, more: &[&str]) -> Seen {
    assert_encrypted_same_as("mariadb", cipher, more)
}

fn assert_encrypted_same_as(kind: &'static str, cipher: &str, more: &[&str]) -> Seen {
    let dir = TempDir::new().expect("a directory");
    let (keys, options, settings) = encryption(kind, dir.path(), cipher);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    assert_same_as_of_crash(kind, dir.path(), &options, &keys, &settings)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_log_of_10_5_onto_encrypted_pages_makes_what_the_server_makes() {
    let seen = assert_encrypted_same_as(OLD, "aes_cbc", &[]);
    assert!(seen.encrypted_again > 0, "encrypted pages were among them");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_log_onto_encrypted_pages_makes_what_the_server_makes() {
    let seen = assert_encrypted_same_as_server("aes_cbc", &[]);
    assert!(seen.encrypted_again > 0, "encrypted pages were among them");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_other_cipher_mode_is_found_out_from_the_log_itself() {
    let seen = assert_encrypted_same_as_server("aes_ctr", &["--innodb-checksum-algorithm=crc32"]);
    assert!(seen.encrypted_again > 0, "encrypted pages were among them");
}
