//! `innokit table`: intact tables of both servers have no findings and the right number of rows; each damage is found and named.

use std::path::Path;

use crate::broken_table::Ibd;
use crate::common::{CRASHED, Dir, Run, SOUND, all_datadirs, fixture, innokit, keys_of};
use serde_json::Value;

/// Runs `innokit table COMMAND OPTIONS PATH`.
fn table(command: &str, path: &Path, options: &[&str]) -> Run {
    let output = innokit().args(["table", command]).args(options).arg(path).output().expect("innokit runs");
    Run::of(&output)
}

/// The rows that `make-datadirs.sh` leaves in the tables of every datadir with all kinds of tables.
const ROWS: [(&str, u64); 13] = [
    ("n", 20_000),
    ("digits", 10),
    ("row_redundant", 3200),
    ("row_compact", 3200),
    ("row_dynamic", 16_000),
    ("words", 445),
    ("places", 2500),
    ("churn", 2999),
    ("emptied", 0),
    ("deleted", 0),
    ("instant", 2500),
    ("instant_dropped", 2500),
    ("virtuals", 3000),
];

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_table_of_the_servers_is_sound() {
    for name in SOUND {
        let datadir = all_datadirs().join(name);
        let keys = keys_of(name);
        let options: Vec<&str> = keys.iter().map(String::as_str).collect();
        let run = table("check", &datadir, &[&["-v"], &options[..]].concat());
        assert_eq!(run.status, 0, "{name}:\n{}{}", run.text, run.errors);
        assert!(run.text.contains("result  all well"), "{name}:\n{}", run.text);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn tables_that_recovery_will_yet_mend_are_not_called_damaged() {
    for name in CRASHED {
        let run = table("check", &all_datadirs().join(name), &["-q"]);
        assert_ne!(run.status, 1, "{name}:\n{}", run.text);
        let sentence = "the redo log still has work to do";
        // A file that the server was just creating has no finding, but a line of its own.
        let mut findings = run.text.lines().filter(|line| line.ends_with(']'));
        assert!(findings.all(|line| line.contains(sentence)), "{name}:\n{}", run.text);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn every_index_counts_the_rows_that_were_put_in() {
    for name in ["mysql-4k", "mysql-16k", "mysql-64k", "mariadb-4k", "mariadb-16k", "mariadb-64k"] {
        for (file, rows) in ROWS {
            let path = all_datadirs().join(name).join("shop").join(format!("{file}.ibd"));
            let document = table("count", &path, &["--json"]).json();
            let indexes = document["files"][0]["indexes"].as_array().expect("indexes");
            let of_table = |index: &&Value| index["table"] == format!("shop.{file}");
            let counts: Vec<_> = indexes.iter().filter(of_table).map(|index| index["rows"].as_u64()).collect();
            assert!(!counts.is_empty(), "{name} {file}: {document}");
            assert!(counts.iter().all(|count| *count == Some(rows)), "{name} {file}: {counts:?}, not {rows}");
        }
    }
}

#[test]
fn a_table_of_mariadb_alone_is_walked_along_its_links() {
    let dir = Dir::new();
    let path = dir.file("dynamic.ibd", &fixture("mariadb-10.11/dynamic-16k.ibd"));
    let run = table("check", &path, &["-v"]);
    assert_eq!(run.status, 0, "{}", run.text);
    assert!(run.text.contains("no definition of the table was found"), "{}", run.text);
    let document = table("count", &path, &["--json"]).json();
    let rows: Vec<_> =
        document["files"][0]["indexes"].as_array().expect("indexes").iter().map(|i| &i["rows"]).collect();
    assert!(rows.len() == 3 && rows.iter().all(|count| **count == 720), "{rows:?}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn text_names_index_page_and_rule_and_json_has_the_same() {
    let dir = Dir::new();
    let mut ibd = Ibd::new(std::fs::read(all_datadirs().join("mysql-16k/shop/row_compact.ibd")).expect("a table"));
    let leaf = ibd.leaves("b")[1];
    ibd.page(leaf)[64..66].copy_from_slice(&[0, 1]);
    let path = dir.file("dyn.ibd", &ibd.sealed());
    let run = table("check", &path, &[]);
    let expected = format!(
        "index b of shop.row_compact: page {leaf}: damage: the page says that it is at level 1, but it is linked at level 0 [page_level]"
    );
    assert!(run.text.contains(&expected) && run.status == 1, "{}", run.text);
    assert!(run.text.contains("result  DAMAGE FOUND"), "{}", run.text);
    let document = table("check", &path, &["--json"]).json();
    let finding = &document["findings"][0];
    assert_eq!((&finding["rule"], &finding["index"]), (&"page_level".into(), &"b".into()));
    assert_eq!((&finding["page"], &finding["found"], &finding["expected"]), (&leaf.into(), &1.into(), &0.into()));
}

#[test]
fn what_is_no_table_is_passed_over_and_what_is_missing_is_said() {
    let dir = Dir::new();
    dir.file("readme.txt", b"nothing");
    // A wrong path or an empty mount point must not look like a sound backup.
    let run = table("check", dir.path(), &[]);
    assert_eq!(run.status, 2, "{}", run.text);
    assert!(run.text.contains("nothing could be checked"), "{}", run.text);
    assert!(run.text.starts_with(&dir.path().display().to_string()), "{}", run.text);
    let run = table("check", &dir.path().join("missing.ibd"), &[]);
    assert_eq!(run.status, 2, "{}", run.text);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_bar_is_drawn_for_who_asks_for_it_and_says_nothing_on_standard_output() {
    let path = all_datadirs().join("mysql-16k/shop/row_compact.ibd");
    for command in ["check", "count"] {
        let plain = table(command, &path, &["--json"]).json();
        let with_bar = table(command, &path, &["--json", "--progress", "always"]).json();
        assert_eq!(plain["totals"]["entries"], with_bar["totals"]["entries"], "{command}");
        let never = table(command, &path, &["--progress", "never"]);
        assert_eq!(never.errors, "", "{command}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_answer_does_not_hang_on_workers_nor_on_read_ahead() {
    let datadir = all_datadirs().join("mysql-16k-crashed");
    let one = table("check", &datadir, &["-q", "--threads", "1"]);
    for options in [
        ["-q", "--threads", "5"],
        ["-q", "--read-ahead", "none"],
        ["-q", "--read-ahead", "linear"],
        ["-q", "--io", "direct"],
    ] {
        let other = table("check", &datadir, &[&options[..1], &options[1..]].concat());
        assert!(one.text == other.text && one.status == other.status, "{options:?}");
    }
}

/// Tables of every kind, with off-page values and keys of several collations. Only the times differ.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn indexes_say_the_same_in_the_order_of_the_file_and_of_the_key() {
    for name in ["mysql-16k", "mariadb-16k", "mysql-4k", "mariadb-16k-compressed"] {
        let datadir = all_datadirs().join(name);
        let told = |ahead: &str| {
            let mut document = table("check", &datadir, &["--json", "--read-ahead", ahead]).json();
            document["totals"]["seconds"] = Value::Null;
            document["started_at"] = Value::Null;
            let files = document["files"].as_array_mut().expect("files");
            let indexes = files.iter_mut().filter_map(|file| file["indexes"].as_array_mut()).flatten();
            indexes.for_each(|index| index["seconds"] = Value::Null);
            document
        };
        let in_file_order = told("logical");
        assert_eq!(in_file_order, told("none"), "{name}");
        assert_eq!(in_file_order, told("linear"), "{name}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn check_at_the_level_of_structure_says_both() {
    let dir = Dir::new();
    let mut ibd = Ibd::new(std::fs::read(all_datadirs().join("mysql-16k/shop/row_compact.ibd")).expect("a table"));
    let leaf = ibd.leaves("b")[1];
    ibd.page(leaf)[64..66].copy_from_slice(&[0, 1]);
    let path = dir.file("t.ibd", &ibd.sealed());
    let run = |options: &[&str]| {
        let output = innokit().arg("check").args(options).arg(&path).output().expect("innokit runs");
        Run::of(&output)
    };
    assert_eq!(run(&[]).status, 0, "no checksum shows it");
    let both = run(&["--level", "structure"]);
    assert_eq!(both.status, 1, "{}", both.text);
    assert!(both.text.contains("result  all well") && both.text.contains("[page_level]"), "{}", both.text);
    let document = run(&["--level", "structure", "--json"]).json();
    assert_eq!(document["totals"]["corrupt"], 0);
    assert_eq!(document["tables"]["findings"][0]["rule"], "page_level");
    let output = innokit().args(["check", "--level", "structure", "-"]).output().expect("innokit runs");
    assert_eq!(Run::of(&output).status, 2, "a stream has no order of its own");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn files_of_different_servers_in_one_folder_are_explained_each_by_itself() {
    let dir = Dir::new();
    // On both servers it is tablespace 6 with index 162.
    for name in ["mysql-16k/shop/row_dynamic.ibd", "mysql-16k-compressed/shop/page_blobs.ibd"] {
        let bytes = std::fs::read(all_datadirs().join(name)).expect("a table");
        dir.file(name.rsplit('/').next().expect("a name"), &bytes);
    }
    let document = table("check", dir.path(), &["--extended", "--json"]).json();
    assert_eq!(document["totals"]["findings"], 0, "{document}");
    for file in document["files"].as_array().expect("files") {
        let stem = Path::new(file["path"].as_str().expect("a path")).file_stem().expect("a name").to_string_lossy();
        let names = file["indexes"].as_array().expect("indexes").iter().filter_map(|index| index["table"].as_str());
        let expected = format!("shop.{stem}");
        assert!(names.clone().count() > 0 && names.into_iter().all(|name| name == expected), "{file}");
    }
}

/// `table check`, `table count` and `info` count the same rows of a damaged table, and none claims that they are all.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_damaged_table_has_one_number_of_rows() {
    let dir = Dir::new();
    let mut ibd = Ibd::new(std::fs::read(all_datadirs().join("mysql-16k/shop/row_compact.ibd")).expect("a table"));
    let leaf = ibd.leaves("PRIMARY")[1];
    ibd.page(leaf)[9000] ^= 1;
    let path = dir.file("t.ibd", &ibd.bytes);
    let rows = |command: &str| {
        let document = table(command, &path, &["--json"]).json();
        let indexes = document["files"][0]["indexes"].as_array().expect("indexes").clone();
        let clustered = indexes.into_iter().find(|index| index["kind"] == "clustered").expect("an index");
        assert_eq!(clustered["complete"], false, "{clustered}");
        clustered["rows"].as_u64().expect("rows") + clustered["deleted"].as_u64().expect("rows")
    };
    let output = innokit().args(["info", "--json"]).arg(&path).output().expect("innokit runs");
    let described = Run::of(&output).json();
    let indexes = described["files"][0]["tablespace"]["indexes"].as_array().expect("indexes").clone();
    let clustered = indexes.iter().find(|index| index["name"] == "PRIMARY").expect("an index");
    let counted = rows("count");
    assert!(counted > 3000 && counted < 3200, "{counted}");
    assert_eq!((rows("check"), clustered["records"].as_u64()), (counted, Some(counted)));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_count_that_misses_a_leaf_says_so() {
    let dir = Dir::new();
    let mut ibd = Ibd::new(std::fs::read(all_datadirs().join("mysql-16k/shop/row_compact.ibd")).expect("a table"));
    let (root, records) = (ibd.root("b"), ibd.records(ibd.root("b")));
    // Unlink the second node pointer: its leaf is lost, and no checksum shows it.
    let delta = (records[2] as u16).wrapping_sub(records[0] as u16);
    ibd.page(root)[records[0] - 2..records[0]].copy_from_slice(&delta.to_be_bytes());
    let run = table("count", &dir.file("t.ibd", &ibd.sealed()), &[]);
    assert_eq!((run.status, run.text.contains("[sibling_next]")), (1, true), "{}", run.text);
    assert!(run.text.contains("and more that could not be seen"), "{}", run.text);
}

#[test]
fn several_tables_do_not_become_one_file() {
    let dir = Dir::new();
    dir.file("shop/one.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    dir.file("shop/two.ibd", &fixture("mysql-9.7/compact-16k.ibd"));
    let out = dir.path().join("rows");
    let out = out.to_str().expect("a path");
    let run = table("export", &dir.path().join("shop"), &["--format", "csv", "-o", out]);
    assert!(run.status == 2 && run.errors.contains("one file for 2 tables"), "{}", run.errors);
    assert!(!Path::new(out).exists(), "nothing is made");
    let run = table("export", &dir.path().join("shop"), &["--format", "csv", "-o", &format!("{out}/")]);
    assert_eq!((run.status, std::fs::read_dir(out).expect("a folder").count()), (0, 2), "{}", run.errors);
}
