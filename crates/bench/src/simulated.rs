//! The simulated device of all benches: slow, but wide. Time is counted on its clock, so that the machine below does not matter; the
//! processor's work takes none.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use flow::log_writer::{Fill, LogOptions, LogWriter, Recycle, SimLog, Space};
use flow::queue::sim::{SimDevice, SimOptions, SimTime};
use flow::queue::{OpenQueue, Operation, Request};
use flow::{Buffer, FileHandle, FileId};
use serde::Serialize;

use super::failed;
use datadir::Error;

/// Its properties.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimulatedDevice {
    /// Time of a read or write, microseconds.
    pub latency_us: f64,
    /// Time of a sync, microseconds.
    pub sync_us: f64,
    /// What a sync takes longer for each GiB written since the last one, microseconds.
    pub sync_us_per_gib: f64,
    /// Requests it works on concurrently.
    pub parallel: u32,
    /// Its bandwidth, bytes a second.
    pub bandwidth: u64,
}

impl SimulatedDevice {
    pub(super) fn of(sim: &SimOptions) -> Self {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Self {
            latency_us: us(sim.latency),
            sync_us: us(sim.sync_latency),
            sync_us_per_gib: us(sim.sync_per_gib),
            parallel: sim.parallel,
            bandwidth: sim.bandwidth,
        }
    }
}

/// Commits of one caller on the device, on cold recycled space.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimulatedCommits {
    /// Whether new log blocks only (`nothing`), zeros on the first touch, or whole blocks are written.
    pub fill: SimulatedFill,
    /// Commits.
    pub commits: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Hidden reads: blocks of the file system read because a write covers a part of them.
    pub hidden_reads: u64,
    /// Seconds on the device's clock.
    pub seconds: f64,
    /// Time of the naive log over the time of this one.
    pub times_naive: f64,
}

/// What a write contains besides new log blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulatedFill {
    /// Nothing: the naive log.
    Nothing,
    /// Zeros on the first touch of a block.
    FirstTouch,
    /// Always whole blocks.
    Whole,
}

/// Commits 400 bytes at a time, in each way.
///
/// # Errors
/// A log that cannot be made.
pub(super) fn commits(sim: &SimOptions, commits: u64, record: usize) -> Result<Vec<SimulatedCommits>, Error> {
    const FILES: u32 = 2;
    let mut rows: Vec<SimulatedCommits> = Vec::new();
    let record = vec![0x5a; record];
    // Each commit is a log block of its own; the ring must not wrap.
    let file_size = (commits * 512).next_multiple_of(1 << 16) + (1 << 16);
    for fill in [SimulatedFill::Nothing, SimulatedFill::FirstTouch, SimulatedFill::Whole] {
        let device = SimDevice::new(SimOptions { cache_block: 4096, forgets: false, ..sim.clone() });
        let options = LogOptions {
            files: FILES,
            file_size,
            block_size: 4096,
            space: Space::Recycled,
            fill: match fill {
                SimulatedFill::Nothing => Fill::Nothing,
                SimulatedFill::FirstTouch => Fill::FirstTouch,
                SimulatedFill::Whole => Fill::Whole,
            },
            recycle: Recycle::Oldest,
            group_max: 1 << 16,
            ..LogOptions::default()
        };
        let outcome = LogWriter::create_on(SimLog::create(&device, &options), &options).and_then(|log| {
            device.drop_cache();
            let (before, started) = (device.counts(), device.elapsed());
            for _ in 0..commits {
                log.append(&record)?;
            }
            Ok((before, started))
        });
        let (before, started) = outcome.map_err(|error| Error::Usage(format!("the simulated log: {error}")))?;
        let (after, seconds) = (device.counts(), (device.elapsed() - started).as_secs_f64());
        let naive = rows.first().map_or(seconds, |row| row.seconds);
        rows.push(SimulatedCommits {
            fill,
            commits,
            writes: after.writes - before.writes,
            syncs: after.syncs - before.syncs,
            hidden_reads: after.reads_on_write - before.reads_on_write,
            seconds,
            times_naive: naive / seconds.max(1e-9),
        });
    }
    Ok(rows)
}

/// Pages written at scattered places of a file, each once, and made durable.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ScatteredWrites {
    /// Writes of 4 KiB.
    pub writes: u64,
    /// Writes in flight.
    pub depth: u32,
    /// Writes from one sync to the next.
    pub sync_every: u64,
    /// Syncs.
    pub syncs: u64,
    /// The most requests in flight.
    pub in_flight_max: u64,
    /// Seconds on the device's clock.
    pub seconds: f64,
    /// Time of the first row over the time of this one.
    pub times_first: f64,
}

