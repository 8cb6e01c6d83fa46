//! Reads scattered stretches that are known ahead of need: sorts them, joins those that touch, keeps many requests in flight, and hands the
//! bytes over in the order requested.
//!
//! ```text
//! ask(want) ... -> batch (one look-ahead of wants) -> sorted, coalesced -> Blocks -> Reader -> copied into the batch
//!                                                                                        next(): in the order asked
//! ```
//!
//! # Sketch
//!
//! For a scan over the leaves of a fragmented tree, 16 KiB each, with the default look-ahead of 8 MiB:
//!
//! * operations: 512 leaves in a batch; none touch another in the worst case, so 512 requests, `depth` of them in flight;
//! * latency: at 0.5 ms a request and 32 in flight, 64,000 leaves a second instead of 2,000;
//! * memory: two batches of 8 MiB, and the reader's buffers;
//! * one copy of each stretch, which costs less than examining it.
//!
//! While a batch is handed over, the next one is read at the same pace, so that the device does not wait for the caller to finish a batch,
//! nor the caller for the device to start one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::counters::WorkerCounters;
use crate::queue::OpenQueue;
use crate::reader::engines_for;
use crate::{BLOCK_ALIGN, Block, FileId, FileSet, Piece, Plan, ReadOptions, Reader, ReaderError, SPLIT_UNIT};

/// A stretch of a file that the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The file.
    pub file: FileId,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// Its length in bytes, at most the block size of the plan less [`SPLIT_UNIT`].
    pub len: u32,
    /// The caller's tag, returned with the bytes.
    pub tag: u64,
}

/// How far ahead of need stretches are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all: one stretch at a time, like a server that reads a page when it needs it.
    None,
    /// Not by itself. A caller that guesses what comes next, like a server's linear read-ahead, may ask for more than there is room for:
    /// these stretches are sorted, joined and read together, up to this many bytes. The next ones follow once these are handed over.
    Linear {
        /// Bytes read together; at least one stretch is.
        bytes: u64,
    },
    /// By the caller's requests: up to this many bytes at a time are sorted, joined, and read while the caller works on the batch before.
    Logical {
        /// Bytes in a batch; at least one stretch is.
        bytes: u64,
    },
}

impl ReadAhead {
    /// 8 MiB ahead.
    pub const LOGICAL: Self = Self::Logical { bytes: 8 << 20 };

    /// Bytes that may be requested before they are needed.
    fn room(self) -> u64 {
        match self {
            Self::None | Self::Linear { .. } => 0,
            Self::Logical { bytes } => bytes,
        }
    }

    /// Bytes read together.
    fn batch(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Linear { bytes } | Self::Logical { bytes } => bytes,
        }
    }
}

/// The blocks that a [`Gather`] has planned and its reader has not taken yet. Created first, because both use it.
#[derive(Debug)]
pub struct GatherPlan {
    block_size: u32,
    blocks: RefCell<VecDeque<Block>>,
}

impl GatherPlan {
    /// No blocks yet. None will exceed `block_size` bytes, rounded up to a multiple of [`BLOCK_ALIGN`].
    #[must_use]
    pub fn new(block_size: u32) -> Self {
        let block_size = block_size.clamp(1, u32::MAX - BLOCK_ALIGN).next_multiple_of(BLOCK_ALIGN);
        Self { block_size, blocks: RefCell::default() }
    }
}

impl Plan for GatherPlan {
    fn next(&self) -> Option<Block> {
        self.blocks.borrow_mut().pop_front()
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }
}

/// The bytes of a stretch.
#[derive(Debug)]
pub struct Gathered<'g> {
    /// The stretch as requested.
    pub want: Want,
    /// The bytes: fewer than wanted at the end of the file, and zeros where the device failed.
    pub bytes: &'g [u8],
    /// Why some of the bytes, or all, could not be read.
    pub lost: Option<&'g Arc<io::Error>>,
}

/// A stretch of a batch, and its state.
#[derive(Debug)]
struct BatchStretch {
    want: Want,
    /// Where its bytes are in the batch.
    start: usize,
    /// Its end in the file, or the end of the file if that is earlier.
    end: u64,
    /// Bytes received.
    got: u32,
    filled: bool,
    lost: Option<Arc<io::Error>>,
}

/// Stretches that are read together.
#[derive(Debug, Default)]
struct Batch {
    /// In the order asked.
    entries: Vec<BatchStretch>,
    /// Indexes into `entries`, by file and offset.
    sorted: Vec<usize>,
    /// How many of `sorted` are finished.
    passed: usize,
    /// Blocks that are not complete yet.
    blocks: usize,
    handed: usize,
    /// Reused with its old bytes, since only the bytes received for an entry are handed over.
    bytes: Vec<u8>,
    /// How many of `bytes` are in use.
    used: usize,
}

/// One worker's gatherer, used only on that worker's thread.
pub struct Gather<'f> {
    files: &'f FileSet,
    plan: &'f GatherPlan,
    reader: Reader<'f>,
    ahead: ReadAhead,
    asked: VecDeque<Want>,
    asked_bytes: u64,
    /// The one being handed over, and the next.
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
}

