//! Checks the header and directory of an index page against its records.

use std::cmp::Ordering;

use super::bits::Bits;
use super::{IndexFinding, IndexPage, IndexRule, PAGE_DIR_SLOT_MAX_N_OWNED, SegmentHeader};
use crate::bytes::{be, is_zero};
use crate::fil::PageType;
use crate::kind::Family;
use crate::record::{Record, RecordFields, RecordStyle, Status, Stored, redundant};
use crate::schema::{IndexDef, IndexKind, compare_keys};
use crate::types::PageNo;

/// A page's place in its tree, as far as the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreePlace {
    /// It is the root.
    Root,
    /// It is not.
    BelowRoot,
    /// The caller does not know.
    Unknown,
}

/// After this many findings on a page, further ones add nothing.
const FINDINGS_MAX: usize = 32;

/// Checks one page. For many pages, reuse an [`IndexChecker`] and its memory.
///
/// Without `index`, rules that need to know a record's fields are skipped.
#[must_use]
pub fn check_index_page(page: &IndexPage<'_>, index: Option<&IndexDef>, place: TreePlace) -> Vec<IndexFinding> {
    let mut findings = Vec::new();
    IndexChecker::new().check(page, index, place, &mut findings);
    findings
}

/// Counts of a page's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCounts {
    /// Records in the chain, except MariaDB's metadata record.
    pub records: u32,
    /// The delete-marked ones among these.
    pub deleted: u32,
    /// Neighbouring records whose order was checked, whether right or wrong.
    pub ordered: u32,
    /// Neighbouring records whose order cannot be decided.
    pub unordered: u32,
}

/// The bytes of a record in its page. Sorted by their start, neighbours overlap if any two records do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RecordSpan {
    start: u32,
    end: u32,
    origin: u16,
}

/// Checks pages and owns the memory for that: 8 KiB, and 12 bytes for each record of the fullest page.
#[derive(Debug, Default)]
pub struct IndexChecker {
    /// One bit per heap number.
    numbers: Bits,
    /// One bit per origin of a record in the chain.
    origins: Bits,
    /// The same for the free list.
    free: Bits,
    spans: Vec<RecordSpan>,
    fields: RecordFields,
    before: RecordFields,
}

impl IndexChecker {
    /// A checker that has checked nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks one page and adds what is wrong with it to `findings`, at most 32 of them.
    ///
    /// Without `index`, rules that need to know a record's fields are skipped.
    pub fn check(
        &mut self,
        page: &IndexPage<'_>,
        index: Option<&IndexDef>,
        place: TreePlace,
        findings: &mut Vec<IndexFinding>,
    ) -> PageCounts {
        self.numbers.clear();
        self.origins.clear();
        self.free.clear();
        self.spans.clear();
        let limit = findings.len() + FINDINGS_MAX;
        let mut check = Check { page, index, findings, limit, counts: PageCounts::default() };
        if let Some(style) = index.and_then(|index| index.style).filter(|style| *style != page.style()) {
            // With the wrong record format, nothing else on the page would make sense.
            let number = |style| u64::from(style == RecordStyle::Compact);
            check.report(IndexRule::RecordStyle, None, number(page.style()), number(style));
            return check.counts;
        }
        check.header(place);
        check.system_records();
        let chain = check.chain(self);
        let free = check.free_list(self);
        check.totals(chain, free, self);
        check.counts
    }
}

/// One page being checked.
struct Check<'c, 'p> {
    page: &'c IndexPage<'p>,
    index: Option<&'c IndexDef>,
    findings: &'c mut Vec<IndexFinding>,
    limit: usize,
    counts: PageCounts,
}

/// The result of a walk.
struct Walked {
    /// Records met.
    records: u64,
    /// Whether the walk reached its end.
    complete: bool,
    /// Total size in bytes; `None` if the fields of some record could not be located.
    bytes: Option<u64>,
}

/// The position in the directory along the chain.
struct Directory {
    /// The slot that must point to the next owner.
    slot: u16,
    /// Records since the last owner.
    owned: u64,
}