/// Writes one after another with frequent syncs, then with as many in flight as the device is wide, then with one sync.
///
/// # Errors
/// The engine's.
pub(super) fn scattered(sim: &SimOptions, writes: u64) -> Result<Vec<ScatteredWrites>, Error> {
    const OFTEN: u64 = 1000;
    let wide = sim.parallel.clamp(1, 1024);
    let mut rows: Vec<ScatteredWrites> = Vec::new();
    for (depth, sync_every) in [(1, OFTEN), (wide, OFTEN), (wide, writes.max(1))] {
        let null = Path::new("/dev/null");
        let clock = SimTime::new(sim, [(File::open(null).map_err(failed(null, "opening"))?, 0)]);
        write_scattered(&clock, writes, depth, sync_every).map_err(failed(null, "writing"))?;
        let (counts, seconds) = (clock.counts(), clock.elapsed().as_secs_f64());
        let first = rows.first().map_or(seconds, |row| row.seconds);
        rows.push(ScatteredWrites {
            writes: counts.writes,
            depth,
            sync_every,
            syncs: counts.syncs,
            in_flight_max: counts.in_flight_max,
            seconds,
            times_first: first / seconds.max(1e-9),
        });
    }
    Ok(rows)
}

fn write_scattered(clock: &SimTime, writes: u64, depth: u32, sync_every: u64) -> std::io::Result<()> {
    const PAGE: u32 = 4096;
    let mut queue = clock.open(depth, &[])?;
    let request = |operation, token: u64| Request {
        token,
        operation,
        file: FileId(0),
        handle: FileHandle::of_engine(),
        // The device has no order of places; that none follows its neighbour is what keeps them from being joined.
        offset: token * 2 * u64::from(PAGE),
        start: 0,
        len: if operation == Operation::Write { PAGE } else { 0 },
        buffer: Buffer::empty(),
    };
    let (mut done, mut in_flight) = (Vec::new(), 0_u32);
    for number in 0..writes {
        queue.submit(request(Operation::Write, number));
        in_flight += 1;
        let is_due = (number + 1).is_multiple_of(sync_every) || number + 1 == writes;
        while in_flight == depth || (is_due && in_flight > 0) {
            queue.wait(&mut done)?;
            in_flight -= u32::try_from(done.len()).unwrap_or(in_flight).min(in_flight);
            done.clear();
        }
        if is_due {
            queue.submit(request(Operation::Sync, number));
            queue.wait(&mut done)?;
            done.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_read_for_every_eighth_naive_commit_and_none_for_filled_ones() {
        let rows = commits(&SimOptions::default(), 64, 400).expect("a log");
        let counted: Vec<_> = rows.iter().map(|row| (row.fill, row.writes, row.syncs, row.hidden_reads)).collect();
        assert_eq!(
            counted,
            [
                (SimulatedFill::Nothing, 64, 64, 8),
                (SimulatedFill::FirstTouch, 64, 64, 0),
                (SimulatedFill::Whole, 64, 64, 0)
            ]
        );
        assert!(rows[1].times_naive > 1.0, "{rows:?}");
    }

    #[test]
    fn the_slow_cloud_disk_takes_what_its_pipe_and_its_syncs_take() {
        let (sim, writes) = (SimOptions::cloud(), 2000);
        let rows = scattered(&sim, writes).expect("works");
        let moving = writes as f64 * 4096.0 / 1e7;
        let dirty = writes as f64 * 4096.0 / f64::from(1 << 30) * 10.0;
        let serial = writes as f64 * 0.0005 + moving + dirty + 2.0 * 0.01;
        assert!((rows[0].seconds - serial).abs() < 0.01, "{rows:?}, expected {serial}");
        // Two syncs, then one: the pipe and the syncs are what is left.
        assert!((rows[1].seconds - (moving + dirty + 2.0 * 0.0105)).abs() < 0.01, "{rows:?}");
        assert!((rows[2].seconds - (moving + dirty + 0.0105)).abs() < 0.01, "{rows:?}");
        assert_eq!(
            rows.iter().map(|row| (row.syncs, row.in_flight_max)).collect::<Vec<_>>(),
            [(2, 1), (2, 64), (1, 64)]
        );
    }
}
