//! `definitions.jsonl` and `definitions/`: the files that MariaDB keeps beside InnoDB's for what statements define (`.frm`, `.par`, triggers,
//! `db.opt`). The redo does not hold them. The archiver looks at the databases' directories whenever it looks at the log, and keeps each new
//! content, so that a recovery can go past a CREATE or an ALTER.
//!
//! ```text
//! mtime of a directory changed -> its files listed -> those with another inode, length or time: content -> one line each, synced
//! ```
//!
//! A file changes at some time between two looks, and what InnoDB does for the same statement may be before or after that. So a line says what
//! the archive had reached at the look before, and where the log ended after this one; which version fits a moment in between is decided by
//! InnoDB's dictionary (`recover::definition_files`). Versions that come and go between two looks are not seen.
//!
//! Sketch: two `stat`s a look for each database. A server with 1000 databases takes 2 ms a look, so it is looked at every 40 ms at most.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use flow::durable::{rename, sync_directory};
use format::Lsn;
use format::checksum::crc32c;
use serde::{Deserialize, Serialize};

use super::error::{Result, failed, refused};
use super::marks::Standing;
use crate::door::{self, SetName};

const NOTES: &str = "definitions.jsonl";
const CONTENTS: &str = "definitions";
/// Endings of the files: tables and views, partitions, triggers and their names, a database's defaults.
const ENDINGS: [&str; 5] = ["frm", "par", "TRG", "TRN", "opt"];
/// The file system's own directory, which only root may read, and which is no database.
const LOST: &str = "lost+found";
/// The one file that is written in place.
const DATABASE: &str = "db.opt";
/// Definitions take a few kilobytes; a longer file is something else.
const CONTENT_MAX: u64 = 16 << 20;
/// A directory that changed so shortly before a look may have changed again since, at what the file system calls the same time.
const SAME_TIME: Duration = Duration::from_millis(100);
/// A look may take this part of the time.
const SHARE: u32 = 20;
/// No line of notes is longer: a path takes a few kilobytes.
const LINE_MAX: u64 = 64 << 10;

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    timeline: u32,
    /// What the archive had reached at the look before.
    after: u64,
    /// Where the log ended after this look.
    before: u64,
    /// The file, relative to the datadir. Empty where the looks begin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    path: String,
    /// Its inode, length and times.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    stamp: String,
    /// The file with its content. Without one, the file is gone, or was there when the looks began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
}

/// Looks at the definitions of a server.
#[derive(Debug)]
pub(super) struct Definitions {
    archive: PathBuf,
    datadir: PathBuf,
    /// The stamps of all files, by path.
    known: BTreeMap<String, String>,
    /// The stamps of the datadir and its directories.
    directories: BTreeMap<String, String>,
    /// The timeline and the end of the archive when the last look began. `None`: nothing is noted yet.
    looked: Option<(u32, Lsn)>,
    /// What the last look found, not noted yet, and where the archive was then.
    found: Option<(Standing, Vec<Found>)>,
    /// When the next look is due.
    due: Instant,
}

/// A file, and what it is now; `None` if it is gone.
type Found = (String, Option<Seen>);

/// A file that is there.
#[derive(Debug)]
struct Seen {
    stamp: String,
    /// Its content in the archive.
    content: Option<String>,
}

impl Definitions {
    /// Continues what an earlier run noted.
    pub fn open(archive: &Path, datadir: &Path) -> Result<Self> {
        let (mut known, mut looked) = (BTreeMap::new(), None);
        each_note(archive, &mut |note| {
            looked = Some((note.timeline, Lsn(note.after)));
            if note.is_gone {
                known.remove(&note.path);
            } else if !note.path.is_empty() {
                known.insert(note.path, note.stamp);
            }
        })?;
        let (archive, datadir) = (archive.to_path_buf(), datadir.to_path_buf());
        Ok(Self { archive, datadir, known, directories: BTreeMap::new(), looked, found: None, due: Instant::now() })
    }

