//! The log on a device that loses power at any write or sync: acknowledged records are there, and nothing else reappears.
//!
//! A seed determines the whole life of a log: its options, records, crashes, and what each crash leaves. `FLOW_SEED=n` replays one,
//! `FLOW_SEED=m..n` runs others than the usual ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use innokit_flow::log_writer::{
    Fill, LogError, LogOptions, LogPosition, LogReader, LogWriter, Recycle, SimLog, Space, SyncBy,
};
use innokit_flow::queue::sim::{SimDevice, SimOptions};
use innokit_flow::run_workers;

const SEEDS: u64 = 2500;
const CRASHES: u64 = 4;
const BLOCK_SIZE: u64 = 4096;

/// Random numbers for the test itself (xorshift), separate from the device's.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Prints the seed to replay if the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed with seed {0}: replay with FLOW_SEED={0}", self.0);
        }
    }
}

fn seeds(all: u64) -> std::ops::Range<u64> {
    match std::env::var("FLOW_SEED") {
        Ok(given) => {
            let (from, to) = given.split_once("..").unwrap_or((&given, ""));
            let from: u64 = from.parse().unwrap();
            from..to.parse().unwrap_or(from + 1)
        }
        Err(_) => 0..all,
    }
}

fn options(dice: &mut Dice) -> LogOptions {
    LogOptions {
        files: 2 + dice.below(3) as u32,
        file_size: BLOCK_SIZE * (3 + dice.below(3)),
        block_size: 0,
        space: dice.one_of(&[Space::Growing, Space::Zeroed, Space::Recycled]),
        fill: dice.one_of(&[Fill::Nothing, Fill::FirstTouch, Fill::FirstTouch, Fill::Whole]),
        direct: dice.below(4) == 0,
        sync: dice.one_of(&[SyncBy::Fdatasync, SyncBy::Fdatasync, SyncBy::Dsync]),
        recycle: dice.one_of(&[Recycle::Released, Recycle::Oldest]),
        group_max: dice.one_of(&[512, 2048, 8192]),
    }
}

/// A record as the test remembers it.
#[derive(Debug)]
struct Known {
    end: LogPosition,
    bytes: Vec<u8>,
}

/// What the log must contain: records in order, the first of which may have been overwritten.
#[derive(Debug, Default)]
struct Model {
    records: Vec<Known>,
    /// The number of acknowledged ones.
    acknowledged: usize,
    released: LogPosition,
    /// Makes every record different.
    made: u64,
}

impl Model {
    fn record(&mut self, dice: &mut Dice, max: usize) -> Vec<u8> {
        self.made += 1;
        let len = match dice.below(10) {
            0 => max as u64,
            1..4 => dice.below(max as u64 + 1),
            _ => dice.below(200),
        };
        let number = self.made;
        (0..len).map(|place| (number.wrapping_mul(0x0101_0101_0101_0101 + place) >> (place % 8 * 8)) as u8).collect()
    }

    fn note(&mut self, end: LogPosition, bytes: Vec<u8>) {
        self.records.push(Known { end, bytes });
    }

    /// Reads the log and compares it with what is known. Records that are gone must never reappear.
    fn check(&mut self, mut reader: LogReader, ring: u64, options: &LogOptions) {
        let mut found = Vec::new();
        let oldest = reader.start();
        while let Some(record) = reader.next() {
            let record = record.unwrap();
            assert!(record.start < record.end);
            found.push((record.end, record.bytes.to_vec()));
        }
        let first = found.first().map_or(self.acknowledged, |(end, _)| {
            self.records.iter().position(|known| known.end == *end).expect("a record that was never appended there")
        });
        assert!(first + found.len() <= self.records.len(), "more records than there were");
        for ((end, bytes), known) in found.iter().zip(&self.records[first..]) {
            assert_eq!(*end, known.end, "records follow each other without a gap");
            assert!(*bytes == known.bytes, "record that ends at {end} is another");
        }
        let last = first + found.len();
        assert!(last >= self.acknowledged, "{} of {} acknowledged records are there", last, self.acknowledged);
        let in_file = ring / u64::from(options.files);
        let needed = match options.recycle {
            Recycle::Released => self.released,
            // A file may be partly overwritten, and records may cross the border to it.
            Recycle::Oldest => LogPosition((reader.position().0 + 2 * in_file).saturating_sub(ring) + 8192),
        };
        let missing = self.records[..first.min(self.acknowledged)].iter().filter(|known| known.end > needed);
        let missing: Vec<_> = missing.map(|known| known.end).collect();
        assert_eq!(
            missing,
            [],
            "are needed from {needed} on; the log is {oldest} to {} of {options:?}",
            reader.position()
        );
        self.records.truncate(last);
        self.acknowledged = self.records.len();
    }
}

/// Appends until the device fails or the log has wrapped `rounds` times. Returns the error, if any.
fn write(log: &LogWriter, dice: &mut Dice, model: &mut Model, to: u64) -> Option<LogError> {
    while model.records.last().map_or(0, |known| known.end.0) < to {
        for _ in 0..=dice.below(4) {
            let record = model.record(dice, log.record_max());
            let appended = match log.submit(&record) {
                Err(LogError::Full { .. }) => {
                    if let Err(error) = log.wait(LogPosition(u64::MAX)) {
                        return Some(error);
                    }
                    model.acknowledged = model.records.len();
                    model.released = model.records.last().map_or(LogPosition(0), |known| known.end);
                    // A torn record may follow the last one.
                    log.release(log.durable());
                    log.submit(&record)
                }
                appended => appended,
            };
            match appended {
                Ok(end) => model.note(end, record),
                Err(error) => return Some(error),
            }
        }
        if let Err(error) = log.wait(model.records[model.records.len() - 1].end) {
            return Some(error);
        }
        model.acknowledged = model.records.len();
        if dice.below(3) == 0 {
            let back = dice.below(20) as usize;
            let released = model.records.len().saturating_sub(1 + back);
            model.released = model.released.max(model.records[released].end);
            log.release(model.released);
        }
    }
    None
}

