//! The notes that backup tools leave with a backup: its kind, the LSNs it covers, and whether it is prepared.

use std::io;
use std::path::{Path, PathBuf};

use format::Lsn;
use format::bytes::be;
use format::fil::FIL_PAGE_FILE_FLUSH_LSN;

use super::log_name::LOG;
use crate::files::{self, File};
use crate::reading::{read_small, read_up_to};

/// The tools' notes are short; a longer file is something else.
const NOTE_MAX: u64 = 64 << 10;
/// The manifest of a backup that innokit took.
pub const MANIFEST: &str = "innokit.manifest.json";
/// Who wrote the backup, if it is signed.
pub const SIGNATURE: &str = "innokit.signature.json";
/// No manifest is longer: 400,000 files take 120 bytes each, their tablespaces 400.
pub const MANIFEST_MAX: u64 = 256 << 20;
/// The names both tools used first, then those of mariadb-backup since 11.1.
const CHECKPOINTS: [&str; 2] = ["mariadb_backup_checkpoints", "xtrabackup_checkpoints"];
const INFO: [&str; 2] = ["mariadb_backup_info", "xtrabackup_info"];
/// The tool that backs up MySQL.
pub const XTRABACKUP: &str = "xtrabackup";
/// The key that tells whether a backup is prepared.
const BACKUP_TYPE: &str = "backup_type";
/// The value for a full backup.
const FULL: &str = "full-backuped";
/// mariadb-backup's value once the log is applied.
const APPLIED: &str = "log-applied";
/// xtrabackup's, once unfinished transactions are rolled back too, which the server does when it starts.
const PREPARED: &str = "full-prepared";

/// The notes beside a backup's files.
#[derive(Debug, Clone)]
pub struct BackupNotes {
    /// The tool's name.
    pub tool: &'static str,
    /// `backup_type` of its checkpoints.
    kind: String,
    /// Holds only some of the tables.
    pub is_partial: bool,
    /// The LSN at which an increment starts.
    pub from_lsn: Option<Lsn>,
    /// A checkpoint that the copied log reaches or passes.
    pub to_lsn: Option<Lsn>,
    /// The LSN at which the copied log ends.
    pub last_lsn: Option<Lsn>,
    /// The LSN that the server's log had reached by then, in backups of xtrabackup.
    pub flushed_lsn: Option<Lsn>,
    /// The tool's description of the run that took the backup, different for every backup.
    pub info: Option<String>,
    /// The checkpoints file.
    pub path: PathBuf,
    /// Its text.
    text: String,
}

impl BackupNotes {
    /// The notes in a directory, if it is a backup.
    pub fn of(root: &Path) -> Option<Self> {
        let first = |names: [&str; 2]| {
            names.iter().map(|name| root.join(name)).find_map(|path| short_text(&path).map(|text| (path, text)))
        };
        let (path, text) = first(CHECKPOINTS)?;
        let info = first(INFO).map(|(_, info)| info);
        let says = |key: &str| info.as_deref().and_then(|info| value(info, key));
        // Older versions of mariadb-backup use xtrabackup's file names and call themselves mariabackup.
        let is_xtrabackup = says("tool_name").is_some_and(|tool| tool.contains("xtrabackup"));
        let tool = if is_xtrabackup { XTRABACKUP } else { "mariadb-backup" };
        let kind = value(&text, BACKUP_TYPE)?.to_owned();
        let is_partial = says("partial") == Some("Y");
        let lsn = |key| value(&text, key).and_then(|value| value.parse().ok()).map(Lsn);
        let [from_lsn, to_lsn, last_lsn, flushed_lsn] = ["from_lsn", "to_lsn", "last_lsn", "flushed_lsn"].map(lsn);
        Some(Self { tool, kind, is_partial, from_lsn, to_lsn, last_lsn, flushed_lsn, info, path, text })
    }

