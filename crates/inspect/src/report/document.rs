//! `Report`: what was examined, what was found, what was left out. The field names are the JSON document of `docs/check.md`.

use std::time::Duration;

use datadir::Outcome;
use serde::Serialize;

use super::hurt::{Hurt, TableVerdict};
use datadir::file_kind::FileKind;
use datadir::finding_code::FindingCode;
use datadir::redo_log::Pending;
use datadir::severity::Severity;

/// One fault, at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, as given or below a given directory; `-` is standard input.
    pub path: String,
    /// Page number within the tablespace; `None` for a finding about the whole file.
    pub page: Option<u32>,
    /// Number of affected pages, starting at `page`.
    pub pages: u64,
    /// Byte offset in the file, for findings in binary logs, archives and doublewrite files.
    pub position: Option<u64>,
    /// LSN, for findings in redo logs.
    pub lsn: Option<u64>,
    /// Page type, in the server's words.
    pub page_type: Option<&'static str>,
    /// Index id, for index pages.
    pub index_id: Option<u64>,
    /// Damage, undecided or notice.
    pub severity: Severity,
    /// Stable finding code.
    pub reason: FindingCode,
    /// The message.
    pub message: String,
    /// The value found, if the finding is about one.
    pub stored: Option<u64>,
    /// The expected value.
    pub computed: Option<u64>,
}

/// Pages by verdict. Every page read counts in exactly one of ok, empty, corrupt, unverifiable, freed_damage and older.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Whole pages examined.
    pub pages: u64,
    /// Sound.
    pub ok: u64,
    /// All zero, and not known to be in use.
    pub empty: u64,
    /// Damaged.
    pub corrupt: u64,
    /// Not decidable: encrypted without a key, without a checksum, awaiting recovery.
    pub unverifiable: u64,
    /// Damaged, but free according to the extent descriptors: no query reads them. Not included in `corrupt`.
    pub freed_damage: u64,
    /// Older than `--since-lsn`: not verified.
    pub older: u64,
    /// Pages that the space header counts but the file lacks.
    pub missing: u64,
    /// Bytes read from the file.
    pub bytes: u64,
}

impl Counts {
    /// Reclassifies pages counted as empty that turn out to be lost or undecidable.
    pub(crate) fn empty_turned(&mut self, pages: u64, severity: Severity) {
        let counter = match severity {
            Severity::Damage => &mut self.corrupt,
            Severity::Undecided => &mut self.unverifiable,
            Severity::Notice => return,
        };
        // No more than were counted as empty: a page with several findings still counts once.
        let turned = pages.min(self.empty);
        *counter += turned;
        self.empty -= turned;
    }

    /// Reclassifies pages counted as sound that conflict with the rest of the datadir.
    pub(crate) fn ok_turned(&mut self, pages: u64, severity: Severity) {
        let counter = match severity {
            Severity::Damage => &mut self.corrupt,
            Severity::Undecided => &mut self.unverifiable,
            Severity::Notice => return,
        };
        let turned = pages.min(self.ok);
        *counter += turned;
        self.ok -= turned;
    }

    /// Adds `other` to these counts.
    pub fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.ok += other.ok;
        self.empty += other.empty;
        self.corrupt += other.corrupt;
        self.unverifiable += other.unverifiable;
        self.freed_damage += other.freed_damage;
        self.older += other.older;
        self.missing += other.missing;
        self.bytes += other.bytes;
    }
}

/// The unit that `pages`, `ok`, `empty`, `corrupt` and `unverifiable` count in a file's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Pages of a tablespace.
    #[default]
    Pages,
    /// Log blocks of 512 bytes: MySQL's redo log, and MariaDB's up to 10.7.
    LogBlocks,
    /// Mini-transactions: the redo log of MariaDB 10.8 and later.
    MiniTransactions,
    /// Page copies, or blocks of page numbers, in a doublewrite file.
    Slots,
    /// Events of a binary log.
    Events,
    /// None of its own: an archive, whose members have rows.
    Members,
}

impl Unit {
    /// In words, plural.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::LogBlocks => "log blocks",
            Self::MiniTransactions => "mini-transactions",
            Self::Slots => "slots",
            Self::Events => "events",
            Self::Members => "members",
        }
    }
}

/// Sums over units other than pages, per kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnitTotals {
    /// Examined.
    pub examined: u64,
    /// Sound.
    pub ok: u64,
    /// Never used.
    pub empty: u64,
    /// Damaged.
    pub corrupt: u64,
    /// Not decidable.
    pub unverifiable: u64,
}

impl UnitTotals {
    /// Adds the counts of a file.
    pub(crate) fn add(&mut self, counts: &Counts) {
        self.examined += counts.pages;
        self.ok += counts.ok;
        self.empty += counts.empty;
        self.corrupt += counts.corrupt;
        self.unverifiable += counts.unverifiable;
    }
}

/// The result for one file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file, as in findings.
    pub path: String,
    /// What the file is.
    pub kind: FileKind,
    /// The vendor: `MySQL`, `MariaDB`; `None` if the file was not recognised.
    pub family: Option<&'static str>,
    /// Tablespace id.
    pub space_id: Option<u32>,
    /// Page size in the file, bytes; `None` if the file was not recognised.
    pub page_size: Option<u32>,
    /// Checksum algorithms that its pages matched, most frequent first, joined by `+`; `None` if no page matched.
    pub algorithm: Option<String>,
    /// Why the file could not be read or recognised.
    pub error: Option<String>,
    /// The archive that the file is a member of.
    pub archive: Option<String>,
    /// The unit of the counts.
    pub unit: Unit,
    /// Pages, or whatever `unit` is, by verdict.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A skipped file.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedFile {
    /// The file.
    pub path: String,
    /// Why.
    pub why: String,
}

