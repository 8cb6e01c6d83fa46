//! `innokit.manifest.json`: what a backup is and holds. The first file written to a set is a manifest that says the set is void. The last
//! step of a backup replaces it with the real one. A checksum inside covers all values.

use std::path::Path;
use std::{fs, io};

use flow::append::write_whole;
use format::Lsn;
use format::checksum::crc32c;
use format::codec::CipherMode;
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::door::{SetName, is_own};
use datadir::Error;
use datadir::backup_notes::MANIFEST_MAX;
use datadir::reading::read_small;
use datadir::server::BinlogPosition;

pub(crate) use datadir::backup_notes::{MANIFEST, SIGNATURE};

/// Whether a file says something about the set, rather than being a part of it.
pub(crate) fn is_about_set(name: &Path) -> bool {
    name == Path::new(MANIFEST) || name == Path::new(SIGNATURE)
}

const SCHEMA_VERSION: u32 = 1;

/// Limits of the lists in a manifest. They are far above what a backup writes, and keep the memory in proportion to the text.
const FILES_MAX: usize = 2_000_000;
const LEFT_OUT_MAX: usize = 1_000_000;
const SETTLED_MAX: usize = 4096;
const ZEROS_MAX: usize = 16 << 20;
const DAMAGED_MAX: usize = 16 << 20;

/// The state of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackupState {
    /// It was not completed. No later run completes it.
    Void,
    /// It is complete, but has to be recovered before a server can use it.
    Complete,
    /// It is complete and recovered.
    Prepared,
    /// `recover` is turning it into a datadir, or was interrupted: the files no longer match the list. Another run finishes it.
    Recovering,
    /// `recover` has since turned it into a datadir: the files no longer match the list.
    Recovered,
}

impl BackupState {
    /// Why no increment can be merged into a backup in this state. `None` if one can be.
    pub(crate) const fn no_base(self) -> Option<&'static str> {
        match self {
            Self::Complete => None,
            Self::Void => Some("it is void, because it was never completed"),
            Self::Prepared => Some("it was recovered when it was taken (--prepare)"),
            Self::Recovering => Some("innokit was interrupted while it made a datadir of it"),
            Self::Recovered => Some("innokit recover has made a datadir of it"),
        }
    }
}

/// How long the backup blocked other connections, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupLocks {
    /// How long tables could not be created, altered, renamed or dropped, and tables without transactions not written to.
    pub ddl_ms: u64,
    /// How long commits were blocked; 0 on MySQL, where a backup blocks none.
    pub commit_ms: u64,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Its path in the set.
    #[serde(deserialize_with = "bounded::text")]
    pub path: String,
    /// Its length in bytes.
    pub size: u64,
    /// CRC-32C of its content, eight hexadecimal digits.
    #[serde(deserialize_with = "bounded::text")]
    pub crc32c: String,
}

/// What is wrong with a file that the manifest lists and that is not there, with one that it does not list, and with the manifest itself if
/// its checksum is wrong.
pub(crate) const MISSING: &str = "missing";
pub(crate) const NOT_LISTED: &str = "not part of the backup";
pub(crate) const UNSOUND: &str = "changed since it was written: its own checksum does not fit";

impl BackupFile {
    /// What is wrong if the file is now this long, in bytes.
    pub(crate) fn wrong_size(&self, size: u64) -> Option<String> {
        (size != self.size).then(|| format!("{size} bytes long, but it had {}", self.size))
    }

    /// What is wrong if the file now has this checksum.
    pub(crate) fn wrong_content(&self, crc32c: &str) -> Option<String> {
        (crc32c != self.crc32c).then(|| "changed: its checksum was another one".to_owned())
    }
}

/// The base of an increment: the backup that it continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupBase {
    /// Its [`Manifest::id`].
    pub id: String,
    /// The checkpoint that its log begins with: the increment holds the pages changed since.
    pub from_lsn: u64,
    /// The LSN it reaches.
    pub to_lsn: u64,
}

