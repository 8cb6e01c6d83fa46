//! What a redo archive cannot restore: tables of engines without redo. A recovery to a later moment leaves them as they are in the base copy,
//! so it is refused if they were written to since, or may have been, unless the caller says that they may be stale.

use std::fs;
use std::path::{Path, PathBuf};

use format::Lsn;

use super::error::{Result, refused};
use super::log::RedoLog;
use super::options::RecoverOptions;
use crate::archive::{Besides, Beyond, BeyondKind, besides};
use crate::manifest::{self, Manifest};
use crate::server::BinlogPosition;
use crate::source::files::AskPath;

/// Databases of the server itself. What is in their files of other engines changes with nearly every statement about accounts or statistics.
const SYSTEM: [&str; 4] = ["mysql", "sys", "performance_schema", "information_schema"];
/// Files with rows of MyISAM, Aria, CSV and ARCHIVE.
const DATA: [&str; 4] = ["MYD", "MAD", "CSV", "ARZ"];
/// Tables named in a refusal.
const NAMED_MAX: usize = 5;

/// What is known about the time between a base copy and the moment.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The base copy's position in the binary log.
    pub backup: Option<BinlogPosition>,
    pub server_version: Option<String>,
    /// What the copy will lack.
    pub missing: Vec<Beyond>,
}

/// Fails if the copy would silently have other rows than the server had.
pub(super) fn judge(datadir: &Path, redo: &Path, options: &RecoverOptions) -> Result<Beside> {
    let set = options.increments.last().map_or(datadir, PathBuf::as_path);
    let manifest = if manifest::is_there(set) { Manifest::read(set).ok().map(|(manifest, _)| manifest) } else { None };
    let base = manifest.as_ref().map_or_else(|| end_of(set, redo, options), |manifest| Some(Lsn(manifest.to_lsn)));
    let (backup, server_version) =
        manifest.map(|manifest| (manifest.binlog, Some(manifest.server_version))).unwrap_or_default();
    // A base copy that cannot be read is refused for that, with better words.
    let Some(base) = base.filter(|base| options.until.is_none_or(|until| until > *base)) else {
        return Ok(Beside { backup, server_version, missing: Vec::new() });
    };
    let end = options.until.map(|until| (until, options.moment.map(|moment| moment.until_us)));
    let between = besides(redo, (base, backup.as_ref()), end).or_else(|error| refused(error.to_string()))?;
    if !options.stale_tables {
        refuse_rows(redo, base, &between)?;
        let unsure = if between.is_complete { Vec::new() } else { of_other_engines(datadir) };
        refuse_unsure(redo, &unsure)?;
    }
    Ok(Beside { backup, server_version, missing: between.notes })
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
fn of_other_engines(datadir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let folders = fs::read_dir(datadir).into_iter().flatten().flatten().filter(|entry| entry.path().is_folder_there());
    for folder in folders {
        let database = folder.file_name().to_string_lossy().into_owned();
        if SYSTEM.contains(&database.as_str()) || database.starts_with('#') {
            continue;
        }
        let files = fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_data = |path: &PathBuf| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| DATA.contains(&extension))
        };
        let table = |path: PathBuf| Some(format!("{database}/{}", path.file_stem()?.to_string_lossy()));
        found.extend(files.filter(is_data).filter_map(table));
    }
    found.sort();
    found
}
