//! The same input gives byte-identical output with any number of workers, engine, mode and block size.

use crate::common::{Dir, check, fixture, manifest};

/// Intact, damaged, odd and foreign files, some larger than a block.
fn mixed_directory() -> Dir {
    let dir = Dir::new();
    for folder in ["mysql-9.7", "mariadb-10.11", "broken"] {
        for entry in manifest(folder) {
            dir.file(&entry.name, &entry.bytes());
        }
    }
    dir.file("empty.ibd", b"");
    dir.file("notes.txt", b"not a tablespace");
    let mut zeroed = fixture("mysql-9.7/undo-16k.ibd");
    zeroed[40 * 16384..].fill(0);
    dir.file("zeroed/undo_001", &zeroed);
    dir
}

/// The text without the line with the time.
fn text(dir: &Dir, options: &[&str]) -> String {
    let run = check(dir.path(), &[options, &["--verbose"]].concat());
    let lines = run.text.lines().filter(|line| !line.starts_with("time "));
    format!("{}\nexit {}", lines.collect::<Vec<_>>().join("\n"), run.status)
}

/// The document without `seconds`.
fn json(dir: &Dir, options: &[&str]) -> String {
    let run = check(dir.path(), &[options, &["--json"]].concat());
    let lines = run.text.lines().filter(|line| !line.contains("\"seconds\"") && !line.contains("\"started_at\""));
    format!("{}\nexit {}", lines.collect::<Vec<_>>().join("\n"), run.status)
}

#[test]
fn output_does_not_depend_on_how_the_bytes_came() {
    let dir = mixed_directory();
    let (first_text, first_json) = (text(&dir, &["--threads", "1"]), json(&dir, &["--threads", "1"]));
    assert!(first_text.contains("DAMAGE FOUND") && first_text.lines().count() > 60, "{first_text}");
    for threads in ["1", "2", "8"] {
        for engine in ["uring", "threads"] {
            for (io, block_size) in
                [("auto", "64K"), ("direct", "64K"), ("direct", "1M"), ("buffered", "192K"), ("auto", "4M")]
            {
                let options = ["--threads", threads, "--engine", engine, "--io", io, "--block-size", block_size];
                assert_eq!(text(&dir, &options), first_text, "{options:?}");
                assert_eq!(json(&dir, &options), first_json, "{options:?}");
            }
        }
    }
}

#[test]
fn the_first_findings_are_kept_and_all_are_counted() {
    let dir = mixed_directory();
    let all = crate::common::check_json(dir.path(), &[]).0;
    for threads in ["1", "8"] {
        let few = crate::common::check_json(dir.path(), &["--max-findings", "5", "--threads", threads]).0;
        let listed = few["findings"].as_array().expect("findings");
        assert_eq!(listed.as_slice(), &all["findings"].as_array().expect("findings")[..5]);
        assert_eq!(few["totals"]["findings"], all["totals"]["findings"]);
        assert_eq!(few["totals"]["corrupt"], all["totals"]["corrupt"]);
    }
}

/// Files in memory are on another device and so have their own cursor. Without such a place, both are on one device.
#[test]
fn output_does_not_depend_on_how_many_devices_the_files_are_on() {
    let dir = mixed_directory();
    dir.file("zeroed/second.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let on_one_device = json(&dir, &["--threads", "2"]);
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory");
    let folder = dir.path().join("zeroed");
    for name in ["undo_001", "second.ibd"] {
        std::fs::copy(folder.join(name), place.path().join(name)).expect("copied");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    std::os::unix::fs::symlink(place.path(), &folder).expect("a link in its place");
    for threads in ["1", "2", "8"] {
        assert_eq!(json(&dir, &["--threads", threads]), on_one_device, "{threads} workers");
    }
}
