//! `innokit.manifest.json`: what a backup is and holds. It is the first file of a set and says that the set is void, until it is replaced,
//! as the last step, by one that says what is there. Its own checksum covers all its values.

use std::path::Path;

use flow::append::write_whole;
use format::Lsn;
use format::page::checksum::crc32c;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::server::BinlogPosition;
use crate::source::read_small;

/// Its name in the set.
pub(crate) const MANIFEST: &str = "innokit.manifest.json";
/// No manifest is longer: a million files take 120 bytes each.
const MANIFEST_MAX: u64 = 1 << 30;
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

/// What a backup is and holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this form, 1.
    pub schema_version: u32,
    /// Whether it can be used.
    pub state: BackupState,
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
            state: BackupState::Void,
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
            files: Vec::new(),
            checksum: String::new(),
        }
    }

    fn sum(&self) -> String {
        let text = serde_json::to_vec(&Self { checksum: String::new(), ..self.clone() });
        format!("{:08x}", crc32c(&text.unwrap_or_default()))
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

/// Why a directory must not be recovered: it holds a backup that is not complete.
pub(crate) fn void(set: &Path) -> Option<String> {
    let (manifest, _) = Manifest::read(set).ok()?;
    (manifest.state == BackupState::Void).then(|| {
        let why = manifest.why.as_deref().unwrap_or("it was interrupted");
        format!("{}: this backup is void, because it was never completed: {why}", set.display())
    })
}
