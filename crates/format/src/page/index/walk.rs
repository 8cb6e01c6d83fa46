//! Walks over a page. Each is bounded by the number of records in the heap, and distinguishes damage from the end.

use super::{IndexFinding, IndexPage, IndexRule};
use crate::corruption::Corruption;
use crate::record::{Record, RecordStyle};

/// The records of a page in chain order; see [`IndexPage::records`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    page: IndexPage<'a>,
    /// The record that points to the next one; `None` at the end.
    at: Option<Record<'a>>,
    bounds: Bounds,
    seen: u16,
}

impl<'a> Records<'a> {
    pub(super) fn new(page: IndexPage<'a>) -> Self {
        Self { at: page.record(page.style().infimum()), bounds: Bounds::of(&page), page, seen: 0 }
    }

    /// The next record, or the rule that the chain breaks.
    #[inline]
    pub(super) fn step(&mut self) -> Option<Result<Record<'a>, IndexFinding>> {
        let before = self.at.take()?;
        let next = before.next_origin();
        let supremum = self.page.style().supremum();
        if next == supremum {
            return None;
        }
        if next == 0 {
            let (found, expected) = (u64::from(before.origin()), u64::from(supremum));
            return Some(Err(IndexFinding { rule: IndexRule::ChainEnd, record: None, found, expected }));
        }
        let limit = self.bounds.records;
        if !self.bounds.hold(next) {
            return Some(Err(before.finding(IndexRule::RecordOffset, u64::from(next), u64::from(self.bounds.end))));
        }
        if self.seen >= limit {
            return Some(Err(before.finding(IndexRule::ChainLoop, u64::from(self.seen) + 1, u64::from(limit))));
        }
        self.seen += 1;
        self.at = self.page.record(next);
        self.at.map(Ok)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Corruption>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.step().map(|record| record.map_err(Corruption::Index))
    }
}

/// The free records of a page in list order; see [`IndexPage::free_records`].
#[derive(Debug, Clone)]
pub struct FreeRecords<'a> {
    page: IndexPage<'a>,
    next: u16,
    bounds: Bounds,
    seen: u16,
}

impl<'a> FreeRecords<'a> {
    pub(super) fn new(page: IndexPage<'a>) -> Self {
        Self { next: page.first_free(), bounds: Bounds::of(&page), page, seen: 0 }
    }

    pub(super) fn step(&mut self) -> Option<Result<Record<'a>, IndexFinding>> {
        let origin = std::mem::take(&mut self.next);
        if origin == 0 {
            return None;
        }
        let finding = |rule, found, expected| IndexFinding { rule, record: None, found, expected };
        if !self.bounds.hold(origin) {
            return Some(Err(finding(IndexRule::FreeOffset, u64::from(origin), u64::from(self.bounds.end))));
        }
        if self.seen >= self.bounds.records {
            let limit = u64::from(self.bounds.records);
            return Some(Err(finding(IndexRule::FreeLoop, u64::from(self.seen) + 1, limit)));
        }
        self.seen += 1;
        let record = self.page.record(origin)?;
        self.next = record.next_origin();
        Some(Ok(record))
    }
}

impl<'a> Iterator for FreeRecords<'a> {
    type Item = Result<Record<'a>, Corruption>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().map(|record| record.map_err(Corruption::Index))
    }
}

/// Where heap records may start, and how many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    first: u16,
    /// End of the heap, but never inside the directory.
    pub(super) end: u16,
    pub(super) records: u16,
}

impl Bounds {
    pub(super) fn of(page: &IndexPage<'_>) -> Self {
        let header = match page.style() {
            RecordStyle::Compact => 5,
            // Every record has at least one field.
            RecordStyle::Redundant => 7,
        };
        let directory = u16::try_from(page.directory_start()).unwrap_or(u16::MAX);
        let (start, end) = (page.style().heap_start(), page.heap_top().min(directory));
        // The page header may count more records than fit.
        let room = end.saturating_sub(start) / header;
        Self { first: start + header, end, records: page.heap_count().saturating_sub(2).min(room) }
    }

    /// An entry may have no data at all, so its origin may be the end of the heap.
    #[inline]
    pub(super) const fn hold(&self, origin: u16) -> bool {
        origin >= self.first && origin <= self.end
    }
}
