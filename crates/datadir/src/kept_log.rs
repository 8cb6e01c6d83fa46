//! The redo log that MariaDB 13.0 keeps as an archive ([`redo::archived`]): its files, read as one.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use format::Lsn;
use redo::archived::{FILE_ALIGNMENT, FILE_SIZE_MIN, Head, Newest, first_lsn, newest, stray_byte};
use redo::mariadb::{Format, LogFile, START_OFFSET};

use crate::files::{self, File};
use crate::reading::read_up_to;

/// Such logs are read only if they are not encrypted.
const FORMAT: Format = Format::Stream { encrypted: None };

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Where it is.
    pub path: PathBuf,
    /// The LSN of its first payload byte, by its name.
    pub first: Lsn,
    /// Its length in bytes.
    pub len: u64,
}

impl KeptFile {
    /// The file at `path`, if it has the name and the size of one.
    pub fn at(path: PathBuf, len: u64) -> Option<Self> {
        let first = first_lsn(path.file_name()?.to_str()?)?;
        let is_whole = len >= FILE_SIZE_MIN && len.is_multiple_of(FILE_ALIGNMENT);
        is_whole.then_some(Self { path, first, len })
    }

    /// Where the next file begins.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn(self.first.0.saturating_add(self.len.saturating_sub(START_OFFSET as u64)))
    }
}

/// The files that a server would read, in the order of their LSNs: the last ones that continue each other.
#[must_use]
pub fn last_run(mut found: Vec<KeptFile>) -> Vec<KeptFile> {
    found.sort_by_key(|file| file.first);
    let breaks = found.windows(2).rposition(|pair| matches!(pair, [one, next] if one.end() != next.first));
    found.split_off(breaks.map_or(0, |last| last + 1))
}

/// The files of such a log in a datadir; empty if it has none.
pub fn kept_files(datadir: &Path) -> Vec<KeptFile> {
    // Of a bucket only a datadir is listed: a listing of all that lies beside one object costs requests, and its empty prefixes count as folders.
    if files::is_remote(datadir) && !files::exists(datadir.join("ibdata1")) {
        return Vec::new();
    }
    let entries = files::read_dir(datadir).into_iter().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| first_lsn(name).is_some()));
    let found = named.filter_map(|entry| {
        let meta = files::metadata(entry.path()).ok().filter(files::Metadata::is_file)?;
        KeptFile::at(entry.path(), meta.len())
    });
    last_run(found.collect())
}

/// Whether the file has the header of a ring. A server that is interrupted while it changes `innodb_log_archive` leaves that in its last file,
/// and recovers it as the ring that it is.
pub fn is_ring(path: &Path) -> bool {
    let head = File::open(path).and_then(|file| Ok((read_up_to(&file, 0, START_OFFSET)?, file.metadata()?.len())));
    head.is_ok_and(|(header, len)| Head::read(&header, len) == Head::Ring)
}

/// Why a log kept as an archive cannot be read.
#[derive(Debug)]
pub enum KeptError {
    /// A file cannot be read: its index.
    Io(usize, io::Error),
    /// It is in a form that this build does not read.
    Unknown(usize, String),
    /// It is damaged.
    Damaged(usize, String),
}

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_, error) => error.fmt(f),
            Self::Unknown(_, why) | Self::Damaged(_, why) => f.write_str(why),
        }
    }
}

/// What is wrong with the list of checkpoints in a file's header although the log can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFault {
    /// The index of the file.
    pub file: usize,
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub why: String,
}

/// The log, opened.
#[derive(Debug)]
pub struct KeptLog {
    files: Vec<KeptFile>,
    handles: Vec<File>,
    /// Framing and checkpoint of all files as one.
    pub parsed: LogFile,
    /// The file whose header has the newest checkpoint, and how many checkpoints count there.
    pub listed: (usize, usize),
    /// What is wrong with other headers.
    pub faults: Vec<ListFault>,
}

