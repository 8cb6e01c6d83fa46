//! From trees to tables: rows against entries, names for findings, and whether the redo log may still mend any of it.

use std::cell::Cell;
use std::collections::BTreeMap;

use format::page::fil::PageType;
use format::page::index::IndexPage;
use format::schema::IndexKind;
use format::{Family, PageNo};

use super::definitions::{Definitions, Named};
use super::report::{Effort, IndexReport, TableFile, TableFinding, TableReport, TableTotals};
use super::{Known, Subject, TableOptions, Walked};
use crate::out::report::{Severity, SkippedFile};
use crate::source::datadir::{Inventory, Passed};
use crate::source::redo_log::RedoLogs;
use crate::tree::walk::Depth;
use crate::tree::{Opener, Root, Rule, TreeFinding};

/// A tree with its name and what became of it.
struct Tree<'t> {
    root: &'t Root,
    named: Option<Named>,
    walked: &'t Walked,
    is_rtree: bool,
    /// Whether its entries are not as many as the table's rows.
    is_miscounted: Cell<bool>,
}

impl Tree<'_> {
    fn rows(&self) -> u64 {
        let counts = &self.walked.report.counts;
        counts.records - counts.deleted
    }

    fn kind(&self) -> &'static str {
        match self.named.as_ref().and_then(|named| named.index.as_ref()) {
            Some(index) if index.name == "SDI" && self.named.as_ref().is_some_and(|named| named.table.is_none()) => {
                "sdi"
            }
            Some(index) => match index.kind {
                IndexKind::Clustered => "clustered",
                IndexKind::Secondary => "secondary",
                IndexKind::Spatial => "spatial",
            },
            None if self.is_rtree => "spatial",
            None => "index",
        }
    }
}

struct Settling<'s> {
    report: TableReport,
    redo: RedoLogs,
    options: &'s TableOptions,
    path: String,
    recovery: Option<String>,
}

pub(super) fn settle(
    subjects: &[Subject],
    definitions: &Definitions,
    walked: &[Vec<Walked>],
    inventory: &Inventory,
    options: &TableOptions,
) -> TableReport {
    let report = TableReport {
        totals: TableTotals::default(),
        files: Vec::new(),
        findings: Vec::new(),
        skipped: inventory.skipped.iter().map(skipped).collect(),
        effort: Effort::default(),
    };
    let (redo, path) = (RedoLogs::new(false), String::new());
    let mut settling = Settling { report, redo, options, path, recovery: None };
    for (subject, walked) in subjects.iter().zip(walked) {
        settling.subject(subject, walked, definitions);
    }
    for Passed { path, why } in inventory.failed.iter().chain(&inventory.vanished) {
        settling.failed(path.display().to_string(), why);
    }
    settling.report.totals.skipped_files = settling.report.skipped.len() as u64;
    settling.report
}

fn skipped(passed: &Passed) -> SkippedFile {
    SkippedFile { path: passed.path.display().to_string(), why: passed.why.clone() }
}

