//! Verifies a set: its manifest, every file against it, every page, and whether the log reaches the LSN that the manifest names.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use datadir::Outcome;
use flow::{WorkList, run_workers};
use format::keyring::KeyStore;

use super::chain::{Chain, as_job};
use super::error::{BackupError, Result, failed, refused};
use super::pages::{PageReader, PagesRead};
use super::signature::{SigningKey, claimed_by, signed_by};
use super::table_look::TableLook;
use crate::manifest::{
    self, BackupBase, BackupDamage, BackupFile, BackupState, MANIFEST, MISSING, Manifest, NOT_LISTED, UNSOUND,
};
use crate::recover::{LogNames, RecoverError, RecoverOptions, recover_one, refuse_unfinished, walk_datadir};
use datadir::backup_notes::BackupNotes;
use datadir::content::is_delta;
use datadir::crc32c::FileSums;
use datadir::files::AskPath;
use datadir::keys::KeyFiles;
use datadir::name::NameHint;
use datadir::server::ServerKind;
use datadir::{Error, fault};

/// Memory for the trial recovery, in bytes.
pub(super) const MEMORY: usize = 512 << 20;

/// What a backup is, and what is wrong with it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct BackupReport {
    /// Whether it can be used, according to its manifest.
    pub state: BackupState,
    /// The server's version.
    pub server_version: String,
    /// The LSN of the moment whose state it holds; with increments, that of the last.
    pub to_lsn: u64,
    /// Files read.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// InnoDB pages read.
    pub pages: u64,
    /// The base, if this is an increment that was verified without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<BackupBase>,
    /// Number of increments that were verified together with this backup.
    pub increments: u64,
    /// Damaged pages that were copied as they were, and that the caller allows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<BackupDamage>,
    /// Who wrote it, as far as that was proved.
    pub signature: BackupSignature,
    /// Tables whose indexes were compared with their rows, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<u64>,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}

/// Who wrote a backup. With increments, what holds of all of them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum BackupSignature {
    /// It is not signed.
    None,
    /// It names this key. No key was given to prove it with, so anybody can have written it.
    Unproved {
        /// The id of the key.
        key: String,
    },
    /// One of the keys signed it, and a file was changed, added or removed since.
    Changed,
    /// One of the keys signed each set, and it is unchanged since.
    Proved {
        /// The ids of the keys.
        keys: Vec<String>,
    },
}

impl BackupSignature {
    /// What the sets say of themselves, or what the keys prove.
    fn of(sets: &[&Path], trusted: &[PathBuf]) -> Result<Self> {
        if trusted.is_empty() {
            let claims: Option<Vec<String>> = sets.iter().map(|set| claimed_by(set)).collect();
            let key = claims.and_then(|claims| claims.into_iter().next());
            return Ok(key.map_or(Self::None, |key| Self::Unproved { key }));
        }
        let keys: Vec<SigningKey> =
            trusted.iter().map(|path| SigningKey::read(path)).collect::<std::result::Result<_, _>>()?;
        let mut ids = sets.iter().map(|set| signed_by(set, &keys)).collect::<Result<Vec<String>>>()?;
        ids.sort();
        ids.dedup();
        Ok(Self::Proved { keys: ids })
    }
}

/// How to verify a backup.
#[derive(Debug, Clone)]
pub struct BackupVerifyOptions {
    /// The increments that continue it, in order.
    pub increments: Vec<PathBuf>,
    /// The server's keys: needed only if a log or tablespaces are encrypted.
    pub keys: KeyFiles,
    /// Damaged pages that the manifest lists are no problem.
    pub allow_damage: bool,
    /// Files of keys. If there are any, a backup or an increment that none of them signed is refused, and one that was changed since is damaged.
    pub trusted: Vec<PathBuf>,
    /// Restore the backup into a new directory in this one, compare every index with the rows of its table, and remove it.
    pub spool: Option<PathBuf>,
    /// Compares indexes with rows, in the restored backup.
    pub look: TableLook,
}

impl BackupReport {
    /// Adds the report on the increment in `dir`, which continues this backup.
    fn and(mut self, dir: &Path, next: Self) -> Self {
        self.problems.extend(next.problems.into_iter().map(|problem| format!("{}: {problem}", dir.display())));
        let (files, bytes) = (self.files + next.files, self.bytes + next.bytes);
        let (pages, increments) = (self.pages + next.pages, self.increments + 1);
        Self { to_lsn: next.to_lsn, files, bytes, pages, increments, ..self }
    }

    /// 0 if nothing is wrong, 1 otherwise.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        // What cannot be read is an error, so nothing is left open here.
        Outcome::of(!self.problems.is_empty(), false).exit_status()
    }
}

