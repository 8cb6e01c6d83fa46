//! Datadirs of servers killed under load, recovered without a server and compared with the server's own recovery.
//!
//! Each crash is recovered twice: one copy by innokit, another by the server. On ours the server must start without crash recovery, and
//! both must have the same tables with the same rows. `INNOKIT_RECOVER_CRASHES=n` sets how many crashes are tried of each server version
//! (default: 3 of 10.11, 1 of each other), each at another moment; every fifth is of a server with hundreds of MB of redo.
//! `INNOKIT_RECOVER_KEEP=DIR` keeps the datadirs of crashes that failed a test.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

// The lab is also the command's, which knows the crate by this name.
extern crate innokit_recovery as recovery;

mod bulk;
mod encrypted;
#[path = "../redo_apply/load.rs"]
mod load;
mod mishaps;
mod mysql;
// For other processors there is no such server.
#[cfg(target_arch = "x86_64")]
mod mysql80;
mod mysql_cut;
mod mysql_load;
mod mysql_outside;
mod mysql_until;
mod mysql_zip;
mod page_compressed;
mod places;
#[path = "../redo_apply/server.rs"]
mod server;
mod simulated;
mod torn;
mod until;
mod versions;
#[path = "../view_lab/mod.rs"]
mod view_lab;
mod warm;
mod xtrabackup;
mod xtrabackup_increments;
mod xtrabackup_outside;
mod xtrabackup_reduced;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crc_fast::{CrcAlgorithm, checksum};
use datadir::Severity;
use datadir::keys::KeyFiles;
use innokit_recovery::{RecoverOptions, Recovered, recover};
use inspect::{Check, CheckOptions, Finding};
use server::{Server, copy};
use tempfile::TempDir;

