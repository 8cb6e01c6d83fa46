//! Consecutive backups of servers whose rows and definitions keep changing. Each is restored, and a replica started on it catches up.
//!
//! Meanwhile a probe commits and creates tables, and records how long each was blocked. `INNOKIT_BACKUPS=10` takes ten backups, and one
//! with the server's own tool beside each of MariaDB's; it prints what the probe saw (`--nocapture`).
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::backup_lab::load::Load;
use crate::backup_lab::replica::{CATCH_UP_MAX, Replica, port_to};
use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, sums};
use tempfile::TempDir;

/// Rounds of the load before the backup begins, so that all of the load's tables exist, and after it has ended.
const ROUNDS: u32 = 2;
const OPTIONS: [&str; 3] = ["--log-bin=bin", "--server-id=7", "--binlog-format=ROW"];
/// Without a password: MySQL authenticates differently on a socket and on a port, and this replica's port leads to a socket.
const COPIER: &str = "CREATE USER copy@localhost; GRANT REPLICATION SLAVE ON *.* TO copy@localhost;";
const KEY: &str = "1;5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c\n";

/// Statements that run in a loop, each list on a connection of its own. `{n}` is the number of the round, `{old}` that of an earlier one.
const ROWS: [&str; 2] = [
    "INSERT INTO a (a, b, c) SELECT a, b, c FROM b LIMIT 200;UPDATE a SET a = a + 1 WHERE id % 7 = {n} % 7;DELETE FROM a ORDER BY id LIMIT 150;\
     UPDATE z SET a = a + 1, c = REPEAT('{n}', 90) WHERE id % 5 = {n} % 5",
    "UPDATE other.c SET a = a + 1 WHERE id % 9 = {n} % 9;INSERT INTO words (b) VALUES ('round {n} of many');\
     UPDATE secret SET a = a + 1 WHERE id % 3 = {n} % 3;INSERT INTO parts VALUES ({n} + 1000, {n})",
];
const DEFINITIONS: [&str; 3] = [
    "CREATE TABLE p_{n} LIKE a;INSERT INTO p_{n} SELECT * FROM a LIMIT 500;ALTER TABLE p_{n} ADD KEY k (c(10));TRUNCATE p_{n};\
     INSERT INTO p_{n} SELECT * FROM a LIMIT 100;RENAME TABLE p_{n} TO other.q_{n};\
     ALTER TABLE other.q_{n} ADD COLUMN more INT DEFAULT 5, ALGORITHM=INSTANT;\
     ALTER TABLE other.q_{n} ADD COLUMN later INT, ALGORITHM=COPY;DROP TABLE IF EXISTS other.q_{old}",
    "RENAME TABLE left_0 TO away, right_0 TO left_0, away TO right_0;INSERT INTO left_0 (a, b, c) SELECT a, b, c FROM a LIMIT 3;\
     ALTER TABLE other.c FORCE;ALTER TABLE other.c ADD KEY new (a, b), ALGORITHM=INPLACE;ALTER TABLE other.c DROP KEY new;\
     ALTER TABLE b ADD KEY later (b(20), a), ALGORITHM=INPLACE;ALTER TABLE b DROP KEY later",
    "ALTER TABLE parts ADD PARTITION (PARTITION n VALUES LESS THAN (2000000 + {n}));ALTER TABLE parts DROP PARTITION n;\
     ALTER TABLE z ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4;OPTIMIZE TABLE z;ALTER TABLE z ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8;\
     ALTER TABLE secret {plain};ALTER TABLE secret {encrypted};CREATE TABLE dense_{n} LIKE dense;\
     INSERT INTO dense_{n} SELECT * FROM secret;DROP TABLE IF EXISTS dense_{old}",
];

/// The same options as each server spells them.
struct Words {
    encrypted: &'static str,
    plain: &'static str,
    compressed: &'static str,
}

fn words(kind: &str) -> Words {
    if kind == "mysql" {
        Words { encrypted: "ENCRYPTION='Y'", plain: "ENCRYPTION='N'", compressed: "COMPRESSION='zlib'" }
    } else {
        Words { encrypted: "ENCRYPTED=YES", plain: "ENCRYPTED=NO", compressed: "PAGE_COMPRESSED=1" }
    }
}