/// A tablespace as it was copied. The next increment compares the server's file with this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTablespace {
    /// The path of its file in the datadir at the moment of the backup.
    #[serde(deserialize_with = "bounded::text")]
    pub path: String,
    /// Its space id.
    pub space: u32,
    /// Its flags, as page 0 stores them.
    pub flags: u32,
    /// Physical page size in bytes: smaller than the logical one in most compressed tables.
    pub page_size: u32,
    /// The length of its file in bytes.
    pub size: u64,
    /// Identifies the server's file by inode and creation time. `None` if the file system does not record creation times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// CRC-32C of its first page, eight hexadecimal digits.
    #[serde(deserialize_with = "bounded::text")]
    pub first_page: String,
    /// Page number and LSN of a few pages: the newest of those last changed before this backup's log begins.
    #[serde(deserialize_with = "bounded::list::<SETTLED_MAX, _, _>")]
    pub settled: Vec<(u32, u64)>,
    /// What an increment holds of it. `None` if the set has the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<BackupDelta>,
}

/// How a tablespace differs from its copy in the base of an increment. All other pages are the same there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupDelta {
    /// Number of pages in the file with this name plus `.delta`. If it is 0, there is no such file.
    pub pages: u64,
    /// Number of pages to take from the base, not counting the first.
    pub same: u64,
    /// CRC-32C of the numbers and LSNs of those pages, eight hexadecimal digits.
    #[serde(deserialize_with = "bounded::text")]
    pub same_lsns: String,
    /// Runs of pages to fill with zeros: first page and length. They were all zeros, or copies of other pages in the doublewrite area.
    #[serde(deserialize_with = "bounded::list::<ZEROS_MAX, _, _>")]
    pub zeros: Vec<(u32, u32)>,
}

/// Pages that were damaged in the server's own file, and copied as they were because the user said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupDamage {
    /// The file.
    #[serde(deserialize_with = "bounded::text")]
    pub path: String,
    /// The numbers of the pages.
    #[serde(deserialize_with = "bounded::list::<DAMAGED_MAX, _, _>")]
    pub pages: Vec<u32>,
}

impl BackupDamage {
    /// One sentence for each page, as the verification of a set has them.
    pub(crate) fn sentences(&self) -> impl Iterator<Item = String> {
        self.pages.iter().map(|page| format!("{}: page {page} is damaged", self.path))
    }
}

/// What a backup is and holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this document's format, 1.
    pub schema_version: u32,
    /// A random identity, by which increments name their base: 32 hexadecimal digits. Empty in backups by earlier versions.
    #[serde(default, deserialize_with = "bounded::text", skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Whether it can be used.
    pub state: BackupState,
    /// The backup that this one continues. `None` for a full backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BackupBase>,
    /// Why a void backup was not completed, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The version of innokit that took it.
    #[serde(deserialize_with = "bounded::text")]
    pub innokit_version: String,
    /// The server's version.
    #[serde(deserialize_with = "bounded::text")]
    pub server_version: String,
    /// When the backup started, in seconds since 1970.
    pub started_at: u64,
    /// The moment whose state it holds, in seconds since 1970.
    pub taken_at: u64,
    /// The checkpoint that its log begins with.
    pub from_lsn: u64,
    /// The LSN of that moment: the backup holds exactly what was committed before it.
    pub to_lsn: u64,
    /// The binary log position at that moment. `None` if the server writes no binary log.
    pub binlog: Option<BinlogPosition>,
    /// Whether recovery needs the server's keys, which are not part of the backup.
    pub needs_keys: bool,
    /// The server's AES mode, `aes_cbc` or `aes_ctr`, if it says so (MariaDB): no encrypted page may be on disk yet that shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cipher: String,
    /// How long the backup blocked other connections.
    pub locks: BackupLocks,
    /// InnoDB pages verified.
    pub pages: u64,
    /// Pages that failed verification and were read again, because the server was writing them.
    pub pages_read_again: u64,
    /// Files of unknown kinds in the server's databases. They are not in the backup.
    #[serde(deserialize_with = "bounded::texts::<LEFT_OUT_MAX, _>")]
    pub left_out: Vec<String>,
    /// Damaged pages that were copied as they were.
    #[serde(default, deserialize_with = "bounded::list::<FILES_MAX, _, _>", skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<BackupDamage>,
    /// The tablespaces, sorted by space id.
    #[serde(default, deserialize_with = "bounded::list::<FILES_MAX, _, _>", skip_serializing_if = "Vec::is_empty")]
    pub tablespaces: Vec<BackupTablespace>,
    /// All files of the set except this manifest, those of the tablespaces included.
    #[serde(deserialize_with = "bounded::list::<FILES_MAX, _, _>")]
    pub files: Vec<BackupFile>,
    /// CRC-32C of this document as JSON without white space, with this field empty.
    #[serde(deserialize_with = "bounded::text")]
    pub checksum: String,
}

