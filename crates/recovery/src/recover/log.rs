//! A datadir's redo log: read from its checkpoint on, and closed once the data files contain all its redo. This file has what both vendors'
//! logs have in common, so that the rest of the recovery need not know the vendor.

mod archived;
mod archived_mysql;
mod hole;
mod kept;
mod mariadb;
mod mtr_source;
mod mysql;
pub(super) mod new_log;
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

use self::archived::{Archived, BaseLog, COMPARED};
use self::archived_mysql::ArchivedEnd;
pub(super) use self::kept::create as create_kept;
pub(super) use self::mariadb::MariaDbLog;
use self::mtr_source::MtrSource;
pub(super) use self::mysql::{MySqlRedo, TableStates};
pub(super) use self::scan::{Scan, Scanned, file_record};
use crate::archive::History;
use crate::manifest;
use crate::recover::error::{RecoverError, Result, damaged, refused};
use crate::recover::foreign::backup::Backup;
use crate::recover::options::tuning::Tuning;
use crate::recover::place::outside::Outside;
use datadir::files::AskPath;
use datadir::known_servers::Maker;
use datadir::log_name::REDO_DIR;
use datadir::redo_log::{copied_log, has_mysql_ring};

/// The log of a datadir.
#[derive(Debug)]
pub(super) struct RedoLog {
    /// Its first file.
    pub path: PathBuf,
    /// Its files, for reading ahead.
    files: FileSet,
    /// How to read ahead.
    options: ReadOptions,
    /// The simulated device, if the files are on one.
    clock: Option<SimTime>,
    /// The meaning of names that lead outside the datadir.
    pub outside: Outside,
    pub vendor: LogVendor,
    /// The unprepared backup that the log belongs to, if any.
    pub backup: Option<Backup>,
    /// The LSN that a backup of innokit reaches according to its manifest.
    set_end: Option<Lsn>,
    /// The AES mode that a backup of innokit notes.
    set_cipher: Option<CipherMode>,
}

/// The log's vendor.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a recovery: a box would save nothing")]
pub(super) enum LogVendor {
    /// MariaDB 10.5 or later.
    MariaDb(MariaDbLog),
    /// MySQL 8.0.3 or later.
    MySql(MySqlRedo),
}

impl LogVendor {
    fn maker(&self) -> Option<Maker> {
        match self {
            Self::MariaDb(log) => Maker::of_log(&log.header),
            Self::MySql(log) => log.maker(),
        }
    }
}

impl RedoLog {
    /// Opens a datadir's log; `for_writing` if it will be closed.
    pub fn open(datadir: &Path, for_writing: bool, keys: &KeyStore) -> Result<Self> {
        let is_mysql =
            datadir.join(REDO_DIR).is_folder_there() || copied_log(datadir).is_some() || has_mysql_ring(datadir);
        let vendor = if is_mysql {
            LogVendor::MySql(MySqlRedo::open(datadir, keys)?)
        } else {
            LogVendor::MariaDb(MariaDbLog::open(datadir, for_writing, keys)?)
        };
        let files = match &vendor {
            LogVendor::MariaDb(MariaDbLog { kept: Some(kept), .. }) => kept.paths(),
            LogVendor::MariaDb(log) => vec![(log.path.clone(), log.parsed.size)],
            LogVendor::MySql(log) => log.files(),
        };
        let path = match &vendor {
            LogVendor::MariaDb(log) => log.path.clone(),
            LogVendor::MySql(_) => files.first().map_or_else(|| datadir.to_path_buf(), |(path, _)| path.clone()),
        };
        let of_datadir = || Maker::of_datadir(datadir);
        let maker = vendor.maker().filter(|maker| maker.newer().is_some()).map(|maker| (path.clone(), maker));
        if let Some((path, why)) = maker.or_else(of_datadir).and_then(|(path, maker)| Some((path, maker.newer()?))) {
            return refused(format!("{}: {why}, and writes nothing of newer ones", path.display()));
        }
        let backup = match &vendor {
            LogVendor::MariaDb(log) => Backup::of(datadir, &log.header),
            LogVendor::MySql(log) if log.is_copy() => Backup::of_copy(datadir),
            LogVendor::MySql(_) => None,
        };
        // A name in a backup's log that leads elsewhere belongs to the original server.
        let outside = if backup.is_some() { Outside::MovedIn } else { Outside::of(datadir) };
        let (files, options) = (FileSet::new(files), ReadOptions::default());
        let (set_end, set_cipher) = (manifest::reaches(datadir), manifest::cipher(datadir));
        Ok(Self { path, files, options, clock: None, outside, vendor, backup, set_end, set_cipher }
            .tuned(&Tuning::default()))
    }

    /// Whether xtrabackup copied the log.
    pub fn is_of_xtrabackup(&self) -> bool {
        matches!(&self.vendor, LogVendor::MySql(log) if log.is_copy())
    }

    /// Whether this is the log of MySQL before 8.0.30.
    pub fn is_mysql_ring(&self) -> bool {
        matches!(&self.vendor, LogVendor::MySql(log) if log.is_ring())
    }

