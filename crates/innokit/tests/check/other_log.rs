//! A redo log that is to be applied, next to files of another server or another time. No number or name gives the mismatch away; the log's
//! page records do.

use std::fs;
use std::path::Path;

use crate::catalog_lab::{Age, Lab};
use crate::common::{Run, innokit};

/// What `check` says about the log, and its exit status.
fn check(data: &Path) -> (Vec<String>, i32) {
    let run = Run::of(&innokit().args(["check", "--json"]).arg(data).output().expect("innokit runs"));
    let document = run.json();
    let findings = document["findings"].as_array().expect("findings").iter();
    let of_log = findings.filter(|finding| finding["reason"] == "other_log" || finding["reason"] == "newer_than_log");
    let messages = of_log.map(|finding| finding["message"].as_str().expect("a sentence").to_owned());
    (messages.collect(), run.status)
}

fn put_log(from: &Path, data: &Path) {
    let log = if from.join("#innodb_redo").exists() { "#innodb_redo" } else { "ib_logfile0" };
    if log == "#innodb_redo" {
        fs::remove_dir_all(data.join(log)).expect("the log is removed");
    }
    crate::common::copy(&from.join(log), &data.join(log));
}

fn is_told(said: &(Vec<String>, i32)) -> bool {
    said.1 == 1 && !said.0.is_empty()
}

/// Enough log to wrap the 16 MiB ring, so that its beginning is overwritten.
const A_LAP: &str = "INSERT INTO first (a) SELECT REPEAT('x', 200) FROM seq_1_to_60000; DELETE FROM first WHERE id > 9";

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_that_has_other_pages_than_the_files_is_of_another_server() {
    for kind in ["mysql", "mariadb", "mariadb118", "mariadb105"] {
        // MySQL's log holds everything that is done here.
        let laps: &[&str] = if kind == "mysql" { &["DO 0"] } else { &["DO 0", A_LAP] };
        for lap in laps {
            let own = Lab::killed(kind, lap);
            // The same ids and names; LSNs differ from here on. More than all that is logged after it: within that, one of a hundred LSNs would
            // be the end of another change to the same page, and nothing could be told.
            let more = vec!["(REPEAT('some more', 22))"; 100].join(", ");
            let other = Lab::killed(kind, &format!("INSERT INTO first (a) VALUES {more}; {lap}"));
            for (server, before) in [(&own, &other), (&other, &own)] {
                let said = check(&server.of(Age::Now));
                assert!(said.0.is_empty() && said.1 != 1, "{kind}: its own log: {said:?}");
                server.lay_out();
                put_log(&before.of(Age::Now), &server.data());
                let said = check(&server.data());
                assert!(is_told(&said), "{kind}: the log of another server: {said:?}");
            }
            assert_strange_tables_are_told(kind, &own, &other);
            // The files as of before the start are the ones that recovery begins with.
            own.lay_out_as(Age::Old);
            put_log(&own.of(Age::Now), &own.data());
            let said = check(&own.data());
            assert!(said.0.is_empty() && said.1 != 1, "{kind}: the files that the log begins with: {said:?}");
            // A log that has moved on: the changes before its checkpoint are in neither the log nor the files.
            own.lay_out();
            own.start(&own.data()).expect("the server recovers");
            own.stop(&own.data());
            own.work_and_kill();
            let said = check(&own.data());
            assert!(said.0.is_empty() && said.1 != 1, "{kind}: its own log, later: {said:?}");
            let later = own.data().with_file_name("later");
            crate::common::copy(&own.data(), &later);
            own.lay_out_as(Age::Old);
            put_log(&later, &own.data());
            let said = check(&own.data());
            assert!(is_told(&said), "{kind}: a log that has gone on: {said:?}");
            assert!(said.0[0].contains("lacks the change that this log made"), "{kind}: {said:?}");
        }
    }
}

/// A table of another server, with the right id and name, among files that do belong to the log. The servers crash on it or lose rows.
fn assert_strange_tables_are_told(kind: &str, own: &Lab, other: &Lab) {
    for (server, twin) in [(own, other), (other, own)] {
        server.lay_out();
        let table = "d/first.ibd";
        fs::copy(twin.of(Age::Now).join(table), server.data().join(table)).expect("copied");
        let run = Run::of(&innokit().args(["check", "--json"]).arg(server.data()).output().expect("innokit runs"));
        let document = run.json();
        let findings = document["findings"].as_array().expect("findings");
        // The kill may have hit the middle of a write to the log.
        let told =
            |finding: &&serde_json::Value| finding["severity"] != "notice" && !crate::common::is_torn_end(finding);
        let told: Vec<_> = findings.iter().filter(told).collect();
        // Its pages may be newer than this log, older than the log's start, or both: that is up to the server.
        let is_told = |finding: &serde_json::Value| {
            let reason = finding["reason"] == "newer_than_log" || finding["reason"] == "stale_file";
            reason && finding["path"].as_str().is_some_and(|path| path.ends_with(table))
        };
        assert!(run.status == 1 && !told.is_empty(), "{kind}: the table of another server: {told:?}");
        assert!(told.iter().all(|finding| is_told(finding)), "{kind}: the table of another server: {told:?}");
    }
}

/// MySQL creates a file before it logs the creation. So a file that the log creates and neither deletes nor renames must exist, or the log
/// is another server's.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_mysql_log_that_makes_tablespaces_that_are_nowhere_is_of_another_server() {
    let lab = Lab::killed("mysql", "DO 0");
    let data = lab.data();
    lab.lay_out();
    lab.start(&data).expect("the server recovers");
    let far = lab.far().display().to_string();
    lab.sql(
        &data,
        &format!(
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1; USE d; CREATE TABLE fresh (id INT PRIMARY KEY); INSERT INTO fresh VALUES (1);
             CREATE TABLE away (id INT PRIMARY KEY) DATA DIRECTORY='{far}'; INSERT INTO away VALUES (1);
             CREATE TABLE passing (id INT PRIMARY KEY); DROP TABLE passing;
             CREATE TABLE moved (id INT PRIMARY KEY); RENAME TABLE moved TO at_rest;"
        ),
    );
    lab.kill(&data);
    let said = check(&data);
    assert!(said.0.is_empty() && said.1 != 1, "its own log: {said:?}");
    let log = data.with_file_name("log");
    crate::common::copy(&data.join("#innodb_redo"), &log);
    lab.lay_out_as(Age::Old);
    fs::remove_dir_all(data.join("#innodb_redo")).expect("removed");
    crate::common::copy(&log, &data.join("#innodb_redo"));
    let said = check(&data);
    assert!(is_told(&said), "the log of a later time: {said:?}");
    assert!(said.0[0].contains("it changes tablespaces that neither"), "{said:?}");
}
