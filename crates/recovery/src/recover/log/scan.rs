//! Reads a log from its checkpoint on. One thread reads far ahead, frames, checks, decrypts and parses; another works on the records.
//!
//! ```text
//! LogPlan -> Reader, many blocks in flight -> MtrReader -> records -> chunks -> Scan::run -> RedoBatch
//! ```
//!
//! Sketch: 450 MB of log from a mixed load hold three million mini-transactions with five million records. A core takes half a second to
//! frame, check and parse them, and as long again to gather them. A volume with 1 GiB/s takes 0.4 s to read them.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use flow::queue::OpenQueue;
use flow::{BLOCK_ALIGN, Block, Counters, FileId, Reader, did_bytes, for_this_job};
use format::{Lsn, PageId};
use redo::record::{Effect, FileRecord, Grammar, Mtr, RedoRecord, Subject};

use super::RedoLog;
use super::mtr_source::MtrSource;
use crate::recover::error::{RecoverError, Result, damaged, failed};
use crate::redo_batch::RedoBatch;

/// Chunks in flight between the threads; each has one block of the log.
const CHUNKS: usize = 4;

/// Selects records by page and by the start LSN of their mini-transaction, when the log is read again.
pub(super) type Filter<'f> = &'f (dyn Fn(PageId, Lsn) -> bool + Sync);

/// The log's file ranges cut into blocks, in log order.
struct LogPlan {
    block_size: u32,
    blocks: Vec<Block>,
    next: AtomicUsize,
}

impl LogPlan {
    fn new(stretches: &[(FileId, Range<u64>)], block_size: u32) -> Self {
        let (size, align) = (u64::from(block_size), u64::from(BLOCK_ALIGN));
        let blocks = stretches.iter().flat_map(|(file, stretch)| {
            let file = *file;
            let from = stretch.start - stretch.start % align;
            let end = stretch.end;
            (from..end).step_by(block_size as usize).map(move |offset| {
                let len = u32::try_from((end - offset).min(size)).unwrap_or(block_size);
                Block { file, offset, len }
            })
        });
        Self { block_size, blocks: blocks.collect(), next: AtomicUsize::new(0) }
    }
}

impl flow::Plan for LogPlan {
    fn next(&self) -> Option<Block> {
        // Relaxed: the blocks were there before the plan was shared, and each is handed out once.
        self.blocks.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }
}

impl RedoLog {
    /// Runs `work` on the log from its checkpoint on, once around the file. With a filter, only the selected page records are passed on.
    pub fn scan<T>(&self, filter: Option<Filter<'_>>, work: impl FnOnce(&mut Scan<'_>) -> Result<T>) -> Result<T> {
        let (stretches, counters) = (self.stretches(), Counters::new(1));
        let plan = LogPlan::new(&stretches, self.options.block_size);
        let (plan, stretches, counters) = (&plan, &stretches, counters.worker(0));
        let mtrs = self.reader();
        let at = mtrs.at();
        let framer = |reader| Framer { log: self, filter, stretches, stretch: 0, reader, mtrs };
        // Every request advances simulated time, so requests must come in a fixed order: no second thread.
        if let Some(clock) = &self.clock {
            let engines = [clock as &dyn OpenQueue];
            let reader = Reader::with_engines(&self.files, plan, &self.options, counters, &engines);
            let reader = reader.map_err(|error| self.unread(io::Error::other(error)))?;
            return work(&mut Scan::from(at, Feed::Here(Box::new(framer(reader)))));
        }
        // Kept here until the thread takes it: if none starts, this one reads.
        let kept = Mutex::new(Some(framer));
        let framer = || kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread::scope(|scope| {
            let ((give, take), (give_back, empty)) = (channel(), channel());
            (0..CHUNKS).for_each(|_| drop(give_back.send(Chunk::default())));
            let read = || Reader::new(&self.files, plan, &self.options, counters);
            let unread = |error| self.unread(io::Error::other(error));
            let feed = move || match read() {
                Ok(reader) => drop(framer().map(|framer| framer(reader).feed(&give, &empty))),
                Err(error) => drop(give.send(Err(unread(error)))),
            };
            let started = thread::Builder::new().spawn_scoped(scope, for_this_job(feed));
            if started.is_err()
                && let Some(framer) = framer()
            {
                return work(&mut Scan::from(at, Feed::Here(Box::new(framer(read().map_err(unread)?)))));
            }
            work(&mut Scan::from(at, Feed::Thread { chunks: take, give_back }))
        })
    }

    fn unread(&self, error: impl Into<Arc<io::Error>>) -> RecoverError {
        failed(&self.path, "reading the redo log")(io::Error::other(error.into()))
    }
}

