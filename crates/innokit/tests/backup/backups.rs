//! Backups of a busy server by mariadb-backup: full, of some databases, of some tables, incremental and streamed; prepared and not. None is
//! reported as damaged, and `innokit recover` turns them into what the tool's own preparation does.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::backup_lab::{Server, WRITTEN, assert_same, contents, is_well, said, says_only, unpack};
use crate::common::{Run, innokit};
use serde_json::Value;

/// Asserts that no damage is reported in an unprepared backup, although pages may be missing.
fn is_not_damaged(server: &Server, name: &str) {
    for words in [&["check"][..], &["table", "check"]] {
        let (status, damage) = said(words, &server.of(name));
        assert!(status != 1 && damage.is_empty(), "{} {name}, not prepared: {words:?}: {damage:#?}", server.kind);
    }
}

/// Recovers the folder `name`, in place.
fn recover(server: &Server, name: &str) -> Run {
    Run::of(&innokit().args(["recover", "--in-place"]).arg(server.of(name)).output().expect("innokit runs"))
}

fn is_prepared(server: &Server, name: &str) {
    let run = recover(server, name);
    assert_eq!(run.status, 0, "{} {name}: {}", server.kind, run.errors);
    assert!(run.text.contains("The backup is prepared"), "{}", run.text);
    let again = recover(server, name);
    assert!(again.status == 0 && again.text.contains("nothing to recover"), "{}{}", again.text, again.errors);
    is_well(server, name);
}

