//! A worker's reader: turns a range of a tree's leaves into batches of rows.
//!
//! ```text
//! units (pages of level 1, or leaves) -> gather -> parent: its children join the queue of leaves
//!                                               -> leaf: records -> cells; off-page values are requested -> Batch, once all have arrived
//! ```

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flow::Gather;
use format::PageNo;
use format::page::index::IndexPage;
use format::page::lob::LobReader;
use format::record::shape::{RecordShapes, ShapeField};
use format::record::{Record, RecordFields};
use format::value::compressed;

use super::batch::{Batch, Row, ValuePlace};
use super::leaf::Builder;
use super::plan::RowPlan;
use crate::tree::ranges::{PageInTree, Pointer, Ranges, Reached, children, inner_page, pointers};
use datadir::stop;
use datadir::tablespace::{Opener, Tablespace};

/// Bytes of off-page values that a worker fetches at a time, unless a single row has more.
pub const FETCHED_MAX: u64 = 16 << 20;
/// Request the next parent when fewer leaves than this are queued.
const LEAVES_LOW: usize = 256;

/// What to do if a page or row cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDamage {
    /// Stop there.
    Stop,
    /// Report it and continue.
    Skip,
}

/// Which rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those present.
    Live,
    /// Deleted ones, as long as their bytes are still there.
    Deleted,
    /// Whatever is on pages that the tree has given up: a DELETE of a range frees whole pages.
    GivenUp,
}

/// Rows that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The page.
    pub page_no: u32,
    /// The record, if it is about one.
    pub record: Option<u16>,
    /// Which rows are missing, if known: `the rows from id = 5 to before id = 90`.
    pub keys: Option<String>,
    /// Why, as a clause; if it is about no record, the clause names the page.
    pub why: String,
    /// The kind of problem.
    pub kind: ProblemKind,
}

impl Problem {
    /// A value of a row that cannot be read, by the number of its column in the plan.
    pub(crate) fn of_value(row: &Row<'_>, plan: &RowPlan, column: usize, why: &impl std::fmt::Display) -> Self {
        let name = plan.columns.get(column).map_or("", |column| column.name.as_str());
        Self {
            page_no: row.page_no(),
            record: Some(row.origin()),
            keys: Some("one row".to_owned()),
            why: format!("column {name}: {why}"),
            kind: ProblemKind::Rows,
        }
    }
}

/// What could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// Rows.
    Rows,
    /// A page above the leaves: rows below it may be on sound pages.
    Inner,
    /// The committed version of a row, which is in an undo log. This is not damage.
    Uncommitted,
}

/// Reads rows, on its worker's thread.
pub struct RowReader<'r, 'f> {
    /// The tablespace.
    pub space: &'r Tablespace,
    /// How to read.
    pub plan: &'r Arc<RowPlan>,
    /// See [`RowPlan::fields_on_page`].
    pub on_page: Option<&'r [u16]>,
    /// The shapes of its rows, each with the places of these fields.
    pub shapes: Option<&'r mut RecordShapes<Option<Vec<ShapeField>>>>,
    /// The pages visited by all workers.
    pub reached: &'r Reached,
    /// Which rows to read.
    pub wanted: Wanted,
    /// What to do about damage.
    pub on_damage: OnDamage,
    /// Reads the pages.
    pub gather: &'r mut Gather<'f>,
    /// Opens the pages.
    pub opener: &'r mut Opener,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Ends the reading once it is set.
    pub stop: Option<&'r AtomicBool>,
}

/// A leaf waiting to be read.
pub(super) struct Leaf {
    pub page_no: u32,
    pub pointer: Option<Pointer>,
}

pub(super) enum Flight {
    Parent(u32),
    Leaf(Leaf),
    /// A page of an off-page value, by the batch's number and the value's index.
    Value(u64, usize),
}

/// An off-page value being read.
pub(super) struct Value {
    pub reader: LobReader,
    /// The cell it belongs to.
    pub place: usize,
    /// Its prefix on the leaf.
    pub local: (u32, u32),
    pub packed: bool,
}

