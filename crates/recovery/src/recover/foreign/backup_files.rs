//! mariadb-backup's notes of files renamed, dropped or created while it copied them, and the steps they require before the log is applied.
//!
//! At the end, when no table can be created or dropped any more, the tool compares the files it copied with what the log said meanwhile:
//!
//! | note | meaning |
//! |---|---|
//! | `db/t.del`, empty | `db/t.ibd` was copied, and then the table was dropped |
//! | `db/t.ren`, holds `db2/u` | `db/t.ibd` was copied, and must become `db2/u.ibd`; two tables may have swapped names |
//! | `db/t.new` | the tablespace of a table that was created or rebuilt, copied at the end: it replaces `db/t.ibd` |
//!
//! In an increment they apply to `db/t.ibd.delta` and are read by `increments`.
//!
//! xtrabackup leaves similar notes, but names tablespaces by number (`reduced_files`).
//!
//! The notes are carried out in this order, and each kind is made durable before the next. Another run can continue after any step: a note
//! is removed only after its step is done, and a renamed file first gets an unused name, since its new name may still belong to another
//! file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::reduced_files::Reduced;
use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::place::durable::sync_directory;
use crate::recover::place::walk::walk;
use datadir::backup_notes::{BackupNotes, XTRABACKUP};
use datadir::files::AskPath;
use datadir::reading::read_small;

const DELETED: &str = "del";
const RENAMED: &str = "ren";
const MADE: &str = "new";
const TABLE: &str = "ibd";
const CHANGED: &str = "delta";
/// Suffix of a file that is on its way to its new name.
pub(in crate::recover) const MOVING: &str = "innokit-ren";
/// Bytes of a note read at most. No table name is longer.
const NAME_MAX: u64 = 4096;

/// The notes of one backup; all names are relative to it.
#[derive(Debug, Default)]
pub(in crate::recover) struct FileNotes {
    /// Tablespaces to delete.
    deleted: BTreeSet<PathBuf>,
    /// Tablespaces to rename, with their new names.
    renamed: BTreeMap<PathBuf, PathBuf>,
    /// Replacements and new tablespaces: the files by their final names.
    made: BTreeMap<PathBuf, PathBuf>,
    /// Names to which an interrupted run was renaming files.
    moving: BTreeSet<PathBuf>,
    /// The note files themselves: of deleted and of renamed tablespaces.
    notes: [BTreeSet<PathBuf>; 2],
}

impl FileNotes {
    /// Reads the notes. Fails if they cannot be carried out.
    pub fn read(datadir: &Path) -> Result<Self> {
        if BackupNotes::of(datadir).is_some_and(|notes| notes.tool == XTRABACKUP) {
            return Reduced::read(datadir)?.files(datadir);
        }
        let (mut notes, mut tables) = (Self::default(), BTreeSet::new());
        walk(datadir, &mut |name, metadata| {
            // The tool writes no notes for top-level files.
            if !metadata.is_file() || name.components().count() != 2 {
                return Ok(());
            }
            let table = name.with_extension(TABLE);
            match name.extension().and_then(OsStr::to_str) {
                Some(TABLE) => drop(tables.insert(table)),
                // In an increment, the changed pages of a tablespace.
                Some(CHANGED) => drop(tables.insert(name.with_extension(""))),
                Some(DELETED) => notes.delete(table, name),
                Some(MADE) => drop(notes.made.insert(table, name.to_path_buf())),
                Some(MOVING) => drop(notes.moving.insert(name.with_extension(""))),
                Some(RENAMED) => notes.rename(table, new_name(&datadir.join(name))?, name),
                _ => {}
            }
            Ok(())
        })?;
        notes.check(&tables)?;
        Ok(notes)
    }

    pub fn delete(&mut self, table: PathBuf, note: &Path) {
        self.deleted.insert(table);
        self.spend(0, note);
    }

    pub fn rename(&mut self, from: PathBuf, to: PathBuf, note: &Path) {
        self.renamed.insert(from, to);
        self.spend(1, note);
    }

    pub fn make(&mut self, table: PathBuf, file: PathBuf) {
        self.made.insert(table, file);
    }

    /// Continues a rename to this name that an interrupted run began.
    pub fn go_on(&mut self, to: PathBuf) {
        self.moving.insert(to);
    }

    /// Schedules the note for removal, once all notes of its kind (0: deleted, 1: renamed) are carried out.
    pub fn spend(&mut self, kind: usize, note: &Path) {
        if let Some(notes) = self.notes.get_mut(kind) {
            notes.insert(note.to_path_buf());
        }
    }

