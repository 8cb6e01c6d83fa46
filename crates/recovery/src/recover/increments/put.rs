//! Merges an increment into the backup that it follows.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flow::lock::Sharing;
use format::bytes::be;
use format::fil::FIL_PAGE_SPACE_ID;
use format::{SpaceHeader, SpaceId};
use rustix::fs::syncfs;

use super::files::Delta;
use super::{Increment, TakenIncrement, binlogs, marker, pages};
use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::foreign::backup::{replace_copied_log, replace_log, replace_note};
use crate::recover::foreign::backup_files::{FileStep, MOVING, moving};
use crate::recover::place::Lock;
use crate::recover::place::walk::walk;
use crate::recover::space::system::SystemFiles;
use datadir::backup_notes::{BackupNotes, XTRABACKUP};
use datadir::log_name::{LOG, REDO_DIR};
use datadir::name::NameHint;
use datadir::reading::{copy_all, read_up_to};

/// A table's file has at least this many pages.
const TABLE_PAGES_MIN: u64 = 4;
/// The log of a prepared backup is just a header, or empty.
const EMPTY_LOG_MAX: u64 = 64 << 10;
/// Suffix of a file being copied.
const COPYING: &str = "innokit-new";

impl TakenIncrement {
    /// Merges the increment into the backup, which is prepared or was left by an interrupted merge of this increment.
    pub fn put_into(&self, datadir: &Path) -> Result<Increment> {
        let _lock = Lock::take(datadir, Sharing::Exclusive)?;
        if marker::read(datadir)?.is_none() {
            // Backups of xtrabackup were checked before (`refuse_others_work`).
            if self.tool != XTRABACKUP {
                refuse_started(datadir)?;
            }
            marker::write(datadir, self.lsns)?;
        }
        let like = of_server(datadir)?;
        for name in &self.files.directories {
            let made = door::make_parents(datadir, name.join("any"));
            made.map_err(failed(&datadir.join(name), "making the directory"))?;
        }
        let mut touched = std::collections::BTreeSet::new();
        self.steps(datadir)?.iter().try_for_each(|step| step.take(datadir, &mut touched))?;
        for (from, name) in &self.files.made {
            copy(&self.dir, from, (datadir, name), &like)?;
        }
        let done = self.write_pages(datadir, &like)?;
        self.copy_others(datadir, &like)?;
        sync(datadir)?;
        if self.tool == XTRABACKUP {
            replace_copied_log(datadir, &self.dir)?;
        } else {
            replace_log(datadir, &self.dir)?;
        }
        if let Some(notes) = BackupNotes::of(datadir) {
            replace_note(datadir, &notes, &notes.reaching(self.lsns.to, self.lsns.last, self.flushed))?;
        }
        sync(datadir)?;
        marker::remove(datadir)?;
        Ok(done)
    }

    /// The steps that give each tablespace of the increment its final name and remove all others. Names may have changed in a cycle, so
    /// every file gives up its old name before any takes a new one.
    fn steps(&self, datadir: &Path) -> Result<Vec<FileStep>> {
        let held = held(datadir, self.tool)?;
        let found = self.files.deltas.iter().filter(|delta| delta.is_found_by_number(self.tool));
        let names: BTreeMap<SpaceId, &PathBuf> = found.map(|delta| (delta.space, &delta.name)).collect();
        let (mut aside, mut remove) = (vec![], vec![]);
        for (name, space) in held {
            match names.get(&space) {
                Some(to) if **to == name || moving(to) == name => {}
                Some(to) => aside.push(FileStep::Rename(name, moving(to))),
                // Created by an interrupted run, which wrote nothing to it.
                None if space == SpaceId::SYSTEM && names.values().any(|made| **made == name) => {}
                None => remove.push(FileStep::Remove(name)),
            }
        }
        let in_place = names.values().map(|name| FileStep::Rename(moving(name), (*name).clone())).collect();
        let phases: [Vec<FileStep>; 3] = [aside, remove, in_place];
        Ok(phases.into_iter().flat_map(|phase| phase.into_iter().chain([FileStep::Sync])).collect())
    }

