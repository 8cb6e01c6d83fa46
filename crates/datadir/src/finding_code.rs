//! The codes of findings.

use std::fmt;

use serde::Serialize;

/// The stable code of a finding, in snake case, for programs that read reports. The sets are open (each format, each tree rule and each job
/// has codes of its own), so this is not an enum. Code that depends on one compares constants, never text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FindingCode(&'static str);

impl FindingCode {
    pub const DATA_BEYOND_SPACE_SIZE: Self = Self("data_beyond_space_size");
    pub const ENCRYPTED_NO_KEY: Self = Self("encrypted_no_key");
    pub(crate) const MISSING_FILE: Self = Self("missing_file");
    pub const NEWER_THAN_LOG: Self = Self("newer_than_log");
    pub const NOT_FLUSHED_YET: Self = Self("not_flushed_yet");
    pub const NOTHING_VERIFIED: Self = Self("nothing_verified");
    pub const NO_TREE: Self = Self("no_tree");
    pub const RECOVERY_PENDING: Self = Self("recovery_pending");
    pub const REDO_FILES: Self = Self("redo_files");
    pub const REDO_HEADER: Self = Self("redo_header");
    pub const REDO_NO_CHECKPOINT: Self = Self("redo_no_checkpoint");
    /// A server has the files open, and nobody said so.
    pub const SERVER_RUNNING: Self = Self("server_running");
    pub const STALE_FILE: Self = Self("stale_file");
    pub const TRUNCATED: Self = Self("truncated");
    /// The file or directory could not be read: nothing is known about its bytes.
    pub const UNREADABLE_FILE: Self = Self("unreadable_file");
    pub const ZERO_PAGE_IN_USE: Self = Self("zero_page_in_use");

    /// The code as it appears in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<&'static str> for FindingCode {
    fn from(code: &'static str) -> Self {
        Self(code)
    }
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
