//! The result of examining one file, and the context shared by all files that are read as a stream.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use format::Lsn;
use format::keyring::KeyStore;
use logs::delta::Meta;

use super::file_state::{FileState, Known};
use super::findings::Findings;
use super::options::CheckOptions;
use super::words::about;
use crate::report::document::{Counts, Finding, Unit};
use datadir::content::Content;
use datadir::file_kind::FileKind;
use datadir::finding_code::FindingCode;
use datadir::inventory::{Candidate, Passed};
use datadir::name::NameHint;
use datadir::severity::Severity;

/// Shared by all streams of a run.
#[derive(Clone)]
pub(super) struct Context {
    pub options: Arc<CheckOptions>,
    pub keys: Arc<KeyStore>,
    /// The first file of the archive's system tablespace, once known: later files continue it.
    pub system: Arc<OnceLock<Known>>,
    /// Notes about changed pages in the archive so far, by the name of the note's file.
    pub delta_notes: Arc<Mutex<HashMap<PathBuf, Meta>>>,
    /// Tablespaces currently waiting for a long head.
    pub long_heads: Arc<AtomicU32>,
}

impl Context {
    pub fn new(options: CheckOptions, keys: KeyStore) -> Self {
        // A stream cannot be read twice, so live rereading is off.
        let options = CheckOptions { live: false, ..options };
        let (options, keys, system) = (Arc::new(options), Arc::new(keys), Arc::default());
        Self { options, keys, system, delta_notes: Arc::default(), long_heads: Arc::default() }
    }
}

/// The outcome of one stream.
pub(super) struct StreamOutcome {
    /// Rows of the report: one per file. An archive adds one for each member after its own.
    pub rows: Vec<Examined>,
    /// Findings; each names its file by the index of the row.
    pub findings: Findings,
    pub skipped: Vec<Passed>,
    pub failed: Vec<Passed>,
}

impl StreamOutcome {
    pub fn new(findings_max: usize) -> Self {
        Self { rows: Vec::new(), findings: Findings::new(findings_max), skipped: Vec::new(), failed: Vec::new() }
    }

    /// Adds the row of a log that was read as a stream.
    pub fn with_log(mut self, path: PathBuf, content: Content, counts: Counts, log: Log) -> Self {
        let candidate =
            Candidate { path, home: None, len: counts.bytes, hint: NameHint::Unknown, named: false, content };
        let state = FileState::new(candidate, None);
        state.with_tally(|tally| tally.counts = counts);
        self.rows.push(Examined { log: Some(log), ..Examined::pages(state) });
        self
    }
}

/// One row of the report before it is settled.
pub(super) struct Examined {
    pub state: FileState,
    /// Set if the file is not a tablespace.
    pub log: Option<Log>,
    /// The bytes ended early and a finding says so: skip every check that depends on the file's length.
    pub is_cut: bool,
    /// Length in bytes of an all-zero file that can only be a later part of the system tablespace.
    pub zeros: u64,
    pub member: Option<Member>,
}

impl Examined {
    pub fn pages(state: FileState) -> Self {
        Self { state, log: None, is_cut: false, zeros: 0, member: None }
    }
}

/// A file that is not a tablespace.
pub(super) struct Log {
    pub kind: FileKind,
    /// The unit of its counts.
    pub unit: Unit,
    pub family: Option<&'static str>,
    pub algorithm: Option<&'static str>,
    /// The end of a redo log.
    pub end: Option<LogEnd>,
}

/// The end of a redo log.
#[derive(Clone, Copy)]
pub(crate) struct LogEnd {
    /// The LSN after the last sound byte.
    pub lsn: Lsn,
    /// No damage or doubt before or after it: the server stops there too.
    pub is_whole: bool,
}

/// The archive that a member came from.
pub(super) struct Member {
    /// The archive's path.
    pub archive: String,
    /// Recovery still to be done on it.
    pub pending: Option<&'static str>,
    /// Sizes in bytes of the system tablespace's later files, set on its first file.
    pub later_parts: Vec<u64>,
}

/// Why a file's bytes end early.
pub(super) struct Break {
    pub reason: FindingCode,
    pub severity: Severity,
    pub words: String,
    /// Position in the compressed or archived input, not in the file.
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

/// How a stream was reached: decides what to look for in it and whether finding nothing is worth reporting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Named by the user, or standard input: it may be anything, and finding nothing is worth no report.
    Named,
    /// A member of an archive: may be compressed, but is not an archive itself.
    Member,
    /// The contents of a compressed file that the user named.
    Unpacked,
    /// The contents of a compressed archive member.
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
