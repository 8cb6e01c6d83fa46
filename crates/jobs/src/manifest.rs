//! `innokit.manifest.json`: what a backup is and holds. It is the first file of a set and says that the set is void, until it is replaced,
//! as the last step, by one that says what is there. Its own checksum covers all its values.

use std::path::Path;

use flow::append::write_whole;
use format::Lsn;
use format::page::checksum::crc32c;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::server::BinlogPosition;
use crate::source::backup::MANIFEST_MAX;
use crate::source::read_small;

pub(crate) use crate::source::backup::MANIFEST;

const SCHEMA_VERSION: u32 = 1;

/// The state of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackupState {
    /// It was not completed, and never will be.
    Void,
    /// It is complete; it has to be recovered before a server can use it.
    Complete,
    /// It is complete and recovered.
    Prepared,
    /// `recover` has made a datadir of it since: the files are no longer those of the list.
    Recovered,
}

/// How long other connections had to wait, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupLocks {
    /// For this long tables were not made, altered, renamed or dropped, and tables without transactions not written to.
    pub ddl_ms: u64,
    /// For this long nothing was committed.
    pub commit_ms: u64,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Its name in the set.
    pub path: String,
    /// Its length in bytes.
    pub size: u64,
    /// CRC-32C of its content, eight hexadecimal digits.
    pub crc32c: String,
}

/// The backup that an increment continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupBase {
    /// Its identity.
    pub id: String,
    /// The checkpoint with which its log begins: the increment has the pages changed since.
    pub from_lsn: u64,
    /// The LSN that it reaches.
    pub to_lsn: u64,
}

/// A tablespace, as it was copied: what the next increment compares it with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTablespace {
    /// Its name at the moment of the backup.
    pub path: String,
    /// Its number.
    pub space: u32,
    /// Its flags.
    pub flags: u32,
    /// The size of its pages in the file, bytes.
    pub page_size: u32,
    /// The length of its file in bytes.
    pub size: u64,
    /// The file of the server: its inode and when it was made. `None` if the file system does not say when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// CRC-32C of its first page, eight hexadecimal digits.
    pub first_page: String,
    /// Some pages, and their LSNs: the newest of those that were last changed before the log of this backup begins.
    pub settled: Vec<(u32, u64)>,
    /// What an increment has of it. `None` if the whole file is in the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<BackupDelta>,
}

/// The pages of a tablespace that differ from those in the base of an increment. The rest is the same there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupDelta {
    /// Pages in the file of this name with `.delta` at its end. There is none if this is 0.
    pub pages: u64,
    /// Pages that are to be taken from the base, not counting the first.
    pub same: u64,
    /// CRC-32C of their numbers and LSNs, eight hexadecimal digits.
    pub same_lsns: String,
    /// Pages of nothing but zeros: the first of each run, and how many follow each other.
    pub zeros: Vec<(u32, u32)>,
}

/// What a backup is and holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this form, 1.
    pub schema_version: u32,
    /// Its identity, by which increments name it: 32 hexadecimal digits that no other backup has. Empty in backups of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Whether it can be used.
    pub state: BackupState,
    /// The backup that it continues, if it is an increment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BackupBase>,
    /// Why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The version of innokit that took it.
    pub innokit_version: String,
    /// The server's version.
    pub server_version: String,
    /// When it was begun, seconds since 1970.
    pub started_at: u64,
    /// The moment whose state it holds, seconds since 1970.
    pub taken_at: u64,
    /// The checkpoint with which its log begins.
    pub from_lsn: u64,
    /// The LSN of the moment whose state it holds: what was committed before is in, and nothing else.
    pub to_lsn: u64,
    /// Where the binary log was at that moment.
    pub binlog: Option<BinlogPosition>,
    /// The server's keys are needed to recover it. They are not part of it.
    pub needs_keys: bool,
    /// How long other connections had to wait.
    pub locks: BackupLocks,
    /// Pages of InnoDB that were verified.
    pub pages: u64,
    /// Pages that the server was writing while they were read, and that were read again.
    pub pages_read_again: u64,
    /// Files in the server's databases of an unknown kind: not part of the backup.
    pub left_out: Vec<String>,
    /// The tablespaces, in the order of their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tablespaces: Vec<BackupTablespace>,
    /// The other files of the set.
    pub files: Vec<BackupFile>,
    /// CRC-32C of this document with an empty checksum, without white space.
    pub checksum: String,
}

