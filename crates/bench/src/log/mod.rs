//! `bench log`: `callers -> LogWriter -> commits a second, and what the device did for each`
//!
//! Every row writes a log of its own, in nameless files of the row's kind of space, dropped from the page cache. The row ends before the
//! ring wraps, so that each block is touched for the first time. Measurements come in rounds. What a row gains over another in a few percent
//! of cases is for `pairs`: plain loops that take turns.

mod drive;
mod pairs;
mod plan;
mod space;

use std::path::Path;

use serde::Serialize;

use super::cold::Emptied;
use super::machine::{Machine, Storage};
use super::scratch::Scratch;
pub use super::simulated::{ScatteredWrites, SimulatedCommits, SimulatedDevice, SimulatedFill};
use super::stats::{Latency, Repeated, median};
use super::{Watch, failed, simulated};
use datadir::Error;
use drive::Driven;
pub use pairs::{Call, Loop, Padding, PairRow, SideFigures, Sync};
use pairs::{PairOutcome, Pairs};
use plan::LogPlan;
pub use plan::{Ground, LogBenchOptions, Method};

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct LogBenchReport {
    /// The machine.
    pub machine: Machine,
    /// The storage that holds the logs.
    pub storage: Storage,
    /// Rounds.
    pub rounds: usize,
    /// Duration of one measurement.
    pub seconds_each: f64,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// How the space was made cold.
    pub cache: Emptied,
    /// One caller: each method on each ground.
    pub one_caller: Vec<LogBenchRow>,
    /// More callers, on recycled space.
    pub callers: Vec<LogBenchRow>,
    /// Plain loops that fill, in turns with naive ones on cold recycled space.
    pub pairs: Vec<PairRow>,
    /// The simulated device.
    pub simulated: Option<SimulatedLog>,
    /// Comparisons between the rows.
    pub ratios: Ratios,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// Logs and page writes on a device that is slow and wide.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedLog {
    /// Its properties.
    #[serde(flatten)]
    pub device: SimulatedDevice,
    /// One caller, on cold recycled space.
    pub commits: Vec<SimulatedCommits>,
    /// Pages written at scattered places.
    pub scattered: Vec<ScatteredWrites>,
}

/// One way of committing.
#[derive(Clone, Debug, Serialize)]
pub struct LogBenchRow {
    /// How the log was written.
    pub method: Method,
    /// The kind of space of its files.
    pub ground: Ground,
    /// Concurrent callers.
    pub callers: usize,
    /// Commits a second.
    pub commits_per_second: Repeated,
    /// Latency of a commit, in the last round.
    pub latency: Latency,
    /// Commits per write and sync: how many shared one.
    pub commits_per_group: f64,
    /// What the storage did per commit.
    pub per_commit: PerCommit,
}

/// What the storage did per commit; medians of the rounds. The device counts the work of the whole machine.
#[derive(Clone, Debug, Serialize)]
pub struct PerCommit {
    /// Reads of the device; null if they are not counted.
    pub device_reads: Option<f64>,
    /// Writes of the device: the log's own, those of the file system's journal, and each flush without data.
    pub device_writes: Option<f64>,
    /// Bytes written to the device: whole blocks of the log's file, and the journal.
    pub device_written_bytes: Option<f64>,
    /// Flushes of the device's cache.
    pub device_flushes: Option<f64>,
    /// Bytes that this process alone had the system read, in file system blocks; null if they are not counted.
    pub own_reads: Option<f64>,
}

/// Ratios between rows, each within one round; medians of the rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ratios {
    /// Commits a second: zero-filled on recycled space, over 512-byte appends to a growing file, the naive way to write a log.
    pub recycled_to_append: Option<f64>,
    /// Commits a second of one caller on recycled space: zero-filled over naive.
    pub zero_fill_to_naive: Option<f64>,
    /// The same: whole blocks over naive.
    pub whole_to_naive: Option<f64>,
    /// Commits a second, zero-filled: recycled space over a growing file.
    pub recycled_to_growing: Option<f64>,
    /// The same: recycled over fallocated space.
    pub recycled_to_fallocated: Option<f64>,
    /// Commits a second with 32 callers (or the most measured) over one caller, zero-filled.
    pub many_callers_to_one: Option<f64>,
    /// Median time of a commit: naive writer over bare loop, both with one caller on recycled space.
    pub writer_to_bare_loop: Option<f64>,
}

/// Commits on the simulated device: the counts of one file system block repeat.
const SIMULATED_COMMITS: u64 = 1024;

