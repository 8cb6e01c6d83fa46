//! Datadirs whose files are missing, swapped, older, newer or another server's. Each gets the right verdict, and intact datadirs get no
//! finding. The servers are the judges.
//!
//! There are two tables: the rows of `catalog_lab/rows.rs`, and every kind of file times every way to lose it (`catalog_lab/cells.rs`).
//! `catalog_lab/cells.tsv` records what innokit and the server said about each cell.
//!
//! `make test` tries the rows of MySQL and one MariaDB without starting a server on each, tries one crash of each, and checks that the two
//! columns of `cells.tsv` agree. `INNOKIT_CATALOG=all` runs all rows, all cells and a crash after each kind of DDL on all three servers,
//! has the servers judge each, and prints the table. `INNOKIT_CATALOG=print` prints the lines of `cells.tsv` instead of comparing them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::catalog_lab::rows::{CUT_TO_NOTHING, DISCARDED, MISSING, remove, rows};
use crate::catalog_lab::{Age, Judge, Lab, cells};
use crate::common::{Run, innokit};

/// The codes of the findings about the datadir, without those about the table that is discarded in every datadir.
const CODES: [&str; 22] = [
    "wrong_frm",
    "wrong_par",
    "missing_file",
    "wrong_file",
    "stale_file",
    "misplaced_file",
    "duplicate_space",
    "orphan_file",
    "missing_undo",
    "missing_redo",
    "missing_frm",
    "missing_par",
    "frm_without_table",
    "partial_backup",
    "backup_not_prepared",
    "dictionary_unread",
    "no_dictionary",
    "dictionary_in_flux",
    "intermediate_table",
    "other_log",
    "dropped_by_log",
    DISCARDED,
];

fn run(words: &[&str], data: &Path, key: &str) -> (Vec<String>, i32) {
    let run = Run::of(&innokit().args(words).arg("--json").arg(data).output().expect("innokit runs"));
    let document = run.json();
    let findings = document["findings"].as_array().expect("findings").iter();
    let mut reasons: Vec<String> = findings
        .map(|finding| finding[key].as_str().expect("a code").to_owned())
        .filter(|reason| CODES.contains(&reason.as_str()) && reason != DISCARDED)
        .collect();
    reasons.sort();
    (reasons, run.status)
}

/// Tries all rows on a server. Returns the mismatches.
fn matrix(kind: &'static str, with_judge: bool) -> Vec<String> {
    let lab = Lab::new(kind);
    let mut wrong = Vec::new();
    for row in rows() {
        let Some((word, judge)) = (if kind == "mysql" { row.mysql } else { row.mariadb }) else { continue };
        lab.lay_out();
        (row.act)(&lab, &lab.data());
        let check = run(&["check"], &lab.data(), "reason");
        let table = run(&["table", "check"], &lab.data(), "rule");
        let expected = (word.reasons.iter().map(|reason| (*reason).to_owned()).collect::<Vec<_>>(), word.exit);
        // An empty file is damage to `check`. `table check` has nothing to look at in it.
        let of_table = if row.name == CUT_TO_NOTHING { (expected.0.clone(), 2) } else { expected.clone() };
        for (command, found, expected) in [("check", &check, &expected), ("table check", &table, &of_table)] {
            if found != expected {
                wrong.push(format!("{kind}, {}: {command} says {found:?}, not {expected:?}", row.name));
            }
        }
        if with_judge {
            let (judged, why) = lab.judge();
            println!(
                "{kind:10} | {:48} | {:60} | {judged:?} {}",
                row.name,
                format!("{check:?}"),
                why.replace('\n', " / ").chars().take(300).collect::<String>()
            );
            if judged != judge {
                wrong.push(format!("{kind}, {}: the server is {judged:?}, not {judge:?}: {why}", row.name));
            }
        }
    }
    if with_judge {
        wrong.extend(every_cell(&lab));
        wrong.extend(crash_after_each(&lab));
        wrong.extend(logs_of_others(&lab));
    }
    crash(&lab);
    wrong
}

const CELLS: &str = include_str!("../catalog_lab/cells.tsv");

/// Where innokit says more than the server or something else, and why.
const OTHERWISE: [(&str, &str, &str, &str); 10] = [
    ("mysql", "partition", "newer", FUTURE),
    ("mysql", "ibdata1", "newer", FUTURE),
    ("mysql", "undo", "newer", FUTURE),
    ("mysql", "redo", "older", FUTURE),
    ("mysql", "redo", "another server's", FUTURE),
    ("mysql", "undo", "removed", UNDO),
    ("mysql", "undo", "renamed", UNDO),
    ("mysql", "undo", "truncated", SHORT),
    ("mariadb", "undo", "truncated", SHORT),
    ("mariadb118", "undo", "truncated", SHORT),
];
/// Damage.
const FUTURE: &str =
    "MySQL starts and only logs it, for each page that it reads; its next crash loses what was written to them";
