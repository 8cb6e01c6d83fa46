//! The state kept after the last page, while the report is made.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use flow::FileId;

use super::empty::EmptyIndexes;
use super::examined::{Log, Member};
use super::fate;
use super::file_state::{FileTally, Known};
use super::findings::Findings;
use super::log_ends::LogEnds;
use super::portion::Share;
use super::usage::{Usage, UsageMap};
use datadir::catalog::Held;
use datadir::inventory::{Candidate, Inventory};
use datadir::redo_log::RedoLogs;
use datadir::tablespace::Tablespace;
use datadir::tablespace::space::SpaceFile;
use datadir::tablespace::transactions::OpenTransactions;

/// One file with all its sums.
pub(super) struct SettledFile {
    pub candidate: Candidate,
    pub key: Option<fate::FileKey>,
    pub head: Result<Known, String>,
    pub tally: FileTally,
    /// What it is, if not a tablespace.
    pub log: Option<Log>,
    /// It ended early, and a finding already says so.
    pub is_cut: bool,
    /// The part that was read.
    pub share: Share,
    pub member: Option<Member>,
    /// Not a tablespace, and not lost either: its server is creating it, or was killed while it did.
    pub is_new: bool,
    /// Removed, replaced or truncated while its server had it open, as servers do: skip everything that depends on the rest of it.
    pub gone: bool,
}

/// Damage that nothing in use depends on.
pub(super) struct Harmless<'s> {
    freed: Option<&'s Usage>,
    needed: Option<&'s BTreeSet<u32>>,
    dropped: Option<&'s BTreeSet<u32>>,
}

impl Harmless<'_> {
    /// Whether the page is free, and recovery does not need it either.
    pub fn is_freed(&self, page: u32) -> bool {
        let is_needed = self.needed.is_some_and(|pages| pages.contains(&page));
        self.freed.is_some_and(|usage| usage.freed_damage.contains(page)) && !is_needed
    }

    /// Whether the page is one of a dropped index.
    pub fn is_dropped(&self, page: u32) -> bool {
        self.dropped.is_some_and(|pages| pages.contains(&page))
    }
}

impl Settling<'_> {
    /// The damaged pages of the file that nothing in use depends on.
    pub fn harmless(&self, file: u32) -> Harmless<'_> {
        let (freed, needed) = (self.freed_damage.get(&file).map(Arc::as_ref), self.needed.get(&file));
        Harmless { freed, needed, dropped: self.dropped.get(&file) }
    }
}

impl SettledFile {
    /// The tablespace that starts with this file; `None` if the file continues another.
    pub fn tablespace(&self) -> Option<Held> {
        let (candidate, part) = (&self.candidate, &self.head.as_ref().ok()?.part);
        let pages = u32::try_from(part.pages_in(candidate.len)).unwrap_or(u32::MAX);
        let file = SpaceFile::of(candidate.path.clone(), FileId(0), 0, pages);
        let (format, header, key) = (part.format, part.header, part.key.clone());
        let space = Tablespace { format, header, key, files: vec![file], home: None };
        (part.first_page == 0).then(|| Held { space, roots: self.tally.roots.clone(), newest: self.tally.newest })
    }
}

/// A tablespace: its files in order, by file number.
pub(super) struct SettledSpace {
    pub files: Vec<u32>,
    pub usage: Arc<UsageMap>,
}

pub(super) struct Settling<'i> {
    pub inventory: &'i Inventory,
    pub done: Vec<SettledFile>,
    pub findings: Findings,
    pub redo: RedoLogs,
    pub freed_damage: BTreeMap<u32, Arc<Usage>>,
    /// Of the pages with freed damage, those at which the pending recovery ends, by file.
    pub needed: BTreeMap<u32, BTreeSet<u32>>,
    /// Pages of dropped indexes, by file.
    pub dropped: BTreeMap<u32, BTreeSet<u32>>,
    /// A server may be writing the files.
    pub live: bool,
    /// Files that no table uses, and whose content no server minds.
    pub orphans: HashSet<PathBuf>,
    /// Files that the server has created but not yet written.
    pub unflushed: Vec<PathBuf>,
    pub ends: LogEnds<'i>,
    pub open: OpenTransactions<'i>,
    /// Those of the file asked about last.
    pub empty: Option<EmptyIndexes>,
}
