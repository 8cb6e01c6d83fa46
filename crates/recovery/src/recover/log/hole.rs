//! Where the segments that recovery can read end although the archive goes on behind them, or once did.

use std::path::Path;

use format::Lsn;

use crate::archive::SegmentName;
use crate::recover::error::{Result, refused};
use datadir::files::AskPath;

/// Why no more segments can be read, although their timeline goes on. Other timelines prove nothing: they are another history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Hole {
    /// This segment begins later.
    Missing { next: SegmentName, is_noted: bool },
    /// The archive's marks say that it had reached this LSN.
    Lost { reached: Lsn },
    /// From this segment on, the log has another key.
    OtherKey(SegmentName),
    /// From this segment on, the log is encrypted, no longer encrypted, or encrypted in another way.
    OtherFormat(SegmentName),
    /// This segment begins where the one before ends, or within it, but nothing proves that it continues it.
    Unproven(SegmentName),
}

impl Hole {
    /// The hole behind segments that end at `end`. `next` is the next segment of their timeline, `reached` the timeline's last mark.
    pub fn behind(dir: &Path, end: Lsn, next: Option<SegmentName>, reached: Option<Lsn>) -> Option<Self> {
        match next {
            Some(next) if next.start > end => Some(Self::Missing { next, is_noted: next.gap_path(dir).is_there() }),
            Some(next) => Some(Self::Unproven(next)),
            None => reached.filter(|reached| *reached > end).map(|reached| Self::Lost { reached }),
        }
    }

    /// Refuses to recover beyond the hole. `end` is the end of the last mini-transaction before it.
    pub fn refuse<T>(self, dir: &Path, end: Lsn) -> Result<T> {
        let (says, way_out) = (self.says(end), self.way_out());
        refused(format!("{}: {says}: {way_out}, or recover up to LSN {end} (--until {end})", dir.display()))
    }

    /// Refuses a base copy whose own log ends behind the hole.
    pub fn refuse_base<T>(self, dir: &Path, end: Lsn, base_end: Lsn) -> Result<T> {
        let (says, way_out) = (self.says(end), self.way_out());
        refused(format!(
            "{}: {says}, and the base copy's own log goes on to LSN {base_end}: {way_out}, or leave out --redo to recover from the copy's own \
             log",
            dir.display()
        ))
    }

    fn says(self, end: Lsn) -> String {
        match self {
            Self::Missing { next, is_noted } => {
                let why = if is_noted { format!(" ({next}.gap says why)") } else { String::new() };
                format!("the archive has a hole from LSN {end} to LSN {}{why}", next.start)
            }
            Self::Lost { reached } => {
                format!("the archive had reached LSN {reached}, but the segment from LSN {end} on is missing")
            }
            Self::OtherKey(next) => format!("the server changed the key of its log at LSN {} ({next})", next.start),
            Self::OtherFormat(next) => {
                format!("the server changed the encryption of its log at LSN {} ({next})", next.start)
            }
            Self::Unproven(next) => {
                format!("the archive is damaged at LSN {end}: {next} does not continue what is before it")
            }
        }
    }

    const fn way_out(self) -> &'static str {
        match self {
            Self::Missing { is_noted: false, .. } => "put the missing segments back",
            Self::Lost { .. } => "put it back",
            Self::Missing { .. } | Self::OtherKey(_) | Self::OtherFormat(_) => "take a base copy from after that",
            Self::Unproven(_) => "innokit redo verify shows more",
        }
    }
}
