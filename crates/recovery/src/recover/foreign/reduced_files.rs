//! xtrabackup's notes of what happened to files while it copied them with `--lock-ddl=REDUCED`. It then keeps the server from creating and
//! dropping tables only at the end of the backup. The notes name a tablespace by number, because its file may have had several names.
//!
//! | note | meaning |
//! |---|---|
//! | `db/17.del` or `17.del`, empty | tablespace 17 was copied and then dropped, or it is an undo tablespace and got another number |
//! | `db/17.ren`, holds `1` and below `db2/u.ibd` | tablespace 17 was copied and must become `db2/u.ibd`; the first versions omit line 1 |
//! | `db/t.ibd.new`, `undo_001.new` | the tablespace of a table that was created or rebuilt, copied at the end: it replaces `db/t.ibd` |
//! | `db/t.ibd.crpt`, empty | the copy `db/t.ibd` has damaged pages, because the table was being rebuilt: it must be deleted |
//!
//! `.del` and `.ren` notes of general and undo tablespaces are at the top level. In an increment the notes apply to `db/t.ibd.delta`, whose
//! own note has the number, and new files are called `db/t.ibd.new.delta`.
//!
//! Source: Percona XtraBackup 8.0 and 8.4, `ddl_tracker.cc`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use format::SpaceId;
use format::bytes::be;
use format::fil::FIL_PAGE_SPACE_ID;

use super::backup_files::{FileNotes, MOVING};
use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::place::walk::walk;
use datadir::name::NameHint;
use datadir::reading::{read_small, read_up_to};

/// The only version of renaming notes.
const VERSION: &str = "1";
/// Bytes of a note read at most. No table name is longer.
const NAME_MAX: u64 = 4096;

/// The notes of one backup or increment; all names are relative to it.
#[derive(Debug, Default)]
pub(in crate::recover) struct Reduced {
    dropped: Vec<(SpaceId, PathBuf)>,
    renamed: Vec<(SpaceId, PathBuf, PathBuf)>,
    /// Files by their final names.
    made: BTreeMap<PathBuf, PathBuf>,
    /// The notes of damaged files, by the names of these files.
    damaged: BTreeMap<PathBuf, PathBuf>,
    /// The tablespaces' files, including those that an interrupted run was renaming.
    files: BTreeSet<PathBuf>,
}

/// Whether this is a tablespace's name, in a directory where the tool puts tablespaces.
fn is_tablespace(name: &Path) -> bool {
    NameHint::of(name).promises_pages() && name.components().count() <= 2
}

