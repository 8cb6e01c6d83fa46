//! What callers of the log rely on: order, groups, space, errors, damage.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io, thread};

use innokit_flow::log_writer::{
    Fill, LogError, LogFiles, LogOptions, LogPosition, LogReader, LogStorage, LogWriter, Recycle, SimLog, Space, SyncBy,
};
use innokit_flow::queue::sim::{SimDevice, SimOptions};
use innokit_flow::{FileId, run_workers};

fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A small ring: three files with 12 KiB of log each.
fn small() -> LogOptions {
    LogOptions { files: 3, file_size: 16 << 10, group_max: 8 << 10, ..LogOptions::default() }
}

fn simulated(device: &SimOptions, options: &LogOptions) -> (SimDevice, LogWriter) {
    let device = SimDevice::new(device.clone());
    let log = LogWriter::create_on(SimLog::create(&device, options), options).unwrap();
    (device, log)
}

fn read(reader: Result<LogReader, LogError>) -> Result<Vec<Vec<u8>>, LogError> {
    let mut reader = reader?;
    let mut records = Vec::new();
    while let Some(record) = reader.next() {
        records.push(record?.bytes.to_vec());
    }
    Ok(records)
}

/// Appends `count` records, each of which fills a log block.
fn append_blocks(log: &LogWriter, count: usize) {
    for _ in 0..count {
        log.append(&[3; 480]).unwrap();
    }
}

fn record(number: usize) -> Vec<u8> {
    (0..number * 37 % 1500).map(|place| (number + place) as u8).collect()
}

#[test]
fn what_was_appended_is_read_in_every_mode_and_goes_on_after_reopening() {
    let spaces = [Space::Growing, Space::Allocated, Space::Zeroed, Space::Recycled];
    let fills = [Fill::Nothing, Fill::FirstTouch, Fill::Whole];
    for (index, space) in spaces.into_iter().enumerate() {
        for direct in [false, true] {
            let sync = if index % 2 == 0 { SyncBy::Fdatasync } else { SyncBy::Dsync };
            let fill = fills[index % 3];
            let options = LogOptions { space, fill, direct, sync, recycle: Recycle::Oldest, ..small() };
            appends_and_reads(&options);
        }
    }
}

fn appends_and_reads(options: &LogOptions) {
    let dir = dir();
    let mut log = match LogWriter::create(dir.path(), options) {
        Ok(log) => log,
        Err(error) if options.direct => return eprintln!("past the page cache is left out: {error}"),
        Err(error) => panic!("{error}"),
    };
    let mut before = LogPosition(0);
    for number in 0..120 {
        if number % 40 == 20 {
            drop(log);
            log = if number == 20 {
                LogWriter::open(dir.path(), options).unwrap()
            } else {
                let mut reader = LogReader::open_on(LogFiles::open(dir.path(), options).unwrap()).unwrap();
                assert!(reader.next().unwrap().is_ok());
                LogWriter::resume(reader, options).unwrap()
            };
        }
        let position = log.append(&record(number)).unwrap();
        assert!(position > before && log.durable() >= position);
        before = position;
    }
    assert!(before > LogPosition(2 * (36 << 10)), "more than two rounds: {before}");
    drop(log);
    let found = read(LogReader::open(dir.path())).unwrap();
    assert!(found.len() > 12, "more than one file of three: {}", found.len());
    let expected: Vec<_> = (120 - found.len()..120).map(record).collect();
    assert!(found == expected, "{options:?}");
    for index in 0..3 {
        assert_eq!(fs::metadata(dir.path().join(format!("log.{index:03}"))).unwrap().len(), 16 << 10);
    }
}

#[test]
fn one_caller_pays_one_write_and_one_sync_for_a_commit() {
    let dir = dir();
    let options = LogOptions { file_size: 1 << 20, group_max: 64 << 10, ..small() };
    let log = LogWriter::create(dir.path(), &options).unwrap();
    for _ in 0..64 {
        log.append(&[1; 480]).unwrap();
    }
    let counts = log.counts();
    assert_eq!((counts.records, counts.groups, counts.writes, counts.syncs), (64, 64, 64, 64));
    assert_eq!((counts.bytes_of_blocks, counts.bytes_written), (64 * 512, 8 * (4096 + 7 * 512)));
}

/// A storage with slow syncs.
struct Slow(LogFiles);