/// What is read of a manifest that a later innokit may have written.
#[derive(Deserialize)]
struct Head {
    schema_version: u64,
}

impl Manifest {
    /// The void manifest that a backup starts with.
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
            cipher: String::new(),
            locks: BackupLocks::default(),
            pages: 0,
            pages_read_again: 0,
            left_out: Vec::new(),
            damaged: Vec::new(),
            tablespaces: Vec::new(),
            files: Vec::new(),
            checksum: String::new(),
        }
    }

    fn sum(&self) -> String {
        // The checksum stands last. Cut off, instead of a copy of everything without it.
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        let own = serde_json::to_vec(&self.checksum).unwrap_or_default();
        text.truncate(text.len().saturating_sub(own.len() + 1));
        text.extend_from_slice(b"\"\"}");
        format!("{:08x}", crc32c(&text))
    }

    /// The entry of a tablespace, by its space id.
    pub(crate) fn tablespace(&self, space: u32) -> Option<&BackupTablespace> {
        let at = self.tablespaces.binary_search_by_key(&space, |tablespace| tablespace.space).ok()?;
        self.tablespaces.get(at)
    }

    /// Writes the manifest into the set: whole and durable, or not at all.
    pub(crate) fn write(&mut self, set: &Path) -> Result<(), Error> {
        self.checksum = self.sum();
        let path = set.join(MANIFEST);
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other);
        let written = text.and_then(|text| write_whole(&path, &text));
        written.map_err(|source| Error::Io { path, action: "writing the manifest", source })
    }

    /// Reads the manifest of a backup that can be used, as [`read`](Self::read) does. `None` if there is no manifest, if the backup is void, or
    /// if it is a datadir by now, or half of one.
    pub(crate) fn of_usable(set: &Path) -> Result<Option<(Self, bool)>, Error> {
        if !is_there(set) {
            return Ok(None);
        }
        let (manifest, is_sound) = Self::read(set)?;
        let is_usable = matches!(manifest.state, BackupState::Complete | BackupState::Prepared);
        Ok(is_usable.then_some((manifest, is_sound)))
    }

    /// Reads the manifest. The flag says whether its checksum matches.
    ///
    /// # Errors
    /// The file is missing or no manifest, or a later innokit wrote it.
    pub(crate) fn read(set: &Path) -> Result<(Self, bool), Error> {
        let path = set.join(MANIFEST);
        let name = path.display().to_string();
        let bytes = read_small(&path, MANIFEST_MAX);
        let bytes = bytes.map_err(|source| Error::Io { path, action: "reading the manifest", source })?;
        Self::parse(&bytes, &name)
    }

    /// [`read`](Self::read), of the text of the file with this name.
    fn parse(bytes: &[u8], name: &str) -> Result<(Self, bool), Error> {
        let refused = |why: String| Err(Error::Usage(why));
        let head: Result<Head, _> = serde_json::from_slice(bytes);
        if head.is_ok_and(|head| head.schema_version > u64::from(SCHEMA_VERSION)) {
            return refused(format!("{name}: written by a later innokit: use that"));
        }
        match serde_json::from_slice::<Self>(bytes) {
            Ok(manifest) => {
                let spaces = manifest.tablespaces.iter().map(|entry| &entry.path);
                let mut names = spaces.chain(manifest.files.iter().map(|file| &file.path));
                // A merge makes files of these names in the datadir.
                let is_odd = |path: &&String| SetName::parse(Path::new(path)).is_none() || is_own(Path::new(path));
                if let Some(path) = names.find(is_odd) {
                    return refused(format!(
                        "{name}: it lists a file `{path}`, which is none of a backup: do not use this backup"
                    ));
                }
                let is_sound = manifest.sum() == manifest.checksum;
                Ok((manifest, is_sound))
            }
            Err(error) => refused(format!("{name}: no manifest of a backup: {error}")),
        }
    }
}

