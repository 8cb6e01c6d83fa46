//! `mysql.ibd` of yesterday: the server takes AUTO_INCREMENT values from it that the table has already.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::fs;
use std::process::Stdio;

use crate::common::{check_json, innokit, reasons};
use crate::rows_lab::{Server, table};

/// What `check` and `table check` say of the dictionary, and their exit statuses.
fn verdicts(server: &Server) -> ([Vec<String>; 2], [i32; 2], String) {
    let (document, status) = check_json(&server.datadir(), &[]);
    let run = table(&["check", "--progress", "never"], &[&server.datadir()]);
    let of_tables = run.text.lines().filter(|line| line.contains("[stale_file]")).map(|_| "stale_file".to_owned());
    let found = reasons(&document).iter().map(|reason| (*reason).to_owned()).collect();
    ([found, of_tables.collect()], [status, run.status], format!("{document:#}{}", run.text))
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn counters_of_yesterday_are_noticed_and_those_of_today_are_not() {
    let server = Server::empty("mysql");
    server.sql("CREATE DATABASE d; USE d; CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT); INSERT INTO t (a) VALUES (1);");
    server.stop();
    let yesterday = fs::read(server.datadir().join("mysql.ibd")).expect("read");
    server.script("start", &[], "");
    // What leaves the counter where it is, or moves it in other ways than INSERT, is no other moment.
    let changes = [
        "INSERT INTO t (a) VALUES (2), (3); UPDATE t SET id = 70 WHERE id = 2; DELETE FROM t WHERE id = 70",
        "ALTER TABLE t AUTO_INCREMENT = 1; CREATE TABLE n (id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO n VALUES (-5)",
        "CREATE TABLE p (id INT AUTO_INCREMENT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9), \
         PARTITION m VALUES LESS THAN MAXVALUE); INSERT INTO p VALUES (1), (500); CREATE TABLE x LIKE p; \
         ALTER TABLE x REMOVE PARTITIONING; ALTER TABLE p EXCHANGE PARTITION m WITH TABLE x WITHOUT VALIDATION",
        "CREATE TABLE u (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY); INSERT INTO u VALUES (18446744073709551615)",
        "START TRANSACTION; INSERT INTO t VALUES (900, 1); ROLLBACK; INSERT INTO t (a) VALUES (4)",
    ];
    for change in changes {
        server.sql(&format!("USE d; {change};"));
        server.stop();
        let (found, statuses, text) = verdicts(&server);
        assert_eq!((found, statuses), ([vec![], vec![]], [0, 0]), "{change}: {text}");
        server.script("start", &[], "");
    }
    // Recovery leaves the counters in the log, from which the server takes them.
    server.sql("USE d; INSERT INTO t (a) VALUES (5), (6), (7), (8);");
    server.script("kill9", &[], "");
    let recovered = innokit().args(["recover", "--in-place"]).arg(server.datadir()).output().expect("innokit runs");
    assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
    let (found, _, text) = verdicts(&server);
    assert!(found.iter().flatten().all(|reason| reason != "stale_file"), "{text}");
    server.script("start", &[], "");
    server.sql("INSERT INTO d.t (a) VALUES (9);");
    server.stop();
    fs::write(server.datadir().join("mysql.ibd"), yesterday).expect("written");
    let (found, statuses, text) = verdicts(&server);
    assert!(found.iter().all(|found| found.contains(&"stale_file".to_owned())), "{text}");
    assert_eq!(statuses, [1, 1], "{text}");
    assert!(text.contains("the last AUTO_INCREMENT value of d.t is 1, but the table has "), "{text}");
    server.script("start", &[], "");
    let repeated = "INSERT INTO d.t (a) VALUES (5); INSERT INTO d.t (a) VALUES (6);";
    let mut insert = server.command("sql", &["-e", repeated]);
    let insert = insert.stdout(Stdio::null()).output().expect("bash runs");
    let errors = String::from_utf8_lossy(&insert.stderr).into_owned();
    assert!(errors.contains("1062"), "the server minds: {errors}");
    server.stop();
}
