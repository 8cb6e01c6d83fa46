//! The log of a running server: files that continue each other. The server recycles the oldest under new names.
//!
//! A block is identified by its number, epoch and checksum, so it does not matter what becomes of the file it was found in: a recycled file
//! has other blocks. Full blocks are final; the newest one is read again until it is full.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use format::Lsn;
use format::keyring::KeyStore;
use redo::block::{LOG_BLOCK_SIZE, block_start};
use redo::mysql::copy::{LiveBlock, encryption_block, judge};
use redo::mysql::{LOG_FILE_HDR_SIZE, LogFile};

use super::copied_log::{CopiedLog, Origin};
use crate::backup::error::{BackupError, Result, failed, refused};
use crate::door;
use datadir::mysql_log::MySqlLog;
use datadir::reading::read_up_to;
use datadir::redo_log::log_files;

/// Bytes per read, at most.
const READ_MAX: u64 = 4 << 20;
/// Attempts to find the log, and the pause between them: the server may recycle files while they are listed.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);
/// What the server reports as written must turn up in a file within this time.
const FOUND_WITHIN: Duration = Duration::from_secs(10);
const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// An open file of the log. It stays readable after the server renames it.
#[derive(Debug)]
struct LiveFile {
    path: PathBuf,
    file: File,
    parsed: LogFile,
}

impl LiveFile {
    /// Opens the file if it is part of the log: spare files have no header.
    fn open(path: &Path) -> Option<(Self, Vec<u8>)> {
        let file = door::open_file(path).ok()?;
        let header = read_up_to(&file, 0, LOG_FILE_HDR_SIZE).ok()?;
        let parsed = LogFile::parse(&header, file.metadata().ok()?.len()).ok()?;
        (!parsed.is_not_initialised()).then_some((Self { path: path.to_path_buf(), file, parsed }, header))
    }

    /// The LSN after its last block.
    fn end(&self) -> Lsn {
        let blocks = self.parsed.size.saturating_sub(LOG_FILE_HDR_SIZE as u64) / BLOCK;
        Lsn(self.parsed.start_lsn.0.saturating_add(blocks * BLOCK))
    }
}

/// Reads the log of a running server from its newest checkpoint on.
#[derive(Debug)]
pub(super) struct LiveRedo<'k> {
    datadir: PathBuf,
    keys: &'k KeyStore,
    origin: Origin,
    file: Option<LiveFile>,
    /// The first block that was not full when it was last read.
    next: Lsn,
    /// The log has been read up to this LSN.
    end: Lsn,
    /// Since when no file holds what the server reports as written.
    missing_since: Option<Instant>,
}

