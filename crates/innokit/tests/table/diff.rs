//! `innokit diff` of two datadirs: the statements that it writes turn one into the other, and back, as their server sees it.

use std::path::{Path, PathBuf};

use crate::common::{Run, all_datadirs, copy, innokit, is_soak, keys_of};
use crate::random_tables::{history, seeds};
use crate::rows_lab::Server;

fn diff(options: &[&str], paths: &[&Path]) -> Run {
    Run::of(&innokit().arg("diff").args(options).args(paths).output().expect("innokit runs"))
}

/// The names and checksums of all tables in `rnd`.
fn sums(server: &Server) -> Vec<String> {
    let names = server.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'rnd' ORDER BY 1");
    let names: Vec<String> = names.lines().map(str::to_owned).collect();
    server.checksums("rnd", &names).lines().map(str::to_owned).collect()
}

/// A copy of the datadir of a server that is stopped for it.
fn stopped_copy(server: &Server, name: &str) -> PathBuf {
    let to = server.dir.path().join(name);
    server.stop();
    copy(&server.datadir(), &to);
    server.script("start", &[], "");
    to
}

/// What differs once statements about these tables had no part in it: tables without a key.
fn without(sums: &[String], refused: &[String]) -> Vec<String> {
    let is_kept = |line: &&String| !refused.iter().any(|name| line.starts_with(&format!("{name}\t")));
    sums.iter().filter(is_kept).cloned().collect()
}

/// The tables that a run named as not compared, or with values that SQL does not say exactly.
fn left_out(run: &Run) -> Vec<String> {
    let is_refusal =
        |line: &&str| line.contains("it has no primary key") || line.contains("JSON values are written as text");
    let lines = run.errors.lines().filter(is_refusal);
    lines.filter_map(|line| line.split_once(": ")).map(|(name, _)| name.to_owned()).collect()
}

