//! One scan of one tree, observed while it runs.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flow::queue::OpenQueue;
use flow::queue::sim::{SimOptions, SimTime};
use flow::{
    Counters, Counts, FileHandle, FileId, FileSet, Gather, GatherPlan, IoMode, ReadAhead, ReadOptions, SPLIT_UNIT,
};
use format::schema::IndexDef;
use serde::Serialize;

use super::super::pattern::Way;
use super::Policy;
use super::server::{Device, Rules, Server};
use datadir::Error;
use datadir::tablespace::Tablespace;
use inspect::tree::walk::{Depth, Tools};
use inspect::tree::{Root, SpaceMap, TreeCounts, Walk};

/// Requests in flight, as in `table check`.
pub(super) const DEPTH: u32 = 32;
/// Bytes of a request, as in `table check`.
pub(super) const BLOCK: u32 = 256 << 10;
/// [`ScanPlace::memory`], as in `table check` with two workers.
pub(super) const SWEEP_MEMORY: u64 = 32 << 20;
/// Pause between readings of the counters.
const PACE: Duration = Duration::from_millis(2);
/// Points of the line over the time of a scan.
const POINTS: u32 = 40;

/// An interval of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Its end, in seconds since the start of the scan.
    pub seconds: f64,
    /// Bytes a second in it.
    pub bytes_per_second: f64,
    /// Requests a second in it.
    pub requests_per_second: f64,
}

/// A tree and where it is.
pub(super) struct ScanPlace<'p> {
    pub space: &'p Tablespace,
    pub map: &'p SpaceMap,
    pub root: &'p Root,
    pub index: Option<&'p IndexDef>,
    /// Memory for what is known about leaves before they are read, bytes.
    pub memory: u64,
    /// Memory of the buffer pool of the servers' policies, bytes.
    pub pool: u64,
}

/// Where the bytes come from.
pub(super) enum Bytes<'b> {
    /// The files for a reader, and the handle of the one for requests of our own.
    Device(Way, &'b FileSet, &'b FileHandle),
    /// The file, with its length in bytes, read on the simulated device's clock.
    Simulated(&'b SimOptions, File, u64),
}

/// The result of a scan.
pub(super) struct Pass {
    pub time: Duration,
    pub effort: Counts,
    pub counts: TreeCounts,
    pub over_time: Vec<Sample>,
}

/// How a scan reads: through these engines, and what counts the requests.
struct Reading<'r> {
    set: &'r FileSet,
    options: ReadOptions,
    engines: &'r [&'r dyn OpenQueue],
    /// Counts in the place of the reader.
    server: Option<&'r Server<'r>>,
}

