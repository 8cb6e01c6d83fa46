//! `paths -> Tables -> Ranges -> RowReader -> Encoder -> one Output a table, in the order of the key`
//!
//! Each worker encodes the rows of a range into pieces, which are written in the order of the ranges. The [`Format`] decides what a piece
//! is: text here, row groups and record batches in a crate of their own. Memory: that of the readers, one piece per worker, and the ranges
//! that wait for their turn ([`Format::held`]).

pub mod format;
mod jsonl;
mod ordered;
mod row_text;
mod separated;
mod sql;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use flow::Counters;
use serde::Serialize;

pub use self::format::{Change, Encoder, Format, Head, Output, Refused};
use self::ordered::{Part, Shared};
use super::batch::Batch;
use super::key_range::KeyRange;
use super::plan::RowPlan;
use super::reader::{OnDamage, Problem, ProblemKind, Wanted};
use super::scan::{RowSink, ScanOptions, scan, stray_leaves};
use super::source::{TableSource, Tables, TreeSource, Wish};
use crate::Error;
use crate::report::document::Pending;
use crate::report::watcher::watched;
use crate::source::keys::KeyFiles;
use crate::tree::Opener;
use crate::tree::ranges::{PageInTree, Ranges, Reached, children, inner_page};
use crate::tree::transactions::numbers_in;

pub use row_text::Geometry;
pub use separated::SeparatedOptions;
pub use text::{CHUNK, TextFormat};

/// What to export, and how.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// How to read.
    pub scan: ScanOptions,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Key files.
    pub keys: KeyFiles,
    /// A file of `CREATE TABLE` statements for tablespaces without a definition.
    pub create_table: Option<PathBuf>,
    /// The columns; all if `None`.
    pub columns: Option<Vec<String>>,
    /// The index whose leaves are read.
    pub index: Option<String>,
    /// A range of the key, `5..90`.
    pub key_range: Option<String>,
    /// Rows exported per table, at most.
    pub limit: Option<u64>,
    /// Whether rows may come in any order.
    pub unordered: bool,
    /// Only rows of committed transactions.
    pub committed: bool,
    /// Whether to export historical rows, which system-versioned tables keep.
    pub history: bool,
}

