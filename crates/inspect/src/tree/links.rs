//! Checks a tree without a table definition: the records of its upper levels cannot be read, but its segments list its pages and the pages
//! link to their neighbours.
//!
//! Memory is 16 bytes per page of the tree, and three times that while links are compared.

use std::collections::{BTreeMap, HashMap, HashSet};

use flow::Gather;
use format::fil::PageType;
use format::page::index::{IndexPage, TreePlace};
use format::{PageNo, Verdict};

use super::walk::{Depth, Tools};
use super::{Root, Rule, SpaceMap, TreeFinding, TreeReport};
use datadir::tablespace::{Opened, Tablespace};

#[derive(Debug, Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
    level: u16,
}

/// Reads all pages of the segments of `root`.
#[must_use]
pub fn run(
    (space, map): (&Tablespace, &SpaceMap),
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
        if tools.watcher.is_stopped() {
            while gather.next().is_some() {}
            let left_out = vec![super::walk::STOPPED];
            return TreeReport { is_complete: false, left_out, ..sweep.report };
        }
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
        let lost = item.lost.map(|error| sweep.space.lost_why(item.want.tag as u32, error));
        sweep.page(item.want.tag as u32, item.bytes, lost.as_deref(), tools);
    }
    sweep.end()
}

struct Sweep<'s> {
    space: &'s Tablespace,
    root: &'s Root,
    depth: Depth,
    findings_max: usize,
    links: BTreeMap<u32, Link>,
    is_rtree: bool,
    report: TreeReport,
}

impl Sweep<'_> {
    fn report(&mut self, finding: TreeFinding) {
        self.report.add(finding, self.findings_max);
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
        // The leaf segment also holds off-page values and pages that were never written.
        let Ok(page) = IndexPage::parse(&image, &self.space.format) else { return };
        if page.index_id() != self.root.index_id {
            let finding = TreeFinding::new(Rule::OtherIndex, page_no, page.index_id(), self.root.index_id);
            return self.report(finding);
        }
        self.is_rtree |= page.page_type() == PageType::RTREE;
        let place = if page_no == self.root.page_no { TreePlace::Root } else { TreePlace::BelowRoot };
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

    /// Checks that every page's neighbour links back to it.
    fn end(mut self) -> TreeReport {
        self.report
            .left_out
            .push("fields, the order of keys and the keys in parent pages: no definition of the table was found");
        if self.is_rtree || self.depth == Depth::Count || !self.report.is_complete {
            return self.report;
        }
        breaks(&self.links, self.root).into_iter().for_each(|finding| self.report(finding));
        self.report
    }
}

/// Broken links in a tree of which every page was read.
fn breaks(links: &BTreeMap<u32, Link>, root: &Root) -> Vec<TreeFinding> {
    let none = PageNo::NONE.0;
    let same_level = |page_no: u32, level: u16| links.get(&page_no).filter(|link| link.level == level);
    // Which page names this one as its neighbour. Hash maps, because there may be as many broken links as pages.
    let (mut by_prev, mut by_next) = (HashMap::new(), HashMap::new());
    for (page_no, link) in links {
        by_prev.entry((link.level, link.prev)).or_insert(*page_no);
        by_next.entry((link.level, link.next)).or_insert(*page_no);
    }
    let mut found = Vec::new();
    for (page_no, link) in links {
        if link.next != none && same_level(link.next, link.level).is_none_or(|next| next.prev != *page_no) {
            let expected = by_prev.get(&(link.level, *page_no)).copied().unwrap_or(none);
            found.push(TreeFinding::new(Rule::SiblingNext, *page_no, u64::from(link.next), u64::from(expected)));
        }
        if link.prev != none && same_level(link.prev, link.level).is_none_or(|prev| prev.next != *page_no) {
            let expected = by_next.get(&(link.level, *page_no)).copied().unwrap_or(none);
            found.push(TreeFinding::new(Rule::SiblingPrev, *page_no, u64::from(link.prev), u64::from(expected)));
        }
    }
    let mut has_start = HashSet::new();
    for (page_no, link) in links.iter().filter(|(_, link)| link.prev == none && link.level <= root.level) {
        if !has_start.insert(link.level) {
            let segment = if link.level == 0 { root.leaf_segment } else { root.top_segment };
            found.push(TreeFinding::new(Rule::LostPage, *page_no, 0, segment.unwrap_or(0)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> Root {
        let image = Default::default();
        Root {
            page_no: 3,
            index_id: 1,
            level: 0,
            is_empty: false,
            leaf_segment: Some(2),
            top_segment: Some(1),
            pages: 0,
            page_type: PageType::INDEX,
            style: format::record::RecordStyle::Compact,
            instant_core: None,
            image,
        }
    }

    #[test]
    fn a_broken_link_is_named_with_the_page_that_names_its_own() {
        let none = PageNo::NONE.0;
        let link = |prev, next| Link { prev, next, level: 0 };
        // Page 4 says that 9 follows, and 5 says that it follows 4.
        let links = BTreeMap::from([(4, link(none, 9)), (5, link(4, 6)), (6, link(5, none)), (8, link(none, none))]);
        let found: Vec<_> = breaks(&links, &root())
            .into_iter()
            .map(|found| (found.rule.as_str(), found.page_no, found.expected))
            .collect();
        let expected = [("sibling_next", Some(4), Some(5)), ("sibling_prev", Some(5), Some(u64::from(none)))];
        assert_eq!(found, [&expected[..], &[("lost_page", Some(8), Some(2))]].concat());
    }

    #[test]
    fn half_a_million_broken_links_take_no_longer_than_sound_ones() {
        // Every link points to a missing page: comparing each page with every other would take hours.
        let links = (0..500_000)
            .map(|page_no| (page_no, Link { prev: page_no + 1_000_000, next: page_no + 2_000_000, level: 0 }));
        assert_eq!(breaks(&links.collect(), &root()).len(), 1_000_000);
    }
}
