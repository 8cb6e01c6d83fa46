//! From trees to tables: compares rows with entries, names the findings, and asks whether the redo log may still repair any of it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use format::fil::PageType;
use format::keyring::KeyStore;
use format::schema::IndexKind;
use format::{Family, PageNo};

use super::KnownTree;
use super::live::Looked;
use super::mended::beyond_recovery;
use super::options::TableOptions;
use super::report::{Effort, IndexReport, TableFile, TableReport, TableTotals, TreeKind};
use super::settling::{Settling, TreeLabel, UNDECIDED, in_words, newest_of};
use super::walked::{Subject, Walked};
use super::whole_datadir::held;
use crate::check::examined::LogEnd;
use crate::check::log_ends::LogEnds;
use crate::definitions::known::Known;
use crate::definitions::{Definitions, Named};
use crate::report::document::SkippedFile;
use crate::report::hurt::{Action, Hurt};
use crate::report::shown;
use crate::report::table_finding::TableFinding;
use crate::report::watcher::{Found, Watcher};
use crate::tree::walk::Depth;
use crate::tree::{Root, Rule, TreeFinding, TreeReport};
use crate::verdict::{self, HurtTree, Mark};
use datadir::catalog::{Catalog, DroppedTree};
use datadir::finding_code::FindingCode;
use datadir::inventory::{Inventory, Passed};
use datadir::keys::NO_KEY;
use datadir::name::table_of_path;
use datadir::reading::is_unwritten;
use datadir::redo_log::{RedoLogs, datadirs_of};
use datadir::severity::Severity;
use datadir::tablespace::Opener;
use datadir::tablespace::transactions::OpenTransactions;

/// A tree with its name and the result of its walk.
struct Tree<'t> {
    root: &'t Root,
    named: Option<Named>,
    walked: &'t Walked,
    is_rtree: bool,
    /// Whether it has more or fewer entries than the table has rows.
    is_miscounted: Cell<bool>,
    /// Its index was dropped, and its root is sound: the server frees it when it runs.
    is_dropped: bool,
}

impl Tree<'_> {
    /// Whether a rollback may remove all that the tree contains: a tree missing from the dictionary may be an index that an interrupted
    /// ALTER was building, and an empty root may be that of a bulk insert, which fills all other pages first.
    fn may_go(&self) -> bool {
        self.named.is_none() || self.root.is_empty
    }

    fn rows(&self) -> u64 {
        let counts = &self.walked.report.counts;
        counts.records - counts.deleted
    }

    fn table(&self) -> Option<&str> {
        self.named.as_ref().and_then(|named| named.table.as_deref())
    }

    /// Whether it has too few entries, or too many.
    fn lacks(&self) -> bool {
        self.walked.report.lacks_entries || self.is_miscounted.get()
    }

    fn is_hurt(&self) -> bool {
        let report = &self.walked.report;
        if self.is_dropped {
            return false;
        }
        // A row without an entry is the index's fault, though the finding names the row.
        let is_entry_only = report.hurt.is_empty() && report.is_complete && self.kind() == TreeKind::Clustered;
        (report.findings_total > 0 && !is_entry_only) || report.counts.unverifiable > 0 || self.lacks()
    }

    /// Whether all that is wrong is that rows belong in another partition.
    fn is_misplaced(&self) -> bool {
        let mut findings = self.walked.report.findings.iter();
        !self.lacks() && findings.len() > 0 && findings.all(|finding| finding.rule == Rule::Misplaced.code())
    }

    fn kind(&self) -> TreeKind {
        match self.named.as_ref().and_then(|named| named.index.as_ref()) {
            Some(index) if index.name == "SDI" && self.named.as_ref().is_some_and(|named| named.table.is_none()) => {
                TreeKind::Sdi
            }
            Some(index) => match index.kind {
                IndexKind::Clustered => TreeKind::Clustered,
                IndexKind::Secondary => TreeKind::Secondary,
                IndexKind::Spatial => TreeKind::Spatial,
            },
            None if self.is_rtree => TreeKind::Spatial,
            None => TreeKind::Unknown,
        }
    }
}

