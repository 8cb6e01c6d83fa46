//! Every type at its smallest and largest declared length, in every row format: first, in the middle and last, NULL, indexed, part of the
//! primary key, added instantly. Our rows are what the server shows, our checksums are the server's, and every rule of `table check` holds.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use super::rows_random::all_is_as_shown;
use crate::rows_lab::{Server, table};

/// Types with their smallest and largest value.
const TYPES: &[(&str, &str, &str)] = &[
    ("TINYINT", "-128", "127"),
    ("BIGINT UNSIGNED", "0", "18446744073709551615"),
    ("FLOAT", "0", "-3.4e38"),
    ("DOUBLE", "0", "1.7e308"),
    ("DECIMAL(1,0)", "0", "-9"),
    ("DECIMAL(65,30)", "0", "REPEAT('9', 35)"),
    ("DECIMAL(38,30)", "-0.000001", "99999999.5"),
    ("YEAR", "1901", "2155"),
    ("DATE", "'1000-01-01'", "'9999-12-31'"),
    ("TIME", "'-838:59:59'", "'838:59:59'"),
    ("TIME(6)", "'-838:59:58.999999'", "'838:59:58.999999'"),
    ("DATETIME", "'1000-01-01'", "'9999-12-31 23:59:59'"),
    ("DATETIME(6)", "'1000-01-01'", "'9999-12-31 23:59:59.999999'"),
    ("TIMESTAMP(6)", "'1970-01-02 00:00:00.000001'", "'2037-12-31 23:59:59.999999'"),
    ("BIT(1)", "0", "1"),
    ("BIT(64)", "0", "18446744073709551615"),
    ("ENUM('')", "''", "''"),
    ("ENUM(MANY)", "'m1'", "'m300'"),
    ("SET('a')", "''", "'a'"),
    ("SET(SIXTY)", "''", "'m1,m60'"),
    ("CHAR(0) CHARACTER SET latin1", "''", "''"),
    ("CHAR(1) CHARACTER SET latin1", "''", "'x'"),
    ("CHAR(255) CHARACTER SET latin1", "''", "REPEAT('x', 255)"),
    ("CHAR(0) CHARACTER SET utf8mb4", "''", "''"),
    ("CHAR(1) CHARACTER SET utf8mb4", "''", "'\u{1F600}'"),
    ("CHAR(255) CHARACTER SET utf8mb4", "''", "REPEAT('\u{1F600}', 255)"),
    ("CHAR(0) CHARACTER SET ucs2", "''", "''"),
    ("CHAR(255) CHARACTER SET ucs2", "''", "REPEAT('x', 255)"),
    ("CHAR(0) CHARACTER SET utf32", "''", "''"),
    ("CHAR(192) CHARACTER SET utf32", "''", "REPEAT('x', 192)"),
    ("CHAR(193) CHARACTER SET utf32", "''", "REPEAT('x', 193)"),
    ("CHAR(255) CHARACTER SET utf32", "''", "REPEAT('x', 255)"),
    ("BINARY(0)", "''", "''"),
    ("BINARY(1)", "''", "'x'"),
    ("BINARY(255)", "''", "REPEAT('x', 255)"),
    ("VARCHAR(0) CHARACTER SET latin1", "''", "''"),
    ("VARCHAR(1) CHARACTER SET utf8mb4", "''", "'x'"),
    ("VARCHAR(63) CHARACTER SET utf8mb4", "''", "REPEAT('\u{1F600}', 63)"),
    ("VARCHAR(64) CHARACTER SET utf8mb4", "''", "REPEAT('\u{1F600}', 64)"),
    ("VARCHAR(255) CHARACTER SET latin1", "''", "REPEAT('x', 255)"),
    ("VARCHAR(256) CHARACTER SET latin1", "''", "REPEAT('x', 256)"),
    ("VARCHAR(13000) CHARACTER SET latin1", "''", "REPEAT('x', 13000)"),
    ("VARBINARY(0)", "''", "''"),
    ("VARBINARY(255)", "''", "REPEAT('x', 255)"),
    ("VARBINARY(256)", "''", "REPEAT('x', 256)"),
    ("TINYTEXT", "''", "REPEAT('x', 255)"),
    ("TINYBLOB", "''", "REPEAT('x', 255)"),
    ("TEXT", "''", "REPEAT('x', 65535)"),
    ("BLOB", "''", "REPEAT('x', 65535)"),
    ("MEDIUMTEXT", "''", "REPEAT('x', 70000)"),
    ("LONGBLOB", "''", "REPEAT('x', 70000)"),
];

const FORMATS: [&str; 4] = ["REDUNDANT", "DYNAMIC", "COMPACT", "COMPRESSED"];

