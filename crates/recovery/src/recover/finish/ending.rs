//! Closes the log once the data files contain all its redo.
//!
//! MariaDB's log is closed in place, by its next checkpoint. MySQL's gets one more file, or, before 8.0.30, a new first file.
//!
//! If the recovery ends before the log does, the rest of the log must disappear: a server or a second run would take it for the
//! continuation. It may be anywhere in the ring, under LSNs that the server will use again. So the log is not closed in place; a new log
//! with nothing but its closing record replaces it. Until then the old log is complete, and a run with another end, or with none, is still
//! possible. For the same reason, doublewrite copies later than the end are wiped. With an archive, the datadir's own log, which ends
//! earlier, is replaced.

use std::path::Path;

use format::Lsn;
use format::keyring::KeyStore;

use crate::recover::error::{RecoverError, Result};
use crate::recover::log::new_log::{ClosedFile, replace};
use crate::recover::log::{LogVendor, MariaDbLog, RedoLog};
use crate::recover::plan::RecoverPlan;
use crate::recover::survey::wanted::Wanted;

/// How the log will record that everything is in the data files; prepared before anything is written.
pub(in crate::recover) enum Ending {
    /// In place, with its next checkpoint.
    InPlace(Vec<u8>),
    /// With a new log that starts where the recovery ends: its first bytes, and its size.
    NewLog(Vec<u8>, u64),
    /// With one more log file: its first bytes, and its size.
    NewFile(Vec<u8>, usize),
}

impl Ending {
    pub fn of(log: &RedoLog, plan: &RecoverPlan, keys: &KeyStore) -> Result<Self> {
        let (end, named) = (plan.wanted.end, plan.named());
        match &log.vendor {
            LogVendor::MariaDb(log) if plan.wanted.kind.is_backup => {
                // The copied log ends where the copying ended, so it cannot be closed in place. This one is as mariadb-backup leaves it.
                let bytes = log.of_prepared(end, keys)?;
                let size = bytes.len() as u64;
                Ok(Self::NewLog(bytes, size))
            }
            // The log itself stays, as the server would leave it: one write moves its checkpoint, and until then a second run starts at the old one.
            LogVendor::MariaDb(log) if plan.wanted.rest.is_none() && log.archived.is_none() => {
                Ok(Self::InPlace(log.closing(end, &named)?))
            }
            // What follows the end must not be found by a server, and an archive's segments are not the datadir's own. So a new log begins at the end.
            LogVendor::MariaDb(log) => Ok(Self::NewLog(log.restarted(end, &named, keys)?, log.own_size())),
            LogVendor::MySql(log) => {
                // Behind everything that the log had, also behind what was left out: an LSN that was used once would make old blocks look current.
                let (bytes, size) = log.closing(&plan.wanted.tables, plan.wanted.log_end)?;
                Ok(if log.is_ring() { Self::NewLog(bytes, size as u64) } else { Self::NewFile(bytes, size) })
            }
        }
    }

    /// The flushed LSN to record in the system tablespace, if the server reads it there.
    pub fn flush_lsn(&self, log: &RedoLog, wanted: &Wanted) -> Option<Lsn> {
        log.has_flush_lsn().then(|| match &log.vendor {
            LogVendor::MariaDb(_) => wanted.end,
            LogVendor::MySql(log) => log.next_checkpoint(wanted.log_end),
        })
    }

    /// The files of the log once it is closed, for who does not write them.
    pub fn closed(&self, log: &RedoLog, end: Lsn) -> Result<Vec<ClosedFile>> {
        let new = |path: &Path, bytes: &[u8], len: u64| ClosedFile {
            path: path.to_path_buf(),
            len: Some(len),
            has_base: false,
            writes: vec![(0, bytes.to_vec())],
        };
        match (self, &log.vendor) {
            (Self::InPlace(closing), LogVendor::MariaDb(MariaDbLog { kept: Some(kept), .. })) => {
                kept.closed(end, closing)
            }
            (Self::NewLog(bytes, size), LogVendor::MariaDb(MariaDbLog { kept: Some(kept), path, .. })) => {
                Ok(kept.replaced(path.parent().unwrap_or(Path::new("")), end, bytes, *size))
            }
            (Self::InPlace(closing), LogVendor::MariaDb(log)) => {
                let writes = log.closing_writes(end, closing)?;
                Ok(vec![ClosedFile { path: log.path.clone(), len: Some(log.own_size()), has_base: true, writes }])
            }
            (Self::NewLog(bytes, size), LogVendor::MariaDb(log)) => Ok(vec![new(&log.path, bytes, *size)]),
            (Self::NewLog(bytes, size), LogVendor::MySql(log)) => Ok(vec![new(log.first_file(), bytes, *size)]),
            (Self::NewFile(bytes, size), LogVendor::MySql(log)) => {
                let (path, replaced) = log.closing_place()?;
                let gone = replaced.into_iter().map(|path| ClosedFile {
                    path,
                    len: None,
                    has_base: false,
                    writes: Vec::new(),
                });
                Ok(gone.chain([new(&path, bytes, *size as u64)]).collect())
            }
            _ => Err(RecoverError::Internal("the redo log is not closed like this")),
        }
    }

    pub fn write(&self, log: &RedoLog, end: Lsn) -> Result<()> {
        match (self, &log.vendor) {
            (Self::InPlace(closing), LogVendor::MariaDb(log)) => log.close(end, closing),
            (Self::NewLog(bytes, size), LogVendor::MariaDb(MariaDbLog { kept: Some(kept), path, .. })) => {
                kept.replace(path.parent().unwrap_or(Path::new("")), end, bytes, *size)
            }
            (Self::NewLog(bytes, size), LogVendor::MariaDb(log)) => replace(&log.path, bytes, *size),
            (Self::NewLog(bytes, size), LogVendor::MySql(log)) => replace(log.first_file(), bytes, *size),
            (Self::NewFile(bytes, size), LogVendor::MySql(log)) => log.close(bytes, *size),
            _ => Err(RecoverError::Internal("the redo log is not closed like this")),
        }
    }
}
