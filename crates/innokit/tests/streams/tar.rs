//! Tar archives, the form most backups are kept in, are read as streams. Redo logs in them are recognised by content.

use std::path::Path;
use std::process::Command;

use crate::common::{Dir, all_datadirs, check, check_json, check_stdin, fixture, reasons, total};
use serde_json::Value;

/// A small datadir with a name too long for a tar header, and a damaged page.
fn datadir(dir: &Dir) {
    let mut damaged = fixture("mysql-9.7/dynamic-16k.ibd");
    damaged[4 * 16384 + 9000] ^= 1;
    dir.file("data/shop/damaged.ibd", &damaged);
    dir.file("data/shop/sound.ibd", &fixture("mariadb-10.11/dynamic-16k.ibd"));
    let long = "a".repeat(180);
    dir.file(&format!("data/{long}/{long}/deep.ibd"), &fixture("mysql-9.7/compact-16k.ibd"));
    dir.file("data/shop/db.opt", b"text");
}

fn tar(dir: &Dir, options: &[&str]) -> Vec<u8> {
    let output =
        Command::new("tar").args(["-c", "-f", "-"]).args(options).arg("-C").arg(dir.path()).arg("data").output();
    let output = output.expect("tar runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn sums(document: &Value) -> Vec<u64> {
    ["pages", "ok", "empty", "corrupt", "unverifiable"].iter().map(|name| total(document, name)).collect()
}

#[test]
fn every_kind_of_tar_has_the_verdict_of_the_directory() {
    let dir = Dir::new();
    datadir(&dir);
    let (expected, _) = check_json(&dir.path().join("data"), &[]);
    let mut archives = Vec::new();
    for format in ["--format=gnu", "--format=pax"] {
        archives.push(tar(&dir, &[format]));
    }
    archives.push(zstd::encode_all(archives[0].as_slice(), 1).expect("packed"));
    let gzip = Command::new("gzip").arg("-c").arg(dir.file("a.tar", &archives[1])).output().expect("gzip runs");
    archives.push(gzip.stdout);
    archives.push(lz4(&archives[0]));
    for (number, archive) in archives.iter().enumerate() {
        let (document, status) = check_json(&dir.file("b.tar", archive), &[]);
        assert_eq!((status, sums(&document)), (1, sums(&expected)), "{number}: {:#}", document["findings"]);
        assert_eq!(reasons(&document), ["checksum_mismatch"], "{number}");
        let path = document["findings"][0]["path"].as_str().expect("a path");
        assert!(path.ends_with("b.tar: data/shop/damaged.ibd"), "{path}");
        assert_eq!(document["hurt"][0]["table"], "shop.damaged");
        let piped = check_stdin(archive, &["--json"]).json();
        assert_eq!(sums(&piped), sums(&expected), "{number}");
    }
    // Without the name that is too long for ustar.
    std::fs::remove_dir_all(dir.path().join("data").join("a".repeat(180))).expect("removed");
    let (expected, _) = check_json(&dir.path().join("data"), &[]);
    let (document, _) = check_json(&dir.file("b.tar", &tar(&dir, &["--format=ustar"])), &[]);
    assert_eq!(sums(&document), sums(&expected));
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

#[test]
fn a_tar_that_is_cut_or_damaged_is_damage_and_what_came_before_is_reported() {
    let dir = Dir::new();
    datadir(&dir);
    let whole = tar(&dir, &[]);
    // Cut in the middle of a member; the last cut removes the end mark.
    for len in [whole.len() / 2 + 100, 700, 1000] {
        let (document, status) = check_json(&dir.file("cut.tar", &whole[..len]), &[]);
        assert_eq!(status, 1, "{len}");
        assert!(reasons(&document).contains(&"archive_cut"), "{len}: {:?}", reasons(&document));
        // The tables do need what is missing.
        let hurt = document["hurt"].as_array().expect("a list");
        assert!(hurt.iter().any(|row| row["action"] == "replace_archive"), "{len}: {hurt:#?}");
    }
    // After the directory "data/" comes a header.
    let mut damaged = whole.clone();
    damaged[512 + 10] ^= 0x20;
    let (document, status) = check_json(&dir.file("bad.tar", &damaged), &[]);
    assert_eq!((status, reasons(&document)), (1, vec!["archive_damaged"]));
    let end = whole.iter().rposition(|byte| *byte != 0).expect("bytes") / 512 * 512 + 512;
    let (document, _) = check_json(&dir.file("open.tar", &whole[..end]), &[]);
    assert!(reasons(&document).contains(&"archive_cut"), "{:?}", reasons(&document));
}

#[test]
fn a_sparse_member_is_undecided_and_said_so() {
    let dir = Dir::new();
    let path = dir.file("data/shop/t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    std::fs::OpenOptions::new().write(true).open(path).expect("opens").set_len(64 << 20).expect("grows");
    for format in ["--format=gnu", "--format=pax"] {
        let run = check(&dir.file("s.tar", &tar(&dir, &["--sparse", format])), &[]);
        // A file system without sparse files has no holes to skip.
        if run.text.contains("a sparse file") {
            assert_eq!(run.status, 2, "{format}: {}", run.text);
        } else {
            assert_eq!(run.status, 0, "{format}: {}", run.text);
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_redo_log_is_known_by_its_content() {
    let dir = Dir::new();
    let log = |folder: &Path, prefix: &str| {
        let files = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
        let is_log = |path: &std::path::PathBuf| {
            let name = path.file_name().expect("a name").to_string_lossy();
            name.starts_with(prefix) && !name.ends_with("_tmp")
        };
        std::fs::read(files.filter(is_log).min().expect("a log")).expect("a file")
    };
    let mysql = log(&all_datadirs().join("mysql-16k/#innodb_redo"), "#ib_redo");
    let mariadb = log(&all_datadirs().join("mariadb-16k"), "ib_logfile0");
    for (name, bytes) in [("mysql.copy", &mysql), ("mariadb.copy", &mariadb)] {
        let (document, status) = check_json(&dir.file(name, bytes), &[]);
        assert_eq!((status, total(&document, "corrupt")), (0, 0), "{name}: {:#}", document["findings"]);
        assert_eq!(document["files"][0]["kind"], "redo log", "{name}");
    }
    let run = check_stdin(&mariadb, &["--json"]);
    assert_eq!((total(&run.json(), "corrupt"), total(&run.json(), "pages")), (0, 0), "{}", run.text);
    let run = check_stdin(&mysql, &[]);
    assert_eq!(run.status, 2);
    assert!(run.text.contains("a redo log, which cannot be verified in a stream"), "{}", run.text);
}