impl Manifest {
    /// The manifest of a backup that was only begun.
    pub(crate) fn begun(started_at: u64) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            id: String::new(),
            state: BackupState::Void,
            base: None,
            why: None,
            innokit_version: env!("CARGO_PKG_VERSION").to_owned(),
            server_version: String::new(),
            started_at,
            taken_at: 0,
            from_lsn: 0,
            to_lsn: 0,
            binlog: None,
            needs_keys: false,
            locks: BackupLocks::default(),
            pages: 0,
            pages_read_again: 0,
            left_out: Vec::new(),
            tablespaces: Vec::new(),
            files: Vec::new(),
            checksum: String::new(),
        }
    }

    fn sum(&self) -> String {
        let text = serde_json::to_vec(&Self { checksum: String::new(), ..self.clone() });
        format!("{:08x}", crc32c(&text.unwrap_or_default()))
    }

    /// The tablespace with this number.
    pub(crate) fn tablespace(&self, space: u32) -> Option<&BackupTablespace> {
        let at = self.tablespaces.binary_search_by_key(&space, |tablespace| tablespace.space).ok()?;
        self.tablespaces.get(at)
    }

    /// Writes it into the set, durably and at once.
    pub(crate) fn write(&mut self, set: &Path) -> Result<(), Error> {
        self.checksum = self.sum();
        let path = set.join(MANIFEST);
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other);
        let written = text.and_then(|text| write_whole(&path, &text));
        written.map_err(|source| Error::Io { path, action: "writing the manifest", source })
    }

    /// Reads it, and whether it is as it was written.
    ///
    /// # Errors
    /// There is none, or it is none.
    pub(crate) fn read(set: &Path) -> Result<(Self, bool), Error> {
        let path = set.join(MANIFEST);
        let name = path.display().to_string();
        let refused = |why: String| Err(Error::Usage(why));
        let bytes = read_small(&path, MANIFEST_MAX);
        let bytes = bytes.map_err(|source| Error::Io { path, action: "reading the manifest", source })?;
        let value: serde_json::Value = match serde_json::from_slice(&bytes) {
            Ok(value) => value,
            Err(error) => return refused(format!("{name}: no manifest of a backup: {error}")),
        };
        let version = value.get("schema_version").and_then(serde_json::Value::as_u64);
        if version.is_some_and(|version| version > u64::from(SCHEMA_VERSION)) {
            return refused(format!("{name}: written by a later innokit: use that"));
        }
        match serde_json::from_value::<Self>(value) {
            Ok(manifest) => {
                let is_sound = manifest.sum() == manifest.checksum;
                Ok((manifest, is_sound))
            }
            Err(error) => refused(format!("{name}: no manifest of a backup: {error}")),
        }
    }
}

/// The LSN that a backup in this directory reaches: its files are consistent from there on. `None` if there is no complete one.
pub(crate) fn reaches(set: &Path) -> Option<Lsn> {
    let (manifest, _) = Manifest::read(set).ok()?;
    (manifest.state == BackupState::Complete).then_some(Lsn(manifest.to_lsn))
}

/// Notes that a complete backup in this directory has become a datadir.
pub(crate) fn mark_recovered(set: &Path) -> Result<(), Error> {
    match Manifest::read(set) {
        Ok((mut manifest, _)) if manifest.state == BackupState::Complete => {
            manifest.state = BackupState::Recovered;
            manifest.write(set)
        }
        _ => Ok(()),
    }
}

/// Why a directory must not be recovered: it holds a backup that is not complete, or an increment.
pub(crate) fn unfit(set: &Path) -> Option<String> {
    let (manifest, _) = Manifest::read(set).ok()?;
    let path = set.display();
    if manifest.state == BackupState::Void {
        let why = manifest.why.as_deref().unwrap_or("it was interrupted");
        return Some(format!("{path}: this backup is void, because it was never completed: {why}"));
    }
    manifest.base.map(|_| {
        format!(
            "{path}: an incremental backup, which holds only changed pages: name the full one, as in innokit restore FULL --to DIR --increment \
             {path}"
        )
    })
}

/// Whether this directory holds a backup of innokit's.
pub(crate) fn is_there(set: &Path) -> bool {
    set.join(MANIFEST).exists()
}
