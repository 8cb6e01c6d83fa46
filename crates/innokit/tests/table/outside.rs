//! Tables outside of the datadir (`DATA DIRECTORY`): what reads tables finds them by the datadir, whole, with their definitions.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use std::os::unix::fs::PermissionsExt;

use crate::rows_lab::{Server, table};

/// EXT is the folder outside. The first partition of `p`, which has the definition of all, is outside; of `q` only the last one is.
const STATEMENTS: &str = "CREATE DATABASE rnd; USE rnd;
    CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), KEY (b)) DATA DIRECTORY 'EXT';
    INSERT INTO t VALUES (1, 'one'), (2, 'two');
    CREATE TABLE p (a INT, b INT) PARTITION BY RANGE (a)
      (PARTITION p0 VALUES LESS THAN (5) DATA DIRECTORY 'EXT', PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20));
    INSERT INTO p VALUES (1, 11), (7, 77), (12, 122);
    CREATE TABLE q (a INT, b INT) PARTITION BY RANGE (a)
      (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (10) DATA DIRECTORY 'EXT');
    INSERT INTO q VALUES (1, 11), (2, 22), (7, 77);
    CREATE TABLE inside (a INT PRIMARY KEY); INSERT INTO inside VALUES (5);";

fn tables_outside_are_read_whole(kind: &'static str) {
    let server = Server::empty(kind);
    let outside = server.dir.path().join("elsewhere");
    std::fs::create_dir(&outside).expect("made");
    std::fs::set_permissions(&outside, PermissionsExt::from_mode(0o777)).expect("open to the server");
    if kind == "mysql" {
        server.stop();
        server.script("start", &[&format!("--innodb-directories={}", outside.display())], "");
        // A general tablespace that holds nothing is no table without a definition.
        server.sql("CREATE TABLESPACE emptied ADD DATAFILE 'emptied.ibd';");
    }
    server.sql(&STATEMENTS.replace("EXT", outside.to_str().expect("UTF-8")));
    let names = ["inside", "p", "q", "t"].map(str::to_owned);
    let sums = server.checksums("rnd", &names);
    server.stop();
    let sums = server.dir.file("sums", sums.as_bytes());
    let datadir = server.datadir();
    let run = table(&["checksum", "--compare", sums.to_str().expect("UTF-8")], &[&datadir]);
    assert_eq!(run.status, 0, "{kind}: {}{}", run.text, run.errors);
    assert!(run.errors.starts_with("4 tables, 9 rows"), "{kind}: {}", run.errors);
    let run = table(&["export", "--format", "csv"], &[&datadir]);
    let rows = "5\n1,11\n7,77\n12,122\n1,11\n2,22\n7,77\n1,\"one\"\n2,\"two\"\n";
    assert_eq!((run.status, run.text.as_str()), (0, rows), "{kind}: {}", run.errors);
    let run = table(&["schema"], &[&datadir]);
    assert_eq!(run.status, 0, "{kind}: {}", run.errors);
    for name in &names {
        assert_eq!(run.text.matches(&format!("CREATE TABLE `{name}` (")).count(), 1, "{kind}: {}", run.text);
    }
    let run = table(&["check", "--extended", "--verbose"], &[&datadir]);
    assert_eq!(run.status, 0, "{kind}: {}{}", run.text, run.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_of_mysql_outside_of_its_datadir_are_read_whole() {
    tables_outside_are_read_whole("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_of_mariadb_outside_of_its_datadir_are_read_whole() {
    tables_outside_are_read_whole("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_of_mariadb_10_5_outside_of_its_datadir_are_read_whole() {
    tables_outside_are_read_whole("mariadb105");
}
