//! `redo info`: `path -> log files -> header, checkpoints -> mini-transactions -> records -> counts by type, tablespace, page`
//!
//! Uses plain reads: the log is read once, front to back.

mod count;
pub mod report;
mod wanted;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::bytes::be;
use format::checksum::crc32c;
use format::keyring::KeyStore;
use redo::log_key::LogKey;
use redo::mariadb::{self, Format};
use redo::mtr_reader::MtrReader;
use redo::{LogVendor, RedoError, mysql};

use self::count::Count;
use self::report::{CheckpointInfo, LogFileInfo, RedoInfo};
use self::wanted::Wanted;
use datadir::files::AskPath;
use datadir::kept_log::{KeptError, KeptFile, KeptLog, kept_files};
use datadir::keys::KeyFiles;
use datadir::mysql_log::MySqlLog;
use datadir::open::open_file;
use datadir::reading::read_up_to;
use datadir::redo_log::{is_kept_file, log_files};
use datadir::selection::Selection;
use datadir::{Error, fault};

/// Bytes per read.
const PIECE: usize = 1 << 20;
/// Bytes of log, from the checkpoint's record on, that prove a key.
const AT_CHECKPOINT: usize = 1 << 20;

/// How to describe a log.
#[derive(Clone, Debug, Default)]
pub struct RedoInfoOptions {
    /// Pages to list, busiest first.
    pub pages_max: usize,
    /// Keys for an encrypted log.
    pub keys: KeyFiles,
    /// Only the tablespaces of these tables.
    pub selection: Selection,
}

/// Describes the log at `path`: one of its files, or its datadir.
///
/// # Errors
/// [`Error`]: a file cannot be read, or is not a redo log. A log that ends early is not an error.
pub fn redo_info(path: &Path, options: &RedoInfoOptions) -> Result<RedoInfo, Error> {
    let info = info_of(path, options)?;
    fault::refuse_unread()?;
    Ok(info)
}

fn info_of(path: &Path, options: &RedoInfoOptions) -> Result<RedoInfo, Error> {
    let paths = if path.is_folder_there() { log_files(path) } else { vec![path.to_path_buf()] };
    let nothing = || Error::Unusable { path: path.to_path_buf(), why: "there is no redo log".to_owned() };
    let first = paths.first().ok_or_else(nothing)?;
    if is_kept_file(first) {
        let log = kept_log(path, first)?;
        return kept_info(&log, (options, Wanted::of(path, &options.selection).as_ref()));
    }
    let mut logs = Vec::new();
    for path in &paths {
        logs.push(Log::open(path)?);
    }
    let head = logs.first().map(|log| log.header.as_slice()).unwrap_or_default();
    let wanted = Wanted::of(path, &options.selection);
    match redo::identify(head).map_err(|error| Error::redo_log(first, error))? {
        LogVendor::MySql => mysql_info(&paths, (options, wanted.as_ref())),
        LogVendor::MariaDb => {
            let log = logs.first().ok_or(RedoError::NoCheckpoint).map_err(|error| Error::redo_log(first, error))?;
            mariadb_info(log, (options, wanted.as_ref()))
        }
    }
}

/// A log file.
struct Log {
    path: PathBuf,
    file: File,
    len: u64,
    /// Its first bytes.
    header: Vec<u8>,
}

impl Log {
    fn open(path: &Path) -> Result<Self, Error> {
        let opened = open_file(path).and_then(|file| file.metadata().map(|metadata| (file, metadata.len())));
        let (file, len) = opened.map_err(|source| failed(path, source))?;
        let mut log = Self { path: path.to_path_buf(), file, len, header: Vec::new() };
        log.header = log.read(0, mariadb::START_OFFSET)?;
        Ok(log)
    }

    /// `len` bytes at `offset`, fewer if the file ends before.
    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        read_up_to(&self.file, offset, len).map_err(|source| failed(&self.path, source))
    }

    /// Passes the bytes of the range to `take`, in pieces, until it returns `false`.
    fn pieces(&self, offset: u64, len: u64, take: &mut dyn FnMut(&[u8]) -> Result<bool, Error>) -> Result<(), Error> {
        let mut done = 0;
        while done < len {
            let piece = self.read(offset + done, usize::try_from(len - done).unwrap_or(PIECE).min(PIECE))?;
            if piece.is_empty() || !take(&piece)? {
                break;
            }
            done += piece.len() as u64;
        }
        Ok(())
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_path_buf(), action: "reading the redo log", source }
}

