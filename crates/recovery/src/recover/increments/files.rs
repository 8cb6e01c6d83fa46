//! The files of an increment, and the names they get in the backup.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use format::SpaceId;
use logs::delta::Meta;

use super::binlogs;
use crate::recover::error::{Result, damaged, failed, refused};
use crate::recover::foreign::backup_files::FileNotes;
use crate::recover::foreign::reduced_files::Reduced;
use crate::recover::place::walk::walk;
use crate::recover::survey::tablespaces::is_packed;
use datadir::backup_notes::XTRABACKUP;
use datadir::content::{delta_note, read_delta_note};
use datadir::log_name::REDO_DIR;
use datadir::name::NameHint;

const DELTA: &str = ".delta";
const META: &str = ".meta";
/// Suffix of a tablespace created while the increment was taken. Its pages are stored like those of any other.
const NEW: &str = ".new";
const TABLE: &str = ".ibd";
/// Top-level files that go with the server's state: Aria's, and the tool's notes under both of its names.
const TOP: [&str; 4] = ["aria_log", "aws-kms-key", "ib_buffer_pool", "ib_lru_dump"];
const NOTES: [&str; 6] = ["binlog_info", "galera_info", "slave_info", "info", "keys", "tablespaces"];
/// Prefix of the files in which xtrabackup notes where it found the keys.
const KEYRING: &str = "component_keyring_";

/// The changed pages of a file.
#[derive(Debug)]
pub(super) struct Delta {
    /// In the increment.
    pub path: PathBuf,
    /// The file's final name, relative to the backup.
    pub name: PathBuf,
    pub meta: Meta,
    pub space: SpaceId,
}

impl Delta {
    /// Whether the tablespace is identified by number, because its file may have had another name in the backup, or another tablespace this
    /// name. The names of MariaDB's undo tablespaces are fixed. MySQL gives an undo tablespace another number when it truncates it.
    pub fn is_found_by_number(&self, tool: &str) -> bool {
        let depth = self.name.components().count();
        if tool == XTRABACKUP { self.space != SpaceId::SYSTEM } else { depth == 2 }
    }
}

/// The content of an increment.
#[derive(Debug, Default)]
pub(super) struct IncrementFiles {
    /// Its directory.
    pub dir: PathBuf,
    pub deltas: Vec<Delta>,
    /// Complete tablespaces: the file in the increment, and its name relative to the backup.
    pub made: BTreeMap<PathBuf, PathBuf>,
    /// Files of other engines and table definitions, relative to both.
    pub others: Vec<PathBuf>,
    /// Top-level files, relative to both.
    pub top: Vec<PathBuf>,
    pub directories: BTreeSet<PathBuf>,
}

impl IncrementFiles {
    pub fn read(dir: &Path, tool: &str) -> Result<Self> {
        let is_xtrabackup = tool == XTRABACKUP;
        let notes = if is_xtrabackup { reduced(dir)? } else { FileNotes::read(dir)? };
        let (mut files, mut deltas) = (Self { dir: dir.to_path_buf(), ..Self::default() }, BTreeMap::new());
        walk(dir, &mut |name, metadata| {
            let depth = name.components().count();
            if metadata.is_dir() {
                if depth == 1 && name != Path::new(REDO_DIR) {
                    files.directories.insert(name.to_path_buf());
                }
                return Ok(());
            }
            let text = name.to_str().unwrap_or_default();
            if is_packed(name) {
                return refused(format!("{}: packed: unpack the increment first", dir.join(name).display()));
            }
            if is_xtrabackup && (NameHint::of(name).promises_pages() || text.ends_with(NEW)) {
                return refused(format!(
                    "{}: a whole tablespace in an increment, which no known version of xtrabackup leaves there",
                    dir.join(name).display()
                ));
            }
            match (depth, text.strip_suffix(DELTA)) {
                (1 | 2, Some(file)) if is_xtrabackup => files.tablespace(file, name, &notes, &mut deltas),
                (1, Some(file)) => drop(deltas.insert(PathBuf::from(file), name.to_path_buf())),
                (2, Some(file)) => files.table(file, name, &notes, &mut deltas),
                (1, None) if is_at_top(text) => files.top.push(name.to_path_buf()),
                (2, None) => files.beside(text, name),
                _ => {}
            }
            Ok(())
        })?;
        for (name, path) in deltas {
            files.deltas.push(delta(dir, name, &path)?);
        }
        if is_xtrabackup {
            files.top.extend(binlogs::of(dir)?);
        }
        files.check()?;
        Ok(files)
    }

