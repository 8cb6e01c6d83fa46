//! Tablespaces and trees during the check.

use std::path::{Path, PathBuf};
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

impl Subject {
    /// Whether the file is one of the tablespace's.
    pub fn has(&self, path: &Path) -> bool {
        let files = self.opened.as_ref().map_or(&[][..], |known| &known.space.files);
        self.path == path || files.iter().any(|file| file.path == path)
    }
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