    /// Looks for what changed since the last look, if it is time. `at` is where the archive is. Then read the log, and [`note`](Self::note).
    pub fn look(&mut self, at: Standing) -> Result<()> {
        let started = Instant::now();
        if started < self.due {
            return Ok(());
        }
        let is_first = self.looked.is_none();
        let mut found = Vec::new();
        for (path, stamp) in self.changes()? {
            let Some(stamp) = stamp else {
                self.known.remove(&path);
                found.push((path, None));
                continue;
            };
            // What is there at first is in the base copy, too.
            let content = if is_first { None } else { self.keep(&path)? };
            if content.is_none() && !is_first {
                // Gone again: the next look says so.
                self.known.remove(&path);
                continue;
            }
            found.push((path, Some(Seen { stamp, content })));
        }
        self.found = Some((at, found));
        self.due = Instant::now() + started.elapsed() * SHARE;
        Ok(())
    }

    /// Whether the last look found anything that is not noted yet.
    pub fn has_found(&self) -> bool {
        self.found.as_ref().is_some_and(|(_, found)| !found.is_empty())
    }

    /// Notes what the last look found. `seen`: an LSN that the log had reached after that look.
    pub fn note(&mut self, seen: Lsn) -> Result<()> {
        let Some((at, found)) = self.found.take() else { return Ok(()) };
        // An LSN of another timeline says nothing in this one.
        let after = self.looked.filter(|(timeline, _)| *timeline == at.timeline).map_or(at.lsn, |(_, lsn)| lsn);
        let before = seen.max(at.lsn);
        let (timeline, after, before) = (at.timeline, after.0, before.0);
        let note = |path: String, seen: Option<Seen>| {
            let is_gone = seen.is_none();
            let (stamp, content) = seen.map_or((String::new(), None), |seen| (seen.stamp, seen.content));
            Note { timeline, after, before, path, stamp, content, is_gone }
        };
        let begin = Note { is_gone: false, ..note(String::new(), None) };
        let begin = Some(begin).filter(|_| self.looked.is_none());
        let notes: Vec<Note> =
            begin.into_iter().chain(found.into_iter().map(|(path, seen)| note(path, seen))).collect();
        self.append(&notes)?;
        self.looked = Some((at.timeline, at.lsn));
        Ok(())
    }

    /// Notes how far the looks went, for the next run.
    pub fn end(&self) -> Result<()> {
        let Some((timeline, Lsn(at))) = self.looked else { return Ok(()) };
        let (path, stamp) = (String::new(), String::new());
        self.append(&[Note { timeline, after: at, before: at, path, stamp, content: None, is_gone: false }])
    }

    /// Files that are new, other than they were, or gone, with their stamps.
    fn changes(&mut self) -> Result<Vec<(String, Option<String>)>> {
        let mut changed = Vec::new();
        let databases = match self.databases() {
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
            other => other.map_err(failed(&self.datadir, "looking for definitions"))?,
        };
        for database in &databases {
            let listed = self.changed_in(database, &mut changed);
            match listed {
                // Dropped meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other.map_err(failed(&self.datadir.join(database), "looking for definitions"))?,
            }
        }
        let is_left = |path: &&String| path.split_once('/').is_none_or(|(database, _)| !databases.contains(database));
        changed.extend(self.known.keys().filter(is_left).map(|path| (path.clone(), None)));
        self.directories.retain(|database, _| databases.contains(database));
        for (path, stamp) in &changed {
            if let Some(stamp) = stamp {
                self.known.insert(path.clone(), stamp.clone());
            }
        }
        Ok(changed)
    }

    fn databases(&self) -> io::Result<BTreeSet<String>> {
        let mut databases = BTreeSet::new();
        for entry in fs::read_dir(&self.datadir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // A dot in a database's name is encoded.
            if !name.starts_with(['#', '.'])
                && name != LOST
                && !entry.file_type()?.is_file()
                && fs::metadata(entry.path()).is_ok_and(|it| it.is_dir())
            {
                databases.insert(name);
            }
        }
        Ok(databases)
    }