impl Default for ExportOptions {
    /// All rows and all columns.
    fn default() -> Self {
        Self {
            scan: ScanOptions::default(),
            page_size: None,
            keys: KeyFiles::default(),
            create_table: None,
            columns: None,
            index: None,
            key_range: None,
            limit: None,
            unordered: false,
            committed: false,
            history: false,
        }
    }
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
    pub damage: Vec<String>,
    /// Where the definition came from, if not from the usual place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// If pages that nothing points to were searched for rows of damaged trees: how many such leaves there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stray_leaves: Option<usize>,
    /// Why it was not exported although nothing is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl TableExport {
    fn take(&mut self, path: &str, problems: &[Problem]) {
        let text = |problem: &Problem| format!("{path}: {}", problem.text());
        let (open, damage): (Vec<&Problem>, _) =
            problems.iter().partition(|problem| problem.kind == ProblemKind::Uncommitted);
        self.damage.extend(damage.into_iter().map(text));
        if let Some(first) = open.first() {
            let more = if open.len() > 1 { format!(" (and {} more)", open.len() - 1) } else { String::new() };
            let why = format!(
                "{}{more}; its committed version is in the undo logs: let the server roll back first",
                text(first)
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
        // Recovery will change rows and repair pages, so the export is neither complete nor damaged yet.
        if !self.pending.is_empty() {
            return 2;
        }
        if self.tables.iter().any(|table| !table.damage.is_empty()) {
            return 1;
        }
        let refused = self.tables.iter().any(|table| table.refused.is_some());
        if refused || !self.unread.is_empty() || self.tables.is_empty() { 2 } else { 0 }
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
        page_size: options.page_size,
        workers,
        index: options.index.as_deref(),
        create_table: options.create_table.as_deref(),
    };
    let tables = Tables::find(paths, wish)?;
    let open = if options.committed { open_transactions(&tables, &options.keys)? } else { Vec::new() };
    let counters = Counters::new(workers);
    let total = tables.bytes();
    let tell = watch.map(|watch| move |counters: &Counters| watch(total, counters));
    let tell = tell.as_ref().map(|tell| tell as &(dyn Fn(&Counters) + Sync));
    let mut out = Vec::new();
    let outputs = std::sync::Mutex::new(outputs);
    watched(tell, &counters, || {
        for table in &tables.tables {
            let exported = Job { table, tables: &tables, open: &open, options, format, counters: &counters };
            let mut outputs = outputs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            out.push(exported.run(&mut **outputs)?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(ExportReport {
        tables: out,
        unread: tables.unread.iter().map(|unread| format!("{}: {}", unread.path.display(), unread.why)).collect(),
        pending: tables.pending.clone(),
        bytes_read: counters.total().bytes_read,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// For each tablespace, its server's open transactions, or why they are not known, as a clause.
type Open = Vec<Result<Arc<BTreeSet<u64>>, String>>;

fn open_transactions(tables: &Tables, keys: &KeyFiles) -> Result<Open, Error> {
    let keys = keys.read()?;
    let mut by_dir: BTreeMap<PathBuf, Result<Arc<BTreeSet<u64>>, String>> = BTreeMap::new();
    let of_space = |space: &crate::tree::Tablespace| {
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
    table: &'j TableSource,
    tables: &'j Tables,
    open: &'j Open,
    options: &'j ExportOptions,
    format: &'j F,
    counters: &'j Counters,
}

impl<F: Format> Job<'_, F> {
    fn run(&self, outputs: &mut Outputs<'_>) -> Result<TableExport, Error> {
        let mut export = TableExport {
            table: self.table.name.clone(),
            rows: 0,
            bytes: 0,
            left_out: Vec::new(),
            changes: Vec::new(),
            damage: self.table.damage.clone(),
            notes: self.table.notes.clone(),
            stray_leaves: None,
            refused: None,
        };
        let plans: Result<Vec<(Arc<RowPlan>, &TreeSource)>, String> =
            self.table.trees.iter().map(|tree| self.plan(tree)).collect();
        let plans = match plans {
            Ok(plans) => plans,
            Err(why) => {
                export.refused = Some(why);
                return Ok(export);
            }
        };
        let Some((first, _)) = plans.first() else { return Ok(export) };
        export.left_out.clone_from(&first.left_out);
        let head = Head {
            table: self.table,
            plan: first,
            states: self.options.scan.wanted == Wanted::Deleted,
            workers: self.options.scan.workers.max(1),
        };
        let failed =
            |source: io::Error| Error::Io { path: PathBuf::from(&self.table.name), action: "writing the rows", source };
        let mut out = self.format.open(&head, outputs(self.table)?).map_err(failed)?;
        for (plan, tree) in &plans {
            self.tree(plan, tree, &mut out, &mut export)?;
            let is_done = self.options.limit.is_some_and(|limit| export.rows >= limit);
            if is_done || !export.damage.is_empty() && self.options.scan.on_damage == OnDamage::Stop {
                break;
            }
        }
        export.bytes = out.finish().map_err(failed)?;
        Ok(export)
    }

    fn plan<'t>(&self, tree: &'t TreeSource) -> Result<(Arc<RowPlan>, &'t TreeSource), String> {
        let columns = self.options.columns.as_deref();
        let mut plan = RowPlan::new(&self.table.table, tree.index.clone(), columns)?;
        if plan.columns.is_empty() {
            return Err("none of its columns can be read".to_owned());
        }
        if let Some(defaults) = &tree.defaults {
            plan.defaults.clone_from(defaults);
        }
        if let Some(keys) = &self.options.key_range {
            plan.keys = Some(KeyRange::parse(keys, &self.table.table, &plan.index)?);
        }
        if !self.options.history {
            plan = plan.current();
        }
        if let Some(open) = self.open.get(tree.space) {
            plan.open = Some(Arc::clone(open.as_ref().map_err(|why| format!("--committed: {why}"))?));
        }
        Ok((Arc::new(plan), tree))
    }

    fn tree(
        &self,
        plan: &Arc<RowPlan>,
        tree: &TreeSource,
        out: &mut F::Output,
        export: &mut TableExport,
    ) -> Result<(), Error> {
        let Some(space) = self.tables.spaces.get(tree.space) else { return Ok(()) };
        let path = space.path().display().to_string();
        if let Some(why) = &tree.unreadable {
            export.damage.push(format!("{path}: {why}"));
            return Ok(());
        }
        let root = tree.index.root.map_or((0, 0), |root| (root.root.0, root.id));
        let mut opener = Opener::new();
        let mut ranges = Ranges::read(space, root, &tree.index, &mut opener, |page, children| match &plan.keys {
            Some(keys) => keys.children(page, &plan.index, children),
            None => children,
        });
        export.damage.extend(ranges.lost.iter().map(|lost| format!("{path}: {}", lost.why)));
        let stops = self.options.scan.on_damage == OnDamage::Stop;
        if !export.damage.is_empty() && stops {
            return Ok(());
        }
        if let Some(rows) = self.options.scan.rows_sampled {
            ranges.sample(space, plan.index_id, &plan.index, rows, &mut opener);
        }
        let problems = self.pass(space, plan, &ranges, out, export)?;
        let inner_lost = !ranges.lost.is_empty() || problems.iter().any(|problem| problem.kind == ProblemKind::Inner);
        export.take(&path, &problems);
        if inner_lost && !stops {
            let known = reached_again(space, &ranges, plan, &mut opener);
            let (units, is_known) = stray_leaves(space, plan, &|page_no| known.has(page_no), &mut opener);
            export.stray_leaves = Some(export.stray_leaves.unwrap_or(0) + units.len());
            if !is_known && !units.is_empty() {
                export.damage.push(format!(
                    "{path}: it is unknown which pages are free: the rows found may include rows of freed pages"
                ));
            }
            let strays = Ranges { units, ..Ranges::default() };
            let problems = self.pass(space, plan, &strays, out, export)?;
            export.take(&path, &problems);
        }
        Ok(())
    }

    /// Reads the leaves of some ranges and writes their rows.
    fn pass(
        &self,
        space: &crate::tree::Tablespace,
        plan: &Arc<RowPlan>,
        ranges: &Ranges,
        out: &mut F::Output,
        export: &mut TableExport,
    ) -> Result<Vec<Problem>, Error> {
        let options = self.options;
        let left = options.limit.map(|limit| limit.saturating_sub(export.rows));
        // With a row limit, ranges must come one after the other.
        let mut scan_options = options.scan.clone();
        if left.is_some() {
            scan_options.workers = 1;
        }
        let range = self.format.range();
        scan_options.ranges = Some(range);
        let head = Head {
            table: self.table,
            plan,
            states: options.scan.wanted == Wanted::Deleted,
            workers: scan_options.workers.max(1),
        };
        let encoders: Result<Vec<F::Encoder>, io::Error> =
            (0..head.workers).map(|_| self.format.encoder(&head, out)).collect();
        let failed =
            |source: io::Error| Error::Io { path: PathBuf::from(&self.table.name), action: "writing the rows", source };
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
        let (sinks, problems) = scan((space, &self.tables.set), plan, ranges, &scan_options, self.counters, sinks)?;
        for change in sinks.iter().filter_map(|sink| sink.encoder.as_ref()).flat_map(Encoder::changes) {
            let same = |known: &&mut Change| known.column == change.column && known.what == change.what;
            match export.changes.iter_mut().find(same) {
                Some(known) => known.count += change.count,
                None => export.changes.push(change),
            }
        }
        export.changes.sort_by(|a, b| (&a.column, a.what).cmp(&(&b.column, b.what)));
        drop(sinks);
        export.rows += rows.load(Ordering::Relaxed);
        shared.finish().map_err(failed)?;
        Ok(problems)
    }
}

/// Marks the leaves that the ranges lead to, as a pass over them would.
fn reached_again(space: &crate::tree::Tablespace, ranges: &Ranges, plan: &RowPlan, opener: &mut Opener) -> Reached {
    let reached = Reached::new(space.pages());
    for page_no in &ranges.units {
        reached.mark(*page_no);
    }
    if ranges.level > 0 {
        space.each_stored(&ranges.units, |page_no, stored| {
            let image = stored.and_then(|stored| space.opened(page_no, stored, opener));
            let children = image.and_then(|image| {
                let place = PageInTree { page_no, level: ranges.level, index_id: plan.index_id };
                let page = inner_page(&image, space, place)?;
                children(&page, &plan.index, space.pages())
            });
            for child in children.unwrap_or_default() {
                reached.mark(child.page_no);
            }
        });
    }
    reached
}

/// A worker's output.
struct Writing<'w, 'o, E: Encoder, O: Output<Piece = E::Piece>> {
    /// Always there, as there is one per worker.
    encoder: Option<E>,
    range: usize,
    shared: &'w Shared<'o, O>,
    rows: &'w AtomicU64,
    left: Option<u64>,
    skip: bool,
}

impl<E: Encoder, O: Output<Piece = E::Piece>> Writing<'_, '_, E, O> {
    /// Writes what was encoded. `false` if no more is wanted.
    fn pass_on(&mut self, part: Part) -> bool {
        let Some(encoder) = &mut self.encoder else { return false };
        match encoder.take() {
            Ok(piece) => self.shared.write(self.range, piece, part),
            Err(error) => {
                self.shared.fail(error);
                false
            }
        }
    }

    fn encode(&mut self, batch: &Batch, problems: &mut Vec<Problem>) -> ControlFlow<()> {
        let Some(encoder) = &mut self.encoder else { return ControlFlow::Break(()) };
        let mut written = 0;
        let mut outcome = ControlFlow::Continue(());
        for row in batch.rows() {
            if self.left == Some(0) {
                break;
            }
            match encoder.row(&row) {
                Ok(()) => {
                    written += 1;
                    self.left = self.left.map(|left| left - 1);
                }
                // A purged row may be unreadable: nobody expects it.
                Err(_) if row.state() == super::batch::RowState::Freed => {}
                Err((column, why)) => {
                    let name = batch.plan().columns.get(column).map_or("", |column| column.name.as_str());
                    problems.push(Problem {
                        page_no: row.page_no(),
                        record: Some(row.origin()),
                        keys: Some("one row".to_owned()),
                        why: format!("column {name}: {why}"),
                        kind: ProblemKind::Rows,
                    });
                    if !self.skip {
                        outcome = ControlFlow::Break(());
                        break;
                    }
                }
            }
        }
        self.rows.fetch_add(written, Ordering::Relaxed);
        outcome
    }
}

impl<E: Encoder, O: Output<Piece = E::Piece>> RowSink for Writing<'_, '_, E, O> {
    fn begin(&mut self, range: usize) {
        self.range = range;
    }

    fn batch(&mut self, batch: &Batch, problems: &mut Vec<Problem>) -> ControlFlow<()> {
        self.encode(batch, problems)?;
        let is_turn = || self.shared.is_turn(self.range);
        let full = self.encoder.as_mut().map_or(Ok(false), |encoder| encoder.is_full(&is_turn));
        match full {
            Ok(true) if !self.pass_on(Part::Some) => return ControlFlow::Break(()),
            Ok(_) => {}
            Err(error) => {
                self.shared.fail(error);
                return ControlFlow::Break(());
            }
        }
        if self.left == Some(0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn end(&mut self, outcome: ControlFlow<()>) -> ControlFlow<()> {
        let goes_on = self.pass_on(if outcome.is_break() { Part::End } else { Part::Last });
        if goes_on { outcome } else { ControlFlow::Break(()) }
    }
}
