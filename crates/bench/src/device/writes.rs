//! Sequential writes: into which kind of space, and in which portions. Each row ends with one sync, whose time counts.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flow::{BufferPool, FileHandle, run_workers};
use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;

use super::super::failed;
use super::super::machine::{DeviceCounts, Storage};
use super::super::pattern::{self, Access, Order, Pattern, Random, Setting, Way};
use super::super::scratch::{Nameless, Scratch};
use super::super::stats::Repeated;
use super::super::target::BenchFile;
use super::options::{DeviceOptions, PAGE};
use super::report::{Write, WriteKind};
use super::run::Bench;
use datadir::Error;

/// Measurements of a round, as a first estimate for the progress bar.
pub(super) const EXPECTED: usize = 20;
const LARGE: u32 = 1 << 20;
const SMALL: u32 = 4096;
const DEPTH: u32 = 8;
/// Threads that write at the same time.
const THREADS: u32 = 4;
/// Maximum bytes of each row.
const LARGE_BYTES_MAX: u64 = 256 << 20;
const SMALL_BYTES_MAX: u64 = 16 << 20;
/// The same, if each page waits for the device.
const SYNCED_BYTES_MAX: u64 = 4 << 20;

/// Size of the largest file created here, bytes.
pub(super) fn space(options: &DeviceOptions) -> u64 {
    options.size.min(LARGE_BYTES_MAX) / u64::from(LARGE) * u64::from(LARGE)
}

impl Bench<'_> {
    /// Measures all rows, in rounds.
    pub(super) fn writes(&mut self, scratch: &Scratch, storage: &Storage) -> Result<(), Error> {
        if !(self.options.accesses.contains(&Access::Write) && self.options.orders.contains(&Order::Sequential)) {
            return Ok(());
        }
        let ways = self.options.ways.iter().filter(|way| self.target.handle(**way == Way::Direct).is_ok());
        let rows: Vec<WriteRow> = ways.flat_map(|&way| rows(way, space(self.options))).collect();
        let mut figures: Vec<(Vec<f64>, Option<DeviceCounts>)> = vec![(Vec::new(), None); rows.len()];
        for _ in 0..self.options.rounds {
            for (row, (rates, device)) in rows.iter().zip(&mut figures) {
                self.watch.step(format!("write sequential, {:?} {:?}", row.kind, row.way), self.done, self.expected)?;
                self.done += 1;
                let files = (0..row.files()).map(|_| scratch.file("written")).collect::<Result<Vec<_>, _>>()?;
                let measured = self.write_row(row, &files, storage);
                self.watch.go_on()?;
                if measured.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
                    continue;
                }
                let (time, counts) = measured.map_err(failed(scratch.path(), "writing"))?;
                rates.push(row.bytes as f64 / time.as_secs_f64().max(1e-9));
                *device = counts;
            }
        }
        for (row, (rates, device)) in rows.into_iter().zip(figures) {
            if rates.is_empty() {
                self.notes.push(format!("{:?} was not measured: the file system does not support it", row.kind));
            } else {
                self.writes.push(row.finish(&rates, device));
            }
        }
        Ok(())
    }

    fn write_row(
        &self,
        row: &WriteRow,
        files: &[Nameless],
        storage: &Storage,
    ) -> io::Result<(Duration, Option<DeviceCounts>)> {
        let mut targets = Vec::new();
        for file in files {
            row.prepare(&file.file)?;
            targets.push(BenchFile::open(&file.again(), row.bytes, true)?);
        }
        let before = storage.counters();
        let start = Instant::now();
        let time = match (row.kind, self.engines.first(), targets.as_mut_slice()) {
            (
                WriteKind::Growing | WriteKind::Fallocated | WriteKind::Zeroed | WriteKind::Recycled,
                Some(&engine),
                [target],
            ) => {
                target.once = true;
                let setting = Setting { engine, block_size: row.block_size, depth: row.depth, threads: 1 };
                let pattern = Pattern { access: Access::Write, order: Order::Sequential, way: row.way, setting };
                let sample = pattern::run(&pattern, target, Duration::MAX, self.watch.stop)?;
                Duration::from_secs_f64(sample.seconds)
            }
            (.., targets) => {
                written(targets, row, self.watch.stop)?;
                start.elapsed()
            }
        };
        let counts = storage.counters().zip(before).map(|(after, before)| after.since(&before));
        Ok((time, counts))
    }
}

