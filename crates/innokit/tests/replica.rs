//! Replicas made from restored files: each begins where the restore says, and ends with its primary's rows.
#![cfg(feature = "sql")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

mod archive_lab;
mod backup_lab;
mod common;

use std::thread;
use std::time::Duration;

use archive_lab::Load;
use backup_lab::Server;
use backup_lab::replica::{CATCH_UP_MAX, Replica, port_to};
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
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
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
    // A replica that begins too early or too late counts too far or not far enough, if it does not fail on a row.
    let load = Load::start(&server, COUNT);
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "--json", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    thread::sleep(Duration::from_millis(1500));
    // In the middle of the load: the archive ends at an arbitrary moment.
    assert_eq!(server.run(&archive).status, 0);
    let (by_backup, by_archive) = (restored(&server, "one", &[]), restored(&server, "two", &["--redo", "redo"]));
    assert_eq!(by_backup, taken.json()["manifest"]["binlog"]);
    let place = |binlog: &Value| (binlog["file"].as_str().expect("a file").to_owned(), binlog["position"].as_u64());
    assert!(place(&by_backup) < place(&by_archive), "{by_backup} {by_archive}");
    let gtid = by_backup["gtid"].as_str().expect("a text");
    assert!(!gtid.is_empty(), "{by_backup}");
    let set = format!("SET GLOBAL gtid_slave_pos = '{gtid}';");
    let follow = |set: &str, from: &str| {
        let primary = "MASTER_HOST='127.0.0.1', MASTER_USER='copy', MASTER_PASSWORD='copy'";
        format!("{set} CHANGE MASTER TO {primary}, MASTER_PORT={port}, {from}; START SLAVE;")
    };
    let one = Replica::start(&server, ("one", 8), &follow(&set, "MASTER_USE_GTID=slave_pos"));
    let (file, position) = place(&by_archive);
    let position = position.expect("a position");
    let from = format!("MASTER_LOG_FILE='{file}', MASTER_LOG_POS={position}, MASTER_USE_GTID=no");
    let two = Replica::start(&server, ("two", 9), &follow("", &from));
    // What the restore says to ask if it does not know the GTID.
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