/// Runs one seed. Returns the number of crashes and of laps.
fn live(seed: u64) -> (u64, u64) {
    let _seed = Seed(seed);
    let mut dice = Dice::new(seed);
    let options = options(&mut dice);
    let ring = (options.file_size - BLOCK_SIZE) * u64::from(options.files);
    let short_one_in = dice.one_of(&[0, 3]);
    let device = SimDevice::new(SimOptions { seed, short_one_in, ..SimOptions::default() });
    let mut model = Model::default();

    // A run without a crash gives the number of operations.
    let whole = SimDevice::new(SimOptions { seed, short_one_in, ..SimOptions::default() });
    let log = LogWriter::create_on(SimLog::create(&whole, &options), &options).unwrap();
    assert!(write(&log, &mut Dice::new(seed), &mut Model::default(), 3 * ring).is_none());
    let operations = whole.operations();

    let mut crashes = 0;
    let mut device = device;
    device.crash_at(1 + dice.below(operations));
    let mut log = LogWriter::create_on(SimLog::create(&device, &options), &options);
    let created = log.is_ok();
    for crash in 0..CRASHES {
        if let Ok(log) = &log {
            let to = model.records.last().map_or(0, |known| known.end.0) + 3 * ring;
            let error = write(log, &mut dice, &mut model, to);
            assert_eq!(error.is_some(), device.has_crashed(), "{error:?} {options:?}");
            if let Some(error) = error {
                let again = log.append(b"refused").unwrap_err();
                assert_eq!(again.to_string(), error.to_string(), "the first error is everybody's");
            }
        }
        crashes += u64::from(device.has_crashed());
        device = device.reopen(dice.below(u64::MAX));
        let reader = match LogReader::open_on(SimLog::open(&device, &options)) {
            Ok(reader) => reader,
            Err(error @ LogError::NotThisLog { .. }) => {
                assert!(!created, "{error}");
                return (crashes, 0);
            }
            Err(error) => panic!("{error}"),
        };
        model.check(reader, ring, &options);
        // The writer has dropped what was released; what could not be read before is there now.
        if crash + 1 < CRASHES && dice.below(8) > 0 {
            device.crash_at(1 + dice.below(operations));
        }
        log = LogWriter::open_on(SimLog::open(&device, &options), &options);
        assert!(log.is_ok() || device.has_crashed(), "{:?}", log.err());
    }
    let rounds = model.records.last().map_or(0, |known| known.end.0) / ring;
    (crashes, rounds)
}

#[test]
fn every_acknowledged_record_is_there_after_a_crash_and_no_other_comes_back() {
    let (crashes, rounds) = (AtomicU64::new(0), AtomicU64::new(0));
    let seeds = seeds(SEEDS);
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    run_workers(thread::available_parallelism().map_or(1, usize::from), |_| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            let (crashed, round) = live(seed);
            crashes.fetch_add(crashed, Ordering::Relaxed);
            rounds.fetch_add(round, Ordering::Relaxed);
        }
    });
    let (crashes, rounds) = (crashes.into_inner(), rounds.into_inner());
    println!("{crashes} crashes, {rounds} rounds of the ring");
    if end - seeds.start == SEEDS {
        assert!(crashes > 2 * SEEDS && rounds > 3 * SEEDS, "{crashes} crashes, {rounds} rounds");
    }
}

#[test]
fn records_of_many_callers_that_were_acknowledged_are_there_after_a_crash() {
    for seed in seeds(150) {
        // The seed does not determine thread scheduling: a failure may need several tries to reappear.
        let _seed = Seed(seed);
        let mut dice = Dice::new(seed);
        let options = LogOptions { recycle: Recycle::Released, files: 4, file_size: 1 << 16, ..options(&mut dice) };
        let device = SimDevice::new(SimOptions { seed, ..SimOptions::default() });
        let log = LogWriter::create_on(SimLog::create(&device, &options), &options).unwrap();
        device.crash_at(device.operations() + 1 + dice.below(100));
        let acknowledged = Mutex::new(Vec::new());
        run_workers(8, |worker| {
            for number in 0..40 {
                let record = format!("caller {worker}, record {number}");
                match log.append(record.as_bytes()) {
                    Ok(position) => acknowledged.lock().unwrap().push((position, record)),
                    Err(error) => {
                        assert!(device.has_crashed(), "{error}");
                        return;
                    }
                }
            }
        });
        let mut reader = LogReader::open_on(SimLog::open(&device.reopen(seed), &options)).unwrap();
        let mut found = Vec::new();
        while let Some(record) = reader.next() {
            let record = record.unwrap();
            found.push((record.end, String::from_utf8(record.bytes.to_vec()).unwrap()));
        }
        for record in acknowledged.into_inner().unwrap() {
            assert!(found.contains(&record), "{record:?} is lost");
        }
        assert!(found.iter().all(|(_, record)| record.starts_with("caller ")));
    }
}