/// Undecided.
const UNDO: &str = "MySQL makes the file again; deleted rows that waited for purge stay for good";
/// Damage.
const SHORT: &str = "a file is made longer before its header counts the pages: one that is shorter was cut, if only where nothing was yet";

/// What servers and innokit must agree on: a datadir is well if and only if a server takes it.
fn agree(judged: Judge, exits: [i32; 2]) -> bool {
    exits.iter().all(|exit| (*exit == 0) == (judged == Judge::Fine))
}

fn line_of(lab: &Lab, cell: &cells::Cell) -> (String, String) {
    lab.lay_out();
    cell.act(lab);
    let check = run(&["check"], &lab.data(), "reason");
    let table = run(&["table", "check"], &lab.data(), "rule");
    let (judged, why) = lab.judge();
    let reasons = |reasons: &[String]| if reasons.is_empty() { "-".to_owned() } else { reasons.join(",") };
    let (kind, way) = (cell.kind, cell.way);
    let words = format!("{}\t{}\t{}\t{}", check.1, reasons(&check.0), table.1, reasons(&table.0));
    (format!("{}\t{kind}\t{way}\t{judged:?}\t{words}", lab.kind), why)
}

fn every_cell(lab: &Lab) -> Vec<String> {
    let is_print = std::env::var("INNOKIT_CATALOG").is_ok_and(|what| what == "print");
    let mut wrong = Vec::new();
    for cell in cells::all(lab.kind) {
        let (line, why) = line_of(lab, &cell);
        println!("{line}");
        if !is_print && !CELLS.lines().any(|known| says_the_same(known, &line)) {
            wrong.push(format!("not in cells.tsv: {line} ({})", why.chars().take(300).collect::<String>()));
        }
    }
    wrong
}

/// Whether two lines have the same words. Their counts depend on which pages the server had written when it was stopped.
fn says_the_same(known: &str, line: &str) -> bool {
    let words = |line: &str| -> Vec<BTreeSet<String>> {
        line.split('\t').map(|column| column.split(',').map(str::to_owned).collect()).collect()
    };
    words(known) == words(line)
}

/// The recorded cells are consistent: no "all well" for what a server refuses, no "damage" for what it takes.
#[test]
fn innokit_and_the_servers_agree_on_every_cell() {
    for server in ["mysql", "mariadb", "mariadb118"] {
        for cell in cells::all(server) {
            let head = format!("{server}\t{}\t{}\t", cell.kind, cell.way);
            let line = CELLS.lines().find_map(|line| line.strip_prefix(&head));
            let words: Vec<&str> = line.unwrap_or_else(|| panic!("no line of {head}")).split('\t').collect();
            let judged = if words[0] == "Fine" { Judge::Fine } else { Judge::Hurt };
            let exit = |place: usize| words[place].parse::<i32>().expect("an exit status");
            let is_known = OTHERWISE
                .iter()
                .any(|(known, kind, way, _)| server == *known && *kind == cell.kind && *way == cell.way);
            assert_eq!(agree(judged, [exit(1), exit(3)]), !is_known, "{head}{words:?}");
        }
    }
}

/// Statements that create, alter and drop tables, each run alone before a crash.
const EVENTS: [(&str, &str); 13] = [
    ("created", "CREATE TABLE fresh (id INT PRIMARY KEY); INSERT INTO fresh VALUES (1)"),
    ("dropped", "DROP TABLE items"),
    ("created and dropped", "CREATE TABLE fresh (id INT PRIMARY KEY); DROP TABLE fresh"),
    ("renamed", "RENAME TABLE orders TO orders_old"),
    ("names exchanged", "RENAME TABLE orders TO aside, customers TO orders, aside TO customers"),
    ("truncated", "TRUNCATE customers"),
    ("altered in place", "ALTER TABLE renamed ADD KEY later (b), ALGORITHM=INPLACE"),
    ("altered by copy", "ALTER TABLE renamed ADD COLUMN e INT, ALGORITHM=COPY"),
    ("rebuilt", "ALTER TABLE imported FORCE"),
    ("partitioned", "ALTER TABLE customers PARTITION BY HASH (id) PARTITIONS 3"),
    ("partition dropped", "ALTER TABLE parts DROP PARTITION p0"),
    ("full-text index dropped", "ALTER TABLE words DROP KEY b"),
    ("database dropped", "DROP DATABASE `odd-name`"),
];