    /// Whether it is a full backup, not yet prepared.
    pub fn is_full(&self) -> bool {
        self.kind.contains("backuped")
    }

    pub fn is_incremental(&self) -> bool {
        self.kind.contains("incremental")
    }

    pub fn is_prepared(&self) -> bool {
        self.kind.contains("prepared") || self.kind.contains("applied")
    }

    /// Whether xtrabackup itself has applied the log, but left unfinished transactions in place for increments to come.
    pub fn is_applied_by_xtrabackup(&self) -> bool {
        self.tool == XTRABACKUP && self.kind == APPLIED
    }

    /// The text of the checkpoints file once the backup is prepared.
    pub fn prepared(&self) -> String {
        self.with(&[(BACKUP_TYPE, if self.tool == XTRABACKUP { PREPARED } else { APPLIED })])
    }

    /// The text of the checkpoints file once the backup includes an increment that reaches these LSNs, before it is prepared. Only
    /// xtrabackup notes the third.
    pub fn reaching(&self, to: Lsn, last: Lsn, flushed: Option<Lsn>) -> String {
        let (to, last) = (to.0.to_string(), last.0.to_string());
        let flushed = flushed.or(self.flushed_lsn).map_or_else(String::new, |flushed| flushed.0.to_string());
        self.with(&[(BACKUP_TYPE, FULL), ("to_lsn", &to), ("last_lsn", &last), ("flushed_lsn", &flushed)])
    }

    fn with(&self, values: &[(&str, &str)]) -> String {
        let line = |line: &str| match values.iter().find(|(key, _)| value(line, key).is_some()) {
            Some((key, value)) => format!("{key} = {value}\n"),
            None => format!("{line}\n"),
        };
        self.text.lines().map(line).collect()
    }
}

/// Whether this directory holds an increment of innokit's own, by its manifest.
pub(crate) fn is_own_increment(root: &Path) -> bool {
    /// The part of the manifest that is read.
    #[derive(serde::Deserialize)]
    struct Head {
        base: Option<serde::de::IgnoredAny>,
    }
    let bytes = read_small(&root.join(MANIFEST), MANIFEST_MAX).unwrap_or_default();
    serde_json::from_slice::<Head>(&bytes).is_ok_and(|head| head.base.is_some())
}

/// Where a prepared backup's log ended, if the log is empty now, as for servers before 10.8. Page 0 of the system tablespace, which is
/// written last, proves that the log is not merely lost. `None` for anything else.
pub fn emptied_at(root: &Path) -> io::Result<Option<Lsn>> {
    let is_empty = files::metadata(root.join(LOG)).is_ok_and(|log| log.len() == 0);
    let Some(notes) = BackupNotes::of(root).filter(|_| is_empty) else { return Ok(None) };
    let page0 = read_up_to(&File::open(root.join("ibdata1"))?, 0, FIL_PAGE_FILE_FLUSH_LSN + 8)?;
    let flushed = be::u64_at(&page0, FIL_PAGE_FILE_FLUSH_LSN).map(Lsn);
    Ok(flushed.filter(|flushed| flushed.0 > 0 && notes.to_lsn.is_none_or(|least| *flushed >= least)))
}

fn short_text(path: &Path) -> Option<String> {
    let bytes = read_small(path, NOTE_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('=')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_type_changes_when_a_backup_is_prepared() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 12522526\nlast_lsn = 13993340\nrecover_binlog_info = 0\n";
        std::fs::write(dir.path().join("xtrabackup_checkpoints"), text).expect("written");
        let notes = BackupNotes::of(dir.path()).expect("notes");
        assert_eq!((notes.to_lsn, notes.last_lsn), (Some(Lsn(12_522_526)), Some(Lsn(13_993_340))));
        assert!(!notes.is_prepared() && !notes.is_incremental());
        assert_eq!(notes.prepared(), text.replace("full-backuped", "log-applied"));
    }
}