impl Check<'_, '_> {
    fn report(&mut self, rule: IndexRule, record: Option<u16>, found: u64, expected: u64) {
        self.push(IndexFinding { rule, record, found, expected });
    }

    fn push(&mut self, finding: IndexFinding) {
        if self.findings.len() < self.limit {
            self.findings.push(finding);
        }
    }

    fn is_rtree(&self) -> bool {
        self.page.page_type() == PageType::RTREE
    }

    fn header(&mut self, place: TreePlace) {
        let page = self.page;
        self.identity();
        let own = page.page_no();
        for neighbour in [page.prev(), page.next()].into_iter().flatten().filter(|number| *number == own) {
            self.report(IndexRule::Siblings, None, u64::from(neighbour.0), u64::from(own.0));
        }
        let (start, directory) = (u64::from(page.style().heap_start()), page.directory_start() as u64);
        let slots = usize::from(page.slot_count());
        let room = (page.bytes().len() - 8 - usize::from(page.style().heap_start())) / 2;
        if !(2..=room).contains(&slots) {
            self.report(IndexRule::SlotCount, None, slots as u64, room as u64);
        }
        let top = u64::from(page.heap_top());
        if top < start {
            self.report(IndexRule::HeapTop, None, top, start);
        } else if slots <= room && top > directory {
            self.report(IndexRule::HeapTop, None, top, directory);
        } else if u64::from(page.garbage()) > top - start {
            self.report(IndexRule::Garbage, None, u64::from(page.garbage()), top - start);
        }
        let linked = page.prev().is_some() || page.next().is_some();
        if page.record_count() == 0 && (linked || place == TreePlace::BelowRoot || page.level() > 0) {
            self.report(IndexRule::EmptyPage, None, 0, 1);
        }
        if place == TreePlace::Root {
            self.root();
        }
    }

    fn identity(&mut self) {
        let page = self.page;
        let Some(index) = self.index else { return };
        if let Some(root) = index.root.filter(|root| root.id != page.index_id()) {
            self.report(IndexRule::IndexId, None, page.index_id(), root.id);
        }
        // Servers update it with every change of an entry, without exception.
        let entries = index.kind != IndexKind::Clustered && page.is_leaf() && page.record_count() > 0;
        if entries && page.max_trx_id() == 0 {
            self.report(IndexRule::MaxTrxId, None, 0, 1);
        }
    }

    fn root(&mut self) {
        for neighbour in [self.page.prev(), self.page.next()].into_iter().flatten() {
            self.report(IndexRule::RootSiblings, None, u64::from(neighbour.0), u64::from(PageNo::NONE.0));
        }
        let Some((leaf, top)) = self.page.segments() else { return };
        for SegmentHeader { space, inode } in [leaf, top] {
            let own = self.page.space();
            if space != own {
                self.report(IndexRule::SegmentHeader, None, u64::from(space.0), u64::from(own.0));
            } else if inode.page_no == PageNo::NONE || inode.page_no.0 == 0 {
                // Page 0 has no inodes; page 2 is the first page with inodes.
                self.report(IndexRule::SegmentHeader, None, u64::from(inode.page_no.0), 2);
            }
        }
    }