/// Kills recoveries after longer and longer times. A last run must give the same bytes as an undisturbed one.
fn goes_on_when_killed(server: &Server, name: &str, whole: &str) {
    for wait_ms in [1, 4, 8, 12, 16, 24, 40, 80] {
        let mut command = innokit();
        command.args(["recover", "--in-place"]).arg(server.of(name)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("innokit runs");
        std::thread::sleep(Duration::from_millis(wait_ms));
        child.kill().and_then(|()| child.wait()).expect("ends");
    }
    let run = recover(server, name);
    assert_eq!(run.status, 0, "{} {name}: {}", server.kind, run.errors);
    assert_same(server, name, whole, "killed");
}

/// A log whose end is missing is damage, and is found before anything is written.
fn notices_a_log_that_was_cut_off(server: &Server, name: &str) {
    let path = server.of(name).join("ib_logfile0");
    let len = fs::metadata(&path).expect("a log").len();
    fs::File::options().write(true).open(&path).and_then(|log| log.set_len(len - 4096)).expect("cut off");
    server.copy(name, "before");
    let run = recover(server, name);
    assert!(run.status == 1 && run.errors.contains("ends at LSN"), "{} {}: {}", server.kind, run.status, run.errors);
    assert_same(server, name, "before", "it was refused");
}

fn is_recovered_as_the_tool_prepares(server: &Server) {
    for copy in ["ours", "killed", "cut", "theirs"] {
        server.copy("full", copy);
    }
    let dry = innokit().args(["recover", "--dry-run"]).arg(server.of("ours")).output().expect("innokit runs");
    assert!(dry.status.success(), "{}", String::from_utf8_lossy(&dry.stderr));
    assert_same(server, "ours", "full", "a dry run wrote");
    is_prepared(server, "ours");
    goes_on_when_killed(server, "killed", "ours");
    notices_a_log_that_was_cut_off(server, "cut");
    for name in ["databases", "tables"] {
        let copy = format!("{name}.ours");
        server.copy(name, &copy);
        is_prepared(server, &copy);
    }
    unpack(server, "full.xb", "streamed.ours");
    is_prepared(server, "streamed.ours");
    server.prepare("theirs", &[]);
    let files = |name| {
        let mut files = contents(server, name);
        // The server's position in its binary log, which other files of the backup record too.
        files.remove(Path::new("xtrabackup_binlog_pos_innodb"));
        files
    };
    let (ours, theirs) = (files("ours"), files("theirs"));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{}", server.kind);
    assert_eq!(ours[Path::new(server.note())], theirs[Path::new(server.note())], "{}", server.kind);
    assert_eq!(server.tables("ours"), server.tables("theirs"), "{}", server.kind);
}

fn backups_are_sound(kind: &'static str) {
    let mut server = Server::start(kind);
    server.load();
    server.back_up("full", &[]);
    server.back_up("databases", &["--databases=shop"]);
    server.back_up("tables", &["--tables=shop[.]b"]);
    server.script("sql", &[], WRITTEN);
    server.back_up("increment", &[&format!("--incremental-basedir={}", server.of("full").display())]);
    let stream = server.back_up("streamed", &["--stream=xbstream"]);
    fs::write(server.of("full.xb"), stream).expect("written");
    assert!(
        server.load.as_mut().is_some_and(|load| load.try_wait().is_ok_and(|ended| ended.is_none())),
        "{kind}: that was no load"
    );

    for name in ["full", "databases", "tables"] {
        is_not_damaged(&server, name);
    }
    let (status, damage) = said(&["check"], &server.of("full.xb"));
    assert!(status != 1 && damage.is_empty(), "{kind}, streamed: {damage:#?}");
    let (document, status) = crate::common::check_json(&server.of("increment"), &[]);
    // A newly created table has no page on disk when the tool copies it: its pages are in the log.
    let is_made = |finding: &Value| {
        finding["reason"] == "zero_page_in_use" && finding["path"].as_str().is_some_and(|path| path.ends_with(".new"))
    };
    says_only(&document, status, is_made, &format!("{kind}, increment"));
    assert!(crate::common::total(&document, "ok") > 50, "{kind}: {:#}", document["totals"]);

    is_recovered_as_the_tool_prepares(&server);
    server.prepare("full", &[]);
    is_well(&server, "full");
    server.prepare("databases", &[]);
    is_well(&server, "databases");
    server.prepare("tables", &[]);
    is_well(&server, "tables");
    // The tool sometimes fails to apply an increment taken while tables were renamed. `increments` tests quieter ones.
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mariadb_are_not_called_damaged() {
    backups_are_sound("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_the_newest_mariadb_are_not_called_damaged() {
    backups_are_sound("mariadb118");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn backups_of_mariadb_whose_log_is_made_of_blocks_are_not_called_damaged() {
    backups_are_sound("mariadb105");
}

/// The table behind a link file is in the backup. The link's target belongs to the server, which may be running or have damaged it since.
#[test]
fn link_files_of_a_backup_do_not_lead_out_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (backup, live) = (folder.path().join("full"), folder.path().join("live/shop/t.ibd"));
    fs::create_dir_all(backup.join("shop")).expect("made");
    fs::create_dir_all(live.parent().expect("a folder")).expect("made");
    fs::write(backup.join("shop/t.ibd"), crate::common::fixture("mariadb-10.11/dynamic-16k.ibd")).expect("written");
    let mut damaged = fs::read(backup.join("shop/t.ibd")).expect("read");
    damaged[20_000] ^= 1;
    fs::write(&live, damaged).expect("written");
    fs::write(backup.join("shop/t.isl"), live.display().to_string()).expect("written");
    let check = || crate::common::check(&backup, &["--json"]);
    assert_eq!(check().status, 1, "no backup: the link is followed");
    let note = "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 12522526\nlast_lsn = 13993340\n";
    fs::write(backup.join("xtrabackup_checkpoints"), note).expect("written");
    let run = check();
    assert!(run.status != 1 && !run.text.contains("live/shop"), "{}", run.text);
    fs::remove_file(backup.join("shop/t.ibd")).expect("removed");
    let run = check();
    assert!(
        run.status == 2 && run.text.contains("should hold the tablespace of this link file, but does not"),
        "{}",
        run.text
    );
}