impl<'k> LiveRedo<'k> {
    /// Finds the newest checkpoint.
    pub fn open(datadir: &Path, keys: &'k KeyStore) -> Result<Self> {
        let mut tries = 0..TRIES;
        let log = loop {
            // Opened without keys: `copy` looks them up at the first encrypted block.
            match MySqlLog::open(&log_files(datadir), &KeyStore::new()) {
                Ok(log) => break log,
                Err(error) if tries.next().is_none() => {
                    return refused(format!("the redo log cannot be read: {error}"));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        };
        let checkpoint = log.checkpoint_lsn();
        let header = log.files.get(log.checkpoint.file).map(|file| file.header.clone()).unwrap_or_default();
        let origin = Origin::new(checkpoint, header);
        let next = block_start(checkpoint);
        Ok(Self { datadir: datadir.to_path_buf(), keys, origin, file: None, next, end: Lsn(0), missing_since: None })
    }

    pub const fn checkpoint(&self) -> Lsn {
        self.origin.checkpoint
    }

    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The log has been read up to this LSN; 0 before the first block.
    pub const fn end(&self) -> Lsn {
        self.end
    }

    /// Copies the log up to `flushed`, and what the server has since added to the same block.
    pub fn look(&mut self, flushed: Lsn, copied: &CopiedLog) -> Result<()> {
        while self.next <= flushed {
            if !self.find()? {
                break;
            }
            let Some(file) = &self.file else { break };
            let bytes_left = file.end().0 - self.next.0;
            if bytes_left == 0 {
                self.note_encryption()?;
                self.file = None;
                continue;
            }
            let len = (block_start(flushed).0 + BLOCK - self.next.0).min(bytes_left).min(READ_MAX);
            if self.copy(usize::try_from(len).unwrap_or(LOG_BLOCK_SIZE), copied)? < len {
                break;
            }
        }
        self.expect(flushed)
    }

    /// Copies the sound blocks among the next `len` bytes. Returns how many bytes of full blocks these are.
    fn copy(&mut self, len: usize, copied: &CopiedLog) -> Result<u64> {
        let Some(file) = &self.file else { return Ok(0) };
        let offset = file.parsed.offset_of(self.next).unwrap_or(LOG_FILE_HDR_SIZE as u64);
        let bytes = read_up_to(&file.file, offset, len).map_err(failed(&file.path, "reading the redo log"))?;
        let (mut full, mut sound, mut end) = (0, 0, self.end);
        let blocks = bytes.as_chunks::<LOG_BLOCK_SIZE>().0;
        for block in blocks {
            let lsn = Lsn(self.next.0 + full);
            let mut judged = judge(block, lsn, self.origin.keys());
            if judged == LiveBlock::Locked {
                self.note_encryption()?;
                judged = judge(block, lsn, self.origin.keys());
            }
            match judged {
                LiveBlock::Sound(to) => {
                    (sound, end) = (full + BLOCK, to);
                    if to < Lsn(lsn.0 + BLOCK) {
                        break;
                    }
                    full += BLOCK;
                }
                LiveBlock::Locked => {
                    return refused(
                        "the redo log is encrypted: name the server's keyring (--keyring), without which the backup cannot be proved",
                    );
                }
                LiveBlock::Other => break,
            }
        }
        copied.write(self.next, bytes.get(..usize::try_from(sound).unwrap_or(0)).unwrap_or_default())?;
        (self.next, self.end) = (Lsn(self.next.0 + full), end.max(self.end));
        Ok(full)
    }

    /// Opens the file that holds the next block. Returns whether there is one yet.
    fn find(&mut self) -> Result<bool> {
        let has = |file: &LiveFile, lsn: Lsn| file.parsed.start_lsn <= lsn && lsn < file.end();
        if self.file.as_ref().is_some_and(|file| self.next <= file.end() && file.parsed.start_lsn <= self.next) {
            return Ok(true);
        }
        let mut oldest = None;
        for path in log_files(&self.datadir) {
            let Some((file, header)) = LiveFile::open(&path) else { continue };
            if has(&file, self.next) {
                self.file = Some(file);
                self.note(&header)?;
                return Ok(true);
            }
            let start = file.parsed.start_lsn;
            oldest = Some(oldest.map_or(start, |oldest: Lsn| oldest.min(start)));
        }
        match oldest {
            Some(oldest) if oldest > self.next => self.lost(),
            _ => Ok(false),
        }
    }

    /// Fails if for too long no file has held what the server reports as written. Until then the next look may find it in another file.
    fn expect(&mut self, flushed: Lsn) -> Result<()> {
        if self.end >= flushed {
            self.missing_since = None;
            return Ok(());
        }
        self.note_encryption()?;
        self.file = None;
        match self.missing_since {
            Some(since) if since.elapsed() > FOUND_WITHIN => self.lost(),
            Some(_) => Ok(()),
            None => {
                self.missing_since = Some(Instant::now());
                Ok(())
            }
        }
    }

    fn lost<T>(&self) -> Result<T> {
        Err(BackupError::Log(format!(
            "the server has overwritten it from LSN {} on before it was copied: a larger innodb_redo_log_capacity keeps it for longer",
            self.next
        )))
    }

    /// Looks for a key in the file's header: the server may have begun to encrypt its log, which it notes in the file that it writes.
    fn note_encryption(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let header =
            read_up_to(&file.file, 0, LOG_FILE_HDR_SIZE).map_err(failed(&file.path, "reading the redo log"))?;
        // A recycled file has another header.
        match LogFile::parse(&header, file.parsed.size) {
            Ok(now) if now.start_lsn == file.parsed.start_lsn => self.note(&header),
            _ => Ok(()),
        }
    }

    fn note(&mut self, header: &[u8]) -> Result<()> {
        self.origin.note_encryption(encryption_block(header).unwrap_or_default(), header, self.keys)
    }
}
