//! Incremental backups of mariadb-backup and xtrabackup, merged into the full backup in the order in which they were taken.
//!
//! An increment has the pages changed since the previous backup (`x.delta`), whole files of other engines, and the log written while it was
//! taken. Once its pages, files and log are in the full backup, this is an ordinary unprepared backup of the later time and is prepared
//! like any other.
//!
//! ```text
//! chain: which follows which, where the backup stands -> logs and pages of all increments verified (nothing is written before)
//!   -> full backup prepared -> for each: marker -> files renamed, removed, copied -> pages -> log and note -> marker gone -> prepared
//! ```
//!
//! An increment itself is never changed. So while the marker is there, the merge can be repeated from the start with the same result: pages
//! are written whole, at the same place as on the server.

pub(super) mod binlogs;
mod files;
pub(super) mod marker;
mod pages;
mod put;

use std::path::{Path, PathBuf};

use format::Lsn;
use format::keyring::KeyStore;

use self::files::IncrementFiles;
use self::marker::Lsns;
use self::pages::Formats;
use crate::recover::error::{Result, refused};
use crate::recover::foreign::backup::refuse_damaged_pages;
use crate::recover::log::RedoLog;
use crate::recover::survey::wanted::Wanted;
use datadir::backup_notes::{BackupNotes, XTRABACKUP};
use datadir::log_name::COPIED_LOG;
use datadir::redo_log::copied_log;

/// An increment that was merged into a backup.
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
pub(super) struct TakenIncrement {
    pub dir: PathBuf,
    pub lsns: Lsns,
    /// The tool that took it.
    tool: &'static str,
    /// The LSN up to which the server had flushed its log, if the tool notes it.
    flushed: Option<Lsn>,
    /// The text of the tool's info file, which is different for each run.
    info: Option<String>,
    files: IncrementFiles,
}

impl TakenIncrement {
    fn open(dir: &Path) -> Result<Self> {
        let path = dir.display();
        let Some(notes) = BackupNotes::of(dir) else {
            return refused(format!(
                "{path}: not an incremental backup: xtrabackup_checkpoints (mariadb_backup_checkpoints) is missing"
            ));
        };
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
        if notes.tool == XTRABACKUP && copied_log(dir).is_none() {
            return refused(format!(
                "{}: the increment's copy of the redo log is missing",
                dir.join(COPIED_LOG).display()
            ));
        }
        let files = IncrementFiles::read(dir, notes.tool)?;
        let (tool, flushed, info) = (notes.tool, notes.flushed_lsn, notes.info);
        Ok(Self { dir: dir.to_path_buf(), lsns, tool, flushed, info, files })
    }

    /// Reads the increment's log and pages, and fails if either cannot be merged.
    fn prove(&self, formats: &mut Formats, memory: usize, keys: &KeyStore) -> Result<()> {
        let log = RedoLog::open(&self.dir, false, keys)?;
        if log.backup.is_none() {
            return refused(format!("{}: not the log of an increment", log.path.display()));
        }
        let wanted = Wanted::read(&log, memory, 0, None)?;
        formats.prove(&self.files, wanted.log_end, &wanted.files.changed)
    }
}

/// The increments still to be merged into a backup, in order.
#[derive(Debug)]
pub(super) struct IncrementChain {
    pub left: Vec<TakenIncrement>,
    /// Whether an earlier run was interrupted while it merged the first of them.
    pub is_interrupted: bool,
}

