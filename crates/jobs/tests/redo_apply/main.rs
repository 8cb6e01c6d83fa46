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

mod load;
mod replay;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
fn prepare(datadir: &Path, settings: &[&str]) {
    let config = ["[mysqld]", "innodb_data_file_path=ibdata1:12M:autoextend", "innodb_undo_directory=./"];
    fs::write(datadir.join("backup-my.cnf"), [&config, settings, &[""]].concat().join("\n")).expect("writes");
    let checkpoint = Log::read(datadir).file.checkpoint.lsn;
    let text = format!("backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = {checkpoint}\nlast_lsn = {checkpoint}\n");
    fs::write(datadir.join("xtrabackup_checkpoints"), text).expect("writes");
    let target = format!("--target-dir={}", datadir.display());
    let defaults = format!("--defaults-file={}/backup-my.cnf", datadir.display());
    script("server.sh", &["mariadb", "tool", "mariadb-backup", &defaults, "--prepare", &target]);
}

/// Replays `crashed`, and holds the pages against those that the server's tool makes of a copy.
fn assert_same_as_server(crashed: &Path, keys: &KeyStore, settings: &[&str]) -> Seen {
    let copy_dir = TempDir::new().expect("a directory");
    copy(crashed, copy_dir.path());
    prepare(copy_dir.path(), settings);
    let seen = compare(crashed, copy_dir.path(), keys);
    println!("{seen:#?}");
    assert_eq!(seen.different, Vec::<String>::new(), "of {} pages", seen.equal);
    // The tool leaves a log of one record, which ends where the log ended before.
    assert_eq!(Log::read(copy_dir.path()).file.checkpoint.lsn.0 + 16, seen.end, "both found the same end of the log");
    assert!(seen.mtrs > 0 && seen.equal + seen.unchanged > 0, "there was something to recover");
    seen
}

#[test]
fn pages_of_a_crashed_server_become_what_its_own_recovery_makes_of_them() {
    let crashed = datadir("mariadb-16k-crashed");
    assert_same_as_server(&crashed, &KeyStore::new(), &[]);
}

/// A server of its own for a test. Whatever fails, it does not go on running.
struct Server(PathBuf);

impl Server {
    fn start(datadir: &Path, options: &[&str]) -> Self {
        let server = Self(datadir.to_path_buf());
        script("server.sh", &[&["mariadb", "init", server.path()], &LEAVES_PAGES_UNWRITTEN[..], options].concat());
        script("server.sh", &["mariadb", "start", server.path()]);
        server
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a name")
    }

    /// A client that runs the statements in a file.
    fn client(&self, sql: &str) -> Child {
        let file = self.0.with_extension("sql");
        fs::write(&file, sql).expect("writes");
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args(["mariadb", "sql", self.path()]).stdin(fs::File::open(&file).expect("opens"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs")
    }

    /// Kills the server under the load: not before that has changed every table and gone on for some time.
    fn crash(&self) {
        assert!(self.client(&load::tables()).wait().expect("ends").success(), "the tables are made");
        let mut client = self.client(&load::changes());
        let has_begun = || {
            let names =
                fs::read_dir(self.0.join("shop")).expect("a directory").flatten().map(|entry| entry.file_name());
            names.into_iter().any(|name| name.to_string_lossy().starts_with(load::COMES_LATER))
        };
        while !has_begun() {
            assert!(client.try_wait().expect("is a process").is_none(), "the load ended before it was under way");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(LOAD);
        script("server.sh", &["mariadb", "kill9", self.path()]);
        client.wait().expect("it loses its server");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = Command::new(repository().join("scripts/server.sh"));
        drop(stop.args(["mariadb", "kill9", self.path()]).stderr(Stdio::null()).status());
    }
}

/// Options of a server that writes no changed page before it must, and has log enough that it need not. Any other may have written
/// every page just before it is killed, and then there is nothing left to replay.
const LEAVES_PAGES_UNWRITTEN: [&str; 5] = [
    "--innodb-log-file-size=256M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=98",
    "--innodb-buffer-pool-size=512M",
];

/// How long the load runs on before the server is killed.
const LOAD: Duration = Duration::from_secs(3);

#[test]
fn pages_of_every_row_format_become_what_the_server_makes_of_them() {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start(&dir.path().join("data"), &["--innodb-undo-tablespaces=3"]);
    server.crash();
    let seen = assert_same_as_server(&server.0, &KeyStore::new(), &["innodb_undo_tablespaces=3"]);
    assert!(seen.compressed > 0, "ROW_FORMAT=COMPRESSED pages were among them");
    assert!(seen.records.contains_key("INSERT_HEAP_REDUNDANT"), "and those of the oldest row format");
}

#[test]
fn pages_of_every_other_size_become_what_the_server_makes_of_them() {
    for size in ["4k", "8k", "32k", "64k"] {
        let dir = TempDir::new().expect("a directory");
        let setting = format!("innodb_page_size={size}");
        // The largest pages cannot be compressed: those tables are made without it.
        let server = Server::start(&dir.path().join("data"), &[&format!("--{setting}"), "--innodb-strict-mode=OFF"]);
        server.crash();
        let seen = assert_same_as_server(&server.0, &KeyStore::new(), &[&setting]);
        assert!(seen.equal > 0, "changed pages were still unwritten");
    }
}

/// The options that encrypt log and tables by the keys in `folder`, for the server and for its backup tool.
fn encryption(folder: &Path, cipher: &str) -> (KeyStore, Vec<String>, Vec<String>) {
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
    let program = script("server.sh", &["mariadb", "command", "mariadb-backup"]);
    let tree = program.trim_end().rsplit(' ').next().and_then(|path| path.strip_suffix("/bin/mariadb-backup"));
    let plugins = format!("plugin_dir={}/lib/mysql/plugin", tree.expect("the tool's path"));
    let tool =
        vec!["plugin_load=file_key_management".to_owned(), plugins, file, mode, "innodb_encrypt_log=1".to_owned()];
    let server = server.collect();
    (keys, server, tool)
}

/// An encrypted server, killed under load and replayed.
fn assert_encrypted_same_as_server(cipher: &str, more: &[&str]) -> Seen {
    let dir = TempDir::new().expect("a directory");
    let (keys, options, settings) = encryption(dir.path(), cipher);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let server = Server::start(&dir.path().join("data"), &options);
    server.crash();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    assert_same_as_server(&server.0, &keys, &settings)
}

#[test]
fn an_encrypted_log_onto_encrypted_pages_makes_what_the_server_makes() {
    let seen = assert_encrypted_same_as_server("aes_cbc", &[]);
    assert!(seen.encrypted > 0, "encrypted pages were among them");
}

#[test]
fn the_other_cipher_mode_is_found_out_from_the_log_itself() {
    let seen = assert_encrypted_same_as_server("aes_ctr", &["--innodb-checksum-algorithm=crc32"]);
    assert!(seen.encrypted > 0, "encrypted pages were among them");
}
