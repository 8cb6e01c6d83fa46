//! What a simulated device can be told, and what it counts.

use std::time::Duration;

/// Whether simulated time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// It is counted, and calls return at once.
    #[default]
    Counted,
    /// Calls take as long as the device does.
    Real,
}

/// How the device is. The default is storage that is wide but slow, like a volume over a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimOptions {
    /// What all chance follows from.
    pub seed: u64,
    /// What a read or write takes.
    pub latency: Duration,
    /// What chance adds to the latency at most, so that requests overtake each other.
    pub jitter: Duration,
    /// What a sync takes.
    pub sync_latency: Duration,
    /// How many reads and writes the device works on at a time, at least 1.
    pub parallel: u32,
    /// Bytes a second through the pipe that all reads and writes share; `u64::MAX` for no limit.
    pub bandwidth: u64,
    /// Whether the time passes.
    pub pace: Pace,
    /// One in this many reads and writes of more than a sector is short; 0 for none.
    pub short_one_in: u32,
    /// The file system's block in bytes, to find hidden reads: a write that covers a block in part which is not in the cache
    /// costs a read before it ([`SimCounts::reads_on_write`]). 0 for none: writes go to the device as they are.
    pub cache_block: u32,
    /// Whether a crash takes what was not synced. If not, all that was written stays, and no memory is needed for what was
    /// there before: for measuring with large files. Otherwise unsynced sectors take more than twice their size.
    pub forgets: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            latency: Duration::from_micros(500),
            jitter: Duration::ZERO,
            sync_latency: Duration::from_millis(10),
            parallel: 64,
            bandwidth: 1 << 30,
            pace: Pace::Counted,
            short_one_in: 0,
            cache_block: 0,
            forgets: true,
        }
    }
}

/// What the device was asked to do.
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
    /// Blocks of the file system that had to be read for a write that covered them in part; not among `reads`.
    pub reads_on_write: u64,
    /// The most requests that were in flight at a time, over all queues.
    pub in_flight_max: u64,
}

impl SimCounts {
    /// Reads, writes and syncs.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.syncs
    }
}
