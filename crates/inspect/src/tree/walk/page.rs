//! One page: opened, checked against its own rules, and asked for its children.

use std::sync::Arc;

use format::bytes::be;
use format::fil::FIL_PAGE_TYPE;
use format::page::index::{IndexFinding, IndexPage, IndexRule, TreePlace};
use format::record::redundant;
use format::{Corruption, PageNo, Verdict};

use super::{Before, Depth, Father, LevelStep, Opened, Rule, Task, Tools, TreeCounts, TreeFinding, Walk};

impl Walk<'_> {
    /// Handles a page of the tree at level `number`.
    pub(super) fn arrive(&mut self, number: usize, task: &Task, bytes: &[u8], lost: Option<&str>, tools: &mut Tools) {
        if let Some(level) = self.levels.get_mut(number) {
            level.asked = level.asked.saturating_sub(1);
        }
        let page_no = task.page_no;
        let Some((image, is_sound)) = self.open(page_no, bytes, lost, tools) else { return self.hole(number) };
        let Ok(page) = IndexPage::parse(&image, &self.space.format) else {
            let kind = be::u16_at(&image, FIL_PAGE_TYPE).unwrap_or(0);
            if is_sound {
                self.report(TreeFinding::new(Rule::NotIndex, page_no, u64::from(kind), 0));
            }
            return self.hole(number);
        };
        if usize::from(page.level()) != number || page.index_id() != self.root.index_id {
            if is_sound && usize::from(page.level()) != number {
                self.report(TreeFinding::new(Rule::Level, page_no, u64::from(page.level()), number as u64));
            }
            if is_sound && page.index_id() != self.root.index_id {
                let finding = TreeFinding::new(Rule::OtherIndex, page_no, page.index_id(), self.root.index_id);
                self.report(finding);
            }
            return self.hole(number);
        }
        self.report.counts.pages += 1;
        if let Some(linear) = &mut self.linear {
            linear.accessed(page_no, page.prev().map(|prev| prev.0), page.next().map(|next| next.0));
        }
        let rows = |counts: &TreeCounts| counts.records - counts.deleted;
        let before = rows(&self.report.counts);
        let is_known = self.contents(number, &page, is_sound, tools);
        if !is_sound {
            self.report.doubtful += rows(&self.report.counts) - before;
        }
        if !is_known {
            return self.hole(number);
        }
        self.neighbours(number, task, &page, tools);
        let last = page.records().filter_map(Result::ok).last();
        let last = last.filter(|last| !last.is_metadata() && !last.is_min_rec()).map(|last| last.origin());
        let next = page.next().map_or(PageNo::NONE.0, |next| next.0);
        if number > 0 {
            self.children(number, page_no, &image, &page, tools);
        }
        if let Some(level) = self.levels.get_mut(number) {
            level.before = Before::Page { page_no, next, image, last };
        }
    }

    /// The page as the server works on it, and whether its checksum and place are right.
    pub(super) fn open(
        &mut self,
        page_no: u32,
        bytes: &[u8],
        lost: Option<&str>,
        tools: &mut Tools,
    ) -> Option<(Arc<[u8]>, bool)> {
        if let Some(why) = lost {
            self.report(TreeFinding::new(Rule::Unreadable, page_no, 0, 0).because(why));
            return None;
        }
        let Opened { verdict, image } = tools.opener.open(bytes, page_no, self.space);
        match verdict {
            Verdict::Empty => {
                self.report(TreeFinding::new(Rule::ZeroPage, page_no, 0, 0));
                return None;
            }
            Verdict::Corrupt(corruption) => self.report(TreeFinding::of_corruption(&corruption, page_no)),
            Verdict::Unverifiable(_) if image.is_err() => {
                self.report.counts.unverifiable += 1;
                return None;
            }
            Verdict::Ok(_) | Verdict::Unverifiable(_) => {}
        }
        let is_sound = !matches!(verdict, Verdict::Corrupt(_));
        match image {
            Ok(image) => Some((image, is_sound)),
            Err(why) => {
                if is_sound {
                    self.report(TreeFinding::new(Rule::NoImage, page_no, 0, 0).because(&why));
                }
                None
            }
        }
    }

    /// Checks the page's records. Returns whether they can be trusted.
    pub(super) fn contents(&mut self, number: usize, page: &IndexPage<'_>, is_sound: bool, tools: &mut Tools) -> bool {
        let page_no = page.page_no().0;
        // If the leaf's bytes are not what the server wrote, its rows mean nothing.
        if number == 0 && !is_sound {
            return false;
        }
        let counted = if self.depth == Depth::Check {
            let mut found = Vec::new();
            let place = if page_no == self.root.page_no { TreePlace::Root } else { TreePlace::BelowRoot };
            let counts = tools.checker.check(page, self.index, place, &mut found);
            // A wrong checksum says it all: do not report the broken rules one by one.
            if !is_sound && !found.is_empty() {
                return false;
            }
            for finding in &found {
                let mut finding = TreeFinding::of_page(finding, page_no);
                finding.level = u16::try_from(number).ok();
                self.report(finding);
            }
            self.report.counts.ordered += u64::from(counts.ordered);
            self.report.counts.unordered += u64::from(counts.unordered);
            let counted = (u64::from(counts.records), u64::from(counts.deleted));
            // Count damaged pages as `Depth::Count` does, so that both depths agree.
            if found.is_empty() { Some(counted) } else { counted_in(page).ok().map(|(counted, _)| counted) }
        } else {
            match counted_in(page) {
                Ok((counted, links)) => {
                    if links != u64::from(page.record_count()) {
                        let (found, expected) = (u64::from(page.record_count()), links);
                        let finding = IndexFinding { rule: IndexRule::RecordCount, record: None, found, expected };
                        self.report(TreeFinding::of_page(&finding, page_no));
                    }
                    Some(counted)
                }
                Err(corruption) => {
                    self.report(TreeFinding::of_corruption(&corruption, page_no));
                    return false;
                }
            }
        };
        self.report.is_complete &= counted.is_some();
        let (records, deleted) = counted.unwrap_or((0, 0));
        if number == 0 {
            self.report.counts.leaves += 1;
            self.report.counts.records += records;
            self.report.counts.deleted += deleted;
            if self.depth == Depth::Check {
                self.references(page, tools);
                self.misplaced(page, tools);
            }
            let is_new = || self.received.as_ref().is_none_or(|received| received.mark(page_no));
            if let Some(leaves) = self.leaves.as_mut().filter(|_| is_new()) {
                leaves.leaf(page, self.space, &mut tools.opener);
            }
        }
        true
    }

    /// Finds rows of a partition that belong in another: no query that names their partition sees them.
    fn misplaced(&mut self, page: &IndexPage<'_>, tools: &mut Tools) {
        let Some((index, placement)) = self.index.and_then(|index| Some((index, index.placement.as_deref()?))) else {
            return;
        };
        let Some(field) = index.field_of(placement.column) else { return };
        let [fields, _] = &mut tools.fields;
        for record in page.records().map_while(Result::ok) {
            let is_row = !record.is_metadata() && !record.is_deleted() && index.layout.locate(&record, fields).is_ok();
            if let Some(place) = is_row.then(|| placement.elsewhere(fields.bytes(page.bytes(), field))).flatten() {
                let finding = TreeFinding::new(Rule::Misplaced, page.page_no().0, 0, 0).because(place);
                self.report(finding.at(record.origin()));
            }
        }
    }

    /// Queues the pages that a page's node pointers lead to.
    fn children(&mut self, number: usize, page_no: u32, image: &Arc<[u8]>, page: &IndexPage<'_>, tools: &mut Tools) {
        let mut records = page.records();
        let mut is_whole = true;
        for record in &mut records {
            // A broken record chain was reported by the page's own rules.
            let Ok(record) = record else {
                is_whole = false;
                break;
            };
            let [fields, _] = &mut tools.fields;
            let located = match self.index {
                Some(index) => index.layout.locate(&record, fields),
                None => redundant::locate_stored(&record, fields),
            };
            let child = located.ok().and_then(|()| fields.child());
            match child {
                Some(child) => {
                    let father = Father { page_no, origin: record.origin(), image: Arc::clone(image) };
                    self.hang(number - 1, Task { page_no: child.0, father: Some(father) });
                }
                None => {
                    self.report(TreeFinding::new(Rule::NodePointer, page_no, 0, 0).at(record.origin()));
                    is_whole = false;
                }
            }
        }
        if !is_whole && let Some(below) = self.levels.get_mut(number - 1) {
            below.queue.push_back(LevelStep::Hole);
        }
    }
}

/// Number of records and of delete-marked ones among them; and of records in the chain, including metadata.
fn counted_in(page: &IndexPage<'_>) -> Result<((u64, u64), u64), Corruption> {
    let (mut records, mut deleted, mut links) = (0, 0, 0);
    for record in page.records() {
        let record = record?;
        links += 1;
        if !record.is_metadata() {
            records += 1;
            deleted += u64::from(record.is_deleted());
        }
    }
    Ok(((records, deleted), links))
}