    /// Fails if the notes contradict each other or `tables`, the tablespaces in the backup.
    pub fn check(&self, tables: &BTreeSet<PathBuf>) -> Result<()> {
        for (from, to) in &self.renamed {
            let says = format!("the backup says that {} was renamed to {}", from.display(), to.display());
            if !tables.contains(from) && !self.moving.contains(to) {
                return refused(format!("{says}, but it is missing"));
            }
            let stays = tables.contains(to) && !self.renamed.contains_key(to) && !self.deleted.contains(to);
            if stays || self.renamed.values().filter(|other| *other == to).count() > 1 {
                return refused(format!("{says}, which is another file"));
            }
        }
        Ok(())
    }

    /// Whether a tablespace keeps its name.
    pub fn stays(&self, table: &Path) -> bool {
        !self.deleted.contains(table) && !self.renamed.contains_key(table)
    }

    pub fn is_empty(&self) -> bool {
        let [deleted, renamed] = &self.notes;
        [deleted, renamed, &self.moving].iter().all(|names| names.is_empty()) && self.made.is_empty()
    }

    /// The final name of a file; `None` if it will be deleted, or its name is not a tablespace's.
    pub fn name_of(&self, name: &Path) -> Option<PathBuf> {
        if let Some((table, _)) = self.made.iter().find(|(_, file)| *file == name) {
            return Some(table.clone());
        }
        if self.deleted.contains(name) {
            return None;
        }
        let is_moving = name.extension() == Some(OsStr::new(MOVING));
        let table = if is_moving { Some(name.with_extension("")) } else { self.renamed.get(name).cloned() };
        Some(table.unwrap_or_else(|| name.to_path_buf())).filter(|table| !self.made.contains_key(table))
    }

    /// The steps to take, in order.
    pub fn steps(&self) -> Vec<FileStep> {
        let remove = |name: &PathBuf| FileStep::Remove(name.clone());
        let aside = |(from, to): (&PathBuf, &PathBuf)| FileStep::Rename(from.clone(), moving(to));
        let moved: BTreeSet<&PathBuf> = self.renamed.values().chain(&self.moving).collect();
        let in_place = |to: &PathBuf| FileStep::Rename(moving(to), to.clone());
        let made = |(table, file): (&PathBuf, &PathBuf)| FileStep::Rename(file.clone(), table.clone());
        let [deleted, renamed] = &self.notes;
        let phases: [Vec<FileStep>; 6] = [
            self.deleted.iter().map(remove).collect(),
            deleted.iter().map(remove).collect(),
            self.renamed.iter().map(aside).collect(),
            renamed.iter().map(remove).collect(),
            moved.into_iter().map(in_place).collect(),
            self.made.iter().map(made).collect(),
        ];
        phases.into_iter().flat_map(|phase| phase.into_iter().chain([FileStep::Sync])).collect()
    }

    /// Carries out the notes, durably, and removes them.
    pub fn carry_out(&self, datadir: &Path) -> Result<()> {
        let mut touched = BTreeSet::new();
        self.steps().iter().try_for_each(|step| step.take(datadir, &mut touched))
    }
}

/// One step. Each can be repeated after a crash: it does nothing if its file is already gone.
#[derive(Debug)]
pub(in crate::recover) enum FileStep {
    Remove(PathBuf),
    /// Replaces any file with the new name.
    Rename(PathBuf, PathBuf),
    /// Makes the previous steps durable.
    Sync,
}

impl FileStep {
    pub fn take(&self, datadir: &Path, touched: &mut BTreeSet<PathBuf>) -> Result<()> {
        let mut touch = |path: &Path| touched.extend(path.parent().map(Path::to_path_buf));
        match self {
            Self::Remove(name) => {
                let path = datadir.join(name);
                touch(&path);
                match door::remove(datadir, name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(failed(&path, "removing the file")(error))
                    }
                    _ => Ok(()),
                }
            }
            Self::Rename(from, to) => {
                let path = datadir.join(from);
                if !path.is_there() {
                    return Ok(());
                }
                let renamed = door::make_parents(datadir, to).and_then(|()| door::rename(datadir, from, to));
                touch(&path);
                touch(&datadir.join(to));
                renamed.map_err(failed(&path, "renaming the tablespace"))
            }
            Self::Sync => std::mem::take(touched).iter().try_for_each(|dir| sync_directory(dir)),
        }
    }
}

/// The new name in a note about a renamed table: `db/u`.
fn new_name(note: &Path) -> Result<PathBuf> {
    let text = read_small(note, NAME_MAX).map_err(failed(note, "reading the backup's note"))?;
    let name = Path::new(OsStr::from_bytes(text.trim_ascii_end()));
    let is_table = name.components().count() == 2 && name.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_table {
        return refused(format!("{}: `{}` is not the name of a table", note.display(), name.display()));
    }
    let mut table = name.as_os_str().to_owned();
    table.push(".");
    table.push(TABLE);
    Ok(PathBuf::from(table))
}