/// Batches at a time: one is handed over while the next is read.
const BATCHES: usize = 2;

impl<'f> Gather<'f> {
    /// A gatherer with the engine of the options.
    ///
    /// # Errors
    /// Invalid sizes; an engine requested by name that does not work here.
    pub fn new(
        files: &'f FileSet,
        plan: &'f GatherPlan,
        options: &ReadOptions,
        ahead: ReadAhead,
        counters: &'f WorkerCounters,
    ) -> Result<Self, ReaderError> {
        Self::with_engines(files, plan, options, ahead, counters, engines_for(files, options.engine))
    }

    /// A gatherer that tries the given engines in turn, whatever the options say, once it needs one.
    ///
    /// # Errors
    /// Invalid sizes.
    pub fn with_engines(
        files: &'f FileSet,
        plan: &'f GatherPlan,
        options: &ReadOptions,
        ahead: ReadAhead,
        counters: &'f WorkerCounters,
        engines: &'f [&'f dyn OpenQueue],
    ) -> Result<Self, ReaderError> {
        let reader = Reader::with_engines(files, plan, options, counters, engines)?;
        let (asked, batches) = (VecDeque::new(), VecDeque::new());
        Ok(Self { files, plan, reader, ahead, asked, asked_bytes: 0, batches, spare: Vec::new() })
    }

    /// Asks for a stretch. Past the end of its file, there are no bytes.
    pub fn ask(&mut self, want: Want) {
        self.asked_bytes += u64::from(want.len);
        self.asked.push_back(want);
    }

    /// Whether the look-ahead has room for more.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.asked.is_empty() || self.asked_bytes < self.ahead.room()
    }

    /// How far ahead of need it reads.
    #[must_use]
    pub fn ahead(&self) -> ReadAhead {
        self.ahead
    }

    /// Stretches requested and not handed over yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.asked.len() + self.batches.iter().map(|batch| batch.entries.len() - batch.handed).sum::<usize>()
    }

    /// The next stretch, in the order asked; `None` when nothing is pending.
    #[expect(clippy::should_implement_trait, reason = "the bytes borrow from the gatherer, which Iterator cannot say")]
    pub fn next(&mut self) -> Option<Gathered<'_>> {
        if self.batches.front().is_some_and(|batch| batch.handed == batch.entries.len()) {
            // A block may reach a little past its last stretch.
            while self.batches.front().is_some_and(|batch| batch.blocks > 0) {
                self.take_in();
            }
            self.spare.extend(self.batches.pop_front());
        }
        self.form();
        while !self.batches.front()?.is_next_filled() {
            self.take_in();
        }
        while self.is_behind() {
            self.take_in();
        }
        self.batches.front_mut()?.hand()
    }

    /// Notes for a user who asks for details; see [`Reader::notes`].
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.reader.notes()
    }

    /// The engine that carries requests; see [`Reader::engine_name`].
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        self.reader.engine_name()
    }

    /// Maximum memory for reading, in bytes: the reader's buffers and the batches.
    #[must_use]
    pub fn memory_max(&self) -> u64 {
        self.reader.memory_max() + BATCHES as u64 * self.ahead.batch().max(u64::from(BLOCK_ALIGN))
    }

    /// Makes batches of the requests. One that fills the look-ahead is made at once; a smaller one waits until the batch before it is half
    /// handed over, so that more requests can join it.
    fn form(&mut self) {
        loop {
            let due = match (self.batches.len(), self.ahead) {
                (0, _) => true,
                (1, ReadAhead::Logical { bytes }) => {
                    let half = self.batches.front().is_some_and(|batch| 2 * batch.handed >= batch.entries.len());
                    half || self.asked_bytes >= bytes
                }
                _ => false,
            };
            if !due || self.asked.is_empty() {
                return;
            }
            let mut batch = self.spare.pop().unwrap_or_default();
            batch.clear();
            let limit = self.ahead.batch();
            while let Some(want) = self.asked.front().copied().filter(|want| batch.fits(want, limit)) {
                self.asked.pop_front();
                self.asked_bytes -= u64::from(want.len);
                batch.add(want, self.files.len_of(want.file));
            }
            self.schedule(&mut batch);
            self.batches.push_back(batch);
        }
    }

    /// Sorts the stretches and plans the blocks that hold them.
    fn schedule(&self, batch: &mut Batch) {
        let entries = &batch.entries;
        let there = entries.iter().enumerate().filter(|(_, entry)| !entry.filled);
        batch.sorted.extend(there.map(|(at, _)| at));
        batch.sorted.sort_by_key(|at| entries.get(*at).map(|entry| (entry.want.file, entry.want.offset)));
        let mut blocks = self.plan.blocks.borrow_mut();
        let planned = blocks.len();
        let mut open: Option<Block> = None;
        for want in batch.sorted.iter().filter_map(|at| entries.get(*at)).map(|entry| entry.want) {
            let range = self.aligned(&want);
            let joined = open.and_then(|block| join(block, want.file, &range, self.plan.block_size));
            if joined.is_none() {
                blocks.extend(open);
            }
            let len = (range.end - range.start) as u32;
            open = joined.or(Some(Block { file: want.file, offset: range.start, len }));
        }
        blocks.extend(open);
        batch.blocks = blocks.len() - planned;
    }

    /// The range to read for a stretch that starts before the end of its file.
    fn aligned(&self, want: &Want) -> Range<u64> {
        let unit = u64::from(SPLIT_UNIT);
        let end = want.offset + u64::from(want.len);
        want.offset / unit * unit..end.next_multiple_of(unit).min(self.files.len_of(want.file))
    }

    /// Whether the next batch has progressed less than the one being handed over.
    fn is_behind(&self) -> bool {
        let (Some(front), Some(next)) = (self.batches.front(), self.batches.get(1)) else { return false };
        next.blocks > 0 && next.passed * front.entries.len() < front.handed * next.sorted.len()
    }

    /// Copies one more piece from the reader into its batch: the first one that is incomplete.
    fn take_in(&mut self) {
        let Some(batch) = self.batches.iter_mut().find(|batch| batch.blocks > 0) else { return };
        match self.reader.next() {
            Some(Ok(piece)) => {
                batch.put(&piece);
                batch.blocks -= usize::from(piece.last);
            }
            Some(Err(failure)) => {
                let Block { file, offset, len } = failure.block;
                batch.pass(file, offset + u64::from(len), Some(&failure.error));
                batch.blocks -= 1;
            }
            None => batch.blocks = 0,
        }
        if batch.blocks == 0 {
            batch.pass(FileId(u32::MAX), u64::MAX, None);
        }
    }
}