fn statements_turn_one_datadir_into_the_other(kind: &'static str) {
    let default = if is_soak() { 1..20 } else { 1..2 };
    let server = Server::empty(kind);
    for seed in seeds("INNOKIT_RANDOM_TABLES", default) {
        server.sql("DROP DATABASE IF EXISTS rnd");
        let [before, after] = history(kind, seed);
        server.attempt(&before);
        let (sums_a, a) = (sums(&server), stopped_copy(&server, &format!("a{seed}")));
        server.attempt(&after);
        let (sums_b, b) = (sums(&server), stopped_copy(&server, &format!("b{seed}")));
        let what = format!("{kind}, seed {seed}");
        let forth = diff(&["--format", "sql"], &[&a, &b]);
        let back = diff(&["--format", "sql", "--reverse"], &[&a, &b]);
        let expected = if forth.errors.contains("it has no primary key") { 2 } else { 1 };
        let left_out = [left_out(&forth), left_out(&back)].concat();
        assert_eq!((forth.status, back.status), (expected, expected), "{what}: {}", forth.errors);
        server.script("sql", &[], &back.text);
        assert_eq!(without(&sums(&server), &left_out), without(&sums_a, &left_out), "{what}: back");
        server.script("sql", &[], &forth.text);
        assert_eq!(without(&sums(&server), &left_out), without(&sums_b, &left_out), "{what}: forth");
        for path in [a, b] {
            let same = diff(&[], &[&path, &path]);
            assert!(same.status == if expected == 1 { 0 } else { 2 }, "{what}: {}{}", same.text, same.errors);
            std::fs::remove_dir_all(path).expect("removed");
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn statements_turn_one_datadir_of_mysql_into_the_other() {
    statements_turn_one_datadir_into_the_other("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn statements_turn_one_datadir_of_mariadb_10_11_into_the_other() {
    statements_turn_one_datadir_into_the_other("mariadb");
}

/// Statements before and after A, each with what must be said of it.
const BEFORE: &str = "CREATE DATABASE shop; USE shop; SET NAMES utf8mb4;
    CREATE TABLE swapped (id INT PRIMARY KEY, u INT, UNIQUE (u)); INSERT INTO swapped VALUES (1, 1), (2, 2);
    CREATE TABLE empty_or_null (id INT PRIMARY KEY, c VARCHAR(9)); INSERT INTO empty_or_null VALUES (1, ''), (2, NULL), (3, '');
    CREATE TABLE words (w VARCHAR(40) PRIMARY KEY, n INT) DEFAULT CHARSET=utf8mb4;
    INSERT INTO words VALUES ('zebra', 1), ('Äpfel', 2), ('apple', 3), ('Öl', 4), ('oil', 5), ('straße', 6);
    CREATE TABLE cut_down (id INT PRIMARY KEY, v INT); INSERT INTO cut_down VALUES (1, 1), (2, 2);
    CREATE TABLE made_again (id INT PRIMARY KEY); INSERT INTO made_again VALUES (1);
    CREATE TABLE reordered (id INT PRIMARY KEY, e ENUM('a', 'b')); INSERT INTO reordered VALUES (1, 'a');
    CREATE TABLE other_key (a INT, b INT, PRIMARY KEY (a)); INSERT INTO other_key VALUES (1, 2);
    CREATE TABLE gone (id INT PRIMARY KEY); CREATE TABLE moved_away (id INT PRIMARY KEY);
    CREATE TABLE wider (id INT PRIMARY KEY, a INT); INSERT INTO wider VALUES (1, 1), (2, 2);";
const AFTER: &str = "USE shop; SET NAMES utf8mb4;
    UPDATE swapped SET u = 3 WHERE id = 1; UPDATE swapped SET u = 1 WHERE id = 2; UPDATE swapped SET u = 2 WHERE id = 1;
    UPDATE empty_or_null SET c = NULL WHERE id = 1; UPDATE empty_or_null SET c = '' WHERE id = 2;
    UPDATE words SET w = 'Apple' WHERE w = 'apple'; DELETE FROM words WHERE w = 'Öl'; INSERT INTO words VALUES ('ärmel', 10);
    TRUNCATE TABLE cut_down; INSERT INTO cut_down VALUES (2, 2), (3, 3);
    DROP TABLE made_again; CREATE TABLE made_again (id INT PRIMARY KEY); INSERT INTO made_again VALUES (2);
    ALTER TABLE reordered MODIFY e ENUM('b', 'a'); ALTER TABLE other_key DROP PRIMARY KEY, ADD PRIMARY KEY (a, b);
    DROP TABLE gone; RENAME TABLE moved_away TO moved;
    CREATE TABLE searched (id INT PRIMARY KEY, c VARCHAR(20), FULLTEXT (c)); INSERT INTO searched VALUES (1, 'once upon');
    ALTER TABLE wider ADD COLUMN b INT DEFAULT 7; UPDATE wider SET a = 9 WHERE id = 2;";
const SAID: [&str; 21] = [
    "- table shop.gone",
    "- table shop.moved_away",
    "+ table shop.moved",
    "+ table shop.searched",
    "~ id=1: u 1 -> 2",
    "~ id=2: u 2 -> 1",
    "~ id=1: c '' -> NULL",
    "~ id=2: c NULL -> ''",
    "~ w='apple': w 'apple' -> 'Apple'",
    "- w='Öl', n=4",
    "+ w='ärmel', n=10",
    "- id=1, v=1",
    "+ id=3, v=3",
    "- id=1",
    "+ id=2",
    "    - `e` enum('a','b') DEFAULT NULL",
    "    + `e` enum('b','a') DEFAULT NULL",
    "shop.reordered: not compared: column e: of another type",
    "shop.other_key: its rows are not compared: the primary keys differ",
    "~ id=2: a 2 -> 9",
    "shop.wider: not compared: column b: not in A",
];

fn differences_are_told_by_name(kind: &'static str) {
    let server = Server::empty(kind);
    server.sql(BEFORE);
    let a = stopped_copy(&server, "a");
    server.sql(AFTER);
    let b = stopped_copy(&server, "b");
    let run = diff(&[], &[&a, &b]);
    assert_eq!(run.status, 2, "{kind}: the keys of one table differ: {}", run.errors);
    for line in SAID {
        // A key of this collation is compared by its bytes.
        let is_split = line.contains("apple") && run.text.contains("- w='apple', n=3\n");
        assert!(is_split || run.text.lines().any(|said| said == line), "{kind}: {line}\n{}", run.text);
    }
    assert!(!run.text.to_lowercase().contains("fts_"), "{kind}: {}", run.text);
    // What only one has, and what differs in rows alone, is made and taken away by statements.
    let to = server.dir.path().join("back.sql");
    let back = diff(&["--reverse", "--format", "sql", "-o", to.to_str().expect("a name")], &[&a, &b]);
    assert_eq!(back.status, 2, "{kind}: {}", back.errors);
    server.sql(&std::fs::read_to_string(&to).expect("written"));
    let again = diff(&["--summary"], &[&a, &stopped_copy(&server, "c")]);
    let left: Vec<&str> = again.text.lines().filter(|line| line.starts_with("shop.")).collect();
    let is_altered = |line: &&str| ["other_key", "reordered", "wider"].iter().any(|name| line.contains(name));
    assert!(left.iter().all(is_altered), "{kind}: {left:?}");
    // A table whose file cannot be read is not one that the side does not have.
    let swapped = b.join("shop/swapped.ibd");
    std::fs::write(&swapped, vec![7; 1 << 16]).expect("written");
    let lost = diff(&["--format", "sql"], &[&a, &b]);
    assert!(lost.status == 2 && !lost.text.contains("DROP TABLE"), "{kind}: {}{}", lost.text, lost.errors);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn differences_of_mysql_are_told_by_name() {
    differences_are_told_by_name("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn differences_of_mariadb_10_11_are_told_by_name() {
    differences_are_told_by_name("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_on_other_pages_are_the_same_rows() {
    for (a, b) in [
        ("mysql-4k", "mysql-64k"),
        ("mariadb-4k", "mariadb-64k"),
        ("mysql-16k", "mysql-16k-tde"),
        ("mariadb-8k", "mariadb-16k-enc"),
    ] {
        let keys: Vec<String> = keys_of(b);
        let options: Vec<&str> = ["--summary"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        let run = diff(&options, &[&all_datadirs().join(a), &all_datadirs().join(b)]);
        assert_eq!(run.status, 1, "{a}, {b}: {}{}", run.text, run.errors);
        // Tables that only some sizes and settings can have, and definitions that name the encryption.
        let is_expected = |line: &&str| {
            [
                "the table is only in ",
                "the definitions differ",
                "computed when it is read",
                ": 0 added, 0 removed, 0 changed",
                " pages read, ",
            ]
            .iter()
            .any(|it| line.contains(it))
        };
        let other: Vec<&str> = run.text.lines().filter(|line| !is_expected(line)).collect();
        assert!(other.is_empty(), "{a}, {b}: {other:?}");
    }
}