impl LogStorage for Slow {
    fn files(&self) -> u32 {
        self.0.files()
    }

    fn block_size(&self) -> u32 {
        self.0.block_size()
    }

    fn name(&self, file: u32) -> String {
        self.0.name(file)
    }

    fn read_at(&self, file: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(file, offset, bytes)
    }

    fn write_at(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(file, offset, bytes)
    }

    fn sync(&self, file: u32) -> io::Result<()> {
        thread::sleep(Duration::from_millis(20));
        self.0.sync(file)
    }
}

/// Commits per sync with this many callers. A sync takes at least 20 ms, so that even a busy or emulated machine can run all callers
/// meanwhile.
fn commits_per_sync(callers: usize) -> u64 {
    let dir = dir();
    let options = LogOptions { file_size: 4 << 20, group_max: 256 << 10, ..small() };
    let files = LogFiles::create(dir.path(), &options).unwrap();
    let log = LogWriter::create_on(Slow(files), &options).unwrap();
    run_workers(callers, |caller| {
        for number in 0..20 {
            log.append(format!("caller {caller}, record {number}").as_bytes()).unwrap();
        }
    });
    let counts = log.counts();
    assert_eq!(counts.records, 20 * callers as u64);
    drop(log);
    assert_eq!(read(LogReader::open(dir.path())).unwrap().len(), 20 * callers);
    counts.records / counts.syncs
}

#[test]
fn callers_share_their_syncs() {
    let (one, many) = (commits_per_sync(1), commits_per_sync(32));
    println!("commits per sync: {one} with one caller, {many} with 32");
    assert_eq!(one, 1);
    assert!(many >= 8, "{many} commits per sync with 32 callers");
}

#[test]
fn records_that_were_submitted_are_durable_once_waited_for_and_take_one_sync() {
    let (device, log) = simulated(&SimOptions::default(), &small());
    let before = device.counts();
    let mut last = LogPosition(0);
    for number in 0..50 {
        last = log.submit(format!("record {number}").as_bytes()).unwrap();
    }
    assert_eq!((device.counts(), log.durable()), (before, LogPosition(0)));
    log.wait(last).unwrap();
    log.wait(LogPosition(u64::MAX)).unwrap();
    assert_eq!((device.counts().writes - before.writes, device.counts().syncs - before.syncs), (1, 1));
    assert!(log.durable() >= last);
}

#[test]
fn no_commit_reads_what_it_covers_unless_asked_to_be_naive() {
    let hidden = |fill, space| {
        let options = LogOptions { fill, space, recycle: Recycle::Oldest, ..small() };
        let sim = SimOptions { cache_block: 4096, ..SimOptions::default() };
        let (device, log) = simulated(&sim, &options);
        let mut hidden = Vec::new();
        for _ in 0..3 {
            device.drop_cache();
            let before = device.counts().reads_on_write;
            // One lap of the ring: 72 commits of a block each.
            for _ in 0..72 {
                log.append(&[7; 400]).unwrap();
            }
            hidden.push(device.counts().reads_on_write - before);
        }
        hidden
    };
    assert_eq!(hidden(Fill::Nothing, Space::Recycled), [9, 9, 9], "one for 8 commits");
    assert_eq!(hidden(Fill::Nothing, Space::Growing)[1..], [9, 9], "once the files have been written");
    assert_eq!(hidden(Fill::FirstTouch, Space::Recycled), [0, 0, 0]);
    assert_eq!(hidden(Fill::FirstTouch, Space::Growing), [0, 0, 0]);
    assert_eq!(hidden(Fill::Whole, Space::Recycled), [0, 0, 0]);
}

#[test]
fn first_error_is_everybodys_and_no_sync_is_tried_again() {
    for operation in 0..2 {
        let (device, log) = simulated(&SimOptions::default(), &small());
        let good = log.append(b"good").unwrap();
        device.fail_at(device.operations() + 1 + operation);
        let error = log.append(b"bad").unwrap_err();
        let what = ["cannot write simulated.0 at offset 4608", "cannot sync simulated.0 at offset 4608"];
        assert!(error.to_string().starts_with(what[operation as usize]), "{error}");
        let operations = device.operations();
        for _ in 0..3 {
            assert_eq!(log.append(b"refused").unwrap_err().to_string(), error.to_string());
            assert_eq!(log.submit(b"refused").unwrap_err().to_string(), error.to_string());
            assert_eq!(log.wait(LogPosition(u64::MAX)).unwrap_err().to_string(), error.to_string());
        }
        log.wait(good).unwrap();
        assert_eq!(device.operations(), operations, "the device is left alone");
        drop(log);
        let records = read(LogReader::open_on(SimLog::open(&device.reopen(1), &small()))).unwrap();
        assert_eq!(records[0], b"good");
        assert!(records.len() == 1 || records[1..] == [b"bad"]);
    }
}

