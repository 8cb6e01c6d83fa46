//! Writes a log: of many callers, one writes and syncs for all that wait.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::group::Group;
use super::layout::{FileHeader, HEADER_SIZE, Ring};
use super::reader::LogReader;
use super::{Fill, LogError, LogFiles, LogOptions, LogPosition, LogStorage, Recycle, SyncBy};
use crate::Buffer;

/// A leader waits for other callers at most this fraction of the time of the last write and sync.
const PATIENCE: u32 = 8;

/// What a writer has done since it was opened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LogCounts {
    /// Records written.
    pub records: u64,
    /// Groups of records written together.
    pub groups: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs; 0 if the writes are synchronous.
    pub syncs: u64,
    /// Bytes of log blocks.
    pub bytes_of_blocks: u64,
    /// Bytes written: log blocks, zeros, and bytes written again.
    pub bytes_written: u64,
}

/// An append-only log for many callers. See the [module](crate::log_writer) for how it works and what it promises.
pub struct LogWriter {
    storage: Box<dyn LogStorage>,
    ring: Ring,
    options: LogOptions,
    epoch: u32,
    state: Mutex<State>,
    /// One futex word for the group being gathered and one for the group being written, by turns, incremented to wake its sleepers. Not a
    /// condvar: every woken caller would contend for the mutex only to find its record durable.
    turns: [AtomicU32; 2],
    /// A copy of `State::durable` that woken callers read without the lock.
    durable: AtomicU64,
}

/// The state that callers share.
struct State {
    /// The group that takes new records.
    gather: Group,
    /// The futex word in `turns` for the callers of `gather`.
    turn: usize,
    /// How many callers sleep on each word.
    sleepers: [u32; 2],
    /// The write lane: its holder is the group's leader.
    lane: Option<Lane>,
    /// Callers waiting for `gather`.
    callers: u32,
    /// Callers when the last group was written: most will soon be back.
    expected: u32,
    /// How long to wait for these.
    patience: Duration,
    /// Everything before this is durable.
    durable: u64,
    /// Everything before this may be overwritten.
    released: u64,
    error: Option<LogError>,
    counts: LogCounts,
}

/// The callers to wake; none without a turn.
struct Sleepers {
    turn: Option<usize>,
    all: bool,
}

/// The write lane: its holder is the leader of the group.
struct Lane {
    group: Group,
    /// Content of the last file system block, up to the end of the log; kept for whole-block writes.
    tail: Vec<u8>,
    counts: LogCounts,
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogWriter {{ ring: {:?}, epoch: {}, durable: {} }}", self.ring, self.epoch, self.durable())
    }
}

impl LogWriter {
    /// Creates a log in a directory.
    ///
    /// # Errors
    /// Impossible options, an existing log, or the system's error.
    pub fn create(dir: &Path, options: &LogOptions) -> Result<Self, LogError> {
        options.check_group(Ring::new(0, options, block_size(options, 4096))?.in_file())?;
        Self::create_on(LogFiles::create(dir, options)?, options)
    }

    /// Creates a log on a storage, whatever that contains.
    ///
    /// # Errors
    /// Impossible options, or the system's error.
    pub fn create_on(storage: impl LogStorage + 'static, options: &LogOptions) -> Result<Self, LogError> {
        let storage: Box<dyn LogStorage> = Box::new(storage);
        let options = LogOptions { files: storage.files(), ..options.clone() };
        let id = RandomState::new().build_hasher().finish() as u32;
        let ring = Ring::new(id, &options, block_size(&options, storage.block_size()))?;
        let writer = Self::new(storage, ring, &options, 1, 0, Vec::new())?;
        // The first file's header is last: with it, the log exists.
        for index in (0..ring.files).rev() {
            writer.write_header(FileHeader { ring, index, epoch: 1 }, &[0; HEADER_SIZE])?;
        }
        Ok(writer)
    }

    /// Continues the log in a directory, at its end after a possible crash.
    ///
    /// # Errors
    /// Those of [`LogReader`], a log that is open for writing elsewhere, or the system's error.
    pub fn open(dir: &Path, options: &LogOptions) -> Result<Self, LogError> {
        Self::open_on(LogFiles::open(dir, options)?, options)
    }

    /// Continues the log on a storage.
    ///
    /// # Errors
    /// Those of [`LogReader`], or the system's error.
    pub fn open_on(storage: impl LogStorage + 'static, options: &LogOptions) -> Result<Self, LogError> {
        Self::resume(LogReader::open_on(storage)?, options)
    }

