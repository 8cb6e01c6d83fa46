//! Turns redo from log order into page order: added by mini-transaction, returned by page.
//!
//! ```text
//! MtrReader::next_mtr -> RedoBatch::add -> full, or the end of the log
//!   -> RedoBatch::pages (in the order of tablespace and number) -> RedoBatch::redo -> Replay::apply
//! ```
//!
//! Sketch: a mini-transaction of a mixed load changes two or three pages with 60 bytes of records each; a page with ten changes costs 1 KiB
//! here and 16 KiB to read and write. All records are appended to one run of bytes, and each has the index of its page's previous one. A
//! page needs no allocation, only its place in a table (`chains`).
//!
//! A record that voids a page (FREE_PAGE, INIT_PAGE, TRIM_PAGES) makes the page's earlier records irrelevant: they are no longer returned,
//! but their bytes stay until the batch is [cleared](RedoBatch::clear).

mod chains;
mod runs;

use std::mem::size_of;

use format::{Lsn, PageId, SpaceId};
use redo::record::{Change, FileRecord, Grammar, Mtr, PageRecord, RecordError, RedoRecord};

use self::chains::{Chains, Index, NO_ENTRY};
use self::runs::Runs;

/// Sizes of the runs of bytes and entries. Growth adds a run; copying to a larger vector would take twice the memory.
const RUN_SIZE: usize = 4 << 20;
const RUN_ENTRIES: usize = 1 << 16;
/// Runs addressable by a batch's 32-bit offsets, less one.
const RUNS_MAX: usize = (1 << 32) / RUN_SIZE - 1;
const _: () = assert!(RedoBatch::RECORDS_MAX <= RUN_SIZE);

/// Records of many mini-transactions, grouped by page.
#[derive(Debug)]
pub struct RedoBatch {
    pages: Chains,
    entries: Runs<PageRecords>,
    bytes: Runs<u8>,
    files: Vec<FileEvent>,
    memory_max: usize,
    grammar: Grammar,
}

/// Consecutive records of one mini-transaction for the same page.
#[derive(Debug, Clone, Copy)]
struct PageRecords {
    start: Lsn,
    /// LSNs from `start` to the end of the mini-transaction.
    lsns: u32,
    offset: u32,
    len: u32,
    /// The page's previous entry. A forward link would have to be written into that entry: a cache miss per record.
    before: Index,
}

/// A mini-transaction being added.
#[derive(Debug)]
pub struct Adding {
    start: Lsn,
    end: Lsn,
    /// The entry that got the last record.
    open: Option<(PageId, usize)>,
}

/// What the log says about a file or a tablespace's size, in log order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// The name of a tablespace that was created or is changed.
    Named {
        /// The tablespace.
        space: SpaceId,
        /// Its file name, as the server wrote it.
        name: Vec<u8>,
        /// Whether the file was just created.
        is_new: bool,
    },
    /// A tablespace is renamed.
    Renamed {
        /// The tablespace.
        space: SpaceId,
        /// Its old name.
        from: Vec<u8>,
        /// Its new name.
        to: Vec<u8>,
    },
    /// A tablespace is deleted; its redo is dropped.
    Deleted {
        /// The tablespace.
        space: SpaceId,
    },
    /// A tablespace is truncated.
    Trimmed {
        /// The tablespace.
        space: SpaceId,
        /// Number of pages it keeps.
        pages: u32,
    },
    /// A checkpoint was made.
    Checkpoint(Lsn),
}

/// The redo of one page.
#[derive(Debug, Clone)]
pub struct PageRedo<'b> {
    batch: &'b RedoBatch,
    /// The newest entry, until iteration starts.
    last: Index,
    /// The remaining entries, the next one last.
    left: Vec<Index>,
    /// Whether the log initializes the page, so that its old content need not be read.
    pub is_void: bool,
}

impl<'b> Iterator for PageRedo<'b> {
    type Item = Mtr<'b>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut number = std::mem::replace(&mut self.last, NO_ENTRY);
        while let Some(entry) = self.batch.entry(number) {
            self.left.push(number);
            number = entry.before;
        }
        let entry = self.batch.entry(self.left.pop()?)?;
        let bytes = self.batch.bytes.get(entry.offset as usize, entry.len as usize)?;
        let end = Lsn(entry.start.0.saturating_add(u64::from(entry.lsns)));
        Some(Mtr { start: entry.start, end, bytes, grammar: self.batch.grammar })
    }
}

