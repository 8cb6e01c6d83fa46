//! Identifies files other than tablespaces, by their first bytes or, if those say nothing, by name.

use std::collections::BTreeMap;
use std::path::Path;

use format::bytes::{be, is_zero};
use logs::ibb;
use logs::xbstream;
use redo::archived::{Head, first_lsn};
use redo::{LogVendor, mariadb, mysql};

use super::content_kind::ContentKind;
use datadir::name::NameHint;
use datadir::redo_log::is_kept_file;

/// A kind with its description.
pub(super) struct Identity {
    pub kind: ContentKind,
    pub what: String,
    pub facts: BTreeMap<&'static str, String>,
}

impl Identity {
    fn new(kind: ContentKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), facts: BTreeMap::new() }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.facts.insert(name, value.to_string());
        self
    }
}

/// First bytes, kind and description of files that a backup or a datadir may hold.
const MAGICS: [(&[u8], ContentKind, &str); 17] = [
    (b"\x7fELF", ContentKind::Executable, "ELF executable or library"),
    (b"\x1f\x8b", ContentKind::Compressed, "gzip-compressed data"),
    (b"\x28\xb5\x2f\xfd", ContentKind::Compressed, "zstd-compressed data"),
    (b"\x04\x22\x4d\x18", ContentKind::Compressed, "lz4-compressed data"),
    (b"\xfd7zXZ\0", ContentKind::Compressed, "xz-compressed data"),
    (b"BZh", ContentKind::Compressed, "bzip2-compressed data"),
    (b"qpress10", ContentKind::Compressed, "qpress archive"),
    (b"PK\x03\x04", ContentKind::Archive, "zip archive"),
    (b"\xfe\xfe\x09", ContentKind::Aria, "index file of an Aria table"),
    (b"\xfe\xfe\x0c", ContentKind::Aria, "control file of the Aria engine"),
    (b"\xfe\xfe\x07", ContentKind::MyIsam, "index file of a MyISAM table"),
    (b"\xfe\x01", ContentKind::TableDefinition, "table definition (.frm)"),
    (b"TYPE=VIEW", ContentKind::ViewDefinition, "view definition"),
    (b"TYPE=TRIGGERS", ContentKind::TriggerDefinition, "trigger definition"),
    (b"SQLite format 3\0", ContentKind::Sqlite, "SQLite database"),
    (b"-- MySQL dump", ContentKind::SqlDump, "SQL dump of mysqldump"),
    (b"-- MariaDB dump", ContentKind::SqlDump, "SQL dump of mariadb-dump"),
];

/// Identifies a file of `len` bytes by its first bytes.
pub(super) fn identify(path: &Path, head: &[u8], len: u64) -> Identity {
    if len == 0 {
        return Identity::new(ContentKind::Empty, "empty file");
    }
    redo_log(path, head, len)
        .or_else(|| binary_log(head))
        .or_else(|| doublewrite(path, len))
        .or_else(|| by_magic(head))
        .or_else(|| by_name(path, head))
        .unwrap_or_else(|| by_look(head))
}

fn redo_log(path: &Path, head: &[u8], len: u64) -> Option<Identity> {
    let named = NameHint::of(path) == NameHint::Redo;
    if is_kept_file(path) {
        return Some(kept_log(path, head, len));
    }
    match redo::identify(head) {
        Ok(LogVendor::MySql) => match mysql::LogFile::parse(head, len) {
            Ok(log) => Some(mysql_log(path, &log)),
            // Four bytes with a value from 1 to 6 prove nothing; together with the name they mean a damaged header.
            Err(error) if named => Some(Identity::new(ContentKind::RedoLog, format!("MySQL redo log; {error}"))),
            Err(_) => None,
        },
        Ok(LogVendor::MariaDb) => Some(match mariadb::LogFile::parse(head, len) {
            Ok(log) => mariadb_log(&log, head),
            Err(error) => Identity::new(ContentKind::RedoLog, format!("MariaDB redo log; {error}")),
        }),
        Err(_) if named && is_zero(head) => {
            Some(Identity::new(ContentKind::RedoLog, "redo log, not yet used: all zero"))
        }
        Err(error) if named => Some(Identity::new(ContentKind::RedoLog, format!("redo log; {error}"))),
        Err(_) => None,
    }
}