    /// Infimum and supremum: the same bytes on every page, except `n_owned` and the infimum's next record.
    fn system_records(&mut self) {
        let page = self.page;
        let (style, bytes) = (page.style(), page.bytes());
        let text = |origin: u16, len: usize| bytes.get(usize::from(origin)..usize::from(origin) + len).unwrap_or(&[]);
        let supremum_text: &[u8] = if style == RecordStyle::Compact { b"supremum" } else { b"supremum\0" };
        // On roots of instantly altered tables, MariaDB overwrites these texts with marks.
        let marked = page.instant_core().is_some();
        let infimum = text(style.infimum(), 8);
        if !(infimum == b"infimum\0" || marked && is_zero(infimum)) {
            self.report(IndexRule::InfimumText, Some(style.infimum()), 0, 0);
        }
        let supremum = text(style.supremum(), supremum_text.len());
        if !(supremum == supremum_text || marked && supremum.get(..7).is_some_and(is_zero)) {
            self.report(IndexRule::SupremumText, Some(style.supremum()), 0, 0);
        }
        for (origin, number, status) in [(style.infimum(), 0, Status::Infimum), (style.supremum(), 1, Status::Supremum)]
        {
            let Some(record) = page.record(origin) else { continue };
            if record.heap_no() != number {
                self.push(record.finding(IndexRule::HeapNumber, u64::from(record.heap_no()), u64::from(number)));
            }
            if style == RecordStyle::Compact && record.status() != status {
                let found = u64::from(record.status().bits());
                self.push(record.finding(IndexRule::RecordStatus, found, u64::from(status.bits())));
            }
        }
    }

    fn chain(&mut self, memory: &mut IndexChecker) -> Walked {
        let page = self.page;
        let mut walked = Walked { records: 0, complete: false, bytes: Some(0) };
        let mut directory = Directory { slot: 0, owned: 0 };
        if let Some(infimum) = page.record(page.style().infimum()) {
            self.directory(&mut directory, &infimum);
        }
        let mut records = page.records();
        let mut before: Option<Record<'_>> = None;
        loop {
            let record = match records.step() {
                None => break,
                Some(Ok(record)) => record,
                Some(Err(finding)) => {
                    self.push(finding);
                    return walked;
                }
            };
            walked.records += 1;
            if !memory.origins.insert(record.origin()) {
                let heap = u64::from(page.heap_count().saturating_sub(2));
                self.push(record.finding(IndexRule::ChainLoop, walked.records - 1, heap));
                return walked;
            }
            self.directory(&mut directory, &record);
            self.number(memory, &record);
            let is_first = walked.records == 1;
            self.flags(&record, is_first);
            let located = self.locate(memory, &record);
            walked.bytes = walked.bytes.zip(located).map(|(sum, bytes)| sum + bytes);
            let metadata = record.is_metadata() && page.is_leaf();
            if !metadata {
                self.counts.records += 1;
                self.counts.deleted += u32::from(record.is_deleted());
            }
            if located.is_some() {
                if let Some(before) = before {
                    self.order(memory, &before, &record);
                }
                // Above the leaves, the key of the lowest record means nothing.
                before = (!record.is_min_rec()).then_some(record);
            } else {
                before = None;
            }
            std::mem::swap(&mut memory.fields, &mut memory.before);
        }
        walked.complete = true;
        if let Some(supremum) = page.record(page.style().supremum()) {
            self.directory(&mut directory, &supremum);
        }
        if directory.slot != page.slot_count() {
            let (found, expected) = (u64::from(directory.slot), u64::from(page.slot_count()));
            self.report(IndexRule::SlotMissing, None, found, expected);
        }
        walked
    }

    /// Handles another record of the chain, including infimum and supremum.
    fn directory(&mut self, directory: &mut Directory, record: &Record<'_>) {
        directory.owned += 1;
        let (owned, style) = (u64::from(record.n_owned()), self.page.style());
        let is_supremum = record.origin() == style.supremum();
        if owned == 0 && !is_supremum && record.origin() != style.infimum() {
            return;
        }
        if owned != directory.owned {
            self.push(record.finding(IndexRule::Owned, owned, directory.owned));
        } else if owned > u64::from(PAGE_DIR_SLOT_MAX_N_OWNED) {
            self.push(record.finding(IndexRule::OwnedLimit, owned, u64::from(PAGE_DIR_SLOT_MAX_N_OWNED)));
        }
        let slot = self.page.slot(usize::from(directory.slot)).filter(|_| directory.slot < self.page.slot_count());
        if let Some(found) = slot.filter(|origin| *origin != record.origin()) {
            let rule = match directory.slot {
                0 => IndexRule::FirstSlot,
                _ if is_supremum => IndexRule::LastSlot,
                _ => IndexRule::SlotOrder,
            };
            self.report(rule, None, u64::from(found), u64::from(record.origin()));
        }
        directory.slot = directory.slot.saturating_add(1);
        directory.owned = 0;
    }

