//! The redo log of MySQL 8.0.30 and later: files in a directory of their own, each of which continues the one before. And that of 8.0.3 to
//! 8.0.29: a ring of files of equal size, of which only the first has checkpoints.
//!
//! A new file closes the log. It contains only a checkpoint and the table states that the dictionary lacks. In a chain it is one more file,
//! which starts where the newest one ends; in a ring it replaces the first. Until that file has its final name the log is unchanged; after
//! that, no other file is needed. In a backup the log is one file, xtrabackup's copy. It is closed like a chain: the closing file is the
//! first in the directory.

use std::collections::BTreeMap;
use std::fs::{self};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flow::FileId;
use format::Lsn;
use format::bytes::be;
use format::fil::FIL_PAGE_FILE_FLUSH_LSN;
use format::keyring::KeyStore;
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::close::{self, TableNote};
use redo::mysql::mtr_reader::MtrReader;
use redo::mysql::{FORMAT_MANY_FILES, FORMAT_MID_GROUP, LOG_FILE_HDR_SIZE, LOG_HEADER_FORMAT};
use redo::record::{RecordFault, TableState};
use redo::verify_mysql;

use super::archived_mysql::{ArchivedEnd, find, needed_to};
use super::verify::{verify_end, verify_stretch};
use crate::door;
use crate::recover::error::{RecoverError, Result, damaged, failed, locked_out, refused};
use crate::recover::place::durable::sync_directory_of;
use datadir::files::AskPath;
use datadir::known_servers::Maker;
use datadir::log_name::{LOG, REDO_DIR};
use datadir::mysql_log::{MySqlLog, MySqlLogError};
use datadir::reading::read_up_to;
use datadir::redo_log::{copied_log, has_mysql_ring, log_files};

/// Log file sizes are multiples of this, and so of every page size.
const FILE_ALIGN: usize = 64 << 10;
/// More than the smallest size on which servers were seen to start.
const FILE_MIN: usize = 1 << 20;
/// No server runs on a ring of fewer files.
const RING_FILES_MIN: usize = 2;

impl From<MySqlLogError> for RecoverError {
    fn from(error: MySqlLogError) -> Self {
        match error {
            MySqlLogError::Io { path, source } => failed(&path, "reading the redo log")(source),
            MySqlLogError::Redo { .. } => Self::Damaged(error.to_string()),
            MySqlLogError::Key { .. } => Self::Key(error.to_string()),
        }
    }
}

/// A log and its datadir.
#[derive(Debug)]
pub(in super::super) struct MySqlRedo {
    /// The log to read: the datadir's own, or an archive's.
    pub log: MySqlLog,
    /// The datadir's own log, if `log` is an archive's.
    own: Option<MySqlLog>,
    /// How far the archive goes, if `log` is an archive's.
    pub archived: Option<ArchivedEnd>,
    /// The log's directory; in a backup the copied file; of a ring the first file.
    path: PathBuf,
    datadir: PathBuf,
}

impl MySqlRedo {
    pub fn open(datadir: &Path, keys: &KeyStore) -> Result<Self> {
        let old = datadir.join(LOG);
        if copied_log(datadir).is_none() && has_mysql_ring(datadir) {
            return Self::open_ring(datadir, old, keys);
        }
        let dir = copied_log(datadir).unwrap_or_else(|| datadir.join(REDO_DIR));
        if old.is_there() {
            return refused(format!(
                "{} and {} both exist, and the server would use the former as its log: remove the one that is not in use",
                old.display(),
                dir.display()
            ));
        }
        let paths = log_files(datadir);
        if paths.is_empty() {
            return damaged(format!("{}: there is no redo log in it", dir.display()));
        }
        let log = MySqlLog::open(&paths, keys)?;
        if log.checkpoint.format != FORMAT_MANY_FILES {
            return refused(format!(
                "{}: a copy of the redo log of MySQL before 8.0.30: prepare this backup with xtrabackup --prepare",
                dir.display()
            ));
        }
        Self::of_usable(datadir, dir, log)
    }

