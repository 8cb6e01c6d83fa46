//! The answer of `info`, as data. The field names are the JSON document of `docs/info.md`.

use std::collections::BTreeMap;

use datadir::Outcome;
use serde::Serialize;

use super::content_kind::ContentKind;
use super::grid::Grid;

/// The answer for all files, in the order in which they were named.
#[derive(Clone, Debug, Serialize)]
pub struct InfoReport {
    /// One for each file.
    pub files: Vec<FileInfo>,
}

/// The answer for one file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileInfo {
    /// The file as named.
    pub path: String,
    /// Length, bytes.
    pub bytes: u64,
    /// Bytes allocated on disk; less than the length if the file has holes.
    pub bytes_on_disk: u64,
    /// `None` if the file could not be read.
    pub kind: Option<ContentKind>,
    /// The same in words, with what is known about its origin.
    pub what: String,
    /// Why the file could not be read, or not to its end: exit status 2.
    pub error: Option<String>,
    /// Why the file as a whole is not what its name promises: exit status 1.
    pub damage: Option<String>,
    /// Facts about a file that is not a tablespace: stable name, value.
    pub facts: BTreeMap<&'static str, String>,
    /// Facts about a tablespace.
    pub tablespace: Option<TablespaceInfo>,
    /// The file as cells in page order, if requested.
    #[serde(skip)]
    pub grid: Option<Grid>,
}

/// Facts about a tablespace, or about one file of it.
#[derive(Clone, Debug, Serialize)]
pub struct TablespaceInfo {
    /// `MySQL` or `MariaDB`.
    pub family: &'static str,
    /// The version that created or last upgraded it, if stored (MySQL 8.0 and later).
    pub server_version: Option<String>,
    /// Tablespace id.
    pub space_id: u32,
    /// What it stores, as far as the file or its name tells.
    pub name: Option<Name>,
    /// Number of the file's first page: 0 except for `ibdata2` and later files.
    pub first_page: u32,
    /// Page size in the file, bytes.
    pub page_size: u32,
    /// Page size in memory, bytes (`innodb_page_size`).
    pub logical_page_size: u32,
    /// How pages carry their checksum: `classic`, `zip` or `full_crc32`.
    pub page_format: &'static str,
    /// The flags word; `None` if page 0 is damaged or not in this file.
    pub flags: Option<Flags>,
    /// Pages that the space header counts, over all files of the tablespace.
    pub size_in_header: Option<u32>,
    /// Pages from here on were never used.
    pub free_limit: Option<u32>,
    /// Bytes after the last whole page.
    pub trailing_bytes: u64,
    /// Pages by verdict and by use.
    pub pages: PageCounts,
    /// LSNs of sound pages.
    pub lsn: Option<LsnRange>,
    /// Pages by matching checksum, most frequent first.
    pub checksums: Vec<ChecksumRow>,
    /// Pages that could not be decided, by reason.
    pub undecided: BTreeMap<&'static str, u64>,
    /// Pages with content by type, most frequent first.
    pub page_types: Vec<TypeRow>,
    /// Space used by each index, by id.
    pub indexes: Vec<IndexRow>,
    /// Pages of further indexes (a strange file may name any number of them).
    pub indexes_not_listed: u64,
    /// Encryption.
    pub encryption: EncryptionInfo,
    /// Page compression.
    pub compression: CompressionInfo,
    /// The first damaged pages.
    pub damaged_pages: Vec<DamagedPage>,
}

/// What is stored in a tablespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Name {
    /// `sdi` (the file's own dictionary information) or `path`.
    pub source: &'static str,
    /// The tablespace's own name, from the dictionary information.
    pub tablespace: Option<String>,
    /// Database.
    pub schema: Option<String>,
    /// Table, or the partition's file name; `None` if there are several.
    pub table: Option<String>,
    /// Tables described in the file.
    pub tables: u64,
    /// Row format of the table, from the dictionary information.
    pub row_format: Option<&'static str>,
    /// Why existing SDI could not be used.
    pub sdi_unread: Option<String>,
}

/// The flags word of page 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flags {
    /// As stored.
    pub word: u32,
    /// Its decoded parts.
    pub fields: Vec<FlagField>,
}

