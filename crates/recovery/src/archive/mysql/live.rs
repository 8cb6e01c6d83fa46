//! The log of a running MySQL server: consecutive files, the oldest of which are recycled under other names.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use format::Lsn;
use redo::mysql::{FORMAT_MANY_FILES, LOG_FILE_HDR_SIZE, LogFile, newest_checkpoint};
use redo::{LogVendor, RedoError};

use crate::archive::error::{Result, failed, refused};
use crate::door;
use datadir::files::AskPath;
use datadir::known_servers::Maker;
use datadir::log_name::{LOG, REDO_DIR};
use datadir::reading::read_up_to;
use datadir::redo_log::log_files;

/// How often, and with what pause, to list the files: the server recycles some while they are listed.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// The suffix of the names of files that are not in use.
const SPARE: &str = "_tmp";

/// An open file of the log. It stays readable when the server renames it.
#[derive(Debug)]
struct LiveFile {
    path: PathBuf,
    file: File,
    parsed: LogFile,
    header: Vec<u8>,
}

impl LiveFile {
    /// Opens a file if it belongs to the log. Spare files have no header.
    fn open(path: &Path) -> Option<Self> {
        let file = door::open_file(path).ok()?;
        let header = read_up_to(&file, 0, LOG_FILE_HDR_SIZE).ok()?;
        let parsed = LogFile::parse(&header, file.metadata().ok()?.len()).ok()?;
        (!parsed.is_not_initialised()).then(|| Self { path: path.to_path_buf(), file, parsed, header })
    }

    fn has(&self, lsn: Lsn) -> bool {
        self.parsed.start_lsn <= lsn && lsn < self.parsed.end_lsn()
    }
}

/// What the headers of all files say.
#[derive(Debug, Clone)]
pub(super) struct Headers {
    /// The newest checkpoint.
    pub checkpoint: Lsn,
    /// The header of the file that holds it.
    pub header: Vec<u8>,
    /// The number that all files of one server's log share.
    pub log_uuid: u32,
    /// The LSNs at which the oldest and the newest file begin.
    pub oldest: Lsn,
    pub newest: Lsn,
    /// The LSN behind the newest file.
    pub end: Lsn,
    /// Bytes that the server can write before it reuses a file.
    pub capacity: u64,
    /// The server makes changes without redo.
    pub is_disabled: bool,
}

/// Reads the log of a running server.
#[derive(Debug)]
pub(super) struct LiveBlocks {
    datadir: PathBuf,
    /// The file read last.
    file: Option<LiveFile>,
    /// Files read before it that have blocks which are not archived yet. The server may remove them at any time.
    earlier: Vec<LiveFile>,
    /// The file may have another use now: the next read looks for it again.
    is_stale: bool,
}

impl LiveBlocks {
    /// Opens the log of a datadir and reads its headers.
    pub fn open(datadir: &Path) -> Result<(Self, Headers)> {
        let live = Self { datadir: datadir.to_path_buf(), file: None, earlier: Vec::new(), is_stale: false };
        let headers = live.headers()?;
        Ok((live, headers))
    }