impl KeptLog {
    /// Opens these files, which continue each other.
    ///
    /// # Errors
    /// [`KeptError`].
    pub fn open(files: Vec<KeptFile>) -> Result<Self, KeptError> {
        let mut handles = Vec::new();
        for (place, file) in files.iter().enumerate() {
            handles.push(File::open(&file.path).map_err(|error| KeptError::Io(place, error))?);
        }
        let Some(first) = files.first().map(|file| file.first) else {
            return Err(KeptError::Damaged(0, "there is no file of the redo log".to_owned()));
        };
        let mut log =
            Self { files, handles, parsed: LogFile::straight(FORMAT, first), listed: (0, 0), faults: Vec::new() };
        let (file, newest) = log.find_newest()?;
        if newest.checkpoint.lsn < first {
            let why = format!(
                "the newest checkpoint, at LSN {}, is in a file that is missing: the first one here begins at LSN {first}",
                newest.checkpoint.lsn
            );
            return Err(KeptError::Damaged(0, why));
        }
        log.parsed = LogFile::kept(FORMAT, first, newest.checkpoint, newest.first_marker);
        log.listed = (file, newest.entries);
        Ok(log)
    }

    /// The newest checkpoint, and the file with it. Like the server, looks at no file but the last two: a checkpoint is made in a new file before
    /// the next one is begun.
    fn find_newest(&mut self) -> Result<(usize, Newest), KeptError> {
        let mut last_fault = None;
        for place in (0..self.files.len()).rev().take(2) {
            let found = self.newest_in(place)?;
            match found {
                Ok(newest) => {
                    self.faults.extend(last_fault);
                    return Ok((place, newest));
                }
                Err(fault) => last_fault = fault.or(last_fault),
            }
        }
        let (place, why) = last_fault.map_or_else(
            || (self.files.len().saturating_sub(1), "the header names no checkpoint".to_owned()),
            |fault| (fault.file, fault.why),
        );
        Err(KeptError::Damaged(place, why))
    }

    /// The newest checkpoint that the header of a file names. If there is none: what is wrong with the header, unless it is as good as new.
    fn newest_in(&mut self, place: usize) -> Result<Result<Newest, Option<ListFault>>, KeptError> {
        let header = self.header(place).map_err(|error| KeptError::Io(place, error))?;
        let Some((first, len)) = self.files.get(place).map(|file| (file.first, file.len)) else { return Ok(Err(None)) };
        let fault = |offset: usize, why: String| ListFault { file: place, offset: offset as u64, why };
        let newest_of = |places: &[u64]| {
            newest(places, first, |lsn, len| self.read(lsn, len)).map_err(|error| KeptError::Io(place, error))
        };
        let unknown = |why: &str| Err(KeptError::Unknown(place, why.to_owned()));
        match Head::read(&header, len) {
            Head::Blank => Ok(Err(None)),
            Head::Encrypted => unknown(
                "an encrypted redo log that is kept as an archive (innodb_log_archive=ON), which this build does not read",
            ),
            Head::Preview(place) if newest_of(&[place])?.is_some() => {
                unknown("a redo log that a preview of MariaDB 13.0 kept as an archive, which this build does not read")
            }
            Head::Preview(_) | Head::Ring | Head::Unknown => {
                Ok(Err(Some(fault(0, "its header is neither a list of checkpoints nor empty".to_owned()))))
            }
            Head::List(places) => {
                let found = newest_of(&places)?;
                let counted = found.map_or(0, |newest| newest.entries);
                let offset = counted * redo::archived::SLOT_SIZE;
                let stray = (counted < places.len()).then_some(offset).or_else(|| stray_byte(&header, places.len()));
                let stray = stray.map(|at| {
                    let entry = at / redo::archived::SLOT_SIZE + 1;
                    fault(
                        at,
                        format!("entry {entry} of its list of checkpoints leads to no checkpoint: the list ends there"),
                    )
                });
                match found {
                    Some(newest) => {
                        self.faults.extend(stray);
                        Ok(Ok(newest))
                    }
                    None => Ok(Err(stray)),
                }
            }
        }
    }

