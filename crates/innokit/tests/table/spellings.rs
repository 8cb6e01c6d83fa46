//! Names that a file system may not accept, and files that no table uses, in a datadir whose dictionary keeps the names of files.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use serde_json::Value;

use crate::common::{Run, check, check_json, innokit, reasons};
use crate::rows_lab::{Server, table};

const STATEMENTS: &str = "CREATE DATABASE `my-wp`; USE `my-wp`;
    CREATE TABLE `order-items` (id INT PRIMARY KEY, `b c` VARCHAR(10));
    INSERT INTO `order-items` VALUES (1, 'x'), (2, 'y');
    CREATE TABLE `訂單 1` (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2;
    INSERT INTO `訂單 1` VALUES (1), (2), (3);
    CREATE TABLE `café` (id INT PRIMARY KEY); INSERT INTO `café` VALUES (1);
    CREATE TABLE `p-s` (id INT) PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION `a-1` VALUES LESS THAN (9));
    INSERT INTO `p-s` VALUES (1), (2);";
const NAMES: [&str; 4] = ["café", "order-items", "p-s", "訂單 1"];

/// The names in every report, and what a user may type.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn names_are_spelt_as_the_server_shows_them() {
    let server = Server::empty("mariadb");
    server.sql(STATEMENTS);
    let names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let sums = server.checksums("my-wp", &names);
    server.stop();
    let (data, sums) = (server.datadir(), server.dir.file("sums", sums.as_bytes()));
    let run = table(&["checksum", "--compare", sums.to_str().expect("UTF-8")], &[&data]);
    assert_eq!(run.status, 0, "{}{}", run.text, run.errors);
    let listed = check(&data, &["--tables"]);
    let names_in =
        |line: &str| line.strip_prefix("all well   ").filter(|name| name.starts_with("my-")).map(str::to_owned);
    let mut known: Vec<String> = listed.text.lines().filter_map(names_in).collect();
    known.sort();
    let expected = [
        "my-wp.café",
        "my-wp.order-items",
        "my-wp.p-s partition a-1#a-1sp0",
        "my-wp.p-s partition a-1#a-1sp1",
        "my-wp.訂單 1 partition p0",
        "my-wp.訂單 1 partition p1",
    ];
    assert_eq!(known, expected, "{}", listed.text);
    for arguments in [&["checksum"][..], &["schema", "--json"], &["count"]] {
        let run = table(arguments, &[&data.join("my@002dwp")]);
        let encoded =
            ["order@002ditems ", "order@002ditems\"", "order@002ditems\t", "p@002ds\t", "caf@0p\"", "caf@0p\t"];
        let is_spelt = ["order-items", "café", "訂單 1"].iter().all(|name| run.text.contains(name));
        assert!(is_spelt, "{arguments:?}: {}{}", run.text, run.errors);
        assert!(!encoded.iter().any(|name| run.text.contains(name)), "{arguments:?}: {}", run.text);
    }
    // The statements load.
    let run = table(&["export", "--format", "sql"], &[&data.join("my@002dwp")]);
    assert_eq!(run.status, 0, "{}", run.errors);
    server.script("start", &[], "");
    let empty: String = NAMES.iter().map(|name| format!("TRUNCATE `my-wp`.`{name}`;")).collect();
    server.sql(&format!("{empty} USE `my-wp`; {}", run.text));
    let again = server.checksums("my-wp", &names);
    assert_eq!(again, std::fs::read_to_string(&sums).expect("read"));
}

