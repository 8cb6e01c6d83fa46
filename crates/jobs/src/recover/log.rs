//! The redo log of a datadir: read from its checkpoint on, and closed when all of it is in the data files. What the two vendors' logs have
//! in common is here, and which one it is matters nowhere else.

mod mariadb;
mod mtr_source;
mod mysql;
mod scan;
mod verify;

use std::ops::Range;
use std::path::{Path, PathBuf};

use flow::queue::sim::SimTime;
use flow::{FileId, FileSet, IoMode, ReadOptions};
use format::Lsn;
use format::codec::CipherMode;
use format::keyring::KeyStore;
use redo::mtr_reader::MtrReader;
use redo::record::Grammar;

pub(super) use self::mariadb::MariaDbLog;
use self::mtr_source::MtrSource;
pub(super) use self::mysql::{MySqlRedo, TableStates};
pub(super) use self::scan::{Scan, Scanned, file_record};
use super::backup::Backup;
use super::error::Result;
use super::outside::Outside;
use super::tuning::Tuning;
use crate::source::redo_log::REDO_DIR;

/// The log of a datadir.
#[derive(Debug)]
pub(super) struct RedoLog {
    /// Its first file.
    pub path: PathBuf,
    /// Its files, to be read ahead.
    files: FileSet,
    /// How to do that.
    options: ReadOptions,
    /// The device, if it is not the files' own.
    clock: Option<SimTime>,
    /// What names mean that lead out of the datadir.
    pub outside: Outside,
    pub vendor: Vendor,
    /// The backup to which it belongs, if that is not prepared yet.
    pub backup: Option<Backup>,
}

/// Whose log it is.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a recovery: a box would save nothing")]
pub(super) enum Vendor {
    /// MariaDB 10.5 or later.
    MariaDb(MariaDbLog),
    /// MySQL 8.0.30 or later.
    MySql(MySqlRedo),
}

impl RedoLog {
    /// Opens the log of a datadir; `for_writing` if it is to be closed.
    pub fn open(datadir: &Path, for_writing: bool, keys: &KeyStore) -> Result<Self> {
        let vendor = if datadir.join(REDO_DIR).is_dir() {
            Vendor::MySql(MySqlRedo::open(datadir, keys)?)
        } else {
            Vendor::MariaDb(MariaDbLog::open(datadir, for_writing, keys)?)
        };
        let files = match &vendor {
            Vendor::MariaDb(log) => vec![(log.path.clone(), log.parsed.size)],
            Vendor::MySql(log) => log.files(),
        };
        let path = files.first().map_or_else(|| datadir.to_path_buf(), |(path, _)| path.clone());
        let backup = match &vendor {
            Vendor::MariaDb(log) => Backup::of(datadir, &log.header),
            Vendor::MySql(_) => None,
        };
        // What the log of a backup names elsewhere is the server's that was backed up.
        let outside = if backup.is_some() { Outside::MovedIn } else { Outside::of(datadir) };
        let (files, options) = (FileSet::new(files), ReadOptions::default());
        Ok(Self { path, files, options, clock: None, outside, vendor, backup }.tuned(&Tuning::default()))
    }

    /// How many requests of that size to keep in flight.
    pub fn tuned(mut self, tuning: &Tuning) -> Self {
        self.options.block_size = tuning.log_block;
        self.options.depth = tuning.log_ahead;
        self
    }

    /// To be read on another device than its file's, of which this log is the first file.
    pub fn on_clock(mut self, clock: &SimTime) -> Self {
        (self.files, self.clock, self.options.io) = (clock.file_set(), Some(clock.clone()), IoMode::Direct);
        self
    }

    /// Its newest checkpoint.
    pub const fn checkpoint(&self) -> Lsn {
        match &self.vendor {
            Vendor::MariaDb(log) => log.parsed.checkpoint.lsn,
            Vendor::MySql(log) => log.log.checkpoint.lsn,
        }
    }

    /// Where the log ended when that was made, if the log tells.
    pub const fn checkpoint_end(&self) -> Lsn {
        match &self.vendor {
            Vendor::MariaDb(log) => log.parsed.checkpoint.end_lsn,
            Vendor::MySql(log) => log.log.checkpoint.lsn,
        }
    }

    /// How its records are written.
    pub const fn grammar(&self) -> Grammar {
        match &self.vendor {
            Vendor::MariaDb(_) => Grammar::MariaDb,
            Vendor::MySql(_) => Grammar::MySql,
        }
    }

    /// Where the copy of a log ends whose mini-transactions end at `end`: blocks are copied as they are, and the last mini-transaction may
    /// not have been whole then, on which no page depends.
    pub fn copied_to(&self, end: Lsn) -> Lsn {
        match &self.vendor {
            Vendor::MariaDb(log) if log.is_of_blocks() => log.copied_to(),
            _ => end,
        }
    }

    /// In which mode the server encrypts, if the log tells.
    pub fn cipher_mode(&self) -> Option<CipherMode> {
        match &self.vendor {
            Vendor::MariaDb(log) => log.cipher_mode(),
            Vendor::MySql(_) => None,
        }
    }

    /// Whether the server reads in the system tablespace how far everything is flushed: MariaDB before 10.8, and MySQL.
    pub fn has_flush_lsn(&self) -> bool {
        match &self.vendor {
            Vendor::MariaDb(log) => log.is_of_blocks(),
            Vendor::MySql(_) => true,
        }
    }

    /// Where its bytes lie, beginning at its checkpoint.
    fn stretches(&self) -> Vec<(FileId, Range<u64>)> {
        match &self.vendor {
            Vendor::MariaDb(log) => log.lap().into_iter().map(|stretch| (FileId(0), stretch)).collect(),
            Vendor::MySql(log) => log.stretches(),
        }
    }

    fn reader(&self) -> MtrSource {
        match &self.vendor {
            Vendor::MariaDb(log) => {
                MtrSource::MariaDb(MtrReader::new(&log.parsed, log.key.clone(), log.parsed.checkpoint.lsn))
            }
            Vendor::MySql(log) => MtrSource::MySql(log.reader()),
        }
    }

    /// Fails if blocks are damaged that are needed. A log that is no sequence of blocks is checked where it ends.
    pub fn check(&self) -> Result<()> {
        match &self.vendor {
            Vendor::MariaDb(log) if log.is_of_blocks() => log.check(),
            Vendor::MariaDb(_) => Ok(()),
            Vendor::MySql(log) => log.check(),
        }
    }

    /// Fails if the log goes on behind `end`, where its mini-transactions ended: then it is damaged there.
    pub fn check_end(&self, end: Lsn) -> Result<()> {
        match &self.vendor {
            Vendor::MariaDb(log) if !log.is_of_blocks() => log.check_end(end),
            _ => Ok(()),
        }
    }
}
