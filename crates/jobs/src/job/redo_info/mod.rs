//! `redo info`: `path -> files of the log -> header, checkpoints -> mini-transactions -> records -> counts by type, tablespace, page`
//!
//! Read with plain calls: the log is one file that is read once, in the order in which it runs.

mod count;
pub mod report;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::keyring::KeyStore;
use format::page::checksum::crc32c;
use format::redo::log_key::LogKey;
use format::redo::mariadb::{self, Format};
use format::redo::mtr_reader::MtrReader;
use format::redo::verify_blocks::BlockVerifier;
use format::redo::{self, Kind, mysql, verify_mysql};
use format::{Lsn, redo::RedoError};

use self::count::Count;
use self::report::{CheckpointInfo, LogFileInfo, RedoInfo};
use crate::Error;
use crate::source::keys::KeyFiles;
use crate::source::read_up_to;
use crate::source::redo_log::log_files;

/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// Bytes around the checkpoint's record that prove a key.
const AT_CHECKPOINT: usize = 1 << 20;

/// How to describe a log.
#[derive(Clone, Debug, Default)]
pub struct RedoInfoOptions {
    /// Pages to list, the busiest first.
    pub pages_max: usize,
    /// Keys, where the log is encrypted.
    pub keys: KeyFiles,
}

/// Describes the log at `path`: a file of it, or the datadir that it lies in.
///
/// # Errors
/// What cannot be read, and what is no redo log. That a log ends early is no error.
pub fn redo_info(path: &Path, options: &RedoInfoOptions) -> Result<RedoInfo, Error> {
    let paths = if path.is_dir() { log_files(path) } else { vec![path.to_path_buf()] };
    let first = paths.first().ok_or_else(|| Error::Usage(format!("{}: there is no redo log", path.display())))?;
    let mut logs = Vec::new();
    for path in &paths {
        logs.push(Log::open(path)?);
    }
    let head = logs.first().map(|log| log.header.as_slice()).unwrap_or_default();
    match redo::identify(head).map_err(|error| no_log(first, &error))? {
        Kind::MySql => mysql_info(&logs),
        Kind::MariaDb => {
            let log = logs.first().ok_or(RedoError::NoCheckpoint).map_err(|error| no_log(first, &error))?;
            mariadb_info(log, options)
        }
    }
}

/// A file of a log.
struct Log {
    path: PathBuf,
    file: File,
    len: u64,
    /// Its first bytes.
    header: Vec<u8>,
}

impl Log {
    fn open(path: &Path) -> Result<Self, Error> {
        let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata.len())));
        let (file, len) = opened.map_err(|source| failed(path, source))?;
        let mut log = Self { path: path.to_path_buf(), file, len, header: Vec::new() };
        log.header = log.read(0, mariadb::START_OFFSET)?;
        Ok(log)
    }

    /// Up to `len` bytes at `offset`; fewer where the file ends.
    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
        read_up_to(&self.file, offset, len).map_err(|source| failed(&self.path, source))
    }

    /// Hands the bytes of the stretch to `take`, in pieces, until that has enough.
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

fn no_log(path: &Path, error: &dyn std::error::Error) -> Error {
    Error::Usage(format!("{}: {error}", path.display()))
}

/// What a MariaDB log says, from its header to its last record.
fn mariadb_info(log: &Log, options: &RedoInfoOptions) -> Result<RedoInfo, Error> {
    let file = mariadb::LogFile::parse(&log.header, log.len).map_err(|error| no_log(&log.path, &error))?;
    let start = file.payload_start();
    let place = |lsn| MtrReader::place(&file, lsn).filter(|&offset| offset < log.len);
    let outside = || no_log(&log.path, &RedoError::NoCheckpoint);
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
            count.add(&mtr, is_readable).map_err(|error| no_log(&log.path, &error))?;
        }
        Ok(!reader.has_ended())
    };
    log.pieces(from, log.len - from, &mut take)?;
    log.pieces(start, from - start, &mut take)?;
    info.settle(reader.at(), file.state_with(&at_checkpoint, key.as_ref()));
    if !is_readable {
        info.note = Some("the log is encrypted, and no key was given: its records cannot be told apart".to_owned());
    }
    count.report(&mut info, options.pages_max, is_readable);
    Ok(info)
}

