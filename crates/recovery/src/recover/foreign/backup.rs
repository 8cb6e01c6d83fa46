//! Unprepared backups of mariadb-backup and xtrabackup: does what the tool's `--prepare` does, without a server of the same version.
//!
//! The files were copied while a server was writing them. The log is a copy too, from the server's checkpoint to the end of the copying.
//! It differs from a crashed server's log in three ways.
//!
//! - The files are those the tool left, whatever the log says. The tool itself noted which ones were renamed and deleted meanwhile, and
//!   copied new ones at the end (`backup_files`). The log has their names on the server: it does not cause any file to be created, renamed
//!   or deleted here, and redo of tablespaces missing in the backup is skipped.
//! - Nothing is outside the directory. Names that lead elsewhere belong to the server, which may be running.
//! - There is no room after the log's end. It is replaced by an empty log, as the tool leaves it.
//!
//! By default xtrabackup keeps MySQL from renaming, creating and dropping tables while it copies. If told not to, it leaves notes too
//! (`reduced_files`). Its copy of the log has a name of its own, and a new log replaces it.
//!
//! The tool's note of the backup's state is changed last, so that an interrupted run leaves an unprepared backup. xtrabackup's copy of the
//! log is removed after that.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::path::Path;

use format::Lsn;
use redo::mariadb::LOG_HEADER_CREATOR;

use crate::recover::error::{Result, damaged, failed, refused};
use crate::recover::place::durable::sync_directory_of;
use crate::recover::place::unfinished;
use crate::unpack::MARKER;
use crate::{door, manifest};
use datadir::backup_notes::{BackupNotes, emptied_at as emptied};
use datadir::files::AskPath;
use datadir::log_name::{COPIED_LOG, LOG, REDO_DIR};
use datadir::reading::copy_all;
use datadir::redo_log::copied_log;

/// Start of the creator field in a log copied by mariadb-backup.
const CREATOR: &[u8] = b"Backup ";
/// The tool's list of pages that were already damaged when it copied them.
const DAMAGED_PAGES: &str = "innodb_corrupted_pages";
/// A log's name until it is in place: servers remove files with this name.
const NEW_LOG: &str = "ib_logfile101";
/// The name of xtrabackup's copy of a log until it is in place.
const NEW_COPY: &str = "innokit-recover.log";
/// The new note's name until it is in place.
const NEW_NOTE: &str = "innokit-recover.note";

/// An unprepared backup.
#[derive(Debug)]
pub(in crate::recover) struct Backup {
    notes: BackupNotes,
}

impl Backup {
    /// The unprepared backup that a log with this header belongs to. A server started on a backup, prepared or not, makes the log its own:
    /// from then on the backup is an ordinary datadir.
    pub fn of(datadir: &Path, header: &[u8]) -> Option<Self> {
        let is_copy = header.get(LOG_HEADER_CREATOR..).is_some_and(|creator| creator.starts_with(CREATOR));
        let notes = BackupNotes::of(datadir).filter(|notes| is_copy && !notes.is_prepared())?;
        Some(Self { notes })
    }

    /// The backup that xtrabackup's copy of a log belongs to.
    pub fn of_copy(datadir: &Path) -> Option<Self> {
        let notes = BackupNotes::of(datadir).filter(|notes| !notes.is_prepared())?;
        Some(Self { notes })
    }

    /// The LSN that the backup's log reaches, if the tool noted it.
    pub fn end(&self) -> Option<Lsn> {
        self.notes.last_lsn.or(self.notes.to_lsn)
    }
}

/// Fails for backups that we cannot prepare, whatever is in their logs.
pub(in crate::recover) fn refuse_unfit(datadir: &Path) -> Result<()> {
    unfinished::refuse(datadir)?;
    if let Some(why) = manifest::unfit(datadir) {
        return refused(why);
    }
    if datadir.join(MARKER).is_there() {
        return refused(format!(
            "{}: files are missing here, because innokit unpack was interrupted: remove the directory and unpack again",
            datadir.display()
        ));
    }
    let Some(notes) = BackupNotes::of(datadir) else { return Ok(()) };
    let (tool, path) = (notes.tool, datadir.display());
    if notes.is_applied_by_xtrabackup() {
        return refused(format!(
            "{path}: xtrabackup --prepare --apply-log-only has changed this backup: finish it with xtrabackup, or start from the backup as \
             it was taken"
        ));
    }
    if notes.is_prepared() {
        return Ok(());
    }
    if notes.is_incremental() {
        return refused(format!(
            "{path}: an incremental backup, which holds only changed pages: merge it into the full one with innokit recover --in-place FULL \
             --increment {path}"
        ));
    }
    refuse_damaged_pages(datadir, tool)
}