/// A server with keys and tables of all kinds. One table is encrypted from the start: a MariaDB log in which the very first table gets
/// encrypted does not contain the cipher, and is refused.
fn started(kind: &'static str) -> Server {
    let folder = TempDir::new().expect("a folder");
    let mut options: Vec<String> = OPTIONS.map(str::to_owned).into();
    if kind == "mysql" {
        options.extend(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"].map(str::to_owned));
    } else {
        let keys = folder.path().join("keys");
        fs::write(&keys, KEY).expect("written");
        options.push("--plugin-load-add=file_key_management".to_owned());
        options.push(format!("--loose-file-key-management-filename={}", keys.display()));
    }
    let server = Server::start_in(folder, kind, &options);
    if kind == "mysql" {
        server.script("stop", &[], "");
        let config = format!("{{ \"path\": \"{}\", \"read_only\": false }}\n", server.of("keys").display());
        fs::write(server.of("component_keyring_file.cnf"), config).expect("written");
        give_keys(&server, "data");
        server.script("start", &[], "");
    }
    let Words { encrypted, compressed, .. } = words(kind);
    server.script(
        "sql",
        &[],
        &format!(
            "{COPIER} USE shop; ALTER TABLE parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (1000000)); \
             CREATE TABLE secret LIKE a; ALTER TABLE secret {encrypted}; INSERT INTO secret SELECT * FROM a LIMIT 900; \
             CREATE TABLE kept LIKE secret; INSERT INTO kept SELECT * FROM a LIMIT 100; FLUSH TABLES kept FOR EXPORT; UNLOCK TABLES; \
             CREATE TABLE dense LIKE a; ALTER TABLE dense {compressed}; INSERT INTO dense SELECT * FROM a; CREATE TABLE probe (id INT AUTO_INCREMENT PRIMARY KEY);"
        ),
    );
    server
}

/// Gives a server on the folder `name` its keys. MariaDB gets them through an option.
fn give_keys(server: &Server, name: &str) {
    if server.kind == "mysql" {
        let dir = server.of(name);
        fs::write(dir.join("mysqld.my"), "{ \"components\": \"file://component_keyring_file\" }\n").expect("written");
        fs::copy(server.of("component_keyring_file.cnf"), dir.join("component_keyring_file.cnf")).expect("copied");
    }
}

/// Changes rows and definitions; rounds are numbered from `first` on.
fn load(server: &Server, first: u32) -> Load {
    let (mut load, Words { encrypted, plain, .. }) = (Load::default(), words(server.kind));
    for list in ROWS.into_iter().chain(DEFINITIONS) {
        load.add(server, first, move |session, round| {
            let list = list.replace("{n}", &round.to_string()).replace("{old}", &round.saturating_sub(3).to_string());
            for statement in list.replace("{encrypted}", encrypted).replace("{plain}", plain).split(';') {
                session.ask(statement);
            }
        });
    }
    load
}

/// Commits and creates tables in a loop, and keeps the longest time that each took.
struct Probe {
    load: Load,
    /// Microseconds: of a commit, and of a table that is created and dropped.
    longest: [Arc<AtomicU64>; 2],
}

impl Probe {
    fn start(server: &Server) -> Self {
        let (mut load, longest) = (Load::default(), [Arc::default(), Arc::default()]);
        let acts = ["INSERT INTO probe VALUES ()", "CREATE TABLE probed (a INT); DROP TABLE probed"];
        for (statements, longest) in acts.into_iter().zip(&longest) {
            let longest: Arc<AtomicU64> = Arc::clone(longest);
            load.add(server, 0, move |session, _| {
                let asked = Instant::now();
                session.ask(statements);
                longest
                    .fetch_max(u64::try_from(asked.elapsed().as_micros()).expect("not that long"), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            });
        }
        Self { load, longest }
    }

    /// Runs `act`. Returns its result and the longest times in seconds that the probe saw meanwhile, running statements included.
    fn during<T>(&self, act: impl FnOnce() -> T) -> (T, [f64; 2]) {
        for longest in &self.longest {
            longest.store(0, Ordering::Relaxed);
        }
        let result = act();
        // Let statements that still wait complete.
        self.load.go_on(1);
        let seconds = |micros: &Arc<AtomicU64>| Duration::from_micros(micros.load(Ordering::Relaxed)).as_secs_f64();
        let [commits, tables] = &self.longest;
        (result, [seconds(commits), seconds(tables)])
    }
}

/// Takes a backup with the server's own tool. Returns whether it succeeded, and what the probe saw.
fn by_the_tool(server: &Server, probe: &Probe) -> (bool, [f64; 2]) {
    let mut command = server.command(&["--no-defaults", "--backup", "--user=root"]);
    command.arg(format!("--socket={}", server.socket().display()));
    command
        .arg(format!("--datadir={}", server.data().display()))
        .arg(format!("--target-dir={}", server.of("tool").display()));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let seen = probe.during(|| command.status().expect("bash runs").success());
    fs::remove_dir_all(server.of("tool")).ok();
    seen
}

/// Asserts that a replica that begins where the backup says ends with all tables and the same rows.
fn a_replica_catches_up(server: &Server, gtid: &str, port: u16) {
    let (follow, wait) = if server.kind == "mysql" {
        let executed = Session::of(server).ask("SELECT REPLACE(@@gtid_executed, '\\n', '')").concat();
        let follow = format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='copy', \
             SOURCE_AUTO_POSITION=1, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1; START REPLICA;"
        );
        (follow, format!("-WAIT_FOR_EXECUTED_GTID_SET('{executed}', {CATCH_UP_MAX}) + 0"))
    } else {
        let written = Session::of(server).ask("SELECT @@gtid_binlog_pos").concat();
        let follow = format!(
            "SET GLOBAL gtid_slave_pos = '{gtid}'; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='copy', \
             MASTER_SSL=0, MASTER_SSL_VERIFY_SERVER_CERT=0, MASTER_USE_GTID=slave_pos; START SLAVE;"
        );
        (follow, format!("MASTER_GTID_WAIT('{written}', {CATCH_UP_MAX})"))
    };
    let expected = sums(&mut Session::on(server, "data"));
    let replica = Replica::start(server, ("out", 8), &follow);
    if server.kind == "mysql" {
        let here = Session::on(server, "out").ask("SELECT REPLACE(@@gtid_executed, '\\n', '')").concat();
        assert!(!here.is_empty(), "it knows what was executed");
    }
    replica.wait(&wait);
    assert!(expected.len() > 24, "{expected:?}");
    assert_eq!(sums(&mut Session::on(server, "out")), expected, "{} from {gtid}", server.kind);
}

/// The copy of a page-compressed table has holes if the server's file has any.
fn the_copy_is_as_dense(server: &Server) {
    let space_of = |dir: &str| {
        let file = fs::metadata(server.of(dir).join("shop/dense.ibd")).expect("is there");
        (file.blocks() * 512, file.len())
    };
    let ((space, len), (copied, _)) = (space_of("data"), space_of("set"));
    // The file system may allocate extents differently for the two.
    assert!(space >= len || copied <= space + (64 << 10), "{}: {copied} for {space} bytes of {len}", server.kind);
}

fn backups_in_a_row(kind: &'static str) {
    let number: Option<u32> = std::env::var("INNOKIT_BACKUPS").ok().map(|text| text.parse().expect("a number"));
    let server = started(kind);
    let (socket, port) = (server.socket().display().to_string(), port_to(server.socket()));
    for round in 0..number.unwrap_or(1) {
        let (load, probe) = (load(&server, round * 100_000), Probe::start(&server));
        load.go_on(ROUNDS);
        let keys = server.of("keys").display().to_string();
        let keys = [if kind == "mysql" { "--keyring" } else { "--key-file" }, keys.as_str()];
        let take = [&["backup", "--user", "root", "--socket", &socket, "--to", "set", "--json"], &keys[..], &["data"]]
            .concat();
        let (taken, [commits, tables]) = probe.during(|| server.run(&take));
        assert_eq!(taken.status, 0, "{kind}, backup {round}: {}", taken.errors);
        the_copy_is_as_dense(&server);
        let manifest = taken.json()["manifest"].clone();
        if number.is_some() {
            print!("{kind} {round}: commits {commits:.2} s, tables {tables:.2} s; {}", manifest["locks"]);
            if kind != "mysql" {
                let (is_taken, [commits, tables]) = by_the_tool(&server, &probe);
                let taken = if is_taken { "taken" } else { "FAILED" };
                print!("; by the tool, {taken}: commits {commits:.2} s, tables {tables:.2} s");
            }
            println!();
        }
        load.go_on(1);
        drop((load, probe));
        let verified = server.run(&[&["backup", "verify", "set"], &keys[..]].concat());
        assert_eq!(verified.status, 0, "{kind}, backup {round}: {}{}", verified.text, verified.errors);
        // Every other backup becomes the datadir itself, from the first of MySQL and the second of MariaDB on.
        let moves: &[&str] = if (round % 2 == 1) != (kind == "mysql") { &["--move"] } else { &[] };
        let restored = server.run(&[&["restore", "set", "--to", "out"], moves, &keys[..]].concat());
        assert_eq!(restored.status, 0, "{kind}, backup {round}: {}", restored.errors);
        assert_eq!(server.of("set").exists(), moves.is_empty(), "{kind}, backup {round}");
        give_keys(&server, "out");
        // The server has nothing to recover, and finds nothing wrong.
        server.tables("out");
        a_replica_catches_up(&server, manifest["binlog"]["gtid"].as_str().expect("a text"), port);
        for name in ["set", "out"].iter().filter(|name| server.of(name).exists()) {
            fs::remove_dir_all(server.of(name)).expect("removed");
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mariadb_10_11_in_a_row_are_whole() {
    backups_in_a_row("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mariadb_11_8_in_a_row_are_whole() {
    backups_in_a_row("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mysql_in_a_row_are_whole() {
    backups_in_a_row("mysql");
}