/// A copy laid beside a table before an upgrade, or for IMPORT.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_rows_of_a_copy_are_not_those_of_the_table() {
    for (kind, status) in [("mariadb", 0), ("mysql", 1)] {
        let server = Server::empty(kind);
        server.sql(&format!("{STATEMENTS} CREATE TABLE z (id INT PRIMARY KEY); INSERT INTO z VALUES (7);"));
        server.stop();
        let folder = server.datadir().join("my@002dwp");
        for (from, to) in [("order@002ditems", "order@002ditems_before_upgrade"), ("z", "a_copy")] {
            std::fs::copy(folder.join(format!("{from}.ibd")), folder.join(format!("{to}.ibd"))).expect("copied");
        }
        let run = table(&["count", "--json"], &[&server.datadir()]);
        let counts = run.text;
        let sums = table(&["checksum", "--json"], &[&server.datadir()]);
        for row in sums.json()["tables"].as_array().expect("tables") {
            let expected = match row["table"].as_str().expect("a name") {
                "my-wp.z" | "my-wp.café" => 1,
                "my-wp.order-items" | "my-wp.p-s" => 2,
                _ => 3,
            };
            assert_eq!(row["rows"], Value::from(expected), "{kind}: {row:#}, {counts:#}");
        }
        let said = table(&["checksum"], &[&server.datadir()]).text;
        assert!(said.contains("a_copy.ibd says that it is the same tablespace"), "{kind}: {said}");
        let (document, found) = check_json(&server.datadir(), &[]);
        assert_eq!(reasons(&document), ["duplicate_space"; 2], "{kind}: {document:#}");
        assert_eq!(found, status, "{kind}");
        // A copy that is named has the rows that it has.
        let run = Run::of(
            &innokit().args(["table", "export"]).arg(folder.join("a_copy.ibd")).output().expect("innokit runs"),
        );
        assert_eq!((run.status, run.text.as_str()), (0, "7\n"), "{kind}: {}", run.errors);
    }
}

/// `.frm` and `.par` files of yesterday, and a vector index, which is a table without either.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn definitions_of_another_day_are_noticed_in_both_directions() {
    let server = Server::empty("mariadb118");
    let sql = |statements: &str| server.sql(&format!("CREATE DATABASE IF NOT EXISTS d; USE d; {statements}"));
    sql("CREATE TABLE i (id INT PRIMARY KEY, a INT); INSERT INTO i VALUES (1, 1);
        CREATE TABLE p (id INT) PARTITION BY HASH (id) PARTITIONS 3;
        CREATE TABLE r (id INT) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (5), PARTITION b VALUES LESS THAN (9));
        CREATE TABLE v (id INT PRIMARY KEY, w VECTOR(2) NOT NULL, VECTOR INDEX (w));
        INSERT INTO v VALUES (1, VEC_FromText('[1,2]'));");
    let folder = server.datadir().join("d");
    let old: Vec<(&str, Vec<u8>)> = ["i.frm", "p.frm", "p.par", "r.frm", "r.par"]
        .into_iter()
        .map(|name| (name, std::fs::read(folder.join(name)).expect("read")))
        .collect();
    sql("ALTER TABLE i ADD b INT NOT NULL DEFAULT 7, ALGORITHM=INSTANT; ALTER TABLE p ADD PARTITION PARTITIONS 1;
        ALTER TABLE r DROP PARTITION b;");
    server.stop();
    let (document, status) = check_json(&server.datadir(), &[]);
    assert_eq!((reasons(&document).as_slice(), status), (&[][..], 0), "{document:#}");
    for (name, bytes) in old {
        let path = folder.join(name);
        let new = std::fs::read(&path).expect("read");
        std::fs::write(&path, bytes).expect("written");
        let expected = if name.ends_with("frm") { "wrong_frm" } else { "wrong_par" };
        let (document, status) = check_json(&server.datadir(), &[]);
        assert_eq!((reasons(&document).as_slice(), status), (&[expected][..], 1), "{name}: {document:#}");
        std::fs::write(&path, new).expect("written");
    }
}

/// Tables of engines that innokit does not read are there all the same.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_of_other_engines_are_undecided_and_not_missing() {
    let server = Server::empty("mariadb");
    server.sql(
        "CREATE DATABASE d; USE d; CREATE TABLE i (id INT PRIMARY KEY); INSERT INTO i VALUES (1);
        CREATE TABLE `m-1` (id INT) ENGINE=MyISAM; CREATE TABLE a (id INT) ENGINE=Aria;",
    );
    let names: Vec<String> = ["a", "i", "m-1"].map(str::to_owned).into();
    let sums = server.checksums("d", &names);
    server.stop();
    let list = server.dir.file("sums", sums.as_bytes());
    let run = table(&["checksum", "--compare", list.to_str().expect("UTF-8")], &[&server.datadir()]);
    assert_eq!(run.status, 2, "{}{}", run.text, run.errors);
    assert!(run.text.contains("d.a\tnot computed") && run.text.contains("d.m-1\tnot computed"), "{}", run.text);
    let list = server.dir.file("sums", format!("{sums}d.gone\t5\n").as_bytes());
    let run = table(&["checksum", "--compare", list.to_str().expect("UTF-8")], &[&server.datadir()]);
    assert_eq!(run.status, 1, "{}", run.text);
    assert!(run.text.contains("d.gone\tmissing"), "{}", run.text);
}