impl IncrementChain {
    /// Checks the increments against each other and against the backup's LSN.
    pub fn of(datadir: &Path, dirs: &[PathBuf]) -> Result<Self> {
        let mut all = dirs.iter().map(|dir| TakenIncrement::open(dir)).collect::<Result<Vec<_>>>()?;
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
            refuse_earlier(after, before.lsns.last, &before.dir)?;
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
        if let Some(other) = all.iter().find(|taken| taken.tool != notes.tool) {
            let dir = other.dir.display();
            return refused(format!("{dir}: an increment of {}, but {path} is a backup of {}", other.tool, notes.tool));
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
        // Skip the increments that an earlier run has merged. On an idle server all increments have the same LSNs, so compare the runs too.
        let is_same =
            |taken: &TakenIncrement| taken.lsns.from != to || (taken.info.is_some() && taken.info == notes.info);
        let is_in = |taken: &TakenIncrement| (taken.lsns.to, taken.lsns.last) == (to, last) && is_same(taken);
        let left = all.iter().rposition(is_in).map_or(0, |place| place + 1);
        if let Some(next) = all.get(left).filter(|next| next.lsns.from != to) {
            return does_not_follow(&all, next, "the backup reaches", to);
        }
        all.get(left).map_or(Ok(()), |next| refuse_earlier(next, last, datadir))?;
        Ok(Self { left: all.split_off(left), is_interrupted: false })
    }

    /// Verifies the logs and all pages of the increments.
    pub fn prove(&self, datadir: &Path, memory: usize, keys: &KeyStore) -> Result<()> {
        if !self.left.is_empty() && !self.is_interrupted {
            refuse_others_work(datadir, memory, keys)?;
        }
        let mut formats = Formats::of(datadir)?;
        self.left.iter().try_for_each(|taken| taken.prove(&mut formats, memory, keys))
    }
}

/// Fails if a prepared backup of xtrabackup is not as innokit left it. Either a server was started on it, or the tool prepared it and
/// rolled back unfinished transactions: then the files have changes that are not in the server's log.
fn refuse_others_work(datadir: &Path, memory: usize, keys: &KeyStore) -> Result<()> {
    if BackupNotes::of(datadir).is_none_or(|notes| notes.tool != XTRABACKUP || !notes.is_prepared()) {
        return Ok(());
    }
    let log = RedoLog::open(datadir, false, keys)?;
    if log.closes_copy() && Wanted::read(&log, memory, 0, None)?.is_clean {
        return Ok(());
    }
    refused(format!(
        "{}: a server was started on this backup, or xtrabackup --prepare has rolled back transactions in it, so increments no longer fit: \
         start from the backup as it was taken",
        datadir.display()
    ))
}

/// Fails if an increment is older than the backup before it. If the server made no checkpoint in between, both begin at the same LSN, and
/// only the ends of their logs show the order.
fn refuse_earlier(taken: &TakenIncrement, last: Lsn, before: &Path) -> Result<()> {
    if taken.lsns.last >= last {
        return Ok(());
    }
    let (dir, own, before) = (taken.dir.display(), taken.lsns.last, before.display());
    refused(format!(
        "{dir}: the log of this increment ends at LSN {own}, but that of {before} at LSN {last}, so it does not follow"
    ))
}

fn does_not_follow<T>(all: &[TakenIncrement], taken: &TakenIncrement, why: &str, lsn: Lsn) -> Result<T> {
    let hint = match all.iter().find(|other| other.lsns.from == lsn && other.lsns.from != other.lsns.to) {
        Some(next) => format!("{} does: name increments in the order in which they were taken", next.dir.display()),
        None => format!("one that begins at LSN {lsn} is missing, or it belongs to another backup"),
    };
    let (dir, lsns) = (taken.dir.display(), taken.lsns);
    refused(format!("{dir}: this increment goes from {lsns}, but {why} at LSN {lsn}, so it does not follow: {hint}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Notes of a backup that reaches these LSNs, and of the run that took it.
    fn backup(dir: &Path, name: &str, kind: &str, lsns: [u64; 3]) -> PathBuf {
        let (path, [from, to, last]) = (dir.join(name), lsns);
        fs::create_dir(&path).expect("made");
        let note = format!("backup_type = {kind}\nfrom_lsn = {from}\nto_lsn = {to}\nlast_lsn = {last}\n");
        fs::write(path.join("xtrabackup_checkpoints"), note).expect("written");
        fs::write(path.join(COPIED_LOG), "").expect("written");
        fs::write(path.join("xtrabackup_info"), format!("uuid = {name}\ntool_name = xtrabackup\n")).expect("written");
        path
    }

    #[test]
    fn increments_without_a_checkpoint_between_them_are_told_apart_by_the_ends_of_their_logs() {
        let dir = tempfile::tempdir().expect("a directory");
        let full = backup(dir.path(), "full", "full-backuped", [0, 100, 150]);
        let one = backup(dir.path(), "one", "incremental", [100, 100, 200]);
        let two = backup(dir.path(), "two", "incremental", [100, 100, 300]);
        let left = |of: &Path, dirs: &[&PathBuf]| {
            let dirs: Vec<PathBuf> = dirs.iter().map(|dir| (*dir).clone()).collect();
            IncrementChain::of(of, &dirs).map(|chain| chain.left.len()).map_err(|error| error.to_string())
        };
        assert_eq!(left(&full, &[&one, &two]), Ok(2));
        assert!(left(&full, &[&two, &one]).is_err_and(|error| error.contains("does not follow")));
        // A backup that both were merged into: it has the LSNs and the notes of the second.
        let done = backup(dir.path(), "done", "full-prepared", [0, 100, 300]);
        fs::copy(two.join("xtrabackup_info"), done.join("xtrabackup_info")).expect("copied");
        assert_eq!(left(&done, &[&one, &two]), Ok(0));
        assert!(left(&done, &[&one]).is_err_and(|error| error.contains("does not follow")));
        // The server wrote no redo since, but other engines' files may have changed.
        let idle = backup(dir.path(), "idle", "incremental", [100, 100, 300]);
        assert_eq!((left(&done, &[&two, &idle]), left(&done, &[&idle])), (Ok(1), Ok(1)));
    }
}
