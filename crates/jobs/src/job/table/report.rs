//! `TableReport`: what was walked, what was found, what was left out. The field names are the JSON document of `docs/table.md`.

use std::time::Duration;

use serde::Serialize;

use crate::out::report::{Severity, SkippedFile};

/// One thing that is wrong, at one place of one index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableFinding {
    /// The file as given, or below a directory as given.
    pub path: String,
    /// `schema.table`, where a definition was found.
    pub table: Option<String>,
    /// Name of the index, where a definition was found.
    pub index: Option<String>,
    /// Number of the index; none for findings about the tablespace as such.
    pub index_id: Option<u64>,
    /// Page number within the tablespace.
    pub page: Option<u32>,
    /// Level of the page in its tree, 0 for leaves.
    pub level: Option<u16>,
    /// Where the record's data begin, bytes from the start of the page.
    pub record: Option<u16>,
    /// Stable code.
    pub rule: &'static str,
    /// Damage or undecided.
    pub severity: Severity,
    /// A sentence for people.
    pub message: String,
    /// What is there, where the finding is about one number.
    pub found: Option<u64>,
    /// What should be there.
    pub expected: Option<u64>,
}

/// One index.
#[derive(Clone, Debug, Serialize)]
pub struct IndexReport {
    /// `schema.table`, where a definition was found.
    pub table: Option<String>,
    /// Its name, where a definition was found.
    pub name: Option<String>,
    /// `clustered`, `secondary`, `spatial`, `sdi`, or `index` where no definition tells.
    pub kind: &'static str,
    /// Its number.
    pub id: u64,
    /// Its root page.
    pub root: u32,
    /// Levels, the leaves among them.
    pub levels: u32,
    /// Pages.
    pub pages: u64,
    /// Entries that are not deleted.
    pub rows: u64,
    /// Entries that are marked as deleted and wait for purge.
    pub deleted: u64,
    /// Off-page values that were followed to their end.
    pub off_page: u64,
    /// Whether every page was seen; if not, the counts are too low.
    pub complete: bool,
    /// Entries that were found to be those of a row; none where entries were not held against rows.
    pub matched: Option<u64>,
    /// Findings.
    pub findings: u64,
    /// What was not checked, as clauses.
    pub left_out: Vec<String>,
    /// Wall time of this tree, seconds.
    pub seconds: f64,
}

/// One tablespace.
#[derive(Clone, Debug, Serialize)]
pub struct TableFile {
    /// Its first file.
    pub path: String,
    /// Who wrote it: `MySQL`, `MariaDB`.
    pub family: Option<&'static str>,
    /// Tablespace id.
    pub space_id: Option<u32>,
    /// Bytes of a page in the file.
    pub page_size: Option<u32>,
    /// Why the file could not be read or recognised.
    pub error: Option<String>,
    /// Its indexes, by their root pages.
    pub indexes: Vec<IndexReport>,
    /// What was not checked about the tablespace as a whole, as clauses.
    pub left_out: Vec<String>,
}

/// Sums over the run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableTotals {
    /// Tablespaces.
    pub files: u64,
    /// Tablespaces that could not be read or recognised.
    pub failed_files: u64,
    /// Files that are no tablespaces with tables.
    pub skipped_files: u64,
    /// Trees.
    pub indexes: u64,
    /// Pages of trees.
    pub pages: u64,
    /// Entries of leaves that are not deleted.
    pub entries: u64,
    /// Findings, also those beyond the limit of the list.
    pub findings: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that could not be decided.
    pub undecided: u64,
    /// Wall time, seconds.
    pub seconds: f64,
}

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// Sums.
    pub totals: TableTotals,
    /// Every tablespace, in the order of the walk.
    pub files: Vec<TableFile>,
    /// What is wrong, by file and index.
    pub findings: Vec<TableFinding>,
    /// Files left alone.
    pub skipped: Vec<SkippedFile>,
    /// How the run went; differs from run to run, so it is not part of the document.
    #[serde(skip)]
    pub effort: Effort,
}

/// How the bytes came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Wall time.
    pub elapsed: Duration,
    /// Workers that ran.
    pub workers: usize,
    /// Read requests.
    pub requests: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The most requests that one worker had in flight.
    pub in_flight_max: u64,
}

impl TableReport {
    /// 0 all well, 1 damage found, 2 could not do all the work; damage wins.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        if self.totals.damage > 0 {
            1
        } else if self.totals.undecided > 0 || self.totals.failed_files > 0 {
            2
        } else {
            0
        }
    }
}
