//! Why a segment does not continue where the previous one ended. A file beside the segment keeps the reason.

use std::path::Path;

use flow::append::write_whole;
use format::Lsn;

use super::error::{Result, failed};
use super::name::SegmentName;
use crate::door;

/// Why the archive cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// The server overwrote what came next: it was faster, or the archiver was not running.
    Overwritten { checkpoint: Lsn },
    /// Like `Overwritten`, for MySQL: its oldest log file begins after the end of the archive.
    Recycled { oldest: Lsn },
    /// A block that MySQL must have written, because a later checkpoint exists, cannot be read.
    Unreadable { at: Lsn },
    /// Redo logging was disabled in MySQL for a while: the changes made meanwhile are in no log.
    Disabled,
    /// The server replaced its log by one that starts later.
    Replaced { first: Lsn },
    /// The log and the archive differ at LSNs that both hold.
    OtherHistory,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Overwritten { checkpoint } => write!(
                f,
                "the server had overwritten what came next (its newest checkpoint was LSN {checkpoint}): a larger innodb_log_file_size, or \
                 an archiver that is not stopped for so long, prevents that"
            ),
            Self::Recycled { oldest } => write!(
                f,
                "the server had overwritten what came next (its oldest log file began at LSN {oldest}): a larger innodb_redo_log_capacity, or \
                 an archiver that is not stopped for so long, prevents that"
            ),
            Self::Unreadable { at } => {
                write!(
                    f,
                    "the block of LSN {at}, which was behind the newest checkpoint, was not sound in the server's log"
                )
            }
            Self::Disabled => write!(
                f,
                "redo logging had been disabled (ALTER INSTANCE DISABLE INNODB REDO_LOG): what was changed meanwhile is in no log"
            ),
            Self::Replaced { first } => write!(f, "the server had replaced its log by one that starts at LSN {first}"),
            Self::OtherHistory => {
                write!(
                    f,
                    "the server's log holds other changes than the archive: it was restored, or lost its end in a power failure"
                )
            }
        }
    }
}

/// Writes the reason beside the segment that starts after the gap; `at` is where the archive ended before it.
pub(super) fn note(dir: &Path, segment: SegmentName, gap: &Gap, at: Lsn) -> Result<()> {
    let path = segment.gap_path(dir);
    let text = format!("the archive ended at LSN {at} and begins again at LSN {}: {gap}\n", segment.start);
    write_whole(&path, text.as_bytes()).map_err(failed(&path, "noting the gap"))
}

/// The reason beside a segment, if one was noted.
pub(super) fn noted(dir: &Path, segment: SegmentName) -> Option<String> {
    let text = String::from_utf8(door::read_file(segment.gap_path(dir)).ok()?).ok()?;
    Some(text.trim_end().to_owned())
}
