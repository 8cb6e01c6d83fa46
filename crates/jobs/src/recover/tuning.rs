//! How the device is used.

use flow::Engine;
use flow::queue::OpenQueue;

/// The least memory that a round can do with.
pub(super) const MEMORY_MIN: usize = 64 << 20;
/// The part of the memory that the log may take while it is read ahead.
const LOG_PART: usize = 32;

/// How the device is used. Each of these can be taken back, to see what it brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes of a request to the log: a multiple of 64 KiB.
    pub log_block: u32,
    /// Such requests in flight.
    pub log_ahead: u32,
    /// Requests to pages in flight.
    pub depth: u32,
    /// Bytes of such a request at most, but one page is always read at once; `None`: long ones, as long as there is memory for enough of them.
    pub stretch_max: Option<u32>,
    /// Bytes of the shadow, after which every file is synced.
    pub shadow_max: u64,
    /// Whether pages are read while others are changed and written.
    pub overlap: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        let (log_block, log_ahead) = (512 << 10, 32);
        Self { log_block, log_ahead, depth: 64, stretch_max: None, shadow_max: 256 << 20, overlap: true }
    }
}

impl Tuning {
    /// The same, but for what the log takes of the memory while it is read ahead.
    pub(super) fn within(self, memory: usize) -> Self {
        let ahead = memory.max(MEMORY_MIN) / LOG_PART / self.log_block.max(1) as usize;
        Self { log_ahead: self.log_ahead.min(u32::try_from(ahead).unwrap_or(u32::MAX)).max(1), ..self }
    }
}

/// The engine that works here.
pub(super) fn engine() -> &'static dyn OpenQueue {
    Engine::Auto.first_working()
}
