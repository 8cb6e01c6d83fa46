//! Binary logs that MariaDB 12.3 keeps within InnoDB. No registry has that server: the files are made as its source makes them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Dir, check, check_json, innokit, reasons, total};
use crate::ibb_writer::{PAGE_SIZE, Writer, seal, seal_header};

/// Three files and one that was only made, as in a datadir.
fn datadir() -> Dir {
    let mut writer = Writer::new(6, 2);
    let first = writer.out_of_band(0, (0, 0), (0, 0), &[2; 20_000]);
    writer.commit(&[(1, first, first)], (0, 1, 1), &[1; 90_000]);
    writer.flush();
    writer.commit(&[], (0, 1, 2), &[1; 5000]);
    assert_eq!(writer.files.len(), 3);
    let dir = Dir::new();
    for (number, file) in writer.files.iter().enumerate() {
        dir.file(&format!("binlog-{number:06}.ibb"), file);
    }
    dir.file("binlog-000003.ibb", &vec![0; 6 * PAGE_SIZE]);
    dir
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("readable");
    change(&mut bytes);
    fs::write(path, bytes).expect("written");
}

#[test]
fn they_are_verified_page_by_page() {
    let dir = datadir();
    let (document, status) = check_json(dir.path(), &[]);
    assert_eq!((status, document["findings"].as_array().map(Vec::len)), (0, Some(0)), "{document}");
    let files = document["files"].as_array().expect("files");
    assert_eq!(files.len(), 4, "the empty one too");
    assert!(files.iter().all(|file| file["kind"] == "binary log" && file["family"] == "MariaDB"), "{files:?}");
    assert!(total(&document, "ok") > 8);
}

#[test]
fn info_says_what_they_are() {
    let dir = datadir();
    let run = innokit().arg("info").arg(dir.path().join("binlog-000001.ibb")).output().expect("innokit runs");
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = ["binary log within InnoDB (MariaDB)", "format 1.0", "file number 1", "pages 6", "start LSN 1001"];
    assert!(expected.iter().all(|line| words.contains(line)), "{text}");
}

#[test]
fn what_is_wrong_with_them_is_damage() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, &str, Change); 7] = [
        ("checksum_mismatch", "binlog-000000.ibb", |file| file[3 * PAGE_SIZE + 77] ^= 1),
        ("log_header", "binlog-000000.ibb", |file| {
            file[0] = 0;
            seal_header(&mut file[..PAGE_SIZE]);
        }),
        ("binlog_pages_missing", "binlog-000001.ibb", |file| file[PAGE_SIZE..2 * PAGE_SIZE].fill(0)),
        ("binlog_pages_missing", "binlog-000000.ibb", |file| {
            file.drain(PAGE_SIZE..2 * PAGE_SIZE);
        }),
        ("binlog_record", "binlog-000002.ibb", |file| {
            file[PAGE_SIZE + 1] = 0;
            seal(&mut file[PAGE_SIZE..2 * PAGE_SIZE]);
        }),
        ("log_cut", "binlog-000000.ibb", |file| file.truncate(4 * PAGE_SIZE)),
        ("log_cut", "binlog-000002.ibb", |file| file.truncate(4 * PAGE_SIZE + 5)),
    ];
    for (reason, name, apply) in cases {
        let dir = datadir();
        change(&dir.path().join(name), apply);
        let (document, status) = check_json(dir.path(), &[]);
        assert_eq!(status, 1, "{reason}: {document}");
        assert!(reasons(&document).contains(&reason), "{reason}: {document}");
        let is_of_file = |finding: &Value| finding["path"].as_str().is_some_and(|path| path.ends_with(name));
        assert!(document["findings"].as_array().is_some_and(|all| all.iter().all(is_of_file)), "{document}");
    }
    // Named for another number, as a copy would be.
    let dir = datadir();
    fs::rename(dir.path().join("binlog-000002.ibb"), dir.path().join("binlog-000007.ibb")).expect("renamed");
    let run = check(dir.path(), &[]);
    assert!(run.text.contains("the header is of the file number 2, not of 7"), "{}", run.text);
}

#[test]
fn a_newer_format_is_undecided() {
    let dir = datadir();
    change(&dir.path().join("binlog-000002.ibb"), |file| {
        file[8] = 2;
        seal_header(&mut file[..PAGE_SIZE]);
    });
    let run = check(dir.path(), &[]);
    assert_eq!(run.status, 2, "{}", run.text);
    assert!(run.text.contains("the binary log has the format 2.0; this build knows 1.0"), "{}", run.text);
}
