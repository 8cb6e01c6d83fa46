//! The leaves in the order of the file: a fragmented tree at the speed of a file read from start to end.
//!
//! ```text
//! parents (key order) -> leaves of some thousand parents -> sorted by page -> gather (large requests) -> each leaf by itself
//!                                                                    any doubt -> None: the walk in key order finds what it is
//! ```
//!
//! A leaf needs no neighbour to be held against it once all parents around it are known: its links must name the leaves before and
//! after it in the parents' order, its first key must not be below its node pointer, and its last key must be below the node pointer
//! that follows. If this holds for all leaves, then the keys of the whole level ascend.
//!
//! Memory: the parents and [`LEAF_BYTES`] a leaf, as much as the caller allows; the leaves are read in as many sweeps as that takes.

use std::cmp::Ordering;

use flow::Gather;
use format::PageNo;
use format::page::fil::PageType;
use format::page::index::IndexPage;
use format::record::Record;
use format::schema::{IndexDef, compare_keys};

use super::{Depth, Father, Flight, LEVELS_MAX, LevelStep, Task, Tools, TreeReport, Walk};

/// What is known of a leaf before it is read: its task, in the queue and in the stretch, and its place in the order.
const LEAF_BYTES: usize = 2 * size_of::<LevelStep>() + size_of::<(u32, u32)>();

/// Parents that are held even where memory is short: one of each level of a tree of four.
const PARENTS_MIN: u64 = 3;

/// How much of the level above is taken at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep {
    /// Leaves that are known at a time.
    pub leaves_max: usize,
    /// Pages above them that are held.
    parents_max: u64,
    /// Pages above the leaves that were read for earlier sweeps.
    parents_before: u64,
}

/// A stretch of the level of the leaves, in key order.
struct LeafRun {
    tasks: Vec<Task>,
    /// The leaf before the first of them.
    before: Option<u32>,
    /// How many are to be looked at: all but the last one, if more follow in the next stretch.
    count: usize,
}

