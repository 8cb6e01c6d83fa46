//! Reading scattered stretches that are known ahead of need: sorted, joined where they touch, many requests in flight, and handed
//! over in the order in which they were asked for.
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
//! * one copy of each stretch, which costs less than looking at it.
//!
//! While a batch is handed over, the next one is taken in at the same pace, so that the device does not wait for the caller to finish a
//! batch, nor the caller for the device to begin one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::counters::WorkerCounters;
use crate::queue::OpenQueue;
use crate::{BLOCK_ALIGN, Block, FileId, FileSet, Piece, Plan, ReadOptions, Reader, ReaderError, SPLIT_UNIT};

/// A stretch of a file that somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The file.
    pub file: FileId,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// Its length in bytes, at most the block size of the plan less [`SPLIT_UNIT`].
    pub len: u32,
    /// The caller's name for it, handed back with the bytes.
    pub tag: u64,
}

/// How far ahead of need stretches are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all: one stretch at a time, as a server does that reads a page when it needs it.
    None,
    /// Not at all, unless more is asked for although there is no room: by somebody who guesses what comes next, as a server's linear
    /// read-ahead does. Requests are then sorted, joined and read together, up to this many bytes; the next stretches are read when these
    /// have been handed over.
    Linear {
        /// Bytes read together; at least one stretch is.
        bytes: u64,
    },
    /// By what was asked for: up to this many bytes at a time are sorted and joined, and read while the bytes before them are
    /// worked on.
    Logical {
        /// Bytes in a batch; at least one stretch is.
        bytes: u64,
    },
}

impl ReadAhead {
    /// 8 MiB ahead.
    pub const LOGICAL: Self = Self::Logical { bytes: 8 << 20 };

    /// Bytes that may be asked for before they are needed.
    fn room(self) -> u64 {
        match self {
            Self::None | Self::Linear { .. } => 0,
            Self::Logical { bytes } => bytes,
        }
    }

    /// Bytes that are read together.
    fn batch(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Linear { bytes } | Self::Logical { bytes } => bytes,
        }
    }
}

/// The blocks that a [`Gather`] has planned and its reader has not taken yet. Made first, because both use it.
#[derive(Debug)]
pub struct GatherPlan {
    block_size: u32,
    blocks: RefCell<VecDeque<Block>>,
}

impl GatherPlan {
    /// No block yet, and none larger than `block_size` bytes, rounded up to a multiple of [`BLOCK_ALIGN`].
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
    /// What was asked for.
    pub want: Want,
    /// The bytes; fewer than wanted where the file ends, zeros where the device would not give them.
    pub bytes: &'g [u8],
    /// Why some of the bytes, or all, could not be read.
    pub lost: Option<&'g Arc<io::Error>>,
}

/// A stretch of a batch, and what became of it.
#[derive(Debug)]
struct BatchStretch {
    want: Want,
    /// Where its bytes lie in the batch.
    start: usize,
    /// Where it ends in the file: where the file ends, if that is earlier.
    end: u64,
    /// Bytes that came.
    got: u32,
    filled: bool,
    lost: Option<Arc<io::Error>>,
}

/// Stretches that are read together.
#[derive(Debug, Default)]
struct Batch {
    /// In the order asked.
    entries: Vec<BatchStretch>,
    /// The same by file and offset: places in `entries`.
    sorted: Vec<usize>,
    /// How many of `sorted` have come to their end.
    passed: usize,
    /// Blocks that have not wholly come.
    blocks: usize,
    handed: usize,
    /// Kept from one use to the next, with the bytes of the last one: of an entry only those are handed over that came for it.
    bytes: Vec<u8>,
    /// How many of `bytes` are in use.
    used: usize,
}

/// One worker's gatherer. Lives and dies on that worker's thread.
pub struct Gather<'f> {
    files: &'f FileSet,
    plan: &'f GatherPlan,
    reader: Reader<'f>,
    ahead: ReadAhead,
    asked: VecDeque<Want>,
    asked_bytes: u64,
    /// The one that is handed over, and the one that comes after it.
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
}

/// Batches in hand: one is handed over while the next is read.
const BATCHES: usize = 2;

impl<'f> Gather<'f> {
    /// A gatherer with the engine of the options.
    ///
    /// # Errors
    /// Sizes that make no sense; an engine asked for by name that does not work here.
    pub fn new(
        files: &'f FileSet,
        plan: &'f GatherPlan,
        options: &ReadOptions,
        ahead: ReadAhead,
        counters: &'f WorkerCounters,
    ) -> Result<Self, ReaderError> {
        Self::with_engines(files, plan, options, ahead, counters, options.engine.candidates())
    }

    /// A gatherer that tries the given engines in turn, whatever the options say, once it needs one.
    ///
    /// # Errors
    /// Sizes that make no sense.
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

    /// Asks for a stretch. What lies beyond the end of its file comes as no bytes.
    pub fn ask(&mut self, want: Want) {
        self.asked_bytes += u64::from(want.len);
        self.asked.push_back(want);
    }

    /// Whether more would have to be asked for to use the whole look-ahead.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.asked.is_empty() || self.asked_bytes < self.ahead.room()
    }

    /// How far ahead of need it reads.
    #[must_use]
    pub fn ahead(&self) -> ReadAhead {
        self.ahead
    }

    /// Stretches asked for and not handed over yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.asked.len() + self.batches.iter().map(|batch| batch.entries.len() - batch.handed).sum::<usize>()
    }

    /// The next stretch, in the order asked; `None` when nothing is pending.
    #[expect(clippy::should_implement_trait, reason = "the bytes borrow from the gatherer, which Iterator cannot say")]
    pub fn next(&mut self) -> Option<Gathered<'_>> {
        if self.batches.front().is_some_and(|batch| batch.handed == batch.entries.len()) {
            // A block may reach a little beyond the last stretch in it.
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

    /// What a user who asks for details should know; see [`Reader::notes`].
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.reader.notes()
    }

    /// The engine that carries requests; see [`Reader::engine_name`].
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        self.reader.engine_name()
    }

    /// The most memory that reading takes, in bytes: the reader's buffers and the batches.
    #[must_use]
    pub fn memory_max(&self) -> u64 {
        self.reader.memory_max() + BATCHES as u64 * self.ahead.batch().max(u64::from(BLOCK_ALIGN))
    }

    /// Makes batches of what was asked for. One that fills the look-ahead is made at once, a smaller one when the batch before it is
    /// half handed over: until then more may be asked for, and join it.
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

    /// What must be read for a stretch that begins before its file ends.
    fn aligned(&self, want: &Want) -> Range<u64> {
        let unit = u64::from(SPLIT_UNIT);
        let end = want.offset + u64::from(want.len);
        want.offset / unit * unit..end.next_multiple_of(unit).min(self.files.len_of(want.file))
    }

    /// Whether the next batch has come less far than the one that is handed over.
    fn is_behind(&self) -> bool {
        let (Some(front), Some(next)) = (self.batches.front(), self.batches.get(1)) else { return false };
        next.blocks > 0 && next.passed * front.entries.len() < front.handed * next.sorted.len()
    }

    /// Takes one more piece from the reader into the batch that it belongs to: the first one that still lacks something.
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

/// The block with the range added, if they touch and fit into one request.
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
        // Of what lies beyond the end of the file, nothing will come.
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

    /// Copies what the piece has of the stretches, and passes those that end with it.
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
        // A piece that came short is the last of its file.
        self.pass(piece.file, if piece.bytes.len() < piece.asked as usize { u64::MAX } else { end }, None);
    }

    /// The stretches of files up to `file` that end by `end` have all that will come.
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
