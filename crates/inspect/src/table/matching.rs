//! `--extended`: which trees to compare with each other, and the result.
//!
//! ```text
//! plan: clustered + secondary trees of a table -> Pairs      walks add up -> settle -> uneven buckets -> both trees again -> findings
//! ```

use std::collections::{BTreeMap, HashMap};

use flow::{Counters, FileSet, Gather, GatherPlan};
use format::page::index::IndexPage;
use format::record::RecordFields;
use format::schema::{EntryPlan, FieldSource, IndexDef};
use format::value::show::shown;

use super::options::{TableOptions, windows};
use super::walked::{Subject, Walked};
use crate::definitions::known::Known;
use crate::definitions::{Definitions, Named};
use crate::tree::matching::{Odd, Pair, Pairs, Suspects, defaults_of};
use crate::tree::walk::{Depth, Receivers, Tools};
use crate::tree::{Leaves, Rule, TreeFinding, TreeReport, Walk};
use datadir::Error;
use datadir::tablespace::Opener;

/// An index with several entries per row, or without the row's key in its entries.
const SEVERAL: &str = "entries against rows: an index with several entries for a row";
const BUFFERED: &str = "entries against rows: changes wait in the change buffer of the system tablespace";
const BLIND: &str = "entries against rows: a value could not be read";
const INCOMPLETE: &str = "entries against rows: not every page could be read";

/// A table whose trees are compared.
struct Match {
    subject: usize,
    /// Its clustered tree.
    rows: usize,
    /// Its secondary trees, in the order of the pairs.
    entries: Vec<usize>,
    pairs: Pairs,
}

/// A tree's role in its table.
enum Role {
    Rows(usize),
    Entries(usize, usize),
}

/// Everything to compare.
#[derive(Default)]
pub(super) struct Matches {
    tables: Vec<Match>,
    roles: HashMap<(usize, usize), Role>,
    /// Trees left out, and why.
    left_out: Vec<((usize, usize), &'static str)>,
}

impl Matches {
    /// Finds the trees that belong together.
    pub fn plan(subjects: &[Subject], definitions: &Definitions) -> Self {
        let mut matches = Self::default();
        let mut opener = Opener::new();
        let mut found = Vec::new();
        for (subject, known) in subjects.iter().enumerate() {
            let Ok(known) = &known.opened else { continue };
            let mut tables: BTreeMap<String, Vec<(usize, Named)>> = BTreeMap::new();
            for (tree, root) in known.roots.iter().enumerate() {
                let named = definitions.named(&known.space, root, &known.map, &mut opener);
                if let Some((table, named)) = named.and_then(|named| Some((named.table.clone()?, named))) {
                    tables.entry(table).or_default().push((tree, named));
                }
            }
            found.extend(tables.into_values().map(|trees| (subject, known, trees)));
        }
        let secondary = |named: &Named| named.index.as_ref().is_some_and(|index| !index.is_clustered());
        let sizes = found.iter().flat_map(|(_, known, trees)| {
            trees.iter().filter(|(_, named)| secondary(named)).filter_map(|(tree, _)| known.roots.get(*tree))
        });
        let pages_total = sizes.map(|root| root.pages).sum();
        for (subject, known, trees) in found {
            matches.add(subject, known, trees, pages_total, &mut opener);
        }
        matches
    }

    fn add(
        &mut self,
        subject: usize,
        known: &Known,
        trees: Vec<(usize, Named)>,
        pages_total: u64,
        opener: &mut Opener,
    ) {
        let clustered = trees.iter().find_map(|(tree, named)| {
            let row = named.index.clone().filter(IndexDef::is_clustered)?;
            Some((*tree, row, named.whole.clone()?))
        });
        let Some((rows, row, table)) = clustered else { return };
        let (mut pairs, mut entries) = (Vec::new(), Vec::new());
        for (tree, index) in trees.into_iter().filter_map(|(tree, named)| Some((tree, named.index?))) {
            if index.is_clustered() {
                continue;
            }
            if known.map.has_buffered_changes {
                self.left_out.push(((subject, tree), BUFFERED));
                continue;
            }
            match EntryPlan::new(&table.columns, &row, &index) {
                Some(plan) => {
                    self.left_out.extend(plan.left_out().map(|clause| ((subject, tree), clause)));
                    let pages = known.roots.get(tree).map_or(1, |root| root.pages);
                    pairs.push(Pair::new(index, plan, (pages, pages_total)));
                    self.roles.insert((subject, tree), Role::Entries(self.tables.len(), entries.len()));
                    entries.push(tree);
                }
                None => self.left_out.push(((subject, tree), SEVERAL)),
            }
        }
        if let Some(root) = known.roots.get(rows).filter(|_| !pairs.is_empty()) {
            let defaults = defaults_of(&known.space, root, &table, &row, opener);
            self.roles.insert((subject, rows), Role::Rows(self.tables.len()));
            self.tables.push(Match { subject, rows, entries, pairs: Pairs { table, row, defaults, pairs } });
        }
    }