impl Walk<'_> {
    /// Goes through the tree like [`Walk::run`], but reads the leaves in the order in which they lie in the file, with `memory` bytes
    /// for what must be known of them. `None`: something is not as it should be, or could not be told, and the walk in key order has to
    /// find out what.
    #[must_use]
    pub fn sweep(mut self, gather: &mut Gather<'_>, tools: &mut Tools, memory: u64) -> Option<TreeReport> {
        // The rectangles of an R-tree are held against the parent of each page, whose leaves have no order.
        if self.root.level == 0 || self.root.level > LEVELS_MAX || self.root_is_rtree() {
            return None;
        }
        let swept = self.swept(gather, tools, memory);
        // The next walk starts with nothing in flight.
        while gather.next().is_some() {}
        swept.then_some(self.report)
    }

    /// Whether all is well.
    fn swept(&mut self, gather: &mut Gather<'_>, tools: &mut Tools, memory: u64) -> bool {
        let page = u64::from(self.space.format.logical().get());
        let leaves_max = usize::try_from(memory / 2 / LEAF_BYTES as u64).unwrap_or(usize::MAX).max(64);
        self.sweep = Some(Sweep { leaves_max, parents_max: (memory / 2 / page).max(PARENTS_MIN), parents_before: 0 });
        let top = usize::from(self.root.level);
        self.hang(top, Task { page_no: self.root.page_no, father: None });
        let mut before = None;
        loop {
            self.drain(gather, tools);
            let Some(stretch) = self.stretch(before) else { return false };
            if stretch.tasks.is_empty() {
                break;
            }
            before = stretch.count.checked_sub(1).and_then(|last| stretch.tasks.get(last)).map(|task| task.page_no);
            if self.is_doubtful() || !self.leaves(&stretch, gather, tools) {
                return false;
            }
            let rest = stretch.tasks.into_iter().skip(stretch.count).map(LevelStep::Page);
            if let Some(level) = self.levels.first_mut() {
                level.queue.extend(rest);
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

    fn is_doubtful(&self) -> bool {
        self.report.findings_total > 0 || !self.report.is_complete
    }

    fn parents(&self) -> u64 {
        self.report.counts.pages - self.report.counts.leaves
    }

    /// Whether enough leaves are known for a sweep over them.
    pub(super) fn is_stretched(&self, sweep: &Sweep, leaves: usize) -> bool {
        let asked = self.levels.get(1).map_or(0, |level| level.asked as u64);
        leaves >= sweep.leaves_max || self.parents() + asked - sweep.parents_before >= sweep.parents_max
    }

    /// All leaves that are known; `None` where some are not.
    fn stretch(&mut self, before: Option<u32>) -> Option<LeafRun> {
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
        // Where nothing but the last one is known, it would go round for ever.
        (count > 0 || !more).then_some(LeafRun { tasks, before, count })
    }

    /// The leaves of a stretch, by their places in the file; whether all is well.
    fn leaves(&mut self, stretch: &LeafRun, gather: &mut Gather<'_>, tools: &mut Tools) -> bool {
        let mut order: Vec<(u32, u32)> =
            stretch.tasks.iter().take(stretch.count).map(|task| task.page_no).zip(0_u32..).collect();
        order.sort_unstable();
        let mut order = order.into_iter();
        loop {
            while gather.has_room() {
                if self.ask_for_value(gather) {
                    continue;
                }
                let Some((page_no, at)) = order.next() else { break };
                let Some(want) = self.space.want(page_no) else { return false };
                gather.ask(want);
                self.flight.push_back(Flight::Leaf(at));
            }
            let Some(flight) = self.flight.pop_front() else { return true };
            let Some(item) = gather.next() else { return false };
            let lost = item.lost.map(|error| crate::source::datadir::plain(error));
            let well = match flight {
                Flight::Leaf(at) => self.leaf(stretch, at as usize, item.bytes, lost.as_deref(), tools),
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

    /// One leaf against its own rules, its place among the others, and the node pointers around it.
    fn leaf(&mut self, stretch: &LeafRun, at: usize, bytes: &[u8], lost: Option<&str>, tools: &mut Tools) -> bool {
        let Some(task) = stretch.tasks.get(at) else { return false };
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
        let before = at.checked_sub(1).and_then(|at| stretch.tasks.get(at)).map(|task| task.page_no);
        let after = stretch.tasks.get(at + 1);
        let links = (page.prev().map(|PageNo(prev)| prev), page.next().map(|PageNo(next)| next));
        if links != (before.or(stretch.before), after.map(|task| task.page_no)) {
            return false;
        }
        if is_count {
            return true;
        }
        let pointers = (task.father.as_ref(), after.and_then(|task| task.father.as_ref()));
        self.index.is_none_or(|index| is_between(index, &page, pointers, tools))
    }
}

/// Whether own pointer <= first key, and last key < the pointer after it; `false` where nobody can tell.
fn is_between(
    index: &IndexDef,
    page: &IndexPage<'_>,
    (own, after): (Option<&Father>, Option<&Father>),
    tools: &mut Tools,
) -> bool {
    let (style, count) = (page.style(), index.layout.key_fields());
    let [a, b] = &mut tools.fields;
    let mut holds = |father: Option<&Father>, edge: Option<Record<'_>>, right: fn(Ordering) -> bool| {
        let pointer = father.and_then(|father| Record::new(&father.image, father.origin, style, false));
        // The lowest node pointer of a level is below everything.
        let (Some(pointer), Some(edge)) = (pointer.filter(|pointer| !pointer.is_min_rec()), edge) else { return true };
        let located = index.layout.locate(&pointer, a).and_then(|()| index.layout.locate(&edge, b));
        let order = located.ok().and_then(|()| compare_keys(index, count, (pointer.page(), a), (edge.page(), b)));
        order.is_some_and(right)
    };
    holds(own, first(page), Ordering::is_le) && holds(after, last(page), Ordering::is_gt)
}

fn first<'p>(page: &IndexPage<'p>) -> Option<Record<'p>> {
    page.records().next().and_then(Result::ok).filter(|record| !record.is_min_rec())
}

/// The last record, found from the last but one slot of the directory, whose records are few.
fn last<'p>(page: &IndexPage<'p>) -> Option<Record<'p>> {
    let slot = usize::from(page.slot_count()).checked_sub(2)?;
    let supremum = page.style().supremum();
    let mut record = page.record(page.slot(slot)?)?;
    // The page's own rules hold: a slot owns no more than 8 records.
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
