//! Reads the leaves in file order: a fragmented tree at the speed of a sequential read.
//!
//! ```text
//! parents (key order) -> leaves of some thousand parents -> sorted by page -> gather (large requests) -> each leaf by itself
//!                                                                    any doubt -> None: the walk in key order finds the cause
//! ```
//!
//! Once all parents around it are known, a leaf can be checked without its neighbours: its links must name the leaves before and after it
//! in the parents' order, its first key must not be below its node pointer, and its last key must be below the next node pointer. If this
//! holds for every leaf, the keys of the whole level ascend. Where a collation is only partly known, keys on both sides of a border are
//! compared too ([`super::edges`]), as the walk in key order would.
//!
//! Memory: the parents and [`LEAF_BYTES`] per leaf, within the caller's limit; the leaves are read in as many sweeps as that takes.
//!
//! For the same reason any worker may check any leaf: idle ones take a share of a large tree's leaves ([`super::crew`]).

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use flow::Gather;
use format::fil::PageType;
use format::page::index::IndexPage;
use format::record::{Record, RecordFields};
use format::schema::{IndexDef, compare_keys};
use format::{Lsn, PageNo};

use super::crew::{Crew, SharedSweep, SweepSubject};
use super::edges::{self, Edges};
use super::leaf_run::LeafRun;
use super::limits::SweepLimits;
use super::{Depth, Father, Flight, LEVELS_MAX, LevelStep, Task, Tools, TreeCounts, TreeReport, Walk};

/// State per leaf before it is read: its task, in the queue and in the stretch, and its place in the order.
const LEAF_BYTES: usize = 2 * size_of::<LevelStep>() + size_of::<(u32, u32)>();

/// Lower limit on the memory for keys at borders, bytes.
const EDGES_MIN: usize = 1 << 20;
/// Parents held even if memory is short: one for each upper level of a four-level tree.
const PARENTS_MIN: u64 = 3;

/// Who may help with a sweep.
pub type Helpers<'r, 'c> = Option<(&'r Crew<'c>, &'r SweepSubject<'c>)>;

