//! Rows in another partition than they belong in, as an exchange without validation leaves them: the server finds them with CHECK TABLE, and
//! misses them in queries.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use serde_json::Value;

use crate::common::check_json;
use crate::rows_lab::{Server, table};

/// Tables of numbers, each partitioned in its own way.
const NUMBERS: [(&str, &str); 6] = [
    (
        "r",
        "RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200), PARTITION p2 VALUES LESS THAN MAXVALUE)",
    ),
    ("rc", "RANGE COLUMNS (id) (PARTITION p0 VALUES LESS THAN (-3), PARTITION p1 VALUES LESS THAN (MAXVALUE))"),
    ("l", "LIST (id) (PARTITION p0 VALUES IN (-9, 0, NULL, 7), PARTITION `p 1` VALUES IN (1, 2, 150, 9000))"),
    ("h", "HASH (id) PARTITIONS 3"),
    ("lh", "LINEAR HASH (id) PARTITIONS 5"),
    (
        "s",
        "RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    ),
];
/// Tables of dates.
const DATES: [(&str, &str); 4] = [
    (
        "d_days",
        "RANGE (TO_DAYS(id)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2020-03-01')), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    ),
    ("d_year", "RANGE (YEAR(id)) (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN (2100))"),
    (
        "d_columns",
        "RANGE COLUMNS (id) (PARTITION p0 VALUES LESS THAN ('2020-03-01'), PARTITION p1 VALUES LESS THAN (MAXVALUE))",
    ),
    ("d_hash", "HASH (YEAR(id)) PARTITIONS 4"),
];
const OF_NUMBERS: &str = "(NULL), (-9), (0), (1), (2), (7), (150), (9000)";
const OF_DATES: &str = "(NULL), ('1999-12-31'), ('2020-02-29'), ('2020-03-01'), ('2031-07-04')";

/// The names of the tables that have misplaced rows, as often as they have, and the exit status.
fn misplaced(server: &Server) -> (Vec<String>, i32, Value) {
    let run = table(&["check", "--json"], &[&server.datadir()]);
    let document: Value = serde_json::from_str(&run.text).expect("JSON");
    let findings = document["findings"].as_array().expect("findings");
    let of = |finding: &Value| finding["table"].as_str().unwrap_or_default().split(' ').next().map(str::to_owned);
    let mut found: Vec<String> = findings.iter().filter(|one| one["rule"] == "misplaced_row").filter_map(of).collect();
    assert_eq!(found.len(), findings.len(), "{document:#}");
    found.sort();
    found.dedup();
    (found, run.status, document)
}

fn rows_in_the_wrong_partition_are_named_and_put_in_place(kind: &'static str) {
    let server = Server::empty(kind);
    let datetimes = DATES.iter().map(|(name, by)| (format!("t{name}"), "DATETIME(3)", *by, OF_DATES));
    let dates = DATES.iter().map(|(name, by)| ((*name).to_owned(), "DATE", *by, OF_DATES));
    let numbers = NUMBERS.iter().map(|(name, by)| ((*name).to_owned(), "INT", *by, OF_NUMBERS));
    let all: Vec<_> = numbers.chain(dates).chain(datetimes).collect();
    let mut sql = String::from("CREATE DATABASE d; USE d;");
    for (name, column, by, rows) in &all {
        sql.push_str(&format!(
            "CREATE TABLE {name} (id {column}, KEY (id)) PARTITION BY {by}; INSERT INTO {name} VALUES {rows};"
        ));
    }
    server.sql(&sql);
    server.stop();
    assert_eq!(misplaced(&server).0, Vec::<String>::new(), "{kind}");
    server.script("start", &[], "");
    let mut swap = String::from("USE d;");
    let swapped: Vec<_> = all.iter().filter(|(name, ..)| name != "s").collect();
    for (name, ..) in &swapped {
        let rows = format!(
            "CREATE TABLE x LIKE {name}; ALTER TABLE x REMOVE PARTITIONING; INSERT INTO x SELECT * FROM {name};"
        );
        swap.push_str(&format!(
            "{rows} ALTER TABLE {name} EXCHANGE PARTITION p0 WITH TABLE x WITHOUT VALIDATION; DROP TABLE x;"
        ));
    }
    server.sql(&swap);
    let rows: Vec<String> = swapped.iter().map(|(name, ..)| format!("SELECT COUNT(*) FROM d.{name};")).collect();
    let before = server.sql(&rows.concat());
    for (name, ..) in &swapped {
        let said = server.sql(&format!("CHECK TABLE d.{name}"));
        assert!(said.contains("misplaced row"), "{kind}: {name}: {said}");
    }
    server.stop();
    let (found, status, document) = misplaced(&server);
    let mut expected: Vec<String> = swapped.iter().map(|(name, ..)| format!("d.{name}")).collect();
    expected.sort();
    assert_eq!((found, status), (expected, 1), "{kind}");
    server.script("start", &[], "");
    for hurt in document["hurt"].as_array().expect("rows") {
        assert_eq!(hurt["action"], "rewrite_table", "{hurt:#}");
        for command in hurt["commands"].as_array().expect("commands") {
            server.sql(command.as_str().expect("text"));
        }
    }
    assert_eq!(server.sql(&rows.concat()), before, "{kind}");
    server.stop();
    let (found, status, _) = misplaced(&server);
    assert_eq!((found, status), (Vec::new(), 0), "{kind}");
    let (document, status) = check_json(&server.datadir(), &[]);
    assert_eq!(status, 0, "{kind}: {document:#}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_in_the_wrong_partition_of_mysql_are_named_and_put_in_place() {
    rows_in_the_wrong_partition_are_named_and_put_in_place("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_in_the_wrong_partition_of_mariadb_are_named_and_put_in_place() {
    rows_in_the_wrong_partition_are_named_and_put_in_place("mariadb118");
}
