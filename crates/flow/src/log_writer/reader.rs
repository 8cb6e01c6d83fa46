//! Reads a log: finds where it starts and where it ends after a crash, and the records between.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::block::{LOG_BLOCK_SIZE, LogBlock, POS_DATA};
use super::group::LEN_SIZE;
use super::layout::{FileHeader, HEADER_SIZE, Ring};
use super::options::GROUP_MAX;
use super::{LogError, LogFiles, LogPosition, LogStorage};
use crate::Buffer;

const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// Bytes per read.
const CHUNK_SIZE: u32 = 256 << 10;

/// One record, as it was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord<'r> {
    /// Where it starts in the log.
    pub start: LogPosition,
    /// Where it ends: what [`LogWriter::append`](super::LogWriter::append) returned for it.
    pub end: LogPosition,
    /// Its bytes.
    pub bytes: &'r [u8],
}

/// Hands over the records of a log, from the oldest complete one to the last one that survived a crash.
///
/// This includes every record that was acknowledged and not yet released, and none in part. The last ones may be records that were never
/// acknowledged.
pub struct LogReader {
    pub(super) storage: Box<dyn LogStorage>,
    pub(super) ring: Ring,
    /// Header of the first file.
    pub(super) header: FileHeader,
    pub(super) header_bytes: Vec<u8>,
    chunk: Buffer,
    /// The log position of the chunk's first byte, and its length; 0 if there is none.
    chunk_at: (u64, u32),
    /// Log position of the oldest block.
    pub(super) start: u64,
    /// Log position of the first block of the newest file.
    newest: u64,
    /// Log position of the next block.
    next: u64,
    epoch: u32,
    /// The data of the block before `next` that was not consumed yet, within the block.
    data: std::ops::Range<usize>,
    /// The record being assembled, with its length.
    record: Vec<u8>,
    record_start: u64,
    /// The record was handed over.
    is_whole: bool,
    /// No record start was found yet: the oldest file may start within a record.
    is_first: bool,
    ended: bool,
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogReader {{ ring: {:?}, start: {}, next: {} }}", self.ring, self.start, self.next)
    }
}

impl LogReader {
    /// Opens the log in a directory.
    ///
    /// # Errors
    /// [`LogError::NotThisLog`] if the files are not those of one complete log; [`LogError::Io`].
    pub fn open(dir: &Path) -> Result<Self, LogError> {
        Self::open_on(LogFiles::open_to_read(dir)?)
    }

    /// Opens the log on a storage.
    ///
    /// # Errors
    /// [`LogError::NotThisLog`] if the files are not those of one complete log; [`LogError::Io`].
    pub fn open_on(storage: impl LogStorage + 'static) -> Result<Self, LogError> {
        let storage: Box<dyn LogStorage> = Box::new(storage);
        let chunk = Buffer::alone(CHUNK_SIZE).map_err(|error| LogError::Memory(Arc::new(error)))?;
        let mut reader = Self {
            storage,
            ring: Ring { id: 0, files: 0, file_size: 0, block_size: 0 },
            header: FileHeader { ring: Ring { id: 0, files: 0, file_size: 0, block_size: 0 }, index: 0, epoch: 0 },
            header_bytes: vec![0; HEADER_SIZE],
            chunk,
            chunk_at: (0, 0),
            start: 0,
            newest: 0,
            next: 0,
            epoch: 0,
            data: 0..0,
            record: Vec::new(),
            record_start: 0,
            is_whole: false,
            is_first: true,
            ended: false,
        };
        reader.read_headers()?;
        reader.find_start()?;
        Ok(reader)
    }

