//! InnoDB's files: listed and copied in passes while the server makes, renames and drops them. Each tablespace is copied once, under its
//! space id.
//!
//! A file is opened by its name, and from then on identified by the space id in its first page, so it does not matter if it is renamed. At
//! the end the redo log says which names the tablespaces have and which are gone; if it does not, the last pass does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

use format::keyring::KeyStore;
use format::{Encryption, Lsn, SpaceId};
use logs::delta::Meta;

use super::changes::{Changes, Notes, Samples, Since};
use super::delta_file::delta_of;
use super::error::{BackupError, Result, failed, refused};
use super::follower::Follower;
use super::listing::{elsewhere, list};
use super::pace::Pace;
use super::pages::{PageReader, PagesRead, part_of, space_flags, space_id};
use super::stamp::Stamp;
use crate::door;
use crate::manifest::{BackupDamage, BackupTablespace};
use crate::recover::LogNames;
use datadir::content::delta_note;
use datadir::crc32c::FileSums;
use datadir::files::AskPath;
use datadir::keys::SpaceKey;
use datadir::logged_key::logged_key;
use datadir::name::NameHint;
use datadir::reading::read_up_to;
use datadir::space::{HEAD, SpacePart};

/// Looks at a file without a sound first page before it counts as damaged, and the pause between them: the server may be making it.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Tablespaces that have their names in the set.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// Their entries in the manifest.
    pub entries: Vec<BackupTablespace>,
    /// The files that are as they were written, page by page verified.
    pub sums: FileSums,
    /// Whether some of their pages could not be verified without a key.
    pub is_encrypted: bool,
    /// Damaged pages that were copied as they were.
    pub damaged: Vec<BackupDamage>,
}

/// A tablespace that was copied.
#[derive(Debug)]
struct Copied {
    /// The name it was last seen under.
    name: PathBuf,
    /// Where the copy, or the file of changed pages, is. `None` if an increment has no pages of its own.
    copy: Option<PathBuf>,
    /// Its entry in the manifest, still without a path.
    entry: BackupTablespace,
    /// The file that was copied. The redo does not continue it in another file with this space id, or in one with other flags.
    source: Source,
    /// When the file had last been written to, before the copy.
    written: (i64, i64),
    samples: Samples,
    /// Pages that failed verification at every read, with the file and the format to read them again.
    bad: Option<(File, SpacePart, Vec<u32>)>,
    /// What copying the whole file found. `None` if not every page was sound, or if an increment has only its changed pages.
    whole: Option<PagesRead>,
}

impl Copied {
    /// Whether an import has written to the file since it was copied. On MySQL, imports are found otherwise (`Tablespaces::discarded`).
    fn is_outdated(&self, file: &File) -> io::Result<bool> {
        let is_written = self.entry.space != SpaceId::SYSTEM.0 && written(file)? != self.written;
        Ok(is_written && self.samples.has_imported(file, usize::try_from(self.entry.page_size).unwrap_or(0))?)
    }
}

/// Identifies a file as it was when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    device: u64,
    inode: u64,
    flags: u32,
}

impl Source {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino(), flags: space_flags(file)? })
    }
}

/// When a file was last written to, in seconds and nanoseconds.
fn written(file: &File) -> io::Result<(i64, i64)> {
    file.metadata().map(|metadata| (metadata.mtime(), metadata.mtime_nsec()))
}

