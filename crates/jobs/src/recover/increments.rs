//! Incremental backups of mariadb-backup, put into the full backup in the order in which they were taken.
//!
//! An increment has the pages changed since the previous backup (`x.delta`), whole files of other engines, and the log written while it was
//! taken. Once its pages, files and log are in the full backup, that is an ordinary unprepared backup of the later time, and the rest works
//! as without increments.
//!
//! ```text
//! chain: which follows which, where the backup stands -> logs and pages of all of them proven (nothing is written before)
//!   -> the full one prepared -> for each: marker -> files renamed, removed, copied -> pages -> log and note -> marker gone -> prepared
//! ```
//!
//! An increment itself is never changed. So while the marker is there, everything is repeated from the start with the same result: pages
//! are written whole, at the same place as on the server.

mod files;
mod pages;
mod put;

use std::path::{Path, PathBuf};

use format::keyring::KeyStore;

use self::files::Files;
use self::pages::Formats;
use super::backup::refuse_damaged_pages;
use super::error::{Result, refused};
use super::increment_marker::{self as marker, Lsns};
use super::log::RedoLog;
use super::wanted::Wanted;
use crate::source::backup::{BackupNotes, XTRABACKUP};

/// What was put into a backup.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Increment {
    /// Its directory.
    pub directory: PathBuf,
    /// The backup's LSN before.
    pub from_lsn: u64,
    /// The backup's LSN now.
    pub to_lsn: u64,
    /// Number of changed pages.
    pub pages: u64,
    /// Number of files with changed pages.
    pub files: u64,
}

/// An incremental backup.
#[derive(Debug)]
pub(super) struct Taken {
    pub dir: PathBuf,
    pub lsns: Lsns,
    files: Files,
}

impl Taken {
    fn open(dir: &Path) -> Result<Self> {
        let path = dir.display();
        let Some(notes) = BackupNotes::of(dir) else {
            return refused(format!(
                "{path}: not an incremental backup: xtrabackup_checkpoints (mariadb_backup_checkpoints) is missing"
            ));
        };
        if notes.tool == XTRABACKUP {
            return refused(format!("{path}: a backup of xtrabackup, which is prepared with xtrabackup --prepare"));
        }
        if !notes.is_incremental() {
            return refused(format!(
                "{path}: not an incremental backup: name the full one first, then each --increment"
            ));
        }
        refuse_damaged_pages(dir, notes.tool)?;
        let Some(lsns) = Lsns::of(&notes) else {
            return refused(format!(
                "{}: it does not say at which LSNs the increment begins and ends",
                notes.path.display()
            ));
        };
        Ok(Self { dir: dir.to_path_buf(), lsns, files: Files::read(dir)? })
    }

    /// Reads everything of it that will be needed.
    fn prove(&self, formats: &mut Formats, memory: usize, keys: &KeyStore) -> Result<()> {
        let log = RedoLog::open(&self.dir, false, keys)?;
        if log.backup.is_none() {
            return refused(format!("{}: not the log of an increment", log.path.display()));
        }
        let wanted = Wanted::read(&log, memory, 0, None)?;
        formats.prove(&self.files, wanted.log_end, &wanted.changed)
    }
}

/// The increments still to be put into a backup, in order.
#[derive(Debug)]
pub(super) struct Chain {
    pub left: Vec<Taken>,
    /// An earlier run started with the first of them.
    pub is_interrupted: bool,
}

impl Chain {
    /// Checks the increments against each other and against the backup's LSN.
    pub fn of(datadir: &Path, dirs: &[PathBuf]) -> Result<Self> {
        let mut all = dirs.iter().map(|dir| Taken::open(dir)).collect::<Result<Vec<_>>>()?;
        for pair in all.windows(2) {
            let [before, after] = pair else { continue };
            if after.lsns.from != before.lsns.to {
                return does_not_follow(
                    &all,
                    after,
                    &format!("{} before it ends", before.dir.display()),
                    before.lsns.to,
                );
            }
        }
        let path = datadir.display();
        let Some(notes) = BackupNotes::of(datadir) else {
            return refused(format!(
                "{path}: increments belong to a full backup, and this is not one: xtrabackup_checkpoints is missing"
            ));
        };
        if notes.is_incremental() {
            return refused(format!("{path}: an incremental backup: name the full one, and this one with --increment"));
        }
        if let Some(begun) = marker::read(datadir)? {
            let Some(place) = all.iter().position(|taken| taken.lsns == begun) else {
                marker::refuse(datadir)?;
                return Ok(Self { left: Vec::new(), is_interrupted: true });
            };
            return Ok(Self { left: all.split_off(place), is_interrupted: true });
        }
        let Some((to, last)) = notes.to_lsn.zip(notes.last_lsn) else {
            return refused(format!("{}: it does not say which LSN the backup reaches", notes.path.display()));
        };
        // Skip those that an earlier run has put into it.
        let is_in = |taken: &Taken| (taken.lsns.to, taken.lsns.last) == (to, last) && taken.lsns.from != to;
        let left = all.iter().rposition(is_in).map_or(0, |place| place + 1);
        if let Some(next) = all.get(left).filter(|next| next.lsns.from != to) {
            return does_not_follow(&all, next, "the backup reaches", to);
        }
        Ok(Self { left: all.split_off(left), is_interrupted: false })
    }

    /// Reads their logs and all their pages.
    pub fn prove(&self, datadir: &Path, memory: usize, keys: &KeyStore) -> Result<()> {
        let mut formats = Formats::of(datadir)?;
        self.left.iter().try_for_each(|taken| taken.prove(&mut formats, memory, keys))
    }
}

fn does_not_follow<T>(all: &[Taken], taken: &Taken, why: &str, lsn: format::Lsn) -> Result<T> {
    let hint = match all.iter().find(|other| other.lsns.from == lsn && other.lsns.from != other.lsns.to) {
        Some(next) => format!("{} does: name increments in the order in which they were taken", next.dir.display()),
        None => format!("one that begins at LSN {lsn} is missing, or it belongs to another backup"),
    };
    let (dir, lsns) = (taken.dir.display(), taken.lsns);
    refused(format!("{dir}: this increment goes from {lsns}, but {why} at LSN {lsn}, so it does not follow: {hint}"))
}