impl Walk<'_> {
    /// Walks the tree like [`Walk::run`], but reads the leaves in file order, with `memory` bytes for their state. The leaves of a large
    /// tree are shared with `helpers`, if there are any. `None` if anything is wrong or undecidable: the walk in key order must then find
    /// out what.
    #[must_use]
    pub fn sweep(
        mut self,
        gather: &mut Gather<'_>,
        tools: &mut Tools,
        memory: u64,
        helpers: Helpers<'_, '_>,
    ) -> Option<TreeReport> {
        // An R-tree's rectangles are checked against the parent of each page, and its leaves have no order.
        if self.root.level == 0 || self.root.level > LEVELS_MAX || self.root_is_rtree() {
            return None;
        }
        let swept = self.swept(gather, tools, memory, helpers);
        // The next walk must start with nothing in flight.
        while gather.next().is_some() {}
        swept.then_some(self.report)
    }

    /// Runs the sweeps. Returns whether all is well.
    fn swept(&mut self, gather: &mut Gather<'_>, tools: &mut Tools, memory: u64, helpers: Helpers<'_, '_>) -> bool {
        let page = u64::from(self.space.format.logical().get());
        let half = usize::try_from(memory / 2).unwrap_or(usize::MAX);
        let is_check = self.depth == Depth::Check;
        let mut edges = self
            .index
            .filter(|index| is_check && edges::are_needed(index))
            .map(|_| Edges::new((half / 2).max(EDGES_MIN)));
        let leaves_max = (if edges.is_some() { half / 2 } else { half } / LEAF_BYTES).max(64);
        let parents_max = (memory / 2 / page).max(PARENTS_MIN);
        self.sweep = Some(SweepLimits { leaves_max, parents_max, parents_before: 0 });
        let top = usize::from(self.root.level);
        self.hang(top, Task { page_no: self.root.page_no, father: None });
        let mut before = None;
        loop {
            self.drain(gather, tools);
            let Some((tasks, count)) = self.stretch() else { return false };
            if tasks.is_empty() {
                break;
            }
            let rest = tasks.get(count).cloned();
            let workers = helpers.map_or(1, |(crew, _)| crew.workers_for(count));
            let run = LeafRun::new(tasks, before, count, workers, edges.take());
            before = run.last().map(|task| task.page_no);
            let helpers = helpers.filter(|_| workers > 1);
            if self.is_doubtful() || !self.run_leaves(run, gather, tools, helpers, &mut edges) {
                return false;
            }
            edges = edges.map(|edges| edges.next_stretch(count as u32));
            if let Some(level) = self.levels.first_mut() {
                level.queue.extend(rest.map(LevelStep::Page));
            }
        }
        for level in 1..=top {
            self.end_level(level);
        }
        if self.depth == Depth::Check {
            self.strays(gather, tools);
            self.say_what_was_left_out();
        }
        !self.is_doubtful()
    }

    /// Checks the leaves of a stretch, alone or with others. Returns whether all is well; the remaining borders are then in `edges`.
    fn run_leaves(
        &mut self,
        run: LeafRun,
        gather: &mut Gather<'_>,
        tools: &mut Tools,
        helpers: Helpers<'_, '_>,
        edges: &mut Option<Edges>,
    ) -> bool {
        let Some((crew, subject)) = helpers else {
            let is_well = self.leaves(&run, gather, tools);
            *edges = run.edges().map(|mut edges| std::mem::take(&mut *edges));
            return is_well;
        };
        let (subject, reached) = (subject.clone(), Arc::clone(&self.reached));
        let tally = Mutex::new((TreeCounts::default(), Lsn(0)));
        let shared = Arc::new(SharedSweep { subject, depth: self.depth, reached, run, tally });
        let is_well = crew.share(&shared, || self.leaves(&shared.run, gather, tools));
        let (counts, newest) = *shared.tally.lock().unwrap_or_else(PoisonError::into_inner);
        self.report.counts += counts;
        tools.opener.saw(newest);
        *edges = shared.run.edges().map(|mut edges| std::mem::take(&mut *edges));
        is_well && !shared.run.is_doubtful()
    }

    fn is_doubtful(&self) -> bool {
        self.report.findings_total > 0 || !self.report.is_complete
    }

    fn parents(&self) -> u64 {
        self.report.counts.pages - self.report.counts.leaves
    }

    /// Whether enough leaves are known to sweep them.
    pub(super) fn is_stretched(&self, sweep: &SweepLimits, leaves: usize) -> bool {
        let asked = self.levels.get(1).map_or(0, |level| level.asked as u64);
        leaves >= sweep.leaves_max || self.parents() + asked - sweep.parents_before >= sweep.parents_max
    }

    /// All known leaves, and how many of them to check: all but the last, if more will follow; `None` if there is a gap.
    fn stretch(&mut self) -> Option<(Vec<Task>, usize)> {
        let parents_before = self.parents();
        if let Some(sweep) = &mut self.sweep {
            sweep.parents_before = parents_before;
        }
        let more = self.levels.iter().skip(1).any(|level| !level.queue.is_empty());
        let steps = std::mem::take(&mut self.levels.first_mut()?.queue);
        let tasks: Option<Vec<Task>> = steps
            .into_iter()
            .map(|step| match step {
                LevelStep::Page(task) => Some(task),
                LevelStep::Hole => None,
            })
            .collect();
        let tasks = tasks?;
        let count = if more { tasks.len().checked_sub(1)? } else { tasks.len() };
        // With only the last leaf known there is no progress: give up rather than loop forever.
        (count > 0 || !more).then_some((tasks, count))
    }

    /// Checks leaves of a stretch, in file order, until all are taken. Returns whether all is well; if not, the others stop too.
    pub(super) fn leaves(&mut self, run: &LeafRun, gather: &mut Gather<'_>, tools: &mut Tools) -> bool {
        let is_well = self.taken_leaves(run, gather, tools) && !self.is_doubtful();
        if !is_well {
            run.doubt();
        }
        is_well
    }

    fn taken_leaves(&mut self, run: &LeafRun, gather: &mut Gather<'_>, tools: &mut Tools) -> bool {
        let mut portion = 0..0;
        loop {
            if run.is_doubtful() || tools.watcher.is_stopped() {
                return false;
            }
            while gather.has_room() {
                if self.ask_for_value(gather) {
                    continue;
                }
                if portion.is_empty() && run.offers(self.flight.len()) {
                    portion = run.take();
                }
                let Some(at) = portion.next().and_then(|place| run.at(place)) else { break };
                let task = run.tasks.get(at as usize);
                let Some(want) = task.and_then(|task| self.space.want(task.page_no)) else { return false };
                gather.ask(want);
                self.flight.push_back(Flight::Leaf(at));
            }
            let Some(flight) = self.flight.pop_front() else { return true };
            let Some(item) = gather.next() else { return false };
            let lost = item.lost.map(|error| self.space.lost_why(item.want.tag as u32, error));
            let well = match flight {
                Flight::Leaf(at) => self.leaf(run, at as usize, item.bytes, lost.as_deref(), tools),
                Flight::Value(value) => {
                    self.value(value, item.bytes, lost.as_deref(), tools);
                    true
                }
                _ => false,
            };
            if !well || self.report.findings_total > 0 {
                return false;
            }
        }
    }

    /// Checks one leaf against its own rules, its place in the order, and the node pointers around it.
    fn leaf(&mut self, run: &LeafRun, at: usize, bytes: &[u8], lost: Option<&str>, tools: &mut Tools) -> bool {
        let Some(task) = run.tasks.get(at) else { return false };
        let Some((image, true)) = self.open(task.page_no, bytes, lost, tools) else { return false };
        let Ok(page) = IndexPage::parse(&image, &self.space.format) else { return false };
        if page.level() != 0 || page.index_id() != self.root.index_id {
            return false;
        }
        self.report.counts.pages += 1;
        if !self.contents(0, &page, true, tools) {
            return false;
        }
        let is_count = self.depth == Depth::Count;
        if is_count && page.page_type() == PageType::RTREE {
            return true;
        }
        let before = at.checked_sub(1).and_then(|at| run.tasks.get(at)).map(|task| task.page_no);
        let after = run.tasks.get(at + 1);
        let links = (page.prev().map(|PageNo(prev)| prev), page.next().map(|PageNo(next)| next));
        if links != (before.or(run.before), after.map(|task| task.page_no)) {
            return false;
        }
        if is_count {
            return true;
        }
        let pointers = (task.father.as_ref(), after.and_then(|task| task.father.as_ref()));
        self.index.is_none_or(|index| {
            let is_decided = run.edges().is_none();
            is_between(index, &page, pointers, is_decided, tools)
                && (is_decided || adjoins(index, &page, run, at, &mut tools.fields[0]))
        })
    }
}