    fn open_ring(datadir: &Path, first: PathBuf, keys: &KeyStore) -> Result<Self> {
        let head = door::open_file(&first).and_then(|file| read_up_to(&file, 0, LOG_HEADER_FORMAT + 4));
        let head = head.map_err(failed(&first, "reading the redo log"))?;
        // Before anything else in the file is believed: other formats need not have it.
        if let Some(format) = be::u32_at(&head, LOG_HEADER_FORMAT).filter(|format| *format < FORMAT_MID_GROUP) {
            let writers = redo::writers_of(format).unwrap_or("an unknown server");
            return refused(format!(
                "{}: the redo log of {writers} (format {format}), which innokit does not recover: start a server of that version",
                first.display()
            ));
        }
        let paths = log_files(datadir);
        if paths.len() < RING_FILES_MIN {
            return damaged(format!("{}: ib_logfile1 is missing: this log has at least two files", first.display()));
        }
        Self::of_usable(datadir, first, MySqlLog::open(&paths, keys)?)
    }

    /// The server that wrote the log; `None` for a copy, which does not say it.
    pub fn maker(&self) -> Option<Maker> {
        Maker::of(&self.own().newest()?.parsed.creator)
    }

    /// Refuses logs that the server would refuse too.
    fn of_usable(datadir: &Path, path: PathBuf, log: MySqlLog) -> Result<Self> {
        let name = path.display();
        if let Some(breach) = log.breaches.first() {
            return damaged(format!("{name}: {breach}"));
        }
        if log.newest().is_some_and(|file| file.parsed.is_crash_unsafe()) {
            return refused(format!(
                "{name}: the server died while redo logging was switched off (ALTER INSTANCE DISABLE INNODB REDO_LOG): the changes it had in memory are lost, and the datadir is beyond recovery. Restore a backup"
            ));
        }
        if log.newest().is_some_and(|file| file.parsed.is_not_initialised()) {
            return refused(format!(
                "{name}: the server died while it created this log, and creates it again when it starts"
            ));
        }
        Ok(Self { log, own: None, archived: None, path, datadir: datadir.to_path_buf() })
    }

    /// Whether the log is that of MySQL before 8.0.30.
    pub const fn is_ring(&self) -> bool {
        self.log.is_ring()
    }

    /// The first file of a ring, which is replaced when the log is closed.
    pub fn first_file(&self) -> &Path {
        &self.path
    }

    /// Replaces the log to read with an archive that continues it. `base_end` is where the datadir's own log ends.
    pub fn with_archive(self, dir: &Path, base_end: Lsn, timeline: Option<u32>) -> Result<Self> {
        if self.is_ring() {
            return refused("the base copy is of MySQL before 8.0.30, whose log is not archived: leave out --redo");
        }
        let (log, end) = find(dir, &self.log, base_end, timeline)?;
        Ok(Self { log, own: Some(self.log), archived: Some(end), path: dir.to_path_buf(), datadir: self.datadir })
    }

    /// The datadir's own log, which is closed in the end.
    fn own(&self) -> &MySqlLog {
        self.own.as_ref().unwrap_or(&self.log)
    }

    /// Whether the datadir's own log is xtrabackup's copy.
    pub fn is_copy(&self) -> bool {
        self.own().newest().is_some_and(|file| file.parsed.is_copy())
    }

    /// Whether the datadir's own log is the one file that closed xtrabackup's copy, and no server has written to it.
    pub fn closes_copy(&self) -> bool {
        let [file] = self.own().files.as_slice() else { return false };
        file.parsed.closes_copy() && self.own().checkpoint.lsn == close::checkpoint_of(file.parsed.start_lsn)
    }

