//! What page 0 says besides the format: the flags word decoded, who wrote the file, which key encrypts it. Facts about the layouts: the
//! servers' fsp0types, fsp0fsp and fil0crypt.

use std::collections::BTreeMap;

use format::bytes::be;
use format::fil::{FIL_PAGE_NEXT, FIL_PAGE_PREV};
use format::page::fsp;
use format::{Encryption, Family, PageSize, Scheme, SpaceFormat};

use super::look::mariadb_algorithm;
use super::report::{FlagField, Flags};

/// The server version that created or last upgraded the tablespace: MySQL 8.0 and later store it on page 0, in decimal.
pub(super) fn server_version(page0: &[u8], family: Family) -> Option<String> {
    const SPACE_VERSION: u32 = 1;
    let version = be::u32_at(page0, FIL_PAGE_PREV).filter(|version| (80_000..=999_999).contains(version))?;
    let marked = family == Family::MySql && be::u32_at(page0, FIL_PAGE_NEXT) == Some(SPACE_VERSION);
    marked.then(|| format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
}

/// One part of a flags word: name, lowest bit, number of bits, meaning of a value.
type FlagSpec = (&'static str, u32, u32, fn(u32) -> String);

const POST_ANTELOPE: FlagSpec = ("POST_ANTELOPE", 0, 1, |_| "row format DYNAMIC or COMPRESSED".to_owned());
const ZIP_SSIZE: FlagSpec = ("ZIP_SSIZE", 1, 4, |size| format!("ROW_FORMAT=COMPRESSED in pages of {}", words_of(size)));
const ATOMIC_BLOBS: FlagSpec = ("ATOMIC_BLOBS", 5, 1, |_| "long columns are stored entirely off-page".to_owned());
const PAGE_SSIZE: FlagSpec = ("PAGE_SSIZE", 6, 4, |size| format!("pages of {}", words_of(size)));

const MYSQL: [FlagSpec; 9] = [
    POST_ANTELOPE,
    ZIP_SSIZE,
    ATOMIC_BLOBS,
    PAGE_SSIZE,
    ("DATA_DIR", 10, 1, |_| "created with DATA DIRECTORY".to_owned()),
    ("SHARED", 11, 1, |_| "may hold several tables".to_owned()),
    ("TEMPORARY", 12, 1, |_| "temporary tablespace".to_owned()),
    ("ENCRYPTION", 13, 1, |_| "encrypted".to_owned()),
    ("SDI", 14, 1, |_| "holds its own dictionary information".to_owned()),
];

const MARIADB: [FlagSpec; 5] =
    [POST_ANTELOPE, ZIP_SSIZE, ATOMIC_BLOBS, PAGE_SSIZE, ("PAGE_COMPRESSION", 16, 1, |_| "page_compressed".to_owned())];

const MARIADB_10_1: [FlagSpec; 8] = [
    POST_ANTELOPE,
    ZIP_SSIZE,
    ATOMIC_BLOBS,
    ("PAGE_COMPRESSION", 6, 1, |_| "page_compressed".to_owned()),
    ("PAGE_COMPRESSION_LEVEL", 7, 4, |level| format!("compression level {level}")),
    ("ATOMIC_WRITES", 11, 2, |_| "created with ATOMIC_WRITES".to_owned()),
    ("PAGE_SSIZE", 13, 4, |size| format!("pages of {}, as MariaDB 10.1.0 to 10.1.20 wrote it", words_of(size))),
    ("DATA_DIR", 17, 1, |_| "created with DATA DIRECTORY".to_owned()),
];

const FULL_CRC32: [FlagSpec; 3] = [
    ("PAGE_SSIZE", 0, 4, |size| format!("pages of {}", words_of(size))),
    ("FCRC32_MARKER", 4, 1, |_| "one checksum over the whole page (full_crc32)".to_owned()),
    ("PAGE_COMPRESSED_ALGO", 5, 3, |number| format!("page_compressed with {}", mariadb_algorithm(number))),
];

fn words_of(ssize: u32) -> String {
    PageSize::from_ssize(ssize).map_or_else(|| "an unknown size".to_owned(), |size| size.to_string())
}

/// The non-zero parts of the flags word.
pub(super) fn flags(format: &SpaceFormat) -> Flags {
    let word = format.flags();
    let parts: &[FlagSpec] = match (format.family(), format.scheme()) {
        (_, Scheme::FullCrc32) => &FULL_CRC32,
        (Family::MySql, _) => &MYSQL,
        (Family::MariaDb, _) if is_10_1_layout(word, format) => &MARIADB_10_1,
        (Family::MariaDb, _) => &MARIADB,
    };
    let field = |&(name, low, bits, meaning): &FlagSpec| {
        let value = word >> low & ((1 << bits) - 1);
        (value != 0).then(|| FlagField { name, value, meaning: meaning(value) })
    };
    Flags { word, fields: parts.iter().filter_map(field).collect() }
}

/// Whether a MariaDB flags word makes sense only in the layout of early 10.1 releases.
fn is_10_1_layout(word: u32, format: &SpaceFormat) -> bool {
    let size = match word >> 6 & 15 {
        0 => Some(PageSize::DEFAULT),
        ssize => PageSize::from_ssize(ssize),
    };
    word >> 11 & 31 != 0 || word >> 17 != 0 || size != Some(format.logical())
}

/// MySQL's encryption information: a version of 3 letters, the master key's number, the uuid of the server that created it.
const MYSQL_KEY_NUMBER: usize = 3;
const MYSQL_SERVER_UUID: usize = 7;
const UUID_SIZE: usize = 36;
/// After the end of the extent descriptors: the progress of a background encryption or decryption.
const MYSQL_PROGRESS: usize = 123;

/// MariaDB's crypt data, after the end of the extent descriptors.
const MARIADB_CRYPT_DATA: usize = 38;
const MARIADB_MAGIC: [u8; 6] = [0x73, 0x0E, 0x0C, 0x52, 0x45, 0x74];
const MARIADB_TYPE: usize = 6;
/// After the magic, the type, the IV length and the 16 bytes of IV.
const MARIADB_KEY_VERSION: usize = 24;
const MARIADB_KEY_ID: usize = 28;
const MARIADB_MODE: usize = 32;

/// What page 0 says about the key; may be empty.
pub(super) fn key_facts(page0: &[u8], format: &SpaceFormat) -> BTreeMap<&'static str, String> {
    let end = fsp::xdes_array_end(format.logical(), format.physical());
    let info = page0.get(end..).unwrap_or(&[]);
    match format.encryption() {
        Encryption::MySql => mysql_key(info),
        Encryption::MariaDb | Encryption::None => mariadb_key(info.get(MARIADB_CRYPT_DATA..).unwrap_or(&[])),
    }
}

fn mysql_key(info: &[u8]) -> BTreeMap<&'static str, String> {
    let mut facts = BTreeMap::new();
    let version = match info.get(..MYSQL_KEY_NUMBER) {
        Some(b"lCA") => "1 (MySQL 5.7.11)",
        Some(b"lCB") => "2 (MySQL 5.7.12 and later)",
        Some(b"lCC") => "3 (MySQL 8.0.5 and later)",
        _ => return facts,
    };
    facts.insert("information_version", version.to_owned());
    if let Some(number) = be::u32_at(info, MYSQL_KEY_NUMBER) {
        facts.insert("master_key_number", number.to_string());
    }
    let uuid = info.get(MYSQL_SERVER_UUID..MYSQL_SERVER_UUID + UUID_SIZE).and_then(|text| str::from_utf8(text).ok());
    if let Some(uuid) = uuid.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')) {
        facts.insert("server_uuid", uuid.to_owned());
    }
    let progress = match info.get(MYSQL_PROGRESS) {
        Some(1) => "encrypting",
        Some(2) => "decrypting",
        _ => return facts,
    };
    facts.insert("in_progress", progress.to_owned());
    facts
}