    /// The receivers of a tree's leaves, in a tablespace of `pages` pages; `None` if the tree is not compared.
    pub fn receivers(&self, subject: usize, tree: usize, pages: u32) -> Option<Receivers<'_>> {
        match self.roles.get(&(subject, tree))? {
            Role::Rows(table) => {
                let pairs = &self.tables.get(*table)?.pairs;
                Some(Receivers::new(pages, || pairs.rows()))
            }
            Role::Entries(table, number) => {
                let pairs = &self.tables.get(*table)?.pairs;
                let pair = pairs.pairs.get(*number)?;
                Some(Receivers::new(pages, || pair.entries(*number)))
            }
        }
    }

    /// Compares the walks' sums, rereads the trees where they differ, and adds findings to the walks' reports.
    ///
    /// # Errors
    /// No engine could start.
    pub fn settle(
        &self,
        subjects: &[Subject],
        set: &FileSet,
        options: &TableOptions,
        counters: &Counters,
        walked: &mut [Vec<Walked>],
    ) -> Result<(), Error> {
        for ((subject, tree), clause) in &self.left_out {
            leave_out(report_of(walked, *subject, *tree), clause);
        }
        let (read, ahead) = windows(options, set, 1);
        let plan = GatherPlan::new(read.block_size);
        let mut gather = Gather::new(set, &plan, &read, ahead, counters.worker(0))?;
        let mut tools = Tools::default();
        for table in &self.tables {
            let Some(Ok(known)) = subjects.get(table.subject).map(|subject| subject.opened.as_ref()) else { continue };
            table.settle(known, options, &mut gather, &mut tools, walked);
        }
        Ok(())
    }
}

fn report_of(walked: &mut [Vec<Walked>], subject: usize, tree: usize) -> Option<&mut TreeReport> {
    walked.get_mut(subject)?.get_mut(tree).map(|walked| &mut walked.report)
}

fn leave_out(report: Option<&mut TreeReport>, clause: &'static str) {
    if let Some(report) = report.filter(|report| !report.left_out.contains(&clause)) {
        report.left_out.push(clause);
    }
}

impl Match {
    fn settle(
        &self,
        known: &Known,
        options: &TableOptions,
        gather: &mut Gather<'_>,
        tools: &mut Tools,
        walked: &mut [Vec<Walked>],
    ) {
        let rows_are_complete = report_of(walked, self.subject, self.rows).is_some_and(|report| report.is_complete);
        let mut uneven = Vec::new();
        for (pair, tree) in self.pairs.pairs.iter().zip(&self.entries) {
            let Some(report) = report_of(walked, self.subject, *tree) else { continue };
            let entries = report.counts.records - report.counts.deleted;
            let mut differing = 0;
            if !report.is_complete || !rows_are_complete {
                leave_out(Some(report), INCOMPLETE);
            } else if !pair.has_seen_all() {
                leave_out(Some(report), BLIND);
            } else {
                differing = pair.buckets.uneven();
                report.matched = Some(entries);
            }
            uneven.push(if differing > 0 { entries.max(1) } else { 0 });
        }
        if uneven.iter().all(|entries| *entries == 0) {
            return;
        }
        let mut suspects = Suspects::choose(&self.pairs, &uneven, options.images_max);
        for number in suspects.wanted() {
            if let (Some(tree), Some(pair)) = (self.entries.get(number), self.pairs.pairs.get(number)) {
                Again { known, tree: *tree, index: &pair.entry }.walk(suspects.entries(number), gather, tools);
            }
        }
        Again { known, tree: self.rows, index: &self.pairs.row }.walk(Some(suspects.rows()), gather, tools);
        for number in suspects.wanted() {
            self.findings(number, &suspects, known, options.findings_max, &mut tools.opener, walked);
        }
    }

