//! Writes a log: one of many callers writes and syncs for all that wait.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::group::Group;
use super::handshake::{Handshake, Held, Work};
use super::layout::{FileHeader, HEADER_SIZE, Ring};
use super::reader::LogReader;
use super::{Fill, LogError, LogFiles, LogOptions, LogPosition, LogStorage, Recycle, SyncBy};
use crate::Buffer;

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
    callers: Handshake<Disk>,
}

/// The log's files, and how to write them.
struct Disk {
    storage: Box<dyn LogStorage>,
    ring: Ring,
    options: LogOptions,
    epoch: u32,
}

/// What callers share under the lock.
struct Shared {
    /// The group that takes new records.
    gather: Group,
    /// Everything before this may be overwritten.
    released: u64,
    counts: LogCounts,
}

/// What only the leader of a group uses.
struct Lane {
    group: Group,
    /// Content of the last file system block, up to the end of the log; kept for whole-block writes.
    tail: Vec<u8>,
    counts: LogCounts,
}

impl Work for Disk {
    type Shared = Shared;
    type Lane = Lane;
    type Error = LogError;

    fn gathered(shared: &Shared) -> (u64, u64) {
        (shared.gather.start, shared.gather.end)
    }

    fn take(&self, shared: &mut Shared, lane: &mut Lane) {
        std::mem::swap(&mut shared.gather, &mut lane.group);
        shared.gather.reset(&self.ring, lane.group.end);
    }

    fn write(&self, lane: &mut Lane) -> Result<(), LogError> {
        self.write_group(lane)
    }

    fn written(shared: &mut Shared, lane: &Lane) -> u64 {
        shared.counts = lane.counts;
        lane.group.end
    }

    fn panicked(&self) -> LogError {
        failed(&*self.storage, "write", 0, 0, io::Error::other("the storage panicked"))
    }
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Disk { ring, epoch, .. } = &self.callers.work;
        write!(f, "LogWriter {{ ring: {ring:?}, epoch: {epoch}, durable: {} }}", self.durable())
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
            writer.callers.work.write_header(FileHeader { ring, index, epoch: 1 }, &[0; HEADER_SIZE])?;
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
        writer.callers.lock().shared.released = start;
        // The epoch must be durable before the first block: blocks of two writers must not have the same epoch.
        writer.callers.work.write_header(FileHeader { ring, index: 0, epoch }, &header_bytes)?;
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
        let lane = Lane { group: group()?, tail, counts: LogCounts::default() };
        let shared = Shared { gather: group()?, released: 0, counts: LogCounts::default() };
        let disk = Disk { storage, ring, options: options.clone(), epoch };
        Ok(Self { callers: Handshake::new(disk, shared, lane, end) })
    }

    /// Appends a record, waits until it is durable, and returns the log position after it.
    ///
    /// # Errors
    /// [`LogError::RecordTooLong`] and [`LogError::Full`] leave the log unchanged. Any other error is the system's first, returned to every
    /// caller from now on. Only reading the log again tells whether it contains the record.
    pub fn append(&self, record: &[u8]) -> Result<LogPosition, LogError> {
        let (state, position) = self.gather(record)?;
        self.callers.wait_in(state, position.0)?;
        Ok(position)
    }

    /// Appends a record and returns the log position after it, without waiting until it is durable; [`LogWriter::wait`] does that. Records
    /// become durable in the order in which they were appended.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn submit(&self, record: &[u8]) -> Result<LogPosition, LogError> {
        self.gather(record).map(|(_, position)| position)
    }

    /// Returns once everything before a log position is durable. Positions after the last append count as that append's.
    ///
    /// # Errors
    /// The system's first error, unless everything before the log position was durable by then.
    pub fn wait(&self, position: LogPosition) -> Result<(), LogError> {
        self.callers.wait_in(self.callers.lock(), position.0)
    }

    /// Everything before this log position is durable.
    #[must_use]
    pub fn durable(&self) -> LogPosition {
        LogPosition(self.callers.lock().durable)
    }

    /// Releases everything before this log position: a file may be overwritten once all of it was released. `release(durable())` releases
    /// everything. Not remembered when the log is closed.
    pub fn release(&self, position: LogPosition) {
        let mut state = self.callers.lock();
        state.shared.released = state.shared.released.max(position.0.min(state.durable));
    }

    /// What was done so far; a group counts once it is written.
    #[must_use]
    pub fn counts(&self) -> LogCounts {
        self.callers.lock().shared.counts
    }

    /// Maximum length of a record, in bytes.
    #[must_use]
    pub fn record_max(&self) -> usize {
        Group::record_max(self.callers.work.options.group_max)
    }

    /// Puts a record into the group being gathered, as soon as one has room.
    fn gather(&self, record: &[u8]) -> Result<(Held<'_, Disk>, LogPosition), LogError> {
        let Disk { ring, options, .. } = &self.callers.work;
        let max = Group::record_max(options.group_max);
        if record.len() > max {
            return Err(LogError::RecordTooLong { len: record.len(), max });
        }
        let mut state = self.callers.lock();
        loop {
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            let shared = &mut state.shared;
            let Some(end) = shared.gather.end_with(record.len(), options.group_max) else {
                state = self.callers.make_room(state);
                continue;
            };
            if options.recycle == Recycle::Released && end > ring.limit(shared.released) {
                return Err(LogError::Full { released: LogPosition(shared.released) });
            }
            let position = LogPosition(shared.gather.push(record));
            return Ok((state, position));
        }
    }
}

impl Disk {
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
