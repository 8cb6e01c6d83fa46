//! What a redo archive cannot restore: tables of engines without redo. A recovery to a later moment leaves them as they are in the base copy,
//! so it is refused if they were written to since, or may have been, unless the caller says that they may be stale.

use std::path::{Path, PathBuf};

use format::Lsn;

use crate::archive::{Besides, Beyond, BeyondKind, besides};
use crate::manifest::{self, Manifest};
use crate::recover::error::{Result, failed, refused};
use crate::recover::log::RedoLog;
use crate::recover::options::RecoverOptions;
use datadir::files::{self, AskPath};
use datadir::server::BinlogPosition;

/// Databases of the server itself. What is in their files of other engines changes with nearly every statement about accounts or statistics.
const SYSTEM: [&str; 4] = ["mysql", "sys", "performance_schema", "information_schema"];
/// Files with rows of MyISAM, Aria, CSV and ARCHIVE.
const DATA: [&str; 4] = ["MYD", "MAD", "CSV", "ARZ"];
/// Tables named in a refusal.
const NAMED_MAX: usize = 5;

/// What is known about the time between a base copy and the moment.
#[derive(Debug, Clone, Default)]
pub(in crate::recover) struct Beside {
    /// The base copy's position in the binary log.
    pub backup: Option<BinlogPosition>,
    pub server_version: Option<String>,
    /// What the copy will lack.
    pub missing: Vec<Beyond>,
    /// Whether that is all of it.
    pub is_complete: bool,
}

/// Fails if the copy would silently have other rows than the server had.
pub(in crate::recover) fn judge(datadir: &Path, redo: &Path, options: &RecoverOptions) -> Result<Beside> {
    let set = options.increments.last().map_or(datadir, PathBuf::as_path);
    let manifest = if manifest::is_there(set) { Manifest::read(set).ok().map(|(manifest, _)| manifest) } else { None };
    let base = manifest.as_ref().map_or_else(|| end_of(set, redo, options), |manifest| Some(Lsn(manifest.to_lsn)));
    let (backup, server_version) =
        manifest.map(|manifest| (manifest.binlog, Some(manifest.server_version))).unwrap_or_default();
    // A base copy that cannot be read is refused for that, with better words.
    let Some(base) = base.filter(|base| options.until.is_none_or(|until| until > *base)) else {
        return Ok(Beside { backup, server_version, missing: Vec::new(), is_complete: true });
    };
    let end = options.until.map(|until| (until, options.moment.map(|moment| moment.until_us)));
    let between = besides(redo, (base, backup.as_ref()), end).or_else(|error| refused(error.to_string()))?;
    if !options.stale_tables {
        refuse_rows(redo, base, &between)?;
        let unsure = if between.is_complete { Vec::new() } else { of_other_engines(datadir)? };
        refuse_unsure(redo, &unsure)?;
    }
    Ok(Beside { backup, server_version, is_complete: between.is_complete, missing: between.notes })
}

impl Beside {
    /// The position that a copy stands at which ends at `end`, and whose last commit InnoDB noted at `noted`, if the copy has the definitions of
    /// that moment: InnoDB notes no position with them. `None` if the archive does not say where they are.
    pub fn behind_definitions(&self, noted: Option<BinlogPosition>, end: Lsn) -> Option<BinlogPosition> {
        if !self.is_complete {
            return None;
        }
        let is_later = |note: &&Beyond| {
            let at = (note.file.as_str(), note.position);
            note.kind == BeyondKind::Statement
                && noted.as_ref().is_none_or(|noted| at > (noted.file.as_str(), noted.position))
        };
        let later: Vec<&Beyond> = self.missing.iter().filter(is_later).collect();
        let Some(last) = later.iter().max_by_key(|note| (&note.file, note.position)) else { return noted };
        // One that was still to be seen when the archive was at `end` may be before or after it.
        let is_sure = later.iter().all(|note| note.lsn <= end.0);
        is_sure.then(|| BinlogPosition { file: last.file.clone(), position: last.position, gtid: String::new() })
    }