/// `ib_0000000000003000.log`.
fn kept_log(path: &Path, head: &[u8], len: u64) -> Identity {
    let what = match Head::read(head, len) {
        Head::List(places) => match places.len() {
            1 => "1 checkpoint".to_owned(),
            many => format!("{many} checkpoints"),
        },
        Head::Blank => "no checkpoint".to_owned(),
        Head::Encrypted => "encrypted".to_owned(),
        Head::Ring => "with the header of a ring".to_owned(),
        Head::Preview(_) | Head::Unknown => "its header is not understood".to_owned(),
    };
    let words = format!("MariaDB redo log kept as an archive, {what}");
    let identity = Identity::new(ContentKind::RedoLog, words).with("format", "13.0, archive");
    let first = path.file_name().and_then(|name| first_lsn(name.to_str()?));
    let Some(first) = first else { return identity };
    let payload = len.saturating_sub(mariadb::START_OFFSET as u64);
    identity.with("start_lsn", first).with("end_lsn", first.0.saturating_add(payload))
}

fn mysql_log(path: &Path, log: &mysql::LogFile) -> Identity {
    let spare = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_tmp"));
    let words = if spare { "spare file of the MySQL redo log (its content is not used)" } else { "MySQL redo log" };
    let mut identity = Identity::new(ContentKind::RedoLog, format!("{words}, format {}", log.format))
        .with("format", log.format)
        .with("creator", &log.creator);
    const MANY_FILES: u32 = 6;
    if log.format >= MANY_FILES {
        let payload = log.size.saturating_sub(mysql::LOG_FILE_HDR_SIZE as u64);
        identity = identity.with("start_lsn", log.start_lsn).with("end_lsn", log.start_lsn.0.saturating_add(payload));
    }
    if log.is_crash_unsafe() {
        identity = identity.with("logging", "disabled; the data files are beyond recovery");
    }
    identity
}

fn mariadb_log(log: &mariadb::LogFile, head: &[u8]) -> Identity {
    let (since, encrypted) = match log.format {
        mariadb::Format::Blocks { encrypted } => ("10.5 to 10.7", encrypted),
        mariadb::Format::Stream { encrypted } => ("10.8 and later", encrypted.is_some()),
    };
    let creator = text(head.get(mariadb::LOG_HEADER_CREATOR..mariadb::LOG_HEADER_KEY).unwrap_or(&[]));
    Identity::new(ContentKind::RedoLog, format!("MariaDB redo log, format of {since}"))
        .with("format", since)
        .with("creator", creator)
        .with("start_lsn", log.first_lsn)
        .with("checkpoint_lsn", log.checkpoint.lsn)
        .with("checkpoint_end_lsn", log.checkpoint.end_lsn)
        .with("encrypted", if encrypted { "yes" } else { "no" })
}

/// Magic, then the first event: header of 19 bytes, version 2, server version 50 (facts: both servers' log_event).
fn binary_log(head: &[u8]) -> Option<Identity> {
    const SERVER_VERSION: std::ops::Range<usize> = 25..75;
    match head.get(..4)? {
        b"\xfebin" => {
            let version = text(head.get(SERVER_VERSION).unwrap_or(&[]));
            let identity = Identity::new(ContentKind::BinaryLog, "binary or relay log");
            Some(if version.is_empty() { identity } else { identity.with("server_version", version) })
        }
        b"\xfdbin" => Some(Identity::new(ContentKind::BinaryLog, "binary or relay log, encrypted (MySQL)")),
        magic if *magic == ibb::MAGIC => Some(innodb_binlog(head)),
        _ => None,
    }
}

/// `binlog-000000.ibb`.
fn innodb_binlog(head: &[u8]) -> Identity {
    let identity = Identity::new(ContentKind::BinaryLog, "binary log within InnoDB (MariaDB)");
    let Ok(header) = ibb::Header::read(head) else { return identity };
    let (major, minor) = header.version;
    identity
        .with("format", format!("{major}.{minor}"))
        .with("file_number", header.file)
        .with("pages", header.pages)
        .with("start_lsn", header.start_lsn)
}