    /// The findings for one pair: an odd entry and an odd row with the same key make one finding.
    fn findings(
        &self,
        number: usize,
        suspects: &Suspects<'_>,
        known: &Known,
        findings_max: usize,
        opener: &mut Opener,
        walked: &mut [Vec<Walked>],
    ) {
        let (Some(pair), Some(tree)) = (self.pairs.pairs.get(number), self.entries.get(number)) else { return };
        let odd = suspects.odd(number);
        let looked_at = if odd.is_some() { suspects.chosen(number) } else { 0 };
        let odd = odd.unwrap_or_default();
        let rows: HashMap<u64, Odd> = odd.iter().filter(|odd| odd.is_row).map(|odd| (odd.key, *odd)).collect();
        let keys_of_entries: Vec<u64> = odd.iter().filter(|odd| !odd.is_row).map(|odd| odd.key).collect();
        let mut teller = Teller { known, opener, fields: RecordFields::new(), pairs: &self.pairs, pair };
        let mut told = 0;
        for one in &odd {
            let row = rows.get(&one.key).filter(|_| !one.is_row);
            if one.is_row && keys_of_entries.contains(&one.key) {
                continue;
            }
            told += 1;
            let finding = (told <= findings_max).then(|| teller.tell(one, row));
            if let Some(report) = report_of(walked, self.subject, *tree).filter(|_| one.is_row) {
                report.lacks_entries = true;
            }
            let tree = if one.is_row { self.rows } else { *tree };
            add(report_of(walked, self.subject, tree), finding, findings_max);
        }
        let more = pair.buckets.uneven() - looked_at;
        let Some(report) = report_of(walked, self.subject, *tree) else { return };
        report.matched = report.matched.filter(|_| more == 0).map(|all| all - keys_of_entries.len() as u64);
        if more > 0 {
            let finding = TreeFinding::new(Rule::EntriesUnmatched, 0, more as u64, pair.buckets.len() as u64);
            add(Some(report), Some(TreeFinding { page_no: None, ..finding }), findings_max);
        }
    }
}

fn add(report: Option<&mut TreeReport>, finding: Option<TreeFinding>, findings_max: usize) {
    let Some(report) = report else { return };
    match finding {
        Some(finding) => report.add(finding, findings_max),
        None => report.findings_total += 1,
    }
}

/// A tree that is walked once more, just for its leaves.
struct Again<'w> {
    known: &'w Known,
    tree: usize,
    index: &'w IndexDef,
}

impl<'w> Again<'w> {
    fn walk(self, eyes: Option<Box<dyn Leaves + 'w>>, gather: &mut Gather<'_>, tools: &mut Tools) {
        let Known { space, map, roots, .. } = self.known;
        let Some(root) = roots.get(self.tree) else { return };
        // Its faults were reported when it was checked.
        let _told = Walk::new((space, map), root, Some(self.index), Depth::Count, 0).seen_by(eyes).run(gather, tools);
    }
}

/// Writes the messages of findings, with the row's key.
struct Teller<'t> {
    known: &'t Known,
    opener: &'t mut Opener,
    fields: RecordFields,
    pairs: &'t Pairs,
    pair: &'t Pair,
}

impl Teller<'_> {
    fn tell(&mut self, one: &Odd, row: Option<&Odd>) -> TreeFinding {
        let (page_no, origin) = one.at;
        let key = self.key(one).unwrap_or_else(|| "a key that cannot be read".to_owned());
        let (rule, why) = match (one.is_row, row) {
            (true, _) => (Rule::RowWithoutEntry, format!("index {}, {key}", self.pair.entry.name)),
            (false, Some(Odd { at: (page_no, origin), .. })) => {
                (Rule::EntryDiffers, format!("{key}, on page {page_no} at byte {origin} of the clustered index"))
            }
            (false, None) => (Rule::EntryWithoutRow, key),
        };
        TreeFinding { level: Some(0), ..TreeFinding::new(rule, page_no, 0, 0).at(origin).because(&why) }
    }

    /// `id = 17, name = 'x'`.
    fn key(&mut self, one: &Odd) -> Option<String> {
        let (page_no, origin) = one.at;
        let image = self.known.space.sound(page_no, self.opener).ok()?;
        let page = IndexPage::parse(&image, &self.known.space.format).ok()?;
        let index = if one.is_row { &self.pairs.row } else { &self.pair.entry };
        index.layout.locate(&page.record(origin)?, &mut self.fields).ok()?;
        let text = |(row, entry): (usize, usize)| {
            let number = if one.is_row { row } else { entry };
            let column = match index.fields.get(number)?.source {
                FieldSource::Column(at) => Some(self.pairs.table.columns.get(at)?),
                _ => None,
            };
            let name = column.map_or("DB_ROW_ID", |column| column.name.as_str());
            Some(format!("{name} = {}", shown(column, self.fields.bytes(page.bytes(), number))))
        };
        let parts: Option<Vec<_>> = self.pair.plan.key().map(text).collect();
        parts.map(|parts| parts.join(", "))
    }
}