/// Fails if the tool noted that pages were already damaged when it copied them.
pub(in crate::recover) fn refuse_damaged_pages(dir: &Path, tool: &str) -> Result<()> {
    let pages = dir.join(DAMAGED_PAGES);
    if pages.is_there() {
        return refused(format!(
            "{}: pages were damaged already when the backup was taken: {tool} --prepare may repair those that are free",
            pages.display()
        ));
    }
    Ok(())
}

/// Where the log ended of a backup that was prepared earlier and now has an empty log. Fails if the log is empty but was never applied.
pub(in crate::recover) fn emptied_at(datadir: &Path) -> Result<Option<Lsn>> {
    let log = datadir.join(LOG);
    let emptied = emptied(datadir).map_err(failed(datadir, "reading the first page of ibdata1"))?;
    let is_empty = fs::metadata(&log).is_ok_and(|log| log.len() == 0);
    if is_empty && emptied.is_none() && BackupNotes::of(datadir).is_some() {
        return damaged(format!("{}: the redo log of the backup is empty, but was never applied", log.display()));
    }
    Ok(emptied)
}

/// Replaces the empty log with the increment's, atomically.
pub(in crate::recover) fn replace_log(datadir: &Path, increment: &Path) -> Result<()> {
    let (from, to) = (increment.join(LOG), datadir.join(LOG));
    let like = fs::metadata(&to).map_err(failed(&to, "looking at the redo log"))?;
    put_log(&from, datadir, (LOG, NEW_LOG), &like)
}

/// Copies the log `from` into the datadir, replacing any log of this name there. The copy is called `new` until it is whole and durable.
fn put_log(from: &Path, datadir: &Path, (name, new): (&str, &str), like: &Metadata) -> Result<()> {
    let copy = || {
        let (mut source, mut target) = (door::open_file(from)?, door::replace(datadir, new)?);
        copy_all(&mut source, &mut target)?;
        door::give(&target, like)?;
        target.sync_all()
    };
    copy().map_err(failed(from, "copying the redo log"))?;
    let to = datadir.join(name);
    door::rename(datadir, new, name).map_err(failed(&to, "replacing the redo log"))?;
    sync_directory_of(&to)
}

/// Replaces the log that closed the prepared backup of xtrabackup with the increment's copy. The new log is in place before the old one is
/// removed. If that is interrupted, the increment's marker is still there.
pub(in crate::recover) fn replace_copied_log(datadir: &Path, increment: &Path) -> Result<()> {
    let (from, to) = (increment.join(COPIED_LOG), datadir.join(COPIED_LOG));
    let system = datadir.join("ibdata1");
    let like = fs::metadata(&system).map_err(failed(&system, "looking at the file"))?;
    put_log(&from, datadir, (COPIED_LOG, NEW_COPY), &like)?;
    let closed = datadir.join(REDO_DIR);
    match fs::remove_dir_all(&closed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed(&closed, "removing the log of the prepared backup")(error))
        }
        _ => sync_directory_of(&to),
    }
}

/// Records in the tool's note, or in innokit's manifest, that the backup is prepared, unless it says so already. Then removes xtrabackup's
/// copy of the log, whose redo is in the files now.
pub(in crate::recover) fn mark_prepared(datadir: &Path) -> Result<()> {
    manifest::mark_recovered(datadir)?;
    let Some(notes) = BackupNotes::of(datadir).filter(|notes| !notes.is_prepared()) else { return Ok(()) };
    let copy = copied_log(datadir);
    replace_note(datadir, &notes, &notes.prepared())?;
    let Some(copy) = copy else { return Ok(()) };
    door::remove(datadir, COPIED_LOG).map_err(failed(&copy, "removing the copy of the redo log"))?;
    sync_directory_of(&copy)
}

/// Replaces the text of the tool's note, atomically.
pub(in crate::recover) fn replace_note(datadir: &Path, notes: &BackupNotes, text: &str) -> Result<()> {
    let path = &notes.path;
    let like = fs::metadata(path).map_err(failed(path, "looking at the file"))?;
    let written = door::replace(datadir, NEW_NOTE).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        door::give(&file, &like)?;
        file.sync_all()
    });
    written.map_err(failed(&datadir.join(NEW_NOTE), "writing the note"))?;
    let name = path.file_name().unwrap_or_default();
    door::rename(datadir, NEW_NOTE, name).map_err(failed(path, "replacing the note"))?;
    sync_directory_of(path)
}