    /// Whether the header of the file read last says that the server makes changes without redo.
    pub fn is_disabled(&self) -> Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let header =
            read_up_to(&file.file, 0, LOG_FILE_HDR_SIZE).map_err(failed(&file.path, "reading the redo log"))?;
        let now = LogFile::parse(&header, file.parsed.size);
        Ok(now.is_ok_and(|now| now.start_lsn == file.parsed.start_lsn && now.is_logging_disabled()))
    }

    /// Reads the headers of all files. Retries, because the server may recycle files meanwhile.
    pub fn headers(&self) -> Result<Headers> {
        let mut tries = 1..TRIES;
        loop {
            match self.headers_now() {
                Ok(headers) => return Ok(headers),
                Err(why) if tries.next().is_none() => return refused(why),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn headers_now(&self) -> std::result::Result<Headers, String> {
        let dir = self.datadir.join(REDO_DIR);
        let paths = log_files(&self.datadir);
        let files: Vec<LiveFile> = paths.iter().filter_map(|path| LiveFile::open(path)).collect();
        let nothing = || format!("{}: there is no redo log in it", dir.display());
        let parsed: Vec<LogFile> = files.iter().map(|file| file.parsed.clone()).collect();
        if let Some(why) = parsed.last().and_then(|file| Maker::of(&file.creator)?.newer_than_tested()) {
            return Err(format!("{}: {why}, and archives no newer ones", dir.display()));
        }
        if parsed.iter().any(|file| file.format != FORMAT_MANY_FILES) {
            return Err(format!(
                "{}: a redo log of MySQL before 8.0.30, which innokit does not archive",
                dir.display()
            ));
        }
        let newest = parsed.iter().max_by_key(|file| file.start_lsn).ok_or_else(nothing)?;
        let oldest = parsed.iter().map(|file| file.start_lsn).min().ok_or_else(nothing)?;
        let place = newest_checkpoint(&parsed).map_err(|error: RedoError| format!("{}: {error}", dir.display()))?;
        let header = files.get(place.file).map(|file| file.header.clone()).unwrap_or_default();
        Ok(Headers {
            checkpoint: place.lsn,
            header,
            log_uuid: newest.log_uuid,
            oldest,
            newest: newest.start_lsn,
            end: newest.end_lsn(),
            capacity: sizes_in(&dir),
            is_disabled: newest.is_logging_disabled(),
        })
    }

    /// Reads up to `len` bytes from the block at `lsn` on, within one file; nothing if no file has it. At shutdown the server puts aside
    /// all files but the newest. A file put aside keeps its header and its blocks until it is reused.
    pub fn read(&mut self, lsn: Lsn, len: usize) -> Result<Vec<u8>> {
        let has = |file: &LiveFile| file.has(lsn);
        if self.is_stale || !self.file.as_ref().is_some_and(has) {
            let files = log_files(&self.datadir).into_iter().rev().chain(self.spare_files());
            let found = files.filter_map(|path| LiveFile::open(&path)).find(has);
            self.earlier.extend(self.file.take());
            if let Some(LiveFile { parsed: now, .. }) = &found {
                let is_other = |file: &LogFile| file.log_uuid == now.log_uuid && file.start_lsn != now.start_lsn;
                self.earlier.retain(|file| is_other(&file.parsed));
            }
            // A file that the server has removed meanwhile stays readable while it is open.
            let removed = || Some(self.earlier.swap_remove(self.earlier.iter().position(has)?));
            self.file = found.or_else(removed);
            self.is_stale = false;
        }
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let left = usize::try_from(file.parsed.end_lsn().0 - lsn.0).unwrap_or(usize::MAX);
        let offset = file.parsed.offset_of(lsn).unwrap_or(LOG_FILE_HDR_SIZE as u64);
        read_up_to(&file.file, offset, len.min(left)).map_err(failed(&file.path, "reading the redo log"))
    }

    /// The files that the server has put aside for later, under other names.
    fn spare_files(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let entries = std::fs::read_dir(self.datadir.join(REDO_DIR)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(SPARE))
    }

    /// Closes the files that are read and lie before `lsn`.
    pub fn close_before(&mut self, lsn: Lsn) {
        self.earlier.retain(|file| lsn < file.parsed.end_lsn());
    }

    /// Closes all files but the one that has the block at `lsn`: what the others hold may be another history's.
    pub fn close_all_but(&mut self, lsn: Lsn) {
        self.earlier.extend(self.file.take());
        self.earlier.retain(|file| file.has(lsn));
        self.is_stale = true;
    }

    /// Makes the next read look for the file again: the server may have put it to another use.
    pub fn forget(&mut self) {
        self.is_stale = true;
    }
}

/// The sizes of all log files, in use or spare.
fn sizes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_log = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("#ib_redo");
    let files = entries.filter(|entry| is_log(&entry.file_name()));
    files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Whether the datadir has a MySQL log. Refuses one from before 8.0.30.
pub(in crate::archive) fn is_mysql(datadir: &Path) -> Result<bool> {
    if datadir.join(REDO_DIR).is_folder_there() {
        return Ok(true);
    }
    let path = datadir.join(LOG);
    let Ok(file) = door::open_file(&path) else { return Ok(false) };
    let head = read_up_to(&file, 0, 4).map_err(failed(&path, "reading the redo log"))?;
    match redo::identify(&head) {
        Ok(LogVendor::MySql) => {
            refused(format!("{}: a redo log of MySQL before 8.0.30, which innokit does not archive", path.display()))
        }
        _ => Ok(false),
    }
}
