//! Redo applied by this program against redo applied by the server: the datadir of a server that was killed under load, page by page.
//!
//! The other recovery is that of the server's own backup tool on a copy: it applies the redo and writes the pages, but rolls
//! nothing back and purges nothing, so that whatever the load was doing when it was killed, the pages must be the same.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

mod replay;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use format::keyring::KeyStore;
use replay::{Log, Seen, compare};
use tempfile::TempDir;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Runs a script of the repository; what it printed.
fn script(name: &str, args: &[&str]) -> String {
    let mut command = Command::new(repository().join("scripts").join(name));
    let output = command.args(args).output().expect("bash runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{name} {args:?}: {text}");
    text
}

/// A datadir of the folder that the tests share.
fn datadir(name: &str) -> PathBuf {
    let given = std::env::var_os("INNOKIT_DATADIRS").map(PathBuf::from);
    let folder = given.unwrap_or_else(|| repository().join("target/datadirs"));
    script("make-datadirs.sh", &[folder.to_str().expect("a name")]);
    folder.join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("makes the directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let (source, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("an entry");
        if source.is_dir() {
            copy(&source, &to.join(name));
        } else {
            fs::copy(&source, to.join(name)).expect("copies");
        }
    }
}

/// Recovers the datadir by the server's backup tool, which wants to be told that it is a backup, and how the server was set up.
fn prepare(datadir: &Path, options: &[&str], settings: &[&str]) {
    let config = ["[mysqld]", "innodb_data_file_path=ibdata1:12M:autoextend", "innodb_undo_directory=./"];
    fs::write(datadir.join("backup-my.cnf"), [&config, settings, &[""]].concat().join("\n")).expect("writes");
    let checkpoint = Log::read(datadir).file.checkpoint.lsn;
    let text = format!("backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = {checkpoint}\nlast_lsn = {checkpoint}\n");
    fs::write(datadir.join("xtrabackup_checkpoints"), text).expect("writes");
    let target = format!("--target-dir={}", datadir.display());
    script(
        "server.sh",
        &[&["mariadb", "tool", "mariadb-backup", "--no-defaults", "--prepare", &target], options].concat(),
    );
}

/// Replays `crashed`, and holds the pages against those that the server's tool makes of a copy.
fn assert_same_as_server(crashed: &Path, keys: &KeyStore, options: &[&str], settings: &[&str]) -> Seen {
    let copy_dir = TempDir::new().expect("a directory");
    copy(crashed, copy_dir.path());
    prepare(copy_dir.path(), options, settings);
    let seen = compare(crashed, copy_dir.path(), keys);
    println!("{seen:#?}");
    assert_eq!(seen.different, Vec::<String>::new(), "of {} pages", seen.equal);
    // The tool leaves a log of one record, which ends where the log ended before.
    assert_eq!(Log::read(copy_dir.path()).file.checkpoint.lsn.0 + 16, seen.end, "both found the same end of the log");
    assert!(seen.equal > 0 && seen.mtrs > 0, "there was something to recover");
    seen
}

#[test]
fn pages_of_a_crashed_server_become_what_its_own_recovery_makes_of_them() {
    let crashed = datadir("mariadb-16k-crashed");
    assert_same_as_server(&crashed, &KeyStore::new(), &[], &[]);
}