/// The files of a set, as they are on disk.
#[derive(Debug, Default)]
pub(super) struct Examined {
    pub files: BTreeMap<String, BackupFile>,
    pub bytes: u64,
    pub pages: u64,
    pub is_encrypted: bool,
    /// Damaged pages, one sentence each.
    pub damage: Vec<String>,
}

/// Reads all files of a set except its manifest, on all cores. Files whose checksums are `known` are not read.
pub(super) fn examine(set: &Path, known: &FileSums, keys: &KeyStore) -> Result<Examined> {
    let (mut examined, mut names) = (Examined::default(), Vec::new());
    walk_datadir(set, &mut |name, metadata| {
        if !metadata.is_file() || manifest::is_about_set(name) {
            return Ok(());
        }
        match known.get(name).filter(|(size, _)| *size == metadata.len()) {
            Some(&(size, crc)) => examined.add(name, PagesRead { size, crc, ..PagesRead::default() }, None),
            None => names.push(name.to_path_buf()),
        }
        Ok(())
    })
    .map_err(as_job)?;
    let list = WorkList::new(&names);
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(names.len());
    let found = run_workers(workers, |_| {
        let (mut reader, mut found) = (PageReader::new(keys), Vec::new());
        while let Some((_, name)) = list.take() {
            found.push((name, examine_file(&mut reader, set, name)?));
        }
        Ok(found)
    });
    let mut files: Vec<_> = found.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    // The same report, whichever worker came to a file.
    files.sort_unstable_by_key(|(name, _)| *name);
    files.into_iter().for_each(|(name, (found, damage))| examined.add(name, found, damage));
    Ok(examined)
}

/// Reads a file of a set. Returns what was found, and why the file as a whole is damaged, if it is.
fn examine_file(reader: &mut PageReader<'_>, set: &Path, name: &Path) -> Result<(PagesRead, Option<String>)> {
    let hint = NameHint::of(name);
    let is_tablespace = matches!(hint, NameHint::System(_) | NameHint::Table | NameHint::Dictionary | NameHint::Undo);
    let path = set.join(name);
    let found = if is_delta(name) { reader.read_delta(&path) } else { reader.read(&path, is_tablespace) };
    match found {
        Err(BackupError::Damaged(why)) => Ok((reader.read(&path, false)?, Some(why))),
        found => Ok((found?, None)),
    }
}

impl Examined {
    fn add(&mut self, name: &Path, found: PagesRead, damage: Option<String>) {
        let path = name.display().to_string();
        self.damage.extend(damage);
        self.damage.extend(found.bad.iter().map(|page| format!("{path}: page {page} is damaged")));
        self.pages += found.pages;
        self.bytes += found.size;
        self.is_encrypted |= found.is_encrypted;
        let crc32c = format!("{:08x}", found.crc);
        self.files.insert(path.clone(), BackupFile { path, size: found.size, crc32c });
    }
}

/// Verifies a backup and the increments that continue it.
///
/// # Errors
/// [`BackupError`] if there is no backup, it cannot be read, or the increments do not continue each other.
pub fn verify_backup(set: &Path, options: &BackupVerifyOptions) -> Result<BackupReport> {
    refuse_others(set)?;
    let BackupVerifyOptions { increments, keys, .. } = options;
    let sets: Vec<&Path> = std::iter::once(set).chain(increments.iter().map(PathBuf::as_path)).collect();
    let (signature, changed) = match BackupSignature::of(&sets, &options.trusted) {
        Err(BackupError::Damaged(why)) => (BackupSignature::Changed, Some(why)),
        found => (found?, None),
    };
    let mut report = BackupReport { signature, ..verify_set(set, options)? };
    report.problems.extend(changed);
    if !increments.is_empty() {
        let chain = Chain::of(set, increments)?;
        for increment in increments {
            report = report.and(increment, verify_set(increment, options)?);
        }
        if report.problems.is_empty() {
            match chain.check(&keys.read()?) {
                Ok(pages) => report.pages += pages.pages,
                Err(BackupError::Damaged(why)) => report.problems.push(why),
                Err(error) => return Err(error),
            }
        }
    }
    match &options.spool {
        Some(spool) if report.problems.is_empty() => compare_indexes(set, spool, options, report),
        _ => Ok(report),
    }
}