/// Describes a MariaDB log, from its header to its last record.
fn mariadb_info(log: &Log, (options, wanted): (&RedoInfoOptions, Option<&Wanted>)) -> Result<RedoInfo, Error> {
    let file = mariadb::LogFile::parse(&log.header, log.len).map_err(|error| Error::redo_log(&log.path, error))?;
    let start = file.payload_start();
    let place = |lsn| MtrReader::place(&file, lsn).filter(|&offset| offset < log.len);
    let outside = || Error::redo_log(&log.path, RedoError::NoCheckpoint);
    let (at_end, from) = (place(file.checkpoint.end_lsn), place(file.checkpoint.lsn));
    let (at_end, from) = (at_end.ok_or_else(outside)?, from.ok_or_else(outside)?);
    let mut info = RedoInfo {
        family: "MariaDB",
        format: mariadb_format(file.format),
        encrypted: !matches!(file.format, Format::Blocks { encrypted: false } | Format::Stream { encrypted: None }),
        creator: creator(&log.header, mariadb::LOG_HEADER_CREATOR),
        files: vec![LogFileInfo::new(&log.path, log.len, file.first_lsn)],
        capacity: Some(log.len - start),
        checkpoint: CheckpointInfo { lsn: file.checkpoint.lsn.0, end_lsn: Some(file.checkpoint.end_lsn.0) },
        older_checkpoint: older_checkpoint(&log.header, &file),
        ..RedoInfo::default()
    };
    let keys = options.keys.read()?;
    let mut at_checkpoint = log.read(at_end, AT_CHECKPOINT)?;
    let missing = AT_CHECKPOINT - at_checkpoint.len();
    at_checkpoint.extend(log.read(start, missing.min(usize::try_from(at_end - start).unwrap_or(0)))?);
    let key = unlock(log, &file, &keys, &at_checkpoint)?;
    let is_readable = key.is_some() || !info.encrypted;
    let mut reader = MtrReader::new(&file, key.clone(), file.checkpoint.lsn);
    let mut count = Count::default();
    let mut take = |mut piece: &[u8]| {
        while let Some(mtr) = reader.next_mtr(&mut piece) {
            count.add(&mtr, is_readable).map_err(|error| Error::redo_log(&log.path, error))?;
        }
        Ok(!reader.has_ended())
    };
    log.pieces(from, log.len - from, &mut take)?;
    log.pieces(start, from - start, &mut take)?;
    info.settle(reader.at(), file.state_with(&at_checkpoint, key.as_ref()));
    if !is_readable {
        info.note = Some("the log is encrypted, and no key was given: its records cannot be read".to_owned());
    }
    count.report(&mut info, (options.pages_max, wanted), is_readable);
    Ok(info)
}

/// The log kept as an archive in the datadir `path`, or that with the file `first`.
fn kept_log(path: &Path, first: &Path) -> Result<KeptLog, Error> {
    let dir = if path.is_folder_there() { path } else { first.parent().unwrap_or(Path::new("")) };
    let mut files = kept_files(dir);
    if !files.iter().any(|file| file.path == first) {
        let len = open_file(first).and_then(|file| file.metadata()).map_err(|source| failed(first, source))?.len();
        files = KeptFile::at(first.to_path_buf(), len).into_iter().collect();
    }
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
    let at = |place: usize| paths.get(place).cloned().unwrap_or_else(|| first.to_path_buf());
    KeptLog::open(files).map_err(|error| match error {
        KeptError::Io(place, source) => failed(&at(place), source),
        KeptError::Unknown(place, why) | KeptError::Damaged(place, why) => Error::Unusable { path: at(place), why },
    })
}

/// Describes a log of MariaDB that is kept as an archive, from its checkpoint to its last record.
fn kept_info(log: &KeptLog, (options, wanted): (&RedoInfoOptions, Option<&Wanted>)) -> Result<RedoInfo, Error> {
    let path = log.files().get(log.listed.0).map_or(Path::new(""), |file| file.path.as_path());
    let checkpoint = log.parsed.checkpoint;
    let mut info = RedoInfo {
        family: "MariaDB",
        format: "13.0, kept as an archive",
        files: log.files().iter().map(|file| LogFileInfo::new(&file.path, file.len, file.first)).collect(),
        checkpoint: CheckpointInfo { lsn: checkpoint.lsn.0, end_lsn: Some(checkpoint.end_lsn.0) },
        ..RedoInfo::default()
    };
    let (mut reader, mut count) = (MtrReader::new(&log.parsed, None, checkpoint.lsn), Count::default());
    let mut at = checkpoint.lsn;
    loop {
        let piece = log.read(at, PIECE).map_err(|source| failed(path, source))?;
        at = Lsn(at.0.saturating_add(piece.len() as u64));
        let mut rest = piece.as_slice();
        while let Some(mtr) = reader.next_mtr(&mut rest) {
            count.add(&mtr, true).map_err(|error| Error::redo_log(path, error))?;
        }
        if piece.is_empty() || reader.has_ended() {
            break;
        }
    }
    let at_checkpoint = log.read(checkpoint.end_lsn, AT_CHECKPOINT).map_err(|source| failed(path, source))?;
    info.settle(reader.at(), log.parsed.state(&at_checkpoint));
    count.report(&mut info, (options.pages_max, wanted), true);
    Ok(info)
}

