//! MySQL 5.6, whose redo log this build does not recover: what its own server would mend is no damage, and what is damaged is.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use crate::common::check_json;
use crate::rows_lab::{Server, table};

const LOAD: &str = "CREATE DATABASE shop; USE shop; \
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(200), KEY (a)) ENGINE=InnoDB; \
    CREATE TABLE p (id INT PRIMARY KEY) ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 3; \
    INSERT INTO t (a, b) VALUES (1, REPEAT('x', 100)); \
    INSERT INTO t (a, b) SELECT a + 1, b FROM t; INSERT INTO t (a, b) SELECT a + 2, b FROM t; INSERT INTO t (a, b) SELECT a + 4, b FROM t; \
    INSERT INTO t (a, b) SELECT a + 8, b FROM t; INSERT INTO t (a, b) SELECT a + 16, b FROM t; INSERT INTO t (a, b) SELECT a + 32, b FROM t; \
    INSERT INTO p SELECT id FROM t;";

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_killed_mysql_5_6_waits_for_its_server_and_a_stopped_one_does_not() {
    if !Server::is_here("mysql56") {
        return;
    }
    let server = Server::empty("mysql56");
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    server.sql(LOAD);
    server.script("kill9", &[], "");
    let (document, status) = check_json(&server.datadir(), &[]);
    let findings = document["findings"].as_array().expect("findings");
    assert!(findings.iter().all(|finding| finding["severity"] != "damage"), "{findings:#?}");
    assert_eq!(status, 2);
    let pending = document["pending"][0]["why"].as_str().expect("pending work");
    assert!(pending.contains("which only its own server can"), "{pending}");
    let run = table(&["check"], &[&server.datadir()]);
    assert_ne!(run.status, 1, "{}", run.text);
    assert!(!run.text.contains("innokit recover"), "it would refuse: {}", run.text);

    server.script("start", &[], "");
    assert_eq!(server.sql("SELECT COUNT(*) FROM shop.t").trim(), "64");
    let sums = server.checksums("shop", &["p".to_owned(), "t".to_owned()]);
    server.stop();
    let (document, _) = check_json(&server.datadir(), &[]);
    assert_eq!(document["pending"].as_array().map(Vec::len), Some(0), "{:#}", document["pending"]);
    let reasons: Vec<_> = document["findings"].as_array().expect("findings").iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons.len(), 1, "only the log, which is not read: {reasons:?}");
    let ours = table(&["checksum"], &[&server.datadir().join("shop")]);
    assert_eq!(ours.text, sums, "{}", ours.errors);

    // A byte of the root of its rows.
    let file = server.datadir().join("shop/t.ibd");
    let mut bytes = std::fs::read(&file).expect("a file");
    bytes[3 * 16384 + 2000] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let (document, status) = check_json(&server.datadir(), &[]);
    assert_eq!(status, 1, "{:#}", document["findings"]);
}