    /// Whether this is the log with which innokit closed a backup of xtrabackup, not yet used by a server.
    pub fn closes_copy(&self) -> bool {
        matches!(&self.vendor, LogVendor::MySql(log) if log.closes_copy())
    }

    /// Reads the segments of a redo archive from the checkpoint on instead of the datadir's own log, only those of `timeline` if one is
    /// given.
    pub fn with_archive(mut self, dir: Option<&Path>, timeline: Option<u32>) -> Result<Self> {
        let Some(dir) = dir else { return Ok(self) };
        // Padding behind the last mini-transaction does not count: an archive need not have it.
        let mut base_end = self.checkpoint();
        self.scan(None, |scan| {
            scan.run(&mut |scanned| {
                base_end = scanned.mtr.end;
                Ok(true)
            })
        })?;
        let log = match &mut self.vendor {
            LogVendor::MariaDb(log) => log,
            LogVendor::MySql(log) if log.is_copy() => {
                return refused(
                    "a backup of xtrabackup cannot be continued by an archive of the redo log: take one with innokit backup",
                );
            }
            LogVendor::MySql(_) => return self.with_archived_blocks(dir, base_end, timeline),
        };
        if log.is_of_blocks() {
            return refused("the base copy is of MariaDB 10.5 to 10.7, whose log is not archived: leave out --redo");
        }
        let start = log.read(log.parsed.checkpoint.lsn, COMPARED)?;
        let base = BaseLog { parsed: &log.parsed, header: &log.header, start, end: base_end };
        let archived = Archived::find(dir, &base, timeline)?;
        self.files = FileSet::new(archived.files()?);
        log.parsed = archived.as_log(&log.parsed);
        log.archived = Some(archived);
        Ok(self)
    }

    fn with_archived_blocks(self, dir: &Path, base_end: Lsn, timeline: Option<u32>) -> Result<Self> {
        let LogVendor::MySql(log) = self.vendor else {
            return Err(RecoverError::Internal("the log is not one of MySQL"));
        };
        let log = log.with_archive(dir, base_end, timeline)?;
        let files = FileSet::new(log.files());
        Ok(Self { files, vendor: LogVendor::MySql(log), ..self })
    }

    /// Fails if the log is an archive that ends at `end`, before the base copy's own log does, or before `until`, or before its own end.
    pub fn check_archive_end(&self, end: Lsn, until: Option<Lsn>) -> Result<()> {
        let hole = match &self.vendor {
            LogVendor::MariaDb(log) => log.archived.as_ref().map(Archived::hole),
            LogVendor::MySql(log) => log.archived.as_ref().map(ArchivedEnd::hole),
        };
        let (Some((dir, hole)), Some(base_end)) = (hole, self.base_end()) else { return Ok(()) };
        // Pages of the base may be as new as the end of its own log.
        match hole {
            Some(hole) if end < base_end => hole.refuse_base(dir, end, base_end),
            Some(hole) if until.is_none_or(|until| end < until) => hole.refuse(dir, end),
            None if end < base_end => refused(format!(
                "{}: the archive ends at LSN {end}, before the base copy's own log (LSN {base_end}): archive the rest (innokit redo archive), \
                 or leave out --redo to recover from the copy's own log",
                dir.display()
            )),
            _ => Ok(()),
        }
    }

    /// What the archive knows of definitions after the base copy. `None` if it does not know all of it, or if the base copy is another tool's:
    /// of such a backup the files stay those that the tool left (`backup`).
    pub fn definitions(&self) -> Option<&History> {
        if self.backup.is_some() {
            return None;
        }
        match &self.vendor {
            LogVendor::MariaDb(log) => log.archived.as_ref()?.definitions.as_ref(),
            LogVendor::MySql(_) => None,
        }
    }

    /// Where the base copy's own log ends, if an archive continues it.
    pub fn base_end(&self) -> Option<Lsn> {
        match &self.vendor {
            LogVendor::MariaDb(log) => log.archived.as_ref().map(|archived| archived.base_end),
            LogVendor::MySql(log) => log.archived.as_ref().map(|archived| archived.base_end),
        }
    }

    /// The LSN from which a backup's files, copied at different times, are consistent; `None` if that is unknown before the log is read.
    pub fn consistent_from(&self) -> Option<Lsn> {
        self.set_end.max(self.base_end().filter(|_| self.backup.is_some()))
    }

    /// Fails if the mini-transactions end at `end`, before the backup does: the log was cut short.
    pub fn check_copy_end(&self, end: Lsn) -> Result<()> {
        let (noted, end) = (self.backup.as_ref().and_then(Backup::end), self.copied_to(end));
        match noted.max(self.set_end).filter(|least| end < *least) {
            Some(least) => damaged(format!(
                "{}: the copy of the redo log ends at LSN {end}, but the backup reaches LSN {least}: the file was cut off",
                self.path.display()
            )),
            None => Ok(()),
        }
    }