/// A non-zero part of the flags word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlagField {
    /// The server's name for it, without prefix.
    pub name: &'static str,
    /// As stored.
    pub value: u32,
    /// Its meaning.
    pub meaning: String,
}

/// Pages by verdict, then by use. `ok`, `empty`, `corrupt` and `unverifiable` add up to `total`; so do `used`, `free`,
/// `never_used` and `use_unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageCounts {
    /// Whole pages in the file.
    pub total: u64,
    /// Sound.
    pub ok: u64,
    /// All zero.
    pub empty: u64,
    /// Damaged.
    pub corrupt: u64,
    /// Not decidable.
    pub unverifiable: u64,
    /// In use, by the extent descriptors.
    pub used: u64,
    /// Free, by the extent descriptors.
    pub free: u64,
    /// Beyond the free limit.
    pub never_used: u64,
    /// The descriptors are damaged, encrypted or not in this file.
    pub use_unknown: u64,
    /// Free pages that still hold their old content.
    pub free_with_content: u64,
    /// Damaged pages among the free ones, which no query reads.
    pub corrupt_free: u64,
    /// Encrypted pages.
    pub encrypted: u64,
    /// Page-compressed pages.
    pub compressed: u64,
    /// Pages among these two that could not be opened: their records and index are unknown.
    pub unopened: u64,
}

/// Smallest and largest LSN of the sound pages (without the doublewrite area).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LsnRange {
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// The page that has the largest.
    pub newest_page: u32,
}

/// Pages that match one checksum algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChecksumRow {
    /// The server's name for it.
    pub algorithm: &'static str,
    /// Pages.
    pub pages: u64,
}

/// Pages of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeRow {
    /// The number in the page.
    #[serde(rename = "type")]
    pub number: u16,
    /// In words.
    pub name: String,
    /// The type after decryption and inflation, if the header tells.
    pub inside: Option<String>,
    /// Pages.
    pub pages: u64,
}

/// The pages of one index, without free ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IndexRow {
    /// Index id; `None` for pages with an encrypted index id.
    pub index_id: Option<u64>,
    /// `schema.table`, from the dictionary information.
    pub table: Option<String>,
    /// From the dictionary information.
    pub name: Option<String>,
    /// `B-tree`, `R-tree` or `SDI`.
    pub tree: &'static str,
    /// The root, if it is in this file.
    pub root_page: Option<u32>,
    /// Levels, including the leaves.
    pub levels: u32,
    /// Pages.
    pub pages: u64,
    /// Pages with rows or entries.
    pub leaf_pages: u64,
    /// Records on leaf pages, including delete-marked ones.
    pub records: u64,
    /// Bytes of live records and their directory slots, over all pages.
    pub bytes_used: u64,
    /// Bytes still free on these pages, including deleted records.
    pub bytes_free: u64,
    /// Used fraction of the space, 0 to 1.
    pub fill: f64,
}

/// Encryption, and the key used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EncryptionInfo {
    /// Whether page 0 says that the tablespace is encrypted.
    pub on: bool,
    /// Encrypted pages in the file.
    pub pages: u64,
    /// Facts about the key, never the key: stable name, value.
    pub key: BTreeMap<&'static str, String>,
}

/// Page compression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompressionInfo {
    /// Whether the flags announce it (MariaDB; MySQL keeps no flag for it).
    pub on: bool,
    /// Page-compressed pages by algorithm.
    pub algorithms: BTreeMap<&'static str, u64>,
    /// Bytes of data in these pages.
    pub compressed_bytes: u64,
    /// Size of the same pages when inflated, bytes.
    pub inflated_bytes: u64,
}

/// A damaged page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedPage {
    /// Its number.
    pub page: u32,
    /// Stable finding code, as in `check`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// Free according to the extent descriptors: no query reads it.
    pub free: bool,
}

impl InfoReport {
    /// 0 all well, 1 damage found, 2 some file could not be read; damage takes precedence.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let is_open = self.files.iter().any(|file| file.error.is_some());
        Outcome::of(self.files.iter().any(FileInfo::is_damaged), is_open).exit_status()
    }
}

impl FileInfo {
    /// Whether anything that might still be read is damaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        let page = |space: &TablespaceInfo| space.pages.corrupt > space.pages.corrupt_free;
        self.damage.is_some() || self.tablespace.as_ref().is_some_and(page)
    }
}
