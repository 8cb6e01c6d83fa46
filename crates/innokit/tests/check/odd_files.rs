//! Every kind of odd file that a directory can contain: one clear line about each, and the rest of the run still completes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    Dir, Run, all_datadirs, check, check_json, check_stdin, copy, fixture, innokit, noise, reasons, total,
};

const SAMPLE: &str = "mysql-9.7/dynamic-16k.ibd";

/// A directory with one intact tablespace, which every test below expects to be checked as well.
fn dir_with_sample() -> Dir {
    let dir = Dir::new();
    dir.file("shop/sound.ibd", &fixture(SAMPLE));
    dir
}

/// The lines of the text output that name `file`.
fn lines_about(path: &Path, file: &str) -> Vec<String> {
    let run = check(path, &[]);
    run.text.lines().filter(|line| line.contains(&format!("{file}: "))).map(str::to_owned).collect()
}

fn sample_pages() -> u64 {
    fixture(SAMPLE).len() as u64 / 16384
}

#[test]
fn an_empty_tablespace_is_damage_and_the_others_are_still_checked() {
    let dir = dir_with_sample();
    dir.file("shop/empty.ibd", b"");
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 1);
    assert_eq!(reasons(&document), ["empty_file"]);
    assert_eq!(total(&document, "pages"), sample_pages());
    assert_eq!(lines_about(dir.path(), "empty.ibd").len(), 1);
}

#[test]
fn a_truncated_tablespace_names_what_is_missing() {
    let dir = Dir::new();
    let whole = fixture(SAMPLE);
    let path = dir.file("cut.ibd", &whole[..whole.len() - 2 * 16384]);
    let (document, status) = check_json(&path, &[]);
    assert_eq!(status, 1);
    assert_eq!(reasons(&document), ["truncated"]);
    assert_eq!(total(&document, "missing"), 2);
    assert_eq!(document["findings"][0]["page"].as_u64(), Some(sample_pages() - 2));
}

/// Every page of such a file is sound, and each number is off by the same amount, as after `dd skip=1`.
#[test]
fn a_tablespace_without_its_first_pages_is_damage() {
    for (name, size) in [(SAMPLE, 16384), ("mysql-9.7/zip-8k.ibd", 8192), ("mariadb-10.11/dynamic-4k.ibd", 4096)] {
        let (dir, whole) = (Dir::new(), fixture(name));
        let pages = whole.len() / size;
        for lost in (1..8).chain([pages / 2, pages - 2, pages - 1]) {
            let path = dir.file("shop/shifted.ibd", &whole[lost * size..]);
            let (document, status) = check_json(&path, &[]);
            assert_eq!(status, 1, "{name} without {lost} pages: {document:#}");
            let as_zeros = [&vec![0; lost * size], &whole[..]].concat();
            assert_eq!(
                check(&dir.file("shop/later.ibd", &as_zeros), &[]).status,
                1,
                "{name}, {lost} pages too far back"
            );
        }
        let path = dir.file("shop/shifted.ibd", &whole[3 * size..]);
        let (document, _) = check_json(&path, &[]);
        assert_eq!(reasons(&document), ["first_pages_missing"]);
        assert_eq!(document["hurt"].as_array().expect("tables").len(), 1, "{document:#}");
    }
    // Only the system tablespace continues in further files.
    let (dir, whole) = (Dir::new(), fixture("mysql-9.7/system-16k.ibd"));
    for (name, status) in [("ibdata1", 1), ("ibdata2", 0), ("more.data", 0)] {
        let run = check(&dir.file(name, &whole[20 * 16384..]), &[]);
        assert_eq!(run.status, status, "{name}: {}", run.text);
        std::fs::remove_file(dir.path().join(name)).expect("removed");
    }
}

#[test]
fn a_cut_in_the_middle_of_a_page_is_reported_with_the_missing_pages() {
    let dir = Dir::new();
    let whole = fixture(SAMPLE);
    let path = dir.file("cut.ibd", &whole[..whole.len() - 16384 - 5000]);
    let (document, status) = check_json(&path, &[]);
    assert_eq!(status, 1);
    assert_eq!(reasons(&document), ["partial_page", "truncated"]);
}

#[test]
fn bytes_behind_the_last_page_are_a_note_and_no_damage() {
    let dir = Dir::new();
    let mut bytes = fixture(SAMPLE);
    bytes.extend_from_slice(b"junk");
    let (document, status) = check_json(&dir.file("odd.ibd", &bytes), &[]);
    assert_eq!(reasons(&document), ["partial_page"]);
    assert_eq!(status, 0);
}

