//! All rows of a tree, read by several workers: each takes the next range until none is left.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use flow::{Counters, FileSet, Gather, GatherPlan, IoMode, ReadAhead, ReadOptions, WorkList, run_workers};
use format::page::index::IndexPage;
use format::record::Record;
use format::record::shape::RecordShapes;

use super::batch::Batch;
use super::damage::RowDamage;
use super::plan::RowPlan;
use super::reader::{OnDamage, Problem, RowReader, Rows, Wanted};
use crate::tree::SpaceMap;
use crate::tree::ranges::{PageInTree, Ranges, Reached, children, inner_page};
use datadir::tablespace::{Opener, Tablespace};
use datadir::{Error, stop};

/// Memory of all workers' windows together, bytes.
const MEMORY_MAX: u64 = 96 << 20;
/// Read-ahead for a file in the page cache, bytes: with 8 MiB the data falls out of the core's cache, and `table checksum` takes an eighth
/// longer.
const CACHED_AHEAD: u64 = 512 << 10;
/// Ranges per worker: enough for all workers to finish at about the same time.
const RANGES_A_WORKER: usize = 16;

/// The size of the ranges that workers take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeSize {
    /// A range has at most about this many bytes of leaves.
    pub bytes: u64,
    /// Ranges per worker, at least, even if that makes them smaller.
    pub for_each_worker: usize,
}

impl RangeSize {
    fn count(self, space: &Tablespace, ranges: &Ranges, workers: usize) -> usize {
        let page = u64::from(space.format.logical().get());
        // A level-1 page has one node pointer, a few dozen bytes, per leaf.
        let leaves = if ranges.level == 0 { 1 } else { LEAVES_A_PARENT };
        let bytes = ranges.units.len() as u64 * leaves * page;
        let by_size = usize::try_from(bytes / self.bytes.max(1)).unwrap_or(usize::MAX);
        by_size.max(workers * self.for_each_worker)
    }
}

/// Approximate number of leaves below a level-1 page.
const LEAVES_A_PARENT: u64 = 512;

/// How to read.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// How to read the files.
    pub read: ReadOptions,
    /// How far to read ahead.
    pub ahead: ReadAhead,
    /// Workers.
    pub workers: usize,
    /// Which rows to read.
    pub wanted: Wanted,
    /// What to do about damage.
    pub on_damage: OnDamage,
    /// Read only about this many rows, from leaves spread evenly over the table.
    pub rows_sampled: Option<u64>,
    /// The size of the ranges.
    pub ranges: Option<RangeSize>,
    /// Set by another thread to end the scan, which then fails with [`Error::Interrupted`] within a few pages.
    pub stop: Option<Arc<AtomicBool>>,
    /// What could not be read until `stop` ended the scan, which returns no list then.
    pub lost_at_stop: Option<Arc<Mutex<Vec<RowDamage>>>>,
}

impl ScanOptions {
    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop::is_told(stop))
    }
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            read: ReadOptions { block_size: 1 << 20, depth: 8, ..ReadOptions::default() },
            ahead: ReadAhead::LOGICAL,
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            wanted: Wanted::Live,
            on_damage: OnDamage::Stop,
            rows_sampled: None,
            ranges: None,
            stop: None,
            lost_at_stop: None,
        }
    }
}

/// Receives the rows of one range after the other, on one worker's thread.
pub trait RowSink {
    /// Range number `range` starts; a worker's ranges ascend.
    fn begin(&mut self, range: usize);
    /// Rows in key order; `Break` ends the whole scan.
    fn batch(&mut self, batch: &Batch, problems: &mut Vec<Problem>) -> ControlFlow<()>;
    /// Offers a row's record before it joins a batch; it must end at or before byte `limit` of its page. Returns `true` if it was consumed
    /// and must not join one. Useful if row order does not matter.
    fn record(&mut self, _record: &Record<'_>, _limit: usize) -> bool {
        false
    }
    /// The range has ended, early if `outcome` is `Break`. Returning `Break` ends the whole scan.
    fn end(&mut self, outcome: ControlFlow<()>) -> ControlFlow<()>;
}

/// A worker's sink, and the problems it met.
struct Taking<'t, S> {
    sink: &'t mut S,
    problems: Vec<Problem>,
}

impl<S: RowSink> Rows for Taking<'_, S> {
    fn batch(&mut self, batch: &Batch) -> ControlFlow<()> {
        self.sink.batch(batch, &mut self.problems)
    }

    fn record(&mut self, record: &Record<'_>, limit: usize) -> bool {
        self.sink.record(record, limit)
    }
}

