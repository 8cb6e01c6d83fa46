//! The report, and its rows.

use serde::Serialize;

use super::super::cold::Emptied;
use super::super::machine::{DeviceCounts, Machine, Storage};
use super::super::pattern::{Access, Order, Pattern, Setting, Way};
use super::super::stats::{Latency, Repeated};

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// The machine.
    pub machine: Machine,
    /// The storage that holds the file.
    pub storage: Storage,
    /// Size of the file, bytes.
    pub size: u64,
    /// How often each row was measured; limits at least as often.
    pub rounds: usize,
    /// Duration of one measurement.
    pub seconds_each: f64,
    /// How buffered reads were made cold.
    pub cache: Emptied,
    /// The best of each order and way.
    pub limits: Vec<Limit>,
    /// Each limit's setting with each engine.
    pub engines: Vec<EngineRow>,
    /// Patterns of databases and tools.
    pub patterns: Vec<Typical>,
    /// Kinds of space; small writes, alone and gathered.
    pub writes: Vec<Write>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// The best result for one order and way.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    /// What was done with the blocks.
    pub access: Access,
    /// The order of the blocks.
    pub order: Order,
    /// Direct or buffered.
    pub way: Way,
    /// The fastest setting.
    pub setting: Setting,
    /// Bytes a second with it.
    pub bytes_per_second: Repeated,
    /// Requests a second with it.
    pub requests_per_second: f64,
    /// Latency of its requests.
    pub latency: Latency,
    /// The same setting at other depths.
    pub by_depth: Vec<Tried>,
    /// The same setting with other block sizes.
    pub by_block_size: Vec<Tried>,
    /// Every measurement of the search, in order.
    pub tried: Vec<Tried>,
}

impl Limit {
    /// What was measured.
    #[must_use]
    pub const fn pattern(&self) -> Pattern {
        Pattern { access: self.access, order: self.order, way: self.way, setting: self.setting }
    }
}

/// A limit's setting with one of the engines, measured in turn with the others.
#[derive(Clone, Debug, Serialize)]
pub struct EngineRow {
    /// The pattern.
    #[serde(flatten)]
    pub pattern: Pattern,
    /// Bytes a second.
    pub bytes_per_second: Repeated,
    /// Requests a second.
    pub requests_per_second: f64,
    /// Latency of its requests.
    pub latency: Latency,
    /// Its rate by that of the first engine.
    pub times_first: f64,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// The result.
    pub bytes_per_second: f64,
}

/// A typical pattern.
#[derive(Clone, Debug, Serialize)]
pub struct Typical {
    /// Its name.
    pub name: &'static str,
    /// The pattern.
    #[serde(flatten)]
    pub pattern: Pattern,
    /// Bytes a second.
    pub bytes_per_second: Repeated,
    /// Requests a second.
    pub requests_per_second: f64,
    /// Latency of its requests.
    pub latency: Latency,
    /// Share of the limit for the same order with direct I/O, 0 to 1.
    pub share_of_limit: Option<f64>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteKind {
    /// An empty file grows.
    Growing,
    /// The file was allocated with `fallocate`, and never written.
    Fallocated,
    /// The file was written, and then declared to be zeros (`FALLOC_FL_ZERO_RANGE`).
    Zeroed,
    /// The file is overwritten.
    Recycled,
    /// An empty file grows by small writes.
    Small,
    /// The same bytes, gathered in memory into large writes.
    Gathered,
    /// A file is overwritten page by page, and each page is durable before the next is written (`RWF_DSYNC`, the same as `O_DSYNC`).
    DataSync,
    /// The same by an `fdatasync` after each page.
    Synced,
    /// Several threads gather small writes, each for its own part of one growing file.
    Writers,
    /// The same, each for a growing file of its own.
    Files,
}

/// One row of writes.
#[derive(Clone, Debug, Serialize)]
pub struct Write {
    /// What is compared.
    pub kind: WriteKind,
    /// Direct or buffered.
    pub way: Way,
    /// Bytes of a write.
    pub block_size: u32,
    /// Writes in flight for each thread.
    pub depth: u32,
    /// Threads that write.
    pub threads: u32,
    /// Total bytes.
    pub bytes: u64,
    /// Bytes a second, including the sync.
    pub bytes_per_second: Repeated,
    /// What the device did meanwhile, for the whole machine; null if it is not counted.
    pub device: Option<DeviceCounts>,
}