/// Restores a sound backup in the spool, and compares every index with the rows of its table.
fn compare_indexes(
    set: &Path,
    spool: &Path,
    options: &BackupVerifyOptions,
    mut report: BackupReport,
) -> Result<BackupReport> {
    let place = tempfile::Builder::new().prefix("innokit-verify.").tempdir_in(spool);
    let place = place.map_err(failed(spool, "making a directory in the spool"))?;
    let (to, keys) = (place.path().join("set"), &options.keys);
    let plain = RecoverOptions { warm: false, keys: keys.clone(), ..RecoverOptions::default() };
    let recovered = if options.increments.is_empty() {
        recover_one(set, &RecoverOptions { to: Some(to.clone()), ..plain })
    } else {
        Chain::of(set, &options.increments)?.merge(&to, &keys.read()?)?;
        recover_one(&to, &RecoverOptions { is_fresh: true, ..plain })
    };
    recovered.map_err(as_job)?;
    let found = options.look.0(std::slice::from_ref(&to), keys)?;
    let shown =
        |path: &str| path.strip_prefix(&to.display().to_string()).unwrap_or(path).trim_start_matches('/').to_owned();
    report.problems.extend(found.damage.iter().map(|finding| {
        let table = finding.table.clone().unwrap_or_else(|| shown(&finding.path));
        let index = finding.index.as_ref().map(|index| format!(", index {index}")).unwrap_or_default();
        format!("{table}{index}, once restored: {}", finding.message)
    }));
    report.tables = Some(found.files.len() as u64);
    place.close().map_err(failed(spool, "removing the directory in the spool"))?;
    Ok(report)
}

/// Refuses a directory without a list of files to compare with, and names the commands that verify what it holds.
fn refuse_others(set: &Path) -> Result<()> {
    if manifest::is_there(set) || !set.is_folder_there() {
        return Ok(());
    }
    refuse_unfinished(set).map_err(as_job)?;
    let path = set.display();
    let what = match BackupNotes::of(set) {
        Some(notes) => format!("a backup of {}, which lists no checksums of its files", notes.tool),
        None => format!("no backup of innokit, which would have the file {MANIFEST}"),
    };
    refused(format!(
        "{path}: {what}: innokit check {path} verifies its pages, and innokit recover --dry-run {path} that its redo log is whole and fits"
    ))
}

fn verify_set(set: &Path, options: &BackupVerifyOptions) -> Result<BackupReport> {
    let keys = &options.keys;
    refuse_unfinished(set).map_err(as_job)?;
    let (manifest, is_sound) = Manifest::read(set)?;
    let store = keys.read()?;
    let mut problems = Vec::new();
    if !is_sound {
        problems.push(format!("{MANIFEST}: {UNSOUND}"));
    }
    if manifest.state == BackupState::Void {
        let why = manifest.why.as_deref().unwrap_or("it was interrupted");
        problems.push(format!("the backup is void, because it was never completed: {why}"));
        return Ok(report(&manifest, &Examined::default(), problems));
    }
    if manifest.state == BackupState::Recovering {
        return refused(format!(
            "{}: innokit was interrupted while it made a datadir of this backup: run the same command again, or innokit recover --in-place",
            set.display()
        ));
    }
    if manifest.state == BackupState::Recovered {
        return refused(format!(
            "{}: innokit recover has made a datadir of this backup: innokit check verifies it",
            set.display()
        ));
    }
    if manifest.needs_keys && store.is_empty() {
        let option = match ServerKind::of(&manifest.server_version) {
            ServerKind::MariaDb => "keys (--key-file)",
            ServerKind::MySql => "keyring (--keyring)",
        };
        return refused(format!("this backup is encrypted: name the server's {option}"));
    }
    let mut examined = examine(set, &FileSums::new(), &store)?;
    let listed: BTreeSet<String> = manifest.damaged.iter().flat_map(BackupDamage::sentences).collect();
    let (known, other): (Vec<_>, Vec<_>) = examined.damage.drain(..).partition(|damage| listed.contains(damage));
    problems.extend(other);
    if !options.allow_damage {
        problems
            .extend(known.into_iter().map(|damage| format!("{damage}, as it was when it was copied (--allow-damage)")));
    }
    compare(&manifest, &examined, &mut problems);
    prove(set, &manifest, keys, &mut problems)?;
    refuse_unread(set)?;
    Ok(report(&manifest, &examined, problems))
}

/// The manifest of the backup in `set` and the number of its files, all of them unchanged since it was taken. Those whose checksums are
/// `known` are not read. `None` if innokit did not take it, if it is void, or if it is a datadir by now.
pub(crate) fn unchanged(set: &Path, known: &FileSums, keys: &KeyStore) -> Result<Option<(Manifest, u64)>> {
    let Some((manifest, is_sound)) = Manifest::of_usable(set)? else { return Ok(None) };
    let mut problems = Vec::new();
    if !is_sound {
        problems.push(format!("{MANIFEST}: {UNSOUND}"));
    }
    let examined = examine(set, known, keys)?;
    compare(&manifest, &examined, &mut problems);
    match problems.first() {
        None => Ok(Some((manifest, examined.files.len() as u64))),
        Some(first) => Err(BackupError::Damaged(format!(
            "{}: not as it was backed up: {first} ({} in all: innokit backup verify lists them)",
            set.display(),
            problems.len()
        ))),
    }
}