    /// Continues the log that a reader has read, on the reader's storage, which must be open for writing. Records not read yet are skipped.
    ///
    /// # Errors
    /// Those of [`LogReader`], or the system's error.
    pub fn resume(mut reader: LogReader, options: &LogOptions) -> Result<Self, LogError> {
        let tail = reader.drain()?;
        let end = reader.position().0;
        let LogReader { storage, ring, header, header_bytes, start, .. } = reader;
        // What was read may only be in the page cache: sync it, because it counts as durable from now on.
        for file in 0..ring.files {
            storage.sync(file).map_err(|error| failed(&*storage, "sync", file, 0, error))?;
        }
        let epoch = header.epoch.wrapping_add(1);
        let writer = Self::new(storage, ring, options, epoch, end, tail)?;
        writer.lock().released = start;
        // The epoch must be durable before the first block: blocks of two writers must not have the same epoch.
        writer.write_header(FileHeader { ring, index: 0, epoch }, &header_bytes)?;
        Ok(writer)
    }

    fn new(
        storage: Box<dyn LogStorage>,
        ring: Ring,
        options: &LogOptions,
        epoch: u32,
        end: u64,
        tail: Vec<u8>,
    ) -> Result<Self, LogError> {
        options.check_group(ring.in_file())?;
        let group = || Group::new(&ring, end, options.group_max).map_err(|error| LogError::Memory(Arc::new(error)));
        let lane = Some(Lane { group: group()?, tail, counts: LogCounts::default() });
        let (gather, counts) = (group()?, LogCounts::default());
        let state = State {
            gather,
            turn: 0,
            sleepers: [0; 2],
            lane,
            callers: 0,
            expected: 0,
            patience: Duration::ZERO,
            durable: end,
            released: 0,
            error: None,
            counts,
        };
        let (turns, durable, options) = ([AtomicU32::new(0), AtomicU32::new(0)], AtomicU64::new(end), options.clone());
        Ok(Self { storage, ring, options, epoch, state: Mutex::new(state), turns, durable })
    }

    /// Appends a record, waits until it is durable, and returns the log position after it.
    ///
    /// # Errors
    /// [`LogError::RecordTooLong`] and [`LogError::Full`] leave the log unchanged. Any other error is the system's first, returned to every
    /// caller from now on. Only reading the log again tells whether it contains the record.
    pub fn append(&self, record: &[u8]) -> Result<LogPosition, LogError> {
        let (state, position) = self.gather(self.lock(), record)?;
        self.wait_in(state, position.0)?;
        Ok(position)
    }

