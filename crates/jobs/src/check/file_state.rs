//! What is known of a file while its pages are judged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use format::{Lsn, Why};

use super::fate::{self, FileKey};
use super::portion::Share;
use super::usage::UsageMap;
use crate::finding_code::FindingCode;
use crate::report::document::{AlgorithmTally, Counts, Severity};
use crate::source::datadir::Candidate;
use crate::source::space::SpacePart;

/// What the workers share about one file.
pub(super) struct FileState {
    pub candidate: Candidate,
    /// The first file of the system tablespace that this file continues.
    pub leader: Option<u32>,
    /// Pages on which the dictionary has trees begin, ascending.
    pub roots: Vec<u32>,
    /// Set by the worker that gets the file's first block. Others wait for it; that cannot deadlock, because each worker takes
    /// its blocks in the order of the cursor, so the head of a file is always with somebody who is not waiting for this one.
    pub head: OnceLock<Result<Known, String>>,
    pub tally: Mutex<FileTally>,
    /// The very file that was listed, where it may be replaced meanwhile.
    pub key: Option<FileKey>,
    /// What of it is to be read.
    pub share: Share,
}

/// A file whose format is known.
#[derive(Clone)]
pub(super) struct Known {
    pub part: SpacePart,
    pub usage: Arc<UsageMap>,
    /// Sound bytes may hold an image that has to be opened to be judged.
    pub has_inside: bool,
    /// Why none of the given keys opened it.
    pub key_error: Option<Arc<str>>,
    /// A later file of the system tablespace begins with a page that the files before it have already: this one should come first.
    pub overlaps: Option<u32>,
}

/// Pages of a file that could not be judged for one reason.
pub(super) struct Undecided {
    pub pages: u64,
    pub severity: Severity,
    pub why: String,
}

impl Undecided {
    pub fn of(why: Why) -> Self {
        let severity = match why {
            // Nothing to verify there, by the servers' design.
            Why::NoChecksum | Why::DoublewriteSlot => Severity::Notice,
            Why::EncryptedNoKey | Why::WrongKey | Why::PageCompressed | Why::OldBigEndianChecksum => {
                Severity::Undecided
            }
        };
        Self { pages: 0, severity, why: why.to_string() }
    }
}

/// Sums over a file, or over the blocks of it that one worker did since it last handed them in.
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
    /// What sound pages are on which the dictionary has trees begin: the numbers of their indexes.
    pub roots: Vec<(u32, Option<u64>)>,
    /// The file could not be opened or read to its end: the first failure's words.
    pub failure: Option<String>,
    /// It ended before the length that it had when it was listed.
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

    /// Notes which file it is, so that another under its name is recognised as another.
    pub fn identified(self) -> Self {
        Self { key: fate::key_of(&self.candidate.path), ..self }
    }

    pub fn with_tally<T>(&self, act: impl FnOnce(&mut FileTally) -> T) -> T {
        act(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
