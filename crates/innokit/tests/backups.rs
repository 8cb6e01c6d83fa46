//! Backups that mariadb-backup takes of a server at work: all of it, some databases, some tables, what was changed since, and streamed;
//! prepared and not. Nothing of that is damaged.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Run, innokit, repository};
use tempfile::TempDir;

const COLUMNS: &str = "id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(100), c TEXT, KEY (a), KEY (b)";
/// How often the load goes around: longer than the backups take.
const ROUNDS: u32 = 3000;

/// A server, and a folder for its backups.
struct Server {
    kind: &'static str,
    folder: TempDir,
    load: Option<Child>,
}

impl Server {
    fn start(kind: &'static str) -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let server = Self { kind, folder, load: None };
        // mariadb-backup gives up where the server overwrites its log before it is copied.
        server.script("init", &["--innodb-undo-tablespaces=2", "--innodb-log-file-size=512M"], "");
        server.script("start", &[], "");
        let tables = format!(
            "CREATE DATABASE shop; CREATE DATABASE other; USE shop; CREATE TABLE a ({COLUMNS}) ENGINE=InnoDB; \
             INSERT INTO a (a, b, c) SELECT seq, SHA2(seq, 256), REPEAT('x', seq % 500) FROM seq_1_to_3000; \
             CREATE TABLE b LIKE a; INSERT INTO b SELECT * FROM a; CREATE TABLE other.c LIKE a; INSERT INTO other.c SELECT * FROM a; \
             CREATE TABLE parts (id INT PRIMARY KEY, a INT) ENGINE=InnoDB PARTITION BY RANGE (id) \
             (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000)); INSERT INTO parts VALUES (1, 1), (20, 2); \
             CREATE TABLE words (id INT PRIMARY KEY AUTO_INCREMENT, b TEXT, FULLTEXT (b)) ENGINE=InnoDB; \
             INSERT INTO words (b) VALUES ('once upon a time');"
        );
        server.script("sql", &[], &tables);
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, action: &str, options: &[&str], input: &str) {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.data()).args(options);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("bash runs");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{action} {}: {}", self.kind, String::from_utf8_lossy(&output.stderr));
    }

    /// Changes rows and makes, alters and drops tables, until it is killed.
    fn load(&mut self) {
        let rounds = (0..ROUNDS).map(|round| {
            format!(
                "INSERT INTO a (a, b, c) SELECT a, b, c FROM b LIMIT 300; UPDATE a SET a = a + 1 WHERE id % 7 = {}; DELETE FROM a LIMIT 200; \
                 CREATE TABLE p_{round} LIKE a; INSERT INTO p_{round} SELECT * FROM a LIMIT 500; ALTER TABLE p_{round} ADD KEY k (c(10)); \
                 TRUNCATE p_{round}; DROP TABLE p_{round}; ALTER TABLE other.c FORCE; DO SLEEP(0.05);\n",
                round % 7
            )
        });
        let statements = self.of("load.sql");
        fs::write(&statements, rounds.collect::<String>()).expect("written");
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, "sql"]).arg(self.data()).args(["--force", "shop"]);
        command.stdin(fs::File::open(statements).expect("a file")).stdout(Stdio::null()).stderr(Stdio::null());
        self.load = Some(command.spawn().expect("the client runs"));
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, "tool", "mariadb-backup", "--no-defaults"]).args(options);
        command
    }

    /// Takes a backup into the folder `name`; where it goes to standard output, that is what comes of it.
    fn back_up(&self, name: &str, options: &[&str]) -> Vec<u8> {
        let socket = Command::new("bash")
            .arg("-c")
            .arg("printf '/tmp/innokit-%s-%s.sock' \"$(id -u)\" \"$(printf '%s' \"$0\" | cksum | cut -d' ' -f1)\"")
            .arg(self.data().canonicalize().expect("a path"))
            .output();
        let socket = String::from_utf8(socket.expect("bash runs").stdout).expect("a path");
        let mut said = String::new();
        // The tool itself gives up now and then beside DDL. That is not what is tested.
        for _ in 0..5 {
            let mut command = self.command(&["--backup", "--user=root"]);
            command.arg(format!("--socket={socket}")).arg(format!("--datadir={}", self.data().display()));
            command.arg(format!("--target-dir={}", self.of(name).display())).args(options);
            let output = command.output().expect("bash runs");
            if output.status.success() {
                return output.stdout;
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            fs::remove_dir_all(self.of(name)).ok();
        }
        panic!("{} {name}: {said}", self.kind);
    }

    fn prepare(&self, name: &str, options: &[&str]) {
        let target = format!("--target-dir={}", self.of(name).display());
        let output = self.command(&["--prepare", &target]).args(options).output().expect("bash runs");
        assert!(output.status.success(), "{} {name}: {}", self.kind, String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let killed = Command::new(repository().join("scripts/server.sh"))
            .args([self.kind, "kill9"])
            .arg(self.data())
            .stderr(Stdio::null())
            .status();
        drop(killed);
        if let Some(mut load) = self.load.take() {
            drop(load.kill());
            drop(load.wait());
        }
    }
}

/// The exit status, and what was found to be damaged.
fn said(words: &[&str], path: &Path) -> (i32, Vec<String>) {
    let run = Run::of(&innokit().args(words).arg("--json").arg(path).output().expect("innokit runs"));
    let document = run.json();
    let findings = document["findings"].as_array().expect("findings").iter();
    let damage = findings.filter(|finding| finding["severity"] == "damage").map(ToString::to_string);
    (run.status, damage.collect())
}

fn is_well(server: &Server, name: &str) {
    for words in [&["check"][..], &["table", "check"]] {
        assert_eq!(said(words, &server.of(name)), (0, Vec::new()), "{} {name}, prepared: {words:?}", server.kind);
    }
}

/// Until it is prepared, pages may be missing; they are not called damaged.
fn is_not_damaged(server: &Server, name: &str) {
    for words in [&["check"][..], &["table", "check"]] {
        let (status, damage) = said(words, &server.of(name));
        assert!(status != 1 && damage.is_empty(), "{} {name}, not prepared: {words:?}: {damage:#?}", server.kind);
    }
}

fn backups_are_sound(kind: &'static str) {
    let mut server = Server::start(kind);
    server.load();
    server.back_up("full", &[]);
    server.back_up("databases", &["--databases=shop"]);
    server.back_up("tables", &["--tables=shop[.]b"]);
    server.back_up("increment", &[&format!("--incremental-basedir={}", server.of("full").display())]);
    let stream = server.back_up("streamed", &["--stream=xbstream"]);
    fs::write(server.of("full.xb"), stream).expect("written");
    assert!(
        server.load.as_mut().is_some_and(|load| load.try_wait().is_ok_and(|ended| ended.is_none())),
        "{kind}: that was no load"
    );

    for name in ["full", "databases", "tables"] {
        is_not_damaged(&server, name);
    }
    let (status, damage) = said(&["check"], &server.of("full.xb"));
    assert!(status != 1 && damage.is_empty(), "{kind}, streamed: {damage:#?}");
    // Of the pages in an increment nothing is known until they are applied.
    let (status, damage) = said(&["check"], &server.of("increment"));
    assert_eq!((status, damage), (2, Vec::new()), "{kind}, increment");

    server.prepare("full", &[]);
    is_well(&server, "full");
    server.prepare("databases", &[]);
    is_well(&server, "databases");
    server.prepare("tables", &[]);
    is_well(&server, "tables");
    server.prepare("full", &[&format!("--incremental-dir={}", server.of("increment").display())]);
    is_well(&server, "full");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mariadb_are_not_called_damaged() {
    backups_are_sound("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_the_newest_mariadb_are_not_called_damaged() {
    backups_are_sound("mariadb118");
}
