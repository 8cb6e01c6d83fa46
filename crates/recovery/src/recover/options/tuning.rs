//! Settings for reading and writing the device.

use std::path::Path;

use flow::Engine;
use flow::queue::OpenQueue;

/// The least memory that a round can work with, bytes.
pub(in crate::recover) const MEMORY_MIN: usize = 64 << 20;
/// Log read ahead may take this fraction of the memory: one part in 32.
const LOG_PART: usize = 32;

/// How to use the device. Each setting can be turned back by itself to measure what it gains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes per log request: a multiple of 64 KiB.
    pub log_block: u32,
    /// Log requests in flight.
    pub log_ahead: u32,
    /// Page requests in flight.
    pub depth: u32,
    /// Upper limit of bytes per page request, though a page is never split. `None`: long requests if there is memory for enough of them,
    /// short ones otherwise.
    pub stretch_max: Option<u32>,
    /// Size of the shadow file, in bytes, at which all files are synced and the shadow file is started over.
    pub shadow_max: u64,
    /// Whether to read pages while others are changed and written.
    pub overlap: bool,
    /// Whether to read pages while the log is read, into memory that nothing else needs.
    pub prefetch: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        let (log_block, log_ahead) = (512 << 10, 32);
        Self {
            log_block,
            log_ahead,
            depth: 64,
            stretch_max: None,
            shadow_max: 256 << 20,
            overlap: true,
            prefetch: true,
        }
    }
}

impl Tuning {
    /// Limits the log's read-ahead to its share of `memory`.
    pub(in crate::recover) fn within(self, memory: usize) -> Self {
        let ahead = memory.max(MEMORY_MIN) / LOG_PART / self.log_block.max(1) as usize;
        Self { log_ahead: self.log_ahead.min(u32::try_from(ahead).unwrap_or(u32::MAX)).max(1), ..self }
    }
}

/// The best I/O engine that works on this machine, for the files of this datadir.
pub(in crate::recover) fn engine(datadir: &Path) -> &'static dyn OpenQueue {
    Engine::Auto.first_working(datadir)
}