/// What is compared for one way, with files of up to `large` bytes.
fn rows(way: Way, large: u64) -> [WriteRow; 10] {
    let (small, synced) = (large.min(SMALL_BYTES_MAX), large.min(SYNCED_BYTES_MAX));
    [
        (WriteKind::Growing, LARGE, DEPTH, 1, large),
        (WriteKind::Fallocated, LARGE, DEPTH, 1, large),
        (WriteKind::Zeroed, LARGE, DEPTH, 1, large),
        (WriteKind::Recycled, LARGE, DEPTH, 1, large),
        (WriteKind::Small, SMALL, 1, 1, small),
        (WriteKind::Gathered, LARGE, 1, 1, small),
        (WriteKind::DataSync, PAGE, 1, 1, synced),
        (WriteKind::Synced, PAGE, 1, 1, synced),
        (WriteKind::Writers, LARGE, 1, THREADS, large),
        (WriteKind::Files, LARGE, 1, THREADS, large),
    ]
    .map(|(kind, block_size, depth, threads, bytes)| WriteRow { kind, way, block_size, depth, threads, bytes })
}

struct WriteRow {
    kind: WriteKind,
    way: Way,
    block_size: u32,
    depth: u32,
    threads: u32,
    bytes: u64,
}

impl WriteRow {
    /// How many files it writes.
    fn files(&self) -> u32 {
        if self.kind == WriteKind::Files { self.threads } else { 1 }
    }

    /// Creates the row's space durably, and drops it from the page cache.
    fn prepare(&self, file: &File) -> io::Result<()> {
        match self.kind {
            WriteKind::Growing | WriteKind::Small | WriteKind::Gathered | WriteKind::Writers | WriteKind::Files => {}
            WriteKind::Fallocated => allocate(file, self.bytes, FallocateFlags::empty())?,
            WriteKind::Recycled | WriteKind::DataSync | WriteKind::Synced => used(file, self.bytes)?,
            WriteKind::Zeroed => {
                used(file, self.bytes)?;
                file.sync_all()?;
                allocate(file, self.bytes, FallocateFlags::ZERO_RANGE)?;
            }
        }
        file.sync_all()?;
        super::super::cold::empty(file, self.bytes).map(drop)
    }

    fn finish(self, rates: &[f64], device: Option<DeviceCounts>) -> Write {
        let Self { kind, way, block_size, depth, threads, bytes } = self;
        Write { kind, way, block_size, depth, threads, bytes, bytes_per_second: Repeated::of(rates), device }
    }
}

fn allocate(file: &File, bytes: u64, flags: FallocateFlags) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, flags, 0, bytes)?)
}

/// Writes the file for the first time.
fn used(mut file: &File, bytes: u64) -> io::Result<()> {
    let mut chunk = vec![0; LARGE as usize];
    Random::default().fill(&mut chunk);
    for _ in 0..bytes / u64::from(LARGE) {
        io::Write::write_all(&mut file, &chunk)?;
    }
    Ok(())
}

/// Writes the row's bytes by its threads, each its own part of the only file or a file of its own, and makes them durable.
fn written(targets: &[BenchFile], row: &WriteRow, stop: &AtomicBool) -> io::Result<()> {
    let part = row.bytes / u64::from(row.threads.max(1)) / u64::from(row.block_size) * u64::from(row.block_size);
    let ended = run_workers(row.threads as usize, |worker| {
        let (own, start) = if targets.len() > 1 { (worker, 0) } else { (0, worker as u64 * part) };
        let target = targets.get(own).ok_or(io::ErrorKind::InvalidInput)?;
        let handle = target.handle(row.way == Way::Direct).map_err(io::Error::other)?;
        one_by_one(handle, row, start..start + part, stop)?;
        target.file().sync_data()
    });
    ended.into_iter().collect()
}

/// Writes one block after another, like a program without concurrency. Gathered writes copy their portions one by one.
fn one_by_one(handle: &FileHandle, row: &WriteRow, range: Range<u64>, stop: &AtomicBool) -> io::Result<()> {
    let mut pool = BufferPool::new(1, row.block_size)?;
    let mut buffer = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
    let mut portion = vec![0; SMALL as usize];
    Random::default().fill(&mut portion);
    let flags = if row.kind == WriteKind::DataSync { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
    for offset in range.step_by(row.block_size as usize) {
        // Relaxed: a flag that only says "end soon".
        if stop.load(Ordering::Relaxed) {
            break;
        }
        buffer.bytes_mut().chunks_exact_mut(portion.len()).for_each(|place| place.copy_from_slice(&portion));
        let mut done = 0;
        while done < row.block_size {
            let bytes = IoSlice::new(buffer.range_mut(done..row.block_size));
            let written = rustix::io::pwritev2(handle.fd()?, &[bytes], offset + u64::from(done), flags)?;
            done += u32::try_from(written.max(1)).unwrap_or(row.block_size);
        }
        if row.kind == WriteKind::Synced {
            rustix::fs::fdatasync(handle.fd()?)?;
        }
    }
    Ok(())
}