/// A manifest as a set has it, and whether its checksum is right.
#[cfg(fuzzing)]
pub fn fuzzed_manifest(bytes: &[u8]) -> Option<(Manifest, bool)> {
    Manifest::parse(bytes, MANIFEST).ok()
}

/// The LSN from which on the files of the complete backup in this directory are consistent. `None` if it holds none.
pub(crate) fn reaches(set: &Path) -> Option<Lsn> {
    let (manifest, _) = Manifest::read(set).ok()?;
    let is_to_recover = matches!(manifest.state, BackupState::Complete | BackupState::Recovering);
    is_to_recover.then_some(Lsn(manifest.to_lsn))
}

/// The AES mode of the server of the backup in this directory. `None` if it holds none, or the server did not say.
pub(crate) fn cipher(set: &Path) -> Option<CipherMode> {
    match Manifest::read(set).ok()?.0.cipher.as_str() {
        "aes_cbc" => Some(CipherMode::Cbc),
        "aes_ctr" => Some(CipherMode::Ctr),
        _ => None,
    }
}

/// Records that the complete backup in this directory, if it holds one, is about to become a datadir. Call it before its files change.
pub(crate) fn mark_recovering(set: &Path) -> Result<(), Error> {
    advance(set, &[BackupState::Complete], BackupState::Recovering)
}

/// Records that the complete backup in this directory, if it holds one, has become a datadir.
pub(crate) fn mark_recovered(set: &Path) -> Result<(), Error> {
    advance(set, &[BackupState::Complete, BackupState::Recovering], BackupState::Recovered)
}

fn advance(set: &Path, from: &[BackupState], to: BackupState) -> Result<(), Error> {
    match Manifest::read(set) {
        Ok((mut manifest, _)) if from.contains(&manifest.state) => {
            manifest.state = to;
            manifest.write(set)
        }
        // It would go on saying that the backup can be used.
        Err(error @ Error::Io { .. }) if is_there(set) => Err(error),
        _ => Ok(()),
    }
}

