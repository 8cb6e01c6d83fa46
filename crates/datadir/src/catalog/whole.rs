//! A datadir or backup as a whole: what makes a folder one, its redo log, and whether it is a backup.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::datadir::{Catalog, CatalogFinding, Says};
use crate::backup_notes::{BackupNotes, XTRABACKUP};
use crate::files;
use crate::finding_code::FindingCode;
use crate::known_servers::Maker;
use crate::log_name::{COPIED_LOG, LOG, REDO_DIR};
use crate::name::NameHint;
use crate::reading::read_up_to;
use crate::redo_log::log_files;
use crate::severity::Severity;
use crate::tablespace::Tablespace;

/// Bytes of a log's header that say who made it.
const HEAD: usize = 64;

/// Whether the system tablespace is from MySQL 8.0 or later.
pub(super) fn has_sdi(space: &Tablespace) -> bool {
    space.has_dictionary_information()
}

/// Whether a folder without a dictionary is a datadir anyway: it has two kinds of files that servers leave nowhere else.
pub(super) fn is_datadir<'p>(root: &Path, names: impl Iterator<Item = &'p PathBuf>) -> bool {
    let (mut redo, mut undo, mut doublewrite) = (false, false, false);
    let (mut auto_cnf, mut aria, mut own_tables) = (false, false, false);
    for path in names {
        let Ok(below) = path.strip_prefix(root) else { continue };
        let mut parts = below.components();
        let first = parts.next().and_then(|part| part.as_os_str().to_str()).unwrap_or_default();
        let is_in_root = parts.next().is_none();
        redo |= first == REDO_DIR;
        own_tables |= first == "mysql";
        if is_in_root {
            auto_cnf |= first == "auto.cnf";
            aria |= first == "aria_log_control";
            match NameHint::of(below) {
                NameHint::Redo => redo = true,
                NameHint::Undo => undo = true,
                NameHint::Doublewrite => doublewrite = true,
                _ => {}
            }
        }
    }
    let marks = [redo, undo, doublewrite, auto_cnf, aria, own_tables, BackupNotes::of(root).is_some()];
    marks.iter().filter(|mark| **mark).count() >= 2
}

/// The named folders that hold tables or are datadirs although they have no dictionary.
pub(super) fn roots_without_dictionary(
    walked: &[PathBuf],
    files: &BTreeSet<&PathBuf>,
    roots: &BTreeSet<PathBuf>,
) -> Vec<PathBuf> {
    let is_root = |dir: &&PathBuf| {
        if roots.iter().any(|root| root.starts_with(dir) || dir.starts_with(root)) {
            return false;
        }
        let below = || files.iter().copied().filter(|file| file.starts_with(dir));
        // A database folder, named without its datadir.
        let has = |name: &str| dir.parent().is_some_and(|above| files::is_file(above.join(name)));
        let is_part = has("ibdata1") || has("mysql.ibd");
        is_datadir(dir, below()) || is_part && below().any(|file| NameHint::of(file) == NameHint::Table)
    };
    walked.iter().filter(is_root).cloned().collect()
}

/// A server newer than this build knows that made the datadir, unless its log says so too, which is found when the log is verified.
fn newer_maker(root: &Path) -> Option<(PathBuf, String)> {
    let (path, maker) = Maker::of_datadir(root)?;
    let why = maker.newer()?;
    let log = log_files(root).into_iter().next();
    let head = log.and_then(|log| files::File::open(log).and_then(|file| read_up_to(&file, 0, HEAD)).ok());
    let of_log = head.and_then(|head| Maker::of_log(&head)?.newer());
    of_log.is_none().then_some((path, why))
}

/// How to prepare a backup.
fn how_to_prepare(notes: &BackupNotes, root: &Path) -> String {
    let (tool, root) = (notes.tool, root.display());
    let (what, ours, theirs) = if notes.is_incremental() {
        let ours = format!("innokit recover --in-place FULL --increment {root}");
        (
            "an incremental backup: merge it into the full one with",
            ours,
            format!("--target-dir=FULL --incremental-dir={root}"),
        )
    } else {
        (
            "this backup is not prepared: before it is restored run",
            format!("innokit recover --in-place {root}"),
            format!("--target-dir={root}"),
        )
    };
    // Increments of xtrabackup are not merged by us.
    let ours = if tool == XTRABACKUP && notes.is_incremental() { String::new() } else { format!("{ours}, or ") };
    format!("{what} {ours}{tool} --prepare {theirs}")
}

impl Catalog {
    /// The notice about one of innokit's own increments: the rest of its files is in its base.
    pub(super) fn increment(&self) -> CatalogFinding {
        let root = self.root.display();
        CatalogFinding {
            path: self.root.clone(),
            table: None,
            reason: "backup_not_prepared".into(),
            severity: Severity::Notice,
            message: format!(
                "an incremental backup: innokit backup verify BASE --increment {root} verifies it with its base, and innokit restore merges both"
            ),
        }
    }

    /// Findings that need no dictionary: about the log, the backup, and the dictionary itself if it cannot be read.
    pub(super) fn as_a_whole(&self, notes: Option<&BackupNotes>) -> Vec<CatalogFinding> {
        let mut findings = Vec::new();
        let mut say = |path: &Path, reason: FindingCode, severity, message| {
            findings.push(CatalogFinding { path: path.to_path_buf(), table: None, reason, severity, message });
        };
        let root = self.root.as_path();
        if let Some(notes) = notes.filter(|notes| !notes.is_prepared()) {
            say(root, "backup_not_prepared".into(), Severity::Notice, how_to_prepare(notes, root));
        }
        let is_incremental = notes.is_some_and(BackupNotes::is_incremental);
        match &self.says {
            Says::All(_) => {}
            _ if is_incremental => return findings,
            Says::Unread(path, why) => say(
                path,
                "dictionary_unread".into(),
                Severity::Undecided,
                format!(
                    "it is unknown whether all tables are here: the dictionary in this file cannot be read ({why})"
                ),
            ),
            Says::Lost(path, what) => say(
                path,
                FindingCode::MISSING_FILE,
                Severity::Damage,
                format!("missing: this file holds {what}, without which the server knows no table"),
            ),
            Says::Folder => say(
                root,
                "no_dictionary".into(),
                Severity::Notice,
                "not a datadir: nothing here says which tables there should be, so only the files found were checked"
                    .to_owned(),
            ),
        }
        if let Some(notes) = notes.filter(|notes| notes.is_full() && log_files(root).is_empty()) {
            let log = if notes.tool == XTRABACKUP { COPIED_LOG } else { LOG };
            say(
                root,
                "missing_redo".into(),
                Severity::Damage,
                format!(
                    "{log} is missing, which the tool copied with the backup: without this redo log the backup cannot be prepared"
                ),
            );
        }
        if let Some((path, why)) = newer_maker(root) {
            say(&path, "newer_server".into(), Severity::Undecided, why);
        }
        let is_datadir = !matches!(self.says, Says::Folder);
        let has_log = !log_files(root).is_empty() || self.home.as_ref().is_some_and(|home| !log_files(home).is_empty());
        if is_datadir && notes.is_none() && !has_log {
            say(
                root,
                "missing_redo".into(),
                Severity::Undecided,
                "there is no redo log here: unless innodb_log_group_home_dir names another directory, files are missing, and the server does not start"
                    .to_owned(),
            );
        }
        findings
    }
}
