//! How to archive a log.

use std::path::PathBuf;
use std::time::Duration;

/// When archiving stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveUntil {
    /// Only when told to.
    Stopped,
    /// As soon as nothing more can be archived immediately.
    Once,
    /// When everything the log held at the start is archived.
    CaughtUp,
}

/// Options of an archiving run.
#[derive(Debug, Clone)]
pub struct ArchiveOptions {
    /// The archive's directory; created if it is missing.
    pub to: PathBuf,
    /// When archiving stops.
    pub until: ArchiveUntil,
    /// Pause between looks at a log that has nothing new.
    pub poll: Duration,
    /// Bytes of a new segment.
    pub segment_size: u64,
    /// Once the log's last block has not changed for this long, the archive takes everything up to its end.
    pub settle: Duration,
    /// Also keep the files of definitions beside MariaDB's log: a recovery beyond a change of definitions needs them.
    pub definitions: bool,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        let (poll, settle) = (Duration::from_millis(100), Duration::from_secs(3));
        Self {
            to: PathBuf::new(),
            until: ArchiveUntil::Stopped,
            poll,
            segment_size: 64 << 20,
            settle,
            definitions: false,
        }
    }
}