    /// Paths and sizes of the files to read.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.log.files.iter().map(|file| (file.path.clone(), file.parsed.size)).collect()
    }

    pub fn stretches(&self) -> Vec<(FileId, Range<u64>)> {
        let id = |number: usize| FileId(u32::try_from(number).unwrap_or(u32::MAX));
        self.log.stretches.iter().map(|(number, bytes)| (id(*number), bytes.clone())).collect()
    }

    pub fn reader(&self) -> MtrReader {
        self.log.reader()
    }

    /// Fails if a needed block is damaged, or cannot be read for lack of a key.
    pub fn check(&self) -> Result<()> {
        let parsed: Vec<_> = self.log.files.iter().map(|file| file.parsed.clone()).collect();
        let plan = verify_mysql::plan_from(&parsed, self.log.checkpoint)
            .or_else(|error| damaged(format!("{}: {error}", self.name())))?;
        let mut verifier = plan.verifier.with_keys(self.log.keys.clone());
        for segment in &plan.segments {
            let Some(file) = self.log.files.get(segment.file) else { continue };
            let stretch = segment.offset..segment.offset + segment.len;
            verify_stretch(&file.file, &file.path, stretch, &mut verifier, &self.name())?;
        }
        // A server's own log has the block of its checkpoint, even if nothing else is in it. An archive has only blocks with records.
        let checkpoint = self.log.checkpoint.lsn;
        verify_end(verifier, if self.archived.is_some() { needed_to(checkpoint) } else { checkpoint }, &self.name())
    }

    /// For messages.
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Rereads the log up to its end, and fails with the reason if it does not end like a killed server's.
    pub fn check_reason(&self) -> Result<()> {
        let mut reader = self.reader();
        self.log.feed(&mut reader, &self.log.stretches, u64::MAX, |_, _| Ok::<_, RecoverError>(()))?;
        let (name, at) = (self.name(), reader.at());
        match reader.fault() {
            _ if reader.lacks_key() => locked_out(format!(
                "{name}: the redo log is encrypted from LSN {at} on: name the server's keyring (--keyring)"
            )),
            Some(fault) if fault.fault == RecordFault::EarlyVersions => refused(format!(
                "{name}: the redo log at LSN {at} is about a table that MySQL 8.0.29 altered with ALGORITHM=INSTANT: only a server of that \
                 version can recover it"
            )),
            Some(fault) => damaged(format!("{name}: the redo log makes no sense at LSN {at}: {fault}")),
            None => Ok(()),
        }
    }

    /// The flushed LSN in the system tablespace, written at shutdown. `None` in an increment without that tablespace.
    pub fn flushed(&self) -> Result<Option<Lsn>> {
        let path = self.datadir.join("ibdata1");
        let page0 = match door::open_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.and_then(|file| read_up_to(&file, 0, FIL_PAGE_FILE_FLUSH_LSN + 8)),
        };
        let page0 = page0.map_err(failed(&path, "reading the first page"))?;
        Ok(be::u64_at(&page0, FIL_PAGE_FILE_FLUSH_LSN).map(Lsn))
    }

    /// The first bytes of the file that closes the log, and its size. `end` is where the log ends. The server will continue at
    /// [`MySqlRedo::next_checkpoint`].
    pub fn closing(&self, tables: &TableStates, end: Lsn) -> Result<(Vec<u8>, usize)> {
        let new = if self.is_ring() { close::new_first_file } else { close::new_file };
        let newest = self.own().newest();
        let bytes = newest.and_then(|newest| new(&newest.header, self.next_start(end), &tables.notes()));
        let (Some(bytes), Some(newest)) = (bytes, newest) else { return refused("the redo log cannot be closed") };
        if !self.is_ring() {
            let size = bytes.len().next_multiple_of(FILE_ALIGN).max(FILE_MIN);
            return Ok((bytes, size));
        }
        match usize::try_from(newest.parsed.size) {
            Ok(size) if bytes.len() < size => Ok((bytes, size)),
            _ => refused("the AUTO_INCREMENT counters of all tables do not fit in a file of the redo log"),
        }
    }

    fn next_start(&self, log_end: Lsn) -> Lsn {
        // The blocks of a ring have no LSN of their own after its end.
        if self.is_ring() {
            return Lsn(log_end.0.next_multiple_of(LOG_BLOCK_SIZE as u64));
        }
        let end = |file: &datadir::mysql_log::MySqlFile| {
            file.parsed.start_lsn.0.saturating_add(file.parsed.size.saturating_sub(LOG_FILE_HDR_SIZE as u64))
        };
        let newest =
            [Some(&self.log), self.own.as_ref()].into_iter().flatten().filter_map(MySqlLog::newest).map(end).max();
        // A copy may end within a block. The closing file starts at the next block boundary.
        Lsn(newest.unwrap_or(0).next_multiple_of(LOG_BLOCK_SIZE as u64))
    }

    /// The checkpoint of the file that closes this log, which ends at `log_end`.
    pub fn next_checkpoint(&self, log_end: Lsn) -> Lsn {
        close::checkpoint_of(self.next_start(log_end))
    }

    /// The path of the closing file.
    fn next_path(&self, newest: &Path) -> Result<PathBuf> {
        if self.is_copy() {
            return Ok(self.datadir.join(REDO_DIR).join("#ib_redo0"));
        }
        let number = newest.file_name().and_then(|name| name.to_str()?.strip_prefix("#ib_redo")?.parse().ok());
        let Some(next) = number.and_then(|number: u64| number.checked_add(1)) else {
            return refused(format!("{}: not the name of a redo log file", newest.display()));
        };
        Ok(newest.with_file_name(format!("#ib_redo{next}")))
    }

    /// The name of a file of the log, relative to the datadir.
    fn inside<'p>(&self, path: &'p Path) -> Result<&'p Path> {
        let inside = path.strip_prefix(&self.datadir);
        inside.map_err(|_| RecoverError::Internal("a file of the redo log is outside of the datadir"))
    }

    /// The path of the file that closes a chain, and those of the files that it replaces.
    pub fn closing_place(&self) -> Result<(PathBuf, Vec<PathBuf>)> {
        let Some(newest) = self.own().newest() else { return refused("the redo log has no file") };
        let path = self.next_path(&newest.path)?;
        // A server may keep an unused file of the name under which the new one is written.
        let unused = Some(with_suffix(&path, UNUSED)).filter(|unused| unused.exists());
        Ok((path, self.own().files.iter().map(|file| file.path.clone()).chain(unused).collect()))
    }

    /// Adds the closing file to a chain and removes the others. xtrabackup's copy stays until its note says that the backup is prepared.
    pub fn close(&self, bytes: &[u8], size: usize) -> Result<()> {
        let Some(newest) = self.own().newest() else { return refused("the redo log has no file") };
        let path = self.next_path(&newest.path)?;
        if self.is_copy() {
            let made = door::make_parents(&self.datadir, self.inside(&path)?);
            made.map_err(failed(&path, "making the directory of the redo log"))?;
        }
        let new = with_suffix(&path, UNUSED);
        let like = fs::metadata(&newest.path).map_err(failed(&newest.path, "looking at the redo log"))?;
        let (inside, new_inside) = (self.inside(&path)?, self.inside(&new)?);
        let write = || {
            let file = door::replace(&self.datadir, new_inside)?;
            let mut all = bytes.to_vec();
            all.resize(size, 0);
            file.write_all_at(&all, 0)?;
            door::give(&file, &like)?;
            file.sync_all()
        };
        write().map_err(failed(&new, "writing the new redo log"))?;
        door::rename(&self.datadir, new_inside, inside).map_err(failed(&path, "naming the new redo log"))?;
        sync_directory_of(&path)?;
        if self.is_copy() {
            return Ok(());
        }
        // Oldest first: after an interruption the remaining files are still a chain.
        let mut files: Vec<_> = self.own().files.iter().collect();
        files.sort_by_key(|file| file.parsed.start_lsn);
        for file in files {
            let removed = door::remove(&self.datadir, self.inside(&file.path)?);
            removed.map_err(failed(&file.path, "removing the old redo log"))?;
        }
        sync_directory_of(&path)
    }
}