/// A batch that waits for off-page values.
pub(super) struct Pending {
    pub number: u64,
    pub batch: Batch,
    pub values: Vec<Option<Value>>,
    pub missing: usize,
    pub bytes: u64,
    pub started: bool,
}

/// The state while reading one range.
#[derive(Default)]
pub(super) struct Walk {
    pub leaves: VecDeque<Leaf>,
    pub flight: VecDeque<Flight>,
    pub parents: usize,
    pub pending: VecDeque<Pending>,
    /// Pages of off-page values to request.
    pub pages: VecDeque<(u64, usize)>,
    pub fetching: u64,
    pub number: u64,
    pub fields: RecordFields,
    /// A delivered batch, kept for its memory.
    pub spare: Option<Batch>,
}

impl Walk {
    /// An empty batch.
    pub fn batch(&mut self, plan: &Arc<RowPlan>, image: Arc<[u8]>, page_no: u32) -> Batch {
        match self.spare.take() {
            Some(mut batch) => {
                batch.renew(image, page_no);
                batch
            }
            None => Batch::new(Arc::clone(plan), image, page_no),
        }
    }
}

/// Receives the rows.
pub trait Rows {
    /// Rows in key order; `Break` stops reading.
    fn batch(&mut self, batch: &Batch) -> ControlFlow<()>;

    /// Offers a row's record before it joins a batch; it must end at or before byte `limit` of its page. Returns `true` if it was consumed
    /// and must not join one.
    fn record(&mut self, record: &Record<'_>, limit: usize) -> bool;
}

impl RowReader<'_, '_> {
    /// Reads all rows of one of the tree's ranges and passes them on.
    pub fn read(&mut self, ranges: &Ranges, range: Range<usize>, rows: &mut dyn Rows) -> ControlFlow<()> {
        let mut walk = Walk::default();
        let units = ranges.units.get(range.clone()).unwrap_or(&[]);
        let pointers = ranges.pointers.get(range).unwrap_or(&[]).iter().cloned().map(Some);
        let mut units = units.iter().copied().zip(pointers.chain(std::iter::repeat(None)));
        let outcome = self.run(&mut walk, &mut units, ranges.level, rows);
        // The next read must start with nothing in flight.
        while self.gather.next().is_some() {}
        outcome
    }

    fn run(
        &mut self,
        walk: &mut Walk,
        units: &mut dyn Iterator<Item = (u32, Option<Pointer>)>,
        level: u16,
        rows: &mut dyn Rows,
    ) -> ControlFlow<()> {
        loop {
            if self.stop.is_some_and(stop::is_told) {
                return ControlFlow::Break(());
            }
            self.deliver(walk, rows)?;
            self.feed(walk, units, level);
            let Some(flight) = walk.flight.pop_front() else {
                if walk.pending.is_empty() {
                    return ControlFlow::Continue(());
                }
                continue;
            };
            let Some(item) = self.gather.next() else { return ControlFlow::Continue(()) };
            let page_no = item.want.tag as u32;
            let lost = item.lost.map(|error| self.space.lost(page_no, error));
            let opened = match lost {
                Some(why) => Err(why),
                None => self.space.opened(page_no, item.bytes, self.opener),
            };
            match flight {
                Flight::Parent(page_no) => {
                    walk.parents -= 1;
                    self.parent(walk, page_no, opened)?;
                }
                Flight::Leaf(leaf) => self.leaf(walk, &leaf, opened, rows)?,
                Flight::Value(number, value) => self.value(walk, number, value, opened),
            }
        }
    }

    /// Requests the next pages: off-page values first, because batches wait for them.
    fn feed(&mut self, walk: &mut Walk, units: &mut dyn Iterator<Item = (u32, Option<Pointer>)>, level: u16) {
        self.start_values(walk);
        while self.gather.has_room() {
            if let Some((number, value)) = walk.pages.pop_front() {
                self.ask_for_value(walk, number, value);
                continue;
            }
            let is_full = walk.pending.iter().any(|pending| !pending.started);
            if is_full {
                return;
            }
            if (walk.leaves.len() < LEAVES_LOW && walk.parents == 0 || walk.leaves.is_empty())
                && let Some(unit) = units.next()
            {
                self.ask_for_unit(walk, unit, level);
                continue;
            }
            let Some(leaf) = walk.leaves.pop_front() else { return };
            if let Some(want) = self.space.want(leaf.page_no) {
                self.gather.ask(want);
                walk.flight.push_back(Flight::Leaf(leaf));
            }
        }
    }

