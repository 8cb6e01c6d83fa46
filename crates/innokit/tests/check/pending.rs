//! Work that is left for the server's next start: crash recovery, and rollback of transactions that a crash cut off. Until then rows and
//! counts are not final, and innokit says so.

use std::path::{Path, PathBuf};

use crate::broken_table::{Ibd, seal};
use crate::common::{CRASHED, Dir, Run, all_datadirs, fixture, innokit};
use format::SpaceFormat;
use tempfile::TempDir;

/// Runs `innokit COMMAND OPTIONS PATH`.
fn run(command: &[&str], path: &Path) -> Run {
    Run::of(&innokit().args(command).arg(path).output().expect("innokit runs"))
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_crashed_datadir_is_said_to_await_recovery_in_one_line() {
    for name in CRASHED {
        let datadir = all_datadirs().join(name);
        for command in [&["check"][..], &["table", "check"]] {
            let run = run(command, &datadir);
            assert_ne!(run.status, 1, "{name}: {}", run.text);
            let lines = run.text.lines().filter(|line| line.starts_with("pending "));
            let lines: Vec<_> = lines.filter(|line| line.contains("the redo log still has work to do")).collect();
            assert_eq!(lines.len(), 1, "{name}: {}", run.text);
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_counted_before_recovery_are_undecided() {
    for name in CRASHED {
        let datadir = all_datadirs().join(name);
        let counted = run(&["table", "count"], &datadir);
        assert_eq!(counted.status, 2, "{name}: {}", counted.text);
        assert!(counted.text.contains("recovery is pending"), "{name}: {}", counted.text);
        let document = run(&["table", "count", "--json"], &datadir).json();
        let findings = document["findings"].as_array().expect("findings");
        let pending = findings.iter().filter(|finding| finding["rule"] == "recovery_pending").count();
        // Half-written pages may add findings, none of which is damage.
        let is_damage = findings.iter().any(|finding| finding["severity"] == "damage");
        assert!(pending == 1 && !is_damage, "{name}: {findings:?}");
        assert_eq!(document["pending"][0]["path"], datadir.canonicalize().expect("a path").display().to_string());
    }
    // No findings about a server that was stopped.
    let stopped = run(&["table", "count"], &all_datadirs().join("mysql-16k"));
    assert_eq!((stopped.status, stopped.text.contains("pending")), (0, false), "{}", stopped.text);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_beside_a_path_without_a_folder_is_found() {
    let mut command = innokit();
    command.args(["table", "count", "ibdata1"]).current_dir(all_datadirs().join("mysql-16k-crashed"));
    assert_eq!(Run::of(&command.output().expect("innokit runs")).status, 2);
}

#[test]
fn a_tablespace_without_any_tree_is_not_all_well() {
    for (name, size) in [("mariadb-10.11/dynamic-16k.ibd", 16384), ("mysql-9.7/dynamic-16k.ibd", 16384)] {
        let dir = Dir::new();
        let mut bytes = fixture(name);
        let format = SpaceFormat::from_page0(&bytes).expect("a tablespace");
        // A file as a server leaves it right after creating it: no SDI, no inodes, no extent beyond the first.
        bytes.truncate(2 * size);
        let page0 = &mut bytes[..size];
        page0[118..150].fill(0xFF);
        for base in [118, 134] {
            page0[base..base + 4].fill(0);
        }
        page0[10505..10513].fill(0);
        seal(page0, &format);
        let path = dir.file("t.ibd", &bytes);
        for command in ["check", "count"] {
            let run = run(&["table", command], &path);
            assert_ne!(run.status, 0, "{name} {command}: {}", run.text);
            assert!(run.text.contains("the tablespace has no index"), "{name} {command}: {}", run.text);
        }
    }
}

/// A stopped server's whole datadir: any table that the dictionary has and the copy lacks would be reported missing.
fn copied(name: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data");
    crate::common::copy(&all_datadirs().join(name), &data);
    (dir, data)
}

fn number(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(page[at..at + 4].try_into().expect("4 bytes"))
}

/// Gives a rollback segment the undo log of an unfinished transaction, on a former undo page.
fn open_a_transaction(datadir: &Path) {
    let system = std::fs::read(datadir.join("ibdata1")).expect("a system tablespace");
    let trx_sys = &system[5 * 16384..6 * 16384];
    for entry in std::fs::read_dir(datadir).expect("a datadir") {
        let path = entry.expect("an entry").path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("undo")) {
            continue;
        }
        let mut bytes = std::fs::read(&path).expect("an undo tablespace");
        let format = SpaceFormat::from_page0(&bytes).expect("a tablespace");
        // MySQL keeps the pages of rollback segments on page 3, MariaDB on page 5 of the system tablespace.
        let array = number(&bytes, 3 * 16384 + 56);
        let mut slots = (0..128).map(|slot| (number(trx_sys, 56 + 8 * slot), number(trx_sys, 60 + 8 * slot)));
        let named = slots.find(|(space, _)| *space == format.space().0).map(|(_, page)| page);
        let rseg = if bytes[3 * 16384 + 24..][..2] == [0, 21] { Some(array) } else { named };
        // An undo log's first page, recognised by where its header says the last transaction begins.
        let is_first = |page: &[u8]| page[24..26] == [0, 2] && page[56] == 0 && page[58..60] == [0, 86];
        let undo = bytes.chunks_exact(16384).position(is_first);
        let (Some(rseg), Some(undo)) = (rseg, undo) else { continue };
        let page = &mut bytes[undo * 16384..][..16384];
        page[56..58].copy_from_slice(&[0, 1]);
        seal(page, &format);
        let page = &mut bytes[rseg as usize * 16384..][..16384];
        page[72..76].copy_from_slice(&(undo as u32).to_be_bytes());
        seal(page, &format);
        std::fs::write(&path, bytes).expect("written");
        return;
    }
    panic!("no undo log is there");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn rows_against_entries_are_undecided_until_the_server_has_rolled_back() {
    for name in ["mariadb-16k", "mysql-16k"] {
        let (_dir, data) = copied(name);
        let path = data.join("shop/row_compact.ibd");
        let mut ibd = Ibd::at(&path);
        let leaf = ibd.leaves("a")[0];
        let record = ibd.records(leaf)[3];
        ibd.page(leaf)[record - 5] |= 0x20;
        std::fs::write(&path, ibd.sealed()).expect("written");
        let check = || run(&["table", "check", "--extended"], &data);
        let ended = check();
        assert_eq!((ended.status, ended.text.contains("[row_count]")), (1, true), "{name}: {}", ended.text);
        open_a_transaction(&data);
        let open = check();
        let findings = || open.text.lines().filter(|line| line.ends_with(']'));
        assert_eq!((open.status, findings().count() > 0), (2, true), "{name}: {}", open.text);
        let says = |line: &str| line.contains("undecided:") && line.contains("1 transaction waits to be rolled back");
        assert!(findings().all(says), "{name}: {}", open.text);
        // No transaction explains a page with a wrong level.
        let mut ibd = Ibd::at(&path);
        let leaf = ibd.leaves("b")[1];
        ibd.page(leaf)[64..66].copy_from_slice(&[0, 1]);
        std::fs::write(&path, ibd.sealed()).expect("written");
        let broken = check();
        assert_eq!((broken.status, broken.text.contains("[page_level]")), (1, true), "{name}: {}", broken.text);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_undo_tablespace_that_a_crash_left_half_truncated_is_undecided() {
    let (_dir, data) = copied("mysql-16k");
    // A rollback segment page that the descriptors mark as used.
    let path = data.join("undo_001");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[20 * 16384..21 * 16384].fill(0);
    std::fs::write(&path, &bytes).expect("written");
    let damaged = crate::common::check(&data, &[]);
    assert_eq!(damaged.status, 1, "{}", damaged.text);
    // The server recreates the tablespace when it finds this file.
    std::fs::write(data.join("undo_1_trunc.log"), [0; 16384]).expect("written");
    let truncated = crate::common::check(&data, &[]);
    assert_eq!(truncated.status, 2, "{}", truncated.text);
    assert!(truncated.text.contains("the server was truncating this undo tablespace"), "{}", truncated.text);
    // Another tablespace's file does not explain it.
    let log = |number: u32| data.join(format!("undo_{number}_trunc.log"));
    std::fs::rename(log(1), log(2)).expect("renamed");
    assert_eq!(crate::common::check(&data, &[]).status, 1);
    // In the worst case the file does not even say which tablespace it is. Then the truncation log must belong to no other file.
    bytes[..16384].fill(0);
    std::fs::write(&path, bytes).expect("written");
    let of_another = crate::common::check(&data, &[]);
    assert!(of_another.status == 1 && of_another.text.contains("page 0: damage"), "{}", of_another.text);
    std::fs::rename(log(2), log(1)).expect("renamed");
    let emptied = crate::common::check(&data, &[]);
    assert_eq!(emptied.status, 2, "{}", emptied.text);
    assert!(emptied.text.contains("the server was truncating this undo tablespace"), "{}", emptied.text);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_empty_note_of_a_truncation_is_told() {
    let (_dir, data) = copied("mysql-16k");
    assert_eq!(crate::common::check(&data, &[]).status, 0);
    std::fs::write(data.join("undo_1_trunc.log"), []).expect("written");
    let told = crate::common::check(&data, &[]);
    assert!(told.status == 2 && told.text.contains("cannot start"), "{}", told.text);
    // Truncation had not begun, so the file explains no damage in the tablespace.
    let path = data.join("undo_001");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[20 * 16384..21 * 16384].fill(0);
    std::fs::write(&path, &bytes).expect("written");
    assert_eq!(crate::common::check(&data, &[]).status, 1);
}