    fn number(&mut self, memory: &mut IndexChecker, record: &Record<'_>) {
        let (number, limit) = (record.heap_no(), self.page.heap_count().saturating_sub(1));
        if number < 2 || number > limit {
            self.push(record.finding(IndexRule::HeapNumber, u64::from(number), u64::from(limit)));
        } else if !memory.numbers.insert(number) {
            self.push(record.finding(IndexRule::HeapNumberTwice, u64::from(number), 0));
        }
    }

    /// Checks status and the min-rec flag.
    fn flags(&mut self, record: &Record<'_>, is_first: bool) {
        let page = self.page;
        let status = record.status();
        let expected = if page.is_leaf() { Status::Ordinary } else { Status::NodePointer };
        let instant = page.is_leaf() && page.family() == Family::MariaDb && status == Status::Instant;
        if status != expected && !instant {
            self.push(record.finding(IndexRule::RecordStatus, u64::from(status.bits()), u64::from(expected.bits())));
        }
        if self.is_rtree() {
            return;
        }
        let leftmost = is_first && page.prev().is_none();
        // The metadata record of an instantly altered table.
        let may_be = leftmost && (!page.is_leaf() || page.family() == Family::MariaDb);
        if record.is_min_rec() && !may_be {
            self.push(record.finding(IndexRule::MinRec, 1, 0));
        } else if leftmost && !page.is_leaf() && !record.is_min_rec() {
            self.push(record.finding(IndexRule::MinRecMissing, 0, 1));
        }
    }

    /// Locates the record's fields and checks each. Returns its size in bytes, `None` if unknown.
    fn locate(&mut self, memory: &mut IndexChecker, record: &Record<'_>) -> Option<u64> {
        let located = match (self.index, record.style()) {
            (Some(index), _) => index.layout.locate(record, &mut memory.fields),
            (None, RecordStyle::Redundant) => redundant::locate_stored(record, &mut memory.fields),
            (None, RecordStyle::Compact) => return None,
        };
        if let Err(finding) = located {
            self.push(finding);
            return None;
        }
        let fields = &memory.fields;
        let (start, end, top) = (fields.start(), fields.end(), usize::from(self.page.heap_top()));
        if end > top {
            self.push(record.finding(IndexRule::RecordEnd, end as u64, top as u64));
            return None;
        }
        let heap = usize::from(self.page.style().heap_start());
        if start < heap {
            let (found, room) = (usize::from(record.origin()) - start, usize::from(record.origin()) - heap);
            self.push(record.finding(IndexRule::RecordHeader, found as u64, room as u64));
            return None;
        }
        memory.spans.push(RecordSpan { start: start as u32, end: end as u32, origin: record.origin() });
        if let Some(index) = self.index {
            self.fields(index, record, fields);
        }
        Some(fields.size() as u64)
    }

    fn fields(&mut self, index: &IndexDef, record: &Record<'_>, fields: &RecordFields) {
        if record.is_metadata() {
            return;
        }
        let redundant = record.style() == RecordStyle::Redundant;
        let described = index.fields.iter().zip(index.layout.fields());
        for (number, (slot, (def, layout))) in fields.slots().iter().zip(described).enumerate() {
            match slot.stored {
                Stored::Missing => continue,
                Stored::Null if redundant && !layout.nullable => {
                    self.push(record.finding(IndexRule::FieldNull, number as u64, 0));
                }
                Stored::Null => {}
                Stored::Extern => self.reference(index, record, number, fields),
                Stored::Inline => {
                    let limit =
                        def.max_len.filter(|limit| slot.len > *limit && def.redundant_len.is_none_or(|_| !redundant));
                    if let Some(limit) = limit {
                        self.push(record.finding(IndexRule::FieldTooLong, u64::from(slot.len), u64::from(limit)));
                    }
                }
            }
            let fixed = def.redundant_len.filter(|len| redundant && slot.len != u32::from(*len));
            if let Some(len) = fixed.filter(|_| slot.stored != Stored::Extern) {
                self.push(record.finding(IndexRule::FieldLength, u64::from(slot.len), u64::from(len)));
            }
        }
    }

