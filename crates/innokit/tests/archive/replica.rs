//! Replicas made from restored files: each starts at the position that the restore prints, and ends with its primary's rows.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::archive_lab::{Load, PATIENCE};
use crate::backup_lab::Server;
use crate::backup_lab::replica::{CATCH_UP_MAX, Replica, port_to};
use crate::common::repository;
use serde_json::Value;

const TABLES: [&str; 8] =
    ["shop.a", "shop.b", "shop.z", "shop.parts", "shop.left_0", "shop.right_0", "shop.counted", "other.c"];
const COUNT: &str = "UPDATE counted SET n = n + 1; UPDATE counted SET n = n + 1; UPDATE counted SET n = n + 1;";

fn restored(server: &Server, name: &str, more: &[&str]) -> Value {
    let done = server.run(&[&["restore", "--json", "--to", name], more, &["set"]].concat());
    assert_eq!(done.status, 0, "{name}: {}", done.errors);
    done.json()["binlog"].clone()
}

fn sums(server: &Server, name: &str) -> String {
    let counts = TABLES.map(|table| format!("SELECT '{table}', COUNT(*) FROM {table};")).concat();
    server.script_on(name, "sql", &["-N"], &format!("{counts} CHECKSUM TABLE {};", TABLES.join(", ")))
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn replicas_started_from_what_was_restored_catch_up() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let server = Server::start_in(folder, "mariadb118", &["--log-bin=bin", "--server-id=7"].map(str::to_owned));
    let port = port_to(server.socket());
    server.script(
        "sql",
        &[],
        "CREATE USER copy@localhost IDENTIFIED BY 'copy'; GRANT REPLICATION SLAVE ON *.* TO copy@localhost; \
         CREATE TABLE shop.counted (id INT PRIMARY KEY, n BIGINT); INSERT INTO shop.counted VALUES (1, 0);",
    );
    let socket = server.socket().display().to_string();
    let archive =
        ["redo", "archive", "--until-caught-up", "--user", "root", "--socket", &socket, "--to", "redo", "data"];
    assert_eq!(server.run(&archive).status, 0);
    // A replica that starts too early or too late ends with a wrong count, if it does not fail on a row.
    let load = Load::start(&server, COUNT);
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "--json", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    thread::sleep(Duration::from_millis(1500));
    // Stop in the middle of the load: the archive ends at an arbitrary moment.
    assert_eq!(server.run(&archive).status, 0);
    let (by_backup, by_archive) = (restored(&server, "one", &[]), restored(&server, "two", &["--redo", "redo"]));
    assert_eq!(by_backup, taken.json()["manifest"]["binlog"]);
    let place = |binlog: &Value| (binlog["file"].as_str().expect("a file").to_owned(), binlog["position"].as_u64());
    assert!(place(&by_backup) < place(&by_archive), "{by_backup} {by_archive}");
    let gtid = by_backup["gtid"].as_str().expect("a text");
    assert!(!gtid.is_empty(), "{by_backup}");
    let set = format!("SET GLOBAL gtid_slave_pos = '{gtid}';");
    let follow = |set: &str, from: &str| {
        let primary = "MASTER_HOST='127.0.0.1', MASTER_USER='copy', MASTER_PASSWORD='copy', MASTER_SSL=0, MASTER_SSL_VERIFY_SERVER_CERT=0";
        format!("{set} CHANGE MASTER TO {primary}, MASTER_PORT={port}, {from}; START SLAVE;")
    };
    let one = Replica::start(&server, ("one", 8), &follow(&set, "MASTER_USE_GTID=slave_pos"));
    let (file, position) = place(&by_archive);
    let position = position.expect("a position");
    let from = format!("MASTER_LOG_FILE='{file}', MASTER_LOG_POS={position}, MASTER_USE_GTID=no");
    let two = Replica::start(&server, ("two", 9), &follow("", &from));
    // The query that the restore suggests if it does not know the GTID.
    let asked = server.script_on("data", "sql", &["-N"], &format!("SELECT BINLOG_GTID_POS('{file}', {position})"));
    let known = by_archive["gtid"].as_str().expect("a text");
    assert!(asked.starts_with("0-7-") && (known.is_empty() || known == asked.trim_end()), "{by_archive} {asked}");

    load.stop();
    let status = server.script_on("data", "sql", &["-N"], "SELECT @@gtid_binlog_pos; SHOW MASTER STATUS;");
    let (gtid, status) = status.split_once('\n').expect("two lines");
    let status: Vec<&str> = status.split('\t').collect();
    let expected = sums(&server, "data");
    one.wait(&format!("MASTER_GTID_WAIT('{gtid}', {CATCH_UP_MAX})"));
    assert_eq!(sums(&server, one.name), expected, "by GTID");
    let wait = format!("MASTER_POS_WAIT('{}', {}, {CATCH_UP_MAX})", status[0], status[1]);
    two.wait(&wait);
    assert_eq!(sums(&server, two.name), expected, "by position");
}

