//! Tablespaces and trees during the check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use format::Lsn;

use crate::definitions::known::Known;
use crate::tree::TreeReport;
use crate::tree::walk::STOPPED;

/// A tablespace with everything known before its trees are walked.
pub(super) struct Subject {
    pub path: PathBuf,
    pub opened: Result<Known, String>,
}

impl Subject {
    /// The tablespace's files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let files = self.opened.as_ref().map_or(&[][..], |known| &known.space.files);
        std::iter::once(self.path.as_path()).chain(files.iter().map(|file| file.path.as_path()))
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
