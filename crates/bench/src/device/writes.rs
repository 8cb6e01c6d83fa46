//! Sequential writes: into which kind of space, and in which portions. Each row ends with one sync, whose time counts.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use flow::{BufferPool, FileHandle};
use rustix::fs::FallocateFlags;

use super::super::failed;
use super::super::machine::{DeviceCounts, Storage};
use super::super::pattern::{self, Access, Order, Pattern, Random, Setting, Way};
use super::super::scratch::{Nameless, Scratch};
use super::super::stats::Repeated;
use super::super::target::BenchFile;
use super::options::{DeviceOptions, REPEATS};
use super::report::{Write, WriteKind};
use super::run::Bench;
use jobs::Error;

/// Measurements, as a first estimate for the progress bar.
pub(super) const EXPECTED: u64 = 10 * REPEATS as u64;
const LARGE: u32 = 1 << 20;
const SMALL: u32 = 4096;
const DEPTH: u32 = 8;
/// Maximum bytes of each row.
const LARGE_BYTES_MAX: u64 = 256 << 20;
const SMALL_BYTES_MAX: u64 = 16 << 20;

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
        let large = space(self.options);
        let small = large.min(SMALL_BYTES_MAX);
        let ways = self.options.ways.iter().filter(|way| self.target.handle(**way == Way::Direct).is_ok());
        let rows: Vec<WriteRow> = ways
            .flat_map(|&way| {
                let space = [WriteKind::Growing, WriteKind::Fallocated, WriteKind::Recycled];
                let portions = [(WriteKind::Small, SMALL), (WriteKind::Gathered, LARGE)];
                let space = space.map(|kind| WriteRow { kind, way, block_size: LARGE, depth: DEPTH, bytes: large });
                let portions =
                    portions.map(|(kind, block_size)| WriteRow { kind, way, block_size, depth: 1, bytes: small });
                space.into_iter().chain(portions)
            })
            .collect();
        let mut figures: Vec<(Vec<f64>, Option<DeviceCounts>)> = vec![(Vec::new(), None); rows.len()];
        for _ in 0..REPEATS {
            for (row, (rates, device)) in rows.iter().zip(&mut figures) {
                self.watch.step(format!("write sequential, {:?} {:?}", row.kind, row.way), self.done, self.expected)?;
                self.done += 1;
                let file = scratch.file("written")?;
                let measured = self.write_row(row, &file, storage);
                self.watch.go_on()?;
                let (time, counts) = measured.map_err(failed(&file.path, "writing"))?;
                rates.push(row.bytes as f64 / time.as_secs_f64().max(1e-9));
                *device = counts;
            }
        }
        self.writes = rows.into_iter().zip(figures).map(|(row, (rates, device))| row.finish(&rates, device)).collect();
        Ok(())
    }

    fn write_row(
        &self,
        row: &WriteRow,
        file: &Nameless,
        storage: &Storage,
    ) -> io::Result<(Duration, Option<DeviceCounts>)> {
        row.prepare(&file.file)?;
        let mut target = BenchFile::open(&file.again(), row.bytes, true)?;
        target.once = true;
        let before = storage.counters();
        let start = Instant::now();
        let time = match (row.kind, self.engines.first()) {
            (WriteKind::Small | WriteKind::Gathered, _) | (_, None) => {
                let handle = target.handle(row.way == Way::Direct).map_err(io::Error::other)?;
                one_by_one(handle, row)?;
                target.file().sync_data()?;
                start.elapsed()
            }
            (_, Some(&engine)) => {
                let setting = Setting { engine, block_size: row.block_size, depth: row.depth, threads: 1 };
                let pattern = Pattern { access: Access::Write, order: Order::Sequential, way: row.way, setting };
                let sample = pattern::run(&pattern, &target, Duration::MAX, self.watch.stop)?;
                Duration::from_secs_f64(sample.seconds)
            }
        };
        let counts = storage.counters().zip(before).map(|(after, before)| after.since(&before));
        Ok((time, counts))
    }
}

struct WriteRow {
    kind: WriteKind,
    way: Way,
    block_size: u32,
    depth: u32,
    bytes: u64,
}

impl WriteRow {
    /// Creates the row's space durably, and drops it from the page cache.
    fn prepare(&self, file: &File) -> io::Result<()> {
        match self.kind {
            WriteKind::Growing | WriteKind::Small | WriteKind::Gathered => {}
            WriteKind::Fallocated => allocate(file, self.bytes)?,
            WriteKind::Recycled => {
                let mut chunk = vec![0; LARGE as usize];
                Random::default().fill(&mut chunk);
                let mut out = file;
                for _ in 0..self.bytes / u64::from(LARGE) {
                    io::Write::write_all(&mut out, &chunk)?;
                }
            }
        }
        file.sync_all()?;
        super::super::cold::empty(file, self.bytes).map(drop)
    }

    fn finish(self, rates: &[f64], device: Option<DeviceCounts>) -> Write {
        let Self { kind, way, block_size, depth, bytes } = self;
        Write { kind, way, block_size, depth, bytes, bytes_per_second: Repeated::of(rates), device }
    }
}

fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

/// Writes one block after another, like a program without concurrency. Gathered writes copy their portions one by one.
fn one_by_one(handle: &FileHandle, row: &WriteRow) -> io::Result<()> {
    let mut pool = BufferPool::new(1, row.block_size)?;
    let mut buffer = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
    let mut portion = vec![0; SMALL as usize];
    Random::default().fill(&mut portion);
    for offset in (0..row.bytes).step_by(row.block_size as usize) {
        buffer.bytes_mut().chunks_exact_mut(portion.len()).for_each(|place| place.copy_from_slice(&portion));
        let mut done = 0;
        while done < row.block_size {
            let bytes = buffer.range_mut(done..row.block_size);
            let written = rustix::io::pwrite(handle.fd()?, bytes, offset + u64::from(done))?;
            done += u32::try_from(written.max(1)).unwrap_or(row.block_size);
        }
    }
    Ok(())
}
