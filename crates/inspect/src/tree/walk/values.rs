//! Off-page values, followed page by page beside the leaves, and pages that nothing points to.

use std::collections::HashSet;

use flow::Gather;
use format::bytes::be;
use format::fil::{FIL_PAGE_TYPE, PageType};
use format::page::index::IndexPage;
use format::page::lob::{LobReader, Reference};
use format::record::Storage;
use format::{PageNo, Verdict};

use super::{Flight, Opened, Rule, Tools, TreeFinding, Value, Walk};

impl Walk<'_> {
    /// Starts reading the off-page values of a leaf's rows.
    pub(super) fn references(&mut self, page: &IndexPage<'_>, tools: &mut Tools) {
        let Some(index) = self.index.filter(|index| index.is_clustered()) else { return };
        if !index.layout.fields().iter().any(|field| matches!(field.storage, Storage::Variable { big: true })) {
            return;
        }
        let [fields, _] = &mut tools.fields;
        let mut values = Vec::new();
        for record in page.records().map_while(Result::ok).filter(|record| !record.is_metadata()) {
            if index.layout.locate(&record, fields).is_err() {
                continue;
            }
            for (_, bytes) in fields.references(page.bytes()) {
                // A value owned by another row version is followed from there; one being written is left to recovery.
                let Some(reference) = Reference::parse(bytes) else { continue };
                if reference.is_empty() || reference.not_owner || reference.being_modified {
                    continue;
                }
                let reader = LobReader::new(reference, self.space.format.family(), false);
                values.push(Value { reader, page_no: page.page_no().0, origin: record.origin(), own: HashSet::new() });
            }
        }
        for value in values {
            self.send_for(Box::new(value));
        }
    }

    /// Queues the next page of a value, if it is a valid one.
    pub(super) fn send_for(&mut self, mut value: Box<Value>) {
        let Some(PageNo(page_no)) = value.reader.wants() else {
            self.report.counts.off_page += 1;
            return;
        };
        let about = |rule| TreeFinding::new(rule, value.page_no, u64::from(page_no), 0).at(value.origin);
        if page_no >= self.space.pages() {
            let why = format!("page {page_no} is not in the file");
            return self.report(about(Rule::OffPage).because(&why));
        }
        if self.map.is_free(page_no) == Some(true) {
            return self.report(about(Rule::OffPageFreed));
        }
        let finding = about(Rule::OffPageTwice);
        if value.own.insert(page_no) && !self.reach(page_no) {
            return self.report(finding);
        }
        self.values.push_back(value);
    }

    /// Requests the next page of a waiting value. Returns whether there was one.
    pub(super) fn ask_for_value(&mut self, gather: &mut Gather<'_>) -> bool {
        let Some(value) = self.values.pop_front() else { return false };
        if let Some(want) = value.reader.wants().and_then(|page_no| self.space.want(page_no.0)) {
            gather.ask(want);
            self.flight.push_back(Flight::Value(value));
        }
        true
    }

    pub(super) fn value(&mut self, mut value: Box<Value>, bytes: &[u8], lost: Option<&str>, tools: &mut Tools) {
        let Some(page_no) = value.reader.wants() else { return };
        let Some((image, _)) = self.open(page_no.0, bytes, lost, tools) else { return };
        // A page may hold several pieces of the value.
        while value.reader.wants() == Some(page_no) {
            match value.reader.take(&image) {
                Ok(()) => {}
                Err(damage) => {
                    let finding = TreeFinding::new(Rule::OffPage, value.page_no, 0, 0).at(value.origin);
                    return self.report(finding.because(&damage.to_string()));
                }
            }
        }
        self.send_for(value);
    }

    /// Reads the pages of the tree's segments that nothing points to. They may hold off-page values of older row versions.
    pub(super) fn strays(&mut self, gather: &mut Gather<'_>, tools: &mut Tools) {
        if !self.report.is_complete || !self.map.is_known() || self.report.counts.unverifiable > 0 {
            return self.leave_out("pages that no page points to");
        }
        for segment in [self.root.leaf_segment, self.root.top_segment].into_iter().flatten() {
            let map = self.map;
            for page_no in map.pages_of(segment) {
                if self.is_reached(page_no) {
                    continue;
                }
                if let Some(want) = self.space.want(page_no) {
                    gather.ask(want);
                    self.flight.push_back(Flight::Stray(page_no, segment));
                }
                if !gather.has_room() {
                    self.drain(gather, tools);
                }
            }
        }
        self.drain(gather, tools);
    }

    pub(super) fn stray(&mut self, page_no: u32, segment: u64, bytes: &[u8], tools: &mut Tools) {
        let Opened { verdict, image } = tools.opener.open(bytes, page_no, self.space);
        let kind = image.ok().and_then(|image| be::u16_at(&image, FIL_PAGE_TYPE)).map(PageType);
        if matches!(verdict, Verdict::Ok(_)) && kind.is_some_and(|kind| kind.is_index(self.space.format.family())) {
            self.report(TreeFinding::new(Rule::LostPage, page_no, 0, segment));
        }
    }
}
