//! The window: blocks taken from the cursor and not yet handed over, in order.
//!
//! Blocks in the page cache wait in the window without a buffer and are read when their turn comes; all others are in flight or read. Files
//! are opened when their first block enters the window, so opening is ahead of reading.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;

use super::FileFailure;
use crate::cache::PageCache;
use crate::counters::{WorkerCounters, add};
use crate::files::{FileHandle, OpenFile, out_of_descriptors};
use crate::queue::{Completion, OpenQueue, Operation, Queue, Request};
use crate::split::{Gap, SPLIT_UNIT, Splitter, is_of_whole_file};
use crate::{Block, Buffer, BufferPool, FileId, FileSet, IoMode, Plan, ReadOptions};

/// The token of requests that retry a part of the front block. Other tokens count up from 0.
const TOKEN_AGAIN: u64 = u64::MAX;

const NOT_TOLD: &str = "the system tells only a file's owner whether the file is in the page cache: other owners' files are treated as uncached";

/// The front block, ready to be handed over.
pub(super) enum Front {
    Failed(FileFailure),
    Cached { block: Block, file: Arc<OpenFile> },
    Read(Read),
}

/// A block that the queue has read.
pub(super) struct Read {
    pub(super) block: Block,
    /// Whether it was read with direct I/O.
    pub(super) direct: bool,
    pub(super) buffer: Buffer,
    /// How many bytes of the buffer are known, including gaps; may exceed the block.
    pub(super) valid: u32,
    pub(super) gaps: Vec<Gap>,
}

enum Slot {
    Failed(FileFailure),
    Cached { block: Block, file: Arc<OpenFile> },
    InFlight { block: Block, handle: FileHandle },
    Done { block: Block, handle: FileHandle, buffer: Buffer, result: io::Result<u32> },
}

/// The way to the device: a queue and the buffers it fills.
struct Lane {
    /// Dropped before the pool, so that nothing writes to freed buffers.
    queue: Box<dyn Queue>,
    pool: BufferPool,
    name: &'static str,
}

pub(super) struct Window<'f> {
    files: &'f FileSet,
    cursor: &'f dyn Plan,
    counters: &'f WorkerCounters,
    engines: &'f [&'f dyn OpenQueue],
    io: IoMode,
    depth: u32,
    block_size: u32,
    lane: Option<Lane>,
    /// Why nothing can be read through the queue any more.
    broken: Option<Arc<io::Error>>,
    cache: PageCache,
    slots: VecDeque<Slot>,
    /// The token of the front slot.
    first: u64,
    in_flight: u32,
    /// Slots that wait without a buffer.
    waiting: u32,
    /// The file of the last block taken, kept open because the next block is most likely in the same file.
    recent: Option<(FileId, Arc<OpenFile>)>,
    /// A block for which no descriptor was free; retried once a file is closed.
    held: Option<Block>,
    notes: Vec<String>,
    done: Vec<Completion>,
}