    /// What is wrong with the lists of checkpoints in the files before the one with the newest checkpoint; and the first place that any list
    /// names, from which on the log can be read.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn older_lists(&mut self) -> Result<Lsn, KeptError> {
        let mut first = self.parsed.checkpoint.lsn.min(self.parsed.checkpoint.end_lsn);
        for place in (0..self.listed.0).rev() {
            let fault = match self.newest_in(place)? {
                Ok(_) => continue,
                // A server begins no file before it has made a checkpoint in the one before.
                Err(None) => {
                    Some(ListFault { file: place, offset: 0, why: "its header names no checkpoint".to_owned() })
                }
                Err(fault) => fault,
            };
            self.faults.extend(fault);
        }
        if let Some(place) = self.first_place() {
            first = first.min(place);
        }
        Ok(first)
    }

    /// The place of the first checkpoint in the first file.
    fn first_place(&self) -> Option<Lsn> {
        let (file, header) = (self.files.first()?, self.header(0).ok()?);
        let Head::List(places) = Head::read(&header, file.len) else { return None };
        let place = places.first()?.checked_sub(START_OFFSET as u64)?;
        Some(Lsn(file.first.0.saturating_add(place)))
    }

    fn header(&self, place: usize) -> io::Result<Vec<u8>> {
        self.handles.get(place).map_or_else(|| Ok(Vec::new()), |file| read_up_to(file, 0, START_OFFSET))
    }

    /// Its files, in log order.
    #[must_use]
    pub fn files(&self) -> &[KeptFile] {
        &self.files
    }

    /// The same, opened.
    #[must_use]
    pub fn handles(&self) -> &[File] {
        &self.handles
    }

    /// Where the last file ends.
    #[must_use]
    pub fn end_of_files(&self) -> Lsn {
        self.files.last().map_or(self.parsed.first_lsn, KeptFile::end)
    }

    /// The ranges of the files from `from` on, in log order.
    #[must_use]
    pub fn stretches(&self, from: Lsn) -> Vec<(usize, Range<u64>)> {
        let range = |file: &KeptFile| {
            let skipped = from.0.saturating_sub(file.first.0);
            (START_OFFSET as u64).saturating_add(skipped).min(file.len)..file.len
        };
        self.files.iter().map(range).enumerate().filter(|(_, range)| !range.is_empty()).collect()
    }

    /// The files that begin behind `end`, where the log's mini-transactions ended, and are in use all the same: a server makes a file before it
    /// is needed, and leaves it empty until then.
    ///
    /// # Errors
    /// A file cannot be read: its index.
    pub fn used_behind(&self, end: Lsn) -> Result<Vec<usize>, (usize, io::Error)> {
        let mut used = Vec::new();
        for (place, file) in self.files.iter().enumerate().filter(|(_, file)| file.first > end) {
            let first = self.read(file.first, 1).map_err(|error| (place, error))?;
            used.extend(first.first().filter(|byte| **byte > 1).map(|_| place));
        }
        Ok(used)
    }

    /// `len` bytes of the log from `lsn` on; fewer where the files end.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self, lsn: Lsn, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if lsn < self.parsed.first_lsn {
            return Ok(bytes);
        }
        for (file, range) in self.stretches(lsn) {
            let Some(handle) = self.handles.get(file).filter(|_| bytes.len() < len) else { break };
            let want = usize::try_from(range.end - range.start).unwrap_or(len).min(len - bytes.len());
            let piece = read_up_to(handle, range.start, want)?;
            let is_whole = piece.len() == want;
            bytes.extend(piece);
            if !is_whole {
                break;
            }
        }
        Ok(bytes)
    }
}