/// Servers never read files with this suffix; they only reuse them.
const UNUSED: &str = "_tmp";

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Table states in the log that the dictionary lacks: AUTO_INCREMENT counters and corrupt indexes.
#[derive(Debug, Default)]
pub(in super::super) struct TableStates(BTreeMap<(u64, bool), TableNote>);

impl TableStates {
    const fn key(state: &TableState<'_>) -> (u64, bool) {
        (state.table, state.auto_increment.is_some())
    }

    /// Whether there is a state of this kind for the table already.
    pub fn knows(&self, state: &TableState<'_>) -> bool {
        self.0.contains_key(&Self::key(state))
    }

    pub fn add(&mut self, state: &TableState<'_>) {
        let key = Self::key(state);
        let new = TableNote {
            table: state.table,
            version: state.version,
            auto_increment: state.auto_increment,
            state: state.state.to_vec(),
        };
        match self.0.get_mut(&key) {
            // As in the server: a counter only grows, and states of an older definition are void.
            Some(known) if (known.version, known.auto_increment) > (new.version, new.auto_increment) => {}
            Some(known) => *known = new,
            None => drop(self.0.insert(key, new)),
        }
    }

    fn notes(&self) -> Vec<TableNote> {
        self.0.values().cloned().collect()
    }
}
