//! What is handed on of a file that was examined, and what all that is read in order shares.

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use format::Lsn;
use format::keyring::KeyStore;

use super::file_state::{FileState, Known};
use super::findings::Findings;
use super::options::CheckOptions;
use super::words::about;
use crate::finding_code::FindingCode;
use crate::report::document::{Finding, Severity, Unit};
use crate::report::file_kind::FileKind;
use crate::source::datadir::Passed;

/// What all that is read in order shares.
#[derive(Clone)]
pub(super) struct Context {
    pub options: Arc<CheckOptions>,
    pub keys: Arc<KeyStore>,
    /// The first file of the archive's system tablespace, once it is known: later files continue it.
    pub system: Arc<OnceLock<Known>>,
    /// Tablespaces that wait for a long head at this moment.
    pub long_heads: Arc<AtomicU32>,
}

impl Context {
    pub fn new(options: CheckOptions, keys: KeyStore) -> Self {
        // Nothing that comes as a stream can be read again.
        let options = CheckOptions { live: false, ..options };
        Self { options: Arc::new(options), keys: Arc::new(keys), system: Arc::default(), long_heads: Arc::default() }
    }
}

/// What became of what was read in order.
pub(super) struct StreamOutcome {
    /// One row of the report for each file: one, but for archives, which have one of their own and then one for each member.
    pub rows: Vec<Examined>,
    /// The findings; their file is the index of a row.
    pub findings: Findings,
    pub skipped: Vec<Passed>,
    pub failed: Vec<Passed>,
}

impl StreamOutcome {
    pub fn new(findings_max: usize) -> Self {
        Self { rows: Vec::new(), findings: Findings::new(findings_max), skipped: Vec::new(), failed: Vec::new() }
    }
}

/// One row of the report before it is settled.
pub(super) struct Examined {
    pub state: FileState,
    /// Set where the file is no tablespace.
    pub log: Option<Log>,
    /// The bytes ended early, and a finding says so: what depends on the file's length is not to be judged.
    pub is_cut: bool,
    /// The length in bytes of an all-zero file that can only be a later part of the system tablespace, by its place.
    pub zeros: u64,
    pub member: Option<Member>,
}

impl Examined {
    pub fn pages(state: FileState) -> Self {
        Self { state, log: None, is_cut: false, zeros: 0, member: None }
    }
}

/// What a file other than a tablespace is.
pub(super) struct Log {
    pub kind: FileKind,
    /// What its counts count.
    pub unit: Unit,
    pub family: Option<&'static str>,
    pub algorithm: Option<&'static str>,
    /// Where a redo log ends.
    pub end: Option<LogEnd>,
}

/// Where a redo log ends.
#[derive(Clone, Copy)]
pub(crate) struct LogEnd {
    /// The LSN behind its last sound byte.
    pub lsn: Lsn,
    /// Nothing before or behind it is damaged or undecided: the server ends there too.
    pub is_whole: bool,
}

/// Where a member of an archive comes from.
pub(super) struct Member {
    /// The archive's path.
    pub archive: String,
    /// The work that recovery has still to do on it.
    pub pending: Option<&'static str>,
    /// Bytes of the later files of the system tablespace, for its first file.
    pub later_parts: Vec<u64>,
}

/// Why no more bytes of a file come.
pub(super) struct Break {
    pub reason: FindingCode,
    pub severity: Severity,
    pub words: String,
    /// Where, in the bytes that came from the outside.
    pub position: Option<u64>,
}

impl Break {
    pub fn undecided(words: String) -> Self {
        Self { reason: FindingCode::UNREADABLE_FILE, severity: Severity::Undecided, words, position: None }
    }

    pub fn finding(&self, path: &Path) -> Finding {
        Finding { position: self.position, ..about(path, self.reason, self.severity, self.words.clone()) }
    }
}

/// How a stream was met, which decides what is looked for in it and what it means to find nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The user named it, or it is standard input: anything may be in it, and nothing is worth saying.
    Named,
    /// A member of an archive: it may be packed, but is no archive.
    Member,
    /// What was packed in a file that the user named.
    Unpacked,
    /// What was packed in a member of an archive.
    UnpackedMember,
}

impl Role {
    pub fn unpacked(self) -> Option<Self> {
        match self {
            Self::Named => Some(Self::Unpacked),
            Self::Member => Some(Self::UnpackedMember),
            Self::Unpacked | Self::UnpackedMember => None,
        }
    }

    pub fn is_member(self) -> bool {
        matches!(self, Self::Member | Self::UnpackedMember)
    }
}