/// Consecutive mini-transactions.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    grammar: Grammar,
    mtrs: Vec<Framed>,
    records: Vec<Located>,
    /// No chunk follows.
    is_last: bool,
    /// The log ends here in bytes that do not parse.
    is_garbled: bool,
    /// The log ends here within a mini-transaction, of which these are the records so far.
    unfinished: Vec<u8>,
    /// The LSN after the chunk, whatever records are selected.
    end: Lsn,
}

/// A mini-transaction in a chunk: its bytes and its records.
struct Framed {
    start: Lsn,
    end: Lsn,
    bytes: Range<usize>,
    records: Range<usize>,
}

/// The position of a record, or of several with the same subject, in their mini-transaction.
struct Located {
    subject: Subject,
    from: u32,
    to: u32,
}

impl Located {
    fn new(subject: Subject, place: &Range<usize>) -> Self {
        let at = |place| u32::try_from(place).unwrap_or(u32::MAX);
        Self { subject, from: at(place.start), to: at(place.end) }
    }
}

/// A mini-transaction and its selected records.
pub(in super::super) struct Scanned<'c> {
    pub mtr: Mtr<'c>,
    records: &'c [Located],
}

impl<'c> Scanned<'c> {
    /// The records, as stored in the log. Consecutive changes to the same page come together.
    pub fn records(&self) -> impl Iterator<Item = (Subject, &'c [u8])> + use<'c> {
        let bytes = self.mtr.bytes;
        self.records
            .iter()
            .filter_map(move |record| Some((record.subject, bytes.get(record.from as usize..record.to as usize)?)))
    }
}

/// Parses a file record from its bytes.
pub(in super::super) fn file_record(grammar: Grammar, bytes: &[u8]) -> Option<FileRecord<'_>> {
    match grammar.records(bytes).next() {
        Some(Ok(RedoRecord::File(record))) => Some(record),
        _ => None,
    }
}

impl Chunk {
    fn clear(&mut self) {
        self.bytes.clear();
        self.mtrs.clear();
        self.records.clear();
        self.unfinished.clear();
    }

    /// Adds a complete mini-transaction.
    fn push(&mut self, mtr: &Mtr<'_>) -> Result<()> {
        let first = self.records.len();
        let (mut records, mut at) = (mtr.records(), 0);
        while let Some(record) = records.next() {
            let record = record.or_else(|error| damaged(format!("the redo log at LSN {}: {error}", mtr.start)))?;
            let place = std::mem::replace(&mut at, records.position())..records.position();
            if place.len() > RedoBatch::RECORDS_MAX {
                let len = place.len();
                return damaged(format!("the redo log at LSN {}: a record of {len} bytes, longer than any", mtr.start));
            }
            self.locate(first, record.subject(), &place);
        }
        self.frame(mtr, first);
        Ok(())
    }

    /// Adds the selected page records of a mini-transaction, in a log that was read completely before.
    fn push_some(&mut self, mtr: &Mtr<'_>, is_wanted: Filter<'_>) {
        let first = self.records.len();
        for (subject, place) in mtr.grammar.subjects(mtr.bytes) {
            if matches!(subject, Subject::Page(id, effect) if effect != Effect::Trims && is_wanted(id, mtr.start)) {
                self.locate(first, subject, &place);
            }
        }
        if self.records.len() > first {
            self.frame(mtr, first);
        }
    }

    /// Adds a record of the mini-transaction whose first record has index `first`. Consecutive changes to the same page become one entry,
    /// as they are stored together anyway, as long as a batch can take it.
    fn locate(&mut self, first: usize, subject: Subject, place: &Range<usize>) {
        let located = Located::new(subject, place);
        let before = self.records.get_mut(first..).and_then(<[Located]>::last_mut);
        let goes_on = |before: &&mut Located| {
            let len = located.to.saturating_sub(before.from) as usize;
            before.subject == subject && before.to == located.from && len <= RedoBatch::RECORDS_MAX
        };
        match before.filter(goes_on) {
            Some(before) if matches!(subject, Subject::Page(_, Effect::Changes)) => before.to = located.to,
            _ => self.records.push(located),
        }
    }

    fn frame(&mut self, mtr: &Mtr<'_>, first: usize) {
        let from = self.bytes.len();
        self.grammar = mtr.grammar;
        self.bytes.extend_from_slice(mtr.bytes);
        let (bytes, records) = (from..self.bytes.len(), first..self.records.len());
        self.mtrs.push(Framed { start: mtr.start, end: mtr.end, bytes, records });
    }

    fn get(&self, number: usize) -> Option<Scanned<'_>> {
        let framed = self.mtrs.get(number)?;
        let bytes = self.bytes.get(framed.bytes.clone())?;
        let mtr = Mtr { start: framed.start, end: framed.end, bytes, grammar: self.grammar };
        Some(Scanned { mtr, records: self.records.get(framed.records.clone())? })
    }
}