    /// What a copy lacks that has the definitions of its moment.
    pub fn without_definitions(&mut self) {
        self.missing.retain(|note| note.kind != BeyondKind::Statement || !is_of_definitions(&note.what));
    }
}

/// Whether a statement changes only what InnoDB's dictionary and the files of definitions hold.
fn is_of_definitions(statement: &str) -> bool {
    const FIRST: [&str; 5] = ["CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"];
    const OBJECTS: [&str; 8] = ["TABLE", "TABLES", "INDEX", "VIEW", "TRIGGER", "DATABASE", "SCHEMA", "SEQUENCE"];
    let mut words = statement.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let mut words = words.by_ref().map(str::to_ascii_uppercase);
    let Some(first) = words.next().filter(|first| FIRST.contains(&first.as_str())) else { return false };
    // TRUNCATE may do without the word TABLE.
    first == "TRUNCATE" || words.take(12).any(|word| OBJECTS.contains(&word.as_str()))
}

/// Where the log of a base copy ends that innokit did not take.
fn end_of(set: &Path, redo: &Path, options: &RecoverOptions) -> Option<Lsn> {
    let keys = options.keys.read().ok()?;
    RedoLog::open(set, false, &keys).ok()?.with_archive(Some(redo), options.redo_timeline).ok()?.base_end()
}

fn refuse_rows(redo: &Path, base: Lsn, between: &Besides) -> Result<()> {
    let mut rows = between.notes.iter().filter(|note| note.kind == BeyondKind::Rows);
    let Some(first) = rows.next() else { return Ok(()) };
    let mut tables: Vec<&str> = vec![&first.what];
    tables.extend(rows.map(|note| note.what.as_str()).filter(|what| *what != first.what));
    tables.sort_unstable();
    tables.dedup();
    let way_out = if first.after_lsn > base.0 {
        format!("--until {} or earlier restores a moment before the first of them", first.after_lsn)
    } else {
        "without --redo the moment of the backup is restored".to_owned()
    };
    refused(format!(
        "{}: after the backup, rows were written to tables whose engines have no redo: {} (binary log {} at {}). They would be as they were in \
         the backup. {way_out}; --stale-tables restores this moment with those tables as they were; or take a newer backup",
        redo.display(),
        listed(&tables),
        first.file,
        first.position
    ))
}

fn refuse_unsure(redo: &Path, unsure: &[String]) -> Result<()> {
    if unsure.is_empty() {
        return Ok(());
    }
    let tables: Vec<&str> = unsure.iter().map(String::as_str).collect();
    refused(format!(
        "{}: the backup has tables whose engines have no redo ({}), and the archive does not say whether rows were written to them since: the \
         archiver notes that if it may read the server's binary log (redo archive --socket). --stale-tables restores the moment with those \
         tables as they were in the backup",
        redo.display(),
        listed(&tables)
    ))
}

fn listed(tables: &[&str]) -> String {
    let more = tables.len().saturating_sub(NAMED_MAX);
    let shown = tables.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// The tables of other engines in the databases of a datadir, as `database/table`.
fn of_other_engines(datadir: &Path) -> Result<Vec<String>> {
    let list = |folder: &Path| files::read_dir(folder).map_err(failed(folder, "reading the directory"));
    let mut found = Vec::new();
    let folders = list(datadir)?.into_iter().filter(|entry| entry.path().is_folder_there());
    for folder in folders {
        let database = folder.file_name().to_string_lossy().into_owned();
        if SYSTEM.contains(&database.as_str()) || database.starts_with('#') {
            continue;
        }
        let files = list(&folder.path())?.into_iter().map(|entry| entry.path());
        let is_data = |path: &PathBuf| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| DATA.contains(&extension))
        };
        let table = |path: PathBuf| Some(format!("{database}/{}", path.file_stem()?.to_string_lossy()));
        found.extend(files.filter(is_data).filter_map(table));
    }
    found.sort();
    Ok(found)
}