    /// Reads the headers, and checks that all files belong to one log.
    fn read_headers(&mut self) -> Result<(), LogError> {
        for file in (0..self.storage.files()).rev() {
            let wrong = |why| LogError::NotThisLog { file: self.storage.name(file), why };
            let bytes = self.chunk.range_mut(0..HEADER_SIZE as u32);
            let got = self.storage.read_at(file, 0, bytes).map_err(|error| self.failed("read", file, 0, error))?;
            let bytes = self.chunk.first(got.min(HEADER_SIZE) as u32);
            let header = FileHeader::parse(bytes).ok_or_else(|| wrong("it has no header of a log"))?;
            if header.index != file || header.ring.files != self.storage.files() {
                return Err(wrong(
                    "its header says that it has another place, or that there is another number of files",
                ));
            }
            if self.ring.files != 0 && header.ring != self.ring {
                return Err(wrong("it belongs to another log than the files that follow it"));
            }
            self.ring = header.ring;
            self.header = header;
            self.header_bytes = bytes.to_vec();
            self.header_bytes.resize(HEADER_SIZE, 0);
        }
        if self.ring.files == 0 {
            return Err(LogError::NotThisLog { file: String::from("a log"), why: "there are no files" });
        }
        Ok(())
    }

    /// Finds the newest file and, from it, the oldest: the ring holds as much of the log as it can.
    fn find_start(&mut self) -> Result<(), LogError> {
        let ring = self.ring;
        for file in 0..u64::from(ring.files) {
            let first = self.peek(file * ring.in_file())?.map_or(0, |block| block.number * BLOCK);
            if ring.place(first) == ring.place(file * ring.in_file()) {
                self.newest = self.newest.max(first);
            }
        }
        self.start = (self.newest + ring.in_file()).saturating_sub(ring.in_ring());
        let ring_is_full = self.start + ring.in_ring() == self.newest + ring.in_file();
        if ring_is_full && self.is_being_recycled(self.start)? {
            self.start += ring.in_file();
        }
        self.next = self.start;
        Ok(())
    }