#[test]
fn an_unreadable_file_is_a_failure_and_not_damage() {
    let dir = dir_with_sample();
    let path = dir.file("shop/locked.ibd", &fixture(SAMPLE));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).expect("permissions");
    if std::fs::File::open(&path).is_ok() {
        // Root can read every file, so for root a dangling link takes the place of an unreadable file.
        std::fs::remove_file(&path).expect("removed");
        symlink("nowhere", &path).expect("a link");
    }
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 2);
    assert_eq!(reasons(&document), ["unreadable_file"]);
    assert_eq!(total(&document, "failed_files"), 1);
    assert_eq!(total(&document, "pages"), sample_pages());
    assert_eq!(lines_about(dir.path(), "locked.ibd").len(), 1);
}

#[test]
fn a_path_that_does_not_exist_is_named_and_the_others_are_still_checked() {
    let dir = dir_with_sample();
    let run = crate::common::innokit()
        .args(["check", "--json"])
        .arg(dir.path().join("gone.ibd"))
        .arg(dir.path())
        .output()
        .expect("innokit runs");
    assert_eq!(run.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(total(&document, "pages"), sample_pages());
    assert!(document["findings"][0]["path"].as_str().is_some_and(|path| path.ends_with("gone.ibd")));
}

#[test]
fn damage_wins_over_what_could_not_be_read() {
    let dir = dir_with_sample();
    dir.file("shop/empty.ibd", b"");
    symlink("nowhere", dir.path().join("dangling.ibd")).expect("a link");
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(reasons(&document).len(), 2);
    assert_eq!(status, 1);
}

#[test]
fn a_directory_loop_is_walked_once() {
    let dir = dir_with_sample();
    symlink(dir.path(), dir.path().join("shop/again")).expect("a link");
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 0);
    assert_eq!(total(&document, "files"), 1);
    assert_eq!(total(&document, "skipped_files"), 1);
}

#[test]
fn random_bytes_named_as_a_tablespace_are_damage() {
    let dir = dir_with_sample();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(200_000)
    .collect();
    dir.file("shop/noise.ibd", &noise);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 1);
    assert_eq!(reasons(&document), ["not_a_tablespace"]);
    assert_eq!(lines_about(dir.path(), "noise.ibd").len(), 1);
}

#[test]
fn a_temporary_tablespace_that_was_never_written_harms_nobody() {
    let dir = dir_with_sample();
    dir.file("ibtmp1", &[0; 12 << 20]);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((reasons(&document), status), (vec!["temporary_tablespace"], 0));
    assert_eq!(total(&document, "failed_files"), 0);
    assert_eq!(total(&document, "pages"), sample_pages());
}

#[test]
fn a_program_named_as_a_tablespace_is_recognised_as_none() {
    let dir = dir_with_sample();
    let program = std::fs::read(std::env::current_exe().expect("this test")).expect("readable");
    dir.file("shop/program.ibd", &program);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 1);
    assert_eq!(reasons(&document), ["not_a_tablespace"]);
    assert_eq!(total(&document, "failed_files"), 1);
    assert_eq!(total(&document, "pages"), sample_pages());
}

#[test]
fn other_files_of_a_datadir_are_skipped_and_counted() {
    let dir = dir_with_sample();
    for name in ["aria_log_control", "shop/t.frm", "ib_buffer_pool", "shop/db.opt", "error.log.gz"] {
        dir.file(name, &[7; 5000]);
    }
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 0);
    assert_eq!(total(&document, "skipped_files"), 5);
    assert_eq!(total(&document, "files"), 1);
}

#[test]
fn a_tablespace_under_a_strange_name_is_recognised_by_its_content() {
    let dir = Dir::new();
    dir.file("restore/t1.copy", &fixture(SAMPLE));
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 0);
    assert_eq!(total(&document, "pages"), sample_pages());
}

#[test]
fn holes_behind_the_end_of_the_space_are_empty_pages() {
    let dir = Dir::new();
    let path = dir.file("sparse.ibd", &fixture(SAMPLE));
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opens");
    file.set_len(1 << 30).expect("grows");
    let (document, status) = check_json(&path, &[]);
    assert_eq!(status, 0);
    assert_eq!(total(&document, "pages"), (1 << 30) / 16384);
    assert_eq!(total(&document, "bytes"), 1 << 30);
}

#[test]
fn nothing_on_standard_input_is_said_so() {
    let run = check_stdin(b"", &[]);
    assert_eq!(run.status, 2);
    assert!(run.text.contains("-: undecided: the file is empty"), "{}", run.text);
}

#[test]
fn standard_input_gives_the_same_verdict_as_the_file() {
    let dir = Dir::new();
    let mut bytes = fixture(SAMPLE);
    bytes[3 * 16384 + 200] ^= 1;
    let (of_file, _) = check_json(&dir.file("t.ibd", &bytes), &[]);
    let run = check_stdin(&bytes, &["--json"]);
    let of_stream = run.json();
    assert_eq!(run.status, 1);
    assert_eq!(reasons(&of_stream), reasons(&of_file));
    for name in ["pages", "ok", "empty", "corrupt", "unverifiable", "bytes"] {
        assert_eq!(total(&of_stream, name), total(&of_file, name), "{name}");
    }
}

