//! `paths -> Tables -> Ranges -> RowReader -> Encoder -> one Output per table, in the order of the key`
//!
//! Each worker encodes the rows of a range into pieces, which are written in the order of the ranges. The [`Format`] decides what a piece
//! is: text here, row groups and record batches in a crate of their own. Memory: that of the readers, one piece per worker, and the ranges
//! that wait for their turn ([`Format::held`]).

pub mod format;
pub(crate) mod jsonl;
mod lookalikes;
mod ordered;
mod row_text;
mod separated;
pub(crate) mod sql;
mod text;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use datadir::Outcome;
use flow::Counters;
use serde::Serialize;

pub use self::format::{Change, Encoder, Format, Head, Output, Refused};
use self::ordered::Shared;
use self::writing::Writing;
use super::damage::RowDamage;
use super::key_range::{KeyBounds, KeyRange};
use super::plan::RowPlan;
use super::reader::{OnDamage, Problem, ProblemKind, Wanted};
use super::scan::{ScanOptions, freed_leaves, reached_again, scan, stray_leaves};
use super::source::{TableSource, Tables, TreeSource, Wish};
use super::split::{OpenTable, SplitPart, leaves, with_tree};
use crate::report::watcher::watched;
use crate::tree::ranges::Ranges;
use datadir::Error;
use datadir::keys::KeyFiles;
use datadir::redo_log::Pending;
use datadir::selection::Selection;
use datadir::tablespace::transactions::numbers_in;
use datadir::tablespace::{Opener, Tablespace};

pub use crate::rows::export::row_text::Geometry;
pub use crate::rows::export::separated::SeparatedOptions;
pub use crate::rows::export::text::{CHUNK, TextFormat};

/// What to export, and how.
#[derive(Debug, Clone)]
pub struct ExportOptions {
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
    /// The columns; all if `None`.
    pub columns: Option<Vec<String>>,
    /// The index whose leaves are read.
    pub index: Option<String>,
    /// A range of the key.
    pub key_range: Option<KeyBounds>,
    /// Rows exported per table, at most.
    pub limit: Option<u64>,
    /// Whether rows may come in any order.
    pub unordered: bool,
    /// Only rows of committed transactions.
    pub committed: bool,
    /// Whether to export historical rows, which system-versioned tables keep.
    pub history: bool,
    /// The file to which the caller writes all rows: with more than one table that is an error, before anything is made.
    pub only_file: Option<PathBuf>,
}

impl Default for ExportOptions {
    /// All rows and all columns.
    fn default() -> Self {
        Self {
            scan: ScanOptions::default(),
            page_size: None,
            keys: KeyFiles::default(),
            selection: Selection::default(),
            create_table: None,
            columns: None,
            index: None,
            key_range: None,
            limit: None,
            unordered: false,
            committed: false,
            history: false,
            only_file: None,
        }
    }
}

/// One file cannot take the rows of several tables.
fn refuse_one_file_for_several(tables: &Tables, options: &ExportOptions) -> Result<(), Error> {
    let (Some(file), count @ 2..) = (&options.only_file, tables.tables.len()) else { return Ok(()) };
    let why =
        format!("would be one file for {count} tables; for one file per table name a directory, with a / at its end");
    Err(Error::Unusable { path: file.clone(), why })
}

/// The result for one table.
#[derive(Debug, Clone, Serialize)]
pub struct TableExport {
    /// `schema.table`.
    pub table: String,
    /// Rows written.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Columns that no leaf stores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Values that the format cannot represent exactly, by column and reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<RowDamage>,
    /// Where the definition came from, if not from the usual place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// If pages that nothing points to were searched for rows of damaged trees: how many such leaves there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stray_leaves: Option<usize>,
    /// Why it was not exported although nothing is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Some bytes of its files could not be read, if only once: that these are all its rows is not known. The report names the files.
    #[serde(skip)]
    pub is_unsure: bool,
}

impl TableExport {
    fn take(&mut self, space: &Tablespace, problems: &[Problem]) {
        let of = |problem: &Problem| RowDamage::of_problem(space, problem);
        let (open, damage): (Vec<&Problem>, _) =
            problems.iter().partition(|problem| problem.kind == ProblemKind::Uncommitted);
        self.damage.extend(damage.into_iter().map(of));
        if let Some(first) = open.first() {
            let more = if open.len() > 1 { format!(" (and {} more)", open.len() - 1) } else { String::new() };
            let why = format!(
                "{}{more}; its committed version is in the undo logs: let the server roll back first",
                of(first)
            );
            self.refused.get_or_insert(why);
        }
    }
}

