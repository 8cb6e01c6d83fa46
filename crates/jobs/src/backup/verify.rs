//! Reads a set: its manifest, every file against it, every page, and whether the log leads to the moment that the manifest names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use format::keyring::KeyStore;

use super::error::{BackupError, Result, refused};
use super::pages::PageReader;
use crate::manifest::{BackupFile, BackupState, MANIFEST, Manifest};
use crate::recover::{LogNames, RecoverError, RecoverOptions, recover_one, walk_datadir};
use crate::server::ServerKind;
use crate::source::keys::KeyFiles;
use crate::source::name::NameHint;

/// Memory of the trial recovery.
pub(super) const MEMORY: usize = 512 << 20;

/// What a backup is, and what is wrong with it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct BackupReport {
    /// Whether it can be used, by its manifest.
    pub state: BackupState,
    /// The server's version.
    pub server_version: String,
    /// The LSN of the moment whose state it holds.
    pub to_lsn: u64,
    /// Files read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pages of InnoDB in them.
    pub pages: u64,
    /// What is wrong: one sentence each.
    pub problems: Vec<String>,
}

impl BackupReport {
    /// 0 if nothing is wrong, 1 otherwise.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        u8::from(!self.problems.is_empty())
    }
}

/// The files of a set, as they are.
#[derive(Debug, Default)]
pub(super) struct Examined {
    pub files: BTreeMap<String, BackupFile>,
    pub bytes: u64,
    pub pages: u64,
    pub is_encrypted: bool,
    /// Damaged pages: one sentence each.
    pub damage: Vec<String>,
}

/// Reads all files of a set but its manifest.
pub(super) fn examine(set: &Path, keys: &KeyStore) -> Result<Examined> {
    let mut names: Vec<PathBuf> = Vec::new();
    walk_datadir(set, &mut |name, metadata| {
        if metadata.is_file() && name != Path::new(MANIFEST) {
            names.push(name.to_path_buf());
        }
        Ok(())
    })
    .map_err(|error| match error {
        RecoverError::Job(error) => BackupError::Job(error),
        other => BackupError::Refused(other.to_string()),
    })?;
    let (mut reader, mut examined) = (PageReader::new(keys), Examined::default());
    for name in names {
        let hint = NameHint::of(&name);
        let is_tablespace =
            matches!(hint, NameHint::System(_) | NameHint::Table | NameHint::Dictionary | NameHint::Undo);
        let found = reader.read(&set.join(&name), is_tablespace)?;
        let path = name.display().to_string();
        for page in found.bad {
            examined.damage.push(format!("{path}: page {page} is damaged"));
        }
        examined.pages += found.pages;
        examined.bytes += found.size;
        examined.is_encrypted |= found.is_encrypted;
        let crc32c = format!("{:08x}", found.crc);
        examined.files.insert(path.clone(), BackupFile { path, size: found.size, crc32c });
    }
    Ok(examined)
}

/// Verifies a backup. `keys` are needed only where its log is encrypted.
///
/// # Errors
/// [`BackupError`] if there is none, or it cannot be read.
pub fn verify_backup(set: &Path, keys: &KeyFiles) -> Result<BackupReport> {
    let (manifest, is_sound) = Manifest::read(set)?;
    let store = keys.read()?;
    let mut problems = Vec::new();
    if !is_sound {
        problems.push(format!("{MANIFEST}: changed since it was written: its own checksum does not fit"));
    }
    if manifest.state == BackupState::Void {
        let why = manifest.why.as_deref().unwrap_or("it was interrupted");
        problems.push(format!("the backup is void, because it was never completed: {why}"));
        return Ok(report(&manifest, &Examined::default(), problems));
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
    let mut examined = examine(set, &store)?;
    problems.append(&mut examined.damage);
    compare(&manifest, &examined, &mut problems);
    prove(set, &manifest, keys, &mut problems)?;
    Ok(report(&manifest, &examined, problems))
}

/// The manifest of the backup in `set`, and how many files it has, all as they were taken. `None` if this is no backup of innokit's, or is a
/// datadir by now.
pub(crate) fn unchanged(set: &Path, keys: &KeyStore) -> Result<Option<(Manifest, u64)>> {
    if !set.join(MANIFEST).exists() {
        return Ok(None);
    }
    let (manifest, is_sound) = Manifest::read(set)?;
    if matches!(manifest.state, BackupState::Void | BackupState::Recovered) {
        return Ok(None);
    }
    let mut problems = Vec::new();
    if !is_sound {
        problems.push(format!("{MANIFEST}: changed since it was written: its own checksum does not fit"));
    }
    let examined = examine(set, keys)?;
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
    BackupReport { state, server_version, to_lsn, files, bytes, pages, problems }
}

/// The files against the manifest.
fn compare(manifest: &Manifest, examined: &Examined, problems: &mut Vec<String>) {
    let listed: BTreeMap<&str, &BackupFile> = manifest.files.iter().map(|file| (file.path.as_str(), file)).collect();
    for (path, file) in &listed {
        match examined.files.get(*path) {
            None => problems.push(format!("{path}: missing")),
            Some(now) if now.size != file.size => {
                problems.push(format!("{path}: {} bytes long, but it had {}", now.size, file.size));
            }
            Some(now) if now != *file => problems.push(format!("{path}: changed: its checksum was another one")),
            Some(_) => {}
        }
    }
    for path in examined.files.keys().filter(|path| !listed.contains_key(path.as_str())) {
        problems.push(format!("{path}: not part of the backup"));
    }
}

/// The log must reach the LSN that the manifest names, and a trial recovery must succeed.
fn prove(set: &Path, manifest: &Manifest, keys: &KeyFiles, problems: &mut Vec<String>) -> Result<()> {
    let proved = recover_one(set, &trial(keys)).and_then(|done| {
        let is_prepared = manifest.state == BackupState::Prepared;
        if is_prepared && !done.was_clean {
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
        Err(error) => problems.push(format!("it cannot be recovered: {error}")),
    }
    Ok(())
}

/// A recovery that writes nothing.
pub(super) fn trial(keys: &KeyFiles) -> RecoverOptions {
    RecoverOptions { dry_run: true, warm: false, keys: keys.clone(), ..RecoverOptions::default() }
}