#[test]
fn a_stream_cut_short_is_truncated() {
    let bytes = fixture(SAMPLE);
    let run = check_stdin(&bytes[..bytes.len() - 16384], &["--json"]);
    assert_eq!(run.status, 1);
    assert_eq!(reasons(&run.json()), ["truncated"]);
}

#[test]
fn a_damaged_first_page_does_not_hide_the_rest() {
    let dir = Dir::new();
    let mut bytes = fixture(SAMPLE);
    bytes[..16384].fill(0);
    let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
    assert_eq!(status, 1);
    assert_eq!(total(&document, "pages"), sample_pages());
    assert_eq!(reasons(&document), ["zero_page_in_use"]);
    assert_eq!(total(&document, "corrupt"), 1);
}

/// Stops the thread however the test ends: joining it would otherwise never return.
struct StopsAtItsEnd<'s>(&'s AtomicBool);

impl Drop for StopsAtItsEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Like a table being rebuilt: its file is now under its own name, now under another, now gone from where the walk saw it.
#[test]
fn a_table_that_is_renamed_while_a_live_check_looks_is_no_alarm() {
    let dir = Dir::new();
    for number in 0..40 {
        dir.file(&format!("t{number}.ibd"), &fixture(SAMPLE));
    }
    let (name, backup) = (dir.path().join("t20.ibd"), dir.path().join("#sql-backup-20.ibd"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&name, &backup).expect("renamed");
                std::thread::yield_now();
                std::fs::rename(&backup, &name).expect("renamed back");
            }
        });
        let _stops = StopsAtItsEnd(&stop);
        for _ in 0..40 {
            let (document, status) = check_json(dir.path(), &["--live"]);
            assert_eq!((status, total(&document, "corrupt")), (0, 0), "{:#}", document["findings"]);
        }
    });
    let gone = dir.path().join("no-such-table.ibd");
    assert_eq!(check_json(&gone, &["--live"]).1, 2, "what the user names has to be there");
    symlink(&gone, dir.path().join("linked.ibd")).expect("a link");
    assert_eq!(check_json(dir.path(), &["--live"]).1, 2, "a link that leads nowhere is not on its way");
}

/// A server that is killed while it creates a table may leave a file that the dictionary does not name. Servers were started beside each of
/// these: all start, except MySQL beside the last, in which it looks for a space id.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_file_that_no_table_uses_and_that_was_never_written_is_not_damaged() {
    for (datadir, minds_noise) in [("mariadb-16k", false), ("mysql-16k", true)] {
        let dir = Dir::new();
        let data = dir.path().join("data");
        copy(&all_datadirs().join(datadir), &data);
        let late = data.join("shop/late.ibd");
        let shapes = [(Vec::new(), false), (vec![0; 7 * 16384], false), (noise(7 * 16384), minds_noise)];
        for (content, is_damage) in shapes {
            std::fs::write(&late, &content).expect("written");
            let (document, status) = check_json(&data, &[]);
            let found: Vec<_> = document["findings"].as_array().expect("findings").iter().collect();
            let found: Vec<_> = found
                .iter()
                .filter(|finding| finding["path"].as_str().is_some_and(|path| path.ends_with("late.ibd")))
                .collect();
            let expected = if is_damage { ("damage", "not_a_tablespace") } else { ("notice", "orphan_file") };
            assert_eq!(found.len(), 1, "{datadir}: {found:?}");
            assert_eq!(
                (found[0]["severity"].as_str(), found[0]["reason"].as_str()),
                (Some(expected.0), Some(expected.1))
            );
            assert_eq!(status, i32::from(is_damage), "{datadir}: {document:#}");
            // Beside a server, the dictionary on disk may not have the table yet.
            let (document, status) = check_json(&data, &["--live"]);
            let beside: Vec<_> = document["findings"].as_array().expect("findings").iter().collect();
            let severity = |severity: &str| beside.iter().filter(|finding| finding["severity"] == severity).count();
            let counted = (severity("damage"), severity("undecided"), status);
            assert_eq!(counted, if is_damage { (1, 0, 1) } else { (0, 1, 2) }, "{datadir}: {document:#}");
            let table = Run::of(&innokit().args(["table", "check"]).arg(&data).output().expect("innokit runs"));
            let is_noise = content.iter().any(|byte| *byte != 0);
            assert_eq!(table.status, if is_noise { 2 } else { 0 }, "{datadir}: {}{}", table.text, table.errors);
        }
        // The same in a table's place.
        std::fs::remove_file(&late).expect("removed");
        std::fs::write(data.join("shop/row_dynamic.ibd"), b"").expect("emptied");
        let (document, status) = check_json(&data, &[]);
        assert!(status == 1 && reasons(&document).contains(&"empty_file"), "{datadir}: {document:#}");
    }
}