impl RedoBatch {
    /// Bytes that consecutive records for one page cost, besides their own.
    pub const ENTRY_COST: usize = size_of::<PageRecords>();
    /// Number of consecutive pages that share a group. The number of a group's first page is a multiple of it.
    pub const GROUP_PAGES: u32 = chains::GROUP_PAGES;
    /// Bytes that a group with records costs, besides the records.
    pub const GROUP_COST: usize = chains::GROUP_COST;
    /// The most bytes that one call of [`Self::add_change`] may add. Records are much shorter, since they describe changes within a page.
    pub const RECORDS_MAX: usize = 1 << 20;
    /// A batch is full at this size, even if its limit is higher.
    const MEMORY_MAX: usize = RUNS_MAX * RUN_SIZE;
    /// Memory left free by a batch that is [full](Self::is_full).
    const SPARE: usize = RUN_SIZE + RUN_ENTRIES * size_of::<PageRecords>() + chains::RUN_COST;

    /// Bytes of records, including their overhead, that are sure to fit in a batch with this much memory.
    #[must_use]
    pub const fn room_in(memory_max: usize) -> usize {
        let memory = if memory_max < Self::MEMORY_MAX { memory_max } else { Self::MEMORY_MAX };
        // Mini-transactions leave some space unused at the end of each run.
        (memory - memory / 16).saturating_sub(Self::SPARE)
    }

    /// An empty batch that is full once it uses `memory_max` bytes.
    #[must_use]
    pub fn new(memory_max: usize) -> Self {
        let (entries, bytes) = (Runs::new(RUN_ENTRIES), Runs::new(RUN_SIZE));
        Self { pages: Chains::default(), entries, bytes, files: Vec::new(), memory_max, grammar: Grammar::default() }
    }

    /// Sets the grammar of the records.
    #[must_use]
    pub fn with_grammar(self, grammar: Grammar) -> Self {
        Self { grammar, ..self }
    }

    /// Adds a mini-transaction.
    ///
    /// # Errors
    /// [`RecordError`]: some bytes are not a record. The records before them were added, so the log can be applied only up to the previous
    /// mini-transaction.
    pub fn add(&mut self, mtr: &Mtr<'_>) -> Result<(), RecordError> {
        let mut adding = self.begin_mtr(mtr);
        for record in mtr.records() {
            self.add_record(&mut adding, &record?);
        }
        Ok(())
    }

    /// Starts a mini-transaction. Records [added](Self::add_record) from now on belong to it, until the next one is started.
    pub fn begin_mtr(&mut self, mtr: &Mtr<'_>) -> Adding {
        // One of MySQL may be of any size: the server's log buffer grows with it.
        if mtr.bytes.len() <= RUN_SIZE {
            self.bytes.reserve(mtr.bytes.len());
        }
        Adding { start: mtr.start, end: mtr.end, open: None }
    }

    /// Adds a record of the current mini-transaction.
    pub fn add_record(&mut self, adding: &mut Adding, record: &RedoRecord<'_>) {
        match record {
            RedoRecord::File(record) => self.add_file(record),
            RedoRecord::Page(PageRecord { id, change: Change::Trim, .. }) => self.add_trim(adding, *id),
            RedoRecord::Page(record) => self.add_change(adding, record.id, record.change.voids_page(), record.bytes),
        }
    }

    /// Adds the bytes of a page's records, which may void the page: at most [`Self::RECORDS_MAX`].
    pub fn add_change(&mut self, adding: &mut Adding, id: PageId, is_void: bool, bytes: &[u8]) {
        debug_assert!(bytes.len() <= Self::RECORDS_MAX, "no record is so long");
        // The bytes of an entry lie in one run.
        let has_room = self.bytes.has_room(bytes.len());
        if !has_room {
            self.bytes.reserve(bytes.len());
        }
        let continued = adding.open.filter(|&(open, _)| open == id && !is_void && has_room);
        let entry = continued.map_or_else(|| self.begin(id, is_void, adding), |(_, entry)| entry);
        self.extend(entry, bytes);
        adding.open = Some((id, entry));
    }