/// A crash right after each statement is no damage. After recovery, or with a clean stop instead of the crash, all is well.
fn crash_after_each(lab: &Lab) -> Vec<String> {
    let (kind, data) = (lab.kind, lab.data());
    let mut wrong = Vec::new();
    let events = EVENTS.iter().map(|(name, sql)| (*name, Some(*sql))).chain([("imported", None)]);
    for (name, sql) in events {
        for is_crash in [false, true] {
            lab.lay_out();
            lab.start(&data).expect("the server starts");
            match sql {
                Some(sql) => drop(lab.sql(&data, &format!("USE shop; {sql};"))),
                None => lab.import(&data),
            }
            if is_crash {
                lab.kill(&data)
            } else {
                lab.stop(&data)
            }
            let said = (run(&["check"], &data, "reason"), run(&["table", "check"], &data, "rule"));
            println!("{kind}\t{name}\t{}\t{said:?}", if is_crash { "crash" } else { "stop" });
            let is_well = |exit: i32| if is_crash { exit != 1 } else { exit == 0 };
            if !is_well(said.0.1) || !is_well(said.1.1) {
                wrong.push(format!("{kind}, {name}, crash: {is_crash}: {said:?}"));
            }
            if is_crash {
                lab.start(&data).expect("the server recovers");
                lab.stop(&data);
                let after = (run(&["check"], &data, "reason").1, run(&["table", "check"], &data, "rule").1);
                if after != (0, 0) {
                    wrong.push(format!("{kind}, {name}, after recovery: {after:?}"));
                }
            }
        }
    }
    wrong
}

fn redo_of(kind: &str) -> &'static str {
    if kind == "mysql" { "#innodb_redo" } else { "ib_logfile0" }
}

/// A log that is to be applied, next to files of another server and of another time: what the server refuses is not well.
fn logs_of_others(lab: &Lab) -> Vec<String> {
    let (kind, data, aside) = (lab.kind, lab.data(), lab.data().with_file_name("aside"));
    let mut wrong = Vec::new();
    for (age, name) in [(Age::Now, "of before"), (Age::Old, "older"), (Age::Other, "another server's")] {
        lab.lay_out();
        lab.start(&data).expect("the server starts");
        lab.sql(&data, "USE shop; SET GLOBAL innodb_flush_log_at_trx_commit = 1; CREATE TABLE fresh (id INT PRIMARY KEY); INSERT INTO fresh VALUES (1); DELETE FROM items; UPDATE orders SET a = 9;");
        lab.kill(&data);
        if aside.exists() {
            remove(&data, "../aside");
        }
        crate::common::copy(&data.join(redo_of(kind)), &aside);
        lab.lay_out_as(age);
        remove(&data, redo_of(kind));
        crate::common::copy(&aside, &data.join(redo_of(kind)));
        let said = (run(&["check"], &data, "reason"), run(&["table", "check"], &data, "rule"));
        let (judged, why) = lab.judge();
        println!(
            "{kind}\tpending log beside files {name}\t{said:?}\t{judged:?} {}",
            why.replace('\n', " / ").chars().take(300).collect::<String>()
        );
        if judged != Judge::Fine && (said.0.1 == 0 || said.1.1 == 0) {
            wrong.push(format!(
                "{kind}, pending log beside files {name}: {said:?}, and the server is {judged:?}: {why}"
            ));
        }
    }
    wrong
}

