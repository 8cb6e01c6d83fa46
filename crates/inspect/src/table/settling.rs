//! The report on tables while it is made: how severe a finding is, and its row in the report.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use format::Lsn;

use super::live::Watched;
use super::options::TableOptions;
use super::report::TableReport;
use super::walked::Walked;
use crate::check::log_ends::LogEnds;
use crate::definitions::known::Known;
use crate::report::table_finding::TableFinding;
use crate::tree::{Rule, TreeFinding};
use datadir::catalog::{DroppedTree, Held};
use datadir::finding_code::FindingCode;
use datadir::redo_log::RedoLogs;
use datadir::severity::Severity;
use datadir::tablespace::transactions::OpenTransactions;

/// Finding codes that mean nothing could be decided.
pub(super) const UNDECIDED: [FindingCode; 4] =
    [FindingCode::ENCRYPTED_NO_KEY, FindingCode::NO_TREE, FindingCode::RECOVERY_PENDING, FindingCode::NOTHING_VERIFIED];

/// Rules that a transaction still to be rolled back may break.
const OF_ROWS: [Rule; 5] =
    [Rule::RowCount, Rule::EntryWithoutRow, Rule::RowWithoutEntry, Rule::EntryDiffers, Rule::EntriesUnmatched];

/// Why a finding beside a server may be wrong.
const IN_MEMORY: &str = "the server has changed this tablespace since its newest checkpoint and may have newer pages in memory; \
    check again when it has written them, as it does when it rests";
const IN_TRANSACTION: &str = "transactions are open that may be changing it";

/// The report so far, and what it takes to weigh a finding.
pub(super) struct Settling<'s> {
    pub report: TableReport,
    pub redo: RedoLogs,
    pub options: &'s TableOptions,
    pub path: String,
    pub recovery: Option<String>,
    /// Pages of the tablespace that recovery leaves as wrong as they are.
    pub beyond_recovery: BTreeSet<u32>,
    /// Some bytes of the tablespace could not be read.
    pub is_unread: bool,
    /// The directories that may be the tablespace's datadir.
    pub datadirs: Vec<PathBuf>,
    /// The ends of logs that have work to do.
    pub ends: LogEnds<'s>,
    pub open: OpenTransactions<'s>,
    /// Files that no table uses, and whose content no server minds.
    pub orphans: HashSet<PathBuf>,
    /// The trees of dropped indexes, by datadir.
    pub dropped: Vec<(PathBuf, HashSet<DroppedTree>)>,
    /// What the comparison with the dictionary needs of each tablespace.
    pub held: Vec<Held>,
    /// What reading the tablespace again beside its server has shown.
    pub watched: Option<Watched>,
    /// System tablespaces that a server has open, without `--live`.
    pub servers: BTreeSet<PathBuf>,
}

impl Settling<'_> {
    /// How severe a rule is that a page breaks here, and why it may not be damage.
    ///
    /// If transactions wait to be rolled back, so may a tree as a whole (`may_go`), whatever it contains.
    pub fn severity(
        &mut self,
        (rule, page): (Option<FindingCode>, Option<u32>),
        may_go: bool,
    ) -> (Severity, Option<String>) {
        // What else was found may only follow from that.
        if self.is_unread || rule.is_some_and(|rule| UNDECIDED.contains(&rule)) {
            return (Severity::Undecided, None);
        }
        if self.watched.as_ref().is_some_and(|seen| !rule.is_some_and(|rule| seen.decides(rule, page))) {
            return (Severity::Undecided, Some(IN_MEMORY.to_owned()));
        }
        let is_lost = page.is_some_and(|page| self.beyond_recovery.contains(&page));
        if let Some(log) = self.recovery.as_ref().filter(|_| !is_lost) {
            return (Severity::Undecided, Some(format!("{log}: crash recovery may yet repair it")));
        }
        let may_be_open = may_go || OF_ROWS.iter().any(|of_rows| Some(of_rows.code()) == rule);
        let open = if may_be_open { self.open.waiting_in(&self.datadirs) } else { None };
        match open {
            Some(_) if self.options.live => (Severity::Undecided, Some(IN_TRANSACTION.to_owned())),
            Some(why) => (Severity::Undecided, Some(why.to_owned())),
            None => (Severity::Damage, None),
        }
    }

    /// The severity of the worst of some rules that pages break.
    pub fn worst(&mut self, mut rules: impl Iterator<Item = (FindingCode, Option<u32>)>, may_go: bool) -> Severity {
        let is_damage = rules.any(|(rule, page)| self.severity((Some(rule), page), may_go).0 == Severity::Damage);
        if is_damage { Severity::Damage } else { Severity::Undecided }
    }

    pub fn count(&mut self, findings: u64, severity: Severity) {
        let totals = &mut self.report.totals;
        totals.findings += findings;
        match severity {
            Severity::Damage => totals.damage += findings,
            Severity::Undecided => totals.undecided += findings,
            Severity::Notice => {}
        }
    }

    pub fn finding(&mut self, finding: &TreeFinding, label: TreeLabel<'_>) {
        let weight = self.severity((Some(finding.rule), finding.page_no), label.may_go);
        self.weighed(finding, label, weight);
    }

    pub fn weighed(
        &mut self,
        finding: &TreeFinding,
        label: TreeLabel<'_>,
        (severity, why): (Severity, Option<String>),
    ) {
        self.count(1, severity);
        if self.report.findings.len() >= self.options.findings_max {
            return;
        }
        let why = why.map(|why| format!(" ({why})"));
        let told = in_words(finding, &self.path, label);
        let message = format!("{}{}", told.message, why.unwrap_or_default());
        self.report.findings.push(TableFinding { severity, message, ..told });
    }
}

/// The tree that a finding is about, if any.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TreeLabel<'n> {
    pub table: Option<&'n str>,
    pub index: Option<&'n str>,
    pub index_id: Option<u64>,
    /// See [`Tree::may_go`].
    pub may_go: bool,
}

/// The finding as damage; whether recovery may still repair it is decided elsewhere.
pub(super) fn in_words(finding: &TreeFinding, path: &str, label: TreeLabel<'_>) -> TableFinding {
    TableFinding {
        path: path.to_owned(),
        table: label.table.map(str::to_owned),
        index: label.index.map(str::to_owned),
        index_id: label.index_id,
        page: finding.page_no,
        level: finding.level,
        record: finding.record,
        rule: finding.rule,
        severity: Severity::Damage,
        message: finding.message.clone(),
        found: finding.found,
        expected: finding.expected,
        is_loss: finding.is_loss(),
    }
}

/// The highest LSN of the tablespace's pages read so far.
pub(super) fn newest_of(known: &Known, walked: &[Walked]) -> Lsn {
    walked.iter().map(|walked| walked.newest).max().unwrap_or_default().max(known.newest)
}