/// Sums over the run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Files examined.
    pub files: u64,
    /// Pages by verdict.
    #[serde(flatten)]
    pub counts: Counts,
    /// Log blocks of redo logs.
    pub log_blocks: UnitTotals,
    /// Mini-transactions of redo logs.
    pub mini_transactions: UnitTotals,
    /// Slots of doublewrite files.
    pub slots: UnitTotals,
    /// Events of binary and relay logs.
    pub events: UnitTotals,
    /// Files that are not InnoDB tablespaces.
    pub skipped_files: u64,
    /// Files that could not be read or recognised.
    pub failed_files: u64,
    /// Files that a stopped check did not reach.
    pub unread_files: u64,
    /// Findings, including those beyond `--max-findings`.
    pub findings: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that could not be decided.
    pub undecided: u64,
    /// Wall time, seconds.
    pub seconds: f64,
}

/// The whole report of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The check was stopped early.
    pub incomplete: bool,
    /// Which part of the files was checked, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
    /// Pages older than this were not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_lsn: Option<u64>,
    /// Sums.
    pub totals: Totals,
    /// Every file examined, in inventory order.
    pub files: Vec<FileReport>,
    /// The findings in the order of files and pages, at most `--max-findings`.
    pub findings: Vec<Finding>,
    /// What is damaged, by table and index.
    pub hurt: Vec<Hurt>,
    /// The verdict on every table, if requested.
    #[serde(rename = "table_verdicts", skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<TableVerdict>>,
    /// Files skipped.
    pub skipped: Vec<SkippedFile>,
    /// Pending crash recovery, by datadir; a running server always has some.
    pub pending: Vec<Pending>,
    /// The cost of the run; it varies, so it is not part of the document.
    #[serde(skip)]
    pub effort: Effort,
}

/// A part of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartOf {
    /// Its number, from 1.
    pub number: u32,
    /// The number of parts.
    pub of: u32,
}

/// The cost of reading, for the summary and `--verbose`, never for the verdict.
#[derive(Clone, Debug, Default)]
pub struct Effort {
    /// Wall time.
    pub elapsed: Duration,
    /// Worker time spent waiting for the device, 0 to 1.
    pub wait_share: f64,
    /// Workers that ran.
    pub workers: usize,
    /// Upper bound of the buffers' memory, bytes.
    pub buffer_bytes: u64,
    /// Bytes read from the page cache.
    pub bytes_cached: u64,
    /// Bytes read around the page cache (`O_DIRECT`).
    pub bytes_direct: u64,
    /// Read requests.
    pub requests: u64,
    /// The most requests one worker had in flight.
    pub in_flight_max: u64,
    /// Name of the I/O engine.
    pub engine: &'static str,
    /// Features the engine had to do without, as sentences.
    pub notes: Vec<String>,
}

impl Totals {
    /// Adds a row. A member's bytes were counted with its archive.
    pub(crate) fn add(&mut self, file: &FileReport) {
        self.files += 1;
        self.failed_files += u64::from(file.error.is_some());
        let bytes = if file.archive.is_some() { 0 } else { file.counts.bytes };
        match file.unit {
            Unit::Pages => return self.counts.add(&Counts { bytes, ..file.counts }),
            Unit::LogBlocks => self.log_blocks.add(&file.counts),
            Unit::MiniTransactions => self.mini_transactions.add(&file.counts),
            Unit::Slots => self.slots.add(&file.counts),
            Unit::Events => self.events.add(&file.counts),
            Unit::Members => {}
        }
        self.counts.bytes += bytes;
    }
}

impl Totals {
    /// Whether nothing at all was checked against a checksum or a rule: then nothing is known to be well.
    #[must_use]
    pub fn nothing_verified(&self) -> bool {
        let units = [&self.log_blocks, &self.mini_transactions, &self.slots, &self.events];
        self.counts.ok + self.counts.corrupt + units.iter().map(|units| units.examined).sum::<u64>() == 0
    }
}

impl Report {
    /// 0 all well, 1 damage found, 2 could not do all the work; damage takes precedence.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let is_open = self.totals.undecided > 0 || self.totals.failed_files > 0;
        Outcome::of(self.totals.damage > 0, is_open).exit_status()
    }
}

/// Pages per checksum algorithm of one file, by name. A list: nearly every file has one algorithm, and a node of a tree has room for eleven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlgorithmTally(Vec<(&'static str, u64)>);

impl AlgorithmTally {
    /// Adds `pages` to the count of `name`.
    pub fn add(&mut self, name: &'static str, pages: u64) {
        match self.0.binary_search_by_key(&name, |(name, _)| name) {
            Ok(at) => self.0.iter_mut().skip(at).take(1).for_each(|(_, count)| *count += pages),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name, pages));
            }
        }
    }

    /// Adds another tally to this one.
    pub fn merge(&mut self, other: &Self) {
        for (name, pages) in &other.0 {
            self.add(name, *pages);
        }
    }

    /// `crc32`, or `crc32+innodb` with the most frequent first.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let names: Vec<&str> = rows.into_iter().map(|(name, _)| *name).collect();
        (!names.is_empty()).then(|| names.join("+"))
    }
}
