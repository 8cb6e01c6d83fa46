//! The servers that this build was made for: the program's table is the one that users read, and newer servers are refused by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use datadir::known_servers::KNOWN_SERVERS;

use crate::common::{Dir, all_datadirs, check, copy, innokit, reasons, repository};

#[test]
fn the_page_of_servers_has_the_program_s_table() {
    let text = fs::read_to_string(repository().join("docs/servers.md")).expect("readable");
    let rows = KNOWN_SERVERS.map(|known| {
        let ((major, minor), (to, last)) = known.releases;
        let (kind, tested, jobs) = (known.kind.name(), known.tested, known.jobs);
        format!("| {kind} {major}.{minor} to {to}.{last} | {tested} | {jobs} |\n")
    });
    assert!(text.contains(&rows.concat()), "docs/servers.md should have\n{}", rows.concat());
}

#[test]
fn guides_promise_no_later_servers() {
    let pages = fs::read_dir(repository().join("docs")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let pages =
        pages.chain([repository().join("README.md")]).filter(|path| path.extension().is_some_and(|is| is == "md"));
    for page in pages {
        let text = fs::read_to_string(&page).expect("readable");
        for line in text.lines().filter(|line| line.contains("and later")) {
            let is_of_server = ["MariaDB", "MySQL", "8.0", "10.", "11."].iter().any(|name| line.contains(name));
            assert!(!is_of_server, "{}: {line}", page.display());
        }
    }
}

/// The files of a log.
fn log_files(datadir: &Path) -> Vec<PathBuf> {
    let ring = datadir.join("ib_logfile0");
    if ring.exists() {
        return vec![ring];
    }
    let files =
        fs::read_dir(datadir.join("#innodb_redo")).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.filter(|path| !path.to_string_lossy().ends_with("_tmp")).collect()
}

/// Has another server's name in the log of a copy, with the header's right checksum.
fn made_by(datadir: &str, maker: &str) -> (Dir, PathBuf) {
    let dir = Dir::new();
    let copied = dir.path().join("copied");
    copy(&all_datadirs().join(datadir), &copied);
    for path in log_files(&copied) {
        let mut bytes = fs::read(&path).expect("readable");
        bytes[16..48].fill(0);
        bytes[16..16 + maker.len()].copy_from_slice(maker.as_bytes());
        let sum = format::checksum::crc32c(&bytes[..508]);
        bytes[508..512].copy_from_slice(&sum.to_be_bytes());
        fs::write(&path, bytes).expect("written");
    }
    (dir, copied)
}

fn recovered(from: &Path, to: &Path) -> Output {
    innokit().arg("recover").arg(from).arg("--to").arg(to).output().expect("innokit runs")
}

/// `check` says once that the datadir is of a newer server, and `recover` makes nothing.
fn is_undecided_and_not_recovered(datadir: &Path, release: &str, target: &Path) {
    let words = format!("made by {release}: this build knows");
    let run = check(datadir, &[]);
    assert_eq!((run.status, run.text.matches(&words).count()), (2, 1), "{}", run.text);
    let run = recovered(datadir, target);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && errors.contains(&words), "{errors}");
    assert!(!target.exists(), "nothing is made");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_of_a_newer_server_is_undecided_and_nothing_is_written() {
    for (datadir, old, new) in [
        ("mariadb-16k-crashed", "MariaDB 13.0.1", "MariaDB 13.1.1"),
        ("mysql-16k-crashed", "MySQL 9.7.4", "MySQL 26.7.0"),
    ] {
        let (dir, known) = made_by(datadir, old);
        let run = check(&known, &["--json"]);
        assert!(!reasons(&run.json()).contains(&"newer_server"), "{}", run.text);
        assert!(recovered(&known, &dir.path().join("new")).status.success());

        let (dir, newer) = made_by(datadir, new);
        is_undecided_and_not_recovered(&newer, new.rsplit_once('.').expect("a patch level").0, &dir.path().join("new"));
    }
}

/// The files of a datadir say so too: the first page of MySQL's dictionary, and MariaDB's note about the last upgrade.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_datadir_of_a_newer_server_is_undecided_whatever_its_log_says() {
    for (datadir, release) in [("mariadb-16k", "MariaDB 13.1"), ("mysql-16k", "MySQL 26.7")] {
        let dir = Dir::new();
        let copied = dir.path().join("copied");
        copy(&all_datadirs().join(datadir), &copied);
        assert!(!reasons(&check(&copied, &["--json"]).json()).contains(&"newer_server"), "{datadir}");
        let dictionary = copied.join("mysql.ibd");
        if dictionary.exists() {
            let mut bytes = fs::read(&dictionary).expect("readable");
            bytes[8..12].copy_from_slice(&260_700_u32.to_be_bytes());
            let page = &mut bytes[..16 << 10];
            // CRC-32C of the page but for its checksums, as MySQL has it in both places.
            let end = page.len() - 8;
            let sum = format::checksum::crc32c(&page[4..26]) ^ format::checksum::crc32c(&page[38..end]);
            page[..4].copy_from_slice(&sum.to_be_bytes());
            page[end..end + 4].copy_from_slice(&sum.to_be_bytes());
            fs::write(&dictionary, bytes).expect("written");
        } else {
            fs::write(copied.join("mariadb_upgrade_info"), "13.1.2-MariaDB").expect("written");
        }
        is_undecided_and_not_recovered(&copied, release, &dir.path().join("new"));
    }
}

/// A server that is killed while it changes `innodb_log_archive` leaves a ring under the name of an archive (`log_t::set_archive`), and
/// recovers it as the ring that it is (`recv_sys_t::find_checkpoint`).
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_ring_under_the_name_of_an_archive_is_the_ring_that_it_is() {
    let dir = Dir::new();
    let (datadir, ring) = (dir.path().join("copied"), dir.path().join("ring"));
    copy(&all_datadirs().join("mariadb-16k-crashed"), &ring);
    copy(&ring, &datadir);
    fs::rename(datadir.join("ib_logfile0"), datadir.join("ib_0000000000003000.log")).expect("renamed");
    let (of_ring, run) = (check(&ring, &["--json"]), check(&datadir, &["--json"]));
    assert_eq!((run.status, reasons(&run.json())), (of_ring.status, reasons(&of_ring.json())), "{}", run.text);
    let path = datadir.to_str().expect("text");
    let (new, archive) = (dir.path().join("new"), dir.path().join("archive"));
    let (new, archive) = (new.to_str().expect("text"), archive.to_str().expect("text"));
    let run = innokit().args(["recover", path, "--to", new]).output().expect("innokit runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let run = innokit().args(["redo", "info", "--json", new]).output().expect("innokit runs");
    let info: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!((&info["format"], &info["state"]), (&"10.8 and later".into(), &"clean".into()));
    let run = innokit().args(["redo", "archive", "--once", "--to", archive, path]).output().expect("innokit runs");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && errors.contains("the server keeps its redo log itself"), "{errors}");
}