/// The tablespaces copied so far, over all passes.
#[derive(Debug)]
pub(super) struct Tablespaces<'k> {
    datadir: PathBuf,
    /// Whether tablespaces also lie in the datadir itself.
    has_general: bool,
    /// Where the copies stay until they get their names.
    staging: PathBuf,
    reader: PageReader<'k>,
    /// The LSN where this backup's log begins.
    from: Lsn,
    /// The base of an increment. Pages unchanged since then are not copied again.
    since: Option<Since>,
    copied: BTreeMap<SpaceId, Copied>,
    /// Tablespaces that the last pass met.
    seen: BTreeSet<SpaceId>,
    /// The files as the last pass opened them: one that has not changed since need not be opened under the lock.
    stamps: HashMap<PathBuf, (SpaceId, Stamp)>,
    /// Whether some are encrypted so that recovering them needs keys.
    pub is_encrypted: bool,
    /// Files of the last pass without a sound first page. The log must know their names.
    unsound: Vec<PathBuf>,
    /// Whether definitions are blocked, so that no file changes its name.
    is_locked: bool,
    /// Whether damaged pages are copied as they are.
    pub allows_damage: bool,
    /// Tablespaces that were discarded when the backup began. If they are imported meanwhile, the redo does not cover it.
    pub discarded: Vec<SpaceId>,
    pub pace: Pace<'k>,
    pub pages: u64,
    pub pages_read_again: u64,
}

impl<'k> Tablespaces<'k> {
    /// `has_general`: whether tablespaces also lie in the datadir itself, outside the databases' directories.
    pub fn new((datadir, has_general): (&Path, bool), staging: PathBuf, keys: &'k KeyStore, pace: Pace<'k>) -> Self {
        let (from, since) = (Lsn(0), None);
        Self {
            from,
            since,
            datadir: datadir.to_path_buf(),
            has_general,
            staging,
            reader: PageReader::new(keys),
            copied: BTreeMap::new(),
            seen: BTreeSet::new(),
            stamps: HashMap::new(),
            is_encrypted: false,
            unsound: Vec::new(),
            is_locked: false,
            allows_damage: false,
            discarded: Vec::new(),
            pace,
            pages: 0,
            pages_read_again: 0,
        }
    }

    /// Sets the LSN where this backup's log begins and, for an increment, the base.
    #[must_use]
    pub fn within(mut self, from: Lsn, since: Option<Since>) -> Self {
        (self.from, self.since) = (from, since);
        self
    }

    /// Notes that definitions are blocked from here on. Tablespaces that may have been imported since they were copied are copied again.
    pub fn lock(&mut self) -> Result<()> {
        self.is_locked = true;
        std::mem::take(&mut self.discarded).into_iter().try_for_each(|space| self.forget(space))
    }

    /// Lists the files and copies the tablespaces that have not been copied yet. Returns their number.
    pub fn pass(&mut self, follower: &mut Follower<'_>, check: &dyn Fn() -> Result<()>) -> Result<u64> {
        self.unsound.clear();
        self.seen.clear();
        let (mut new, names) = (0, list(&self.datadir, self.has_general)?);
        // In the first pass only: later ones copy the few files that are new.
        if self.copied.is_empty() {
            let sizes = names.iter().filter_map(|name| fs::metadata(self.datadir.join(name)).ok());
            self.pace.expect(sizes.map(|metadata| metadata.len()).sum());
        }
        for name in names {
            // Before each file: if the log was lost, no further copy is worth its time.
            follower.check()?;
            check()?;
            new += u64::from(self.look_at(name)?);
        }
        Ok(new)
    }

    /// Copies the tablespace in a file if that has not been done. Returns whether it was copied now.
    fn look_at(&mut self, name: PathBuf) -> Result<bool> {
        if let Some(space) = self.unchanged(&name) {
            self.seen.insert(space);
            return Ok(false);
        }
        let path = self.datadir.join(&name);
        let file = match door::source(&self.datadir, &name) {
            Ok(file) => file,
            // Renamed or dropped since it was listed: the next pass finds it if it is still there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(&path, "opening the tablespace")(error)),
        };
        let stamp =
            file.metadata().map(|metadata| Stamp::of(&metadata)).map_err(failed(&path, "reading the tablespace"))?;
        let source = Source::of(&file).map_err(failed(&path, "reading the tablespace"))?;
        let space = space_id(&file).map_err(failed(&path, "reading the tablespace"))?;
        // It is put back only for a file that was read under this name: the name may now lead to another one.
        self.stamps.remove(&name);
        let is_system = matches!(NameHint::of(&name), NameHint::System(_));
        // By the bare number first, which costs one small read. A zero may also be a page that was never written, so only the system
        // tablespace's own files may claim it.
        if (is_system || space != SpaceId::SYSTEM) && self.is_known(space, source, (&file, &name))? {
            self.stamps.extend(stamp.map(|stamp| (name, (space, stamp))));
            return Ok(false);
        }
        let Some(part) = self.sound_part(&file, &path)? else {
            self.unsound.push(name);
            return Ok(false);
        };
        let space = part.format.space();
        if self.is_known(space, source, (&file, &name))? {
            return Ok(false);
        }
        // Again by the sound first page: the number that was read before may have been that of a torn one.
        self.refuse_second(space, &name)?;
        let Some(part) = self.with_key((&file, &path), part)? else {
            self.unsound.push(name);
            return Ok(false);
        };
        // The old copy is of another file with this number, or was outdated by changes without redo.
        self.forget(space)?;
        let copied = self.copy(name, (&file, &path), source, part)?;
        self.seen.insert(space);
        self.copied.insert(space, copied);
        Ok(true)
    }