/// The statements that make the tables. Some of them fail: no key can be of length 0, and no row may have five of the longest columns.
fn statements() -> String {
    let members = |count: u32| (1..=count).map(|number| format!("'m{number}'")).collect::<Vec<_>>().join(",");
    let mut out =
        "SET sql_mode = ''; SET time_zone = '+00:00'; SET foreign_key_checks = 0; CREATE DATABASE rnd; USE rnd;\n"
            .to_owned();
    for (number, (name, low, high)) in TYPES.iter().enumerate() {
        let name = name.replace("MANY", &members(300)).replace("SIXTY", &members(60));
        // Without it, a TIMESTAMP becomes NOT NULL.
        let null = format!("{name} NULL DEFAULT NULL");
        // Only values whose length varies are stored differently by the last two.
        let may_vary = ["CHAR", "BINARY", "TEXT", "BLOB"].iter().any(|kind| name.contains(kind));
        for format in FORMATS.iter().take(if may_vary { 4 } else { 2 }) {
            let (plain, keyed) = (format!("t{number}_{format}"), format!("k{number}_{format}"));
            out.push_str(&format!(
                "CREATE TABLE {plain} (id INT PRIMARY KEY, a {null}, m INT, b {null}) ROW_FORMAT={format};\n\
                 INSERT INTO {plain} VALUES (1, {low}, 11, {high}), (2, {high}, 22, {low}), (3, NULL, 33, NULL), (4, {low}, 44, NULL);\n\
                 ALTER TABLE {plain} ADD COLUMN c {null}, ADD COLUMN z INT DEFAULT 7;\n\
                 INSERT INTO {plain} VALUES (5, {high}, 55, NULL, {low}, 5), (6, NULL, 66, {low}, {high}, 6), (7, {high}, 77, {high}, NULL, 7);\n\
                 ALTER TABLE {plain} ADD COLUMN e {null} FIRST;\n\
                 INSERT INTO {plain} VALUES ({low}, 8, {low}, 88, {low}, {low}, 8), ({high}, 9, NULL, 99, NULL, NULL, 9);\n\
                 CREATE TABLE {keyed} (a {name} NOT NULL, id INT NOT NULL, b {null}, PRIMARY KEY (a, id), KEY (b, id), KEY (b)) \
                 ROW_FORMAT={format};\n\
                 INSERT INTO {keyed} VALUES ({low}, 1, {high}), ({high}, 2, {low}), ({high}, 3, NULL), ({low}, 4, {low});\n"
            ));
        }
    }
    out
}

/// Our CREATE TABLE and our INSERTs make the same tables again.
fn definitions_and_rows_come_back(server: &Server) {
    let files = server.datadir().join("rnd");
    let run = table(&["schema"], &[&files]);
    assert_eq!(run.status, 0, "{}: {}", server.kind, run.errors);
    let out = server.dir.path().join("statements");
    let inserts = table(&["export", "--format", "sql", "-o", &format!("{}/", out.display())], &[&files]);
    assert_eq!(inserts.status, 0, "{}: {}", server.kind, inserts.errors);
    server.script("start", &[], "");
    let names = server.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'rnd' ORDER BY 1");
    let names: Vec<String> = names.lines().map(str::to_owned).collect();
    // Rows as long as possible fit only with the definition in the order in which columns were added.
    let mut back = "SET sql_mode = '', innodb_strict_mode = 0;\n".to_owned() + &run.text.replace("`rnd`", "`back`");
    for name in &names {
        back += &std::fs::read_to_string(out.join(format!("rnd.{name}.sql"))).expect("written");
    }
    server.sql(&back);
    let sums = |schema: &str| server.checksums(schema, &names).replace(&format!("{schema}."), "");
    assert_eq!(sums("rnd"), sums("back"), "{}", server.kind);
}

fn every_length_is_what_the_server_shows(kind: &'static str) {
    let server = Server::empty(kind);
    server.attempt(&statements());
    let (tables, values) = all_is_as_shown(&server, kind);
    assert!(tables > TYPES.len() * 5 && values > 10_000, "{kind}: {values} values of {tables} tables");
    definitions_and_rows_come_back(&server);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_length_of_mysql_is_what_it_shows() {
    every_length_is_what_the_server_shows("mysql");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_length_of_mysql_8_0_15_is_what_it_shows() {
    every_length_is_what_the_server_shows("mysql80");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_length_of_mysql_5_6_is_what_it_shows() {
    if Server::is_here("mysql56") {
        every_length_is_what_the_server_shows("mysql56");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_length_of_mariadb_10_11_is_what_it_shows() {
    every_length_is_what_the_server_shows("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_length_of_mariadb_10_5_is_what_it_shows() {
    every_length_is_what_the_server_shows("mariadb105");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_length_of_mariadb_11_8_is_what_it_shows() {
    every_length_is_what_the_server_shows("mariadb118");
}