/// Why this directory must not be recovered: it holds a void backup, or an increment. `None` if it may be.
pub(crate) fn unfit(set: &Path) -> Option<String> {
    let (manifest, _) = match Manifest::read(set) {
        Ok(read) => read,
        Err(error @ Error::Io { .. }) if is_there(set) => return Some(error.to_string()),
        Err(_) => return None,
    };
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

/// Why a backup with damaged pages must not be used unless the user says so. `None` if the directory holds no such backup, or one that is a
/// datadir by now.
pub(crate) fn damage(set: &Path) -> Option<String> {
    let (manifest, _) = Manifest::read(set).ok()?;
    let is_backup = !matches!(manifest.state, BackupState::Void | BackupState::Recovered);
    let first = manifest.damaged.first().filter(|_| is_backup)?;
    let (pages, files) = (manifest.damaged.iter().map(|file| file.pages.len()).sum::<usize>(), manifest.damaged.len());
    Some(format!(
        "{}: {pages} pages in {files} files of this backup were damaged when they were copied, among them {}: innokit table check names the rows \
         that they hold; --allow-damage uses the backup all the same",
        set.display(),
        first.sentences().next().unwrap_or_default()
    ))
}

/// Whether this directory holds a backup that innokit took.
///
/// A manifest that cannot be looked at is there: reading it then says why not. Taken for absent, a backup would be treated as a datadir.
pub(crate) fn is_there(set: &Path) -> bool {
    !matches!(fs::symlink_metadata(set.join(MANIFEST)), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A manifest with this text in place of the empty list of files that were left out.
    fn with_left_out(list: &str) -> Result<(Manifest, bool), Error> {
        let dir = tempfile::tempdir().expect("a directory");
        Manifest::begun(7).write(dir.path()).expect("written");
        let path = dir.path().join(MANIFEST);
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains(r#""left_out": []"#), "{text}");
        std::fs::write(&path, text.replace(r#""left_out": []"#, &format!(r#""left_out": {list}"#))).expect("written");
        Manifest::read(dir.path())
    }

    #[test]
    fn a_manifest_is_read_with_limits() {
        let (manifest, is_sound) = with_left_out("[]").expect("a manifest");
        assert!(is_sound && manifest.started_at == 7);
        let (manifest, is_sound) = with_left_out(r#"["x"]"#).expect("a manifest");
        assert!(!is_sound && manifest.left_out == ["x"]);
        let why = |list: &str| with_left_out(list).expect_err("too much").to_string();
        assert!(why(&format!("[{}1]", r#""","#.repeat(1_100_000))).contains("more than 1000000 members"));
        assert!(why(&format!(r#"["{}"]"#, "x".repeat(20_000))).contains("longer than 16384 bytes"));
        assert!(why(&"[".repeat(10_000)).contains("no manifest of a backup"));
        // What this version does not know is passed over, however deep, without a tree.
        let deep = format!("[], \"later\": {}{}", "[".repeat(100), "]".repeat(100));
        assert!(with_left_out(&deep).is_ok());
    }

    #[test]
    fn the_checksum_covers_the_document_without_it() {
        let mut manifest = Manifest::begun(7);
        for checksum in ["", "0badcafe", "a\"b\n"] {
            manifest.checksum = checksum.to_owned();
            let without = Manifest { checksum: String::new(), ..manifest.clone() };
            let text = serde_json::to_vec(&without).expect("JSON");
            assert_eq!(manifest.sum(), format!("{:08x}", crc32c(&text)));
        }
    }

    #[test]
    fn a_manifest_that_names_files_elsewhere_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in ["../evil.ibd", "/etc/evil.ibd", "db/../../evil.ibd", "", "innokit-recover.shadow"] {
            let mut manifest = Manifest::begun(0);
            manifest.files = vec![BackupFile { path: path.to_owned(), size: 0, crc32c: String::new() }];
            manifest.write(dir.path()).expect("written");
            let refused = Manifest::read(dir.path()).map(drop).expect_err("refused").to_string();
            assert!(refused.contains(&format!("`{path}`")), "{refused}");
        }
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_not_absent() {
        let set = tempfile::tempdir().expect("a directory");
        assert!(!is_there(set.path()) && unfit(set.path()).is_none());
        mark_recovered(set.path()).expect("there is none to mark");
        symlink(MANIFEST, set.path().join(MANIFEST)).expect("linked");
        assert!(is_there(set.path()));
        mark_recovered(set.path()).expect_err("it would go on saying that the backup is complete");
        Manifest::of_usable(set.path()).expect_err("it may be a backup");
        assert!(unfit(set.path()).expect("undecided").contains("reading the manifest"));
    }
}