/// The methods measured with several callers.
const GROUP_METHODS: [Method; 3] = [Method::ZeroFill, Method::Direct, Method::Dsync];

/// Measures logs in the file system of `dir`.
///
/// # Errors
/// If there is no room, if files cannot be created, if the device fails, or if the run was interrupted.
pub fn log(dir: &Path, options: &LogBenchOptions, watch: Watch<'_>) -> Result<LogBenchReport, Error> {
    validate(options)?;
    // A row's log, and the two files of the loops.
    let scratch = Scratch::new(dir, options.size.saturating_mul(3))?;
    let storage = Storage::below(dir).map_err(failed(dir, "asking about the file system"))?;
    let mut notes = Vec::new();
    let direct = space::takes_direct(&scratch)?;
    if let Err(why) = &direct {
        notes.push(format!("direct I/O was not measured, the file system refuses it: {why}"));
    }
    let plans = plans(options, direct.is_ok());
    let mut outcomes: Vec<Vec<Driven>> = vec![Vec::new(); plans.len()];
    let loops = pairs::loops(options, fs_block(&storage));
    let (mut done, expected) = (0, ((plans.len() + loops.len()) * options.rounds) as u64);
    let mut step = |what: String| {
        let outcome = watch.step(what, done, expected);
        done += 1;
        outcome
    };
    let paired = measure_pairs(&scratch, &storage, &loops, options, watch, &mut step)?;
    for _ in 0..options.rounds {
        for (plan, outcomes) in plans.iter().zip(&mut outcomes) {
            step(format!("{:?} on {:?}, callers: {}", plan.method, plan.ground, plan.callers))?;
            outcomes.push(drive::run(&scratch, &storage, *plan, options, watch)?);
        }
    }
    let simulated = options.sim.as_ref().map(|sim| {
        Ok::<_, Error>(SimulatedLog {
            device: SimulatedDevice::of(sim),
            commits: simulated::commits(sim, SIMULATED_COMMITS, options.record)?,
            scattered: simulated::scattered(sim, options.scattered)?,
        })
    });
    let simulated = simulated.transpose()?;
    let emptied = outcomes.iter().flatten().map(|outcome| outcome.emptied);
    let cache = emptied.chain(paired.iter().flatten().map(|outcome| outcome.emptied)).max().unwrap_or_default();
    let block = f64::from(storage.file_system_block.max(1));
    let rows = |group: bool| {
        let of_group = plans.iter().zip(&outcomes).filter(|(plan, _)| plan.in_group() == group);
        of_group.map(|(plan, outcomes)| plan.row(outcomes, block)).collect::<Vec<_>>()
    };
    Ok(LogBenchReport {
        machine: Machine::here(),
        rounds: options.rounds,
        seconds_each: options.time.as_secs_f64(),
        record_bytes: options.record,
        cache,
        one_caller: rows(false),
        callers: rows(true),
        simulated,
        pairs: loops.iter().zip(&paired).map(|(of, rounds)| pairs::row(*of, rounds, block)).collect(),
        ratios: ratios(&plans, &outcomes),
        storage,
        notes,
    })
}

/// The file system's block, as far as a commit of 512 bytes has parts of one.
fn fs_block(storage: &Storage) -> u32 {
    storage.file_system_block.clamp(512, 64 << 10)
}

/// The outcomes of each loop in all rounds.
fn measure_pairs(
    scratch: &Scratch,
    storage: &Storage,
    loops: &[Loop],
    options: &LogBenchOptions,
    watch: Watch<'_>,
    step: &mut dyn FnMut(String) -> Result<(), Error>,
) -> Result<Vec<Vec<PairOutcome>>, Error> {
    let files = Pairs::new(scratch, options, fs_block(storage))?;
    let mut outcomes: Vec<Vec<PairOutcome>> = loops.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        for (of, outcomes) in loops.iter().zip(&mut outcomes) {
            step(format!("in turns with the naive loop: {of:?}"))?;
            outcomes.push(files.run(*of, storage, options, watch)?);
        }
    }
    Ok(outcomes)
}

fn validate(options: &LogBenchOptions) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    if options.size < 4 << 20 || !options.size.is_multiple_of(128 << 10) {
        return usage("the size must be at least 4M, and a multiple of 128K");
    }
    if options.record == 0 || options.record > RECORD_MAX {
        return usage("a record must have 1 to 480 bytes, so that one fits into a log block");
    }
    if options.write_ahead.iter().any(|size| !size.is_power_of_two() || !(512..=65536).contains(size)) {
        return usage("what is written ahead must be a power of two, 512 to 64K");
    }
    if options.rounds == 0 || options.time.is_zero() || options.callers.contains(&0) {
        return usage("rounds, seconds and callers must be more than 0");
    }
    Ok(())
}