    fn changed_in(&mut self, database: &str, changed: &mut Vec<(String, Option<String>)>) -> io::Result<()> {
        let directory = self.datadir.join(database);
        let metadata = fs::metadata(&directory)?;
        let stamp = stamp_of(&metadata);
        let defaults = format!("{database}/{DATABASE}");
        if self.directories.get(database) == Some(&stamp) {
            let now = fs::symlink_metadata(directory.join(DATABASE)).ok().map(|metadata| stamp_of(&metadata));
            if now.is_some() && now.as_ref() != self.known.get(&defaults) {
                changed.push((defaults, now));
            }
            return Ok(());
        }
        let mut present = BTreeSet::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let ending = name.rsplit_once('.').map(|(_, ending)| ending);
            if name.starts_with("#sql") || !ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            let (path, stamp) = (format!("{database}/{name}"), stamp_of(&metadata));
            if metadata.is_file() && self.known.get(&path) != Some(&stamp) {
                changed.push((path.clone(), Some(stamp)));
            }
            present.insert(path);
        }
        let prefix = format!("{database}/");
        let before =
            self.known.range(prefix.clone()..).map(|(path, _)| path).take_while(|path| path.starts_with(&prefix));
        changed.extend(before.filter(|path| !present.contains(*path)).map(|path| (path.clone(), None)));
        let is_settled = metadata.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if is_settled.is_some_and(|since| since > SAME_TIME) {
            self.directories.insert(database.to_owned(), stamp);
        } else {
            self.directories.remove(database);
        }
        Ok(())
    }

    /// Keeps the content of a file. Returns its name in the archive. `None` if it is gone.
    fn keep(&self, path: &str) -> Result<Option<String>> {
        let full = self.datadir.join(path);
        let mut bytes = Vec::new();
        let read = door::source(&self.datadir, path).and_then(|file| file.take(CONTENT_MAX).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound || door::is_odd(&error) => return Ok(None),
            other => other.map_err(failed(&full, "reading the definition"))?,
        };
        let dir = self.archive.join(CONTENTS);
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made.and_then(|()| sync_directory(&self.archive)),
        }
        .map_err(failed(&dir, "making the directory"))?;
        let name = content_name(&bytes);
        let place = dir.join(&name);
        if !place.exists() {
            let new = dir.join(format!("{name}.new"));
            let written = || -> io::Result<()> {
                let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
                file.write_all(&bytes)?;
                file.sync_all()?;
                rename(&new, &place)
            };
            written().map_err(failed(&place, "keeping the definition"))?;
        }
        Ok(Some(name))
    }

    fn append(&self, notes: &[Note]) -> Result<()> {
        if notes.is_empty() {
            return Ok(());
        }
        let path = self.archive.join(NOTES);
        let appended = || -> io::Result<()> {
            // A line that a power failure cut off must not take the next one along: an empty line does no harm.
            let mut text = vec![b'\n'];
            for note in notes {
                serde_json::to_writer(&mut text, note)?;
                text.push(b'\n');
            }
            let mut file = File::options().append(true).create(true).mode(0o600).open(&path)?;
            file.write_all(&text)?;
            file.sync_data()
        };
        appended().map_err(failed(&path, "noting definitions"))
    }
}

fn stamp_of(metadata: &Metadata) -> String {
    let (inode, len) = (metadata.ino(), metadata.len());
    format!(
        "{inode}-{len}-{}.{:09}-{}.{:09}",
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec()
    )
}

fn content_name(bytes: &[u8]) -> String {
    format!("{:08x}-{}", crc32c(bytes), bytes.len())
}

/// Passes the notes of an archive to `take`. Only the line that was being written at a power failure can be cut off. Read line by line: a server
/// that makes and drops tables all day leaves millions.
fn each_note(archive: &Path, take: &mut dyn FnMut(Note)) -> Result<()> {
    let path = archive.join(NOTES);
    let mut read = match door::read(archive, NOTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => BufReader::new(opened.map_err(failed(&path, "reading the notes about definitions"))?),
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let taken = read.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        if taken.map_err(failed(&path, "reading the notes about definitions"))? == 0 {
            return Ok(());
        }
        if let Ok(note) = serde_json::from_slice(&line) {
            take(note);
        }
    }
}

/// A version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefinitionFile {
    /// It has this content.
    Is(Vec<u8>),
    /// There is no such file.
    Gone,
    /// It is as in the base copy.
    OfBase,
}