    /// Whether the file that starts at this log position was partly overwritten, by blocks of the next round or by zeros after them. (Its
    /// first block was not, or the file would be the newest.)
    fn is_being_recycled(&mut self, start: u64) -> Result<bool, LogError> {
        for position in (start..start + self.ring.in_file()).step_by(LOG_BLOCK_SIZE) {
            let number = self.peek(position)?.map(|block| block.number * BLOCK);
            let is_next_round = number == Some(position + self.ring.in_ring());
            if is_next_round || number.is_none() && self.block_bytes(position)?.iter().all(|&byte| byte == 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next record; `None` at the end of the log.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Io`]; after that, `None`.
    #[expect(clippy::should_implement_trait, reason = "a record borrows from the reader, which Iterator cannot say")]
    pub fn next(&mut self) -> Option<Result<LogRecord<'_>, LogError>> {
        match self.advance() {
            Ok(true) => {
                let start = LogPosition(self.record_start);
                let end = LogPosition(self.next - BLOCK + self.data.start as u64);
                Some(Ok(LogRecord { start, end, bytes: self.record.get(LEN_SIZE..).unwrap_or_default() }))
            }
            Ok(false) => None,
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }

    /// The log position of the oldest log block that still exists, where reading starts.
    #[must_use]
    pub fn start(&self) -> LogPosition {
        LogPosition(self.start)
    }

    /// The current log position; after [`LogReader::next`] returned `None`, the end of the log, where a writer continues.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        LogPosition(self.next)
    }

    /// Assembles the next record; `false` at the end of the log.
    fn advance(&mut self) -> Result<bool, LogError> {
        if self.is_whole {
            self.record.clear();
            self.is_whole = false;
        }
        while !self.ended {
            if self.data.is_empty() && !self.next_block()? {
                self.ended = true;
                break;
            }
            if self.record.is_empty() {
                self.record_start = self.next - BLOCK + self.data.start as u64;
            }
            let len = self.record_len();
            if len > Some(GROUP_MAX as usize) {
                return Err(self.damaged(self.next - BLOCK));
            }
            let wanted = len.map_or(LEN_SIZE, |len| LEN_SIZE + len) - self.record.len();
            let taken = wanted.min(self.data.len());
            let range = self.data.start..self.data.start + taken;
            let bytes = block_of(&self.chunk, self.chunk_at.0, self.next - BLOCK);
            self.record.extend_from_slice(bytes.get(range).unwrap_or_default());
            self.data.start += taken;
            if self.record_len().is_some_and(|len| LEN_SIZE + len == self.record.len()) {
                self.is_whole = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The length of the record being assembled, once known.
    fn record_len(&self) -> Option<usize> {
        self.record.first_chunk().map(|len| u32::from_be_bytes(*len) as usize)
    }

    /// Moves to the next block with data; `false` at the end of the log.
    fn next_block(&mut self) -> Result<bool, LogError> {
        loop {
            let position = self.next;
            let block = self.peek(position)?;
            let Some(block) = block.filter(|block| block.number * BLOCK == position && block.epoch >= self.epoch)
            else {
                self.prove_end(position)?;
                return Ok(false);
            };
            self.next += BLOCK;
            if block.epoch != self.epoch {
                // A crash cut off a half-written group, and the next writer started a new one.
                self.record.clear();
                self.epoch = block.epoch;
            }
            self.data = block.data_range();
            if self.record.is_empty() {
                match block.first_record {
                    Some(0) => {}
                    _ if !self.is_first => return Err(self.damaged(position)),
                    // The oldest file starts in the middle of a record.
                    Some(first) => self.data.start += usize::from(first),
                    None => continue,
                }
            }
            self.is_first = false;
            return Ok(true);
        }
    }

    /// A block that is not as expected is the end of the log, unless a later one proves that it was durable: a write only starts after all
    /// blocks before it are durable.
    fn prove_end(&mut self, end: u64) -> Result<(), LogError> {
        if end < self.newest {
            return Err(self.damaged(end));
        }
        for position in (end..end + self.ring.in_file()).step_by(LOG_BLOCK_SIZE).skip(1) {
            let block = self.peek(position)?.filter(|block| block.number * BLOCK == position);
            if block.is_some_and(|block| block.group_start() * BLOCK > end) {
                return Err(self.damaged(end));
            }
        }
        Ok(())
    }

    fn damaged(&self, position: u64) -> LogError {
        let place = self.ring.place(position);
        LogError::Damaged { file: self.storage.name(place.file), offset: place.offset, position: LogPosition(position) }
    }

    fn failed(&self, what: &'static str, file: u32, offset: u64, error: io::Error) -> LogError {
        LogError::Io { what, file: self.storage.name(file), offset, error: Arc::new(error) }
    }

    /// The block at a log position, if it belongs to this log.
    fn peek(&mut self, position: u64) -> Result<Option<LogBlock>, LogError> {
        let id = self.ring.id;
        Ok(LogBlock::parse(self.block_bytes(position)?, id))
    }

    /// The bytes of the block at a log position; zeros past the end of a file.
    fn block_bytes(&mut self, position: u64) -> Result<&[u8], LogError> {
        let (start, len) = self.chunk_at;
        if position < start || position + BLOCK > start + u64::from(len) {
            self.load(self.ring.align_down(position))?;
        }
        Ok(block_of(&self.chunk, self.chunk_at.0, position))
    }

    fn load(&mut self, position: u64) -> Result<(), LogError> {
        let place = self.ring.place(position);
        let len = place.rest.min(u64::from(CHUNK_SIZE)) as u32;
        self.chunk_at = (0, 0);
        let bytes = self.chunk.range_mut(0..len);
        let got = self.storage.read_at(place.file, place.offset, bytes);
        let got = got.map_err(|error| self.failed("read", place.file, place.offset, error))?;
        self.chunk.range_mut(got as u32..len).fill(0);
        self.chunk_at = (position, len);
        Ok(())
    }

    /// Reads to the end of the log, and returns the content of the last file system block up to there.
    pub(super) fn drain(&mut self) -> Result<Vec<u8>, LogError> {
        while let Some(record) = self.next() {
            record?;
        }
        let (base, end) = (self.ring.align_down(self.next), self.next);
        let mut tail = Vec::new();
        for position in (base..end).step_by(LOG_BLOCK_SIZE) {
            tail.extend_from_slice(self.block_bytes(position)?);
        }
        Ok(tail)
    }
}

/// The block at a log position in a chunk.
fn block_of(chunk: &Buffer, chunk_start: u64, position: u64) -> &[u8] {
    let start = u32::try_from(position.saturating_sub(chunk_start)).unwrap_or(u32::MAX);
    chunk.range(start..start.saturating_add(LOG_BLOCK_SIZE as u32))
}

const _: () = assert!(POS_DATA < LOG_BLOCK_SIZE && CHUNK_SIZE as usize >= HEADER_SIZE && CHUNK_SIZE >= 65536);