#[test]
fn error_reaches_all_callers_that_wait() {
    let (device, log) = simulated(&SimOptions::default(), &small());
    device.fail_at(device.operations() + 20);
    let errors = run_workers(8, |_| (0..100).find_map(|_| log.append(&[1; 20]).err()).unwrap().to_string());
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}

/// A storage that panics when it is written to.
struct Panics(SimLog);

impl LogStorage for Panics {
    fn files(&self) -> u32 {
        self.0.files()
    }

    fn block_size(&self) -> u32 {
        self.0.block_size()
    }

    fn name(&self, file: u32) -> String {
        self.0.name(file)
    }

    fn read_at(&self, file: u32, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(file, offset, bytes)
    }

    fn write_at(&self, file: u32, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        assert_eq!(offset, 0, "only headers");
        self.0.write_at(file, offset, bytes)
    }

    fn sync(&self, file: u32) -> io::Result<()> {
        self.0.sync(file)
    }
}

#[test]
fn storage_that_panics_leaves_nobody_waiting() {
    let storage = Panics(SimLog::create(&SimDevice::new(SimOptions::default()), &small()));
    let log = LogWriter::create_on(Arc::new(storage), &small()).unwrap();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(|| log.append(b"any"))).collect();
        callers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let panicked = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert_eq!(panicked, 1, "the leader, and no other after it");
    let mut errors = outcomes.into_iter().flatten().map(|outcome| outcome.unwrap_err().to_string());
    assert!(errors.all(|error| error.contains("the storage panicked")));
}

#[test]
fn full_log_takes_nothing_until_something_is_released() {
    let (_device, log) = simulated(&SimOptions::default(), &small());
    let mut ends = Vec::new();
    let error = loop {
        match log.append(&[3; 480]) {
            Ok(end) => ends.push(end),
            Err(error) => break error,
        }
    };
    assert_eq!(ends.len(), 72, "three files of 24 log blocks");
    assert!(matches!(error, LogError::Full { released: LogPosition(0) }), "{error}");
    log.release(ends[22]);
    log.append(&[3; 480]).expect_err("the first file is still needed");
    log.release(ends[23]);
    append_blocks(&log, 24);
    log.append(&[3; 480]).expect_err("the second file is still needed");
    log.release(LogPosition(u64::MAX));
    append_blocks(&log, 48);
    assert_eq!(log.durable(), LogPosition(144 * 512));
}

#[test]
fn longest_record_fits_and_a_longer_one_is_refused() {
    let (device, log) = simulated(&SimOptions::default(), &small());
    let longest = vec![5; log.record_max()];
    assert_eq!(longest.len(), 16 * 484 - 4);
    log.append(b"before").unwrap();
    log.append(&longest).unwrap();
    log.append(b"").unwrap();
    let error = log.append(&[&longest[..], &[5]].concat()).unwrap_err();
    assert_eq!(error.to_string(), "the record has 7741 bytes, but a record of this log can have at most 7740");
    log.append(b"after").unwrap();
    let records = read(LogReader::open_on(SimLog::open(&device, &small()))).unwrap();
    assert_eq!(records, [&b"before"[..], &longest, b"", b"after"]);
}

