//! A check while it runs: findings as they are made, progress, and interruption.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Dir, Run, all_datadirs, check, check_json, fixture, innokit};
use flow::lock::{Sharing, try_lock};
use inspect::report::watcher::{Found, Watcher};
use inspect::{Check, CheckOptions, TableOptions};
use serde_json::Value;

const SAMPLE: &str = "mysql-9.7/dynamic-16k.ibd";

fn damaged() -> Vec<u8> {
    let mut bytes = fixture(SAMPLE);
    for page in [4, 5] {
        bytes[page * 16384 + 9000] ^= 1;
    }
    bytes
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn json_lines_tell_each_finding_and_end_with_the_document() {
    let dir = Dir::new();
    let path = dir.file("shop/t.ibd", &damaged());
    for (words, event) in [(&["check"][..], "finding"), (&["table", "check"], "table_finding")] {
        let run = Run::of(&innokit().args(words).arg("--json-lines").arg(&path).output().expect("innokit runs"));
        let lines = lines(&run.text);
        let (last, findings) = lines.split_last().expect("lines");
        assert_eq!((run.status, &last["event"], &last["exit_status"]), (1, &"report".into(), &1.into()), "{words:?}");
        let pages: Vec<_> =
            findings.iter().filter(|line| line["event"] == event).map(|line| &line["finding"]["page"]).collect();
        assert!(pages.contains(&&4.into()) && pages.contains(&&5.into()), "{words:?}: {pages:?}");
        let mut whole = Run::of(&innokit().args(words).arg("--json").arg(&path).output().expect("innokit runs")).json();
        let mut last = last.clone();
        for document in [&mut whole, &mut last] {
            document["started_at"] = Value::Null;
            document["totals"]["seconds"] = Value::Null;
            document["event"] = Value::Null;
            document["files"] = Value::Null;
        }
        assert_eq!(whole, last, "{words:?}");
    }
}

#[test]
fn an_interrupt_ends_with_the_report_of_what_was_done() {
    let dir = Dir::new();
    dir.file("a.ibd", &damaged());
    let large = dir.file("b.ibd", &fixture(SAMPLE));
    let large = std::fs::OpenOptions::new().write(true).open(large).expect("opens");
    large.set_len(200 << 20).expect("grows");
    dir.file("c.ibd", b"");
    let words = ["check", "--json-lines", "--rate", "8M", "--threads", "1"];
    let mut child = innokit().args(words).arg(dir.path()).stdout(Stdio::piped()).spawn().expect("innokit runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut first = String::new();
    out.read_line(&mut first).expect("a line");
    assert!(first.contains("\"event\":\"finding\""), "{first}");
    // The handler is installed before the first finding can appear.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs").success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the rest");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    let document = lines(&rest).pop().expect("a document");
    assert_eq!((&document["result"], &document["exit_status"]), (&"incomplete".into(), &130.into()));
    assert_eq!((&document["incomplete"], document["totals"]["corrupt"].as_u64()), (&true.into(), Some(2)));
    assert!(document["totals"]["bytes"].as_u64() < Some(200 << 20), "{:#}", document["totals"]);
    // A file that was only partly read is not called short, and one that was not read is not called empty.
    let reasons = crate::common::reasons(&document);
    assert!(reasons.iter().all(|reason| *reason == "checksum_mismatch" || *reason == "empty_file"), "{reasons:?}");
}

#[test]
fn work_that_is_stopped_at_any_place_says_nothing_of_the_rest() {
    let dir = Dir::new();
    for number in 0..8 {
        dir.file(&format!("t{number}.ibd"), &damaged());
    }
    let paths = [dir.path().to_path_buf()];
    let stop = Arc::new(AtomicBool::new(true));
    let watcher = || Watcher::new(Arc::clone(&stop), None);
    let options = CheckOptions { watcher: watcher(), ..CheckOptions::default() };
    let report = Check::plan(&paths, options).expect("a plan").run(None).expect("a report");
    assert!(report.incomplete && report.findings.iter().all(|finding| finding.reason.as_str() == "checksum_mismatch"));
    let report =
        inspect::tables(&paths, &TableOptions { watcher: watcher(), ..TableOptions::default() }).expect("a report");
    assert!(report.incomplete && report.findings.is_empty(), "{:#?}", report.findings);
    assert!(report.files.iter().flat_map(|file| &file.indexes).all(|index| !index.complete));

    // This time, interrupt at the first finding.
    stop.store(false, Ordering::Relaxed);
    let heard = Arc::clone(&stop);
    let tell = move |_: Found<'_>| heard.store(true, Ordering::Relaxed);
    let watcher = Watcher::new(Arc::clone(&stop), Some(Arc::new(tell)));
    let options = TableOptions { watcher, workers: 1, ..TableOptions::default() };
    let report = inspect::tables(&paths, &options).expect("a report");
    assert!(report.incomplete && !report.findings.is_empty());
    assert!(
        report.findings.iter().all(|finding| finding.rule.as_str() == "checksum_mismatch"),
        "{:#?}",
        report.findings
    );
}

#[test]
fn progress_is_written_to_a_pipe_on_request() {
    let dir = Dir::new();
    let path = dir.file("t.ibd", &fixture(SAMPLE));
    let always = check(&path, &["--progress", "always"]);
    assert!(always.errors.contains("innokit: read "), "{}", always.errors);
    assert_eq!(check(&path, &[]).errors, "");
}

#[test]
fn unpacking_is_no_silence_in_a_log_file() {
    let dir = Dir::new();
    dir.file("data/t.ibd", &fixture(SAMPLE));
    let tar = Command::new("tar").args(["-cf", "set.tar", "-C", "data", "."]).current_dir(dir.path()).status();
    assert!(tar.expect("tar runs").success());
    let unpack = |more: &[&str], to: &str| {
        let mut command = innokit();
        command.current_dir(dir.path()).args(["unpack", "set.tar", to]).args(more);
        Run::of(&command.output().expect("innokit runs"))
    };
    let run = unpack(&["--progress", "always"], "shown");
    assert!(run.status == 0 && run.errors.starts_with("innokit: read "), "{}", run.errors);
    assert_eq!(unpack(&[], "silent").errors, "");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn recovery_is_no_silence_in_a_log_file() {
    for family in ["mysql", "mariadb"] {
        let dir = Dir::new();
        let (datadir, to) = (all_datadirs().join(format!("{family}-16k-crashed")), dir.path().join("out"));
        let mut command = innokit();
        command.args(["recover", "--progress", "always", "--to"]).args([&to, &datadir]);
        let run = Run::of(&command.output().expect("innokit runs"));
        assert!(run.status == 0 && run.errors.starts_with("innokit: read "), "{family}: {}", run.errors);
    }
}

#[test]
fn a_datadir_that_a_server_has_open_is_named_as_one() {
    let dir = Dir::new();
    let path = dir.file("ibdata1", &fixture(SAMPLE));
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opens");
    let is_told =
        |options: &[&str]| crate::common::reasons(&check_json(dir.path(), options).0).contains(&"server_running");
    assert!(!is_told(&[]));
    assert!(try_lock(&file, Sharing::Exclusive).expect("locked"));
    assert!(is_told(&[]) && !is_told(&["--live"]));
    assert!(check(dir.path(), &[]).text.contains("check with --live"));
}

/// Pending work of a running server is no crash: the advice is to say `--live`, not to recover its files.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_a_running_server_explains_is_not_to_be_recovered() {
    for family in ["mysql", "mariadb"] {
        let dir = Dir::new();
        let datadir = dir.path().join("data");
        crate::common::copy(&all_datadirs().join(format!("{family}-16k-crashed")), &datadir);
        // Its tablespace was never written.
        std::fs::write(datadir.join("shop/new.ibd"), [0; 7 << 14]).expect("written");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(datadir.join("ibdata1")).expect("opens");
        assert!(try_lock(&file, Sharing::Exclusive).expect("locked"));
        let (document, status) = check_json(&datadir, &[]);
        assert_eq!(status, 2, "{document:#}");
        assert_eq!(document["findings"][0]["reason"], "server_running", "{family}: {document:#}");
        let hurt = document["hurt"].as_array().expect("a list");
        assert!(!hurt.is_empty(), "{document:#}");
        let command = format!("innokit check --live {}", datadir.display());
        for row in hurt.iter().filter(|row| row["severity"] == "undecided") {
            assert_eq!(
                (&row["action"], &row["commands"][0]),
                (&"check_live".into(), &command.as_str().into()),
                "{row:#}"
            );
        }
        let line = check(&datadir, &["--nagios"]).text;
        assert!(line.contains(" - ") && line.contains("a server has this datadir open: check with --live"), "{line}");
        let tables = Run::of(&innokit().args(["table", "check"]).arg(&datadir).output().expect("innokit runs"));
        assert!(
            tables.text.contains("work to do, as that of every running server: one has it open"),
            "{}",
            tables.text
        );
        drop(file);
        assert!(check(&datadir, &[]).text.contains("innokit recover --in-place"), "nobody has it open now");
    }
}

#[test]
fn standard_input_is_no_file_of_commands_that_need_one() {
    for words in [["table", "check", "-"], ["table", "count", "-"], ["info", "--", "-"]] {
        let run = Run::of(&innokit().args(words).output().expect("innokit runs"));
        assert!(run.status == 2 && run.errors.contains("standard input cannot be read out of order"), "{}", run.errors);
    }
}

#[test]
fn info_describes_the_files_of_a_directory() {
    let dir = Dir::new();
    dir.file("shop/a.ibd", &fixture(SAMPLE));
    dir.file("shop/b.ibd", &fixture("mariadb-10.11/dynamic-16k.ibd"));
    dir.file("shop/db.opt", b"default-character-set=utf8mb4");
    let run = Run::of(&innokit().args(["info", "--json"]).arg(dir.path()).output().expect("innokit runs"));
    assert_eq!((run.status, run.json()["files"].as_array().map(Vec::len)), (0, Some(2)), "{}", run.text);
}

#[test]
fn what_is_not_there_is_not_checked_and_said_so() {
    let dir = Dir::new();
    let run = check(&dir.path().join("nonexist"), &[]);
    assert_eq!(run.status, 2);
    assert!(run.text.contains("nonexist: not checked: No such file or directory"), "{}", run.text);
}