    /// The tablespace in a file that is, to the last byte, as it was when it was copied and met. Its name is not read from the file then.
    fn unchanged(&self, name: &Path) -> Option<SpaceId> {
        // Only while definitions are blocked: before, a file can be swapped for another and back between two looks.
        let (space, stamp) = self.stamps.get(name).filter(|_| self.is_locked)?;
        let copied = self.copied.get(space).filter(|copied| copied.name == name)?;
        let is_same = copied.written == stamp.written() && copied.source.inode == stamp.inode();
        (is_same && stamp.is_current(&self.datadir.join(name))).then_some(*space)
    }

    /// The format of a tablespace. `None` if its first page is not sound, or is the system tablespace's in another file.
    fn sound_part(&self, file: &File, path: &Path) -> Result<Option<SpacePart>> {
        let is_system = matches!(NameHint::of(path), NameHint::System(_));
        let part = part_of(file, path, self.reader.keys()).map_err(failed(path, "reading the tablespace"))?;
        Ok(part.filter(|part| is_system || part.format.space() != SpaceId::SYSTEM))
    }

    /// Copies a whole tablespace, or only the pages that the base lacks.
    fn copy(&mut self, name: PathBuf, from: (&File, &Path), source: Source, part: SpacePart) -> Result<Copied> {
        if let Some(copied) = self.copy_changes(&name, from, source, &part)? {
            return Ok(copied);
        }
        let written = written(from.0).map_err(failed(from.1, "reading the tablespace"))?;
        let (copy, mut notes) = (self.staging.join(part.format.space().to_string()), Notes::new(self.from));
        let found = self.reader.copy(from, &part, &copy, &mut notes, &mut self.pace)?;
        self.count(&found);
        // An import sets the LSN of every page to 0 and writes no redo. These show later that it happened.
        let samples = notes.take_samples();
        let mut entry = notes.entry(from.0, &part, found.size);
        if !found.bad.is_empty() {
            // One of these LSNs may come from a damaged page.
            entry.settled.clear();
        }
        let (bad, whole) = if found.bad.is_empty() {
            (None, Some(found))
        } else {
            let file = from.0.try_clone().map_err(failed(from.1, "reading the tablespace"))?;
            (Some((file, part, found.bad)), None)
        };
        Ok(Copied { name, copy: Some(copy), entry, source, written, samples, bad, whole })
    }