/// The key of the log. None given is no error: the rest of the log can be described without.
fn unlock(log: &Log, file: &mariadb::LogFile, keys: &KeyStore, at: &[u8]) -> Result<Option<LogKey>, Error> {
    if keys.is_empty() {
        return Ok(None);
    }
    LogKey::unlock(file, &log.header, keys, at).map_err(|error| no_log(&log.path, &error))
}

const fn mariadb_format(format: Format) -> &'static str {
    match format {
        Format::Blocks { .. } => "10.5 to 10.7",
        Format::Stream { .. } => "10.8 and later",
    }
}

/// Text that ends with the first zero.
fn creator(header: &[u8], at: usize) -> String {
    let field = header.get(at..at + 32).unwrap_or_default();
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end).unwrap_or_default()).trim_end().to_owned()
}

/// The checkpoint in the slot that is overwritten next, in the format of 10.8 and later.
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

/// What a MySQL log says, as far as it is made of blocks; its records are not described.
fn mysql_info(logs: &[Log]) -> Result<RedoInfo, Error> {
    let mut parsed = Vec::new();
    let mut used = Vec::new();
    for log in logs {
        // Spare files have no header yet.
        if let Ok(file) = mysql::LogFile::parse(&log.header, log.len) {
            parsed.push(file);
            used.push(log);
        }
    }
    let path = logs.first().map(|log| log.path.as_path()).unwrap_or(Path::new(""));
    let plan = verify_mysql::plan(&parsed).map_err(|error| no_log(path, &error))?;
    let newest = parsed.iter().max_by_key(|file| file.start_lsn).ok_or(RedoError::NoCheckpoint);
    let newest = newest.map_err(|error| no_log(path, &error))?;
    let files = used.iter().zip(&parsed);
    let mut info = RedoInfo {
        family: "MySQL",
        format: if newest.format >= 6 { "8.0.30 and later" } else { "up to 8.0.29" },
        creator: newest.creator.trim_end().to_owned(),
        files: files.map(|(log, file)| LogFileInfo::new(&log.path, log.len, file.start_lsn)).collect(),
        checkpoint: CheckpointInfo { lsn: plan.checkpoint.0, end_lsn: None },
        note: Some("records of MySQL's redo log are not told apart".to_owned()),
        ..RedoInfo::default()
    };
    let (end, encrypted) = mysql_end(&used, &plan.segments, plan.verifier)?;
    info.encrypted = encrypted;
    let place = mysql::newest_checkpoint(&parsed).map_err(|error| no_log(path, &error))?;
    let at_checkpoint = used.get(place.file).map(|log| log.read(place.offset, mysql::CHECKPOINT_READ_SIZE));
    info.settle(end, mysql::state(&place, &at_checkpoint.transpose()?.unwrap_or_default()));
    Ok(info)
}

/// Where the log ends, and whether blocks of it are encrypted.
fn mysql_end(
    logs: &[&Log],
    segments: &[verify_mysql::Segment],
    mut verifier: BlockVerifier,
) -> Result<(Lsn, bool), Error> {
    let mut take = |mut piece: &[u8]| {
        // Damage is what `check` tells of; here it is where the log ends.
        while verifier.next_damage(&mut piece).is_some() {}
        Ok(true)
    };
    for segment in segments {
        if let Some(log) = logs.get(segment.file) {
            log.pieces(segment.offset, segment.len, &mut take)?;
        }
    }
    let (_, summary) = verifier.finish();
    Ok((summary.end, summary.unverifiable > 0))
}