/// Adds the first and the last key of leaf number `at` to its borders. Returns `false` if they are out of order with their neighbours.
fn adjoins(index: &IndexDef, page: &IndexPage<'_>, run: &LeafRun, at: usize, fields: &mut RecordFields) -> bool {
    let first = edges::copied(index, page, first(page), fields);
    let last = edges::copied(index, page, last(page), fields);
    let (number, key) = (at as u32, (index, index.layout.key_fields()));
    let (has_before, has_after) = (at > 0 || run.before.is_some(), at + 1 < run.tasks.len());
    let Some(mut edges) = run.edges() else { return true };
    (!has_before || edges.add(number, true, first, key)) && (!has_after || edges.add(number + 1, false, last, key))
}

/// Whether own pointer <= first key and last key < next pointer; if that is undecidable, `!is_decided`.
fn is_between(
    index: &IndexDef,
    page: &IndexPage<'_>,
    (own, after): (Option<&Father>, Option<&Father>),
    is_decided: bool,
    tools: &mut Tools,
) -> bool {
    let (style, count) = (page.style(), index.layout.key_fields());
    let [a, b] = &mut tools.fields;
    let mut holds = |father: Option<&Father>, edge: Option<Record<'_>>, right: fn(Ordering) -> bool| {
        let pointer = father.and_then(|father| Record::new(&father.image, father.origin, style, false));
        // The leftmost node pointer of a level is below every key.
        let (Some(pointer), Some(edge)) = (pointer.filter(|pointer| !pointer.is_min_rec()), edge) else { return true };
        let located = index.layout.locate(&pointer, a).and_then(|()| index.layout.locate(&edge, b));
        let order = located.ok().and_then(|()| compare_keys(index, count, (pointer.page(), a), (edge.page(), b)));
        order.map_or(!is_decided, right)
    };
    holds(own, first(page), Ordering::is_le) && holds(after, last(page), Ordering::is_gt)
}

fn first<'p>(page: &IndexPage<'p>) -> Option<Record<'p>> {
    page.records().next().and_then(Result::ok).filter(|record| !record.is_min_rec())
}

/// The last record, reached from the last but one slot of the directory, a few records away.
fn last<'p>(page: &IndexPage<'p>) -> Option<Record<'p>> {
    let slot = usize::from(page.slot_count()).checked_sub(2)?;
    let supremum = page.style().supremum();
    let mut record = page.record(page.slot(slot)?)?;
    // The page's own rules hold, so a slot owns at most 8 records.
    for _ in 0..16 {
        let next = record.next_origin();
        if next == supremum {
            let is_row = record.origin() != page.style().infimum() && !record.is_min_rec();
            return is_row.then_some(record);
        }
        record = page.record(next)?;
    }
    page.records().filter_map(Result::ok).last().filter(|last| !last.is_min_rec())
}