/// Turns the log's bytes into chunks.
struct Framer<'s> {
    log: &'s RedoLog,
    filter: Option<Filter<'s>>,
    stretches: &'s [(FileId, Range<u64>)],
    /// Index of the stretch being read.
    stretch: usize,
    reader: Reader<'s>,
    mtrs: MtrSource,
}

impl Framer<'_> {
    /// Fills returned chunks until the log ends or the receiver is gone.
    fn feed(mut self, full: &Sender<Result<Chunk>>, empty: &Receiver<Chunk>) {
        while let Ok(mut chunk) = empty.recv() {
            let filled = self.fill(&mut chunk).map(|()| chunk);
            let goes_on = filled.as_ref().is_ok_and(|chunk| !chunk.is_last);
            if full.send(filled).is_err() || !goes_on {
                return;
            }
        }
    }

    /// Frames the next block of the log.
    fn fill(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        let (Some(piece), Some((_, stretch))) = (self.reader.next(), self.stretches.get(self.stretch)) else {
            (chunk.is_last, chunk.end) = (true, self.mtrs.at());
            return Ok(());
        };
        let piece = piece.map_err(|failure| self.log.unread(failure.error))?;
        if let Some(gap) = piece.gaps.first() {
            return Err(self.log.unread(Arc::clone(&gap.error)));
        }
        did_bytes(piece.bytes.len());
        // The block may start before the stretch, for the device's alignment.
        let from = usize::try_from(stretch.start.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
        let mut input = piece.bytes.get(from..).unwrap_or_default();
        let end = piece.offset + piece.bytes.len() as u64;
        self.stretch += usize::from(end >= stretch.end || piece.bytes.len() < piece.asked as usize);
        while let Some(mtr) = self.mtrs.next_mtr(&mut input) {
            match self.filter {
                None => chunk.push(&mtr)?,
                Some(is_wanted) => chunk.push_some(&mtr, is_wanted),
            }
        }
        (chunk.is_last, chunk.is_garbled) = (self.mtrs.has_ended(), self.mtrs.is_garbled());
        chunk.unfinished.extend_from_slice(self.mtrs.unfinished());
        chunk.end = self.mtrs.at();
        Ok(())
    }
}

/// The source of chunks.
enum Feed<'s> {
    /// Made on demand.
    Here(Box<Framer<'s>>),
    /// Made ahead by a thread.
    Thread { chunks: Receiver<Result<Chunk>>, give_back: Sender<Chunk> },
}

/// A log being read.
pub(in super::super) struct Scan<'s> {
    feed: Feed<'s>,
    chunk: Chunk,
    /// Index of the next mini-transaction in the chunk.
    next: usize,
    at: Lsn,
}

impl<'s> Scan<'s> {
    fn from(at: Lsn, feed: Feed<'s>) -> Self {
        Self { feed, chunk: Chunk::default(), next: 0, at }
    }

    /// Passes mini-transactions to `take` until it returns `false`. Returns whether more of the log may follow.
    pub fn run(&mut self, take: &mut dyn FnMut(&Scanned<'_>) -> Result<bool>) -> Result<bool> {
        loop {
            while let Some(scanned) = self.chunk.get(self.next) {
                self.next += 1;
                self.at = scanned.mtr.end;
                if !take(&scanned)? {
                    return Ok(true);
                }
            }
            self.at = self.at.max(self.chunk.end);
            if self.chunk.is_last {
                return Ok(false);
            }
            self.refill()?;
        }
    }

    fn refill(&mut self) -> Result<()> {
        self.next = 0;
        match &mut self.feed {
            Feed::Here(framer) => framer.fill(&mut self.chunk),
            Feed::Thread { chunks, give_back } => {
                // Sending fails once the thread has read the whole log and ended: it needs no more chunks.
                drop(give_back.send(std::mem::take(&mut self.chunk)));
                match chunks.recv() {
                    Ok(chunk) => chunk.map(|chunk| self.chunk = chunk),
                    Err(_) => Err(RecoverError::Internal("the redo log was not read to its end")),
                }
            }
        }
    }

    /// The LSN after all mini-transactions handed out or skipped; at the end of the scan, the log's end.
    pub const fn at(&self) -> Lsn {
        self.at
    }

    /// The records after the log's end, of a mini-transaction that was never completed.
    pub fn unfinished(&self) -> &[u8] {
        &self.chunk.unfinished
    }

    /// Whether the bytes after the log's end do not parse.
    pub const fn is_garbled(&self) -> bool {
        self.chunk.is_garbled
    }
}
