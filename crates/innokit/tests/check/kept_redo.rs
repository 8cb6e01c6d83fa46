//! A redo log that MariaDB 13.0 keeps as an archive, written by the rules of its sources: `check` and `redo info`.

use std::fs;
use std::path::Path;

use crate::common::{Dir, all_datadirs, check, copy, innokit, reasons};
use crate::kept_lab::{Kept, keep};

fn redo_info(path: &Path) -> serde_json::Value {
    let run = innokit().args(["redo", "info", "--json"]).arg(path).output().expect("innokit runs");
    serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&run.stderr)))
}

/// A crashed server's datadir, and the same with its log kept as an archive.
fn kept() -> (Dir, Kept) {
    let dir = Dir::new();
    let (ring, kept) = (dir.path().join("ring"), dir.path().join("kept"));
    copy(&all_datadirs().join("mariadb-16k-crashed"), &ring);
    copy(&ring, &kept);
    let log = keep(&kept, 1000);
    (dir, log)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn it_is_verified_and_described_like_the_ring_it_was() {
    let (dir, log) = kept();
    let (ring, kept) = (dir.path().join("ring"), dir.path().join("kept"));
    let (of_ring, of_kept) = (redo_info(&ring), redo_info(&kept));
    for field in ["checkpoint", "end_lsn", "bytes", "mtrs", "pages", "records", "tablespaces", "state"] {
        assert_eq!(of_kept[field], of_ring[field], "{field}");
    }
    assert_eq!(of_kept["format"], "13.0, kept as an archive");
    assert!(log.files.len() > 1, "the log is in several files");
    assert_eq!(redo_info(&log.files[0])["end_lsn"], of_ring["end_lsn"], "one file leads to all");
    let (of_ring, of_kept) = (check(&ring, &["--json"]), check(&kept, &["--json"]));
    assert_eq!(of_kept.status, of_ring.status, "{}", of_kept.text);
    assert_eq!(reasons(&of_kept.json()), reasons(&of_ring.json()));
    let info = innokit().arg("info").arg(&log.files[0]).output().expect("innokit runs");
    let text = String::from_utf8_lossy(&info.stdout);
    assert!(text.contains("MariaDB redo log kept as an archive, 1 checkpoint"), "{text}");
    // Left from before the server kept its log as a ring again.
    fs::copy(ring.join("ib_logfile0"), kept.join("ib_logfile0")).expect("copied");
    assert_eq!(redo_info(&kept)["format"], "10.8 and later");
    assert_eq!(check(&kept, &[]).status, of_ring.status);
}

/// What breaks a file, the reason of the finding, and the exit status.
type Case = (&'static str, fn(&Kept), &'static str, i32);

fn change(path: &Path, act: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("readable");
    act(&mut bytes);
    fs::write(path, bytes).expect("written");
}

fn next(log: &Kept) -> std::path::PathBuf {
    log.files[0].with_file_name(format!("ib_{:016x}.log", log.next))
}

const CASES: [Case; 12] = [
    ("a flipped bit", |log| change(&log.files[1], |file| file[1 << 20] ^= 1), "mini_transaction", 1),
    ("a hole", |log| change(&log.files[0], |file| file[2 << 20..][..100_000].fill(0)), "mini_transaction", 1),
    ("an entry outside", |log| change(&log.files[0], |file| file[..8].fill(0xff)), "redo_no_checkpoint", 1),
    ("no entry", |log| change(&log.files[0], |file| file[..8].fill(0)), "redo_no_checkpoint", 1),
    ("an entry that leads elsewhere", |log| change(&log.files[0], |file| file[7] ^= 1), "redo_no_checkpoint", 1),
    ("a second entry that leads nowhere", |log| change(&log.files[0], |file| file[15] = 1), "redo_header", 1),
    ("a header that is none", |log| change(&log.files[1], |file| file[..8].fill(0xff)), "redo_header", 1),
    ("cut off", |log| change(&log.files[1], |file| file.truncate(1 << 20)), "redo_files", 1),
    ("the first file is gone", |log| fs::remove_file(&log.files[0]).expect("removed"), "redo_no_checkpoint", 1),
    (
        "encrypted",
        |log| change(&log.files[0], |file| file[..8].copy_from_slice(&1_u64.to_be_bytes())),
        "unknown_format",
        2,
    ),
    ("a preview's", |log| change(&log.files[0], |file| file.copy_within(4..8, 0)), "unknown_format", 2),
    ("one just made", |log| fs::write(next(log), "").expect("written"), "redo_files", 0),
];

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn each_broken_field_has_its_verdict() {
    let (dir, log) = kept();
    // The files of the log alone are checked in no time.
    for (what, act, reason, status) in CASES {
        let alone = Dir::new();
        let files: Vec<_> = log.files.iter().map(|file| alone.path().join(file.file_name().expect("a name"))).collect();
        for (from, to) in log.files.iter().zip(&files) {
            fs::copy(from, to).expect("copied");
        }
        act(&Kept { files, ..log });
        let run = check(alone.path(), &["--json"]);
        assert_eq!(run.status, status, "{what}: {}", run.text);
        let json = run.json();
        let found = reasons(&json);
        assert!(reason.is_empty() || found.contains(&reason), "{what}: {found:?}");
    }
    drop(dir);
}
