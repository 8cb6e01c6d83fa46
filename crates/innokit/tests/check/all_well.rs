//! "All well" must mean all well. Files that a server refuses never pass, and files that it opens are never called damaged: with correct
//! checksums throughout, next to running servers, and with nothing to check.

use std::path::Path;

use crate::common::{
    Dir, Run, all_datadirs, check, check_json, fixture, innokit, is_torn_end, manifest, noise, reasons, total,
};
use format::checksum::full_crc32;
use format::{Algorithm, Lsn, Scheme, SpaceFormat, seal_page};
use serde_json::Value;

const MYSQL: &str = "mysql-9.7/dynamic-16k.ibd";
const MARIADB: &str = "mariadb-10.11/dynamic-16k.ibd";
const PAGE: usize = 16384;

/// Changes a page of a tablespace and recomputes its checksum.
fn edit(bytes: &mut [u8], page: usize, change: impl FnOnce(&mut [u8])) {
    let format = SpaceFormat::from_page0(bytes).expect("a tablespace");
    edit_as(&format, bytes, page, change);
}

fn edit_as(format: &SpaceFormat, bytes: &mut [u8], page: usize, change: impl FnOnce(&mut [u8])) {
    let size = format.physical().bytes();
    let page = &mut bytes[page * size..][..size];
    change(page);
    let lsn = Lsn(u64::from_be_bytes(page[16..24].try_into().expect("8 bytes")));
    let algorithm = if format.scheme() == Scheme::FullCrc32 { Algorithm::FullCrc32 } else { Algorithm::Crc32 };
    seal_page(page, lsn, algorithm, format).expect("sealed");
}

fn put(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn get(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(page[at..at + 4].try_into().expect("4 bytes"))
}

/// A datadir with nothing but a redo log that still has to be applied.
fn dir_with_pending_log() -> Dir {
    let dir = Dir::new();
    let log = std::fs::read(all_datadirs().join("mariadb-16k-crashed/ib_logfile0")).expect("a log");
    dir.file("ib_logfile0", &log);
    dir.file("shop/sound.ibd", &fixture(MARIADB));
    dir
}

/// Whether the log ends in a torn write: that is up to the server that was killed.
fn is_torn(document: &Value) -> bool {
    document["findings"].as_array().expect("findings").iter().any(is_torn_end)
}

/// Severity and reason of each finding about `name`.
fn about<'d>(document: &'d Value, name: &str) -> Vec<(&'d str, &'d str)> {
    let findings = document["findings"].as_array().expect("findings").iter();
    findings
        .filter(|finding| finding["path"].as_str().is_some_and(|path| path.ends_with(name)))
        .map(|finding| (finding["severity"].as_str().expect("text"), finding["reason"].as_str().expect("text")))
        .collect()
}