    /// Copies only the pages that the base lacks. `None` if the whole file has to be copied: there is no base, the base is not known to be
    /// of this file, a page is damaged, or there are too many runs of zeros.
    fn copy_changes(
        &mut self,
        name: &Path,
        from: (&File, &Path),
        source: Source,
        part: &SpacePart,
    ) -> Result<Option<Copied>> {
        let Some(since) = &self.since else { return Ok(None) };
        let Some(base) = since.tablespace(from.0, part) else { return Ok(None) };
        let copy = delta_of(&self.staging.join(part.format.space().to_string()));
        let mut changes = Changes::new(base, Lsn(since.base.from_lsn), part, copy.clone());
        let (mut notes, written) =
            (Notes::new(self.from), written(from.0).map_err(failed(from.1, "reading the file"))?);
        let found = self.reader.copy_changes(from, &mut changes, &mut notes, &mut self.pace)?;
        // A damaged page does not tell whether it has changed. Copy the whole file instead: that reads the page once more, and names it.
        let delta = if found.bad.is_empty() { changes.finish(from.1)? } else { None };
        self.count(&found);
        let copy = copy.is_there().then_some(copy);
        if delta.is_none() {
            copy.map_or(Ok(()), remove)?;
            return Ok(None);
        }
        let samples = notes.take_samples();
        let entry = BackupTablespace { delta, ..notes.entry(from.0, part, found.size) };
        let (name, bad, whole) = (name.to_path_buf(), None, None);
        Ok(Some(Copied { name, copy, entry, source, written, samples, bad, whole }))
    }

    const fn count(&mut self, found: &PagesRead) {
        self.pages += found.pages;
        self.pages_read_again += found.read_again;
    }

    /// Whether this file has been copied already. If so, notes its name.
    fn is_known(&mut self, space: SpaceId, source: Source, (file, name): (&File, &Path)) -> Result<bool> {
        let Some(copied) = self.copied.get(&space).filter(|copied| copied.source == source) else { return Ok(false) };
        // Pages that were written without redo are not in the log, so they are copied again under the lock. Before it, a further write may follow.
        if self.is_locked && copied.is_outdated(file).map_err(failed(name, "reading the tablespace"))? {
            return Ok(false);
        }
        self.refuse_second(space, name)?;
        if let Some(copied) = self.copied.get_mut(&space) {
            copied.name = name.to_path_buf();
        }
        self.seen.insert(space);
        Ok(true)
    }

    /// Refuses a second file of a tablespace: nothing in the files tells which one the server uses, and a backup has room for one. While
    /// definitions are not blocked, two names are normal: tables are renamed and swapped between two looks.
    fn refuse_second(&self, space: SpaceId, name: &Path) -> Result<()> {
        let other = self.copied.get(&space).filter(|copied| self.is_locked && copied.name != name);
        match other.map(|copied| copied.name.as_path()) {
            Some(other) if is_there(&self.datadir.join(other), space) => refused(format!(
                "{} and {} are both tablespace {space}: remove the file that is not in use, or finish the import that it is for, and take the \
                 backup again",
                other.display(),
                name.display()
            )),
            _ => Ok(()),
        }
    }

    /// Whether the tablespace is encrypted, but its first page does not name the key yet.
    fn awaits_key(&self, (file, path): (&File, &Path), part: &SpacePart) -> Result<bool> {
        let lacks_key = part.format.encryption() == Encryption::MySql && matches!(part.key, SpaceKey::None);
        if !lacks_key || self.reader.keys().is_empty() {
            return Ok(false);
        }
        let head = read_up_to(file, 0, HEAD).map_err(failed(path, "reading the tablespace"))?;
        Ok(!SpaceKey::is_named(&head, &part.format))
    }

    /// The format with the key, if it takes one. `None` if the first page names no key yet, so that the next pass has to look: while MySQL
    /// encrypts or decrypts a tablespace, the page may be on disk with the flag alone. With definitions blocked, the server only has to
    /// write the page once more, but it may not do so for a long time. The log has the key until then.
    fn with_key(&mut self, (file, path): (&File, &Path), mut part: SpacePart) -> Result<Option<SpacePart>> {
        for look in 0..LOOKS {
            if !self.awaits_key((file, path), &part)? {
                self.check_key(path, &part)?;
                return Ok(Some(part));
            }
            if !self.is_locked {
                return Ok(None);
            }
            // Once only: the log may be long.
            let logged = if look == 0 { logged_key(&self.datadir, &part.format, self.reader.keys()) } else { None };
            if let Some(key) = logged {
                self.is_encrypted = true;
                return Ok(Some(SpacePart { key, ..part }));
            }
            thread::sleep(PAUSE);
            part = self.sound_part(file, path)?.unwrap_or(part);
        }
        refused(format!(
            "{}: this table is encrypted and new, the server has not written its first page, which names the key, and the redo log does not \
             say it: let the server write the page (FLUSH TABLES ... FOR EXPORT, then UNLOCK TABLES), or take the backup later",
            path.display()
        ))
    }