    /// Appends a record and returns the log position after it, without waiting until it is durable; [`LogWriter::wait`] does that. Records
    /// become durable in the order in which they were appended.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn submit(&self, record: &[u8]) -> Result<LogPosition, LogError> {
        self.gather(self.lock(), record).map(|(_, position)| position)
    }

    /// Returns once everything before a log position is durable. Positions after the last append count as that append's.
    ///
    /// # Errors
    /// The system's first error, unless everything before the log position was durable by then.
    pub fn wait(&self, position: LogPosition) -> Result<(), LogError> {
        self.wait_in(self.lock(), position.0)
    }

    /// Everything before this log position is durable.
    #[must_use]
    pub fn durable(&self) -> LogPosition {
        LogPosition(self.lock().durable)
    }

    /// Releases everything before this log position: a file may be overwritten once all of it was released. `release(durable())` releases
    /// everything. Not remembered when the log is closed.
    pub fn release(&self, position: LogPosition) {
        let mut state = self.lock();
        state.released = state.released.max(position.0.min(state.durable));
    }

    /// What was done so far; a group counts once it is written.
    #[must_use]
    pub fn counts(&self) -> LogCounts {
        self.lock().counts
    }

    /// Maximum length of a record, in bytes.
    #[must_use]
    pub fn record_max(&self) -> usize {
        Group::record_max(self.options.group_max)
    }

    /// A panic cannot leave the state inconsistent: nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a record into the group being gathered, as soon as one has room.
    fn gather<'w>(
        &'w self,
        mut state: MutexGuard<'w, State>,
        record: &[u8],
    ) -> Result<(MutexGuard<'w, State>, LogPosition), LogError> {
        let group_max = self.options.group_max;
        let max = Group::record_max(group_max);
        if record.len() > max {
            return Err(LogError::RecordTooLong { len: record.len(), max });
        }
        loop {
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            let Some(end) = state.gather.end_with(record.len(), group_max) else {
                let written = state.turn ^ 1;
                if state.lane.is_some() {
                    state = self.lead(state, false);
                } else {
                    self.sleep(state, written);
                    state = self.lock();
                }
                continue;
            };
            if self.options.recycle == Recycle::Released && end > self.ring.limit(state.released) {
                return Err(LogError::Full { released: LogPosition(state.released) });
            }
            let position = LogPosition(state.gather.push(record));
            return Ok((state, position));
        }
    }

    fn wait_in<'w>(&'w self, mut state: MutexGuard<'w, State>, position: u64) -> Result<(), LogError> {
        let position = position.min(state.gather.end);
        if position > state.gather.start {
            state.callers += 1;
        }
        while state.durable < position {
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            let gathered = position > state.gather.start;
            let turn = if gathered { state.turn } else { state.turn ^ 1 };
            // If the lane is free, nothing is being written: lead the group being gathered.
            if state.lane.is_some() {
                state = self.lead(state, true);
                continue;
            }
            self.sleep(state, turn);
            if self.durable.load(Ordering::Acquire) >= position {
                return Ok(());
            }
            state = self.lock();
        }
        Ok(())
    }

    /// Sleeps until this turn is woken.
    fn sleep(&self, mut state: MutexGuard<'_, State>, turn: usize) {
        let (Some(sleepers), Some(at)) = (state.sleepers.get_mut(turn), self.turns.get(turn)) else { return };
        *sleepers += 1;
        // Read under the lock: the caller that wakes this turn later increments it.
        let seen = at.load(Ordering::Relaxed);
        drop(state);
        atomic_wait::wait(at, seen);
    }

    /// Removes the sleepers to wake on a turn, all or one. They are woken after the lock is released.
    fn sleepers(state: &mut State, turn: usize, all: bool) -> Sleepers {
        let Some(sleepers) = state.sleepers.get_mut(turn).filter(|sleepers| **sleepers > 0) else {
            return Sleepers { turn: None, all };
        };
        *sleepers = if all { 0 } else { *sleepers - 1 };
        Sleepers { turn: Some(turn), all }
    }

    fn wake(&self, sleepers: Sleepers) {
        let Some(at) = sleepers.turn.and_then(|turn| self.turns.get(turn)) else { return };
        at.fetch_add(1, Ordering::Release);
        if sleepers.all { atomic_wait::wake_all(at) } else { atomic_wait::wake_one(at) }
    }

    /// The callers of the group just written are awake but not back yet: without them this group would be small, and they would wait for
    /// the next, and so on by turns. A single caller never waits here.
    fn let_others_join<'w>(&'w self, mut state: MutexGuard<'w, State>) -> MutexGuard<'w, State> {
        if state.callers >= state.expected {
            return state;
        }
        let (started, patience) = (Instant::now(), state.patience);
        while state.callers < state.expected && started.elapsed() < patience {
            drop(state);
            std::thread::yield_now();
            state = self.lock();
        }
        state
    }

    /// Writes the gathered group, while the next one gathers. With `patience`, waits for others to join first.
    fn lead<'w>(&'w self, mut state: MutexGuard<'w, State>, patience: bool) -> MutexGuard<'w, State> {
        let Some(mut lane) = state.lane.take() else { return state };
        if patience {
            state = self.let_others_join(state);
        }
        std::mem::swap(&mut state.gather, &mut lane.group);
        state.gather.reset(&self.ring, lane.group.end);
        state.turn ^= 1;
        let callers = std::mem::take(&mut state.callers);
        // Wake the callers that found the group full.
        let turn = state.turn;
        let sleepers = Self::sleepers(&mut state, turn, true);
        drop(state);
        self.wake(sleepers);
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.write_group(&mut lane)));
        let mut state = self.lock();
        let (end, counts) = (lane.group.end, lane.counts);
        state.lane = Some(lane);
        state.expected = callers + state.callers;
        state.patience = started.elapsed() / PATIENCE;
        let panic = match outcome {
            Ok(Ok(())) => {
                (state.durable, state.counts) = (end, counts);
                self.durable.store(end, Ordering::Release);
                None
            }
            Ok(Err(error)) => {
                state.error.get_or_insert(error);
                None
            }
            Err(panic) => {
                let error = io::Error::other("the storage panicked");
                state.error.get_or_insert(failed(&*self.storage, "write", 0, 0, error));
                Some(panic)
            }
        };
        self.wake_up(state);
        match panic {
            None => self.lock(),
            Some(panic) => resume_unwind(panic),
        }
    }

    /// Wakes one caller of the group gathered meanwhile, which leads next, then all callers of the group just written.
    fn wake_up(&self, mut state: MutexGuard<'_, State>) {
        let (gathered, written) = (state.turn, state.turn ^ 1);
        let has_failed = state.error.is_some();
        let leaders = Self::sleepers(&mut state, gathered, has_failed);
        let done = Self::sleepers(&mut state, written, true);
        drop(state);
        self.wake(leaders);
        self.wake(done);
    }

    /// Writes and syncs a group: one write and one sync, or one of each per file if it spans two.
    fn write_group(&self, lane: &mut Lane) -> Result<(), LogError> {
        let Lane { group, tail, counts } = lane;
        group.seal(&self.ring, self.epoch);
        let (from, to) = self.range(group.start, group.end);
        if from < group.start {
            group.put_before(tail);
        }
        group.put_zeros(to);
        let mut position = from;
        while position < to {
            let place = self.ring.place(position);
            let end = to.min(position + place.rest);
            counts.writes += write_all(&*self.storage, place.file, place.offset, group.bytes(position..end))?;
            if self.options.sync == SyncBy::Fdatasync {
                counts.syncs += 1;
                let synced = self.storage.sync(place.file);
                synced.map_err(|error| failed(&*self.storage, "sync", place.file, place.offset, error))?;
            }
            position = end;
        }
        counts.bytes_written += to - from;
        counts.bytes_of_blocks += group.end - group.start;
        counts.records += group.records;
        counts.groups += 1;
        if self.options.fill() == Fill::Whole {
            tail.clear();
            tail.extend_from_slice(group.bytes(self.ring.align_down(group.end)..group.end));
        }
        Ok(())
    }

    /// The range to write for a group, as log positions.
    fn range(&self, start: u64, end: u64) -> (u64, u64) {
        let ring = &self.ring;
        match self.options.fill() {
            Fill::Nothing => (start, end),
            Fill::Whole => (ring.align_down(start), ring.align_up(end)),
            // The block in which the group starts is cached: the previous write filled it, or opening the log read it.
            Fill::FirstTouch if ring.align_up(start) == ring.align_up(end) && start != ring.align_down(start) => {
                (start, end)
            }
            Fill::FirstTouch => (start, ring.align_up(end)),
        }
    }

    /// Writes and syncs a file's header. `before` is the old content, of which one slot is kept.
    fn write_header(&self, header: FileHeader, before: &[u8]) -> Result<(), LogError> {
        let file = header.index;
        let mut buffer = Buffer::alone(HEADER_SIZE as u32).map_err(|error| LogError::Memory(Arc::new(error)))?;
        buffer.bytes_mut().iter_mut().zip(before).for_each(|(to, from)| *to = *from);
        header.write(buffer.bytes_mut());
        write_all(&*self.storage, file, 0, buffer.bytes())?;
        self.storage.sync(file).map_err(|error| failed(&*self.storage, "sync", file, 0, error))
    }
}

/// The file system's block size: from the options, or else from the storage.
fn block_size(options: &LogOptions, asked: u32) -> u32 {
    if options.block_size == 0 { asked } else { options.block_size }
}

fn failed(storage: &dyn LogStorage, what: &'static str, file: u32, offset: u64, error: io::Error) -> LogError {
    LogError::Io { what, file: storage.name(file), offset, error: Arc::new(error) }
}

/// Writes all bytes. Returns the number of writes.
fn write_all(storage: &dyn LogStorage, file: u32, mut offset: u64, mut bytes: &[u8]) -> Result<u64, LogError> {
    let mut writes = 0;
    while !bytes.is_empty() {
        writes += 1;
        match storage.write_at(file, offset, bytes) {
            Ok(0) => return Err(failed(storage, "write", file, offset, io::ErrorKind::WriteZero.into())),
            Ok(written) => {
                offset += written as u64;
                bytes = bytes.get(written..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(storage, "write", file, offset, error)),
        }
    }
    Ok(writes)
}
