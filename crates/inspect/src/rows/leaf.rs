//! From a leaf to batches of rows: turns each record's fields into cells and requests off-page values.

use std::ops::ControlFlow;
use std::sync::Arc;

use format::page::index::IndexPage;
use format::page::lob::{LobReader, Reference};
use format::record::shape::{RecordShape, ShapeField, Span};
use format::record::{Record, RecordFields, Slot, Stored};
use format::value::compressed;

use super::batch::{Batch, Head, RowState, ValuePlace};
use super::plan::{Owner, RowPlan};
use super::reader::{FETCHED_MAX, Leaf, OnDamage, Pending, Problem, ProblemKind, RowReader, Rows, Value, Walk, Wanted};

const REFERENCE_BYTES: usize = 20;

/// Builds the batches of a leaf.
pub(super) struct Builder<'b, 'r, 'f> {
    reader: &'b mut RowReader<'r, 'f>,
    walk: &'b mut Walk,
    rows: &'b mut dyn Rows,
    batch: Batch,
    values: Vec<Option<Value>>,
    bytes: u64,
    /// Whether every live row is wanted, whatever is in it.
    takes_all: bool,
}

impl<'b, 'r, 'f> Builder<'b, 'r, 'f> {
    pub(super) fn new(
        reader: &'b mut RowReader<'r, 'f>,
        walk: &'b mut Walk,
        rows: &'b mut dyn Rows,
        (image, page_no): (Arc<[u8]>, u32),
    ) -> Self {
        let batch = walk.batch(reader.plan, image, page_no);
        let plan = reader.plan;
        let takes_all =
            reader.wanted == Wanted::Live && plan.until.is_none() && plan.keys.is_none() && plan.open.is_none();
        Self { reader, walk, rows, batch, values: Vec::new(), bytes: 0, takes_all }
    }

    pub(super) fn records(&mut self, page: &IndexPage<'_>, leaf: &Leaf) -> ControlFlow<()> {
        let wanted = self.reader.wanted;
        if wanted == Wanted::GivenUp {
            self.freed(page, page.records().map_while(Result::ok))?;
            return self.freed(page, page.free_records().map_while(Result::ok));
        }
        let (mut count, limit) = (0_u16, usize::from(page.heap_top()));
        for record in page.records() {
            let record = match record {
                Ok(record) => record,
                Err(why) => {
                    let keys = self.reader.keys_below(leaf).map(|keys| format!("some of {keys}"));
                    return self.reader.report(Problem {
                        page_no: leaf.page_no,
                        record: None,
                        keys,
                        why: format!("page {}: {why}", leaf.page_no),
                        kind: ProblemKind::Rows,
                    });
                }
            };
            count = count.saturating_add(1);
            // A row whose deletion is not committed still exists.
            let is_asked = self.reader.plan.open.is_some() && record.is_deleted();
            let is_wanted = record.is_deleted() == (wanted == Wanted::Deleted) || is_asked;
            if !record.is_metadata() && is_wanted {
                let state = if record.is_deleted() { RowState::Deleted } else { RowState::Live };
                let is_taken = self.takes_all && (self.rows.record(&record, limit) || self.by_shape(&record, limit));
                if !is_taken {
                    self.record(page, &record, state)?;
                }
            }
        }
        if count != page.record_count() {
            let (page_no, said) = (leaf.page_no, page.record_count());
            let why = format!("page {page_no} says that it has {said} records, but its chain has {count}");
            self.reader.report(Problem {
                page_no: leaf.page_no,
                record: None,
                keys: None,
                why,
                kind: ProblemKind::Rows,
            })?;
        }
        if wanted == Wanted::Deleted {
            self.freed(page, page.free_records().map_while(Result::ok))?;
        }
        ControlFlow::Continue(())
    }

