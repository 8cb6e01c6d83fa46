//! Writing a log: many callers, one of whom writes and syncs for all that wait.

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

/// A leader waits for others at most this part of what the last write and sync took.
const PATIENCE: u32 = 8;

/// What a writer has done since it was made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LogCounts {
    /// Records that were written.
    pub records: u64,
    /// Groups: how often records were written together.
    pub groups: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs; 0 where the writes sync themselves.
    pub syncs: u64,
    /// Bytes of log blocks.
    pub bytes_of_blocks: u64,
    /// Bytes written: log blocks, zeros, and what was written once more.
    pub bytes_written: u64,
}

/// An append-only log for many callers. See the [module](crate::log_writer) for how it works and what it promises.
pub struct LogWriter {
    storage: Box<dyn LogStorage>,
    ring: Ring,
    options: LogOptions,
    epoch: u32,
    state: Mutex<State>,
    /// Callers sleep on one of these for the group being gathered, on the other for the group being written, by turns; counts on
    /// whenever sleepers are woken. No condition variable: it would have all who wake up queue for the lock just to find that they
    /// are done.
    turns: [AtomicU32; 2],
    /// What `State::durable` is, for those who wake up.
    durable: AtomicU64,
}

/// What the callers share.
struct State {
    /// Takes records.
    gather: Group,
    /// The callers of `gather` sleep on this one of `turns`.
    turn: usize,
    /// How many sleep on each.
    sleepers: [u32; 2],
    /// The write lane: its holder is the group's leader.
    lane: Option<Lane>,
    /// Callers that wait for `gather`.
    callers: u32,
    /// Callers that there were when the last group had been written: most will soon be back.
    expected: u32,
    /// How long to wait for them.
    patience: Duration,
    /// All before this is durable.
    durable: u64,
    /// All before this may be written over.
    released: u64,
    error: Option<LogError>,
    counts: LogCounts,
}

/// Whom to wake: nobody if there is no turn.
struct Sleepers {
    turn: Option<usize>,
    all: bool,
}

/// What it takes to write: held by one caller at a time.
struct Lane {
    group: Group,
    /// What the last block of the file system holds, up to the end of the log; kept for whole-block writes.
    tail: Vec<u8>,
    counts: LogCounts,
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogWriter {{ ring: {:?}, epoch: {}, durable: {} }}", self.ring, self.epoch, self.durable())
    }
}

impl LogWriter {
    /// A new log in a directory.
    ///
    /// # Errors
    /// Options that cannot work, a log that is there already, or what the system says.
    pub fn create(dir: &Path, options: &LogOptions) -> Result<Self, LogError> {
        options.check_group(Ring::new(0, options, block_size(options, 4096))?.in_file())?;
        Self::create_on(LogFiles::create(dir, options)?, options)
    }

    /// A new log on a storage, whatever is there.
    ///
    /// # Errors
    /// Options that cannot work, or what the system says.
    pub fn create_on(storage: impl LogStorage + 'static, options: &LogOptions) -> Result<Self, LogError> {
        let storage: Box<dyn LogStorage> = Box::new(storage);
        let options = LogOptions { files: storage.files(), ..options.clone() };
        let id = RandomState::new().build_hasher().finish() as u32;
        let ring = Ring::new(id, &options, block_size(&options, storage.block_size()))?;
        let writer = Self::new(storage, ring, &options, 1, 0, Vec::new())?;
        // The first file last: with its header the log is there.
        for index in (0..ring.files).rev() {
            writer.write_header(FileHeader { ring, index, epoch: 1 }, &[0; HEADER_SIZE])?;
        }
        Ok(writer)
    }

    /// Goes on with the log in a directory, at the end that a crash may have left.
    ///
    /// # Errors
    /// What [`LogReader`] says, a log that is open for writing elsewhere, or what the system says.
    pub fn open(dir: &Path, options: &LogOptions) -> Result<Self, LogError> {
        Self::open_on(LogFiles::open(dir, options)?, options)
    }

    /// Goes on with the log on a storage.
    ///
    /// # Errors
    /// What [`LogReader`] says, or what the system says.
    pub fn open_on(storage: impl LogStorage + 'static, options: &LogOptions) -> Result<Self, LogError> {
        Self::resume(LogReader::open_on(storage)?, options)
    }

    /// Goes on with the log that a reader has read, on the reader's storage, which must be open for writing. Records that
    /// were not read yet are skipped.
    ///
    /// # Errors
    /// What [`LogReader`] says, or what the system says.
    pub fn resume(mut reader: LogReader, options: &LogOptions) -> Result<Self, LogError> {
        let tail = reader.drain()?;
        let end = reader.position().0;
        let LogReader { storage, ring, header, header_bytes, start, .. } = reader;
        // What was read may still be in the page cache only: from now on it counts as durable.
        for file in 0..ring.files {
            storage.sync(file).map_err(|error| failed(&*storage, "sync", file, 0, error))?;
        }
        let epoch = header.epoch.wrapping_add(1);
        let writer = Self::new(storage, ring, options, epoch, end, tail)?;
        writer.lock().released = start;
        // Durable before the first block: blocks of two writers must not bear the same epoch.
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

    /// Appends a record and returns once it is durable: the log position behind it.
    ///
    /// # Errors
    /// [`LogError::RecordTooLong`] and [`LogError::Full`] leave the log as it is. Any other is the first error of the
    /// system, returned to every caller from now on. Only reading the log again tells whether the record is in it.
    pub fn append(&self, record: &[u8]) -> Result<LogPosition, LogError> {
        let (state, position) = self.gather(self.lock(), record)?;
        self.wait_in(state, position.0)?;
        Ok(position)
    }

    /// Appends a record, and returns the log position behind it without waiting for it to be durable, for which
    /// [`LogWriter::wait`] is there. Records become durable in the order in which they were appended.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn submit(&self, record: &[u8]) -> Result<LogPosition, LogError> {
        self.gather(self.lock(), record).map(|(_, position)| position)
    }