impl Reduced {
    /// Reads the notes. Fails if one is not in the tool's format.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut notes = Self::default();
        walk(dir, &mut |name, metadata| {
            if !metadata.is_file() || name.components().count() > 2 {
                return Ok(());
            }
            let inner = name.with_extension("");
            match name.extension().and_then(OsStr::to_str) {
                Some("del") => notes.dropped.push((number(dir, name)?, name.to_path_buf())),
                Some("ren") => notes.renamed.push((number(dir, name)?, name.to_path_buf(), new_name(&dir.join(name))?)),
                // In an increment, the changed pages of a new file.
                Some("delta") if inner.extension() == Some(OsStr::new("new")) => {
                    notes.made.insert(inner.with_extension(""), inner);
                }
                Some("new") if is_tablespace(&inner) => drop(notes.made.insert(inner, name.to_path_buf())),
                Some("crpt") if is_tablespace(&inner) => drop(notes.damaged.insert(inner, name.to_path_buf())),
                Some(MOVING) => drop(notes.files.insert(name.to_path_buf())),
                _ if is_tablespace(name) => drop(notes.files.insert(name.to_path_buf())),
                _ => {}
            }
            Ok(())
        })?;
        Ok(notes)
    }

    /// Translates the notes for the files of a full backup.
    pub fn files(&self, dir: &Path) -> Result<FileNotes> {
        if self.is_empty() {
            return Ok(FileNotes::default());
        }
        let is_first = |name: &&PathBuf| !matches!(NameHint::of(name), NameHint::System(2..));
        let mut held = BTreeMap::new();
        for name in self.files.iter().chain(self.made.values()).filter(is_first) {
            held.insert(name.clone(), number_in(&dir.join(name))?);
        }
        let mut notes = self.of_tablespaces(&held)?;
        for (table, file) in &self.made {
            notes.make(table.clone(), file.clone());
        }
        Ok(notes)
    }

    pub fn is_empty(&self) -> bool {
        let is_moving = |name: &PathBuf| name.extension() == Some(OsStr::new(MOVING));
        self.dropped.is_empty()
            && self.renamed.is_empty()
            && self.made.is_empty()
            && self.damaged.is_empty()
            && !self.files.iter().any(is_moving)
    }

    /// Translates the notes for tablespaces with these numbers, which include those of new files. Does not add the new files themselves.
    pub fn of_tablespaces(&self, held: &BTreeMap<PathBuf, SpaceId>) -> Result<FileNotes> {
        let mut notes = FileNotes::default();
        let is_new = |name: &PathBuf| self.made.values().any(|file| file == name);
        let old = held.iter().filter(|(name, _)| !is_new(name) && !self.damaged.contains_key(*name));
        let by_number: BTreeMap<SpaceId, &PathBuf> = old.clone().map(|(name, space)| (*space, name)).collect();
        for (table, note) in &self.damaged {
            let again = self.made.values().filter_map(|file| held.get(file));
            // No file: an interrupted run had already deleted it.
            let is_again = held.get(table).is_none_or(|space| again.clone().any(|other| other == space));
            if !is_again && !self.made.contains_key(table) {
                return refused(format!(
                    "{}: pages of {} were damaged when it was copied, and the backup has no later copy of it: if the table was not dropped \
                     meanwhile, it is lost",
                    note.display(),
                    table.display()
                ));
            }
            notes.delete(table.clone(), note);
        }
        for (space, note) in &self.dropped {
            match by_number.get(space) {
                Some(table) => notes.delete((*table).clone(), note),
                // An interrupted run had already deleted it.
                None => notes.spend(0, note),
            }
        }
        for (space, note, to) in &self.renamed {
            let is_made = self.made.contains_key(to) || held.contains_key(to);
            match by_number.get(space) {
                Some(from) if *from == to || from.extension() == Some(OsStr::new(MOVING)) => notes.spend(1, note),
                Some(from) => notes.rename((*from).clone(), to.clone(), note),
                None if is_made => notes.spend(1, note),
                None => {
                    let (note, to) = (note.display(), to.display());
                    return refused(format!("{note}: tablespace {space} was renamed to {to}, but it is missing"));
                }
            }
        }
        for (name, _) in old.clone().filter(|(name, _)| name.extension() == Some(OsStr::new(MOVING))) {
            notes.go_on(name.with_extension(""));
        }
        notes.check(&old.map(|(name, _)| name.clone()).collect())?;
        for (table, file) in &self.made {
            let (new, old) = (held.get(file), held.get(table).filter(|_| !self.damaged.contains_key(table)));
            if old.is_some_and(|old| new != Some(old)) && notes.stays(table) {
                return refused(format!(
                    "{}: it would take the place of another tablespace, of which the backup does not say that it was dropped or renamed",
                    file.display()
                ));
            }
        }
        Ok(notes)
    }
}

/// The tablespace's number, from the note's name.
fn number(dir: &Path, note: &Path) -> Result<SpaceId> {
    match note.file_stem().and_then(|stem| stem.to_str()?.parse().ok()) {
        Some(space) => Ok(SpaceId(space)),
        None => refused(format!(
            "{}: a note of xtrabackup, but its name is not the number of a tablespace",
            dir.join(note).display()
        )),
    }
}

/// The tablespace's number on the first page; 0 if the page is not written yet.
fn number_in(path: &Path) -> Result<SpaceId> {
    let head = door::open_file(path).and_then(|file| read_up_to(&file, 0, FIL_PAGE_SPACE_ID + 4));
    let head = head.map_err(failed(path, "reading the first page"))?;
    Ok(SpaceId(be::u32_at(&head, FIL_PAGE_SPACE_ID).unwrap_or(0)))
}