#[test]
fn every_broken_fixture_is_as_broken_beside_a_server() {
    let entries = manifest("broken");
    assert!(entries.len() >= 20, "{} broken fixtures", entries.len());
    // The runs mostly wait, a second for each page that looks wrong, so run them in parallel.
    for some in entries.chunks(6) {
        std::thread::scope(|scope| {
            for entry in some {
                scope.spawn(|| {
                    let dir = Dir::new();
                    let path = dir.file("t.ibd", &entry.bytes());
                    let ((live, live_status), (still, status)) =
                        (check_json(&path, &["--live"]), check_json(&path, &[]));
                    assert_eq!((reasons(&live), live_status), (reasons(&still), status), "{}", entry.name);
                    assert_eq!(total(&live, "corrupt"), total(&still, "corrupt"), "{}", entry.name);
                });
            }
        });
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn beside_a_server_with_work_to_do_what_nobody_writes_is_damage() {
    let dir = dir_with_pending_log();
    dir.file("shop/noise.ibd", &noise(200_000));
    dir.file("shop/cut.ibd", &fixture(MARIADB)[..4 * PAGE]);
    dir.file("shop/empty.ibd", b"");
    let (document, status) = check_json(dir.path(), &["--live"]);
    assert_eq!(status, 1);
    assert_eq!(about(&document, "noise.ibd"), [("damage", "not_a_tablespace")]);
    assert_eq!(about(&document, "cut.ibd"), [("damage", "truncated")]);
    assert_eq!(about(&document, "empty.ibd"), [("damage", "empty_file")]);
    assert_eq!(about(&document, "sound.ibd"), []);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn files_that_a_server_has_not_flushed_yet_are_counted_and_not_called_well() {
    let dir = dir_with_pending_log();
    for table in 0..3 {
        dir.file(&format!("shop/new{table}.ibd"), &[0; 7 * PAGE]);
    }
    let run = check(dir.path(), &["--live"]);
    assert!(run.text.contains("3 files not flushed yet, not verified"), "{}", run.text);
    let pages = fixture(MARIADB).len() / PAGE;
    let (document, status) = check_json(dir.path(), &["--live"]);
    assert_eq!(total(&document, "pages"), pages as u64, "only those of the sound one");
    assert_eq!(status, if is_torn(&document) { 2 } else { 0 }, "{} {}", run.text, run.errors);
}

/// The flags that a server rejects when flipped, as seen with MySQL 9.7 and MariaDB 10.11 and 11.8 (`header_fields`).
#[test]
fn a_flipped_flag_is_found_and_switches_no_rule_off() {
    for (name, harmless) in [(MYSQL, &[14][..]), (MARIADB, &[5, 6, 7])] {
        let (dir, sound) = (Dir::new(), fixture(name));
        let used = sound.chunks_exact(PAGE).rposition(|page| page.iter().any(|byte| *byte != 0)).expect("a page");
        for bit in 0..32 {
            let mut bytes = sound.clone();
            edit(&mut bytes, 0, |page| put(page, 54, get(page, 54) ^ 1 << bit));
            let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
            assert_eq!(status != 0, !harmless.contains(&bit), "{name}, bit {bit}: {document:#}");
            assert!(reasons(&document).len() <= 1, "{name}, bit {bit}: {document:#}");
            let cut = dir.file("cut.ibd", &bytes[..used * PAGE]);
            assert!(reasons(&check_json(&cut, &[]).0).contains(&"truncated"), "{name}, bit {bit}");
            bytes[used * PAGE..(used + 1) * PAGE].fill(0);
            let zeroed = dir.file("zeroed.ibd", &bytes);
            assert!(reasons(&check_json(&zeroed, &[]).0).contains(&"zero_page_in_use"), "{name}, bit {bit}");
        }
    }
}

#[test]
fn a_flag_that_nobody_knows_may_be_of_a_newer_server_and_is_undecided() {
    for (name, bit) in [(MYSQL, 20), (MARIADB, 9)] {
        let (dir, mut bytes) = (Dir::new(), fixture(name));
        edit(&mut bytes, 0, |page| put(page, 54, get(page, 54) | 1 << bit));
        let run = check(&dir.file("t.ibd", &bytes), &[]);
        assert_eq!(run.status, 2, "{}", run.text);
        assert!(run.text.contains("written by a newer server?"), "{}", run.text);
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn any_unknown_flag_of_a_system_tablespace_is_found() {
    for datadir in ["mariadb-16k", "mariadb-16k-crc32", "mysql-16k"] {
        let dir = Dir::new();
        let sound = std::fs::read(all_datadirs().join(datadir).join("ibdata1")).expect("a file");
        assert_eq!(check_json(&dir.file("ibdata1", &sound), &[]).1, 0, "{datadir}");
        let format = SpaceFormat::from_page0(&sound).expect("a tablespace");
        // MariaDB takes bit 17 for a flag of version 10.1, and clears it.
        for bit in 18..32 {
            let mut bytes = sound.clone();
            edit_as(&format, &mut bytes, 0, |page| put(page, 54, get(page, 54) ^ 1 << bit));
            let (document, status) = check_json(&dir.file("ibdata1", &bytes), &[]);
            assert_eq!((reasons(&document), status), (vec!["unknown_flags"], 2), "{datadir}, bit {bit}");
        }
    }
}

#[test]
fn another_page_laid_over_page_0_is_found() {
    for name in [MYSQL, MARIADB] {
        let (dir, sound) = (Dir::new(), fixture(name));
        let format = SpaceFormat::from_page0(&sound).expect("a tablespace");
        for other in 1..5 {
            let mut bytes = sound.clone();
            bytes.copy_within(other * PAGE..(other + 1) * PAGE, 0);
            edit_as(&format, &mut bytes, 0, |page| put(page, 4, 0));
            let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
            assert_eq!((reasons(&document)[0], status), ("header_space_ids", 1), "{name}, page {other}: {document:#}");
            assert_eq!(total(&document, "damage"), 1, "{name}, page {other}: {document:#}");
        }
    }
}

#[test]
fn a_header_that_forgot_pages_is_found() {
    for name in [MYSQL, MARIADB] {
        let (dir, mut bytes) = (Dir::new(), fixture(name));
        edit(&mut bytes, 0, |page| put(page, 50, 0));
        let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
        assert_eq!((reasons(&document), status), (vec!["data_beyond_space_size"], 1), "{name}");
    }
}

#[test]
fn a_wrong_page_type_where_no_server_looks_is_a_note() {
    for (name, page) in [(MYSQL, 0), (MYSQL, 1), (MARIADB, 0), (MARIADB, 2)] {
        let (dir, mut bytes) = (Dir::new(), fixture(name));
        edit(&mut bytes, page, |page| page[24..26].copy_from_slice(&17855_u16.to_be_bytes()));
        let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
        assert_eq!((reasons(&document), status), (vec!["page_type"], 0), "{name}, page {page}");
    }
}

#[test]
fn a_wrong_space_id_in_page_0_is_told_once() {
    for name in [MYSQL, MARIADB, "mysql-9.7/dynamic-64k.ibd"] {
        let (dir, mut bytes) = (Dir::new(), fixture(name));
        edit(&mut bytes, 0, |page| {
            put(page, 34, 999_999);
            put(page, 38, 999_999);
        });
        let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
        assert_eq!((reasons(&document), status), (vec!["misplaced_page"], 1), "{name}");
        assert_eq!(total(&document, "corrupt"), 1, "{name}");
    }
}

#[test]
fn an_old_page_beyond_the_end_is_a_note() {
    let (dir, mut bytes) = (Dir::new(), fixture(MYSQL));
    bytes.extend_from_within(4 * PAGE..5 * PAGE);
    let (document, status) = check_json(&dir.file("t.ibd", &bytes), &[]);
    let findings = document["findings"].as_array().expect("findings");
    assert_eq!(status, 0, "{document:#}");
    assert!(findings.iter().all(|finding| finding["severity"] == "notice"), "{document:#}");
    assert_eq!((total(&document, "damage"), total(&document, "corrupt")), (0, 0), "{document:#}");
}

/// A table of the datadir `name` with a page LSN past the end of the log, and that log.
fn with_future_page(name: &str, table: &str) -> Dir {
    let (dir, datadir) = (Dir::new(), all_datadirs().join(name));
    let redo = datadir.join("#innodb_redo");
    let logs = if redo.exists() { redo } else { datadir.clone() };
    for entry in std::fs::read_dir(&logs).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let file = entry.file_name().expect("a name").to_string_lossy().into_owned();
        if file.starts_with("#ib_redo") || file == "ib_logfile0" {
            let below = entry.strip_prefix(&datadir).expect("below").to_string_lossy().into_owned();
            dir.file(&below, &std::fs::read(&entry).expect("a file"));
        }
    }
    let mut bytes = std::fs::read(datadir.join(table)).expect("a table");
    dir.file("shop/now.ibd", &bytes);
    edit(&mut bytes, 3, |page| page[16..24].copy_from_slice(&(1_u64 << 40).to_be_bytes()));
    dir.file("shop/future.ibd", &bytes);
    dir
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_page_newer_than_the_log_is_damage_where_the_log_is_whole() {
    for name in ["mysql-16k", "mariadb-16k", "mysql-16k-crashed", "mariadb-16k-crashed"] {
        let dir = with_future_page(name, "shop/digits.ibd");
        let (document, status) = check_json(dir.path(), &[]);
        assert_eq!(about(&document, "now.ibd"), [], "{name}");
        if is_torn(&document) {
            assert_eq!(about(&document, "future.ibd"), [("undecided", "newer_than_log")], "{name}: {document:#}");
            continue;
        }
        assert_eq!((about(&document, "future.ibd"), status), (vec![("damage", "newer_than_log")], 1), "{name}");
        // Given only the table, `check` finds the log by itself.
        let (alone, status) = check_json(&dir.path().join("shop/future.ibd"), &[]);
        assert_eq!((reasons(&alone), status, total(&alone, "corrupt")), (vec!["newer_than_log"], 1, 1), "{name}");
        assert_eq!(check_json(&dir.path().join("shop/now.ibd"), &[]).1, 0, "{name}");
        let (live, _) = check_json(dir.path(), &["--live"]);
        assert_eq!(about(&live, "future.ibd"), [("undecided", "newer_than_log")], "{name}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn where_the_log_ends_in_a_torn_write_a_newer_page_is_undecided() {
    let dir = with_future_page("mysql-16k-crashed", "shop/digits.ibd");
    let newest = std::fs::read_dir(dir.path().join("#innodb_redo")).expect("a folder").count();
    assert!(newest > 0);
    let mut torn = 0;
    for entry in std::fs::read_dir(dir.path().join("#innodb_redo")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let mut bytes = std::fs::read(&path).expect("a file");
        // The block after the last one written: half of a write.
        let Some(end) = bytes.chunks_exact(512).skip(4).position(|block| block.iter().all(|byte| *byte == 0)) else {
            continue;
        };
        bytes[(end + 4) * 512 + 20..(end + 4) * 512 + 60].fill(0xA5);
        torn += 1;
        std::fs::write(&path, bytes).expect("written");
    }
    assert!(torn > 0);
    let (document, _) = check_json(dir.path(), &[]);
    if is_torn(&document) {
        assert_eq!(about(&document, "future.ibd"), [("undecided", "newer_than_log")], "{document:#}");
    } else {
        assert_eq!(about(&document, "future.ibd"), [("damage", "newer_than_log")], "{document:#}");
    }
}

/// The counts by verdict add up to the number of pages, whatever was found.
fn assert_counts_add_up(document: &Value) {
    let sum = |row: &Value| -> u64 {
        let of = |name: &str| row[name].as_u64().expect("a number");
        ["ok", "empty", "corrupt", "unverifiable", "freed_damage"].into_iter().map(of).sum()
    };
    assert_eq!(sum(&document["totals"]), total(document, "pages"), "{document:#}");
    for file in document["files"].as_array().expect("files") {
        assert_eq!(sum(file), file["pages"].as_u64().expect("a number"), "{file:#}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_zeroed_run_over_the_border_of_two_files_is_counted_in_each() {
    let (dir, datadir) = (Dir::new(), all_datadirs().join("mariadb-8k"));
    let read = |name: &str| std::fs::read(datadir.join(name)).expect("a file");
    let (mut first, mut second) = (read("ibdata1"), read("ibdata2"));
    let border = first.len() / 8192;
    // Assigns the extents on both sides of the border to a segment and marks all their pages as used.
    edit(&mut first, 0, |page| {
        for extent in [border / 128 - 1, border / 128] {
            let entry = &mut page[150 + 56 * extent..][..56];
            entry[20..24].copy_from_slice(&4_u32.to_be_bytes());
            entry[24..56].fill(0xAA);
        }
        put(page, 50, 1920);
    });
    let used = first.len() - 5 * 8192;
    first[used..].fill(0);
    second[..5 * 8192].fill(0);
    dir.file("ibdata1", &first);
    dir.file("ibdata2", &second);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 1);
    assert_counts_add_up(&document);
    for name in ["ibdata1", "ibdata2"] {
        assert!(about(&document, name).contains(&("damage", "zero_page_in_use")), "{name}: {document:#}");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn files_of_the_system_tablespace_that_overlap_are_damage() {
    let (dir, datadir) = (Dir::new(), all_datadirs().join("mariadb-8k"));
    let first = std::fs::read(datadir.join("ibdata1")).expect("a file");
    dir.file("ibdata1", &first);
    dir.file("ibdata2", &first[10 * 8192..]);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!(status, 1);
    assert!(about(&document, "ibdata2").contains(&("damage", "overlapping_files")), "{document:#}");
    assert_counts_add_up(&document);
}

#[test]
fn where_nothing_is_there_nothing_is_well() {
    let dir = Dir::new();
    let run = check(dir.path(), &["-q"]);
    assert_eq!(run.status, 2, "{}", run.text);
    assert!(run.text.contains("nothing could be verified"), "{}", run.text);
    let path = dir.path().display().to_string();
    assert!(run.text.starts_with(&format!("{path}: ")), "it names what was asked for: {}", run.text);
    for command in ["check", "count", "checksum", "export"] {
        let table =
            |path: &Path| Run::of(&innokit().args(["table", command]).arg(path).output().expect("innokit runs"));
        assert_eq!(table(dir.path()).status, 2, "table {command} of nothing");
        let lost = table(&dir.path().join("lost.ibd"));
        assert!(lost.status == 2 && (lost.text + &lost.errors).contains("lost.ibd: "), "table {command}");
    }
    dir.file("README", b"no tablespace");
    assert_eq!(check_json(dir.path(), &[]).1, 2);
    dir.file("t.ibd", &fixture(MYSQL));
    assert_eq!(check_json(dir.path(), &[]).1, 0);
}

/// A log of MySQL 5.7 with two files. It has been written into the first, up to block `blocks`.
fn young_log(dir: &Path, blocks: usize) {
    const SIZE: usize = 64 * 1024;
    let mut file = vec![0; SIZE];
    let seal = |block: &mut [u8]| {
        let sum = full_crc32(block);
        put(block, 508, sum);
    };
    put(&mut file, 0, 1);
    file[8..16].copy_from_slice(&8192_u64.to_be_bytes());
    file[16..28].copy_from_slice(b"MySQL 5.7.37");
    seal(&mut file[..512]);
    let at_checkpoint = 8192 + 12_u64;
    file[512..520].copy_from_slice(&1_u64.to_be_bytes());
    file[520..528].copy_from_slice(&at_checkpoint.to_be_bytes());
    file[528..536].copy_from_slice(&(2048 + 12_u64).to_be_bytes());
    seal(&mut file[512..1024]);
    for number in 0..blocks {
        let block = &mut file[2048 + number * 512..][..512];
        // Block numbers count from 1.
        put(block, 0, 8192 / 512 + 1 + number as u32);
        let len: u16 = if number + 1 == blocks && blocks < 124 { 100 } else { 512 };
        block[4..6].copy_from_slice(&len.to_be_bytes());
        block[12..508].fill(0x20);
        put(block, 8, 1);
        seal(block);
    }
    std::fs::write(dir.join("ib_logfile0"), &file).expect("written");
    std::fs::write(dir.join("ib_logfile1"), vec![0; SIZE]).expect("written");
}

#[test]
fn a_log_file_that_the_log_has_not_come_to_is_no_alarm() {
    let dir = Dir::new();
    young_log(dir.path(), 10);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((reasons(&document), status), (vec![], 0), "{document:#}");
    assert_eq!(document["totals"]["log_blocks"]["ok"], 10);
    // A log that fills its first file continues in the second, so zeros there are lost redo.
    young_log(dir.path(), 124);
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((reasons(&document), status), (vec!["redo_header"], 1), "{document:#}");
}
