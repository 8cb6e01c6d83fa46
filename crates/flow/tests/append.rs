//! Files filled from the front: on a simulated device with power cut at every write and sync, and on a real file system.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail where they must")]

use std::fs;

use innokit_flow::FileId;
use innokit_flow::append::{Appender, ZeroedFile, write_whole};
use innokit_flow::log_writer::{LogOptions, SimLog};
use innokit_flow::queue::sim::{SimDevice, SimOptions};

const LEN: usize = 64 << 10;
const HEAD: usize = 4096;

/// Appends of different lengths; no byte is zero, so the content's end is the first zero.
fn appends() -> Vec<Vec<u8>> {
    (1..=20_usize).map(|number| vec![number as u8; number * 379 % 5000 + 1]).collect()
}

fn storage(device: &SimDevice) -> SimLog {
    SimLog::open(device, &LogOptions { files: 1, ..LogOptions::default() })
}

fn end_of(bytes: &[u8]) -> usize {
    bytes[HEAD..].iter().position(|byte| *byte == 0).map_or(bytes.len(), |at| HEAD + at)
}

/// Appends the rest of `content`, and returns how much of it is acknowledged.
fn append_from(device: &SimDevice, content: &[u8], at: usize) -> usize {
    let Ok(mut appender) = Appender::open(storage(device), (HEAD + at) as u64, LEN as u64) else { return at };
    let mut acknowledged = at;
    let mut bounds: Vec<usize> = appends()
        .iter()
        .scan(0, |sum, bytes| {
            *sum += bytes.len();
            Some(*sum)
        })
        .collect();
    bounds.retain(|bound| *bound > at);
    for bound in bounds {
        if appender.append(&content[acknowledged..bound]).is_err() {
            appender.append(b"more").expect_err("the first failure stops it");
            break;
        }
        acknowledged = bound;
        assert_eq!(appender.at(), (HEAD + acknowledged) as u64);
    }
    acknowledged
}

fn device() -> SimDevice {
    let device = SimDevice::new(SimOptions { cache_block: 4096, ..SimOptions::default() });
    let mut bytes = vec![0xEE; HEAD];
    bytes.resize(LEN, 0);
    device.add_file(bytes);
    device
}

#[test]
fn whatever_a_crash_leaves_what_was_acknowledged_is_there_and_nothing_else_after_the_next_start() {
    let content = appends().concat();
    let first = device();
    assert_eq!(append_from(&first, &content, 0), content.len());
    let operations = first.operations();
    assert_eq!(operations, 2 * appends().len() as u64, "one write and one sync for each");
    let mut crashes = 0;
    for operation in 1..=operations {
        for seed in 0..30 {
            let device = device();
            device.crash_at(operation);
            let acknowledged = append_from(&device, &content, 0);
            let device = device.reopen(seed);
            let left = device.contents(FileId(0));
            let end = end_of(&left) - HEAD;
            assert!(end >= acknowledged, "operation {operation}, seed {seed}: {end} of {acknowledged}");
            assert_eq!(left[HEAD..HEAD + end], content[..end], "operation {operation}, seed {seed}");
            // A second crash while the rest is zeroed, and the third start completes.
            device.crash_at(device.operations() + 1 + seed % 3);
            append_from(&device, &content, end);
            let device = device.reopen(seed + 1);
            let again = end_of(&device.contents(FileId(0))) - HEAD;
            assert!(again >= acknowledged);
            assert_eq!(append_from(&device, &content, again), content.len());
            let done = device.reopen(seed).contents(FileId(0));
            assert_eq!(done[HEAD..HEAD + content.len()], content, "operation {operation}, seed {seed}");
            assert!(done[HEAD + content.len()..].iter().all(|byte| *byte == 0), "operation {operation}, seed {seed}");
            assert!(done[..HEAD].iter().all(|byte| *byte == 0xEE));
            crashes += 1;
        }
    }
    assert!(crashes >= 1000, "{crashes}");
}

#[test]
fn a_write_covers_whole_blocks_so_the_device_reads_nothing() {
    let device = device();
    device.drop_cache();
    append_from(&device, &appends().concat(), 0);
    // Opening reads the rest once to see that it is zero. After that there are only writes.
    let mut appender = Appender::open(storage(&device), LEN as u64 - 9000, LEN as u64).expect("opens");
    let before = device.counts();
    appender.append(&[7; 5000]).expect("appended");
    appender.append(&[8; 3000]).expect("appended");
    let after = device.counts();
    assert_eq!((after.reads, after.writes - before.writes), (before.reads, 2));
    assert_eq!(after.reads_on_write, before.reads_on_write);
}

#[test]
fn a_new_file_is_zero_behind_its_head_and_failures_leave_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("segment");
    let file = ZeroedFile::create(&path, b"head", 3 << 20).expect("made");
    let bytes = fs::read(&path).expect("read");
    assert!(bytes.len() == 3 << 20 && bytes.starts_with(b"head\0") && bytes[4..].iter().all(|byte| *byte == 0));
    let mut appender = Appender::open(file, 4096, 3 << 20).expect("opens");
    appender.append(b"some").expect("appended");
    appender.append(b" more").expect("appended");
    appender.storage().truncate(8192).expect("cut");
    assert_eq!(fs::read(&path).expect("read")[4096..4106], *b"some more\0");
    write_whole(&dir.path().join("note"), b"a note").expect("written");
    ZeroedFile::create(&dir.path().join("missing/segment"), b"head", 4096).expect_err("no such directory");
    write_whole(&dir.path().join("missing/note"), b"a note").expect_err("no such directory");
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).expect("read").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["note", "segment"]);
}