pub(in crate::recover) fn moving(table: &Path) -> PathBuf {
    let mut name = table.as_os_str().to_owned();
    name.push(".");
    name.push(MOVING);
    PathBuf::from(name)
}

#[cfg(test)]
pub(in crate::recover) mod tests {
    use std::fs;

    use super::*;

    fn backup() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("db")).expect("made");
        let files = [
            // Two tables that swapped names, a third that took the name of a dropped one, and one moved to a new database.
            ("a.ibd", "was a"),
            ("a.ren", "db/b"),
            ("b.ibd", "was b"),
            ("b.ren", "db/a"),
            ("gone.ibd", "gone"),
            ("gone.del", ""),
            ("c.ibd", "was c"),
            ("c.ren", "db/gone"),
            ("e.ibd", "was e"),
            ("e.ren", "db2/e"),
            // Rebuilt; created; dropped before it was copied; unchanged.
            ("r.ibd", "old r"),
            ("r.new", "new r"),
            ("m.new", "new m"),
            ("never.del", ""),
            ("same.ibd", "same"),
            // Takes the place of a renamed one.
            ("c.new", "new c"),
        ];
        for (name, text) in files {
            fs::write(dir.path().join("db").join(name), text).expect("written");
        }
        dir
    }

    fn files(dir: &Path) -> Vec<(String, String)> {
        let mut files = Vec::new();
        walk(dir, &mut |name, metadata| {
            if metadata.is_file() {
                files.push((name.display().to_string(), fs::read_to_string(dir.join(name)).expect("read")));
            }
            Ok(())
        })
        .expect("walked");
        files
    }

    const AFTER: [(&str, &str); 8] = [
        ("db/a.ibd", "was b"),
        ("db/b.ibd", "was a"),
        ("db/c.ibd", "new c"),
        ("db/gone.ibd", "was c"),
        ("db/m.ibd", "new m"),
        ("db/r.ibd", "new r"),
        ("db/same.ibd", "same"),
        ("db2/e.ibd", "was e"),
    ];

    /// Stops after each step in turn and lets another run continue: its plan and its result must both be the tablespaces `after`, with no
    /// note left. `backup` makes the backup, `files` reads it.
    pub(in crate::recover) fn assert_any_step_may_be_the_last(
        backup: impl Fn() -> tempfile::TempDir,
        files: impl Fn(&Path) -> Vec<(String, String)>,
        is_tablespace: impl Fn(&Path) -> bool,
        after: &[(&str, &str)],
    ) -> usize {
        let after: Vec<_> = after.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let all = FileNotes::read(backup().path()).expect("notes").steps().len();
        for count in 0..=all {
            let dir = backup();
            let mut touched = BTreeSet::new();
            for step in FileNotes::read(dir.path()).expect("notes").steps().iter().take(count) {
                step.take(dir.path(), &mut touched).expect("taken");
            }
            let notes = FileNotes::read(dir.path()).expect("notes");
            let last = |(name, text): (String, String)| {
                let name = notes.name_of(Path::new(&name)).filter(|name| is_tablespace(name))?;
                Some((name.display().to_string(), text))
            };
            let mut planned: Vec<_> = files(dir.path()).into_iter().filter_map(last).collect();
            planned.sort();
            assert_eq!(planned, after, "planned after {count} steps");
            notes.carry_out(dir.path()).expect("carried out");
            assert_eq!(files(dir.path()), after, "after {count} steps");
            assert!(FileNotes::read(dir.path()).expect("notes").is_empty());
        }
        all
    }

    #[test]
    fn interrupted_after_any_step_the_next_run_ends_with_the_same_files() {
        let is_table = |name: &Path| name.extension() == Some(OsStr::new(TABLE));
        let steps = assert_any_step_may_be_the_last(backup, files, is_table, &AFTER);
        assert!(steps > 20);
    }

    #[test]
    fn notes_that_cannot_be_carried_out_are_refused() {
        let refused = |files: &[(&str, &str)], words: &str| {
            let dir = backup();
            for (name, text) in files {
                fs::write(dir.path().join("db").join(name), text).expect("written");
            }
            let error = FileNotes::read(dir.path()).map(drop).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(&[("x.ren", "db/y")], "db/x.ibd was renamed to db/y.ibd, but it is missing");
        refused(&[("x.ren", "db/same"), ("x.ibd", "x")], "db/same.ibd, which is another file");
        refused(&[("x.ren", "db/b"), ("x.ibd", "x")], "db/b.ibd, which is another file");
        for name in ["../db/t", "/db/t", "t", "", "db/../t", "a/b/c"] {
            refused(&[("x.ren", name), ("x.ibd", "x")], "is not the name of a table");
        }
    }
}