    /// Whether its records are encrypted.
    pub fn is_encrypted(&self) -> bool {
        match &self.vendor {
            LogVendor::MariaDb(log) => log.key.is_some(),
            LogVendor::MySql(log) => !log.log.keys.is_empty(),
        }
    }

    /// Sets the size of log requests and how many are in flight.
    pub fn tuned(mut self, tuning: &Tuning) -> Self {
        self.options.block_size = tuning.log_block;
        self.options.depth = tuning.log_ahead;
        self
    }

    /// Reads from a simulated device, on which this log is the first file.
    pub fn on_clock(mut self, clock: &SimTime) -> Self {
        (self.files, self.clock, self.options.io) = (clock.file_set(), Some(clock.clone()), IoMode::Direct);
        self
    }

    /// Its newest checkpoint.
    pub const fn checkpoint(&self) -> Lsn {
        match &self.vendor {
            LogVendor::MariaDb(log) => log.parsed.checkpoint.lsn,
            LogVendor::MySql(log) => log.log.checkpoint.lsn,
        }
    }

    /// The log's end when that checkpoint was made; for MySQL, whose log does not record it, the checkpoint itself.
    pub const fn checkpoint_end(&self) -> Lsn {
        match &self.vendor {
            LogVendor::MariaDb(log) => log.parsed.checkpoint.end_lsn,
            LogVendor::MySql(log) => log.log.checkpoint.lsn,
        }
    }

    /// The format of its records.
    pub const fn grammar(&self) -> Grammar {
        match &self.vendor {
            LogVendor::MariaDb(_) => Grammar::MariaDb,
            LogVendor::MySql(_) => Grammar::MySql,
        }
    }

    /// Where a copy of the log ends if its mini-transactions end at `end`. Blocks are copied whole, so the copy may end in an incomplete
    /// mini-transaction; no page depends on that one.
    fn copied_to(&self, end: Lsn) -> Lsn {
        match &self.vendor {
            LogVendor::MariaDb(log) if log.is_of_blocks() => log.copied_to(),
            _ => end,
        }
    }

    /// The server's cipher mode, if the log is encrypted and shows it.
    pub fn cipher_mode(&self) -> Option<CipherMode> {
        match &self.vendor {
            LogVendor::MariaDb(log) => log.cipher_mode().or(self.set_cipher),
            LogVendor::MySql(_) => None,
        }
    }

    /// Whether the server reads a flushed LSN in the system tablespace: MariaDB before 10.8, and MySQL.
    pub fn has_flush_lsn(&self) -> bool {
        match &self.vendor {
            LogVendor::MariaDb(log) => log.is_of_blocks(),
            LogVendor::MySql(_) => true,
        }
    }

    /// Whether the server keeps the log as an archive.
    pub const fn is_kept(&self) -> bool {
        matches!(&self.vendor, LogVendor::MariaDb(MariaDbLog { kept: Some(_), .. }))
    }

    /// Whether the log is one file, as MariaDB's is, so that a new file replaces all of it.
    pub const fn is_one_file(&self) -> bool {
        matches!(self.vendor, LogVendor::MariaDb(_))
    }

    /// The log's file ranges, starting at its checkpoint.
    fn stretches(&self) -> Vec<(FileId, Range<u64>)> {
        match &self.vendor {
            LogVendor::MariaDb(log) => match &log.archived {
                Some(archived) => archived.stretches(log.parsed.checkpoint.lsn),
                None if log.kept.is_some() => log.kept_stretches(),
                None => log.lap().into_iter().map(|stretch| (FileId(0), stretch)).collect(),
            },
            LogVendor::MySql(log) => log.stretches(),
        }
    }

    /// The most bytes that there can be from its checkpoint on.
    pub fn len_max(&self) -> u64 {
        self.stretches().iter().map(|(_, stretch)| stretch.end - stretch.start).sum()
    }

    fn reader(&self) -> MtrSource {
        match &self.vendor {
            LogVendor::MariaDb(log) => {
                MtrSource::MariaDb(MtrReader::new(&log.parsed, log.key.clone(), log.parsed.checkpoint.lsn))
            }
            LogVendor::MySql(log) => MtrSource::MySql(log.reader()),
        }
    }

    /// Fails if a needed block is damaged. A log not made of blocks is checked at its end.
    pub fn check(&self) -> Result<()> {
        match &self.vendor {
            LogVendor::MariaDb(log) if log.is_of_blocks() => log.check(),
            LogVendor::MariaDb(_) => Ok(()),
            LogVendor::MySql(log) => log.check(),
        }
    }

    /// Fails if the log continues after `end`, where its mini-transactions ended: then it is damaged at `end`.
    pub fn check_end(&self, end: Lsn) -> Result<()> {
        match &self.vendor {
            LogVendor::MariaDb(log) if !log.is_of_blocks() => log.check_end(end),
            LogVendor::MariaDb(_) => Ok(()),
            LogVendor::MySql(log) => log.archived.as_ref().map_or(Ok(()), |archived| archived.check_end(end)),
        }
    }
}
