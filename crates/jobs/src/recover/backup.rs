//! Backups of mariadb-backup that are not prepared: what `mariadb-backup --prepare` does, without a server of the same version.
//!
//! The files were copied while a server wrote them, and the log is a copy that begins with the server's checkpoint and ends where the
//! copying ended. It differs from the log of a crashed server in three ways.
//!
//! - Files are what the tool left, not what the log says. It noted itself which were renamed and deleted behind its back, and copied
//!   again those that were made (`backup_files`). The log names them as the server did meanwhile: nothing is made, renamed or deleted
//!   for its sake, and the redo of tablespaces that the backup does not hold is left out.
//! - Nothing lies outside of the directory. Names that lead elsewhere are those of the server, which may be running.
//! - The log has no room behind its end. One that holds nothing takes its place, as the tool leaves it.
//!
//! The tool's note of the state changes last: until then the backup is taken for one that is not prepared, which it is not.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use format::Lsn;
use redo::mariadb::LOG_HEADER_CREATOR;

use super::durable::{make_like, sync_directory_of};
use super::error::{Result, damaged, failed, refused};
use crate::source::backup::{BackupNotes, emptied_at as emptied};
use crate::unpack::MARKER;

/// How the creator of a log begins that mariadb-backup copied.
const CREATOR: &[u8] = b"Backup ";
/// Where the tool lists pages that were damaged already when it copied them.
const DAMAGED_PAGES: &str = "innodb_corrupted_pages";
const LOG: &str = "ib_logfile0";
/// A log until it takes its place: servers remove what is called so.
const NEW_LOG: &str = "ib_logfile101";
/// The text of the note until it takes the note's place.
const NEW_NOTE: &str = "innokit-recover.note";

/// A backup that is not prepared.
#[derive(Debug)]
pub(super) struct Backup {
    notes: BackupNotes,
}

impl Backup {
    /// The backup to which a log with this header belongs. A server that was started on a backup, prepared or not, has made the log its
    /// own: then it is a datadir like any other.
    pub fn of(datadir: &Path, header: &[u8]) -> Option<Self> {
        let is_copy = header.get(LOG_HEADER_CREATOR..).is_some_and(|creator| creator.starts_with(CREATOR));
        let notes = BackupNotes::of(datadir).filter(|notes| is_copy && !notes.is_prepared())?;
        Some(Self { notes })
    }

    /// Fails if the log ends before the backup does: its file was cut off.
    pub fn check_end(&self, log: &Path, end: Lsn) -> Result<()> {
        match self.notes.last_lsn.or(self.notes.to_lsn).filter(|least| end < *least) {
            Some(least) => damaged(format!(
                "{}: the copy of the redo log ends at LSN {end}, but the backup reaches LSN {least}: the file was cut off",
                log.display()
            )),
            None => Ok(()),
        }
    }
}

/// Fails for backups that cannot be prepared here, whatever their logs say.
pub(super) fn refuse_unfit(datadir: &Path) -> Result<()> {
    if datadir.join(MARKER).exists() {
        return refused(format!(
            "{}: files are missing here, because innokit unpack was interrupted: remove the directory and unpack again",
            datadir.display()
        ));
    }
    let Some(notes) = BackupNotes::of(datadir).filter(|notes| !notes.is_prepared()) else { return Ok(()) };
    let (tool, path) = (notes.tool, datadir.display());
    if notes.is_incremental() && tool != "xtrabackup" {
        return refused(format!(
            "{path}: an incremental backup, which holds changed pages only: put it into the full one, with innokit recover --in-place FULL \
             --increment {path}"
        ));
    }
    if tool == "xtrabackup" {
        return refused(format!("{path}: a backup of xtrabackup, which is prepared with xtrabackup --prepare"));
    }
    refuse_damaged_pages(datadir, tool)
}

/// Fails if the tool noted that pages were damaged already when it copied them.
pub(super) fn refuse_damaged_pages(dir: &Path, tool: &str) -> Result<()> {
    let pages = dir.join(DAMAGED_PAGES);
    if pages.exists() {
        return refused(format!(
            "{}: pages were damaged already when the backup was taken: {tool} --prepare may mend those that are free",
            pages.display()
        ));
    }
    Ok(())
}

/// Where the log of a backup ended that was prepared before, and left with an empty log. Fails if the log is merely lost.
pub(super) fn emptied_at(datadir: &Path) -> Result<Option<Lsn>> {
    let log = datadir.join(LOG);
    let emptied = emptied(datadir).map_err(failed(datadir, "reading the first page of ibdata1"))?;
    let is_empty = fs::metadata(&log).is_ok_and(|log| log.len() == 0);
    if is_empty && emptied.is_none() && BackupNotes::of(datadir).is_some() {
        return damaged(format!("{}: the redo log of the backup is empty, but was never applied", log.display()));
    }
    Ok(emptied)
}

/// Puts the log of an increment in the place of the empty one, in one step.
pub(super) fn replace_log(datadir: &Path, increment: &Path) -> Result<()> {
    let (from, to) = (increment.join(LOG), datadir.join(LOG));
    let like = fs::metadata(&to).map_err(failed(&to, "looking at the redo log"))?;
    let new = datadir.join(NEW_LOG);
    fs::copy(&from, &new).map_err(failed(&from, "copying the redo log"))?;
    make_like(&new, &like)?;
    File::open(&new).and_then(|log| log.sync_all()).map_err(failed(&new, "making the redo log durable"))?;
    fs::rename(&new, &to).map_err(failed(&to, "replacing the redo log"))?;
    sync_directory_of(&to)
}

/// Says in the tool's note that the backup is prepared, if it does not say so yet.
pub(super) fn mark_prepared(datadir: &Path) -> Result<()> {
    let Some(notes) = BackupNotes::of(datadir).filter(|notes| !notes.is_prepared()) else { return Ok(()) };
    replace_note(datadir, &notes, &notes.prepared())
}

/// Gives the tool's note another text, in one step.
pub(super) fn replace_note(datadir: &Path, notes: &BackupNotes, text: &str) -> Result<()> {
    let path = &notes.path;
    let like = fs::metadata(path).map_err(failed(path, "looking at the file"))?;
    let new: PathBuf = datadir.join(NEW_NOTE);
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(failed(&new, "writing the note"))?;
    make_like(&new, &like)?;
    fs::rename(&new, path).map_err(failed(path, "replacing the note"))?;
    sync_directory_of(path)
}