impl Settling<'_> {
    fn failed(&mut self, path: String, why: &str) {
        self.report.totals.files += 1;
        self.report.totals.failed_files += 1;
        let error = Some(why.to_owned());
        let (indexes, left_out) = (Vec::new(), Vec::new());
        let file = TableFile { path, family: None, space_id: None, page_size: None, error, indexes, left_out };
        self.report.files.push(file);
    }

    fn subject(&mut self, subject: &Subject, walked: &[Walked], definitions: &Definitions) {
        self.path = subject.path.display().to_string();
        let known = match &subject.opened {
            Ok(known) => known,
            Err(why) => return self.failed(self.path.clone(), why),
        };
        self.recovery = self.redo.pending_for(&subject.path).map(str::to_owned);
        let mut opener = Opener::new();
        let trees: Vec<Tree<'_>> = known
            .roots
            .iter()
            .zip(walked)
            .map(|(root, walked)| Tree {
                root,
                named: definitions.named(&known.space, root, &known.map, &mut opener),
                walked,
                is_rtree: IndexPage::parse(&root.image, &known.space.format)
                    .is_ok_and(|page| page.page_type() == PageType::RTREE),
                is_miscounted: Cell::new(false),
            })
            .collect();
        if self.options.depth == Depth::Check {
            for finding in &known.findings {
                let named = finding.page_no.and_then(|page_no| definitions.at_root(&known.space, page_no));
                self.finding(finding, named.map(|(table, name)| (Some(table), Some(name), None)).unwrap_or_default());
            }
        }
        for tree in &trees {
            self.tree(tree);
        }
        let left_out = if self.options.depth == Depth::Check { self.rows(known, &trees) } else { Vec::new() };
        self.file(known, &trees, left_out);
    }

    fn tree(&mut self, tree: &Tree<'_>) {
        let report = &tree.walked.report;
        for finding in &report.findings {
            self.of_tree(finding, tree);
        }
        let hidden = report.findings_total - report.findings.len() as u64;
        self.count(hidden);
        if report.counts.unverifiable > 0 {
            let finding = TreeFinding {
                page_no: None,
                record: None,
                level: None,
                rule: "encrypted_no_key",
                message: format!("{} pages are encrypted, and there is no key", report.counts.unverifiable),
                found: None,
                expected: None,
            };
            self.of_tree(&finding, tree);
        }
        self.report.totals.indexes += 1;
        self.report.totals.pages += report.counts.pages;
        self.report.totals.entries += tree.rows();
    }

    fn of_tree(&mut self, finding: &TreeFinding, tree: &Tree<'_>) {
        let table = tree.named.as_ref().and_then(|named| named.table.as_deref());
        let name = tree.named.as_ref().and_then(|named| named.name.as_deref());
        self.finding(finding, (table, name, Some(tree.root.index_id)));
    }

    fn severity(&self) -> Severity {
        if self.recovery.is_some() { Severity::Undecided } else { Severity::Damage }
    }

    fn count(&mut self, findings: u64) {
        let totals = &mut self.report.totals;
        totals.findings += findings;
        if self.recovery.is_some() {
            totals.undecided += findings;
        } else {
            totals.damage += findings;
        }
    }

    fn finding(&mut self, finding: &TreeFinding, (table, index, index_id): (Option<&str>, Option<&str>, Option<u64>)) {
        let mut severity = self.severity();
        if finding.rule == "encrypted_no_key" {
            severity = Severity::Undecided;
            self.report.totals.findings += 1;
            self.report.totals.undecided += 1;
        } else {
            self.count(1);
        }
        if self.report.findings.len() >= self.options.findings_max {
            return;
        }
        let recovery = self.recovery.as_ref().map(|log| format!(" ({log}: crash recovery may yet mend it)"));
        self.report.findings.push(TableFinding {
            path: self.path.clone(),
            table: table.map(str::to_owned),
            index: index.map(str::to_owned),
            index_id,
            page: finding.page_no,
            level: finding.level,
            record: finding.record,
            rule: finding.rule,
            severity,
            message: format!("{}{}", finding.message, recovery.unwrap_or_default()),
            found: finding.found,
            expected: finding.expected,
        });
    }

    /// Every row has one entry in each index, with exceptions that a definition tells. Returns what could not be compared.
    fn rows(&mut self, known: &Known, trees: &[Tree<'_>]) -> Vec<String> {
        let mut tables: BTreeMap<&str, Vec<&Tree<'_>>> = BTreeMap::new();
        let mut unnamed = Vec::new();
        for tree in trees.iter().filter(|tree| tree.kind() != "sdi") {
            match tree.named.as_ref().and_then(|named| named.table.as_deref()) {
                Some(table) => tables.entry(table).or_default().push(tree),
                None => unnamed.push(tree),
            }
        }
        // Without definitions, the trees of a tablespace of MariaDB's are those of one table.
        let one_table = known.space.format.family() == Family::MariaDb && known.space.format.space().0 != 0;
        if one_table && tables.is_empty() {
            tables.insert("", std::mem::take(&mut unnamed));
        }
        let mut left_out = Vec::new();
        if !unnamed.is_empty() {
            left_out.push("rows against entries of tables without a definition".to_owned());
        }
        if known.map.has_buffered_changes && tables.values().any(|trees| trees.len() > 1) {
            left_out
                .push("rows against entries: changes wait in the change buffer of the system tablespace".to_owned());
            return left_out;
        }
        for trees in tables.into_values().filter(|trees| trees.len() > 1) {
            if trees.iter().any(|tree| !tree.walked.report.is_complete) {
                left_out.push("rows against entries: not every page could be read".to_owned());
                continue;
            }
            let clustered = trees.iter().find(|tree| tree.kind() == "clustered").or(trees.first());
            let Some(rows) = clustered.map(|tree| tree.rows()) else { continue };
            for tree in &trees {
                let several =
                    tree.named.as_ref().and_then(|named| named.index.as_ref()).is_some_and(|i| i.is_multi_valued);
                if tree.rows() != rows && !several {
                    let finding = TreeFinding::new(Rule::RowCount, tree.root.page_no, tree.rows(), rows);
                    self.of_tree(&TreeFinding { page_no: None, ..finding }, tree);
                    tree.is_miscounted.set(true);
                }
            }
        }
        left_out
    }

    fn file(&mut self, known: &Known, trees: &[Tree<'_>], left_out: Vec<String>) {
        let format = &known.space.format;
        self.report.totals.files += 1;
        let indexes = trees.iter().map(index_row).collect();
        self.report.files.push(TableFile {
            path: self.path.clone(),
            family: Some(match format.family() {
                Family::MySql => "MySQL",
                Family::MariaDb => "MariaDB",
            }),
            space_id: Some(format.space().0),
            page_size: Some(format.physical().get()),
            error: None,
            indexes,
            left_out,
        });
    }
}

fn index_row(tree: &Tree<'_>) -> IndexReport {
    let report = &tree.walked.report;
    IndexReport {
        table: tree.named.as_ref().and_then(|named| named.table.clone()),
        name: tree.named.as_ref().and_then(|named| named.name.clone()),
        kind: tree.kind(),
        id: tree.root.index_id,
        root: PageNo(tree.root.page_no).0,
        levels: u32::from(tree.root.level) + 1,
        pages: report.counts.pages,
        rows: tree.rows(),
        deleted: report.counts.deleted,
        off_page: report.counts.off_page,
        complete: report.is_complete,
        matched: report.matched,
        findings: report.findings_total + u64::from(tree.is_miscounted.get()),
        left_out: report.left_out.iter().map(|clause| (*clause).to_owned()).collect(),
        seconds: tree.walked.elapsed.as_secs_f64(),
    }
}