/// Makes a server wait between the binary log and the engine's commit: it waits for the acknowledgement of a semi-synchronous replica that
/// does not exist.
struct Stall {
    kind: &'static str,
    on: &'static str,
    /// Sessions that wait.
    waiting: &'static str,
}

const STALLS: [Stall; 2] = [
    Stall {
        kind: "mariadb118",
        on: "SET GLOBAL rpl_semi_sync_master_timeout = 1000000000; SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC; \
             SET GLOBAL rpl_semi_sync_master_enabled = ON;",
        waiting: "SHOW STATUS LIKE 'Rpl_semi_sync_master_wait_sessions';",
    },
    Stall {
        kind: "mysql",
        on: "SET GLOBAL innodb_flush_log_at_trx_commit = 1; INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; SET GLOBAL rpl_semi_sync_source_timeout = 1000000000; \
             SET GLOBAL rpl_semi_sync_source_enabled = ON;",
        waiting: "SHOW STATUS LIKE 'Rpl_semi_sync_source_wait_sessions';",
    },
];

/// A moment between the two phases of a commit. Without the binary log no server can tell whether to commit, and MariaDB does not start.
fn a_commit_that_waits_is_not_committed_in_a_copy(stall: &Stall) {
    let folder = tempfile::TempDir::new().expect("a folder");
    let server = Server::start_in(folder, stall.kind, &["--log-bin=bin", "--server-id=7"].map(str::to_owned));
    server.archive();
    let socket = server.socket().display().to_string();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    let mine = "XA START 'mine'; INSERT INTO shop.left_0 (a) VALUES (7777); XA END 'mine'; XA PREPARE 'mine';";
    server.script("sql", &[], mine);
    server.script("sql", &[], stall.on);
    let mut stalled = Command::new(repository().join("scripts/server.sh"));
    stalled.args([stall.kind, "sql"]).arg(server.data()).args(["shop", "-e", "INSERT INTO right_0 (a) VALUES (8888)"]);
    let mut stalled = stalled.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs");
    let started = Instant::now();
    while !server.script_on("data", "sql", &["-N"], stall.waiting).ends_with("\t1\n") {
        assert!(started.elapsed() < PATIENCE, "{}: it does not wait", stall.kind);
        thread::sleep(Duration::from_millis(50));
    }
    // These servers flush their logs once a second.
    thread::sleep(Duration::from_secs(1));
    server.script("sql", &[], "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS;");
    // MySQL answers with its position only when no transaction is between the two phases, so the archiver does not ask.
    server.script("kill9", &[], "");
    assert!(!stalled.wait().expect("ended").success(), "{}: it is committed", stall.kind);
    // A datadir is no backup: its server decides, if it finds its binary log.
    let own = server.run(&["recover", "--to", "own", "data"]);
    let says = ["prepared  1 transactions wait for the server's binary log", "--tc-heuristic-recover=ROLLBACK"];
    // Also if the server has just written its checkpoint, and the log has no work to do.
    assert!(own.status == 0 && says.iter().all(|words| own.text.contains(words)), "{}{}", own.text, own.errors);
    let again = server.run(&["recover", "--to", "again", "own"]);
    let is_told = again.text.starts_with("nothing to recover") && says.iter().all(|words| again.text.contains(words));
    assert!(again.status == 0 && is_told, "{}{}", again.text, again.errors);
    let archived = server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]);
    assert_eq!(archived.status, 0, "{}", archived.errors);
    let done = server.run(&["restore", "--redo", "redo", "--to", "out", "set", "--json"]);
    assert_eq!(done.status, 0, "{}", done.errors);
    let waiting = &done.json()["recovered"]["waiting"];
    assert_eq!((&waiting["given_up"], &waiting["left"]), (&Value::from(1), &Value::from(0)), "{}", stall.kind);
    server.script_on("out", "start", &["--log-bin=other", "--server-id=8"], "");
    // A transaction that is still prepared would lock its row.
    let rows = "SET innodb_lock_wait_timeout = 5; UPDATE shop.right_0 SET a = a + 1; SELECT COUNT(*) FROM shop.right_0 WHERE a > 8000; \
                XA RECOVER; XA COMMIT 'mine'; SELECT COUNT(*) FROM shop.left_0 WHERE a = 7777;";
    let rows = server.script_on("out", "sql", &["-N"], rows);
    assert_eq!(rows, "0\n1\t4\t0\tmine\n1\n", "{}", stall.kind);
    server.script_on("out", "stop", &[], "");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_commit_of_mariadb_that_waits_for_the_binary_log_is_not_committed_in_a_copy() {
    a_commit_that_waits_is_not_committed_in_a_copy(&STALLS[0]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_commit_of_mysql_that_waits_for_the_binary_log_is_not_committed_in_a_copy() {
    a_commit_that_waits_is_not_committed_in_a_copy(&STALLS[1]);
}
