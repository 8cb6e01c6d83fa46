//! Walks one tree from root to leaves: visits each page once and checks it against its own rules, its parent, its neighbours and its
//! segment.
//!
//! ```text
//! root -> queue of level n -> ... -> queue of level 0      a page's children join the queue of the level below
//!            \______ gather: the lowest queue first, the one above as soon as it runs low ______/
//! ```
//!
//! Pages of a level come in key order, so a page needs only its predecessor. Memory: the pages of a few parents whose children are still to
//! come, and one bit per page of the tablespace.

pub mod crew;
mod edges;
mod leaf_run;
mod limits;
mod order;
mod page;
mod rectangles;
mod sweep;
mod values;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::AddAssign;
use std::sync::Arc;

use flow::Gather;
use format::PageNo;
use format::fil::PageType;
use format::page::index::{IndexChecker, IndexPage};
use format::page::lob::LobReader;
use format::record::{RecordFields, RecordStyle};
use format::schema::{IndexDef, IndexKind};

use crate::tree::walk::limits::SweepLimits;

use super::linear::Linear;
use super::ranges::Reached;
use super::{Root, Rule, SpaceMap, TreeFinding};
use crate::report::watcher::Watcher;
use datadir::tablespace::{Opened, Opener, Tablespace};

/// No tree has more levels: with two entries per page, this many would need more pages than a tablespace can have.
const LEVELS_MAX: u16 = 32;
/// Read the level above when fewer pages than this are queued on a level.
const LOW: usize = 1024;
/// Pages of the level above in flight at a time.
const PARENTS_MAX: usize = 16;

/// Why a tree was not fully visited.
pub const STOPPED: &str = "the rest: the check was stopped";

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Check everything.
    Check,
    /// Only count records.
    Count,
}

/// Counts over a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeCounts {
    /// Pages, including the root.
    pub pages: u64,
    /// Of these, leaves.
    pub leaves: u64,
    /// Leaf records, except MariaDB's metadata record.
    pub records: u64,
    /// Of these, delete-marked.
    pub deleted: u64,
    /// Off-page values followed.
    pub off_page: u64,
    /// Pairs of neighbouring records whose order was checked.
    pub ordered: u64,
    /// Pairs of neighbouring records whose order cannot be decided.
    pub unordered: u64,
    /// Encrypted pages without a key.
    pub unverifiable: u64,
}

/// The result for one tree.
#[derive(Debug, Clone, Default)]
pub struct TreeReport {
    /// What it holds.
    pub counts: TreeCounts,
    /// The first findings.
    pub findings: Vec<TreeFinding>,
    /// Number of all findings.
    pub findings_total: u64,
    /// Pages with findings, kept or not; `true` if the page's content is lost, not just in conflict with other pages.
    pub hurt: BTreeMap<u32, bool>,
    /// Some rows have no entry here.
    pub lacks_entries: bool,
    /// Rows, included in the counts, that were read from leaves with untrustworthy content.
    pub doubtful: u64,
    /// Every page was visited: only then do the counts hold for the whole index.
    pub is_complete: bool,
    /// Entries matched with a row; `None` if they were not compared with rows.
    pub matched: Option<u64>,
    /// Checks that were not done, as clauses.
    pub left_out: Vec<&'static str>,
}

/// Damaged pages remembered per tree, at most.
const HURT_MAX: usize = 1 << 20;

impl TreeReport {
    /// Counts a finding and keeps it if it is among the first `findings_max`.
    pub fn add(&mut self, finding: TreeFinding, findings_max: usize) {
        self.findings_total += 1;
        if let Some(page_no) = finding.hurt_page().filter(|_| self.hurt.len() < HURT_MAX) {
            *self.hurt.entry(page_no).or_default() |= finding.is_loss();
        }
        if self.findings.len() < findings_max {
            self.findings.push(finding);
        }
    }
}

impl AddAssign for TreeCounts {
    fn add_assign(&mut self, other: Self) {
        let Self { pages, leaves, records, deleted, off_page, ordered, unordered, unverifiable } = other;
        self.pages += pages;
        self.leaves += leaves;
        self.records += records;
        self.deleted += deleted;
        self.off_page += off_page;
        self.ordered += ordered;
        self.unordered += unordered;
        self.unverifiable += unverifiable;
    }
}