    /// Refuses a tablespace that MySQL encrypted and no key opens. MariaDB's pages need no keys for recovery unless the log is encrypted.
    fn check_key(&mut self, path: &Path, part: &SpacePart) -> Result<()> {
        if part.format.encryption() != Encryption::MySql {
            return Ok(());
        }
        self.is_encrypted = true;
        if matches!(part.key, SpaceKey::None) {
            return refused(format!(
                "{}: the tablespace is encrypted, and no key that was given opens it: name the server's keyring (--keyring), without which the \
                 backup cannot be proved",
                path.display()
            ));
        }
        Ok(())
    }

    /// Drops the copy: the next pass copies the tablespace again, if it still exists.
    pub fn forget(&mut self, space: SpaceId) -> Result<()> {
        let Some(old) = self.copied.remove(&space) else { return Ok(()) };
        old.copy.map_or(Ok(()), remove)
    }

    /// Whether the server still has exactly the files that the last pass met.
    pub fn is_current(&self) -> Result<bool> {
        if self.has_unsound_changed()? {
            return Ok(false);
        }
        let mut left = self.seen.clone();
        for name in list(&self.datadir, self.has_general)? {
            if let Some(space) = self.unchanged(&name).filter(|space| self.seen.contains(space)) {
                left.remove(&space);
                continue;
            }
            let path = self.datadir.join(&name);
            let file = match door::open_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                opened => opened.map_err(failed(&path, "opening the tablespace"))?,
            };
            let space = space_id(&file).map_err(failed(&path, "reading the tablespace"))?;
            let source = Source::of(&file).map_err(failed(&path, "reading the tablespace"))?;
            let is_same =
                |copied: &&Copied| copied.name == name && copied.source == source && self.seen.contains(&space);
            if self.copied.get(&space).filter(is_same).is_none() && !self.unsound.contains(&name) {
                return Ok(false);
            }
            left.remove(&space);
        }
        Ok(left.is_empty())
    }

    /// Whether a file without a sound first page becomes sound, or goes away, within a short time: the server was making it, and it is not
    /// damaged.
    fn has_unsound_changed(&self) -> Result<bool> {
        if self.unsound.is_empty() {
            return Ok(false);
        }
        for _ in 0..LOOKS {
            for path in self.unsound.iter().map(|name| self.datadir.join(name)) {
                let file = match door::open_file(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                    opened => opened.map_err(failed(&path, "opening the tablespace"))?,
                };
                if self.sound_part(&file, &path)?.is_some() {
                    return Ok(true);
                }
            }
            thread::sleep(PAUSE);
        }
        Ok(false)
    }

    /// The names of all files that the last pass met, also of those that it could not read.
    pub fn names(&self) -> impl Iterator<Item = &Path> {
        self.present().map(|(_, name)| name).chain(self.unsound.iter().map(PathBuf::as_path))
    }

    /// The tablespaces that the last pass met, and their names in the datadir.
    pub fn present(&self) -> impl Iterator<Item = (SpaceId, &Path)> {
        let name = |space: &SpaceId| Some((*space, self.copied.get(space)?.name.as_path()));
        self.seen.iter().filter_map(name)
    }

    /// Reads the pages again that failed verification, and repairs the copies.
    pub fn mend(&mut self) -> Result<()> {
        for copied in self.copied.values_mut() {
            if let (Some((file, part, bad)), Some(copy)) = (copied.bad.take(), &copied.copy) {
                let left = self.reader.mend(&file, &part, &bad, copy)?;
                copied.bad = (!left.is_empty()).then_some((file, part, left));
            }
        }
        Ok(())
    }

    /// Gives the copies the names their tablespaces have at the end of the log (without `log`: had in the last pass). Removes the copies of
    /// dropped ones.
    pub fn place(self, set: &Path, log: Option<&LogNames>) -> Result<Placed> {
        if let Some(name) = self.unsound.iter().find(|name| !log.is_some_and(|log| log.knows(name))) {
            return damaged(&self.datadir.join(name), "its first page");
        }
        let (mut placed, mut names) = (Placed::default(), BTreeSet::new());
        for (space, copied) in self.copied {
            // The server knows nothing of a file that is gone without a word in the log.
            let is_gone = !self.seen.contains(&space) && log.is_none_or(|log| log.last_name(space).is_none());
            if is_gone || log.is_some_and(|log| log.is_dropped(space)) {
                if log.is_some() && self.seen.contains(&space) && is_there(&self.datadir.join(&copied.name), space) {
                    return imported(&copied.name);
                }
                copied.copy.map_or(Ok(()), remove)?;
                continue;
            }
            let name = log.and_then(|log| log.last_name(space)).unwrap_or(&copied.name);
            if name.is_absolute() {
                return elsewhere(name);
            }
            if let Some((_, _, bad)) = &copied.bad {
                if !self.allows_damage {
                    let list: Vec<String> = bad.iter().take(5).map(ToString::to_string).collect();
                    return damaged(&self.datadir.join(name), &format!("page {}", list.join(", ")));
                }
                placed.damaged.push(BackupDamage { path: name.display().to_string(), pages: bad.clone() });
            }
            if !names.insert(name.clone()) {
                return Err(BackupError::Damaged(format!("{}: two tablespaces have this name", name.display())));
            }
            let entry = BackupTablespace { path: name.display().to_string(), ..copied.entry };
            put(copied.copy.as_deref(), set, name, &entry)?;
            placed.entries.push(entry);
            if let Some(whole) = copied.whole {
                placed.is_encrypted |= whole.is_encrypted;
                placed.sums.insert(name.clone(), (whole.size, whole.crc));
            }
        }
        Ok(placed)
    }
}

