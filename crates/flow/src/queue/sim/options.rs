//! The options and counters of a simulated device.

use std::time::Duration;

/// Whether simulated time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Time is counted, and calls return at once.
    #[default]
    Counted,
    /// Calls take as long as the device does.
    Real,
}

/// The properties of the device. The default is wide but slow storage, like a network volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimOptions {
    /// The seed of all random choices.
    pub seed: u64,
    /// Time of a read or write.
    pub latency: Duration,
    /// Maximum random addition to the latency, so that requests overtake each other.
    pub jitter: Duration,
    /// Time of a sync.
    pub sync_latency: Duration,
    /// Extra time of a sync for each GiB written to the device since the last sync, to any file.
    pub sync_per_gib: Duration,
    /// How many reads and writes the device works on concurrently, at least 1.
    pub parallel: u32,
    /// Bytes a second through the pipe shared by all reads and writes; `u64::MAX` for no limit.
    pub bandwidth: u64,
    /// Whether time passes.
    pub pace: Pace,
    /// One in this many reads and writes of more than a sector is short; 0 to disable.
    pub short_one_in: u32,
    /// The file system's block size in bytes, to find hidden reads: a write that covers part of an uncached block costs a read first
    /// ([`SimCounts::reads_on_write`]). 0 to disable: writes go to the device as they are.
    pub cache_block: u32,
    /// Whether a crash loses what was not synced. If not, everything written stays, and no memory is needed for old content: for measuring
    /// with large files. Otherwise, unsynced sectors take more than twice their size.
    pub forgets: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            latency: Duration::from_micros(500),
            jitter: Duration::ZERO,
            sync_latency: Duration::from_millis(10),
            sync_per_gib: Duration::ZERO,
            parallel: 64,
            bandwidth: 1 << 30,
            pace: Pace::Counted,
            short_one_in: 0,
            cache_block: 0,
            forgets: true,
        }
    }
}

impl SimOptions {
    /// A slow cloud disk: 0.5 ms a request, 64 at a time, 10 MB/s, and a sync of 10 ms plus 10 s for each GiB written since the last one.
    #[must_use]
    pub fn cloud() -> Self {
        Self { bandwidth: 10_000_000, sync_per_gib: Duration::from_secs(10), ..Self::default() }
    }
}

/// The requests so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SimCounts {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// File system blocks that had to be read because a write covered them partly; not among `reads`.
    pub reads_on_write: u64,
    /// The most requests in flight, over all queues.
    pub in_flight_max: u64,
}

impl SimCounts {
    /// Reads, writes and syncs.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.syncs
    }
}