/// Begins the report; batches of tablespaces follow.
pub(super) fn begin<'s>(
    inventory: &mut Inventory,
    catalogs: &[Catalog],
    (options, keys, servers): (&'s TableOptions, &'s KeyStore, BTreeSet<PathBuf>),
) -> Settling<'s> {
    let report = TableReport {
        totals: TableTotals::default(),
        files: Vec::new(),
        findings: Vec::new(),
        hurt: Vec::new(),
        tables: options.list_tables.then(Vec::new),
        incomplete: false,
        skipped: std::mem::take(&mut inventory.skipped).into_iter().map(skipped).collect(),
        pending: Vec::new(),
        effort: Effort::default(),
    };
    let (redo, path, datadirs) = (RedoLogs::new(options.live), String::new(), Vec::new());
    let (ends, open) = (LogEnds::new(keys), OpenTransactions::new(keys));
    let orphans = catalogs.iter().flat_map(Catalog::orphans).collect();
    let (recovery, is_unread, held) = (None, false, Vec::new());
    let dropped = catalogs.iter().filter_map(Catalog::dropped_trees);
    let dropped = dropped.map(|(root, trees)| (root.to_path_buf(), trees)).collect();
    let (watched, beyond_recovery) = (None, BTreeSet::new());
    let mut settling = Settling {
        report,
        redo,
        options,
        path,
        recovery,
        beyond_recovery,
        is_unread,
        datadirs,
        ends,
        open,
        orphans,
        dropped,
        held,
        watched,
        servers,
    };
    settling.redo.say_in_ddl(catalogs.iter().flat_map(Catalog::in_ddl));
    settling
}

fn skipped(passed: Passed) -> SkippedFile {
    SkippedFile { path: shown(&passed.path), why: passed.why }
}

/// Whether an index that the dictionary or the segments know may be missing among the roots.
fn hides_an_index(finding: &TreeFinding) -> bool {
    const HIDING: [Rule; 5] = [Rule::RootLost, Rule::NoRoot, Rule::Unreadable, Rule::NotInodes, Rule::SegmentMagic];
    HIDING.iter().any(|rule| rule.code() == finding.rule)
}