/// Receives leaves: in key order from [`Walk::run`], in any order from [`Walk::sweep`].
pub trait Leaves {
    /// A leaf whose records were checked and are trusted.
    fn leaf(&mut self, page: &IndexPage<'_>, space: &Tablespace, opener: &mut Opener);
}

/// Makes one receiver per worker; together they receive each leaf once, even if a sweep ends early and the tree is walked again.
#[derive(Clone)]
pub struct Receivers<'c> {
    make: Arc<dyn Fn() -> Box<dyn Leaves + 'c> + Send + Sync + 'c>,
    received: Arc<Reached>,
}

impl<'c> Receivers<'c> {
    /// For leaves of a tablespace of `pages` pages.
    pub fn new(pages: u32, make: impl Fn() -> Box<dyn Leaves + 'c> + Send + Sync + 'c) -> Self {
        Self { make: Arc::new(make), received: Arc::new(Reached::new(pages)) }
    }
}

/// A worker's tools for walks.
#[derive(Debug, Default)]
pub struct Tools {
    /// Opens pages.
    pub opener: Opener,
    /// Checks pages against their own rules.
    pub checker: IndexChecker,
    /// May stop a walk early.
    pub watcher: Watcher,
    fields: [RecordFields; 2],
}

impl Tools {
    /// Tools for walks that `watcher` may stop early.
    #[must_use]
    pub fn watched(watcher: &Watcher) -> Self {
        Self { watcher: watcher.clone(), ..Self::default() }
    }
}

/// The node pointer to a page.
#[derive(Debug, Clone)]
struct Father {
    page_no: u32,
    origin: u16,
    image: Arc<[u8]>,
}

#[derive(Debug, Clone)]
struct Task {
    page_no: u32,
    father: Option<Father>,
}

/// The next step on a level: a page, or a gap of unreadable pages.
#[derive(Debug)]
enum LevelStep {
    Page(Task),
    Hole,
}

/// The previous page on the same level.
#[derive(Debug)]
enum Before {
    Start,
    Unknown,
    Page { page_no: u32, next: u32, image: Arc<[u8]>, last: Option<u16> },
}

#[derive(Debug)]
struct Level {
    queue: VecDeque<LevelStep>,
    asked: usize,
    before: Before,
}

/// An off-page value being read.
struct Value {
    reader: LobReader,
    /// The row it belongs to.
    page_no: u32,
    origin: u16,
    own: HashSet<u32>,
}

/// Requests in flight, in the order in which they complete.
enum Flight {
    Page(usize, Task),
    Hole(usize),
    Value(Box<Value>),
    /// A page of the tree's segments that nothing pointed to.
    Stray(u32, u64),
    /// A leaf of a sweep, by its index in the stretch.
    Leaf(u32),
}

/// The walk of one tree.
pub struct Walk<'w> {
    space: &'w Tablespace,
    map: &'w SpaceMap,
    root: &'w Root,
    index: Option<&'w IndexDef>,
    depth: Depth,
    findings_max: usize,
    levels: Vec<Level>,
    values: VecDeque<Box<Value>>,
    flight: VecDeque<Flight>,
    reached: Arc<Reached>,
    leaves: Option<Box<dyn Leaves + 'w>>,
    /// Leaves not to pass on again.
    received: Option<Arc<Reached>>,
    report: TreeReport,
    /// Set if leaves are read in file order.
    sweep: Option<SweepLimits>,
    /// The linear read-ahead model, if requested.
    linear: Option<Linear>,
}

impl<'w> Walk<'w> {
    /// A walk from `root`. Without `index`, rules that need the fields of records are skipped.
    #[must_use]
    pub fn new(
        place: (&'w Tablespace, &'w SpaceMap),
        root: &'w Root,
        index: Option<&'w IndexDef>,
        depth: Depth,
        findings_max: usize,
    ) -> Self {
        let reached = Arc::new(Reached::new(place.0.pages()));
        let mut walk = Self::below(place, root, index, (depth, findings_max), reached);
        let level = || Level { queue: VecDeque::new(), asked: 0, before: Before::Start };
        walk.levels = (0..=root.level.min(LEVELS_MAX)).map(|_| level()).collect();
        walk
    }

    /// A walk that shares its visited pages with others, and only checks leaves that it is given.
    fn below(
        (space, map): (&'w Tablespace, &'w SpaceMap),
        root: &'w Root,
        index: Option<&'w IndexDef>,
        (depth, findings_max): (Depth, usize),
        reached: Arc<Reached>,
    ) -> Self {
        Self {
            space,
            map,
            root,
            index,
            depth,
            findings_max,
            levels: Vec::new(),
            values: VecDeque::new(),
            flight: VecDeque::new(),
            reached,
            leaves: None,
            received: None,
            report: TreeReport { is_complete: true, ..TreeReport::default() },
            sweep: None,
            linear: None,
        }
    }

