//! `innokit redo info` on logs of real servers, and on files that are not logs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{Dir, all_datadirs, innokit};
use serde_json::Value;

fn describe(path: &Path, options: &[&str]) -> (String, String, Option<i32>) {
    let output = innokit().args(["redo", "info"]).arg(path).args(options).output().expect("innokit runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn document(name: &str, options: &[&str]) -> Value {
    let (text, errors, status) = describe(&all_datadirs().join(name), &[&["--json"], options].concat());
    assert_eq!(status, Some(0), "{name}: {errors}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: not JSON: {error}\n{text}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn sum(rows: &Value, field: &str) -> u64 {
    rows.as_array().expect("rows").iter().map(|row| number(&row[field])).sum()
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_crashed_servers_log_is_counted_by_type_tablespace_and_page() {
    let log = document("mariadb-16k-crashed", &["--pages", "1000000"]);
    assert_eq!((log["family"].as_str(), log["state"].as_str()), (Some("MariaDB"), Some("needs_recovery")));
    assert_eq!(number(&log["end_lsn"]) - number(&log["checkpoint"]["lsn"]), number(&log["bytes"]));
    let of_files = |row: &&Value| row["name"].as_str().expect("a name").starts_with("FILE_");
    let files: u64 =
        log["records"].as_array().expect("rows").iter().filter(of_files).map(|row| number(&row["records"])).sum();
    assert!(files > 0, "the log names its checkpoint");
    for field in ["tablespaces", "busiest_pages"] {
        assert_eq!(sum(&log[field], "records") + files, sum(&log["records"], "records"), "{field}");
    }
    assert_eq!(sum(&log["tablespaces"], "pages"), number(&log["pages"]));
    // Each mini-transaction ends with a marker and a checksum.
    assert_eq!(sum(&log["records"], "bytes") + 5 * number(&log["mtrs"]), number(&log["bytes"]));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_crashed_mysql_servers_log_is_counted_too() {
    let log = document("mysql-16k-crashed", &["--pages", "1000000"]);
    assert_eq!((log["family"].as_str(), log["state"].as_str()), (Some("MySQL"), Some("needs_recovery")));
    assert_eq!(log["note"].as_str(), None, "it ends where the server died, and makes sense until then");
    let names = |name: &str| log["records"].as_array().expect("rows").iter().any(|row| row["name"] == name);
    // Record types that every round of the load writes. What else is in the log is up to the server.
    assert!(names("MLOG_REC_INSERT") && names("MLOG_UNDO_INSERT") && names("MLOG_REC_CLUST_DELETE_MARK"));
    for field in ["tablespaces", "busiest_pages"] {
        assert!(sum(&log[field], "records") <= sum(&log["records"], "records"), "{field}");
    }
    assert_eq!(sum(&log["tablespaces"], "pages"), number(&log["pages"]));
    // LSNs count block headers and trailers, and the ends of mini-transactions are not records.
    assert!(sum(&log["records"], "bytes") < number(&log["bytes"]) && number(&log["mtrs"]) > 1000);
}

/// The tablespace with the most redo among those whose file is in a database of this datadir: its row, and the names of database and table.
fn busiest_table(datadir: &Path, log: &Value) -> (Value, String, String) {
    let mut by_space = BTreeMap::new();
    for database in std::fs::read_dir(datadir).expect("a datadir").map(|entry| entry.expect("an entry").path()) {
        for file in std::fs::read_dir(&database).into_iter().flatten().map(|entry| entry.expect("an entry").path()) {
            let is_plain = !file.to_string_lossy().contains(['#', '@']) && !database.ends_with("mysql");
            if is_plain && file.extension().is_some_and(|extension| extension == "ibd") {
                let bytes = std::fs::read(&file).expect("readable");
                let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
                let space = u32::from_be_bytes(bytes[34..38].try_into().expect("four bytes"));
                by_space.insert(u64::from(space), (name(&database), name(&file)));
            }
        }
    }
    let rows = log["tablespaces"].as_array().expect("rows").iter();
    let found = rows.filter_map(|row| Some((row.clone(), by_space.get(&number(&row["space_id"]))?.clone())));
    let (row, (database, table)) = found.max_by_key(|(row, _)| number(&row["bytes"])).expect("a changed table");
    (row, database, table)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn patterns_limit_the_description_to_the_redo_of_these_tables() {
    for name in ["mariadb-16k-crashed", "mysql-16k-crashed"] {
        let all = document(name, &["--pages", "1000000"]);
        let (row, database, table) = busiest_table(&all_datadirs().join(name), &all);
        let one = document(name, &["--pages", "1000000", "--database", &database, "--table", &table]);
        let rows = one["tablespaces"].as_array().expect("rows");
        assert_eq!(rows.len(), 1, "{name}: {database}.{table}: {rows:?}");
        for field in ["space_id", "records", "bytes", "pages"] {
            assert_eq!(rows[0][field], row[field], "{name}: {field}");
        }
        assert!(
            rows[0]["name"].as_str().is_some_and(|name| name.contains(&format!("{database}/{table}"))),
            "{name}: {rows:?}"
        );
        assert_eq!((&one["pages"], &one["mtrs"]), (&row["pages"], &all["mtrs"]), "{name}");
        let of_files = |row: &&Value| {
            row["name"].as_str().is_some_and(|name| name.trim_start_matches("MLOG_").starts_with("FILE_"))
        };
        let files: u64 =
            one["records"].as_array().expect("rows").iter().filter(of_files).map(|row| number(&row["records"])).sum();
        assert_eq!(sum(&one["records"], "records"), number(&row["records"]) + files, "{name}");
        assert!(sum(&one["records"], "bytes") < sum(&all["records"], "bytes"), "{name}");
        let none = document(name, &["--table", "there_is_no_such_table"]);
        assert_eq!((&none["pages"], &none["tablespaces"]), (&0.into(), &Value::Array(Vec::new())), "{name}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_clean_log_has_nothing_but_its_checkpoint() {
    let log = document("mariadb-16k", &[]);
    assert_eq!((log["state"].as_str(), number(&log["mtrs"]), number(&log["pages"])), (Some("clean"), 1, 0));
    assert_eq!(document("mysql-16k", &[])["state"], "clean");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_encrypted_log_needs_its_key_to_be_told_apart() {
    let log = document("mariadb-16k-enc", &[]);
    assert_eq!((log["encrypted"].as_bool(), log["state"].as_str()), (Some(true), Some("clean")));
    assert!(log["note"].as_str().expect("a note").contains("key"));
    let keys = all_datadirs().join(".mariadb-16k-enc.server/keys");
    let log = document("mariadb-16k-enc", &["--key-file", keys.to_str().expect("a name")]);
    assert_eq!(log["records"][0]["name"], "FILE_CHECKPOINT");
    let dir = Dir::new();
    let wrong = dir.file("keys", b"1;00112233445566778899aabbccddeeff\n");
    let path = all_datadirs().join("mariadb-16k-enc");
    let (_, errors, status) = describe(&path, &["--key-file", wrong.to_str().expect("a name")]);
    assert!(status == Some(2) && errors.contains("does not decrypt"), "{errors}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_log_is_described_as_far_as_its_blocks_go() {
    let log = document("mysql-16k-crashed", &[]);
    assert_eq!((log["family"].as_str(), log["state"].as_str()), (Some("MySQL"), Some("needs_recovery")));
    assert!(number(&log["end_lsn"]) > number(&log["checkpoint"]["lsn"]));
    let (text, ..) = describe(&all_datadirs().join("mysql-16k-crashed"), &[]);
    assert!(text.contains("to recover: ") && text.contains("#ib_redo"), "{text}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_is_no_log_is_an_error_and_a_log_without_its_checkpoint_is_damaged() {
    let dir = Dir::new();
    let (_, errors, status) = describe(dir.path(), &[]);
    assert!(status == Some(2) && errors.contains("there is no redo log"), "{errors}");
    // Nothing ever comes out of this pipe.
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let (_, errors, status) = describe(&pipe, &[]);
    assert!(status == Some(2) && errors.contains("not a regular file"), "{errors}");
    let none = dir.file("ib_logfile0", &[0x55; 20_000]);
    let (_, errors, status) = describe(&none, &[]);
    assert!(status == Some(2) && errors.contains("unknown format"), "{errors}");
    for (format, writers) in [(0, "MySQL up to 5.6"), (103, "MariaDB 10.3"), (104, "MariaDB 10.4")] {
        let mut bytes = [0; 20_000];
        bytes[3] = format;
        let (_, errors, status) = describe(&dir.file("ib_logfile0", &bytes), &[]);
        assert!(status == Some(2) && errors.contains(writers), "{errors}");
        let (document, status) = crate::common::check_json(&dir.path().join("ib_logfile0"), &[]);
        assert!(status == 2 && document.to_string().contains(writers), "{document}");
    }
    let mut bytes = std::fs::read(all_datadirs().join("mariadb-16k/ib_logfile0")).expect("a log");
    bytes[12_288..].fill(0);
    let (text, _, status) = describe(&dir.file("ib_logfile0", &bytes), &[]);
    assert!(status == Some(1) && text.contains("DAMAGED"), "{text}");
}