impl ScanPlace<'_> {
    /// Scans the tree; `None` if the policy does not apply to it.
    pub(super) fn read(&self, bytes: Bytes<'_>, policy: Policy) -> Result<Option<Pass>, Error> {
        let options = ReadOptions { io: IoMode::Direct, depth: DEPTH, block_size: BLOCK, ..ReadOptions::default() };
        match bytes {
            Bytes::Device(way, set, handle) => {
                let io = if way == Way::Direct { IoMode::Direct } else { IoMode::Buffered };
                let options = ReadOptions { io, ..options };
                let engines = options.engine.candidates();
                advise_sequential(handle);
                self.through(set, options, engines, handle.clone(), policy)
            }
            Bytes::Simulated(device, file, len) => {
                let clock = SimTime::new(device, [(file, len)]);
                let engines: [&dyn OpenQueue; 1] = [&clock];
                let pass = self.through(&clock.file_set(), options, &engines, FileHandle::of_engine(), policy)?;
                Ok(pass.map(|pass| Pass { time: clock.elapsed(), ..pass }))
            }
        }
    }

    /// Scans by our own reader, or through the buffer pool of a server.
    fn through(
        &self,
        set: &FileSet,
        options: ReadOptions,
        engines: &[&dyn OpenQueue],
        handle: FileHandle,
        policy: Policy,
    ) -> Result<Option<Pass>, Error> {
        let Some(rules) = policy.rules() else {
            return self.watched(&Reading { set, options, engines, server: None }, policy);
        };
        let Some(server) = self.server(set, engines, handle, rules) else { return Ok(None) };
        let (set, engines): (_, [&dyn OpenQueue; 1]) = (server.file_set(), [&server]);
        // The handle decides which reads are direct.
        let options = ReadOptions { io: IoMode::Direct, ..options };
        self.watched(&Reading { set: &set, options, engines: &engines, server: Some(&server) }, policy)
    }

    /// A server that has just been started; `None` if its pages cannot be read one by one.
    pub(super) fn server<'d>(
        &self,
        set: &FileSet,
        engines: &'d [&'d dyn OpenQueue],
        handle: FileHandle,
        rules: Rules,
    ) -> Option<Server<'d>> {
        let page_size = self.space.format.physical().get();
        // The reader asks for no less than this.
        if page_size < SPLIT_UNIT {
            return None;
        }
        let device = Device { engines, handle, len: set.len_of(FileId(0)), depth: DEPTH, block: BLOCK };
        let pages = usize::try_from(self.pool / u64::from(page_size)).unwrap_or(usize::MAX);
        Some(Server::new(device, rules, pages, page_size))
    }

    /// Scans while another thread reads the counters.
    fn watched(&self, reading: &Reading<'_>, policy: Policy) -> Result<Option<Pass>, Error> {
        let (counters, done) = (Counters::new(1), AtomicBool::new(false));
        let effort = || reading.server.map_or_else(|| counters.total(), Server::counts);
        let start = Instant::now();
        let (counts, time, mut looks) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut looks = Vec::new();
                // Relaxed: one look more or less does not matter.
                while !done.load(Ordering::Relaxed) {
                    std::thread::sleep(PACE);
                    looks.push((start.elapsed(), effort()));
                }
                looks
            });
            let counts = self.walk(reading.set, &reading.options, reading.engines, policy, &counters);
            let time = start.elapsed();
            // Relaxed: the results come through the join.
            done.store(true, Ordering::Relaxed);
            (counts, time, looking.join().unwrap_or_default())
        });
        let effort = effort();
        looks.retain(|(at, _)| *at < time);
        looks.push((time, effort));
        Ok(counts?.map(|counts| Pass { time, effort, counts, over_time: thinned(&looks) }))
    }

    pub(super) fn walk(
        &self,
        set: &FileSet,
        options: &ReadOptions,
        engines: &[&dyn OpenQueue],
        policy: Policy,
        counters: &Counters,
    ) -> Result<Option<TreeCounts>, Error> {
        let ahead = match policy {
            // A server is asked for one page after the other, and reads ahead by itself.
            Policy::None | Policy::Linear | Policy::Random | Policy::Both => ReadAhead::None,
            Policy::Logical | Policy::FileOrder => ReadAhead::LOGICAL,
        };
        let plan = GatherPlan::new(options.block_size);
        let mut gather = Gather::with_engines(set, &plan, options, ahead, counters.worker(0), engines)?;
        let mut tools = Tools::default();
        let walk = Walk::new((self.space, self.map), self.root, self.index, Depth::Count, 1);
        let report = if policy == Policy::FileOrder {
            let Some(report) = walk.sweep(&mut gather, &mut tools, self.memory, None) else { return Ok(None) };
            report
        } else {
            walk.run(&mut gather, &mut tools)
        };
        let path = self.space.path().to_path_buf();
        match report.findings.first() {
            Some(finding) => Err(Error::Damaged { path, what: finding.message.clone() }),
            None if !report.is_complete => {
                Err(Error::Unusable { path, why: "not every page of the index could be read".to_owned() })
            }
            None => Ok(Some(report.counts)),
        }
    }
}

/// Asks the kernel for the read-ahead that it gives the reader of the other policies, so that buffered rows can be compared.
#[cfg(target_os = "linux")]
fn advise_sequential(handle: &FileHandle) {
    if let Ok(fd) = handle.fd()
        && !handle.is_direct()
    {
        // Advice that is ignored changes only the speed.
        rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::Sequential).ok();
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_sequential(_handle: &FileHandle) {}

/// Rates over intervals that are each at least a fixed share of the total time.
fn thinned(looks: &[(Duration, Counts)]) -> Vec<Sample> {
    let total = looks.last().map_or(Duration::ZERO, |(at, _)| *at);
    let least = (total / POINTS).max(Duration::from_nanos(1));
    let (mut before, mut samples) = ((Duration::ZERO, Counts::default()), Vec::new());
    for (at, counts) in looks {
        let seconds = (*at - before.0).as_secs_f64();
        // The end is always a point, however close to the one before.
        if *at < before.0 + least && *at < total {
            continue;
        }
        samples.push(Sample {
            seconds: at.as_secs_f64(),
            bytes_per_second: (counts.bytes_read - before.1.bytes_read) as f64 / seconds.max(1e-9),
            requests_per_second: (counts.requests - before.1.requests) as f64 / seconds.max(1e-9),
        });
        before = (*at, *counts);
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_few_points_and_ends_with_the_scan() {
        let look = |ms: u64| {
            let counts = Counts { bytes_read: ms * 1000, requests: ms, ..Counts::default() };
            (Duration::from_millis(ms), counts)
        };
        let looks: Vec<_> = (1..=1000).map(look).collect();
        let samples = thinned(&looks);
        assert_eq!(samples.len(), 40);
        assert!(samples.iter().all(|sample| (sample.bytes_per_second - 1e6).abs() < 1.0), "{samples:?}");
        assert!(samples.last().is_some_and(|last| (last.seconds - 1.0).abs() < 1e-9));
        let bytes: f64 = thinned(&[look(3)]).iter().map(|sample| sample.seconds * sample.bytes_per_second).sum();
        assert!((bytes - 3000.0).abs() < 1e-6, "one look is one point");
    }
}