#[test]
fn every_way_to_damage_a_datadir_of_mysql_is_called_by_its_name() {
    let wrong = matrix("mysql", std::env::var("INNOKIT_CATALOG").is_ok());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_way_to_damage_a_datadir_of_mariadb_is_called_by_its_name() {
    let wrong = matrix("mariadb", std::env::var("INNOKIT_CATALOG").is_ok());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_newest_mariadb_is_judged_alike() {
    if std::env::var("INNOKIT_CATALOG").is_ok() {
        let wrong = matrix("mariadb118", true);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// DDL of every kind, none of it completely on disk when the server is killed.
const BEFORE_CRASH: &str = "
    USE shop; CREATE TABLE fresh (id INT PRIMARY KEY); INSERT INTO fresh VALUES (1); TRUNCATE customers; DROP TABLE items;
    RENAME TABLE orders TO orders_old; ALTER TABLE renamed ADD KEY later (b); ALTER TABLE imported ENGINE=InnoDB;
    ALTER TABLE parts DROP PARTITION p0; DROP TABLE words; CREATE TABLE short_lived (id INT PRIMARY KEY); DROP TABLE short_lived;
";

/// Differences after a crash that the log explains are no damage. After recovery there are none.
fn crash(lab: &Lab) {
    let kind = lab.kind;
    lab.lay_out();
    let data = lab.data();
    lab.start(&data).expect("the server starts");
    lab.sql(&data, BEFORE_CRASH);
    lab.kill(&data);
    for words in [&["check"][..], &["table", "check"]] {
        let key = if words.len() == 1 { "reason" } else { "rule" };
        let (reasons, status) = run(words, &data, key);
        assert_ne!(status, 1, "{kind} {words:?} after the crash: {reasons:?}");
    }
    lab.start(&data).expect("the server recovers");
    lab.stop(&data);
    assert_eq!(run(&["check"], &data, "reason"), (Vec::new(), 0), "{kind} after recovery");
    // As long as the log is to be applied, differences that it does not explain are not damage either, but not "all well".
    lab.lay_out();
    lab.start(&data).expect("the server starts");
    lab.sql(&data, "USE shop; INSERT INTO customers (a, b) VALUES (5, 'v');");
    lab.kill(&data);
    remove(&data, "shop/words.ibd");
    let (reasons, status) = run(&["check"], &data, "reason");
    assert_eq!(reasons, MISSING, "{kind}");
    assert_ne!(status, 0, "{kind}: a table is gone");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_dictionary_that_cannot_be_read_leaves_open_whether_tables_are_missing() {
    for name in ["mysql-16k-tde", "mariadb-16k-enc"] {
        let datadir = crate::common::all_datadirs().join(name);
        let (reasons, status) = run(&["check"], &datadir, "reason");
        assert_eq!((reasons, status), (vec!["dictionary_unread".to_owned()], 2), "{name} without its keys");
        let keys = crate::common::keys_of(name);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(run(&[&["check"], keys.as_slice()].concat(), &datadir, "reason"), (Vec::new(), 0), "{name}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_folder_of_tables_is_no_datadir_and_what_is_there_is_checked() {
    for name in ["mysql-16k", "mariadb-16k"] {
        let folder = crate::common::all_datadirs().join(name).join("shop");
        let expected = (vec!["no_dictionary".to_owned()], 0);
        assert_eq!(run(&["check"], &folder, "reason"), expected, "{name}");
        assert_eq!(run(&["table", "count"], &folder, "rule"), expected, "{name}");
        // A single file is judged by itself.
        assert_eq!(run(&["check"], &folder.join("words.ibd"), "reason"), (Vec::new(), 0), "{name}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn nothing_is_missing_in_sound_datadirs() {
    for name in crate::common::SOUND {
        let keys = crate::common::keys_of(name);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let datadir = crate::common::all_datadirs().join(name);
        assert_eq!(run(&[&["check"], keys.as_slice()].concat(), &datadir, "reason"), (Vec::new(), 0), "{name}");
    }
}

/// A system tablespace of two files whose names do not show it.
#[test]
fn a_system_tablespace_with_names_of_its_own_is_checked_whole() {
    for kind in ["mysql", "mariadb"] {
        let lab = Lab::with_files(kind, "first:12M;second:8M:autoextend");
        let data = lab.data();
        let both = |data: &Path| (run(&["check"], data, "reason"), run(&["table", "check"], data, "rule"));
        let well = || (Vec::new(), 0);
        assert_eq!(both(&data), (well(), well()), "{kind}");
        let document = Run::of(&innokit().args(["check", "--json"]).arg(&data).output().expect("innokit runs")).json();
        let files = document["files"].as_array().expect("files").iter();
        let second = files.clone().find(|file| file["path"].as_str().is_some_and(|path| path.ends_with("/second")));
        assert_eq!(second.map(|file| file["space_id"].as_u64()), Some(Some(0)), "{kind}: the second file is one of it");
        // Given alone, the first file is not called short.
        assert_eq!(run(&["check"], &data.join("first"), "reason"), well(), "{kind}");
        // The option file also counts: here nothing else tells which file comes next.
        fs::copy(data.join("second"), data.join("another")).expect("copied");
        assert_eq!(run(&["check"], &data, "reason").1, 1, "{kind}: one of two files of zeros, and nobody knows which");
        fs::write(data.join("my.cnf"), "[mysqld]\ninnodb-data-file-path = first:12M;second:8M:autoextend\n")
            .expect("written");
        assert_eq!(both(&data), (well(), well()), "{kind} with my.cnf");
        remove(&data, "second");
        assert_eq!(run(&["check"], &data, "reason").1, 1, "{kind}: the second file is gone");
    }
}
