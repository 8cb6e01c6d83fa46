//! `paths -> Tables -> Ranges -> RowReader -> RowSum -> the value of CHECKSUM TABLE`
//!
//! Row order does not matter, so the sums of all workers' ranges simply add up.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use datadir::Outcome;
use flow::Counters;
use format::record::Record;
use format::value::row_shape::RowShapes;
use format::value::row_sum::{Form, RowSum, Summed};
use serde::Serialize;

use super::batch::{Batch, Cell};
use super::damage::RowDamage;
use super::plan::RowPlan;
use super::reader::Problem;
use super::scan::{RowSink, ScanOptions, scan};
use super::source::{Tables, Wish};
use super::split::{OpenTable, leaves, with_tree};
use crate::report::watcher::watched;
use datadir::Error;
use datadir::keys::KeyFiles;
use datadir::redo_log::Pending;
use datadir::selection::Selection;
use datadir::tablespace::Opener;

/// Which tables to checksum, and how to read them.
#[derive(Debug, Clone, Default)]
pub struct ChecksumOptions {
    /// How to read.
    pub scan: ScanOptions,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Key files.
    pub keys: KeyFiles,
    /// Of directories, only these tables.
    pub selection: Selection,
    /// A file of `CREATE TABLE` statements for tablespaces without a definition.
    pub create_table: Option<PathBuf>,
    /// Expected values by table name.
    pub expected: Option<BTreeMap<String, u32>>,
}

/// A checksum compared with the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// As expected.
    Equal,
    /// Different.
    Different,
    /// No expected value was given.
    Unexpected,
    /// It could not be computed.
    Unknown,
}

/// The checksum of one table.
#[derive(Debug, Clone, Serialize)]
pub struct TableChecksum {
    /// `schema.table`.
    pub table: String,
    /// The checksum, if it could be computed.
    pub checksum: Option<u32>,
    /// The value computed by MariaDB up to 10.11.19, if stored generated columns make it differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_without_generated: Option<u32>,
    /// Rows that were summed.
    pub rows: u64,
    /// Why there is no checksum although nothing is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_computable: Option<String>,
    /// The damage that prevents a checksum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<RowDamage>,
    /// Where the definition came from, if not from the usual place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The expected value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<u32>,
    /// The result of the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

/// A table that is there, but whose rows are not InnoDB's.
#[derive(Debug, Clone, Serialize)]
pub struct OtherEngine {
    /// `schema.table`.
    pub table: String,
    /// Its data.
    pub file: PathBuf,
}

/// All checksums.
#[derive(Debug, Clone, Serialize)]
pub struct ChecksumReport {
    /// The tables, by name.
    pub tables: Vec<TableChecksum>,
    /// Expected tables that were not found.
    pub missing: Vec<String>,
    /// Expected tables of other engines than InnoDB.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of_other_engines: Vec<OtherEngine>,
    /// Files that should hold a table but could not be read, and why.
    pub unread: Vec<String>,
    /// Datadirs of these files that still need crash recovery, which will change the rows.
    pub pending: Vec<Pending>,
    /// Files without tables.
    pub skipped: usize,
    /// Rows in all.
    pub rows: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Elapsed time.
    pub seconds: f64,
}

impl ChecksumReport {
    /// 1 for damage or an unexpected value; 2 if a table has no value for another reason, or recovery is pending; else 0.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let is_damaged = |table: &TableChecksum| table.damage.iter().any(|damage| !damage.is_unread());
        let differs = |table: &TableChecksum| table.comparison == Some(Comparison::Different) || is_damaged(table);
        // A table that is missing may be in a file that could not be read.
        let is_wrong = self.tables.iter().any(differs) || !self.missing.is_empty() && self.unread.is_empty();
        let none = |table: &TableChecksum| table.checksum.is_none();
        let is_open = self.tables.iter().any(none) || !self.unread.is_empty() || !self.of_other_engines.is_empty();
        let outcome = Outcome::of(is_wrong, is_open || self.tables.is_empty());
        // Recovery will change rows and repair pages, so neither a value nor a difference means anything yet.
        Outcome::of_comparison(!self.pending.is_empty(), outcome).exit_status()
    }
}