    /// Returns once all before a log position is durable, which means at most all that was appended before the call.
    ///
    /// # Errors
    /// The first error of the system, unless all before the log position was durable by then.
    pub fn wait(&self, position: LogPosition) -> Result<(), LogError> {
        self.wait_in(self.lock(), position.0)
    }

    /// All before this log position is durable.
    #[must_use]
    pub fn durable(&self) -> LogPosition {
        LogPosition(self.lock().durable)
    }

    /// Nobody needs the log before this log position any more: a file may be written over once all of it lies before that.
    /// `release(durable())` releases everything. Not remembered when the log is closed.
    pub fn release(&self, position: LogPosition) {
        let mut state = self.lock();
        state.released = state.released.max(position.0.min(state.durable));
    }

    /// What was done so far; a group counts when it has been written.
    #[must_use]
    pub fn counts(&self) -> LogCounts {
        self.lock().counts
    }

    /// The longest record that the log takes, in bytes.
    #[must_use]
    pub fn record_max(&self) -> usize {
        Group::record_max(self.options.group_max)
    }

    /// A caller that panicked has left the lists whole: nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a record into the group that is being gathered, as soon as there is room in one.
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
            // Without a leader, the group that is being gathered is all that there is.
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

    /// Until somebody wakes the sleepers of this turn.
    fn sleep(&self, mut state: MutexGuard<'_, State>, turn: usize) {
        let (Some(sleepers), Some(at)) = (state.sleepers.get_mut(turn), self.turns.get(turn)) else { return };
        *sleepers += 1;
        // Read under the lock: the caller that wakes this turn later increments it.
        let seen = at.load(Ordering::Relaxed);
        drop(state);
        atomic_wait::wait(at, seen);
    }

    /// Whom to wake of those who sleep on a turn, once the lock is given up: all, or one.
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

    /// The callers of the group that has just been written are awake but not yet back: without them this group would be
    /// small and they would wait for the next, by turns. One caller alone never waits here.
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

    /// Writes what has been gathered, while the next group gathers. With `patience`, others may join first.
    fn lead<'w>(&'w self, mut state: MutexGuard<'w, State>, patience: bool) -> MutexGuard<'w, State> {
        let Some(mut lane) = state.lane.take() else { return state };
        if patience {
            state = self.let_others_join(state);
        }
        std::mem::swap(&mut state.gather, &mut lane.group);
        state.gather.reset(&self.ring, lane.group.end);
        state.turn ^= 1;
        let callers = std::mem::take(&mut state.callers);
        // Callers that found the group full.
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

    /// Wakes one of the group that was gathered meanwhile, who leads next, and then the callers of the group that was written.
    fn wake_up(&self, mut state: MutexGuard<'_, State>) {
        let (gathered, written) = (state.turn, state.turn ^ 1);
        let has_failed = state.error.is_some();
        let leaders = Self::sleepers(&mut state, gathered, has_failed);
        let done = Self::sleepers(&mut state, written, true);
        drop(state);
        self.wake(leaders);
        self.wake(done);
    }

    /// Writes and syncs a group: one write and one sync, or one of each for both files if it lies across their border.
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

    /// What is written for a group, as log positions.
    fn range(&self, start: u64, end: u64) -> (u64, u64) {
        let ring = &self.ring;
        match self.options.fill() {
            Fill::Nothing => (start, end),
            Fill::Whole => (ring.align_down(start), ring.align_up(end)),
            // The block in which the group starts is cached: the write before has filled it, or opening the log has read it.
            Fill::FirstTouch if ring.align_up(start) == ring.align_up(end) && start != ring.align_down(start) => {
                (start, end)
            }
            Fill::FirstTouch => (start, ring.align_up(end)),
        }
    }

    /// Writes and syncs a file's header; `before` is what is there, of which one slot stays.
    fn write_header(&self, header: FileHeader, before: &[u8]) -> Result<(), LogError> {
        let file = header.index;
        let mut buffer = Buffer::alone(HEADER_SIZE as u32).map_err(|error| LogError::Memory(Arc::new(error)))?;
        buffer.bytes_mut().iter_mut().zip(before).for_each(|(to, from)| *to = *from);
        header.write(buffer.bytes_mut());
        write_all(&*self.storage, file, 0, buffer.bytes())?;
        self.storage.sync(file).map_err(|error| failed(&*self.storage, "sync", file, 0, error))
    }
}

/// The file system's block: what the options say, or else the storage.
fn block_size(options: &LogOptions, asked: u32) -> u32 {
    if options.block_size == 0 { asked } else { options.block_size }
}

fn failed(storage: &dyn LogStorage, what: &'static str, file: u32, offset: u64, error: io::Error) -> LogError {
    LogError::Io { what, file: storage.name(file), offset, error: Arc::new(error) }
}

/// Writes all bytes, and returns the number of writes that it took.
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
