//! `bench recover`: `a crashed datadir -> recovered in one way after another, each with one more idea -> what each gains`
//!
//! On a simulated device that is slow and wide, the datadir is only read, and time is simulated; the processor's work takes none. On the
//! real device, a copy is recovered, cold each time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flow::queue::sim::SimOptions;
use serde::Serialize;

use super::cold::{self, Emptied};
use super::machine::{Machine, Storage};
use super::scratch::Scratch;
use super::simulated::SimulatedDevice;
use super::stats::Repeated;
use super::{Watch, failed};
use datadir::Error;
use recovery::recover::{Clocked, RecoverError, RecoverOptions, Tuning, copy_datadir, on_clock, recover, walk_datadir};

/// What to measure, and how often.
#[derive(Clone, Debug)]
pub struct RecoverBenchOptions {
    /// Rounds on the real device.
    pub rounds: usize,
    /// Working memory, bytes.
    pub memory: usize,
    /// The simulated device; `None` to leave it out.
    pub sim: Option<SimOptions>,
    /// A directory in which to recover copies; `None` to leave out the real device.
    pub on_device: Option<PathBuf>,
}

impl Default for RecoverBenchOptions {
    fn default() -> Self {
        Self { rounds: 1, memory: RecoverOptions::default().memory, sim: Some(SimOptions::default()), on_device: None }
    }
}

/// The serial way: small requests for the log, then one page after another, and repeated syncs of each file.
const SERIAL: Tuning = Tuning {
    log_block: 64 << 10,
    log_ahead: 1,
    depth: 1,
    stretch_max: Some(0),
    shadow_max: 4 << 20,
    overlap: false,
    prefetch: false,
};

/// Each has one more idea than the one before.
fn steps() -> Vec<(&'static str, Tuning)> {
    let all = Tuning::default();
    let log = Tuning { log_block: all.log_block, log_ahead: all.log_ahead, ..SERIAL };
    let pages = Tuning { depth: all.depth, ..log };
    let neighbours = Tuning { stretch_max: all.stretch_max, ..pages };
    let syncs = Tuning { shadow_max: all.shadow_max, ..neighbours };
    vec![
        ("serial", SERIAL),
        ("the log asked for at once", log),
        ("and pages", pages),
        ("and their neighbours", neighbours),
        ("files synced once", syncs),
        ("writing in the background", Tuning { overlap: true, ..syncs }),
        // Last, and on a real device only: the simulated one reads the log first.
        ("pages read beside the log", all),
    ]
}

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct RecoverBenchReport {
    /// The machine.
    pub machine: Machine,
    /// The storage that holds the copies, or the datadir if there are none.
    pub storage: Storage,
    /// Working memory, bytes.
    pub memory: usize,
    /// Bytes of redo since the checkpoint.
    pub redo: u64,
    /// Mini-transactions in it.
    pub mtrs: u64,
    /// Pages changed.
    pub pages_changed: u64,
    /// Number of parts in which they were changed.
    pub rounds_of_pages: u64,
    /// The simulated device.
    pub simulated: Option<SimulatedDevice>,
    /// How the copies were made cold.
    pub cache: Emptied,
    /// Rounds on the real device.
    pub rounds: usize,
    /// The steps.
    pub steps: Vec<StepRow>,
}

/// One way to recover.
#[derive(Clone, Debug, Serialize)]
pub struct StepRow {
    /// The idea that it adds to the step before.
    pub step: &'static str,
    /// Results on the simulated device.
    pub simulated: Option<SimulatedStep>,
    /// Seconds on the real device.
    pub seconds: Option<Repeated>,
    /// Speed relative to the first step in the same round.
    pub times_serial: Option<Repeated>,
}

/// A step on the simulated device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimulatedStep {
    /// Seconds on the device's clock.
    pub seconds: f64,
    /// Of these, the seconds to read the log.
    pub log_seconds: f64,
    /// Reads, of the log and of pages.
    pub reads: u64,
    /// Writes, of pages and of the shadow.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// The most requests in flight.
    pub in_flight_max: u64,
    /// Time of the first step over the time of this one.
    pub times_serial: f64,
}

/// Recovers a crashed datadir in one way after another. The datadir itself is only read.
///
/// # Errors
/// If it cannot be recovered, if there is nothing to recover, or if the run was interrupted.
pub fn bench_recover(
    datadir: &Path,
    options: &RecoverBenchOptions,
    watch: Watch<'_>,
) -> Result<RecoverBenchReport, RecoverError> {
    let dry = RecoverOptions { dry_run: true, memory: options.memory, ..RecoverOptions::default() };
    watch.step("what there is to recover", 0, 0)?;
    let whole = recover(datadir, &dry)?;
    if whole.was_clean {
        return Err(Error::Usage(format!("{}: there is nothing to recover", datadir.display())).into());
    }
    let place = options.on_device.as_deref().unwrap_or(datadir);
    let sim = options.sim.clone();
    let steps = steps();
    let on_device = if options.on_device.is_some() { options.rounds } else { 0 };
    let clocked = sim.as_ref().map_or(0, |_| steps.iter().filter(|(_, tuning)| !tuning.prefetch).count());
    let expected = (steps.len() * on_device + clocked) as u64;
    let mut bench = Bench { datadir, options, watch, cache: Emptied::default(), done: 0, expected };
    let clocked = sim.as_ref().map(|sim| bench.clock(&steps, sim)).transpose()?.unwrap_or_default();
    let seconds = bench.measure(&steps)?;
    Ok(RecoverBenchReport {
        machine: Machine::here(),
        storage: Storage::below(place).map_err(failed(place, "asking about the file system"))?,
        memory: options.memory,
        redo: whole.end_lsn - whole.checkpoint_lsn,
        mtrs: whole.mtrs,
        pages_changed: whole.pages_changed,
        rounds_of_pages: whole.rounds,
        simulated: sim.as_ref().map(SimulatedDevice::of),
        cache: bench.cache,
        rounds: on_device,
        steps: rows(&steps, &clocked, &seconds),
    })
}

