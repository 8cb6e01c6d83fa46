//! A tree without a definition of its table: the records of its upper levels cannot be read, but its segments name its pages and the
//! pages name their neighbours.
//!
//! Memory is 16 bytes for each page of the tree.

use std::collections::BTreeMap;

use flow::Gather;
use format::PageNo;
use format::Verdict;
use format::page::fil::PageType;
use format::page::index::{IndexPage, Place};

use super::walk::{Depth, Tools};
use super::{Opened, Root, Rule, Space, SpaceMap, TreeFinding, TreeReport};

#[derive(Debug, Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
    level: u16,
}

/// Goes through the pages of the segments of `root`.
#[must_use]
pub fn run(
    (space, map): (&Space, &SpaceMap),
    root: &Root,
    (depth, findings_max): (Depth, usize),
    gather: &mut Gather<'_>,
    tools: &mut Tools,
) -> TreeReport {
    let mut sweep = Sweep {
        space,
        root,
        depth,
        findings_max,
        links: BTreeMap::new(),
        is_rtree: false,
        report: TreeReport { is_complete: map.is_known(), ..TreeReport::default() },
    };
    let mut pages =
        [root.top_segment, root.leaf_segment].into_iter().flatten().flat_map(|segment| map.pages_of(segment));
    loop {
        while gather.has_room() {
            let Some(page_no) = pages.next() else { break };
            match space.want(page_no) {
                Some(want) => gather.ask(want),
                None => sweep.report(TreeFinding::new(
                    Rule::MissingPage,
                    root.page_no,
                    u64::from(page_no),
                    u64::from(space.pages()),
                )),
            }
        }
        let Some(item) = gather.next() else { break };
        let lost = item.lost.map(|error| crate::source::datadir::plain(error));
        sweep.page(item.want.tag as u32, item.bytes, lost.as_deref(), tools);
    }
    sweep.end()
}

struct Sweep<'s> {
    space: &'s Space,
    root: &'s Root,
    depth: Depth,
    findings_max: usize,
    links: BTreeMap<u32, Link>,
    is_rtree: bool,
    report: TreeReport,
}

impl Sweep<'_> {
    fn report(&mut self, finding: TreeFinding) {
        self.report.findings_total += 1;
        if self.report.findings.len() < self.findings_max {
            self.report.findings.push(finding);
        }
    }

    fn page(&mut self, page_no: u32, bytes: &[u8], lost: Option<&str>, tools: &mut Tools) {
        if let Some(why) = lost {
            self.report.is_complete = false;
            return self.report(TreeFinding::new(Rule::Unreadable, page_no, 0, 0).because(why));
        }
        let Opened { verdict, image } = tools.opener.open(bytes, page_no, self.space);
        if let Verdict::Corrupt(corruption) = verdict {
            self.report.is_complete = false;
            return self.report(TreeFinding::of_corruption(&corruption, page_no));
        }
        let Ok(image) = image else {
            self.report.is_complete = false;
            self.report.counts.unverifiable += 1;
            return;
        };
        // Off-page values lie in the segment of the leaves, and pages that were never written.
        let Ok(page) = IndexPage::parse(&image, &self.space.format) else { return };
        if page.index_id() != self.root.index_id {
            let finding = TreeFinding::new(Rule::OtherIndex, page_no, page.index_id(), self.root.index_id);
            return self.report(finding);
        }
        self.is_rtree |= page.page_type() == PageType::RTREE;
        let place = if page_no == self.root.page_no { Place::Root } else { Place::BelowRoot };
        let mut found = Vec::new();
        let counts = tools.checker.check(&page, None, place, &mut found);
        if self.depth == Depth::Check {
            found.iter().for_each(|finding| self.report(TreeFinding::of_page(finding, page_no)));
        }
        self.report.counts.pages += 1;
        if page.is_leaf() {
            self.report.counts.leaves += 1;
            self.report.counts.records += u64::from(counts.records);
            self.report.counts.deleted += u64::from(counts.deleted);
        }
        let number = |page: Option<PageNo>| page.map_or(PageNo::NONE.0, |page| page.0);
        let link = Link { prev: number(page.prev()), next: number(page.next()), level: page.level() };
        self.links.insert(page_no, link);
    }

    /// Every neighbour's neighbour is the page itself.
    fn end(mut self) -> TreeReport {
        self.report
            .left_out
            .push("fields, the order of keys and the parents' words: no definition of the table was found");
        if self.is_rtree || self.depth == Depth::Count || !self.report.is_complete {
            return self.report;
        }
        let none = PageNo::NONE.0;
        let same_level = |page_no: u32, level: u16| self.links.get(&page_no).filter(|link| link.level == level);
        let mut found = Vec::new();
        for (page_no, link) in &self.links {
            if link.next != none && same_level(link.next, link.level).is_none_or(|next| next.prev != *page_no) {
                let expected = self.links.iter().find(|(_, other)| other.prev == *page_no && other.level == link.level);
                let expected = expected.map_or(none, |(expected, _)| *expected);
                found.push(TreeFinding::new(Rule::SiblingNext, *page_no, u64::from(link.next), u64::from(expected)));
            }
            if link.prev != none && same_level(link.prev, link.level).is_none_or(|prev| prev.next != *page_no) {
                let expected = self.links.iter().find(|(_, other)| other.next == *page_no && other.level == link.level);
                let expected = expected.map_or(none, |(expected, _)| *expected);
                found.push(TreeFinding::new(Rule::SiblingPrev, *page_no, u64::from(link.prev), u64::from(expected)));
            }
        }
        for level in 0..=self.root.level {
            let of_level = || self.links.iter().filter(|(_, link)| link.level == level);
            for (page_no, _) in of_level().filter(|(_, link)| link.prev == none).skip(1) {
                let segment = if level == 0 { self.root.leaf_segment } else { self.root.top_segment };
                found.push(TreeFinding::new(Rule::LostPage, *page_no, 0, segment.unwrap_or(0)));
            }
        }
        found.into_iter().for_each(|finding| self.report(finding));
        self.report
    }
}