    fn ask_for_unit(&mut self, walk: &mut Walk, (page_no, pointer): (u32, Option<Pointer>), level: u16) {
        if level == 0 {
            self.reached.mark(page_no);
            return walk.leaves.push_back(Leaf { page_no, pointer });
        }
        if let Some(want) = self.space.want(page_no) {
            self.gather.ask(want);
            walk.parents += 1;
            walk.flight.push_back(Flight::Parent(page_no));
        }
    }

    fn ask_for_value(&mut self, walk: &mut Walk, number: u64, value: usize) {
        let Some(pending) = walk.pending.iter_mut().find(|pending| pending.number == number) else { return };
        let Some(Some(wanted)) = pending.values.get(value) else { return };
        let Some(PageNo(page_no)) = wanted.reader.wants() else { return };
        match self.space.want(page_no) {
            Some(want) => {
                self.gather.ask(want);
                walk.flight.push_back(Flight::Value(number, value));
            }
            None => {
                pending.lose(value, format!("its off-page value leads to page {page_no}, which is not in the file"))
            }
        }
    }

    pub(super) fn report(&mut self, problem: Problem) -> ControlFlow<()> {
        self.problems.push(problem);
        match self.on_damage {
            OnDamage::Stop => ControlFlow::Break(()),
            OnDamage::Skip => ControlFlow::Continue(()),
        }
    }

    fn parent(&mut self, walk: &mut Walk, page_no: u32, opened: Result<Arc<[u8]>, String>) -> ControlFlow<()> {
        let read = opened.and_then(|image| {
            let page = inner_page(&image, self.space, PageInTree { page_no, level: 1, index_id: self.plan.index_id })?;
            let mut children = children(&page, &self.plan.index, self.space.pages())?;
            if let Some(keys) = &self.plan.keys {
                children = keys.children(&page, &self.plan.index, children);
            }
            Ok((Arc::clone(&image), children))
        });
        let (image, children) = match read {
            Ok(read) => read,
            Err(why) => {
                let keys = Some("all rows below it".to_owned());
                return self.report(Problem { page_no, record: None, keys, why, kind: ProblemKind::Inner });
            }
        };
        for (page_no, pointer) in pointers(&image, &children) {
            if self.reached.mark(page_no) {
                walk.leaves.push_back(Leaf { page_no, pointer: Some(pointer) });
                continue;
            }
            let why = format!("two node pointers lead to page {page_no}");
            let (page_no, record) = (image_page_no(&image), Some(pointer.origin));
            self.report(Problem { page_no, record, keys: None, why, kind: ProblemKind::Rows })?;
        }
        ControlFlow::Continue(())
    }

    fn leaf(
        &mut self,
        walk: &mut Walk,
        leaf: &Leaf,
        opened: Result<Arc<[u8]>, String>,
        rows: &mut dyn Rows,
    ) -> ControlFlow<()> {
        let checked = opened.and_then(|image| {
            inner_page(
                &image,
                self.space,
                PageInTree { page_no: leaf.page_no, level: 0, index_id: self.plan.index_id },
            )
            .map(|page| page.style())?;
            Ok(image)
        });
        let image = match checked {
            Ok(image) => image,
            Err(why) => {
                let keys = self.keys_below(leaf);
                return self.report(Problem {
                    page_no: leaf.page_no,
                    record: None,
                    keys,
                    why,
                    kind: ProblemKind::Rows,
                });
            }
        };
        let Ok(page) = IndexPage::parse(&image, &self.space.format) else { return ControlFlow::Continue(()) };
        let mut builder = Builder::new(self, walk, rows, (Arc::clone(&image), leaf.page_no));
        let ended = builder.records(&page, leaf);
        builder.finish();
        ended
    }

