//! Callers that commit as fast as they can, one record after another, each waiting for its own.

use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flow::log_writer::LogWriter;
use flow::run_workers;

use super::super::cold::{self, Emptied};
use super::super::machine::{DeviceCounts, Storage, process_read_bytes};
use super::super::scratch::Scratch;
use super::super::stats::Latency;
use super::super::{Watch, failed};
use super::plan::{LogBenchOptions, LogPlan, Method};
use super::space::{self, GROUP_MAX};
use datadir::Error;

/// The result of one run.
#[derive(Clone, Debug)]
pub(super) struct Driven {
    pub commits: u64,
    /// Groups: writes with a sync.
    pub groups: u64,
    pub seconds: f64,
    pub latency: Latency,
    pub device: Option<DeviceCounts>,
    pub own_read_bytes: Option<u64>,
    pub emptied: Emptied,
}

impl Driven {
    /// Commits a second.
    pub(super) fn rate(&self) -> f64 {
        self.commits as f64 / self.seconds.max(1e-9)
    }
}

/// Runs a row once.
pub(super) fn run(
    scratch: &Scratch,
    storage: &Storage,
    plan: LogPlan,
    options: &LogBenchOptions,
    watch: Watch<'_>,
) -> Result<Driven, Error> {
    if plan.method == Method::BareLoop {
        return bare_loop(scratch, storage, options, watch);
    }
    let (log, emptied) = space::log(scratch, plan, options)?;
    // The ring must not wrap: blocks written earlier in the run would be cached.
    let end = options.size - u64::from(GROUP_MAX) * 2 - space::file_size(options).min(1 << 20);
    let meter = Meter::start(storage);
    let (seconds, times) = commits(&log, plan.callers, options, end, watch.stop)?;
    let outcome = meter.stop(seconds, times, log.counts().groups, emptied);
    watch.go_on()?;
    Ok(outcome)
}

/// Runs all callers together. Returns the seconds, and the nanoseconds of each commit.
fn commits(
    log: &LogWriter,
    callers: usize,
    options: &LogBenchOptions,
    end: u64,
    stop: &AtomicBool,
) -> Result<(f64, Vec<u32>), Error> {
    let record = vec![0x5a; options.record];
    let ready = Barrier::new(callers);
    let outcomes = run_workers(callers, |_| {
        let mut times = Vec::with_capacity(1 << 14);
        ready.wait();
        let start = Instant::now();
        let mut now = start;
        // Relaxed: a flag that only says "end soon".
        while now.duration_since(start) < options.time && !stop.load(Ordering::Relaxed) {
            let lsn = log.append(&record)?;
            let after = Instant::now();
            times.push(nanos(after.duration_since(now)));
            now = after;
            if lsn.0 >= end {
                break;
            }
        }
        Ok((start, now, times))
    });
    let outcomes: Vec<_> = outcomes
        .into_iter()
        .collect::<Result<_, flow::log_writer::LogError>>()
        .map_err(|error| Error::Usage(error.to_string()))?;
    let start = outcomes.iter().map(|(start, ..)| *start).min();
    let stop = outcomes.iter().map(|(_, end, _)| *end).max();
    let seconds = start.zip(stop).map_or(0.0, |(start, stop)| (stop - start).as_secs_f64());
    Ok((seconds, outcomes.into_iter().flat_map(|(.., times)| times).collect()))
}

/// The shortest way to durable 512 bytes: write and sync. No record, no checksum, no lock.
fn bare_loop(
    scratch: &Scratch,
    storage: &Storage,
    options: &LogBenchOptions,
    watch: Watch<'_>,
) -> Result<Driven, Error> {
    const BLOCK: usize = 512;
    let path = scratch.path().join("bare");
    let file = space::old(&path, options.size)?;
    std::fs::remove_file(&path).map_err(failed(&path, "removing its name"))?;
    let emptied = cold::empty(&file, options.size).map_err(failed(&path, "making it cold"))?;
    let block = [0x5a; BLOCK];
    let mut times = Vec::with_capacity(1 << 14);
    let meter = Meter::start(storage);
    let start = Instant::now();
    let mut now = start;
    // Leave the first blocks of the file for a header, as a log does.
    for offset in (4096..options.size - BLOCK as u64).step_by(BLOCK) {
        // Relaxed: a flag that only says "end soon".
        if now.duration_since(start) >= options.time || watch.stop.load(Ordering::Relaxed) {
            break;
        }
        let write = file.write_all_at(&block, offset).and_then(|()| file.sync_data());
        write.map_err(failed(&path, "writing"))?;
        let after = Instant::now();
        times.push(nanos(after.duration_since(now)));
        now = after;
    }
    let groups = times.len() as u64;
    let outcome = meter.stop(now.duration_since(start).as_secs_f64(), times, groups, emptied);
    watch.go_on()?;
    Ok(outcome)
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// What the storage does in an interval.
struct Meter<'s> {
    storage: &'s Storage,
    device: Option<DeviceCounts>,
    own: Option<u64>,
}

impl<'s> Meter<'s> {
    fn start(storage: &'s Storage) -> Self {
        Self { storage, device: storage.counters(), own: process_read_bytes() }
    }

    fn stop(self, seconds: f64, times: Vec<u32>, groups: u64, emptied: Emptied) -> Driven {
        let device = self.storage.counters().zip(self.device).map(|(after, before)| after.since(&before));
        let own_read_bytes = process_read_bytes().zip(self.own).map(|(after, before)| after.saturating_sub(before));
        let commits = times.len() as u64;
        Driven { commits, groups, seconds, latency: Latency::of(times), device, own_read_bytes, emptied }
    }
}