impl<'f> Window<'f> {
    pub(super) fn new(
        files: &'f FileSet,
        cursor: &'f dyn Plan,
        options: &ReadOptions,
        counters: &'f WorkerCounters,
        engines: &'f [&'f dyn OpenQueue],
    ) -> Self {
        Self {
            files,
            cursor,
            counters,
            engines,
            io: options.io,
            depth: options.depth,
            block_size: options.block_size,
            lane: None,
            broken: None,
            cache: PageCache::new(),
            slots: VecDeque::new(),
            first: 0,
            in_flight: 0,
            waiting: 0,
            recent: None,
            held: None,
            notes: Vec::new(),
            done: Vec::new(),
        }
    }

    pub(super) fn engine_name(&self) -> &'static str {
        self.lane.as_ref().map_or("none", |lane| lane.name)
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn give_back(&mut self, buffer: Buffer) {
        if let Some(lane) = &mut self.lane {
            lane.pool.give_back(buffer);
        }
    }

    pub(super) fn failure(&self, block: Block, error: Arc<io::Error>) -> FileFailure {
        FileFailure { file: block.file, path: self.files.path(block.file).to_owned(), block, error }
    }

    /// Takes blocks until the window is full or the cursor has no more.
    pub(super) fn fill(&mut self) {
        while self.has_room() {
            let Some(block) = self.held.take().or_else(|| self.cursor.next()) else {
                self.recent = None;
                return;
            };
            if !self.admit(block) {
                return;
            }
        }
    }

    /// Whether another block may be taken. It needs a free buffer, because it may have to be read from the device. Cached and failed blocks
    /// are taken ahead only to find more work for the device while it is busy; if everything is cached, they are taken one at a time, so
    /// that no worker hoards blocks that another could process.
    fn has_room(&self) -> bool {
        let waiting_max = if self.in_flight == 0 { 1 } else { self.depth };
        let free = self.lane.as_ref().is_none_or(|lane| !lane.pool.free().is_empty());
        self.waiting < waiting_max && (free || self.broken.is_some())
    }

    /// Puts a block into the window; `false` if it must wait for a descriptor.
    fn admit(&mut self, block: Block) -> bool {
        let slot = match self.open(block.file) {
            Ok(file) => self.start(block, &file),
            Err(error) if out_of_descriptors(&error) && !self.slots.is_empty() => {
                self.held = Some(block);
                return false;
            }
            Err(error) => Slot::Failed(self.failure(block, error)),
        };
        match slot {
            Slot::Failed(_) | Slot::Cached { .. } => self.waiting += 1,
            Slot::InFlight { .. } | Slot::Done { .. } => {}
        }
        self.slots.push_back(slot);
        true
    }

    fn open(&mut self, id: FileId) -> Result<Arc<OpenFile>, Arc<io::Error>> {
        if let Some((recent, file)) = &self.recent
            && *recent == id
        {
            return Ok(Arc::clone(file));
        }
        self.recent = None;
        let file = self.files.open(id, self.io == IoMode::Direct, self.counters)?;
        self.recent = Some((id, Arc::clone(&file)));
        Ok(file)
    }

    /// Decides where to read the block from, and submits it if that is the device.
    fn start(&mut self, block: Block, file: &Arc<OpenFile>) -> Slot {
        if self.io != IoMode::Direct && self.is_cached(block, file) {
            return Slot::Cached { block, file: Arc::clone(file) };
        }
        match self.submit_block(block, file) {
            Ok(handle) => Slot::InFlight { block, handle },
            Err(error) => Slot::Failed(self.failure(block, error)),
        }
    }

    fn is_cached(&mut self, block: Block, file: &Arc<OpenFile>) -> bool {
        let refused = self.cache.was_refused();
        let cached = file.buffered().is_ok_and(|fd| self.cache.holds(fd, &block));
        if self.cache.was_refused() && !refused {
            self.notes.push(NOT_TOLD.to_owned());
        }
        cached
    }

    fn submit_block(&mut self, block: Block, file: &Arc<OpenFile>) -> Result<FileHandle, Arc<io::Error>> {
        if let Some(error) = &self.broken {
            return Err(Arc::clone(error));
        }
        if let Err(error) = self.open_lane() {
            let error = Arc::new(error);
            self.broken = Some(Arc::clone(&error));
            return Err(error);
        }
        let handle = FileHandle::new(file, self.io != IoMode::Buffered, self.counters).map_err(Arc::new)?;
        if !handle.is_direct() {
            file.advise_sequential();
        }
        let buffer = self.lane.as_mut().and_then(|lane| lane.pool.take()).ok_or(io::ErrorKind::OutOfMemory);
        let buffer = buffer.map_err(|kind| Arc::new(kind.into()))?;
        let len = if handle.is_direct() { block.len.next_multiple_of(SPLIT_UNIT) } else { block.len };
        let token = self.first + self.slots.len() as u64;
        self.submit(Request {
            token,
            operation: Operation::Read,
            file: block.file,
            handle: handle.clone(),
            offset: block.offset,
            start: 0,
            len,
            buffer,
        });
        Ok(handle)
    }

    fn submit(&mut self, request: Request) {
        if let Some(lane) = &mut self.lane {
            lane.queue.submit(request);
            self.in_flight += 1;
            add(&self.counters.requests, 1);
            add(&self.counters.queued, 1);
            add(&self.counters.in_flight_sum, u64::from(self.in_flight));
            self.counters.in_flight_max.raise(u64::from(self.in_flight));
        }
    }

    /// Opens the first engine that works here, with all buffers.
    pub(super) fn open_lane(&mut self) -> io::Result<()> {
        if self.lane.is_some() {
            return Ok(());
        }
        let count = u16::try_from(self.depth).unwrap_or(u16::MAX);
        let pool = BufferPool::new(count, self.block_size)?;
        let mut failed: Option<(&str, io::Error)> = None;
        let own = self.files.engine();
        let engines = if own.is_some() { &[][..] } else { self.engines };
        for engine in own.into_iter().chain(engines.iter().copied()) {
            let name = engine.name();
            match engine.open(self.depth, pool.free()) {
                Ok(queue) => {
                    if let Some((before, error)) = failed {
                        self.notes.push(format!("{before} does not work here ({error}): using {name}"));
                    }
                    self.notes.extend(queue.note().map(str::to_owned));
                    self.lane = Some(Lane { queue, pool, name });
                    return Ok(());
                }
                Err(error) => failed = Some((name, error)),
            }
        }
        Err(failed.map_or_else(|| io::ErrorKind::Unsupported.into(), |(_, error)| error))
    }

    /// Takes the front block, waiting for it if needed; `None` if the window is empty.
    pub(super) fn pop(&mut self) -> Option<Front> {
        while matches!(self.slots.front()?, Slot::InFlight { .. }) {
            self.wait();
        }
        self.kick();
        let slot = self.slots.pop_front()?;
        self.first += 1;
        Some(match slot {
            Slot::Failed(failure) => {
                self.waiting -= 1;
                Front::Failed(failure)
            }
            Slot::Cached { block, file } => {
                self.waiting -= 1;
                Front::Cached { block, file }
            }
            Slot::InFlight { block, .. } => Front::Failed(self.failure(block, Arc::new(io::ErrorKind::Other.into()))),
            Slot::Done { block, handle, buffer, result } => self.finish(block, handle, buffer, result),
        })
    }

    fn kick(&mut self) {
        if self.in_flight > 0
            && let Some(lane) = &mut self.lane
            && let Err(error) = lane.queue.kick()
        {
            self.break_down(error);
        }
    }

    /// Waits for the queue. Returns the completion of a retry.
    fn wait(&mut self) -> Option<Completion> {
        let lane = self.lane.as_mut()?;
        let started = Instant::now();
        let outcome = lane.queue.wait(&mut self.done);
        add(&self.counters.wait_ns, u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let outcome = match outcome {
            Ok(()) if self.done.is_empty() => Err(io::Error::other("the I/O engine lost a request")),
            outcome => outcome,
        };
        let mut again = None;
        while let Some(completion) = self.done.pop() {
            self.in_flight -= 1;
            if completion.token == TOKEN_AGAIN {
                again = Some(completion);
            } else {
                self.complete(completion);
            }
        }
        if let Err(error) = outcome {
            self.break_down(error);
        }
        again
    }

    fn complete(&mut self, completion: Completion) {
        let place = completion.token.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let slot = place.and_then(|place| self.slots.get_mut(place));
        if let Some(slot) = slot
            && let Slot::InFlight { block, handle } = slot
        {
            let (block, handle) = (*block, handle.clone());
            *slot = Slot::Done { block, handle, buffer: completion.buffer, result: completion.result };
        }
    }

    /// The queue is unusable: requests in it, and later ones, fail.
    fn break_down(&mut self, error: io::Error) {
        let error = Arc::new(error);
        self.in_flight = 0;
        for slot in &mut self.slots {
            if let Slot::InFlight { block, .. } = slot {
                let path = self.files.path(block.file).to_owned();
                *slot = Slot::Failed(FileFailure { file: block.file, path, block: *block, error: Arc::clone(&error) });
                self.waiting += 1;
            }
        }
        self.broken = Some(error);
    }

    /// Handles a completed read: most are complete, others are continued or split.
    fn finish(&mut self, block: Block, handle: FileHandle, buffer: Buffer, result: io::Result<u32>) -> Front {
        let direct = handle.is_direct();
        match result {
            Ok(got) if got >= block.len => Front::Read(Read { block, direct, buffer, valid: got, gaps: Vec::new() }),
            Err(error) if is_of_whole_file(&error) => self.lose_file(block, buffer, error),
            Err(error) if direct && Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                // Some file systems accept the flag but refuse the reads.
                handle.file().refuse_direct(self.counters);
                match FileHandle::new(handle.file(), false, self.counters) {
                    Ok(handle) => self.read_again(block, handle, buffer, None),
                    Err(error) => {
                        self.give_back(buffer);
                        Front::Failed(self.failure(block, Arc::new(error)))
                    }
                }
            }
            result => self.read_again(block, handle, buffer, Some(result)),
        }
    }

    /// Nothing more will be read of the block's file: its other blocks must not be requested any more.
    fn lose_file(&mut self, block: Block, buffer: Buffer, error: io::Error) -> Front {
        self.give_back(buffer);
        let error = Arc::new(error);
        self.files.fail(block.file, &error);
        self.recent.take_if(|(recent, _)| *recent == block.file);
        Front::Failed(self.failure(block, error))
    }

    /// Reads the missing parts of a block one by one, while others stay in flight. `first` is the result of the request for the whole
    /// block.
    fn read_again(
        &mut self,
        block: Block,
        handle: FileHandle,
        buffer: Buffer,
        mut first: Option<io::Result<u32>>,
    ) -> Front {
        let direct = handle.is_direct();
        // A program's file system may cut replies anywhere, always at the same byte: from there on is asked next, which it takes.
        let aligned = direct && !self.files.is_on_fuse_itself(block.file);
        let mut splitter = Splitter::new(block.offset, block.len, aligned);
        let mut buffer = buffer;
        while let Some(range) = splitter.next() {
            if let Some(result) = first.take() {
                splitter.record(range, result);
                continue;
            }
            if let Some(error) = &self.broken {
                return Front::Failed(self.failure(block, Arc::clone(error)));
            }
            add(&self.counters.retries, 1);
            self.submit(Request {
                token: TOKEN_AGAIN,
                operation: Operation::Read,
                file: block.file,
                handle: handle.clone(),
                offset: block.offset + u64::from(range.start),
                start: range.start,
                len: range.len() as u32,
                buffer,
            });
            let completion = loop {
                if let Some(completion) = self.wait() {
                    break completion;
                }
                if let Some(error) = &self.broken {
                    return Front::Failed(self.failure(block, Arc::clone(error)));
                }
            };
            buffer = completion.buffer;
            match completion.result {
                Err(error) if is_of_whole_file(&error) => return self.lose_file(block, buffer, error),
                result => splitter.record(range, result),
            }
        }
        let (valid, gaps) = splitter.finish();
        Front::Read(Read { block, direct, buffer, valid, gaps })
    }
}