/// What an archive knows about definitions.
#[derive(Debug)]
pub(crate) struct History {
    archive: PathBuf,
    /// The looks begin here.
    begun: Lsn,
    /// What changed, by path, in the order in which it was seen.
    versions: BTreeMap<String, Vec<Note>>,
}

impl History {
    /// What is noted in a timeline. `None` if nothing is.
    pub fn read(archive: &Path, timeline: u32) -> Result<Option<Self>> {
        let (mut begun, mut versions) = (None, BTreeMap::<String, Vec<Note>>::new());
        each_note(archive, &mut |note| {
            if note.timeline < timeline {
                // The looks go on from timeline to timeline.
                begun = Some(Lsn(0));
            } else if note.timeline == timeline {
                begun = begun.or(Some(Lsn(note.after)));
                if is_definition(&note.path) && (note.is_gone || note.content.is_some()) {
                    versions.entry(note.path.clone()).or_default().push(note);
                }
            }
        })?;
        Ok(begun.map(|begun| Self { archive: archive.to_path_buf(), begun, versions }))
    }

    /// Whether it knows what changed after a base copy that ends there.
    pub fn covers(&self, base_end: Lsn) -> bool {
        self.begun <= base_end
    }

    /// The files that changed.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.versions.keys().map(String::as_str)
    }

    /// A file that changed when the log was somewhere around this LSN, and the nearest LSNs before and after it at which every file is certain. Its
    /// content at the LSN may be one that nobody saw.
    pub fn unsure_at(&self, at: Lsn) -> Option<(&str, Range<Lsn>)> {
        let unsure = |at: u64| {
            let notes = self.versions.iter().flat_map(|(path, notes)| notes.iter().map(move |note| (path, note)));
            notes.filter(move |(_, note)| note.after < at && at < note.before)
        };
        let (path, _) = unsure(at.0).next()?;
        // What is certain about one file may be uncertain about another.
        let (mut before, mut after) = (at.0, at.0);
        while let Some(lower) = unsure(before).map(|(_, note)| note.after).min() {
            before = lower;
        }
        while let Some(higher) = unsure(after).map(|(_, note)| note.before).max() {
            after = higher;
        }
        Some((path.as_str(), Lsn(before)..Lsn(after)))
    }

    /// Whether anything was seen of this file.
    pub fn knows(&self, path: &str) -> bool {
        self.versions.contains_key(path)
    }

    /// The version of a file at a moment, by its `rank`: first the newest that was certainly there, then those that may have been, from old to
    /// new, then older ones, then later ones. `None` if there are no more.
    pub fn version(&self, path: &str, at: Lsn, rank: usize) -> Result<Option<DefinitionFile>> {
        let all = self.versions.get(path).map(Vec::as_slice).unwrap_or_default();
        let (sure, others): (Vec<&Note>, Vec<&Note>) = all.iter().partition(|note| note.before <= at.0);
        let (unsure, later): (Vec<&Note>, Vec<&Note>) = others.into_iter().partition(|note| note.after <= at.0);
        let mut sure = sure.into_iter().rev().map(Some).chain([None]);
        let newest = sure.next();
        let (unsure, later) = (unsure.into_iter().map(Some), later.into_iter().map(Some));
        let Some(note) = newest.into_iter().chain(unsure).chain(sure).chain(later).nth(rank) else { return Ok(None) };
        let Some(note) = note else { return Ok(Some(DefinitionFile::OfBase)) };
        let Some(name) = &note.content else { return Ok(Some(DefinitionFile::Gone)) };
        let place = self.archive.join(CONTENTS).join(name);
        let mut bytes = Vec::new();
        let read = door::read(&self.archive.join(CONTENTS), name);
        read.and_then(|file| file.take(CONTENT_MAX).read_to_end(&mut bytes))
            .map_err(failed(&place, "reading the definition"))?;
        if content_name(&bytes) != *name {
            return refused(format!("{}: the definition was changed since it was archived", place.display()));
        }
        Ok(Some(DefinitionFile::Is(bytes)))
    }

    /// Whether the moment is before everything that was seen of this file.
    pub fn is_before_all(&self, path: &str, at: Lsn) -> bool {
        self.versions.get(path).is_none_or(|all| all.iter().all(|note| note.after > at.0))
    }
}

