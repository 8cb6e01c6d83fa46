//! Has the redo log of a copied datadir kept as an archive, as MariaDB 13.0 with `innodb_log_archive=ON` would: by its sources
//! (`redo::archived` names them), for no registry has that server.
#![allow(dead_code, reason = "not every suite uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};

use redo::follow::Walk;
use redo::mariadb::LogFile;

/// `log_t::START_OFFSET` (`log0log.h`).
pub const START: u64 = 12_288;
/// `log_t::FILE_SIZE_MIN` (`log0log.h`).
pub const FILE_SIZE: u64 = 4 << 20;
/// `log_t::capacity()` (`log0log.h`).
pub const CAPACITY: u64 = FILE_SIZE - START;

/// A log that is kept as an archive.
pub struct Kept {
    /// Its files. If the first has all of the log, another is there before it is needed.
    pub files: Vec<PathBuf>,
    /// Where the file after them would begin.
    pub next: u64,
    pub checkpoint: u64,
    pub end: u64,
}

/// Replaces `ib_logfile0` of a datadir by files that begin `before` bytes before its checkpoint.
pub fn keep(datadir: &Path, before: u64) -> Kept {
    let path = datadir.join("ib_logfile0");
    let ring = fs::read(&path).expect("readable");
    let parsed = LogFile::parse(&ring[..START as usize], ring.len() as u64).expect("a log");
    let checkpoint = parsed.checkpoint;
    let at = parsed.offset_of(checkpoint.lsn).expect("in the ring") as usize;
    let mut log = [&ring[at..], &ring[START as usize..at]].concat();
    let walk = Walk::over(&parsed, checkpoint.lsn, &log);
    log.truncate((walk.end().0 - checkpoint.lsn.0) as usize);
    // Such a server writes one marker only.
    let len = log.len();
    walk.straighten(&mut log, len);
    fs::remove_file(&path).expect("removed");
    let (from, end) = (checkpoint.lsn.0, walk.end().0);
    let mut first = from - before;
    let mut files = Vec::new();
    while first <= end {
        let mut bytes = vec![0; FILE_SIZE as usize];
        let here = first.max(from)..end.min(first + CAPACITY);
        let to = (START + here.start - first) as usize;
        let piece = &log[(here.start - from) as usize..(here.end - from) as usize];
        bytes[to..to + piece.len()].copy_from_slice(piece);
        if (first..first + CAPACITY).contains(&checkpoint.end_lsn.0) {
            bytes[..8].copy_from_slice(&(START + checkpoint.end_lsn.0 - first).to_be_bytes());
        }
        files.push(write(datadir, first, &bytes));
        first += CAPACITY;
    }
    // A server makes no file before it has made a checkpoint in the one before (`log_t::archive_create`).
    if files.len() == 1 {
        files.push(write(datadir, first, &vec![0; FILE_SIZE as usize]));
        first += CAPACITY;
    }
    Kept { files, next: first, checkpoint: from, end }
}

fn write(datadir: &Path, first: u64, bytes: &[u8]) -> PathBuf {
    let path = datadir.join(format!("ib_{first:016x}.log"));
    fs::write(&path, bytes).expect("written");
    path
}