/// The key of the log. A missing key is not an error: everything but the records can still be described.
fn unlock(log: &Log, file: &mariadb::LogFile, keys: &KeyStore, at: &[u8]) -> Result<Option<LogKey>, Error> {
    if keys.is_empty() {
        return Ok(None);
    }
    LogKey::unlock(file, &log.header, keys, at).map_err(|error| Error::redo_log(&log.path, error))
}

const fn mariadb_format(format: Format) -> &'static str {
    match format {
        Format::Blocks { .. } => "10.5 to 10.7",
        Format::Stream { .. } => "10.8 and later",
    }
}

/// Text up to the first zero.
fn creator(header: &[u8], at: usize) -> String {
    let field = header.get(at..at + 32).unwrap_or_default();
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end).unwrap_or_default()).trim_end().to_owned()
}

/// The checkpoint in the slot to be overwritten next, in the format of 10.8 and later.
fn older_checkpoint(header: &[u8], file: &mariadb::LogFile) -> Option<CheckpointInfo> {
    if matches!(file.format, Format::Blocks { .. }) {
        return None;
    }
    let mut slots = [mariadb::CHECKPOINT_1, mariadb::CHECKPOINT_2].into_iter().filter_map(|at| {
        let slot = header.get(at..at + mariadb::CHECKPOINT_CHECKSUM + 4)?;
        let is_sound =
            be::u32_at(slot, mariadb::CHECKPOINT_CHECKSUM)? == crc32c(slot.get(..mariadb::CHECKPOINT_CHECKSUM)?);
        let lsn = be::u64_at(slot, mariadb::CHECKPOINT_LSN)?;
        let end_lsn = be::u64_at(slot, mariadb::CHECKPOINT_END_LSN);
        (is_sound && lsn < file.checkpoint.lsn.0 && lsn != 0).then_some(CheckpointInfo { lsn, end_lsn })
    });
    slots.next()
}

/// Describes a MySQL log, from its headers to its last record.
fn mysql_info(paths: &[PathBuf], (options, wanted): (&RedoInfoOptions, Option<&Wanted>)) -> Result<RedoInfo, Error> {
    let log = MySqlLog::open(paths, &options.keys.read()?)?;
    let path = paths.first().map_or(Path::new(""), PathBuf::as_path);
    let newest = log.newest().ok_or(RedoError::NoCheckpoint).map_err(|error| Error::redo_log(path, error))?;
    let files = log.files.iter();
    let mut info = RedoInfo {
        family: "MySQL",
        format: if newest.parsed.format >= mysql::FORMAT_MANY_FILES { "8.0.30 and later" } else { "up to 8.0.29" },
        creator: newest.parsed.creator.trim_end().to_owned(),
        files: files.map(|file| LogFileInfo::new(&file.path, file.parsed.size, file.parsed.start_lsn)).collect(),
        checkpoint: CheckpointInfo { lsn: log.checkpoint_lsn().0, end_lsn: None },
        ..RedoInfo::default()
    };
    let (mut reader, mut count) = (log.reader(), Count::default());
    log.feed(&mut reader, &log.stretches, u64::MAX, |file, mtr| {
        count.add(mtr, true).map_err(|error| Error::redo_log(&file.path, error))
    })?;
    let at_checkpoint = log.at_checkpoint(mysql::CHECKPOINT_READ_SIZE).map_err(|source| failed(path, source))?;
    info.encrypted = reader.met_encrypted();
    info.settle(reader.at(), mysql::state(&log.checkpoint, &at_checkpoint));
    info.note = if reader.lacks_key() {
        Some(
            "the log is encrypted from there on, and no key was given that fits: its records cannot be read".to_owned(),
        )
    } else {
        reader.fault().map(|fault| format!("the log ends there in bytes that make no sense: {fault}"))
    };
    count.report(&mut info, (options.pages_max, wanted), true);
    Ok(info)
}
