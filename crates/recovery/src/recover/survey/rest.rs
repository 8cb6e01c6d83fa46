//! The rest of the log, when a recovery ends before the log does.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::{Lsn, PageId, SpaceId};
use redo::record::{Effect, FileRecord, Mtr, Subject};

use crate::recover::error::{Result, refused};
use crate::recover::log::{Scanned, file_record};
use crate::recover::place::outside::Outside;

/// Bytes per page: the map entry, and about as much empty space until the map grows again.
const PLACE_SIZE: usize = 2 * (size_of::<(PageId, FirstChange)>() + 1);
/// The log after the end of the recovery.
#[derive(Debug)]
pub(in crate::recover) struct LogRest {
    /// Nothing after this LSN is recovered.
    pub until: Lsn,
    pub mtrs: u64,
    pub pages: HashMap<PageId, FirstChange>,
    pub files: HashMap<SpaceId, Vec<FileOperation>>,
    /// Truncated tablespaces, and the LSN at which each was truncated.
    pub trimmed: Vec<(SpaceId, Lsn)>,
    /// Where the record of the log's checkpoint ends, if it is in this part.
    checkpoint_end: Option<Lsn>,
}

/// The first change to a page.
#[derive(Debug, Clone, Copy)]
pub(in crate::recover) struct FirstChange {
    /// Start of its mini-transaction.
    pub lsn: Lsn,
    /// Whether this change initializes the page, so that its old content does not matter.
    pub is_init: bool,
}

/// An operation on a file, by a mini-transaction that begins at `lsn`.
#[derive(Debug)]
pub(in crate::recover) struct FileOperation {
    pub lsn: Lsn,
    pub kind: OperationKind,
    /// The names before and after, if the log gives them.
    pub names: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::recover) enum OperationKind {
    Made,
    Renamed,
    Deleted,
}

impl LogRest {
    pub fn new(until: Lsn) -> Self {
        let (pages, files) = (HashMap::new(), HashMap::new());
        Self { until, mtrs: 0, pages, files, trimmed: Vec::new(), checkpoint_end: None }
    }

    /// Adds a mini-transaction that ends after the recovery does. `checkpoint` is the log's newest.
    pub fn add(&mut self, scanned: &Scanned<'_>, checkpoint: Lsn, outside: Outside) {
        self.mtrs += 1;
        let mtr = &scanned.mtr;
        for (subject, bytes) in scanned.records() {
            match subject {
                Subject::File => {
                    let record = file_record(mtr.grammar, bytes);
                    record.into_iter().for_each(|record| self.add_file(&record, mtr, checkpoint, outside));
                }
                Subject::Page(id, Effect::Trims) => self.trimmed.push((id.space, mtr.start)),
                Subject::Page(id, effect) => {
                    let is_init = effect == Effect::Inits;
                    self.pages.entry(id).or_insert(FirstChange { lsn: mtr.start, is_init });
                }
            }
        }
    }

    fn add_file(&mut self, record: &FileRecord<'_>, mtr: &Mtr<'_>, checkpoint: Lsn, outside: Outside) {
        let path = |name: &[u8]| outside.path_of(Path::new(OsStr::from_bytes(name)));
        let (space, kind, names) = match *record {
            FileRecord::Create { space, name } => (space, OperationKind::Made, [path(name), None]),
            FileRecord::Rename { space, from, to } => (space, OperationKind::Renamed, [path(from), path(to)]),
            FileRecord::Delete { space, name } => (space, OperationKind::Deleted, [path(name), None]),
            FileRecord::Checkpoint(lsn) if lsn == checkpoint => {
                self.checkpoint_end = Some(mtr.end);
                return;
            }
            _ => return,
        };
        let names = names.into_iter().flatten().collect();
        self.files.entry(space).or_default().push(FileOperation { lsn: mtr.start, kind, names });
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.pages.capacity() * PLACE_SIZE
    }

    /// Whether the rest is only the record of the log's checkpoint. The recovery may end before that record.
    pub fn only_closes(&self, checkpoint: Lsn) -> bool {
        let is_nothing = self.pages.is_empty() && self.files.is_empty() && self.trimmed.is_empty();
        is_nothing && self.checkpoint_end.is_some() && checkpoint <= self.until
    }

    /// Refuses to end before the record of the log's checkpoint, or before `checkpoint` if the log has no such record.
    pub fn refuse_before_checkpoint<T>(&self, checkpoint: Lsn) -> Result<T> {
        let end = self.checkpoint_end.unwrap_or(checkpoint);
        refused(format!(
            "LSN {} is before the log's newest checkpoint, which ends at LSN {end}: earlier changes are already in the files",
            self.until
        ))
    }

    /// Tablespaces whose pages must be checked.
    pub fn spaces(&self) -> BTreeSet<SpaceId> {
        self.pages.keys().map(|id| id.space).filter(|space| !self.is_made(*space)).collect()
    }

    fn is_made(&self, space: SpaceId) -> bool {
        self.files
            .get(&space)
            .and_then(|operations| operations.first())
            .is_some_and(|first| first.kind == OperationKind::Made)
    }

    /// Refuses to end before `what` was done.
    pub fn refuse<T>(&self, what: &str, lsn: Lsn) -> Result<T> {
        refused(format!(
            "{what} at LSN {lsn}, which is later than LSN {}, and cannot be undone: recover the whole log",
            self.until
        ))
    }
}