/// Maximum length of a record that fits in a log block.
const RECORD_MAX: usize = 480;

fn plans(options: &LogBenchOptions, direct: bool) -> Vec<LogPlan> {
    let methods = || Method::ALL.into_iter().filter(move |method| direct || !method.direct());
    let one = methods().flat_map(|method| {
        let grounds =
            Ground::ALL.into_iter().filter(move |ground| method != Method::BareLoop || *ground == Ground::Recycled);
        grounds.map(move |ground| LogPlan { method, ground, callers: 1 })
    });
    let many = methods().filter(|method| GROUP_METHODS.contains(method)).flat_map(|method| {
        let callers = options.callers.iter().filter(|callers| **callers > 1);
        callers.map(move |&callers| LogPlan { method, ground: Ground::Recycled, callers })
    });
    one.chain(many).collect()
}

impl LogPlan {
    fn in_group(self) -> bool {
        self.callers > 1
    }

    fn row(self, outcomes: &[Driven], block: f64) -> LogBenchRow {
        let over_rounds = |figure: &dyn Fn(&Driven) -> Option<f64>| {
            let figures: Option<Vec<f64>> = outcomes.iter().map(figure).collect();
            figures.map(|figures| median(&figures))
        };
        let rates: Vec<f64> = outcomes.iter().map(Driven::rate).collect();
        let device = |figure: fn(&super::machine::DeviceCounts) -> u64| {
            over_rounds(&move |outcome| {
                outcome.device.as_ref().map(|counts| figure(counts) as f64 / outcome.commits.max(1) as f64)
            })
        };
        LogBenchRow {
            method: self.method,
            ground: self.ground,
            callers: self.callers,
            commits_per_second: Repeated::of(&rates),
            latency: outcomes.last().map(|outcome| outcome.latency).unwrap_or_default(),
            commits_per_group: over_rounds(&|outcome| Some(outcome.commits as f64 / outcome.groups.max(1) as f64))
                .unwrap_or(0.0),
            per_commit: PerCommit {
                device_reads: device(|counts| counts.reads),
                device_writes: device(|counts| counts.writes),
                device_written_bytes: device(|counts| counts.written_bytes),
                device_flushes: device(|counts| counts.flushes),
                own_reads: over_rounds(&|outcome| {
                    outcome.own_read_bytes.map(|bytes| bytes as f64 / block / outcome.commits.max(1) as f64)
                }),
            },
        }
    }
}

fn ratios(plans: &[LogPlan], outcomes: &[Vec<Driven>]) -> Ratios {
    let of = |method: Method, ground: Ground, callers: usize| {
        let at = plans.iter().position(|plan| *plan == LogPlan { method, ground, callers })?;
        outcomes.get(at)
    };
    let pairs = |a: Option<&Vec<Driven>>, b: Option<&Vec<Driven>>, figure: fn(&Driven) -> f64| {
        let ratios: Vec<f64> = a?.iter().zip(b?).map(|(a, b)| figure(a) / figure(b).max(1e-9)).collect();
        Some(median(&ratios))
    };
    let ratio = |a, b| pairs(a, b, Driven::rate);
    let zero_fill = |ground| of(Method::ZeroFill, ground, 1);
    let recycled = zero_fill(Ground::Recycled);
    let callers = plans.iter().filter(|plan| plan.method == Method::ZeroFill).map(|plan| plan.callers);
    let many = callers.filter(|callers| *callers <= 32).max().filter(|callers| *callers > 1);
    let naive = of(Method::Naive, Ground::Recycled, 1);
    Ratios {
        zero_fill_to_naive: ratio(recycled, naive),
        whole_to_naive: ratio(of(Method::Whole, Ground::Recycled, 1), naive),
        recycled_to_append: ratio(recycled, of(Method::Naive, Ground::Growing, 1)),
        recycled_to_growing: ratio(recycled, zero_fill(Ground::Growing)),
        recycled_to_fallocated: ratio(recycled, zero_fill(Ground::Fallocated)),
        many_callers_to_one: many.and_then(|many| ratio(of(Method::ZeroFill, Ground::Recycled, many), recycled)),
        writer_to_bare_loop: pairs(
            of(Method::Naive, Ground::Recycled, 1),
            of(Method::BareLoop, Ground::Recycled, 1),
            |outcome| outcome.latency.p50_us,
        ),
    }
}