/// The new name in a note about a renamed tablespace.
fn new_name(note: &Path) -> Result<PathBuf> {
    let text = read_small(note, NAME_MAX).map_err(failed(note, "reading the backup's note"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let name = match lines.as_slice() {
        [name] | [VERSION, name] => Path::new(name.strip_prefix("./").unwrap_or(name)),
        _ => return refused(format!("{}: a note in a form that innokit does not know", note.display())),
    };
    if !is_tablespace(name) || !name.components().all(|part| matches!(part, Component::Normal(_))) {
        return refused(format!(
            "{}: `{}` is not the name of a tablespace in the backup",
            note.display(),
            name.display()
        ));
    }
    Ok(name.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::backup_files::tests::assert_any_step_may_be_the_last;
    use super::*;

    /// The start of a tablespace with this number, and a text that identifies it.
    fn head(space: u32, what: &str) -> Vec<u8> {
        [&[0; FIL_PAGE_SPACE_ID][..], &space.to_be_bytes(), what.as_bytes()].concat()
    }

    fn backup() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("db")).expect("made");
        fs::write(dir.path().join("xtrabackup_checkpoints"), "backup_type = full-backuped\n").expect("written");
        fs::write(dir.path().join("xtrabackup_info"), "tool_name = xtrabackup\n").expect("written");
        let spaces = [
            // Two tables that swapped names, one that took the name of a dropped table, and one moved to a new database.
            ("db/a.ibd", 11, "was a"),
            ("db/b.ibd", 12, "was b"),
            ("db/gone.ibd", 13, "gone"),
            ("db/c.ibd", 14, "was c"),
            ("db/e.ibd", 15, "was e"),
            // Truncated; created; rebuilt within its file; damaged, and then copied again under another name.
            ("db/r.ibd", 16, "old r"),
            ("db/r.ibd.new", 26, "new r"),
            ("db/m.ibd.new", 27, "new m"),
            ("db/i.ibd", 17, "old i"),
            ("db/i.ibd.new", 17, "new i"),
            ("db/d.ibd", 18, "damaged d"),
            ("db/d2.ibd.new", 18, "new d"),
            ("db/same.ibd", 19, "same"),
            // Rebuilt and renamed: the note refers to the older file.
            ("db/x.ibd", 20, "old x"),
            ("db/y.ibd.new", 20, "new x"),
            // Copied when it already had its new name.
            ("db/late.ibd", 21, "late"),
            // A general tablespace that was dropped, an undo tablespace that was truncated, and the system tablespace.
            ("old.ibd", 22, "old"),
            ("undo_001", 0xFFFF_FFEF, "old undo"),
            ("undo_001.new", 0xFFFF_FF6F, "new undo"),
            ("ibdata1", 0, "system"),
        ];
        for (name, space, what) in spaces {
            fs::write(dir.path().join(name), head(space, what)).expect("written");
        }
        let notes = [
            ("db/11.ren", "1\ndb/b.ibd"),
            ("db/12.ren", "db/a.ibd"),
            ("db/13.del", ""),
            ("db/14.ren", "1\n./db/gone.ibd\n"),
            ("db/15.ren", "1\ndb2/e.ibd"),
            ("db/16.del", ""),
            ("db/d.ibd.crpt", ""),
            ("db/20.ren", "1\ndb/y.ibd"),
            ("db/21.ren", "1\ndb/late.ibd"),
            ("22.del", ""),
            ("4294967279.del", ""),
            ("db/99.del", ""),
        ];
        for (name, text) in notes {
            fs::write(dir.path().join(name), text).expect("written");
        }
        dir
    }

    fn files(dir: &Path) -> Vec<(String, String)> {
        let mut files = Vec::new();
        walk(dir, &mut |name, metadata| {
            if metadata.is_file() && !name.starts_with("xtrabackup_checkpoints") && !name.starts_with("xtrabackup_info")
            {
                let bytes = fs::read(dir.join(name)).expect("read");
                let what = String::from_utf8_lossy(bytes.get(FIL_PAGE_SPACE_ID + 4..).unwrap_or(&bytes)).into_owned();
                files.push((name.display().to_string(), what));
            }
            Ok(())
        })
        .expect("walked");
        files
    }

    const AFTER: [(&str, &str); 13] = [
        ("db/a.ibd", "was b"),
        ("db/b.ibd", "was a"),
        ("db/d2.ibd", "new d"),
        ("db/gone.ibd", "was c"),
        ("db/i.ibd", "new i"),
        ("db/late.ibd", "late"),
        ("db/m.ibd", "new m"),
        ("db/r.ibd", "new r"),
        ("db/same.ibd", "same"),
        ("db/y.ibd", "new x"),
        ("db2/e.ibd", "was e"),
        ("ibdata1", "system"),
        ("undo_001", "new undo"),
    ];

    #[test]
    fn notes_by_number_are_carried_out_and_an_interrupted_run_can_be_repeated() {
        let steps = assert_any_step_may_be_the_last(backup, files, is_tablespace, &AFTER);
        assert!(steps > 30);
    }

    #[test]
    fn notes_in_another_form_or_without_their_files_are_refused() {
        let refused = |name: &str, bytes: &[u8], words: &str| {
            let dir = backup();
            fs::write(dir.path().join(name), bytes).expect("written");
            let error = FileNotes::read(dir.path()).map(drop).expect_err(words).to_string();
            assert!(error.contains(words), "{name}: {error}");
        };
        refused("db/19.ren", b"2\ndb/other.ibd", "in a form that innokit does not know");
        refused("db/19.ren", b"", "in a form that innokit does not know");
        for name in ["/srv/t.ibd", "../db/t.ibd", "db/../t.ibd", "db/t", "1"] {
            refused("db/19.ren", name.as_bytes(), "is not the name of a tablespace");
        }
        refused("db/19.ren", b"1\ndb/m2/t.ibd", "is not the name of a tablespace");
        refused("db/t.ren", b"1\ndb/u.ibd", "not the number of a tablespace");
        refused("db/98.ren", b"1\ndb/u.ibd", "it is missing");
        refused("db/19.ren", b"1\ndb/b.ibd", "which is another file");
        refused("db/same.ibd.new", &head(30, "other"), "the place of another tablespace");
        refused("db/same.ibd.crpt", b"", "no later copy of it");
    }
}