fn mariadb_key(info: &[u8]) -> BTreeMap<&'static str, String> {
    let mut facts = BTreeMap::new();
    if !info.starts_with(&MARIADB_MAGIC) {
        return facts;
    }
    let scheme = if info.get(MARIADB_TYPE) == Some(&0) { "none" } else { "AES" };
    facts.insert("scheme", scheme.to_owned());
    if let Some(version) = be::u32_at(info, MARIADB_KEY_VERSION) {
        facts.insert("key_version_min", version.to_string());
    }
    if let Some(id) = be::u32_at(info, MARIADB_KEY_ID) {
        facts.insert("key_id", id.to_string());
    }
    let mode = match info.get(MARIADB_MODE) {
        Some(0) => "server default",
        Some(1) => "ENCRYPTED=YES",
        Some(2) => "ENCRYPTED=NO",
        _ => "unknown",
    };
    facts.insert("mode", mode.to_owned());
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::SpaceId;

    fn names(head: &[u8]) -> Vec<(&'static str, u32)> {
        let format = SpaceFormat::from_page0(head).expect("a head");
        flags(&format).fields.into_iter().map(|field| (field.name, field.value)).collect()
    }

    /// The first bytes of a tablespace with these flags and this server version.
    fn head(word: u32, version: u32) -> Vec<u8> {
        let mut head = vec![0; 4096];
        head[25] = 8;
        head[37] = 5;
        head[41] = 5;
        head[54..58].copy_from_slice(&word.to_be_bytes());
        head[8..12].copy_from_slice(&version.to_be_bytes());
        head[12..16].copy_from_slice(&if version == u32::MAX { version } else { 1 }.to_be_bytes());
        head
    }

    #[test]
    fn flags_of_both_families_are_read_in_their_own_layout() {
        let version = 90_704;
        assert_eq!(names(&head(0x4021, version)), [("POST_ANTELOPE", 1), ("ATOMIC_BLOBS", 1), ("SDI", 1)]);
        assert_eq!(
            names(&head(0x6029, version)),
            [("POST_ANTELOPE", 1), ("ZIP_SSIZE", 4), ("ATOMIC_BLOBS", 1), ("ENCRYPTION", 1), ("SDI", 1)]
        );
        assert_eq!(
            names(&head(0x35, u32::MAX)),
            [("PAGE_SSIZE", 5), ("FCRC32_MARKER", 1), ("PAGE_COMPRESSED_ALGO", 1)]
        );
        assert_eq!(
            names(&head(0x1_0021, u32::MAX)),
            [("POST_ANTELOPE", 1), ("ATOMIC_BLOBS", 1), ("PAGE_COMPRESSION", 1)]
        );
        assert_eq!(server_version(&head(0x4021, version), Family::MySql).as_deref(), Some("9.7.4"));
        assert_eq!(server_version(&head(0x15, u32::MAX), Family::MariaDb), None);
    }

    #[test]
    fn the_early_10_1_layout_is_told_apart() {
        // Page-compressed at level 6: bit 6, and 6 in bits 7 to 10.
        let format = SpaceFormat::from_page0(&head(0x21 | 1 << 6 | 6 << 7, u32::MAX)).expect("a head");
        assert_eq!(format.space(), SpaceId(5));
        let names: Vec<_> = flags(&format).fields.into_iter().map(|field| field.name).collect();
        assert!(names.contains(&"PAGE_COMPRESSION_LEVEL"), "{names:?}");
    }
}