/// Computes the checksums of all tables in `paths`. `watch` gets the number of bytes to read and the counters.
///
/// # Errors
/// Keys that cannot be read, options that cannot work.
pub fn checksums(
    paths: &[PathBuf],
    options: &ChecksumOptions,
    watch: Option<crate::table::TableWatch<'_>>,
) -> Result<ChecksumReport, Error> {
    let start = Instant::now();
    let wish = Wish {
        keys: &options.keys,
        selection: Some(&options.selection),
        page_size: options.page_size,
        workers: options.scan.workers,
        index: None,
        create_table: options.create_table.as_deref(),
        pending: true,
    };
    let tables = Tables::find(paths, wish)?;
    let counters = Counters::new(options.scan.workers.max(1)).expecting(tables.tables.len());
    let total = tables.bytes();
    let tell = watch.map(|watch| move |counters: &Counters| watch(total, counters));
    let tell = tell.as_ref().map(|tell| tell as &(dyn Fn(&Counters) + Sync));
    let sums = watched(tell, &counters, || {
        let of = |table| {
            let sum = checksum_of(OpenTable { table, tables: &tables, split: None }, options, &counters);
            counters.worker(0).done_with(1);
            sum
        };
        tables.tables.iter().map(of).collect::<Result<Vec<_>, Error>>()
    })?;
    let summed: HashSet<&str> = sums.iter().map(|sum| sum.table.as_str()).collect();
    let expected = options.expected.iter().flat_map(BTreeMap::keys);
    let missing: Vec<String> = expected.filter(|name| !summed.contains(name.as_str())).cloned().collect();
    let (others, missing): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|table| tables.of_others.contains_key(table));
    let file_of = |table: &String| tables.of_others.get(table).cloned().unwrap_or_default();
    let of_other_engines = others.into_iter().map(|table| OtherEngine { file: file_of(&table), table }).collect();
    Ok(ChecksumReport {
        rows: sums.iter().map(|sum| sum.rows).sum(),
        tables: sums,
        missing,
        of_other_engines,
        unread: tables.all_unread(),
        skipped: tables.skipped,
        pending: tables.pending,
        bytes: counters.total().bytes_read,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// The checksum of one table, or of a split of it: the checksums of all splits add up to the table's, modulo 2³². The files are open
/// already, so options about opening them are ignored.
///
/// # Errors
/// [`ScanOptions::stop`] was set, or the split is not of this table.
pub fn checksum_of(of: OpenTable<'_>, options: &ChecksumOptions, counters: &Counters) -> Result<TableChecksum, Error> {
    let table = of.table;
    let expected = options.expected.as_ref().and_then(|expected| expected.get(&table.name).copied());
    let mut sum = TableChecksum {
        table: table.name.clone(),
        checksum: Some(0),
        checksum_without_generated: None,
        rows: 0,
        not_computable: None,
        damage: table.damage.iter().map(RowDamage::of_table).collect(),
        notes: table.notes.clone(),
        expected,
        comparison: None,
    };
    match RowSum::new(&table.table) {
        Ok(rows) => add_trees(of, options, counters, &rows, &mut sum)?,
        Err(why) => sum.not_computable = Some(why),
    }
    if let Some(why) = of.tables.out_of_reach(table) {
        sum.damage.clear();
        sum.not_computable = Some(why);
    }
    if sum.not_computable.is_some() || !sum.damage.is_empty() {
        (sum.checksum, sum.checksum_without_generated) = (None, None);
    }
    sum.comparison = options.expected.as_ref().map(|_| match (sum.checksum, expected) {
        (None, _) => Comparison::Unknown,
        (_, None) => Comparison::Unexpected,
        (found, expected) if found == expected || sum.checksum_without_generated == expected => Comparison::Equal,
        _ => Comparison::Different,
    });
    Ok(sum)
}

fn add_trees(
    of: OpenTable<'_>,
    options: &ChecksumOptions,
    counters: &Counters,
    rows: &RowSum,
    sum: &mut TableChecksum,
) -> Result<(), Error> {
    let mut older = 0_u32;
    for (tree, part) in of.trees().map_err(Error::Usage)? {
        let Some(space) = of.tables.spaces.get(tree.space) else { continue };
        if let Some(why) = &tree.unreadable {
            sum.damage.push(RowDamage::of_file(space.path(), why));
            continue;
        }
        let plan = with_tree(RowPlan::for_checksum(&of.table.table, tree.index.clone()), of, tree);
        let plan = Arc::new(plan.map_err(Error::Usage)?);
        let ranges = leaves(space, tree, part, plan.keys.as_ref(), &mut Opener::new());
        sum.damage.extend(ranges.lost.iter().map(|lost| RowDamage::of_lost(space, lost)));
        if !sum.damage.is_empty() {
            continue;
        }
        // If the two forms differ, each row is summed twice, value by value.
        let has_forms = rows.has_forms();
        let fields = plan.fields_on_page().filter(|_| !has_forms && plan.keys.is_none());
        let shapes = fields.and_then(|fields| RowShapes::new(rows, &plan.index.layout, &fields));
        let sinks = |_| Summing { rows: rows.clone(), shapes: shapes.clone(), count: 0, sum: 0, older: 0, has_forms };
        let (sums, problems) = scan((space, &of.tables.set), &plan, &ranges, &options.scan, counters, sinks)?;
        sum.damage.extend(problems.iter().map(|problem| RowDamage::of_problem(space, problem)));
        for part in sums {
            sum.checksum = sum.checksum.map(|sum| sum.wrapping_add(part.sum));
            older = older.wrapping_add(part.older);
            sum.rows += part.count;
        }
    }
    if rows.has_forms() && sum.checksum != Some(older) {
        sum.checksum_without_generated = Some(older);
    }
    Ok(())
}

/// A worker's sum.
struct Summing {
    rows: RowSum,
    /// If whole records are summed.
    shapes: Option<RowShapes>,
    count: u64,
    sum: u32,
    older: u32,
    has_forms: bool,
}

impl RowSink for Summing {
    fn begin(&mut self, _range: usize) {}

    fn record(&mut self, record: &Record<'_>, limit: usize) -> bool {
        let crc = self.shapes.as_mut().and_then(|shapes| shapes.row(record, limit));
        let Some(crc) = crc else { return false };
        self.sum = self.sum.wrapping_add(crc);
        self.count += 1;
        true
    }

    fn batch(&mut self, batch: &Batch, problems: &mut Vec<Problem>) -> ControlFlow<()> {
        for row in batch.rows() {
            let mut lost = None;
            let value = |number: usize| match row.get(number) {
                Cell::Null => Summed::Null,
                Cell::Bytes(bytes) => Summed::Stored(bytes),
                Cell::Lost(why) => {
                    lost = Some((number, why.to_owned()));
                    Summed::Null
                }
            };
            let added = self.rows.row(Form::All, value);
            let wrong = match added {
                Err((number, why)) => Some((number, why.to_string())),
                Ok(_) if lost.is_some() => lost,
                Ok(crc) => {
                    self.sum = self.sum.wrapping_add(crc);
                    None
                }
            };
            if let Some((number, why)) = wrong {
                problems.push(Problem::of_value(&row, batch.plan(), number, &why));
                return ControlFlow::Break(());
            }
            self.count += 1;
            if self.has_forms {
                let value = |number: usize| match row.get(number) {
                    Cell::Bytes(bytes) => Summed::Stored(bytes),
                    _ => Summed::Null,
                };
                self.older = self.older.wrapping_add(self.rows.row(Form::WithoutGenerated, value).unwrap_or(0));
            }
        }
        ControlFlow::Continue(())
    }

    fn end(&mut self, outcome: ControlFlow<()>) -> ControlFlow<()> {
        outcome
    }
}
