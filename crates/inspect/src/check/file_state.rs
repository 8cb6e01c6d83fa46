//! What is known about a file while its pages are judged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use format::{Lsn, Why};

use super::fate::FileKey;
use super::portion::Share;
use super::usage::UsageMap;
use crate::report::document::{AlgorithmTally, Counts};
use datadir::finding_code::FindingCode;
use datadir::inventory::Candidate;
use datadir::reading::identity_of;
use datadir::severity::Severity;
use datadir::space::SpacePart;

/// What the workers share about one file.
pub(super) struct FileState {
    pub candidate: Candidate,
    /// The first file of the system tablespace, if this file continues it.
    pub leader: Option<u32>,
    /// Root pages of indexes according to the dictionary, ascending.
    pub roots: Vec<u32>,
    /// Set by the worker that gets the file's first block; others wait for it. This cannot deadlock: workers take blocks in cursor order,
    /// so a file's first block is never held by a worker that waits for a later one.
    pub head: OnceLock<Result<Known, String>>,
    pub tally: Mutex<FileTally>,
    /// Identity of the listed file, if it may be replaced meanwhile.
    pub key: Option<FileKey>,
    /// The part of the file to read.
    pub share: Share,
}

/// A file whose format is known.
#[derive(Clone)]
pub(super) struct Known {
    pub part: SpacePart,
    pub usage: Arc<UsageMap>,
    /// A page with a sound outside may be encrypted or compressed and must be opened to be judged.
    pub has_inside: bool,
    /// Why none of the given keys fits.
    pub key_error: Option<Arc<str>>,
    /// A later file of the system tablespace starts with a page number that earlier files already cover; it should start with this one.
    pub overlaps: Option<u32>,
}

/// Pages of a file that could not be judged for the same reason.
pub(super) struct Undecided {
    pub pages: u64,
    pub severity: Severity,
    pub why: String,
}

impl Undecided {
    pub fn of(why: Why) -> Self {
        let severity = match why {
            // By design the servers leave nothing to verify there.
            Why::NoChecksum | Why::DoublewriteSlot => Severity::Notice,
            Why::EncryptedNoKey | Why::WrongKey | Why::PageCompressed | Why::OldBigEndianChecksum => {
                Severity::Undecided
            }
        };
        Self { pages: 0, severity, why: why.to_string() }
    }
}

/// Sums over a file, or over the blocks that one worker has judged since it last handed in its sums.
#[derive(Default)]
pub(super) struct FileTally {
    pub counts: Counts,
    pub algorithms: AlgorithmTally,
    /// Pages that could not be decided, by reason.
    pub undecided: BTreeMap<FindingCode, Undecided>,
    /// The file went away or was replaced while a server had it open.
    pub gone: bool,
    /// Page 0 was there and all zero: the space header is lost.
    pub first_page_zero: bool,
    /// For each sound page that the dictionary lists as a root: its page number and its index id.
    pub roots: Vec<(u32, Option<u64>)>,
    /// The first failure to open the file or read it to its end.
    pub failure: Option<String>,
    /// It ended before the length it was listed with.
    pub became_shorter: bool,
    /// The highest LSN of its pages.
    pub newest: Lsn,
}

impl FileTally {
    pub fn merge(&mut self, other: &mut Self) {
        self.counts.add(&other.counts);
        self.algorithms.merge(&other.algorithms);
        for (reason, more) in std::mem::take(&mut other.undecided) {
            let Undecided { pages, severity, why } = more;
            self.undecided.entry(reason).or_insert(Undecided { pages: 0, severity, why }).pages += pages;
        }
        self.gone |= other.gone;
        self.became_shorter |= other.became_shorter;
        self.newest = self.newest.max(other.newest);
        self.first_page_zero |= other.first_page_zero;
        self.roots.append(&mut other.roots);
        if self.failure.is_none() {
            self.failure = other.failure.take();
        }
        *other = Self::default();
    }
}

impl FileState {
    pub fn new(candidate: Candidate, leader: Option<u32>) -> Self {
        let (share, tally) = (Share::whole(candidate.len), Mutex::default());
        Self { candidate, leader, roots: Vec::new(), head: OnceLock::new(), tally, key: None, share }
    }

    /// Remembers the file's identity, so a replacement under the same name is noticed.
    pub fn identified(self) -> Self {
        Self { key: identity_of(&self.candidate.path), ..self }
    }

    pub fn with_tally<T>(&self, act: impl FnOnce(&mut FileTally) -> T) -> T {
        act(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