impl Settling<'_> {
    /// Adds tablespaces, some of them as they were when they were read `again`. Nothing else of them is needed later.
    pub fn batch(
        &mut self,
        subjects: &[Subject],
        walked: &[Vec<Walked>],
        definitions: &Definitions,
        mut again: BTreeMap<usize, Looked>,
    ) {
        for (at, (subject, walked)) in subjects.iter().zip(walked).enumerate() {
            let Some(look) = again.remove(&at) else {
                self.subject(subject, walked, definitions);
                self.held.extend(subject.opened.as_ref().ok().map(|known| held(known, walked)));
                continue;
            };
            // Transactions of now, not of the tablespace before.
            self.open = OpenTransactions::new(self.ends.keys());
            self.watched = Some(look.watched);
            self.subject(&look.subject, &look.walked, &look.definitions);
            self.held.extend(look.subject.opened.as_ref().ok().map(|known| held(known, &look.walked)));
            self.watched = None;
        }
    }

    /// Adds what is said once, after all tablespaces.
    pub fn end(mut self, inventory: &Inventory, catalogs: &[Catalog]) -> TableReport {
        self.datadirs_as_a_whole(inventory, catalogs);
        self.report.totals.skipped_files = self.report.skipped.len() as u64;
        self.report
    }

    fn subject(&mut self, subject: &Subject, walked: &[Walked], definitions: &Definitions) {
        self.path = shown(&subject.path);
        let known = match &subject.opened {
            Ok(known) => known,
            Err(why) if self.orphans.contains(&subject.path) && is_unwritten(&subject.path) => {
                let why = format!("{why}, and no table of the dictionary uses this file");
                return self.report.skipped.push(SkippedFile { path: self.path.clone(), why });
            }
            Err(_) if self.options.live && self.is_not_here_now(subject) => return,
            Err(why) => return self.failed(self.path.clone(), why),
        };
        let is_live = self.options.live;
        self.recovery = self.redo.pending_for(&subject.path).filter(|_| !is_live).map(str::to_owned);
        let recovered = self.redo.recovered_in(&subject.path).filter(|_| self.recovery.is_some());
        let lost = |dir: PathBuf| beyond_recovery(known, walked, &dir, self.ends.keys());
        self.beyond_recovery = recovered.map(lost).unwrap_or_default();
        self.is_unread = known.space.is_unread();
        self.datadirs = datadirs_of(&subject.path);
        let mut opener = Opener::new();
        let trees: Vec<Tree<'_>> = known
            .roots
            .iter()
            .zip(walked)
            .map(|(root, walked)| Tree {
                root,
                named: definitions.named(&known.space, root, &known.map, &mut opener),
                walked,
                is_rtree: root.page_type == PageType::RTREE,
                is_miscounted: Cell::new(false),
                is_dropped: self.is_dropped(subject, known, root) && !walked.report.hurt.contains_key(&root.page_no),
            })
            .collect();
        self.passing();
        self.of_space(known, definitions);
        let is_check = self.options.depth == Depth::Check;
        // A server's log goes on while it is read.
        let newer = if is_check && !is_live { self.newer_than_log(known, subject, walked) } else { None };
        if known.roots.is_empty() && known.lacks_trees(&subject.path) {
            self.no_tree();
        }
        for tree in &trees {
            self.tree(tree);
        }
        let left_out = if self.options.depth == Depth::Check { self.rows(known, &trees) } else { Vec::new() };
        self.hurt(subject, known, &trees, newer);
        self.file(known, &trees, left_out);
    }

    /// Whether the dictionary has the tree as that of a dropped index, for good.
    fn is_dropped(&self, subject: &Subject, known: &Known, root: &Root) -> bool {
        let space = known.space.format.space().0;
        let tree = DroppedTree { space, root: root.page_no, index_id: root.index_id };
        let is_of = |datadir: &Path| space != 0 && subject.path.starts_with(datadir) && self.recovery.is_none();
        self.dropped.iter().any(|(datadir, trees)| is_of(datadir) && trees.contains(&tree))
    }

    /// The findings on the tablespace itself. A count tells those that may cost it an index, and leaves the rest to a check.
    fn of_space(&mut self, known: &Known, definitions: &Definitions) {
        let is_check = self.options.depth == Depth::Check;
        for finding in known.findings.iter().filter(|finding| is_check || hides_an_index(finding)) {
            let named = finding.page_no.and_then(|page_no| definitions.at_root(&known.space, page_no));
            let label = named.map(|(table, index)| TreeLabel {
                table: Some(table),
                index: Some(index),
                ..TreeLabel::default()
            });
            self.finding(finding, label.unwrap_or_default());
        }
    }

    /// Compares the newest page of the tablespace with the end of the redo log.
    fn newer_than_log(&mut self, known: &Known, subject: &Subject, walked: &[Walked]) -> Option<Severity> {
        let newest = newest_of(known, walked);
        let known = self.redo.checkpoint_for(&subject.path);
        let (dir, _) = known.filter(|(_, checkpoint)| newest > *checkpoint)?;
        let end = match self.redo.clean_end_for(&subject.path) {
            Some(lsn) => Some(LogEnd { lsn, is_whole: true }),
            None => self.ends.of(&dir),
        };
        let end = end.filter(|end| newest > end.lsn)?;
        // Crash recovery does not repair what lies beyond the log's end.
        let (severity, doubt) =
            if end.is_whole { (Severity::Damage, "") } else { (Severity::Undecided, ", as far as it is sound") };
        let message = format!(
            "pages are newer than the redo log: LSN {newest}, but the log ends at LSN {}{doubt}; the file is from another server or a later time than the log, or the log was replaced: restore both from one backup",
            end.lsn
        );
        let told = TreeFinding::told(FindingCode::NEWER_THAN_LOG, message);
        self.weighed(&told, TreeLabel::default(), (severity, None));
        Some(severity)
    }

    /// What the findings mean for the tables of one tablespace.
    fn hurt(&mut self, subject: &Subject, known: &Known, trees: &[Tree<'_>], newer: Option<Severity>) {
        let mut opener = Opener::new();
        let mut rows = Vec::new();
        let has_findings = self.options.depth == Depth::Check && !known.findings.is_empty();
        if has_findings || newer.is_some() {
            let pages: BTreeSet<u32> = known.findings.iter().filter_map(|finding| finding.page_no).collect();
            let mut tables = trees.iter().filter_map(Tree::table);
            let table = tables.next().filter(|first| tables.all(|table| table == *first)).map(str::to_owned);
            let broken = known.findings.iter().map(|finding| (finding.rule, finding.page_no));
            let of_findings = has_findings.then(|| self.worst(broken, false));
            let is_damage = [of_findings, newer].contains(&Some(Severity::Damage));
            let severity = if is_damage { Severity::Damage } else { Severity::Undecided };
            rows.push(verdict::of_space(&known.space, table, severity, pages.len() as u64));
        }
        for tree in trees.iter().filter(|tree| tree.is_hurt()) {
            let has_unread_only = tree.walked.report.findings_total == 0 && !tree.lacks();
            let lacking = tree.lacks().then_some((Rule::RowWithoutEntry.code(), None));
            let broken = tree.walked.report.findings.iter().map(|finding| (finding.rule, finding.page_no));
            let rules = || broken.clone().chain(lacking);
            let severity = if has_unread_only { Severity::Undecided } else { self.worst(rules(), tree.may_go()) };
            // All of it is undecided only because transactions wait to be rolled back, or recovery is pending: see below.
            let is_put_off = severity == Severity::Undecided
                && !has_unread_only
                && !rules().any(|(rule, _)| UNDECIDED.contains(&rule));
            let mark =
                |(page_no, is_lost): (&u32, &bool)| (*page_no, Mark { is_lost: *is_lost, severity, index_id: None });
            let marks = tree.walked.report.hurt.iter().map(mark).collect();
            let rows_of =
                trees.iter().find(|other| other.kind() == TreeKind::Clustered && other.table() == tree.table());
            let hurt = HurtTree {
                space: &known.space,
                map: &known.map,
                root: tree.root,
                named: tree.named.as_ref(),
                marks: &marks,
                severity,
                rows_missing: self.missing(known, tree, trees),
                is_misplaced: tree.is_misplaced(),
                is_table_hurt: rows_of.is_some_and(|rows| !rows.walked.report.hurt.is_empty() && !rows.is_misplaced()),
            };
            let row = hurt.row(&self.path, &mut opener);
            rows.push(if is_put_off && !self.options.live {
                Hurt { action: Action::StartServer, commands: Vec::new(), ..row }
            } else {
                row
            });
        }
        if let Some(awaits) = self.redo.awaits(&subject.path) {
            verdict::put_off(&mut rows, &subject.path, awaits);
        }
        if let Some(list) = &mut self.report.tables {
            let names: BTreeSet<&str> = trees.iter().filter_map(Tree::table).collect();
            let by_path = names.is_empty().then(|| table_of_path(&subject.path)).flatten();
            let names = names.into_iter().map(str::to_owned).chain(by_path);
            list.extend(names.map(|name| verdict::verdict_of(Some(&name), &self.path, &rows)));
        }
        self.report.hurt.extend(rows);
    }

    /// How many rows a table has lost, if another of its indexes was completely read.
    fn missing(&self, known: &Known, tree: &Tree<'_>, trees: &[Tree<'_>]) -> Option<u64> {
        let is_lost = tree.walked.report.hurt.values().any(|is_lost| *is_lost);
        if tree.kind() != TreeKind::Clustered || !is_lost || known.map.has_buffered_changes {
            return None;
        }
        let sound = tree.rows() - tree.walked.report.doubtful;
        let is_whole = |other: &&Tree<'_>| {
            let index = other.named.as_ref().and_then(|named| named.index.as_ref());
            other.kind() == TreeKind::Secondary
                && other.table() == tree.table()
                && other.walked.report.is_complete
                && other.walked.report.findings_total == 0
                && index.is_some_and(|index| !index.is_multi_valued)
        };
        trees.iter().find(is_whole).and_then(|whole| whole.rows().checked_sub(sound))
    }

    fn tree(&mut self, tree: &Tree<'_>) {
        let report = &tree.walked.report;
        for finding in &report.findings {
            self.of_tree(finding, tree);
        }
        let hidden = report.findings_total - report.findings.len() as u64;
        // Assume that unlisted findings are like the last listed one.
        let last = report.findings.last();
        let last = (last.map(|finding| finding.rule), last.and_then(|finding| finding.page_no));
        let severity = if tree.is_dropped { Severity::Notice } else { self.severity(last, tree.may_go()).0 };
        self.count(hidden, severity);
        if report.counts.unverifiable > 0 {
            let message = format!("{} pages are {NO_KEY}", report.counts.unverifiable);
            self.of_tree(&TreeFinding::told(FindingCode::ENCRYPTED_NO_KEY, message), tree);
        }
        self.report.totals.indexes += 1;
        self.report.totals.pages += report.counts.pages;
        self.report.totals.entries += tree.rows();
    }

    fn of_tree(&mut self, finding: &TreeFinding, tree: &Tree<'_>) {
        let table = tree.named.as_ref().and_then(|named| named.table.as_deref());
        let name = tree.named.as_ref().and_then(|named| named.name.as_deref());
        let may_go = name.is_none() || tree.may_go();
        let label = TreeLabel { table, index: name, index_id: Some(tree.root.index_id), may_go };
        if tree.is_dropped {
            return self.weighed(finding, label, (Severity::Notice, Some(DroppedTree::WHY.to_owned())));
        }
        self.finding(finding, label);
    }

    /// Whether the server has dropped the table while it was read, or made it and not yet written it.
    fn is_not_here_now(&mut self, subject: &Subject) -> bool {
        let why = match &self.watched {
            Some(seen) if seen.is_gone => "the server dropped or replaced it meanwhile",
            _ if is_unwritten(&subject.path) => "not flushed yet: the server has its pages in memory",
            _ => return false,
        };
        self.report.skipped.push(SkippedFile { path: self.path.clone(), why: why.to_owned() });
        true
    }

    /// A note about contradictions that came and went.
    fn passing(&mut self) {
        let passing = self.watched.as_ref().map_or(0, |seen| seen.passing);
        if passing > 0 {
            let message = format!(
                "the server changed this tablespace whenever it was read: {passing} contradictions between pages were not there each time, \
                 and prove nothing"
            );
            let told = TreeFinding::told("changed_meanwhile".into(), message);
            self.weighed(&told, TreeLabel::default(), (Severity::Notice, None));
        }
    }

    /// A file named like a table's that has no tree.
    fn no_tree(&mut self) {
        let message = "the tablespace has no index: it does not hold the table that its name promises".to_owned();
        self.finding(&TreeFinding::told(FindingCode::NO_TREE, message), TreeLabel::default());
    }

    /// Every row has one entry in each index, with exceptions that follow from the definition. Returns what could not be compared.
    fn rows(&mut self, known: &Known, trees: &[Tree<'_>]) -> Vec<String> {
        let mut tables: BTreeMap<&str, Vec<&Tree<'_>>> = BTreeMap::new();
        let mut unnamed = Vec::new();
        for tree in trees.iter().filter(|tree| tree.kind() != TreeKind::Sdi) {
            match tree.named.as_ref().and_then(|named| named.table.as_deref()) {
                Some(table) => tables.entry(table).or_default().push(tree),
                None => unnamed.push(tree),
            }
        }
        // Without definitions, all trees of a MariaDB file-per-table tablespace belong to one table.
        let one_table = known.space.format.family() == Family::MariaDb && known.space.format.space().0 != 0;
        if one_table && tables.is_empty() {
            tables.insert("", std::mem::take(&mut unnamed));
        }
        let mut left_out = Vec::new();
        if self.watched.as_ref().is_some_and(|seen| !seen.is_quiet) {
            return vec!["rows against entries: the server changes them".to_owned()];
        }
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
            let clustered = trees.iter().find(|tree| tree.kind() == TreeKind::Clustered).or(trees.first());
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

/// Reports a tree's findings as soon as it is done.
pub(super) fn tell(watcher: &Watcher, tree: KnownTree<'_, '_>, report: &TreeReport) {
    if !watcher.listens() || report.findings.is_empty() {
        return;
    }
    let path = shown(tree.known.space.path());
    let label = TreeLabel {
        table: tree.named.and_then(|named| named.table.as_deref()),
        index: tree.named.and_then(|named| named.name.as_deref()),
        index_id: Some(tree.root.index_id),
        may_go: false,
    };
    let is_pending = RedoLogs::new(false).pending_for(tree.known.space.path()).is_some();
    let severity = if is_pending { Severity::Undecided } else { Severity::Damage };
    for finding in &report.findings {
        let told = in_words(finding, &path, label);
        watcher.tell(Found::Tree(&TableFinding { severity, ..told }));
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
        complete: report.is_complete && tree.walked.is_sound,
        matched: report.matched,
        findings: report.findings_total + u64::from(tree.is_miscounted.get()),
        left_out: report.left_out.iter().map(|clause| (*clause).to_owned()).collect(),
        seconds: tree.walked.elapsed.as_secs_f64(),
    }
}