    /// Notes that the tablespace is truncated to the pages before this one.
    pub fn add_trim(&mut self, adding: &mut Adding, id: PageId) {
        self.trim(id);
        adding.open = None;
    }

    /// Appends an entry to the page's chain.
    fn begin(&mut self, id: PageId, is_void: bool, mtr: &Adding) -> usize {
        let number = self.entries.reserve(1);
        let index = Index::try_from(number).unwrap_or(NO_ENTRY);
        let offset = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let lsns = u32::try_from(mtr.end.0.saturating_sub(mtr.start.0)).unwrap_or(u32::MAX);
        let before = self.pages.put(id, index, is_void);
        self.entries.extend(&[PageRecords { start: mtr.start, lsns, offset, len: 0, before }]);
        number
    }

    fn extend(&mut self, entry: usize, bytes: &[u8]) {
        self.bytes.extend(bytes);
        if let Some(entry) = self.entries.get_mut(entry) {
            entry.len += u32::try_from(bytes.len()).unwrap_or(0);
        }
    }

    fn add_file(&mut self, record: &FileRecord<'_>) {
        let event = match *record {
            FileRecord::Create { space, name } => FileEvent::Named { space, name: name.to_vec(), is_new: true },
            FileRecord::Modify { space, name } => FileEvent::Named { space, name: name.to_vec(), is_new: false },
            FileRecord::Rename { space, from, to } => {
                FileEvent::Renamed { space, from: from.to_vec(), to: to.to_vec() }
            }
            FileRecord::Delete { space, .. } => {
                self.pages.retain(|id| id.space != space);
                FileEvent::Deleted { space }
            }
            FileRecord::Checkpoint(lsn) => FileEvent::Checkpoint(lsn),
            FileRecord::Padding | FileRecord::Extend { .. } | FileRecord::Load { .. } | FileRecord::Table(_) => return,
        };
        self.files.push(event);
    }

    /// A truncated undo tablespace is recreated and loses every page; the system tablespace loses only its end.
    fn trim(&mut self, id: PageId) {
        let is_kept =
            |page: PageId| page.space != id.space || (id.space == SpaceId::SYSTEM && page.page_no < id.page_no);
        self.pages.retain(is_kept);
        self.files.push(FileEvent::Trimmed { space: id.space, pages: id.page_no.0 });
    }

    /// Bytes that the batch uses.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.memory() + self.entries.memory() + self.pages.memory()
    }

    /// Whether to stop adding mini-transactions: the next one might need another run of bytes and of entries. Ask after adding, so that
    /// even the smallest batch takes one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full_beside(0)
    }

    /// [`Self::is_full`], if `others` bytes of the memory are used elsewhere.
    #[must_use]
    pub fn is_full_beside(&self, others: usize) -> bool {
        let in_use = self.bytes.in_use() + self.entries.in_use() + self.pages.in_use();
        in_use + others + Self::SPARE >= self.memory_max || self.bytes.current >= RUNS_MAX
    }

    /// What the log said about files, in log order.
    #[must_use]
    pub fn files(&self) -> &[FileEvent] {
        &self.files
    }

    /// The pages with redo, by tablespace and page number.
    #[must_use]
    pub fn pages(&self) -> Vec<PageId> {
        self.pages.ids()
    }

    /// Whether there is redo of the page.
    #[must_use]
    pub fn has(&self, id: PageId) -> bool {
        self.pages.get(id).0 != NO_ENTRY
    }

    /// The redo of a page, in log order. One mini-transaction may be returned in several parts.
    #[must_use]
    pub fn redo(&self, id: PageId) -> PageRedo<'_> {
        let (last, is_void) = self.pages.get(id);
        PageRedo { batch: self, last, left: Vec::new(), is_void }
    }

    fn entry(&self, number: Index) -> Option<&PageRecords> {
        self.entries.get(number as usize, 1)?.first()
    }

    /// Empties the batch but keeps its memory.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.entries.clear();
        self.bytes.clear();
        self.files.clear();
    }
}
