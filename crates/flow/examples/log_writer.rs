//! Commits into a log, and what they cost beside a bare loop of `pwrite` and `fdatasync`.
//!
//! `cargo run --release -p innokit-flow --example log_writer -- [DIR] [--commits N]`
//!
//! Works in a directory of its own below DIR (here by default) and removes it. Bare loop and log take turns, commit by commit,
//! because a device is not the same from one second to the next; then callers are added, who share writes and syncs.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use innokit_flow::log_writer::{LogCounts, LogError, LogOptions, LogReader, LogWriter, Recycle};
use innokit_flow::run_workers;

/// With its length of 4 bytes and the header of 28, a record of this size fills a log block.
const RECORD: [u8; 480] = [7; 480];

fn main() -> Result<(), Box<dyn Error>> {
    let (parent, commits) = parse(std::env::args().skip(1))?;
    let dir = parent.join(format!("log_writer-example-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let outcome = run(&dir, commits);
    std::fs::remove_dir_all(&dir)?;
    outcome
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<(PathBuf, u32), Box<dyn Error>> {
    let (mut dir, mut commits) = (PathBuf::from("."), 100);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--commits" => commits = words.next().ok_or("--commits needs a number")?.parse()?,
            path => dir = path.into(),
        }
    }
    Ok((dir, commits))
}

fn run(dir: &Path, commits: u32) -> Result<(), Box<dyn Error>> {
    let options = LogOptions { files: 2, file_size: 16 << 20, recycle: Recycle::Oldest, ..LogOptions::default() };
    let log = LogWriter::create(dir, &options)?;
    let bare = Bare::create(&dir.join("bare"), options.file_size)?;

    let (mut alone, mut through_log) = (Vec::new(), Vec::new());
    for turn in 0..10 * commits {
        // Who comes second in a pair may profit, so that each is second as often as the other.
        if matches!(turn % 4, 0 | 3) {
            alone.push(timed(|| bare.commit())?);
        } else {
            through_log.push(timed(|| append(&log, 1))?);
        }
    }
    println!("one caller, {} commits of 512 bytes each way, microseconds a commit:", 5 * commits);
    println!("         p10     p50     p90");
    let [bare_p10, bare_p50, bare_p90] = percentiles(&mut alone);
    let [log_p10, log_p50, log_p90] = percentiles(&mut through_log);
    println!("  bare {bare_p10:6.0}  {bare_p50:6.0}  {bare_p90:6.0}");
    println!("  log  {log_p10:6.0}  {log_p50:6.0}  {log_p90:6.0}");
    println!("  the log takes {:.3} times as long (p50)", log_p50 / bare_p50);
    let counts = log.counts();
    println!("  a commit is {} write and {} sync", counts.writes / counts.records, counts.syncs / counts.records);

    println!("several callers:");
    for callers in [1_u32, 2, 4, 8, 16, 32, 64] {
        several(&log, callers, commits)?;
    }
    drop(log);

    let mut reader = LogReader::open(dir)?;
    let mut records = 0;
    while let Some(record) = reader.next() {
        record?;
        records += 1;
    }
    println!("read again: {records} records from position {} to {}", reader.start(), reader.position());
    Ok(())
}

fn several(log: &LogWriter, callers: u32, commits: u32) -> Result<(), Box<dyn Error>> {
    let before = log.counts();
    let started = Instant::now();
    for outcome in run_workers(callers as usize, |_| append(log, commits)) {
        outcome?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let LogCounts { records, syncs, .. } = log.counts();
    let (records, syncs) = (records - before.records, syncs - before.syncs);
    let per_second = records as f64 / seconds;
    println!("  {callers:2} callers: {per_second:8.0} commits/s, {:5.1} for each sync", records as f64 / syncs as f64);
    Ok(())
}

fn append(log: &LogWriter, commits: u32) -> Result<(), LogError> {
    (0..commits).try_for_each(|_| log.append(&RECORD).map(drop))
}

/// At 10, 50 and 90 of 100, in microseconds.
fn percentiles(times: &mut [Duration]) -> [f64; 3] {
    times.sort();
    [10, 50, 90].map(|part| times.get(times.len() * part / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6))
}

fn timed<E>(work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

/// The least that a durable commit can be: the same bytes as the log's, in a file written before.
struct Bare {
    file: File,
    size: u64,
    place: std::cell::Cell<u64>,
}

impl Bare {
    fn create(path: &Path, size: u64) -> std::io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        for offset in (0..size).step_by(1 << 20) {
            file.write_all_at(&vec![0; 1 << 20], offset)?;
        }
        file.sync_all()?;
        Ok(Self { file, size, place: 0.into() })
    }

    fn commit(&self) -> std::io::Result<()> {
        let place = self.place.replace((self.place.get() + 512) % self.size);
        self.file.write_all_at(&[7; 512], place)?;
        self.file.sync_data()
    }
}
