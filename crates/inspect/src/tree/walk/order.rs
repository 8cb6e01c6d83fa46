//! A page against its predecessor and the node pointer to it.

use format::PageNo;
use format::fil::PageType;
use format::page::index::IndexPage;
use format::record::Record;
use format::schema::{IndexDef, compare_keys};

use super::{Before, Depth, Rule, Task, Tools, TreeFinding, Walk};

impl Walk<'_> {
    /// Checks the page against its predecessor and its parent.
    pub(super) fn neighbours(&mut self, number: usize, task: &Task, page: &IndexPage<'_>, tools: &mut Tools) {
        if page.page_type() == PageType::RTREE {
            // An R-tree's levels are linked in the order in which pages were split, not in key order.
            return if self.depth == Depth::Check {
                self.rectangles(task, page, tools)
            };
        }
        let Some(level) = self.levels.get_mut(number) else { return };
        let before = std::mem::replace(&mut level.before, Before::Unknown);
        let none = u64::from(PageNo::NONE.0);
        let prev = page.prev().map_or(none, |prev| u64::from(prev.0));
        match &before {
            Before::Start if prev != none => self.report(TreeFinding::new(Rule::SiblingPrev, task.page_no, prev, none)),
            Before::Page { page_no, next, .. } => {
                if prev != u64::from(*page_no) {
                    let finding = TreeFinding::new(Rule::SiblingPrev, task.page_no, prev, u64::from(*page_no));
                    self.report(finding);
                }
                if *next != task.page_no {
                    let (found, expected) = (u64::from(*next), u64::from(task.page_no));
                    self.report(TreeFinding::new(Rule::SiblingNext, *page_no, found, expected));
                }
            }
            Before::Start | Before::Unknown => {}
        }
        if let Some(index) = self.index.filter(|_| self.depth == Depth::Check) {
            self.order(index, task, &before, page, tools);
        }
    }

    /// Keys: last of the previous page < node pointer <= first of this page.
    pub(super) fn order(
        &mut self,
        index: &IndexDef,
        task: &Task,
        before: &Before,
        page: &IndexPage<'_>,
        tools: &mut Tools,
    ) {
        let count = index.layout.key_fields();
        let first = page.records().next().and_then(Result::ok);
        let first = first.filter(|record| !record.is_min_rec());
        let style = page.style();
        let before = match before {
            Before::Page { page_no, image, last: Some(last), .. } => {
                Record::new(image, *last, style, page.is_leaf()).map(|record| (*page_no, record))
            }
            _ => None,
        };
        let father = task.father.as_ref().and_then(|father| {
            let record = Record::new(&father.image, father.origin, style, false)?;
            (!record.is_min_rec()).then_some((father.page_no, record))
        });
        let [a, b] = &mut tools.fields;
        let mut compare = |one: &Record<'_>, other: &Record<'_>| {
            index.layout.locate(one, a).ok()?;
            index.layout.locate(other, b).ok()?;
            compare_keys(index, count, (one.page(), a), (other.page(), b))
        };
        let mut found = Vec::new();
        if let (Some((page_no, last)), Some(first)) = (&before, &first)
            && compare(last, first).is_some_and(std::cmp::Ordering::is_ge)
        {
            found.push(TreeFinding::new(Rule::PageOrder, task.page_no, u64::from(*page_no), 0).at(first.origin()));
        }
        if let (Some((page_no, pointer)), Some(first)) = (&father, &first)
            && compare(pointer, first).is_some_and(std::cmp::Ordering::is_gt)
        {
            found.push(TreeFinding::new(Rule::FatherKey, task.page_no, u64::from(*page_no), 0).at(first.origin()));
        }
        if let (Some((_, last)), Some((page_no, pointer))) = (&before, &father)
            && compare(last, pointer).is_some_and(std::cmp::Ordering::is_ge)
        {
            let finding = TreeFinding::new(Rule::FatherOrder, task.page_no, u64::from(*page_no), 0);
            found.push(finding.at(pointer.origin()));
        }
        found.into_iter().for_each(|finding| self.report(finding));
    }
}