    /// Adds records of freed space. They may be partly overwritten: those that do not make a whole row any more are left out.
    fn freed<'p>(&mut self, page: &IndexPage<'p>, records: impl Iterator<Item = Record<'p>>) -> ControlFlow<()> {
        for record in records.filter(|record| !record.is_metadata()) {
            let before = self.reader.problems.len();
            let on_damage = std::mem::replace(&mut self.reader.on_damage, OnDamage::Skip);
            let outcome = self.record(page, &record, RowState::Freed);
            self.reader.on_damage = on_damage;
            self.reader.problems.truncate(before);
            outcome?;
        }
        ControlFlow::Continue(())
    }

    /// Adds a live row that is entirely on the page. Returns `false` if it is not, or if its shape does not tell its fields.
    fn by_shape(&mut self, record: &Record<'_>, limit: usize) -> bool {
        let (Some(shapes), Some(places)) = (self.reader.shapes.as_deref_mut(), self.reader.on_page) else {
            return false;
        };
        let of_columns = |shape: &RecordShape| {
            let field = |place: &u16| shape.fields().get(usize::from(*place)).copied();
            places.iter().map(field).collect::<Option<_>>()
        };
        let Some(shaped) = shapes.find(record, limit, of_columns) else { return false };
        let Some(fields) = shaped.derived else { return false };
        let place = |field: &ShapeField| match *field {
            ShapeField::Null => ValuePlace::Null,
            ShapeField::Fixed { after, offset, bytes } => {
                ValuePlace::Page(shaped.span(after).end + offset as u32, bytes as u32)
            }
            ShapeField::Variable(number) => {
                let Span { start, end } = shaped.span(number);
                ValuePlace::Page(start, end - start)
            }
        };
        self.batch.heads.push(Head { origin: record.origin(), state: RowState::Live });
        self.batch.places.extend(fields.iter().map(place));
        true
    }

    fn record(&mut self, page: &IndexPage<'_>, record: &Record<'_>, state: RowState) -> ControlFlow<()> {
        let mut fields = std::mem::take(&mut self.walk.fields);
        let located = self.reader.plan.index.layout.locate(record, &mut fields);
        let problem = match located {
            Err(why) => Some(why.to_string()),
            Ok(()) if fields.end() > usize::from(page.heap_top()) => {
                Some("the record reaches beyond the heap".to_owned())
            }
            Ok(()) => None,
        };
        // MariaDB zeroes purged records: their fields can still be located, but there is no row.
        if state == RowState::Freed && self.reader.plan.is_wiped(page.bytes(), &fields) {
            self.walk.fields = fields;
            return ControlFlow::Continue(());
        }
        let outcome = match problem {
            Some(why) => {
                let keys = Some("one row".to_owned());
                let (page_no, record) = (self.batch.page_no, Some(record.origin()));
                self.reader.report(Problem { page_no, record, keys, why, kind: ProblemKind::Rows })
            }
            None => {
                let until = self.reader.plan.until.and_then(|field| fields.bytes(page.bytes(), field));
                let keys = self.reader.plan.keys.as_ref();
                let is_in_range = keys.is_none_or(|keys| keys.holds(page.bytes(), &fields));
                let is_in_range = is_in_range && !until.is_some_and(RowPlan::is_past);
                match self.reader.plan.owner(page.bytes(), &fields) {
                    Owner::Changed(transaction) if is_in_range => self.uncommitted(record.origin(), transaction),
                    Owner::Committed
                        if is_in_range && (state == RowState::Live) == (self.reader.wanted == Wanted::Live) =>
                    {
                        self.cells(&fields, record.origin(), state);
                        ControlFlow::Continue(())
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        };
        self.walk.fields = fields;
        outcome
    }

    fn uncommitted(&mut self, origin: u16, transaction: u64) -> ControlFlow<()> {
        let why = format!("transaction {transaction}, which has not committed, has changed or deleted it");
        let (page_no, record) = (self.batch.page_no, Some(origin));
        let problem =
            Problem { page_no, record, keys: Some("one row".to_owned()), why, kind: ProblemKind::Uncommitted };
        self.reader.report(problem)
    }

    fn cells(&mut self, fields: &RecordFields, origin: u16, state: RowState) {
        if self.bytes >= FETCHED_MAX {
            self.cut();
        }
        self.batch.heads.push(Head { origin, state });
        if let Some(places) = self.reader.on_page.filter(|_| fields.is_on_page()) {
            let place = |place: &u16| match fields.slots().get(usize::from(*place)) {
                Some(Slot { stored: Stored::Null, .. }) => ValuePlace::Null,
                Some(slot) => ValuePlace::Page(slot.start, slot.len),
                None => ValuePlace::Default((*place).into()),
            };
            self.batch.places.extend(places.iter().map(place));
            return;
        }
        let plan = self.reader.plan;
        for column in &plan.columns {
            let slot = fields.slots().get(column.field).copied();
            let place = match slot {
                Some(Slot { stored: Stored::Null, .. }) => ValuePlace::Null,
                Some(Slot { start, len, stored: Stored::Inline }) if column.value.compressed => {
                    self.unpacked(start, len)
                }
                Some(Slot { start, len, stored: Stored::Inline }) => ValuePlace::Page(start, len),
                Some(slot @ Slot { stored: Stored::Extern, .. }) => self.outside(slot, column.value.compressed, state),
                Some(Slot { stored: Stored::Missing, .. }) | None => ValuePlace::Default(column.field as u32),
            };
            self.batch.places.push(place);
        }
    }

    fn unpacked(&mut self, start: u32, len: u32) -> ValuePlace {
        let stored = self.batch.image.get(start as usize..(start + len) as usize).unwrap_or(&[]);
        let mut plain = Vec::new();
        match compressed::unpack(stored, &mut plain) {
            Ok(()) => self.batch.keep(&[&plain]),
            Err(why) => self.lost(why.to_string()),
        }
    }

    fn lost(&mut self, why: String) -> ValuePlace {
        self.batch.lost.push(why);
        ValuePlace::Lost(self.batch.lost.len() as u32 - 1)
    }

    fn outside(&mut self, slot: Slot, packed: bool, state: RowState) -> ValuePlace {
        if state == RowState::Freed {
            return self.lost("its off-page value was freed with the row".to_owned());
        }
        let end = (slot.start + slot.len) as usize;
        let bytes = end.checked_sub(REFERENCE_BYTES).and_then(|start| self.batch.image.get(start..end));
        let Some(reference) = bytes.and_then(Reference::parse) else {
            return self.lost("it has no reference to its off-page value".to_owned());
        };
        if reference.is_empty() {
            return self.lost("its off-page value was not written yet".to_owned());
        }
        let longest = u64::from(self.reader.space.pages()) * u64::from(self.reader.space.format.logical().get());
        if u64::from(reference.len) > longest && !self.can_inflate() {
            return self
                .lost(format!("its off-page value says that it has {} bytes, more than the file", reference.len));
        }
        let family = self.reader.space.format.family();
        let local = (slot.start, slot.len - REFERENCE_BYTES as u32);
        let place = self.batch.places.len();
        self.values.push(Some(Value { reader: LobReader::new(reference, family, true), place, local, packed }));
        self.bytes += u64::from(reference.len);
        ValuePlace::Null
    }

    /// Whether off-page values are compressed, so that they may be larger than their file.
    fn can_inflate(&self) -> bool {
        self.reader.space.format.scheme() == format::Scheme::Zip
    }

    /// Ends the batch; further rows go to the next one.
    fn cut(&mut self) {
        let next = self.walk.batch(self.reader.plan, Arc::clone(&self.batch.image), self.batch.page_no);
        let batch = std::mem::replace(&mut self.batch, next);
        let values = std::mem::take(&mut self.values);
        let (missing, bytes) = (values.len(), std::mem::take(&mut self.bytes));
        self.walk.number += 1;
        let started = values.is_empty();
        let number = self.walk.number;
        self.walk.pending.push_back(Pending { number, batch, values, missing, bytes, started });
    }

    pub(super) fn finish(mut self) {
        if self.batch.is_empty() {
            self.walk.spare = Some(self.batch.without_page());
        } else {
            self.cut();
        }
    }
}
