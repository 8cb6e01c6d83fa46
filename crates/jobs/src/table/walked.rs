//! Tablespaces and trees during the check.

use std::path::PathBuf;
use std::time::Duration;

use format::Lsn;

use super::known::Known;
use crate::tree::TreeReport;
use crate::tree::walk::STOPPED;

/// A tablespace with everything known before its trees are walked.
pub(super) struct Subject {
    pub path: PathBuf,
    pub opened: Result<Known, String>,
}

/// A tree that was walked.
pub(super) struct Walked {
    pub report: TreeReport,
    /// Whether nothing is wrong with the tree itself.
    pub is_sound: bool,
    pub elapsed: Duration,
    /// The highest LSN of its pages.
    pub newest: Lsn,
}

impl Walked {
    /// For a tree that was not reached.
    pub fn none() -> Self {
        let report = TreeReport { left_out: vec![STOPPED], ..TreeReport::default() };
        Self { report, is_sound: false, elapsed: Duration::ZERO, newest: Lsn(0) }
    }
}