/// Moves a copy, or changed pages and their note, to its name in the set.
fn put(copy: Option<&Path>, set: &Path, name: &Path, entry: &BackupTablespace) -> Result<()> {
    let path = set.join(name);
    let dir = path.parent().unwrap_or(set);
    door::make_parents(set, name).map_err(failed(dir, "making the directory"))?;
    let Some(copy) = copy else { return Ok(()) };
    let to = if entry.delta.is_some() { delta_of(&path) } else { path };
    if to.is_there() {
        return Err(BackupError::Damaged(format!("{}: two files have this name", to.display())));
    }
    fs::rename(copy, &to).map_err(failed(&to, "giving the copy its name"))?;
    if entry.delta.is_none() {
        return Ok(());
    }
    let note = delta_note(&to);
    let meta = Meta { page_size: entry.page_size, space: Some(entry.space), flags: None };
    let written = door::open_own(&note, true).and_then(|mut file| file.write_all(meta.note().as_bytes()));
    written.map_err(failed(&note, "writing the note of changed pages"))
}

/// Whether the server still has this tablespace, or has it again. The last pass met it when nothing could be dropped any more.
fn is_there(path: &Path, space: SpaceId) -> bool {
    door::open_file(path).and_then(|file| space_id(&file)).is_ok_and(|found| found == space)
}

/// Refuses the backup: recovery drops a tablespace that the log drops, even if one with the same space id came back.
pub(super) fn imported<T>(name: &Path) -> Result<T> {
    refused(format!(
        "{}: the tablespace was discarded and imported since the checkpoint with which the redo log begins, which the log does not cover: take \
         the backup again",
        name.display()
    ))
}

fn remove(copy: PathBuf) -> Result<()> {
    fs::remove_file(&copy).map_err(failed(&copy, "removing the copy"))
}

pub(super) fn damaged<T>(path: &Path, what: &str) -> Result<T> {
    Err(BackupError::Damaged(format!(
        "{}: {what} is damaged in the server's own file: innokit check --live says more, and --allow-damage copies damaged pages as they are, except \
         first pages",
        path.display()
    )))
}

#[cfg(test)]
mod tests;