/// The result for all tables.
#[derive(Debug, Clone, Serialize)]
pub struct ExportReport {
    /// The tables, by name.
    pub tables: Vec<TableExport>,
    /// Files that should hold a table but could not be read, and why.
    pub unread: Vec<String>,
    /// Datadirs of these files that still need crash recovery, which will change the rows.
    pub pending: Vec<Pending>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Elapsed time.
    pub seconds: f64,
}

impl ExportReport {
    /// 1 for damage; 2 if a table could not be exported for another reason, there is no table, or recovery is pending; else 0.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let mut damage = self.tables.iter().flat_map(|table| &table.damage);
        let is_damaged = damage.any(|damage| !damage.is_unread());
        let refused = self.tables.iter().any(|table| table.refused.is_some() || !table.damage.is_empty());
        let outcome = Outcome::of(is_damaged, refused || !self.unread.is_empty() || self.tables.is_empty());
        // Recovery will change rows and repair pages, so the export is neither complete nor damaged yet.
        Outcome::of_comparison(!self.pending.is_empty(), outcome).exit_status()
    }
}

/// Opens the output of a table.
pub type Outputs<'o> = dyn FnMut(&TableSource) -> Result<Box<dyn Write + Send>, Error> + 'o;

/// Exports all tables in `paths`, each to the output that `outputs` opens.
///
/// # Errors
/// Options that cannot work, an output that cannot be written.
pub fn export<F: Format>(
    paths: &[PathBuf],
    options: &ExportOptions,
    format: &F,
    outputs: &mut Outputs<'_>,
    watch: Option<crate::table::TableWatch<'_>>,
) -> Result<ExportReport, Error> {
    let start = Instant::now();
    let workers = options.scan.workers.max(1);
    let wish = Wish {
        keys: &options.keys,
        selection: Some(&options.selection),
        page_size: options.page_size,
        workers,
        index: options.index.as_deref(),
        create_table: options.create_table.as_deref(),
        pending: true,
    };
    let tables = Tables::find(paths, wish)?;
    refuse_one_file_for_several(&tables, options)?;
    let open = if options.committed { open_transactions(&tables, &options.keys)? } else { Vec::new() };
    let counters = Counters::new(workers).expecting(tables.tables.len());
    let total = tables.bytes();
    let tell = watch.map(|watch| move |counters: &Counters| watch(total, counters));
    let tell = tell.as_ref().map(|tell| tell as &(dyn Fn(&Counters) + Sync));
    let mut out = Vec::new();
    let outputs = std::sync::Mutex::new(outputs);
    watched(tell, &counters, || {
        for table in &tables.tables {
            let of = OpenTable { table, tables: &tables, split: None };
            let exported = Job { of, open: &open, options, format, counters: &counters };
            let mut outputs = outputs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let mut exported = exported.run(&mut |table| outputs(table))?;
            exported.is_unsure = tables.is_unread(table);
            out.push(exported);
            counters.worker(0).done_with(1);
        }
        Ok::<_, Error>(())
    })?;
    Ok(ExportReport {
        tables: out,
        unread: tables.all_unread(),
        pending: tables.pending.clone(),
        bytes_read: counters.total().bytes_read,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Exports one table, or a split of it. The files are open already, so of the options about opening them only the keys are used: undo
/// tablespaces may need them.
///
/// # Errors
/// An output that cannot be written, or [`ScanOptions::stop`] was set.
pub fn export_table<F: Format>(
    of: OpenTable<'_>,
    options: &ExportOptions,
    format: &F,
    out: Box<dyn Write + Send>,
    counters: &Counters,
) -> Result<TableExport, Error> {
    let open = if options.committed { open_transactions(of.tables, &options.keys)? } else { Vec::new() };
    let mut out = Some(out);
    let mut once = |_: &TableSource| Ok(out.take().unwrap_or_else(|| Box::new(io::sink())));
    Job { of, open: &open, options, format, counters }.run(&mut once)
}

/// How [`export_table`] would read the rows: the columns and their types. For a partitioned table, the plan for the first partition.
///
/// # Errors
/// Why it would refuse to, as a clause.
pub fn plan_of(of: OpenTable<'_>, options: &ExportOptions) -> Result<Arc<RowPlan>, String> {
    let first = of.table.trees.first().ok_or("it has no rows in these files")?;
    planned(of, options, &Vec::new(), first)
}

fn planned(of: OpenTable<'_>, options: &ExportOptions, open: &Open, tree: &TreeSource) -> Result<Arc<RowPlan>, String> {
    let plan = RowPlan::new(&of.table.table, tree.index.clone(), options.columns.as_deref())?;
    if plan.columns.is_empty() {
        return Err("none of its columns can be read".to_owned());
    }
    let mut plan = with_tree(plan, of, tree)?;
    if let Some(keys) = &options.key_range {
        plan.keys = Some(KeyRange::new(keys, &of.table.table, &plan.index)?);
    }
    if !options.history {
        plan = plan.current();
    }
    if let Some(open) = open.get(tree.space) {
        plan.open = Some(Arc::clone(open.as_ref().map_err(|why| format!("--committed: {why}"))?));
    }
    Ok(Arc::new(plan))
}

/// For each tablespace, its server's open transactions, or why they are not known, as a clause.
pub(crate) type Open = Vec<Result<Arc<BTreeSet<u64>>, String>>;

pub(crate) fn open_transactions(tables: &Tables, keys: &KeyFiles) -> Result<Open, Error> {
    let keys = keys.read()?;
    let mut by_dir: BTreeMap<PathBuf, Result<Arc<BTreeSet<u64>>, String>> = BTreeMap::new();
    let of_space = |space: &Tablespace| {
        let dir = space.path().parent().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
        let pending = tables.pending.iter().find(|pending| space.path().starts_with(&pending.path));
        if let Some(pending) = pending {
            return Err(format!(
                "recovery is pending ({}): until it is done, it is unknown which transactions have committed",
                pending.why
            ));
        }
        let read = |dir: &PathBuf| match numbers_in(dir, &keys) {
            Some(numbers) => numbers.map(Arc::new),
            None => Err(format!(
                "{} has no ibdata1: only the undo logs of a whole datadir say which transactions have committed",
                dir.display()
            )),
        };
        by_dir.entry(dir).or_insert_with_key(read).clone()
    };
    Ok(tables.spaces.iter().map(of_space).collect())
}

/// The export of one table.
struct Job<'j, F> {
    of: OpenTable<'j>,
    open: &'j Open,
    options: &'j ExportOptions,
    format: &'j F,
    counters: &'j Counters,
}

impl<F: Format> Job<'_, F> {
    fn run(&self, outputs: &mut Outputs<'_>) -> Result<TableExport, Error> {
        let mut export = TableExport {
            table: self.of.table.name.clone(),
            rows: 0,
            bytes: 0,
            left_out: Vec::new(),
            changes: Vec::new(),
            damage: self.of.table.damage.iter().map(RowDamage::of_table).collect(),
            notes: self.of.table.notes.clone(),
            stray_leaves: None,
            refused: None,
            is_unsure: false,
        };
        let plan = |(tree, part)| Ok((planned(self.of, self.options, self.open, tree)?, tree, part));
        let plans = self.of.trees().and_then(|trees| trees.into_iter().map(plan).collect::<Result<Vec<_>, String>>());
        let plans = match plans {
            Ok(plans) => plans,
            Err(why) => {
                export.refused = Some(why);
                return Ok(export);
            }
        };
        let Some((first, ..)) = plans.first() else { return Ok(export) };
        export.left_out.clone_from(&first.left_out);
        let head = Head {
            table: self.of.table,
            plan: first,
            states: self.options.scan.wanted == Wanted::Deleted,
            workers: self.options.scan.workers.max(1),
        };
        let failed = |source| self.failed(source);
        let mut out = self.format.open(&head, outputs(self.of.table)?).map_err(failed)?;
        // Nobody pays for reading no rows: engines ask so for the columns.
        let plans = if self.options.limit == Some(0) { &[] } else { plans.as_slice() };
        for (plan, tree, part) in plans {
            self.tree(plan, (tree, *part), &mut out, &mut export)?;
            let is_done = self.options.limit.is_some_and(|limit| export.rows >= limit);
            if is_done || !export.damage.is_empty() && self.options.scan.on_damage == OnDamage::Stop {
                break;
            }
        }
        export.bytes = out.finish().map_err(failed)?;
        if let Some(why) = self.of.tables.out_of_reach(self.of.table) {
            export.damage.clear();
            export.refused = Some(why);
        }
        Ok(export)
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io { path: PathBuf::from(&self.of.table.name), action: "writing the rows", source }
    }

    fn tree(
        &self,
        plan: &Arc<RowPlan>,
        (tree, part): (&TreeSource, Option<&SplitPart>),
        out: &mut F::Output,
        export: &mut TableExport,
    ) -> Result<(), Error> {
        let Some(space) = self.of.tables.spaces.get(tree.space) else { return Ok(()) };
        if let Some(why) = &tree.unreadable {
            export.damage.push(RowDamage::of_file(space.path(), why));
            return Ok(());
        }
        let mut opener = Opener::new();
        let mut ranges = leaves(space, tree, part, plan.keys.as_ref(), &mut opener);
        export.damage.extend(ranges.lost.iter().map(|lost| RowDamage::of_lost(space, lost)));
        let stops = self.options.scan.on_damage == OnDamage::Stop;
        if !export.damage.is_empty() && stops {
            return Ok(());
        }
        if let Some(rows) = self.options.scan.rows_sampled {
            ranges.sample(space, plan.index_id, &plan.index, rows, &mut opener);
        }
        let wanted = self.options.scan.wanted;
        let problems = self.pass(space, plan, (&ranges, wanted), out, export)?;
        let inner_lost = !ranges.lost.is_empty() || problems.iter().any(|problem| problem.kind == ProblemKind::Inner);
        export.take(space, &problems);
        // Not for a split, which cannot tell a stray leaf from a leaf of another split.
        if inner_lost && !stops && part.is_none() {
            let known = reached_again(space, &ranges, plan, &mut opener);
            let (units, is_known) = stray_leaves(space, plan, &|page_no| known.has(page_no), &mut opener);
            export.stray_leaves = Some(export.stray_leaves.unwrap_or(0) + units.len());
            if !is_known && !units.is_empty() {
                let why = "it is unknown which pages are free: the rows found may include rows of freed pages";
                export.damage.push(RowDamage::of_file(space.path(), why));
            }
            let strays = Ranges { units, ..Ranges::default() };
            let problems = self.pass(space, plan, (&strays, wanted), out, export)?;
            export.take(space, &problems);
        }
        if wanted == Wanted::Deleted && part.is_none() {
            let (units, is_known) = freed_leaves(space, plan, &mut opener);
            if !is_known {
                let why = "which of its pages are free is not known: rows on freed pages may be missing";
                export.notes.push(format!("{}: {why}", space.path().display()));
            }
            // What is wrong on a freed page is no damage.
            self.pass(space, plan, (&Ranges { units, ..Ranges::default() }, Wanted::GivenUp), out, export)?;
        }
        Ok(())
    }

    /// Reads the leaves of some ranges and writes their rows.
    fn pass(
        &self,
        space: &Tablespace,
        plan: &Arc<RowPlan>,
        (ranges, wanted): (&Ranges, Wanted),
        out: &mut F::Output,
        export: &mut TableExport,
    ) -> Result<Vec<Problem>, Error> {
        let options = self.options;
        let left = options.limit.map(|limit| limit.saturating_sub(export.rows));
        // With a row limit, ranges must come one after the other.
        let mut scan_options = options.scan.clone();
        scan_options.wanted = wanted;
        if wanted == Wanted::GivenUp {
            scan_options.on_damage = OnDamage::Skip;
        }
        if left.is_some() {
            scan_options.workers = 1;
        }
        let range = self.format.range();
        scan_options.ranges = Some(range);
        let head = Head {
            table: self.of.table,
            plan,
            states: options.scan.wanted == Wanted::Deleted,
            workers: scan_options.workers.max(1),
        };
        let encoders: Result<Vec<F::Encoder>, io::Error> =
            (0..head.workers).map(|_| self.format.encoder(&head, out)).collect();
        let failed = |source| self.failed(source);
        let encoders = std::sync::Mutex::new(encoders.map_err(failed)?);
        let shared = Shared::new(out, !options.unordered, self.format.held() * head.workers);
        let rows = AtomicU64::new(0);
        let (skip, shared_ref, rows_ref) = (options.scan.on_damage == OnDamage::Skip, &shared, &rows);
        let sinks = |_| Writing {
            encoder: encoders.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop(),
            range: 0,
            shared: shared_ref,
            rows: rows_ref,
            left,
            skip,
        };
        let (sinks, problems) = scan((space, &self.of.tables.set), plan, ranges, &scan_options, self.counters, sinks)?;
        for change in sinks.iter().filter_map(|sink| sink.encoder.as_ref()).flat_map(Encoder::changes) {
            let same = |known: &&mut Change| known.column == change.column && known.what == change.what;
            match export.changes.iter_mut().find(same) {
                Some(known) => known.count += change.count,
                None => export.changes.push(change),
            }
        }
        export.changes.sort_by(|a, b| (&a.column, a.what).cmp(&(&b.column, b.what)));
        drop(sinks);
        // Relaxed, here and where it is counted: `scan` has joined its workers.
        export.rows += rows.load(Ordering::Relaxed);
        shared.finish().map_err(failed)?;
        Ok(problems)
    }
}