    /// Adds the delta of a table under its final name. A `.new` file wins: the tool wrote it at the end, when tables could not be renamed
    /// any more.
    fn table(&self, file: &str, name: &Path, notes: &FileNotes, deltas: &mut BTreeMap<PathBuf, PathBuf>) {
        if let Some(made) = file.strip_suffix(NEW) {
            deltas.insert(PathBuf::from(format!("{made}{TABLE}")), name.to_path_buf());
        } else if let Some(table) = notes.name_of(Path::new(file)) {
            deltas.entry(table).or_insert_with(|| name.to_path_buf());
        }
    }

    /// The same for xtrabackup, whose new files keep their extension from the server.
    fn tablespace(&self, file: &str, name: &Path, notes: &FileNotes, deltas: &mut BTreeMap<PathBuf, PathBuf>) {
        if let Some(made) = file.strip_suffix(NEW) {
            deltas.insert(PathBuf::from(made), name.to_path_buf());
        } else if let Some(tablespace) = notes.name_of(Path::new(file)) {
            deltas.entry(tablespace).or_insert_with(|| name.to_path_buf());
        }
    }

    fn beside(&mut self, text: &str, name: &Path) {
        let is = |suffix: &str| text.ends_with(suffix);
        if let Some(table) = text.strip_suffix(NEW) {
            self.made.insert(name.to_path_buf(), PathBuf::from(format!("{table}{TABLE}")));
        } else if ![META, TABLE, ".ren", ".del", ".crpt"].into_iter().any(is) {
            self.others.push(name.to_path_buf());
        }
    }

    /// Fails if two files are the same tablespace.
    fn check(&self) -> Result<()> {
        let mut spaces = BTreeMap::new();
        for delta in self.deltas.iter().filter(|delta| delta.space != SpaceId::SYSTEM) {
            if let Some(other) = spaces.insert(delta.space, &delta.name) {
                let (one, other) = (delta.path.display(), other.display());
                return damaged(format!("{one}: tablespace {}, but {other} is that tablespace too", delta.space));
            }
        }
        Ok(())
    }
}

fn is_at_top(name: &str) -> bool {
    let note = ["xtrabackup_", "mariadb_backup_"].iter().find_map(|tool| name.strip_prefix(tool));
    let is_note = |note: &str| NOTES.contains(&note) || note.starts_with(KEYRING);
    TOP.iter().any(|top| name.starts_with(top)) || note.is_some_and(is_note)
}

/// The steps that xtrabackup's notes ask for, applied to the tablespaces of an increment.
fn reduced(dir: &Path) -> Result<FileNotes> {
    let (notes, mut held) = (Reduced::read(dir)?, BTreeMap::new());
    if notes.is_empty() {
        return Ok(FileNotes::default());
    }
    walk(dir, &mut |name, metadata| {
        let Some(file) = name.to_str().and_then(|name| name.strip_suffix(DELTA)).filter(|_| metadata.is_file()) else {
            return Ok(());
        };
        held.insert(
            PathBuf::from(file),
            delta(dir, PathBuf::from(file.strip_suffix(NEW).unwrap_or(file)), name)?.space,
        );
        Ok(())
    })?;
    notes.of_tablespaces(&held)
}

/// The delta at `path`, relative to the increment, with its note.
fn delta(dir: &Path, name: PathBuf, path: &Path) -> Result<Delta> {
    let path = dir.join(path);
    let note = delta_note(&path);
    let Some(meta) = read_delta_note(&note).map_err(failed(&note, "reading the note of changed pages"))? else {
        return damaged(format!("{}: it does not give the page size", note.display()));
    };
    let space = match (NameHint::of(&name), meta.space) {
        (NameHint::System(_), _) => SpaceId::SYSTEM,
        (NameHint::Table | NameHint::Dictionary | NameHint::Undo, Some(space)) if space != 0 => SpaceId(space),
        _ => return damaged(format!("{}: it does not say which tablespace this is", note.display())),
    };
    Ok(Delta { path, name, meta, space })
}