    /// The key range of a leaf's rows, from the node pointers around it.
    pub(super) fn keys_below(&self, leaf: &Leaf) -> Option<String> {
        let pointer = leaf.pointer.as_ref()?;
        let style = IndexPage::parse(&pointer.image, &self.space.format).ok()?.style();
        let first = self.plan.key_text(&pointer.record(style)?).unwrap_or_else(|| "the first".to_owned());
        let next = pointer.next.map(|origin| Pointer { origin, ..pointer.clone() });
        let next = next.and_then(|next| self.plan.key_text(&next.record(style)?));
        Some(match next {
            Some(next) => format!("the rows from {first} to before {next}"),
            None => format!("the rows from {first} on, up to those of the next page"),
        })
    }

    fn start_values(&mut self, walk: &mut Walk) {
        for pending in walk.pending.iter_mut().filter(|pending| !pending.started) {
            if walk.fetching > 0 && walk.fetching + pending.bytes > FETCHED_MAX {
                return;
            }
            pending.started = true;
            walk.fetching += pending.bytes;
            walk.pages.extend((0..pending.values.len()).map(|value| (pending.number, value)));
        }
    }

    fn value(&mut self, walk: &mut Walk, number: u64, at: usize, opened: Result<Arc<[u8]>, String>) {
        let Some(pending) = walk.pending.iter_mut().find(|pending| pending.number == number) else { return };
        let Some(Some(value)) = pending.values.get_mut(at) else { return };
        let page_no = value.reader.wants();
        let taken = opened.and_then(|image| {
            // A page may hold several pieces of the value.
            while page_no.is_some() && value.reader.wants() == page_no {
                value.reader.take(&image).map_err(|damage| damage.to_string())?;
            }
            Ok(value.reader.wants().is_some())
        });
        match taken {
            Ok(true) => walk.pages.push_back((number, at)),
            Ok(false) => pending.complete(at),
            Err(why) => pending.lose(at, why),
        }
    }

    /// Delivers the complete batches, in order.
    fn deliver(&mut self, walk: &mut Walk, rows: &mut dyn Rows) -> ControlFlow<()> {
        while walk.pending.front().is_some_and(|pending| pending.missing == 0) {
            let Some(pending) = walk.pending.pop_front() else { break };
            if pending.started {
                walk.fetching -= pending.bytes;
            }
            rows.batch(&pending.batch)?;
            walk.spare = Some(pending.batch.without_page());
        }
        ControlFlow::Continue(())
    }
}

impl Pending {
    fn lose(&mut self, at: usize, why: String) {
        let Some(value) = self.values.get_mut(at).and_then(Option::take) else { return };
        self.missing -= 1;
        let number = self.batch.lost.len() as u32;
        self.batch.lost.push(why);
        if let Some(place) = self.batch.places.get_mut(value.place) {
            *place = ValuePlace::Lost(number);
        }
    }

    fn complete(&mut self, at: usize) {
        let Some(value) = self.values.get_mut(at).and_then(Option::take) else { return };
        self.missing -= 1;
        let (local_start, local_len) = (value.local.0 as usize, value.local.1 as usize);
        let image = Arc::clone(&self.batch.image);
        let local = image.get(local_start..local_start + local_len).unwrap_or(&[]);
        let mut whole = value.reader.into_value();
        // The prefix on the leaf has at most 768 bytes, the rest may have gigabytes.
        whole.splice(0..0, local.iter().copied());
        let place = if value.packed {
            let mut plain = Vec::new();
            match compressed::unpack(&whole, &mut plain) {
                Ok(()) => self.batch.keep_whole(plain),
                Err(why) => {
                    self.batch.lost.push(why.to_string());
                    ValuePlace::Lost(self.batch.lost.len() as u32 - 1)
                }
            }
        } else {
            self.batch.keep_whole(whole)
        };
        if let Some(slot) = self.batch.places.get_mut(value.place) {
            *slot = place;
        }
    }
}

fn image_page_no(image: &[u8]) -> u32 {
    format::fil::page_no(image).map_or(0, |page_no| page_no.0)
}
