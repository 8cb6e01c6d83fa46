//! How a log is archived.

use std::path::PathBuf;
use std::time::Duration;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveUntil {
    /// Only when told to.
    Stopped,
    /// When there is nothing left that is certain at once.
    Once,
    /// When everything is archived that the log held at the start.
    CaughtUp,
}

/// How to archive.
#[derive(Debug, Clone)]
pub struct ArchiveOptions {
    /// The archive; made if it is missing.
    pub to: PathBuf,
    /// When to stop.
    pub until: ArchiveUntil,
    /// Time between looks at a log that has nothing new.
    pub poll: Duration,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// A log whose last block has not changed for this long is taken up to its end.
    pub settle: Duration,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        let (poll, settle) = (Duration::from_millis(100), Duration::from_secs(3));
        Self { to: PathBuf::new(), until: ArchiveUntil::Stopped, poll, segment_size: 64 << 20, settle }
    }
}
