//! What belongs to datadirs as a whole: tables without a file and files without a table, files that could not be read, logs that wait for crash
//! recovery.

use std::path::{Path, PathBuf};

use super::report::TableFile;
use super::settling::{Settling, TreeLabel, in_words, newest_of};
use super::walked::Walked;
use crate::check::OPEN;
use crate::definitions::known::Known;
use crate::report::shown;
use crate::report::table_finding::TableFinding;
use crate::tree::TreeFinding;
use crate::tree::walk::Depth;
use crate::verdict;
use datadir::catalog::{Catalog, CatalogFinding, Held};
use datadir::file_kind::FileKind;
use datadir::finding_code::FindingCode;
use datadir::inventory::{Inventory, Passed};
use datadir::name::table_of_path;
use datadir::redo_log::Pending;
use datadir::severity::Severity;

impl Settling<'_> {
    /// Adds what is said once, after all tablespaces.
    pub fn datadirs_as_a_whole(&mut self, inventory: &Inventory, catalogs: &[Catalog]) {
        let held = std::mem::take(&mut self.held);
        for catalog in catalogs {
            let live = self.options.live;
            let found = catalog.findings(&held, &mut self.redo, live);
            // A running server has newer pages than the disk, in any of its files.
            let later = (!live).then(|| verdict::later_tables(catalog, &held, &found, &mut self.redo)).flatten();
            let counters = (!live).then(|| verdict::older_counters(catalog, &held, &mut self.redo)).flatten();
            for found in found.into_iter().chain(later).chain(counters) {
                self.of_datadir(found);
            }
        }
        let vanished = inventory.vanished.iter().filter(|_| !self.options.live);
        for Passed { path, why } in inventory.failed.iter().chain(vanished) {
            self.failed(shown(path), why);
        }
        if !self.options.live {
            self.running();
            self.pending();
        }
        self.nothing(&inventory.asked);
    }

    /// Says first that a server has the files open, if the check is not `--live`: it may explain the findings that follow.
    fn running(&mut self) {
        for path in std::mem::take(&mut self.servers) {
            self.count(1, Severity::Notice);
            self.path = shown(&path);
            let told = TreeFinding::told(FindingCode::SERVER_RUNNING, OPEN.to_owned());
            self.report.findings.insert(0, in_words(&told, &self.path, TreeLabel::default()).into_note());
        }
    }

    /// Adds a file that could not be read.
    pub fn failed(&mut self, path: String, why: &str) {
        self.report.totals.files += 1;
        self.report.totals.failed_files += 1;
        let table = table_of_path(Path::new(&path));
        let row = verdict::of_file(&path, FileKind::Tablespace, table.clone(), Severity::Undecided, 0);
        if let Some(tables) = &mut self.report.tables {
            tables.push(verdict::verdict_of(table.as_deref(), &path, std::slice::from_ref(&row)));
        }
        self.report.hurt.push(row);
        self.report.files.push(TableFile::unread(path, why.to_owned()));
    }

    /// Adds a finding about a datadir.
    fn of_datadir(&mut self, found: CatalogFinding) {
        let found = CatalogFinding { severity: found.severity.unless_unread(&found.path), ..found };
        let totals = &mut self.report.totals;
        totals.findings += 1;
        totals.damage += u64::from(found.severity == Severity::Damage);
        totals.undecided += u64::from(found.severity == Severity::Undecided);
        if self.report.findings.len() >= self.options.findings_max {
            return;
        }
        let path = shown(&found.path);
        self.report.hurt.extend(verdict::of_missing(&path, found.table.clone(), found.severity));
        self.report.findings.push(TableFinding {
            path,
            table: found.table,
            index: None,
            index_id: None,
            page: None,
            level: None,
            record: None,
            rule: found.reason,
            severity: found.severity,
            message: found.message,
            found: None,
            expected: None,
            is_loss: false,
        });
    }

    /// An empty mount point or a wrong path: nothing bad was found because nothing was there.
    fn nothing(&mut self, asked: &[PathBuf]) {
        let totals = &self.report.totals;
        if totals.files + totals.findings > 0 {
            return;
        }
        for path in asked {
            self.path = shown(path);
            let message = "nothing could be checked: there is no InnoDB tablespace here".to_owned();
            self.finding(&TreeFinding::told(FindingCode::NOTHING_VERIFIED, message), TreeLabel::default());
        }
    }

    /// The datadirs that still need crash recovery, which will change the row counts.
    fn pending(&mut self) {
        self.report.pending = self.redo.pending();
        if self.options.depth == Depth::Check {
            return;
        }
        for Pending { path, why } in self.report.pending.clone() {
            self.path = path;
            let message = format!("recovery is pending, and may change the counts: {why}");
            self.finding(&TreeFinding::told(FindingCode::RECOVERY_PENDING, message), TreeLabel::default());
        }
    }
}

/// What the comparison with the dictionary needs of a tablespace.
pub(super) fn held(known: &Known, walked: &[Walked]) -> Held {
    let roots = known.roots.iter().map(|root| (root.page_no, Some(root.index_id))).collect();
    Held { space: known.space.clone(), roots, newest: newest_of(known, walked) }
}
