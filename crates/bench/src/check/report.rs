//! The report of `bench check`.

use serde::Serialize;

use super::super::cold::Emptied;
use super::super::machine::{Machine, Storage};
use super::super::pattern::Way;
use super::super::simulated::SimulatedDevice;
use super::super::stats::Repeated;
use inspect::report::document::Counts;

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct CheckBenchReport {
    /// The machine.
    pub machine: Machine,
    /// The storage that holds the file.
    pub storage: Storage,
    /// Bytes of the file.
    pub bytes: u64,
    /// Rounds.
    pub rounds: usize,
    /// How the file was made cold.
    pub cache: Emptied,
    /// The pages and their verdicts: the same for each row that verifies.
    pub counts: Counts,
    /// Reading without verifying: the fastest setting, measured again in each round.
    pub limit: CheckBenchRow,
    /// The ideas, one after another.
    pub ideas: Vec<CheckBenchRow>,
    /// Every combination of way, workers, block size, depth and memory.
    pub table: Vec<CheckBenchRow>,
    /// The classic table: way, size of a piece, and threads.
    pub classic: Vec<CheckBenchRow>,
    /// Where the time of some of the ways goes.
    pub time: Vec<TimeRow>,
    /// One worker on the simulated device.
    pub simulated: Option<SimulatedCheck>,
    /// Other tools.
    pub peers: Vec<CheckBenchRow>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// One way to read the file.
#[derive(Clone, Debug, Serialize)]
pub struct CheckBenchRow {
    /// Its name.
    pub name: String,
    /// Direct or buffered; null if the tool decides.
    pub way: Option<Way>,
    /// Workers, or threads, that ran.
    pub workers: Option<usize>,
    /// Bytes of a request, as used.
    pub block_size: Option<u32>,
    /// Buffers for requests in flight for each worker, as used.
    pub depth: Option<u32>,
    /// Workers asked for; null for rows that are not `check`'s.
    pub workers_asked: Option<usize>,
    /// Bytes of a request asked for.
    pub block_size_asked: Option<u32>,
    /// Requests in flight asked for.
    pub depth_asked: Option<u32>,
    /// Bytes that the buffers of all workers could use.
    pub memory: Option<u64>,
    /// Bytes of the file a second.
    pub bytes_per_second: Repeated,
    /// Share of the limit in the same round, 0 to 1.
    pub share_of_limit: Repeated,
}

/// Reading and verifying on a device that is slow and wide.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedCheck {
    /// Its properties.
    #[serde(flatten)]
    pub device: SimulatedDevice,
    /// One row per block size and depth.
    pub rows: Vec<SimulatedCheckRow>,
}

/// One block size and depth on that device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimulatedCheckRow {
    /// Bytes of a request.
    pub block_size: u32,
    /// Requests in flight.
    pub depth: u32,
    /// Requests.
    pub requests: u64,
    /// The most in flight.
    pub in_flight_max: u64,
    /// Seconds on the device's clock, without the processor's work.
    pub seconds: f64,
    /// Time of the first row over the time of this one.
    pub times_first: f64,
}

/// Where the time of one way goes: shares of the workers' time from start to end, medians of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct TimeRow {
    /// Its name.
    pub name: String,
    /// Direct or buffered.
    pub way: Way,
    /// Workers.
    pub workers: usize,
    /// Bytes of a request.
    pub block_size: u32,
    /// Requests in flight for each worker.
    pub depth: u32,
    /// Bytes of the file a second.
    pub bytes_per_second: Repeated,
    /// Share in which the worker waits: for bytes, or for a core.
    pub waiting: f64,
    /// Share in which it asks for bytes and copies them out of the page cache.
    pub copying: f64,
    /// Share in which it computes checksums and compares them.
    pub checksums: f64,
    /// Processor time of the workers, seconds per GB of the file.
    pub processor_seconds_per_gb: f64,
}