/// Reads all rows of a tree. `sinks` makes one sink per worker; they are returned in any order, with what could not be read.
///
/// # Errors
/// No engine could start, or [`ScanOptions::stop`] was set.
pub fn scan<S: RowSink + Send>(
    (space, set): (&Tablespace, &FileSet),
    plan: &Arc<RowPlan>,
    ranges: &Ranges,
    options: &ScanOptions,
    counters: &Counters,
    sinks: impl Fn(usize) -> S + Sync,
) -> Result<(Vec<S>, Vec<Problem>), Error> {
    let reached = Reached::new(space.pages());
    let workers = options.workers.clamp(1, ranges.units.len().max(1));
    let cut = ranges.split(match options.ranges {
        None => workers * RANGES_A_WORKER,
        Some(size) => size.count(space, ranges, workers),
    });
    let on_page = plan.fields_on_page();
    let list = WorkList::new(&cut);
    let share = MEMORY_MAX / workers as u64;
    // Cached pages arrive at once, so read little ahead: little enough that the data stays in the core's own cache until it is used.
    let is_cached = options.read.io != IoMode::Direct && space.is_cached();
    let most = if is_cached { CACHED_AHEAD } else { u64::MAX };
    let ahead = match options.ahead {
        ReadAhead::Logical { bytes } => ReadAhead::Logical { bytes: bytes.min(most).min(share / 3).max(64 << 10) },
        other => other,
    };
    let read = options.read.clone().within(workers, MEMORY_MAX / 3);
    let outcomes = run_workers(workers, |worker| {
        let gather_plan = GatherPlan::new(read.block_size);
        let mut gather = Gather::new(set, &gather_plan, &read, ahead, counters.worker(worker))?;
        let mut opener = Opener::new();
        let mut shapes = on_page.as_ref().and_then(|_| RecordShapes::new(&plan.index.layout));
        let mut sink = sinks(worker);
        let mut problems = Vec::new();
        while let Some((number, range)) = list.take() {
            sink.begin(number);
            let mut reader = RowReader {
                space,
                plan,
                on_page: on_page.as_deref(),
                shapes: shapes.as_mut(),
                reached: &reached,
                wanted: options.wanted,
                on_damage: options.on_damage,
                gather: &mut gather,
                opener: &mut opener,
                problems: std::mem::take(&mut problems),
                stop: options.stop.as_deref(),
            };
            let mut rows = Taking { sink: &mut sink, problems: Vec::new() };
            let outcome = reader.read(ranges, range.clone(), &mut rows);
            problems = reader.problems;
            problems.append(&mut rows.problems);
            if sink.end(outcome).is_break() {
                list.abandon();
            }
        }
        Ok::<_, flow::ReaderError>((sink, problems))
    });
    let (mut sinks, mut problems) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        let (sink, mut more) = outcome?;
        sinks.push(sink);
        problems.append(&mut more);
    }
    if options.is_stopped() {
        if let Some(lost) = &options.lost_at_stop {
            let lost_here = problems.iter().map(|problem| RowDamage::of_problem(space, problem));
            lost.lock().unwrap_or_else(PoisonError::into_inner).extend(lost_here);
        }
        return Err(Error::Interrupted);
    }
    problems.sort_by_key(|problem| (problem.page_no, problem.record));
    Ok((sinks, problems))
}

/// Marks the leaves that the ranges lead to, as a pass over them would.
pub(super) fn reached_again(space: &Tablespace, ranges: &Ranges, plan: &RowPlan, opener: &mut Opener) -> Reached {
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

/// The leaves of an index that nothing points to, found by reading every page of the tablespace: for trees with damaged inner pages. Free
/// pages are left out; the result is `false` if some page could not be judged.
#[must_use]
pub fn stray_leaves(
    space: &Tablespace,
    plan: &RowPlan,
    reached: &dyn Fn(u32) -> bool,
    opener: &mut Opener,
) -> (Vec<u32>, bool) {
    let map = SpaceMap::read(space, opener);
    let pages: Vec<u32> =
        (0..space.pages()).filter(|page_no| !reached(*page_no) && map.is_free(*page_no) != Some(true)).collect();
    (leaves_among(space, plan, &pages, opener), map.is_known())
}

/// The leaves of an index that the tree has given up: free pages that still hold what they held. `false` if it is unknown of some page
/// whether it is free.
#[must_use]
pub fn freed_leaves(space: &Tablespace, plan: &RowPlan, opener: &mut Opener) -> (Vec<u32>, bool) {
    let map = SpaceMap::read(space, opener);
    let pages: Vec<u32> = (0..space.pages()).filter(|page_no| map.is_free(*page_no) == Some(true)).collect();
    (leaves_among(space, plan, &pages, opener), map.is_known())
}

fn leaves_among(space: &Tablespace, plan: &RowPlan, pages: &[u32], opener: &mut Opener) -> Vec<u32> {
    let mut leaves = Vec::new();
    space.each_stored(pages, |page_no, stored| {
        let Ok(stored) = stored else { return };
        // Cheapest test first: most pages belong to other indexes.
        if let Ok(image) = space.opened(page_no, stored, opener)
            && let Ok(page) = IndexPage::parse(&image, &space.format)
            && page.is_leaf()
            && page.index_id() == plan.index_id
        {
            leaves.push(page_no);
        }
    });
    leaves
}