/// `#ib_16384_0.dblwr`: only the name tells what the file is.
fn doublewrite(path: &Path, len: u64) -> Option<Identity> {
    if NameHint::of(path) != NameHint::Doublewrite {
        return None;
    }
    let name = path.file_name()?.to_string_lossy();
    let size: Option<u64> = name.split('_').nth(1).and_then(|size| size.parse().ok()).filter(|size| *size > 0);
    if name.ends_with(".bdblwr") {
        return Some(Identity::new(ContentKind::Doublewrite, "doublewrite file of MySQL that only detects torn pages"));
    }
    let identity = Identity::new(ContentKind::Doublewrite, "doublewrite file of MySQL");
    Some(match size {
        Some(size) => identity.with("page_size", size).with("slots", len / size),
        None => identity,
    })
}

fn by_magic(head: &[u8]) -> Option<Identity> {
    if head.starts_with(&xbstream::MAGIC) {
        return Some(Identity::new(ContentKind::Xbstream, "xbstream archive (xtrabackup or mariadb-backup)"));
    }
    MAGICS.iter().find(|(magic, _, _)| head.starts_with(magic)).map(|(_, kind, words)| Identity::new(*kind, *words))
}

fn by_name(path: &Path, head: &[u8]) -> Option<Identity> {
    let name = path.file_name()?.to_string_lossy();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let (kind, words) = match extension {
        "isl" => {
            let target = String::from_utf8_lossy(head).trim_end().to_owned();
            return Some(
                Identity::new(ContentKind::Link, "link to a tablespace kept elsewhere").with("target", target),
            );
        }
        "cfg" => (ContentKind::ExportMetadata, "metadata of an exported table (FLUSH TABLES ... FOR EXPORT)"),
        "cfp" => (ContentKind::ExportKey, "key of an exported encrypted table: keep it as secret as the key itself"),
        "MYD" => (ContentKind::MyIsam, "data file of a MyISAM table"),
        "MAD" => (ContentKind::Aria, "data file of an Aria table"),
        "sdi" => (ContentKind::DictionaryInformation, "dictionary information of a table of another engine"),
        _ if name.starts_with("aria_log.") => (ContentKind::Aria, "log of the Aria engine"),
        _ if name == "ib_buffer_pool" => (ContentKind::BufferPoolDump, "list of the pages that were in memory"),
        _ => return None,
    };
    Some(Identity::new(kind, words))
}

fn by_look(head: &[u8]) -> Identity {
    if is_zero(head) {
        return Identity::new(ContentKind::Zeros, "all zeros, as far as it was read");
    }
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7E | 0x80..);
    let start = head.get(..4096).unwrap_or(head);
    if start.iter().all(printable) && (start.len() == 4096 || str::from_utf8(start).is_ok()) {
        return Identity::new(ContentKind::Text, "text");
    }
    let identity = Identity::new(ContentKind::Unknown, "not a file that innokit knows");
    match be::u32_at(head, 0) {
        Some(word) => identity.with("first_bytes", format!("{word:08x}")),
        None => identity,
    }
}

/// The text up to the first zero, without characters unfit for a terminal.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[]));
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, head: &[u8]) -> &'static str {
        identify(Path::new(name), head, head.len() as u64).kind.name()
    }

    #[test]
    fn files_are_told_by_content_before_name() {
        for (name, head, expected) in [
            ("t.ibd", &b""[..], "empty"),
            ("t.ibd", b"\x7fELF\x02\x01", "executable"),
            ("t.ibd.gz", b"\x1f\x8b\x08", "compressed"),
            ("backup.xb", b"XBSTCK01\0P", "xbstream"),
            ("x", b"\xfebin...................\x04\x009.7.4\0", "binary_log"),
            ("#ib_16384_0.dblwr", &[1, 2, 3, 4], "doublewrite"),
            ("t.isl", b"/data/t.ibd\n", "link"),
            ("notes", b"see you\n", "text"),
            ("x", &[0; 64], "zeros"),
            ("x", &[1, 2, 3, 0, 5], "unknown"),
            ("ib_logfile0", &[0xEE; 4096], "redo_log"),
        ] {
            assert_eq!(kind(name, head), expected, "{name}");
        }
    }

    #[test]
    fn a_binary_log_names_its_server() {
        let mut head = b"\xfebin".to_vec();
        head.extend([0; 19]);
        head.extend([4, 0]);
        head.extend(b"9.7.4\x1b[0m");
        head.resize(200, 0);
        assert_eq!(identify(Path::new("binlog.1"), &head, 200).facts["server_version"], "9.7.4[0m");
    }
}