#[test]
fn damage_to_what_was_durable_is_never_a_shorter_log() {
    for seed in 0..500 {
        let (device, log) = simulated(&SimOptions { seed, ..SimOptions::default() }, &small());
        // The second lap must behave like the first.
        let round = if seed % 2 == 0 { 0 } else { 72 * 512 };
        append_blocks(&log, round as usize / 512);
        log.release(log.durable());
        let written: Vec<_> = (0..32).map(record).collect();
        let ends: Vec<_> = written.iter().map(|record| log.append(record).unwrap()).collect();
        let end = ends[ends.len() - 1].0.next_multiple_of(512);
        let last = ends[ends.len() - 2].0.next_multiple_of(512);
        let file = (seed % 3) as u32;
        let offset = device.rot_somewhere(FileId(file)).unwrap();
        let position = round + (offset.saturating_sub(4096) + u64::from(file) * 12288) / 512 * 512;
        match read(LogReader::open_on(SimLog::open(&device, &small()))) {
            Ok(records) if offset < 4096 => assert!(records == written, "not in use"),
            Err(LogError::NotThisLog { .. }) => assert!(offset < 1024, "a header has no other"),
            Err(LogError::Damaged { position: LogPosition(at), .. }) => assert_eq!(at, position),
            Err(error) => panic!("{error}"),
            Ok(records) if position >= end => assert!(records == written, "unused space"),
            Ok(records) => {
                assert!(
                    position >= last,
                    "only what was written last can be taken for torn, not log position {position} of {end}"
                );
                assert!(records == written[..records.len()] && records.len() == 31);
            }
        }
    }
}

#[test]
fn files_that_are_not_one_log_are_refused() {
    let dir = dir();
    let refused = |path: &Path| LogReader::open(path).unwrap_err().to_string();
    assert!(refused(dir.path()).contains("log.000 at offset 0: No such file"), "{}", refused(dir.path()));
    drop(LogWriter::create(dir.path(), &small()).unwrap());
    let error = LogWriter::create(dir.path(), &small()).unwrap_err();
    assert!(matches!(&error, LogError::Exists { file } if file.ends_with("log.000")), "{error}");
    let path = |index: u32| dir.path().join(format!("log.{index:03}"));
    fs::rename(path(1), path(3)).unwrap();
    assert!(refused(dir.path()).contains("another number of files"));
    fs::remove_file(path(3)).unwrap();
    fs::copy(path(2), path(1)).unwrap();
    assert!(
        refused(dir.path()).contains("log.001 is not a file of this log: its header says that it has another place")
    );
    let other = self::dir();
    drop(LogWriter::create(other.path(), &small()).unwrap());
    fs::copy(other.path().join("log.001"), path(1)).unwrap();
    assert!(refused(dir.path()).contains("it belongs to another log"));
    fs::write(path(1), [0; 4096]).unwrap();
    assert!(refused(dir.path()).contains("it has no header of a log"));
}

#[test]
fn second_writer_is_refused() {
    let dir = dir();
    let log = LogWriter::create(dir.path(), &small()).unwrap();
    let error = LogWriter::open(dir.path(), &small()).unwrap_err();
    assert!(error.to_string().contains("open for writing elsewhere"), "{error}");
    log.append(b"still mine").unwrap();
    assert_eq!(read(LogReader::open(dir.path())).unwrap(), [b"still mine"], "reading is free");
    drop(log);
    LogWriter::open(dir.path(), &small()).unwrap();
}

#[test]
fn log_that_cannot_be_made_leaves_no_files() {
    let dir = dir();
    for options in [
        LogOptions { files: 1, ..small() },
        LogOptions { file_size: 10_000, ..small() },
        LogOptions { group_max: 1000, ..small() },
        LogOptions { group_max: 16 << 10, ..small() },
    ] {
        let error = LogWriter::create(dir.path(), &options).unwrap_err();
        assert!(matches!(error, LogError::Layout { .. } | LogError::GroupMax { .. }), "{error}");
    }
    fs::write(dir.path().join("log.001"), b"precious").unwrap();
    let error = LogWriter::create(dir.path(), &small()).unwrap_err();
    assert!(matches!(&error, LogError::Exists { file } if file.ends_with("log.001")), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only what was there before");
}

#[test]
fn new_log_in_recycled_files_knows_nothing_of_the_old_one() {
    let dir = dir();
    let log = LogWriter::create(dir.path(), &LogOptions { recycle: Recycle::Oldest, ..small() }).unwrap();
    append_blocks(&log, 100);
    drop(log);
    let log = LogWriter::create(dir.path(), &LogOptions { space: Space::Recycled, ..small() }).unwrap();
    assert!(read(LogReader::open(dir.path())).unwrap().is_empty());
    log.append(b"new").unwrap();
    assert_eq!(read(LogReader::open(dir.path())).unwrap(), [b"new"]);
}