    fn reference(&mut self, index: &IndexDef, record: &Record<'_>, number: usize, fields: &RecordFields) {
        if !index.is_clustered() || !self.page.is_leaf() || number < index.layout.key_fields() {
            self.push(record.finding(IndexRule::ExternPlace, number as u64, 0));
            return;
        }
        let reference = fields.references(self.page.bytes()).find(|(at, _)| *at == number);
        let Some((_, bytes)) = reference.filter(|(_, bytes)| !is_zero(bytes)) else { return };
        let (space, own) = (be::u32_at(bytes, 0).unwrap_or(0), self.page.space().0);
        if space != own {
            self.push(record.finding(IndexRule::ExternSpace, u64::from(space), u64::from(own)));
        }
    }

    fn order(&mut self, memory: &IndexChecker, before: &Record<'_>, record: &Record<'_>) {
        let Some(index) = self.index.filter(|index| index.kind != IndexKind::Spatial) else { return };
        let bytes = self.page.bytes();
        let (a, b) = ((bytes, &memory.before), (bytes, &memory.fields));
        let rule = match compare_keys(index, index.layout.key_fields(), a, b) {
            None => {
                self.counts.unordered += 1;
                return;
            }
            Some(Ordering::Less) => None,
            Some(Ordering::Equal) => Some(IndexRule::KeyTwice),
            Some(Ordering::Greater) => Some(IndexRule::KeyOrder),
        };
        self.counts.ordered += 1;
        if let Some(rule) = rule {
            self.push(record.finding(rule, u64::from(before.origin()), 0));
        }
    }

    fn free_list(&mut self, memory: &mut IndexChecker) -> Walked {
        let mut walked = Walked { records: 0, complete: false, bytes: None };
        let mut records = self.page.free_records();
        loop {
            match records.step() {
                None => break,
                Some(Ok(record)) => {
                    walked.records += 1;
                    if memory.origins.contains(record.origin()) {
                        self.push(record.finding(IndexRule::FreeLive, 0, 0));
                        return walked;
                    }
                    if !memory.free.insert(record.origin()) {
                        let heap = u64::from(self.page.heap_count().saturating_sub(2));
                        self.push(record.finding(IndexRule::FreeLoop, walked.records - 1, heap));
                        return walked;
                    }
                    self.number(memory, &record);
                }
                Some(Err(finding)) => {
                    self.push(finding);
                    return walked;
                }
            }
        }
        walked.complete = true;
        walked
    }

    /// Checks that need the whole page.
    fn totals(&mut self, chain: Walked, free: Walked, memory: &mut IndexChecker) {
        let page = self.page;
        if chain.complete && chain.records != u64::from(page.record_count()) {
            self.report(IndexRule::RecordCount, None, u64::from(page.record_count()), chain.records);
        }
        let heap = chain.records + free.records + 2;
        if chain.complete && free.complete && heap != u64::from(page.heap_count()) {
            self.report(IndexRule::HeapCount, None, u64::from(page.heap_count()), heap);
        }
        let used = (page.heap_top().saturating_sub(page.style().heap_start())).saturating_sub(page.garbage());
        if let Some(bytes) = chain.bytes.filter(|bytes| chain.complete && *bytes != u64::from(used)) {
            self.report(IndexRule::HeapSpace, None, bytes, u64::from(used));
        }
        self.overlaps(memory);
    }

    fn overlaps(&mut self, memory: &mut IndexChecker) {
        memory.spans.sort_unstable();
        for pair in memory.spans.windows(2) {
            let [before, after] = pair else { continue };
            if after.start < before.end {
                let origin = Some(after.origin);
                self.report(IndexRule::RecordOverlap, origin, u64::from(after.start), u64::from(before.end));
            }
        }
    }
}