    /// Passes the leaves to `leaves` as well.
    #[must_use]
    pub fn seen_by(mut self, leaves: Option<Box<dyn Leaves + 'w>>) -> Self {
        self.leaves = leaves;
        self
    }

    /// Passes the leaves to a new receiver, except those that any of `receivers` has received before.
    #[must_use]
    pub fn received_by<'c: 'w>(mut self, receivers: Option<&Receivers<'c>>) -> Self {
        self.leaves = receivers.map(|receivers| (receivers.make)() as Box<dyn Leaves + 'w>);
        self.received = receivers.map(|receivers| Arc::clone(&receivers.received));
        self
    }

    /// The counts so far.
    fn counts(&self) -> TreeCounts {
        self.report.counts
    }

    /// Whether node pointers can be read: records of the newer formats do not say where their fields end.
    #[must_use]
    pub fn can_descend(root: &Root, index: Option<&IndexDef>) -> bool {
        root.level == 0 || index.is_some() || root.style == RecordStyle::Redundant
    }

    /// Walks the tree.
    #[must_use]
    pub fn run(mut self, gather: &mut Gather<'_>, tools: &mut Tools) -> TreeReport {
        if self.root.level > LEVELS_MAX {
            let (found, most) = (u64::from(self.root.level), u64::from(LEVELS_MAX));
            self.report(TreeFinding::new(Rule::Level, self.root.page_no, found, most));
            self.report.is_complete = false;
            return self.report;
        }
        self.linear = Linear::of(gather.ahead());
        let top = usize::from(self.root.level);
        self.hang(top, Task { page_no: self.root.page_no, father: None });
        self.drain(gather, tools);
        if tools.watcher.is_stopped() {
            return self.report;
        }
        for level in 0..=top {
            self.end_level(level);
        }
        if self.depth == Depth::Check {
            self.strays(gather, tools);
            self.say_what_was_left_out();
        }
        self.report
    }

    fn drain(&mut self, gather: &mut Gather<'_>, tools: &mut Tools) {
        loop {
            if tools.watcher.is_stopped() {
                return self.abandon(gather);
            }
            self.feed(gather);
            let Some(flight) = self.flight.pop_front() else { return };
            if let Flight::Hole(level) = flight {
                self.hole(level);
                continue;
            }
            let Some(item) = gather.next() else { return };
            let lost = item.lost.map(|error| self.space.lost_why(item.want.tag as u32, error));
            match flight {
                Flight::Page(level, task) => self.arrive(level, &task, item.bytes, lost.as_deref(), tools),
                Flight::Value(value) => self.value(value, item.bytes, lost.as_deref(), tools),
                Flight::Stray(page_no, segment) => self.stray(page_no, segment, item.bytes, tools),
                Flight::Hole(_) | Flight::Leaf(_) => {}
            }
        }
    }

    /// Leaves the rest of the tree unread, and drains the queue for the next walk.
    fn abandon(&mut self, gather: &mut Gather<'_>) {
        while gather.next().is_some() {}
        self.flight.clear();
        self.values.clear();
        self.levels.iter_mut().for_each(|level| level.queue.clear());
        self.report.is_complete = false;
        self.leave_out(STOPPED);
    }

    fn report(&mut self, finding: TreeFinding) {
        self.report.add(finding, self.findings_max);
    }

    fn feed(&mut self, gather: &mut Gather<'_>) {
        while gather.has_room() || self.is_guessed() {
            if self.ask_for_value(gather) {
                continue;
            }
            let Some(number) = self.pick(0).filter(|number| *number > 0 || self.sweep.is_none()) else { return };
            let Some(level) = self.levels.get_mut(number) else { return };
            match level.queue.pop_front() {
                Some(LevelStep::Page(task)) => {
                    if let Some(want) = self.space.want(task.page_no) {
                        level.asked += 1;
                        gather.ask(want);
                        self.flight.push_back(Flight::Page(number, task));
                    }
                }
                Some(LevelStep::Hole) => self.flight.push_back(Flight::Hole(number)),
                None => return,
            }
        }
    }

    /// Whether the next page was predicted, and so will be read before it is needed.
    fn is_guessed(&self) -> bool {
        let Some(linear) = &self.linear else { return false };
        let next = self.pick(0).and_then(|number| self.levels.get(number)?.queue.front());
        matches!(next, Some(LevelStep::Page(task)) if linear.has_guessed(task.page_no))
    }

    /// The level from which to read the next page: this one, or one above that must come first.
    fn pick(&self, number: usize) -> Option<usize> {
        let level = self.levels.get(number)?;
        let above = self.levels.get(number + 1).filter(|above| above.asked < PARENTS_MAX);
        let is_enough = match &self.sweep {
            Some(sweep) if number == 0 => self.is_stretched(sweep, level.queue.len()),
            _ => level.queue.len() >= LOW,
        };
        if !is_enough && above.is_some() {
            let picked = self.pick(number + 1);
            if picked.is_some() {
                return picked;
            }
        }
        (!level.queue.is_empty()).then_some(number)
    }

    /// Queues a page below its parent unless it is out of range or was visited before: cycles end here.
    fn hang(&mut self, number: usize, task: Task) {
        let page_no = task.page_no;
        let (at, origin) = task.father.as_ref().map_or((page_no, None), |father| (father.page_no, Some(father.origin)));
        let about = |rule, expected| {
            let finding = TreeFinding::new(rule, at, u64::from(page_no), expected);
            if let Some(origin) = origin { finding.at(origin) } else { finding }
        };
        let wrong = if page_no >= self.space.pages() {
            Some(about(Rule::MissingPage, u64::from(self.space.pages())))
        } else if !self.reach(page_no) {
            Some(about(Rule::TwiceLinked, 0))
        } else {
            None
        };
        let step = match wrong {
            Some(finding) => {
                self.report(finding);
                LevelStep::Hole
            }
            None => {
                self.belongs(number, page_no);
                LevelStep::Page(task)
            }
        };
        if let Some(level) = self.levels.get_mut(number) {
            level.queue.push_back(step);
        }
    }

    /// Marks a page. Returns whether this is the first visit.
    fn reach(&self, page_no: u32) -> bool {
        self.reached.mark(page_no)
    }

    fn is_reached(&self, page_no: u32) -> bool {
        self.reached.has(page_no)
    }

    /// Checks that the page belongs to the tree's segment.
    fn belongs(&mut self, level: usize, page_no: u32) {
        if self.depth == Depth::Count {
            return;
        }
        match self.map.is_free(page_no) {
            None => return,
            Some(true) => return self.report(TreeFinding::new(Rule::FreedPage, page_no, 0, 0)),
            Some(false) => {}
        }
        let is_leaf = level == 0 && page_no != self.root.page_no;
        let expected = if is_leaf { self.root.leaf_segment } else { self.root.top_segment };
        let Some(expected) = expected else { return };
        let owner = self.map.owner(page_no);
        if owner != Some(expected) {
            self.report(TreeFinding::new(Rule::OtherSegment, page_no, owner.unwrap_or(0), expected));
        }
    }

    /// Records a gap: unreadable pages of a level, and everything below them.
    fn hole(&mut self, number: usize) {
        self.report.is_complete = false;
        if let Some(level) = self.levels.get_mut(number) {
            level.before = Before::Unknown;
        }
        let below = number.checked_sub(1).and_then(|below| self.levels.get_mut(below));
        if let Some(below) = below {
            below.queue.push_back(LevelStep::Hole);
        }
    }

    fn end_level(&mut self, number: usize) {
        let Some(level) = self.levels.get_mut(number) else { return };
        let before = std::mem::replace(&mut level.before, Before::Unknown);
        let is_rtree = self.index.is_some_and(|index| index.kind == IndexKind::Spatial);
        if let Before::Page { page_no, next, .. } = before
            && next != PageNo::NONE.0
            && !is_rtree
            && !self.root_is_rtree()
        {
            let finding = TreeFinding::new(Rule::SiblingNext, page_no, u64::from(next), u64::from(PageNo::NONE.0));
            self.report(finding);
        }
    }

    fn root_is_rtree(&self) -> bool {
        self.root.page_type == PageType::RTREE
    }

    fn leave_out(&mut self, what: &'static str) {
        if !self.report.left_out.contains(&what) {
            self.report.left_out.push(what);
        }
    }

    fn say_what_was_left_out(&mut self) {
        if self.index.is_none() {
            self.leave_out("fields and the order of keys: no definition of the table was found");
        } else if self.report.counts.unordered > 0 && !self.root_is_rtree() {
            self.leave_out("the order of some keys: innokit does not know their collation");
        }
    }
}