/// The block extended by the range, if they touch and fit in one request.
fn join(block: Block, file: FileId, range: &Range<u64>, block_size: u32) -> Option<Block> {
    let end = block.offset + u64::from(block.len);
    let len = u32::try_from(range.end.max(end) - block.offset).ok()?;
    (block.file == file && range.start <= end && len <= block_size).then_some(Block { len, ..block })
}

impl Batch {
    fn clear(&mut self) {
        self.entries.clear();
        self.sorted.clear();
        (self.passed, self.handed, self.blocks, self.used) = (0, 0, 0, 0);
    }

    fn fits(&self, want: &Want, limit: u64) -> bool {
        self.entries.is_empty() || self.used as u64 + u64::from(want.len) <= limit
    }

    fn add(&mut self, want: Want, file_len: u64) {
        let start = self.used;
        self.used += want.len as usize;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        let end = (want.offset + u64::from(want.len)).min(file_len);
        // Nothing will come from past the end of the file.
        let filled = end <= want.offset;
        self.entries.push(BatchStretch { want, start, end, got: 0, filled, lost: None });
    }

    fn is_next_filled(&self) -> bool {
        self.entries.get(self.handed).is_none_or(|entry| entry.filled)
    }

    fn hand(&mut self) -> Option<Gathered<'_>> {
        let entry = self.entries.get(self.handed)?;
        self.handed += 1;
        let bytes = self.bytes.get(entry.start..entry.start + entry.got as usize).unwrap_or(&[]);
        Some(Gathered { want: entry.want, bytes, lost: entry.lost.as_ref() })
    }

    /// Copies the piece's share of the stretches, and finishes those that end in it.
    fn put(&mut self, piece: &Piece<'_>) {
        let (start, end) = (piece.offset, piece.offset + u64::from(piece.asked));
        for at in self.sorted.iter().skip(self.passed) {
            let Some(entry) = self.entries.get_mut(*at) else { continue };
            let want = entry.want;
            if want.file != piece.file || want.offset >= end {
                break;
            }
            let from = want.offset.max(start);
            let to = entry.end.min(start + piece.bytes.len() as u64);
            let source =
                to.checked_sub(from).and_then(|len| piece.bytes.get((from - start) as usize..)?.get(..len as usize));
            let Some(source) = source else { continue };
            let place = entry.start + (from - want.offset) as usize;
            if let Some(target) = self.bytes.get_mut(place..place + source.len()) {
                target.copy_from_slice(source);
                entry.got = (to - want.offset) as u32;
            }
            let hit = |gap: &&crate::Gap| gap.offset < to && gap.offset + u64::from(gap.len) > from;
            if let Some(gap) = piece.gaps.iter().find(hit) {
                entry.lost = Some(Arc::clone(&gap.error));
            }
        }
        // A short piece is the last of its file.
        self.pass(piece.file, if piece.bytes.len() < piece.asked as usize { u64::MAX } else { end }, None);
    }

    /// Finishes the stretches of files up to `file` that end at or before `end`: nothing more will come for them.
    fn pass(&mut self, file: FileId, end: u64, lost: Option<&Arc<io::Error>>) {
        while let Some(entry) = self.sorted.get(self.passed).and_then(|at| self.entries.get_mut(*at)) {
            if (entry.want.file, entry.end) > (file, end) {
                return;
            }
            entry.filled = true;
            entry.lost = entry.lost.take().or_else(|| lost.map(Arc::clone));
            self.passed += 1;
        }
    }
}