    fn write_pages(&self, datadir: &Path, like: &Metadata) -> Result<Increment> {
        let (mut pages, mut files, mut system) = (0, 0, None);
        for delta in &self.files.deltas {
            let written = write_delta(datadir, delta, like, self.tool)?;
            pages += written.pages;
            files += u64::from(written.pages > 0);
            system = system.or(written.system);
        }
        system.map_or(Ok(()), |len| extend_system(datadir, len))?;
        let (directory, from_lsn, to_lsn) = (self.dir.clone(), self.lsns.from.0, self.lsns.to.0);
        Ok(Increment { directory, from_lsn, to_lsn, pages, files })
    }

    /// Copies everything but tablespaces: the increment has these files in full, and they replace the old ones.
    fn copy_others(&self, datadir: &Path, like: &Metadata) -> Result<()> {
        let (mut old, mut directories) = (Vec::new(), Vec::new());
        walk(datadir, &mut |name, metadata| {
            match name.components().count() {
                1 if metadata.is_dir() => directories.push(name.to_path_buf()),
                2 if name.starts_with(REDO_DIR) => {}
                2 if metadata.is_file() && NameHint::of(name) != NameHint::Table => old.push(name.to_path_buf()),
                _ => {}
            }
            Ok(())
        })?;
        if self.tool == XTRABACKUP {
            old.extend(binlogs::of(datadir)?);
        }
        let names = || self.files.others.iter().chain(&self.files.top);
        let stays = |name: &&PathBuf| self.files.others.contains(name) || self.files.top.contains(name);
        for name in old.iter().filter(|name| !stays(name)) {
            let path = datadir.join(name);
            door::remove(datadir, name).map_err(failed(&path, "removing the file"))?;
        }
        names().try_for_each(|name| copy(&self.dir, name, (datadir, name), like))?;
        for name in directories.iter().filter(|name| !self.files.directories.contains(*name)) {
            // A dropped database. A directory that is not empty stays.
            drop(fs::remove_dir(datadir.join(name)));
        }
        Ok(())
    }
}

/// Fails if a server was started on the prepared backup: its files have changed since.
fn refuse_started(datadir: &Path) -> Result<()> {
    let log = datadir.join(LOG);
    let len = fs::metadata(&log).map_err(failed(&log, "looking at the redo log"))?.len();
    if len > EMPTY_LOG_MAX {
        return refused(format!(
            "{}: not the log of a prepared backup: a server was started on it, so increments no longer fit",
            log.display()
        ));
    }
    Ok(())
}

fn of_server(datadir: &Path) -> Result<Metadata> {
    let system = datadir.join("ibdata1");
    fs::metadata(&system).map_err(failed(&system, "looking at the file"))
}

/// Whether a file's name may belong to a tablespace that is found by its number.
fn is_found_by_number(name: &Path, tool: &str) -> bool {
    let is_moving = name.extension() == Some(OsStr::new(MOVING));
    let hint = NameHint::of(name);
    match name.components().count() {
        1 if tool == XTRABACKUP => is_moving || matches!(hint, NameHint::Table | NameHint::Dictionary | NameHint::Undo),
        2 => is_moving || hint == NameHint::Table,
        _ => false,
    }
}

/// The files of tables with their space ids; 0 if page 0 is not written yet.
fn held(datadir: &Path, tool: &str) -> Result<BTreeMap<PathBuf, SpaceId>> {
    let mut held = BTreeMap::new();
    walk(datadir, &mut |name, metadata| {
        if !metadata.is_file() || !is_found_by_number(name, tool) {
            return Ok(());
        }
        let path = datadir.join(name);
        let bytes = door::open_file(&path).and_then(|file| read_up_to(&file, 0, FIL_PAGE_SPACE_ID + 4));
        let bytes = bytes.map_err(failed(&path, "reading the first page"))?;
        held.insert(name.to_path_buf(), SpaceId(be::u32_at(&bytes, FIL_PAGE_SPACE_ID).unwrap_or(0)));
        Ok(())
    })?;
    Ok(held)
}