fn report(manifest: &Manifest, examined: &Examined, problems: Vec<String>) -> BackupReport {
    let (state, to_lsn, files) = (manifest.state, manifest.to_lsn, examined.files.len() as u64);
    let (bytes, pages, server_version) = (examined.bytes, examined.pages, manifest.server_version.clone());
    let (base, increments) = (manifest.base.clone(), 0);
    let (damaged, tables, signature) = (manifest.damaged.clone(), None, BackupSignature::None);
    BackupReport {
        state,
        server_version,
        to_lsn,
        files,
        bytes,
        pages,
        base,
        increments,
        damaged,
        signature,
        tables,
        problems,
    }
}

/// Fails if the system refused to read something on the way: what is missing then proves nothing.
fn refuse_unread(set: &Path) -> Result<()> {
    let Some(first) = fault::unread().into_iter().next() else { return Ok(()) };
    let why = format!("it is undecided whether this backup is sound: {first}");
    Err(BackupError::Job(Error::Unusable { path: set.to_path_buf(), why }))
}

/// Compares the files with the manifest.
fn compare(manifest: &Manifest, examined: &Examined, problems: &mut Vec<String>) {
    let listed: BTreeMap<&str, &BackupFile> = manifest.files.iter().map(|file| (file.path.as_str(), file)).collect();
    for (path, file) in &listed {
        let wrong = match examined.files.get(*path) {
            Some(now) => file.wrong_size(now.size).or_else(|| file.wrong_content(&now.crc32c)),
            None => Some(MISSING.to_owned()),
        };
        problems.extend(wrong.map(|wrong| format!("{path}: {wrong}")));
    }
    for path in examined.files.keys().filter(|path| !listed.contains_key(path.as_str())) {
        problems.push(format!("{path}: {NOT_LISTED}"));
    }
}

/// Checks that the log ends at the LSN in the manifest and that a trial recovery succeeds, for which an increment would need its base.
fn prove(set: &Path, manifest: &Manifest, keys: &KeyFiles, problems: &mut Vec<String>) -> Result<()> {
    let is_prepared = manifest.state == BackupState::Prepared;
    let tried = if manifest.base.is_some() { Ok(None) } else { recover_one(set, &trial(keys)).map(Some) };
    let proved = tried.and_then(|done| {
        if is_prepared && done.is_some_and(|done| !done.was_clean) {
            problems.push("the backup was prepared, but its log is not closed".to_owned());
        }
        let end = LogNames::read(set, &keys.read()?, MEMORY)?.end().0;
        if !is_prepared && end != manifest.to_lsn {
            problems.push(format!("the log ends at LSN {end}, but the backup reaches LSN {}", manifest.to_lsn));
        }
        Ok(())
    });
    match proved {
        Ok(()) => {}
        Err(RecoverError::Job(error)) => return Err(BackupError::Job(error)),
        // No memory, threads or engine, or a file that another holds: nothing is known about the backup.
        Err(
            error @ (RecoverError::Write(_)
            | RecoverError::Locked { .. }
            | RecoverError::Key(_)
            | RecoverError::Internal(_)),
        ) => {
            let why = format!("it is undecided whether it can be recovered: {error}");
            return Err(BackupError::Job(Error::Unusable { path: set.to_path_buf(), why }));
        }
        Err(error) => problems.push(format!("it cannot be recovered: {error}")),
    }
    Ok(())
}

/// Options for a recovery that writes nothing.
pub(super) fn trial(keys: &KeyFiles) -> RecoverOptions {
    RecoverOptions { dry_run: true, warm: false, keys: keys.clone(), ..RecoverOptions::default() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_whose_checksums_are_known_are_not_read_unless_they_have_another_length() {
        let set = tempfile::tempdir().expect("a directory");
        for name in ["known", "grown", "read"] {
            fs::write(set.path().join(name), name).expect("written");
        }
        let known = FileSums::from([("known".into(), (5, 0xAB)), ("grown".into(), (4, 0xAB))]);
        let examined = examine(set.path(), &known, &KeyStore::default()).expect("examined");
        let sums: Vec<(&str, bool)> =
            examined.files.iter().map(|(name, file)| (name.as_str(), file.crc32c == "000000ab")).collect();
        assert_eq!(sums, [("grown", false), ("known", true), ("read", false)]);
        assert_eq!((examined.bytes, examined.files["known"].size), (14, 5));
    }
}
