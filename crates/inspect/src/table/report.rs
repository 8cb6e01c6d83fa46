//! `TableReport`: what was walked, what was found, what was left out. The field names are the JSON document of `docs/table.md`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use datadir::Outcome;
use serde::Serialize;

use crate::report::document::{Report, SkippedFile};
use crate::report::hurt::{Hurt, TableVerdict};
use crate::report::table_finding::TableFinding;
use crate::tree::Rule;
use crate::verdict;
use datadir::finding_code::FindingCode;
use datadir::redo_log::Pending;
use datadir::severity::Severity;

/// Pages of one finding looked up one by one, at most.
const TOLD_MAX: u64 = 1 << 20;

/// What a tree holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeKind {
    /// The rows.
    Clustered,
    /// Entries that point to rows.
    Secondary,
    /// Rectangles.
    Spatial,
    /// MySQL's SDI.
    Sdi,
    /// No definition was found.
    #[serde(rename = "index")]
    Unknown,
}

/// One index.
#[derive(Clone, Debug, Serialize)]
pub struct IndexReport {
    /// `schema.table`, if a definition was found.
    pub table: Option<String>,
    /// Its name, if a definition was found.
    pub name: Option<String>,
    /// What it holds.
    pub kind: TreeKind,
    /// Its id.
    pub id: u64,
    /// Its root page.
    pub root: u32,
    /// Levels, including the leaves.
    pub levels: u32,
    /// Pages.
    pub pages: u64,
    /// Entries not delete-marked.
    pub rows: u64,
    /// Entries delete-marked and waiting for purge.
    pub deleted: u64,
    /// Off-page values followed to their end.
    pub off_page: u64,
    /// Whether the counts are exact: every page was visited and nothing is wrong with the tree.
    pub complete: bool,
    /// Entries matched with a row; `None` if they were not compared with rows.
    pub matched: Option<u64>,
    /// Findings.
    pub findings: u64,
    /// Checks that were not done, as clauses.
    pub left_out: Vec<String>,
    /// Wall time of this tree, seconds.
    pub seconds: f64,
}

/// One tablespace.
#[derive(Clone, Debug, Serialize)]
pub struct TableFile {
    /// The path of its first file.
    pub path: String,
    /// The vendor: `MySQL`, `MariaDB`.
    pub family: Option<&'static str>,
    /// Tablespace id.
    pub space_id: Option<u32>,
    /// Page size in the file, bytes.
    pub page_size: Option<u32>,
    /// Why the file could not be read or recognised.
    pub error: Option<String>,
    /// Its indexes, by root page.
    pub indexes: Vec<IndexReport>,
    /// Checks of the tablespace itself that were not done, as clauses.
    pub left_out: Vec<String>,
}

impl TableFile {
    /// A file that could not be read.
    pub(super) fn unread(path: String, why: String) -> Self {
        let (indexes, left_out) = (Vec::new(), Vec::new());
        Self { path, family: None, space_id: None, page_size: None, error: Some(why), indexes, left_out }
    }
}

/// Sums over the run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableTotals {
    /// Tablespaces.
    pub files: u64,
    /// Tablespaces that could not be read or recognised.
    pub failed_files: u64,
    /// Files that are not tablespaces with tables.
    pub skipped_files: u64,
    /// Trees.
    pub indexes: u64,
    /// Pages of trees.
    pub pages: u64,
    /// Leaf entries not delete-marked.
    pub entries: u64,
    /// Findings, including those beyond the limit of the list.
    pub findings: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that could not be decided.
    pub undecided: u64,
    /// Wall time, seconds.
    pub seconds: f64,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct TableReport {
    /// The check was stopped early.
    pub incomplete: bool,
    /// Sums.
    pub totals: TableTotals,
    /// Every tablespace, in inventory order.
    pub files: Vec<TableFile>,
    /// The findings, by file and index.
    pub findings: Vec<TableFinding>,
    /// What is damaged, by table and index.
    pub hurt: Vec<Hurt>,
    /// The verdict on every table, if requested.
    #[serde(rename = "table_verdicts", skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<TableVerdict>>,
    /// Files skipped.
    pub skipped: Vec<SkippedFile>,
    /// Pending crash recovery, by datadir.
    pub pending: Vec<Pending>,
    /// The cost of the run; it varies, so it is not part of the document.
    #[serde(skip)]
    pub effort: Effort,
}

/// The cost of reading.
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
    /// The most requests one worker had in flight.
    pub in_flight_max: u64,
}

impl TableReport {
    /// Drops what the report on pages says already, and merges the two lists of damage, so that nothing is reported twice.
    pub fn told_by(&mut self, pages: &mut Report) {
        let told: BTreeSet<(&str, u32)> = pages
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Notice)
            .flat_map(|finding| {
                let first = finding.page.into_iter();
                first.flat_map(|page| {
                    let last = u64::from(page) + finding.pages.clamp(1, TOLD_MAX) - 1;
                    (page..=u32::try_from(last).unwrap_or(u32::MAX)).map(|page| (finding.path.as_str(), page))
                })
            })
            .collect();
        let cut: BTreeSet<&str> =
            pages.findings.iter().filter(|f| f.reason == FindingCode::TRUNCATED).map(|f| f.path.as_str()).collect();
        // Findings about a datadir that both reports have.
        let whole = pages.findings.iter().filter(|finding| finding.page.is_none());
        let whole: BTreeSet<(&str, FindingCode)> =
            whole.map(|finding| (finding.path.as_str(), finding.reason)).collect();
        let is_told = |finding: &TableFinding| {
            if finding.page.is_none() && whole.contains(&(finding.path.as_str(), finding.rule)) {
                return true;
            }
            let page = if finding.rule == Rule::MissingPage.code() {
                finding.found.and_then(|page| u32::try_from(page).ok())
            } else {
                finding.page.filter(|_| finding.is_loss)
            };
            let is_cut = finding.rule == Rule::Truncated.code() && cut.contains(finding.path.as_str());
            is_cut || page.is_some_and(|page| told.contains(&(finding.path.as_str(), page)))
        };
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.findings).into_iter().partition(is_told);
        self.findings = kept;
        self.totals.findings -= gone.len() as u64;
        for finding in gone {
            match finding.severity {
                Severity::Damage => self.totals.damage -= 1,
                Severity::Undecided => self.totals.undecided -= 1,
                Severity::Notice => {}
            }
        }
        let mut rows = std::mem::take(&mut self.hurt);
        let mut places: HashMap<_, usize> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            places.entry((row.path.clone(), row.index_id)).or_insert(place);
        }
        for other in std::mem::take(&mut pages.hurt) {
            let place = *places.entry((other.path.clone(), other.index_id)).or_insert(rows.len());
            match rows.get_mut(place) {
                Some(row) => row.pages = row.pages.max(other.pages),
                None => rows.push(other),
            }
        }
        rows.sort_by(|a, b| (&a.path, a.index_id).cmp(&(&b.path, b.index_id)));
        verdict::repaired_first(&mut rows);
        pages.hurt = rows;
        pages.tables = self.tables.take().or(pages.tables.take());
    }

    /// 0 all well, 1 damage found, 2 could not do all the work; damage takes precedence.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let is_open = self.totals.undecided > 0 || self.totals.failed_files > 0;
        Outcome::of(self.totals.damage > 0, is_open).exit_status()
    }
}