struct Bench<'b> {
    datadir: &'b Path,
    options: &'b RecoverBenchOptions,
    watch: Watch<'b>,
    cache: Emptied,
    done: u64,
    expected: u64,
}

impl Bench<'_> {
    fn step(&mut self, what: String) -> Result<(), Error> {
        self.watch.step(what, self.done, self.expected)?;
        self.done += 1;
        Ok(())
    }

    fn clock(&mut self, steps: &[(&str, Tuning)], sim: &SimOptions) -> Result<Vec<Clocked>, RecoverError> {
        let mut all = Vec::new();
        for (name, tuning) in steps.iter().filter(|(_, tuning)| !tuning.prefetch) {
            self.step(format!("simulated: {name}"))?;
            all.push(on_clock(self.datadir, self.options.memory, tuning, sim)?);
        }
        Ok(all)
    }

    /// Measures the seconds of each step in each round.
    fn measure(&mut self, steps: &[(&str, Tuning)]) -> Result<Vec<Vec<f64>>, RecoverError> {
        let Some(parent) = &self.options.on_device else { return Ok(Vec::new()) };
        let len = files_below(self.datadir)?.iter().map(|(_, len)| len).sum();
        let scratch = Scratch::new(parent, len)?;
        let mut all = vec![Vec::new(); steps.len()];
        for round in 0..self.options.rounds {
            for ((name, tuning), seconds) in steps.iter().zip(&mut all) {
                self.step(format!("round {}: {name}", round + 1))?;
                seconds.push(self.recover(&scratch.path().join("copy"), *tuning)?.as_secs_f64());
            }
        }
        Ok(all)
    }

    fn recover(&mut self, copy: &Path, tuning: Tuning) -> Result<Duration, RecoverError> {
        copy_datadir(self.datadir, copy, &[])?;
        for (path, len) in files_below(copy)? {
            let emptied = File::open(&path).and_then(|file| cold::empty(&file, len));
            self.cache = self.cache.max(emptied.map_err(failed(&path, "dropping it from the page cache"))?);
        }
        let options = RecoverOptions { memory: self.options.memory, tuning, ..RecoverOptions::default() };
        let started = Instant::now();
        recover(copy, &options)?;
        let time = started.elapsed();
        fs::remove_dir_all(copy).map_err(failed(copy, "removing the copy"))?;
        Ok(time)
    }
}

fn files_below(dir: &Path) -> Result<Vec<(PathBuf, u64)>, RecoverError> {
    let mut files = Vec::new();
    walk_datadir(dir, &mut |name, metadata| {
        files.extend(metadata.is_file().then(|| (dir.join(name), metadata.len())));
        Ok(())
    })?;
    Ok(files)
}

fn rows(steps: &[(&'static str, Tuning)], clocked: &[Clocked], seconds: &[Vec<f64>]) -> Vec<StepRow> {
    let time = |clocked: &Clocked| (clocked.log + clocked.pages).as_secs_f64().max(1e-9);
    let serial = clocked.first().map_or(0.0, time);
    let row = |(number, (step, _)): (usize, &(&'static str, Tuning))| {
        let simulated = clocked.get(number).map(|clocked| SimulatedStep {
            seconds: time(clocked),
            log_seconds: clocked.log.as_secs_f64(),
            reads: clocked.log_counts.reads + clocked.page_counts.reads,
            writes: clocked.page_counts.writes,
            syncs: clocked.page_counts.syncs,
            in_flight_max: clocked.log_counts.in_flight_max.max(clocked.page_counts.in_flight_max),
            times_serial: serial / time(clocked),
        });
        let measured = seconds.get(number).filter(|seconds| !seconds.is_empty());
        StepRow {
            step,
            simulated,
            seconds: measured.map(|seconds| Repeated::of(seconds)),
            times_serial: measured.map(|of_step| {
                let serial = seconds.first().map(Vec::as_slice).unwrap_or_default();
                let times: Vec<f64> =
                    serial.iter().zip(of_step).map(|(serial, step)| serial / step.max(1e-9)).collect();
                Repeated::of(&times)
            }),
        }
    };
    steps.iter().enumerate().map(row).collect()
}