/// Copies a file under a temporary name first, so a partial copy never has the final name.
fn copy(set: &Path, from: &Path, (datadir, to): (&Path, &Path), like: &Metadata) -> Result<()> {
    let mut new = to.as_os_str().to_owned();
    new.push(".");
    new.push(COPYING);
    let copy = || {
        let (mut source, mut target) = (door::source(set, from)?, door::replace(datadir, &new)?);
        copy_all(&mut source, &mut target)?;
        door::give(&target, like)
    };
    copy().map_err(failed(&set.join(from), "copying the file"))?;
    door::rename(datadir, &new, to).map_err(failed(&datadir.join(to), "replacing the file"))
}

/// What writing a delta changed.
struct Written {
    pages: u64,
    /// Length of the system tablespace in bytes, if its page 0 changed.
    system: Option<u64>,
}

fn write_delta(datadir: &Path, delta: &Delta, like: &Metadata, tool: &str) -> Result<Written> {
    let path = datadir.join(&delta.name);
    let open = || match door::change(datadir, &delta.name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            door::make_parents(datadir, &delta.name)?;
            let made = door::create(datadir, &delta.name)?;
            door::give(&made, like).map(|()| made)
        }
        opened => opened,
    };
    let file = open().map_err(failed(&path, "opening the tablespace"))?;
    let page_size = u64::from(delta.meta.page_size);
    let (mut size, mut end, mut pages) = (None, TABLE_PAGES_MIN * page_size, 0);
    pages::read(delta, |page| {
        let offset = u64::from(page.number) * page_size;
        if page.number == 0 {
            size = SpaceHeader::parse(page.bytes).ok().map(|header| u64::from(header.size) * page_size);
        }
        (end, pages) = (end.max(offset + page_size), pages + 1);
        file.write_all_at(page.bytes, offset).map_err(failed(&path, "writing changed pages"))
    })?;
    if delta.space == SpaceId::SYSTEM {
        let is_first = NameHint::of(&delta.name) == NameHint::System(1);
        return Ok(Written { pages, system: size.filter(|_| is_first) });
    }
    write_first_page(&file, delta).map_err(failed(&path, "writing the first page"))?;
    let len = file.metadata().map_err(failed(&path, "looking at the file"))?.len();
    // A table's file only grows here: it may be longer than page 0 says yet. Undo tablespaces shrink too, because MariaDB truncates them.
    let shrinks = tool != XTRABACKUP && NameHint::of(&delta.name) == NameHint::Undo && size.is_some();
    let wanted = size.unwrap_or(0).max(end);
    if len < wanted || (shrinks && len > wanted) {
        file.set_len(wanted).map_err(failed(&path, "giving the file its size"))?;
    }
    Ok(Written { pages, system: None })
}

/// MySQL creates a tablespace with a first page that has LSN 0, so no increment has it before the server writes it again. The log has the
/// rest of it, but recovery finds a tablespace by its first page.
fn write_first_page(file: &File, delta: &Delta) -> std::io::Result<()> {
    let head = read_up_to(file, 0, FIL_PAGE_SPACE_ID + 4)?;
    let is_there = be::u32_at(&head, FIL_PAGE_SPACE_ID).is_some_and(|space| space != 0);
    let page = pages::first_page(delta).filter(|_| !is_there);
    page.map_or(Ok(()), |page| file.write_all_at(&page, 0))
}

/// Only the last file of the system tablespace grows.
fn extend_system(datadir: &Path, len: u64) -> Result<()> {
    let Some(last) = SystemFiles::find(datadir)?.last() else { return Ok(()) };
    let path = datadir.join(&last.path);
    let file = door::change(datadir, &last.path).map_err(failed(&path, "opening the tablespace"))?;
    let now = file.metadata().map_err(failed(&path, "looking at the file"))?.len();
    if now < len.saturating_sub(last.start) {
        file.set_len(len - last.start).map_err(failed(&path, "giving the file its size"))?;
    }
    Ok(())
}

fn sync(datadir: &Path) -> Result<()> {
    let dir = File::open(datadir).map_err(failed(datadir, "opening the backup"))?;
    syncfs(dir).map_err(|error| failed(datadir, "making the backup durable")(error.into()))
}
