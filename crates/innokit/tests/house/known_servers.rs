//! The servers that this build was made for: the program's table is the one that users read, and newer servers are refused by name.

use std::fs;
use std::path::{Path, PathBuf};

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

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_of_a_newer_server_is_undecided_and_nothing_is_written() {
    for (datadir, old, new) in [
        ("mariadb-16k-crashed", "MariaDB 11.8.9", "MariaDB 13.0.1"),
        ("mysql-16k-crashed", "MySQL 9.7.4", "MySQL 26.7.0"),
    ] {
        let (dir, known) = made_by(datadir, old);
        let run = check(&known, &["--json"]);
        assert!(!reasons(&run.json()).contains(&"newer_server"), "{}", run.text);
        let target = dir.path().join("new");
        let recover =
            |from: &Path, to: &Path| innokit().arg("recover").arg(from).arg("--to").arg(to).output().expect("runs");
        assert!(recover(&known, &target).status.success());

        let (dir, newer) = made_by(datadir, new);
        let run = check(&newer, &[]);
        let release = new.rsplit_once('.').expect("a patch level").0;
        let words = format!("made by {release}: this build knows");
        assert_eq!((run.status, run.text.matches(&words).count()), (2, 1), "{}", run.text);
        let target = dir.path().join("new");
        let run = recover(&newer, &target);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && errors.contains(&words), "{errors}");
        assert!(!target.exists(), "nothing is made");
    }
}

/// MariaDB 13.0 with `innodb_log_archive=ON`, which no registry has.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_log_kept_as_an_archive_is_named() {
    let dir = Dir::new();
    let datadir = dir.path().join("copied");
    copy(&all_datadirs().join("mariadb-16k-crashed"), &datadir);
    fs::rename(datadir.join("ib_logfile0"), datadir.join("ib_0000000000003000.log")).expect("renamed");
    let words = "its redo log is kept as an archive, up to now in ib_0000000000003000.log (innodb_log_archive=ON, MariaDB 13.0)";
    let run = check(&datadir, &[]);
    assert!(run.status == 2 && run.text.contains(words), "{}", run.text);
    let path = datadir.to_str().expect("text");
    let (new, archive) = (dir.path().join("new"), dir.path().join("archive"));
    let (new, archive) = (new.to_str().expect("text"), archive.to_str().expect("text"));
    let commands: [&[&str]; 3] = [
        &["recover", path, "--to", new],
        &["redo", "info", path],
        &["redo", "archive", "--once", "--to", archive, path],
    ];
    for command in commands {
        let run = innokit().args(command).output().expect("innokit runs");
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && errors.contains(words), "{command:?}: {errors}");
    }
    assert!(!Path::new(new).exists());
}