fn crashes(otherwise: u32) -> u32 {
    std::env::var("INNOKIT_RECOVER_CRASHES").ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// Server settings, which differ from crash to crash.
const SETTINGS: [&[&str]; 5] = [
    &["--innodb-undo-tablespaces=3", "--innodb-log-file-size=64M"],
    // Undo logs are in the system tablespace, most of them in its second file.
    &["--innodb-log-file-size=8M", "--innodb-data-file-path=ibdata1:4M;ibdata2:8M:autoextend"],
    &["--innodb-checksum-algorithm=crc32", "--innodb-log-file-size=32M"],
    &["--innodb-page-size=8k", "--innodb-log-file-size=32M"],
    // Flushes no page before it must, so that redo accumulates.
    &[
        "--innodb-log-file-size=512M",
        "--innodb-adaptive-flushing=OFF",
        "--innodb-max-dirty-pages-pct=99",
        "--innodb-max-dirty-pages-pct-lwm=98",
        "--innodb-buffer-pool-size=768M",
    ],
];
const LARGE: usize = 4;

/// Time limit for the purge after a start. It only keeps a hung test from running forever.
const PURGED_WITHIN: Duration = Duration::from_secs(120);

/// Each table's row count, checksum and CHECK TABLE verdict. The last may count entries that purge removes at that moment, so wait for purge
/// to end.
fn answers(server: &Server, tables: &[String]) -> Vec<String> {
    let started = Instant::now();
    loop {
        let answers = server.ask_of_each(&["SELECT COUNT(*) FROM", "CHECKSUM TABLE", "CHECK TABLE"], tables);
        let is_purging = answers.iter().any(|answer| answer.contains(" entries, should be "));
        if !is_purging || started.elapsed() > PURGED_WITHIN {
            return answers;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The same of every table of the load, after the server has rolled back unfinished transactions. Errors are included: a table may be half
/// created on both sides.
fn content(server: &Server) -> BTreeMap<String, String> {
    let list = "SELECT table_name FROM information_schema.tables WHERE table_schema='shop' ORDER BY 1";
    let names: Vec<String> = server.ask(list).lines().map(str::to_owned).collect();
    let tables: Vec<String> = names.iter().map(|name| format!("shop.`{name}`")).collect();
    let content: BTreeMap<_, _> = names.into_iter().zip(answers(server, &tables)).collect();
    for table in load::names() {
        let text = content.get(table).map(String::as_str).unwrap_or_default();
        assert!(text.contains(&format!("shop.{table}\tcheck\tstatus\tOK")), "{table}: {text}");
    }
    content
}

/// Asserts that both have the same content. But a server before 10.6 that was killed within an ALTER may lose that table in its own
/// recovery: it rolls back the dictionary change and leaves the file under its temporary name.
fn assert_same_content(ours: &Server, theirs: &Server, number: u32) {
    let is_old = theirs.1 == versions::OLD;
    let (mut ours, mut theirs) = (content(ours), content(theirs));
    let lost: Vec<String> = theirs
        .iter()
        .filter(|(_, text)| text.contains("Tablespace is missing"))
        .map(|(table, _)| table.clone())
        .collect();
    if is_old && !lost.is_empty() && ours != theirs {
        println!("crash {number}: the server lost {lost:?}");
        assert!(
            lost.len() == 1 && lost[0].starts_with("late"),
            "the load changes the definition of one table at a time"
        );
        for content in [&mut ours, &mut theirs] {
            content.remove(&lost[0]);
        }
    }
    assert_eq!(ours, theirs, "crash {number}");
}

fn assert_started_without_recovery(server: &Server) {
    let log = server.log();
    assert!(!log.contains("Starting crash recovery"), "{log}");
    assert!(log.contains("ready for connections"), "{log}");
}

/// The report of `check` on a datadir.
fn findings_of(datadir: &Path, keys: &KeyFiles) -> Vec<Finding> {
    let options = CheckOptions { keys: keys.clone(), ..CheckOptions::default() };
    let check = Check::plan(&[datadir.to_path_buf()], options).expect("options");
    check.run(None).expect("checks").findings
}

/// Asserts that nothing in the datadir is damaged. What a kill tore is undecided: recovery repairs it.
fn assert_sound(datadir: &Path, keys: &KeyFiles) {
    // 10.5 and earlier leave one half of a table whose CREATE, RENAME or DROP the crash interrupted, sometimes with an empty header, and
    // the old definition of an altered one. The server's own recovery leaves them too. The comparison with it shows whether a table was
    // lost that way.
    let is_unfinished = |finding: &Finding| {
        matches!(finding.reason.as_str(), "frm_without_table" | "missing_frm" | "wrong_frm")
            || (finding.reason.as_str() == "data_beyond_space_size" && finding.stored == Some(0))
    };
    let findings = findings_of(datadir, keys);
    let findings = findings.iter().filter(|finding| !is_unfinished(finding));
    let damage: Vec<_> = findings.filter(|finding| finding.severity == Severity::Damage).collect();
    assert!(damage.is_empty(), "{damage:?}");
}

/// Name, length and checksum of every file below `dir`.
fn files_of(dir: &Path) -> Vec<(String, u64, u64)> {
    let mut found = Vec::new();
    let mut below = vec![dir.to_path_buf()];
    while let Some(folder) = below.pop() {
        for entry in fs::read_dir(folder).expect("a directory").flatten() {
            if entry.path().is_dir() {
                below.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(dir).expect("below it").display().to_string();
                let bytes = fs::read(entry.path()).expect("reads");
                found.push((name, bytes.len() as u64, checksum(CrcAlgorithm::Crc64Nvme, &bytes)));
            }
        }
    }
    found.sort();
    found
}

/// Keeps the datadir of a crash if the test fails.
struct KeptOnFailure<'p>(&'p Path, u32);

impl Drop for KeptOnFailure<'_> {
    fn drop(&mut self) {
        if let Some(folder) = std::env::var_os("INNOKIT_RECOVER_KEEP").filter(|_| std::thread::panicking()) {
            copy(self.0, &Path::new(&folder).join(format!("crash-{}", self.1)));
        }
    }
}

/// Recovers the crash into `to` in one round, and a copy of it in place in many, which must give the same bytes.
fn recover_both_ways(crashed: &Path, to: &Path, number: u32, keys: &KeyFiles) -> Recovered {
    let before = files_of(crashed);
    let run = |options: RecoverOptions| {
        let options = RecoverOptions { keys: keys.clone(), ..options };
        recover(crashed, &options).unwrap_or_else(|error| panic!("crash {number}, {options:?}: {error}"))
    };
    let dry = run(RecoverOptions { dry_run: true, ..RecoverOptions::default() });
    let many = to.with_extension("rounds");
    copy(crashed, &many);
    let options = RecoverOptions { keys: keys.clone(), memory: 0, round: 1 << 20, ..RecoverOptions::default() };
    let rounds = recover(&many, &options).unwrap_or_else(|error| panic!("crash {number}, in rounds: {error}"));
    println!("crash {number}: {rounds:?}");
    let of_rounds = files_of(&many);
    fs::remove_dir_all(many).expect("removes");
    let done = run(RecoverOptions { to: Some(to.to_path_buf()), ..RecoverOptions::default() });
    println!("crash {number}: {done:?}");
    shows_the_same(crashed, to, number, &RecoverOptions { keys: keys.clone(), ..RecoverOptions::default() });
    assert_eq!(files_of(crashed), before, "the input is as it was");
    assert_eq!(of_rounds, files_of(to), "many rounds in place come to what one does in a copy");
    assert_eq!(dry.end_lsn, done.end_lsn);
    assert!(
        done.rounds > 1 || (dry.pages_changed, dry.pages_freed) == (done.pages_changed, done.pages_freed),
        "{dry:?}"
    );
    done
}

/// A view has what the recovery of the crash has written, from redo in memory, and from what does not fit there.
fn shows_the_same(crashed: &Path, recovered: &Path, number: u32, options: &RecoverOptions) {
    let made = view_lab::assert_shows(crashed, recovered, options);
    println!("crash {number}: a view made {made} pages");
    // Runs in a file differ from crash to crash by their number only: the first of each kind is enough where time counts.
    if number > 0 && crashes(0) == 0 {
        return;
    }
    let in_runs = RecoverOptions { round: 1 << 20, ..options.clone() };
    // Records of an encrypted log are not written to a file.
    if view_lab::is_refused(crashed, &in_runs, "in plain text") {
        return;
    }
    assert_eq!(view_lab::assert_shows(crashed, recovered, &in_runs), made);
}

fn try_crash(kind: &'static str, number: u32) {
    let dir = TempDir::new().expect("a directory");
    let settings = number as usize % SETTINGS.len();
    let server = Server::start_kind(kind, &dir.path().join("crashed"), SETTINGS[settings]);
    if settings == LARGE {
        server.run(&load::bulk(1 + number % 3));
    }
    server.crash(Duration::from_millis(u64::from(500 + number * 977 % 4000)));
    assert_recovered_as_by_the_server(&server, dir.path(), number, &KeyFiles::default());
}

fn assert_recovered_as_by_the_server(server: &Server, dir: &Path, number: u32, keys: &KeyFiles) {
    let _kept = KeptOnFailure(&server.0, number);
    let (ours, theirs) = (dir.join("ours"), dir.join("theirs"));
    assert_sound(&server.0, keys);
    copy(&server.0, &theirs);
    recover_both_ways(&server.0, &ours, number, keys);
    let options = RecoverOptions { keys: keys.clone(), ..RecoverOptions::default() };
    let again = recover(&ours, &options).expect("there is nothing to do");
    assert!(again.was_clean);
    assert_sound(&ours, keys);
    server.lend_options(&ours);
    server.lend_options(&theirs);
    let ours = Server::again_kind(server.1, &ours);
    assert_started_without_recovery(&ours);
    let theirs = Server::again_kind(server.1, &theirs);
    assert_same_content(&ours, &theirs, number);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn the_server_starts_at_once_and_finds_what_its_own_recovery_finds() {
    (0..crashes(3)).for_each(|number| try_crash("mariadb", number));
}