/// Whether this is the path of a definition: a file of such a name in a directory of the datadir.
fn is_definition(path: &str) -> bool {
    let Some((database, file)) = path.split_once('/') else { return false };
    let is_plain = SetName::parse(Path::new(path)).is_some() && !file.contains('/') && !database.starts_with('#');
    is_plain && file.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use super::*;

    fn at(lsn: u64) -> Standing {
        Standing { timeline: 1, lsn: Lsn(lsn), complete: None }
    }

    fn is(text: &str) -> DefinitionFile {
        DefinitionFile::Is(text.as_bytes().to_vec())
    }

    /// A look while the archive is at one LSN, and the log ends at another after it.
    fn look(looks: &mut Definitions, lsn: u64, seen: u64) {
        looks.due = Instant::now();
        looks.look(at(lsn)).expect("looked");
        looks.note(Lsn(seen)).expect("noted");
    }

    #[test]
    fn every_version_that_is_seen_is_kept_with_the_lsns_around_it() {
        let (archive, datadir) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let shop = datadir.path().join("shop");
        fs::create_dir(&shop).expect("made");
        fs::write(shop.join("a.frm"), "one").expect("written");
        fs::write(shop.join("a.ibd"), "rows").expect("written");
        for other in ["lost+found", ".home"] {
            fs::create_dir(datadir.path().join(other)).expect("made");
            fs::write(datadir.path().join(other).join("a.frm"), "no definition").expect("written");
        }
        let open = || Definitions::open(archive.path(), datadir.path()).expect("opened");
        let mut looks = open();
        look(&mut looks, 100, 100);
        fs::write(shop.join("#sql-a.frm"), "two").expect("written");
        fs::rename(shop.join("#sql-a.frm"), shop.join("a.frm")).expect("renamed");
        look(&mut looks, 200, 220);
        look(&mut looks, 300, 320);
        fs::write(shop.join("b.frm"), "b").expect("written");
        // A line that was cut off, or is none, takes no other along.
        let notes = archive.path().join(NOTES);
        let text = fs::read_to_string(&notes).expect("read");
        fs::write(&notes, format!("{text}{}\n{{\"timeline\":1,", "x".repeat(200_000))).expect("written");
        // Another run goes on from what the notes say.
        let mut looks = open();
        look(&mut looks, 400, 420);
        fs::remove_dir_all(&shop).expect("removed");
        look(&mut looks, 500, 520);

        let history = History::read(archive.path(), 1).expect("read").expect("noted");
        assert!(history.covers(Lsn(100)) && !history.covers(Lsn(99)));
        assert_eq!(history.paths().collect::<Vec<_>>(), ["shop/a.frm", "shop/b.frm"]);
        let versions = |path: &str, lsn| -> Vec<DefinitionFile> {
            (0..9).map_while(|rank| history.version(path, Lsn(lsn), rank).expect("read")).collect()
        };
        assert!(history.is_before_all("shop/a.frm", Lsn(99)) && !history.is_before_all("shop/a.frm", Lsn(100)));
        let (two, base, gone) = (is("two"), DefinitionFile::OfBase, DefinitionFile::Gone);
        assert_eq!(
            versions("shop/a.frm", 150),
            [base.clone(), two.clone(), gone.clone()],
            "it may have changed by then"
        );
        assert_eq!(versions("shop/a.frm", 220), [two.clone(), base.clone(), gone.clone()], "it had changed by then");
        assert_eq!(versions("shop/a.frm", 450), [two.clone(), gone.clone(), base.clone()]);
        assert_eq!(versions("shop/a.frm", 520), [gone, two, base]);
        assert!(History::read(archive.path(), 2).expect("read").expect("goes on").covers(Lsn(0)));
    }

    #[test]
    fn names_that_lead_out_of_a_database_are_none_of_a_definition() {
        for path in ["../a.frm", "/etc/a.frm", "a.frm", "shop/../a.frm", "shop/x/a.frm", "shop/a.ibd", "#x/a.frm", ""] {
            assert!(!is_definition(path), "{path}");
        }
        assert!(is_definition("shop/a.frm") && is_definition("my@002dwp/db.opt"));
    }
}
