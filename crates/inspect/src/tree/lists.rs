//! The extent lists of a tablespace: three of its own, three per segment. A server takes the first extent of a list on trust: a wrong
//! length or pointer crashes it, or makes it allocate pages that are in use.
//!
//! Every extent belongs in exactly one list, which follows from its state, owner and used pages. Each list must lead from its first extent
//! to its last and back, through as many extents as it counts. This takes one pass over each list and one over all extents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use format::page::fsp::ListBase;
use format::page::xdes::ExtentState;
use format::{SpaceFormat, SpaceHeader};

use super::extents::{Extents, Link, Links};
use super::segment::PlacedSegment;
use super::{Rule, TreeFinding};

/// The purpose of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ListKind {
    Free,
    FreeFrag,
    FullFrag,
    SegmentFree,
    NotFull,
    Full,
}

#[derive(Debug, Clone, Copy)]
struct List {
    kind: ListKind,
    /// Its segment; 0 for the tablespace's own lists.
    segment: u64,
    base: ListBase,
    /// The page with its base node.
    page_no: u32,
}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            ListKind::Free | ListKind::SegmentFree => "FREE",
            ListKind::FreeFrag => "FREE_FRAG",
            ListKind::FullFrag => "FULL_FRAG",
            ListKind::NotFull => "NOT_FULL",
            ListKind::Full => "FULL",
        };
        match self.segment {
            0 => write!(f, "list {name} of the tablespace"),
            segment => write!(f, "list {name} of segment {segment}"),
        }
    }
}

impl List {
    /// Why an extent does not belong in this list, as a clause.
    fn refuses(&self, extents: &Extents, extent: u32) -> Option<String> {
        let (state, used) = (extents.state(extent)?, extents.used(extent));
        let is_owned = matches!(state, ExtentState::Segment | ExtentState::SegmentFrag);
        let (is_state, fill) = match self.kind {
            ListKind::Free => (state == ExtentState::Free, used == 0),
            ListKind::FreeFrag => (state == ExtentState::FreeFrag, used < extents.pages),
            ListKind::FullFrag => (state == ExtentState::FullFrag, used == extents.pages),
            ListKind::SegmentFree => (is_owned, used == 0),
            // With small pages, MySQL may lend a segment the extents that contain descriptor pages.
            ListKind::NotFull => (is_owned, used < extents.pages),
            ListKind::Full => (is_owned, used == extents.pages),
        };
        let owner = extents.owner(extent).unwrap_or(0);
        if !is_state {
            Some(format!("is in the state {state}"))
        } else if owner != self.segment {
            Some(format!("belongs to segment {owner}"))
        } else if !fill {
            Some(format!("has {used} used pages of {}", extents.pages))
        } else {
            None
        }
    }
}

/// How a walk over a list ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// At its end; the extents on it have this many used pages in all.
    Whole(u64),
    /// At damage, already reported, or at extents without a readable descriptor.
    Broken,
}

/// Everything that the lists are checked against.
pub(super) struct Lists<'l> {
    pub extents: &'l Extents,
    pub links: &'l Links,
    pub format: &'l SpaceFormat,
    /// Number of extents below the free limit.
    pub described: u32,
    listed: Vec<bool>,
    findings: Vec<TreeFinding>,
}

impl<'l> Lists<'l> {
    pub fn new(extents: &'l Extents, links: &'l Links, format: &'l SpaceFormat, free_limit: u32) -> Self {
        let described = free_limit.checked_div(extents.pages).unwrap_or(0);
        let listed = vec![false; extents.len() as usize];
        Self { extents, links, format, described, listed, findings: Vec::new() }
    }

    /// Walks all lists of the tablespace and returns what is wrong. Unless all segments are known (`is_whole`), unlisted extents of unknown
    /// segments are not reported.
    pub fn check(
        mut self,
        header: &SpaceHeader,
        segments: &BTreeMap<u64, PlacedSegment>,
        is_whole: bool,
    ) -> Vec<TreeFinding> {
        // Lists not walked to their end: extents that belong in one of them cannot be called missing.
        let mut broken = BTreeSet::new();
        let of_space = |kind, base| List { kind, segment: 0, base, page_no: 0 };
        let lists = [
            (ListKind::Free, header.free),
            (ListKind::FreeFrag, header.free_frag),
            (ListKind::FullFrag, header.full_frag),
        ];
        for (kind, base) in lists {
            match self.walk(&of_space(kind, base)) {
                End::Whole(used) if kind == ListKind::FreeFrag && used != u64::from(header.frag_n_used) => {
                    let counted = u64::from(header.frag_n_used);
                    self.findings.push(TreeFinding::new(Rule::FragmentsUsed, 0, counted, used));
                }
                End::Whole(_) => {}
                End::Broken => {
                    broken.insert((kind, 0));
                }
            }
        }
        for (id, placed) in segments {
            let (segment, page_no) = (&placed.segment, placed.at.0);
            let lists = [
                (ListKind::SegmentFree, segment.free),
                (ListKind::NotFull, segment.not_full),
                (ListKind::Full, segment.full),
            ];
            for (kind, base) in lists {
                match self.walk(&List { kind, segment: *id, base, page_no }) {
                    End::Whole(used) if kind == ListKind::NotFull && used != u64::from(segment.not_full_n_used) => {
                        let counted = u64::from(segment.not_full_n_used);
                        let finding = TreeFinding::new(Rule::SegmentUsed, page_no, counted, used);
                        self.findings.push(finding.because(&format!("segment {id}")));
                    }
                    End::Whole(_) => {}
                    End::Broken => {
                        broken.insert((ListKind::Full, *id));
                    }
                }
            }
        }
        self.missed(&broken, segments, is_whole);
        self.findings
    }

    /// Walks a list from its first extent to its last.
    fn walk(&mut self, list: &List) -> End {
        let (mut before, mut link) = (Link::End, Link::of(list.base.first, self.format));
        let (mut count, mut used) = (0_u64, 0_u64);
        while link != Link::End {
            let Some(extent) = self.step(list, before, link) else { return End::Broken };
            if let Some(why) = list.refuses(self.extents, extent) {
                let why = format!("{list}: the extent of page {} {why}", self.extents.first(extent));
                let page_no = self.extents.place(extent, self.format).0;
                self.findings.push(TreeFinding::new(Rule::ListMember, page_no, 0, 0).because(&why));
            }
            let prev = self.links.prev(extent);
            if prev != before {
                let why = format!(
                    "{list}: {} names {} as the one before it, but that is {}",
                    self.named(Link::Extent(extent)),
                    self.named(prev),
                    self.named(before)
                );
                let page_no = self.extents.place(extent, self.format).0;
                self.findings.push(TreeFinding::new(Rule::ListPointer, page_no, 0, 0).because(&why));
            }
            count += 1;
            used += u64::from(self.extents.used(extent));
            (before, link) = (Link::Extent(extent), self.links.next(extent));
        }
        let last = Link::of(list.base.last, self.format);
        if last != before {
            let why = format!(
                "{list}: its base names {} as the last one, but that is {}",
                self.named(last),
                self.named(before)
            );
            self.findings.push(TreeFinding::new(Rule::ListPointer, list.page_no, 0, 0).because(&why));
        }
        if count != u64::from(list.base.len) {
            let finding = TreeFinding::new(Rule::ListLength, list.page_no, u64::from(list.base.len), count);
            self.findings.push(finding.because(&list.to_string()));
        }
        End::Whole(used)
    }

    /// The next extent of a list; `None` if the list cannot be followed.
    fn step(&mut self, list: &List, before: Link, link: Link) -> Option<u32> {
        let wrong = match link {
            Link::Extent(extent) if extent < self.described => {
                let listed = self.listed.get_mut(extent as usize)?;
                if !self.extents.knows(self.extents.first(extent)) {
                    return None;
                }
                if !std::mem::replace(listed, true) {
                    return Some(extent);
                }
                ", which a list has led to before"
            }
            Link::Extent(_) => ", which lies beyond the free limit",
            _ => ", where no descriptor lies",
        };
        let from = match before {
            Link::End => "its base".to_owned(),
            before => self.named(before),
        };
        let why = format!("{list}: {from} names {} as the next one{wrong}", self.named(link));
        let page_no = match before {
            Link::Extent(before) => self.extents.place(before, self.format).0,
            _ => list.page_no,
        };
        self.findings.push(TreeFinding::new(Rule::ListPointer, page_no, 0, 0).because(&why));
        None
    }

    fn named(&self, link: Link) -> String {
        match link {
            Link::End => "none".to_owned(),
            Link::Extent(extent) => format!("the extent of page {}", self.extents.first(extent)),
            Link::Nowhere(address) => format!("page {}, byte {}", address.page_no.0, address.offset),
        }
    }

    /// Reports extents below the free limit that are on no list: one finding for each list they could belong to.
    fn missed(&mut self, broken: &BTreeSet<(ListKind, u64)>, segments: &BTreeMap<u64, PlacedSegment>, is_whole: bool) {
        let mut missed: BTreeMap<(u64, &str), (u64, u32)> = BTreeMap::new();
        for extent in 0..self.described.min(self.extents.len()) {
            let is_listed = self.listed.get(extent as usize) != Some(&false);
            if is_listed || !self.extents.knows(self.extents.first(extent)) {
                continue;
            }
            let owner = self.extents.owner(extent).unwrap_or(0);
            let (kind, name) = match self.extents.state(extent) {
                Some(ExtentState::Free) => (ListKind::Free, "free"),
                Some(ExtentState::FreeFrag) => (ListKind::FreeFrag, "allocated page by page, with free pages"),
                Some(ExtentState::FullFrag) => (ListKind::FullFrag, "allocated page by page, without free pages"),
                Some(ExtentState::Segment | ExtentState::SegmentFrag) => (ListKind::Full, "of a segment"),
                _ => (ListKind::Full, "not initialised"),
            };
            let is_segments = owner != 0 && !is_whole && !segments.contains_key(&owner);
            if !is_segments && !broken.contains(&(kind, owner)) {
                missed.entry((owner, name)).or_insert((0, extent)).0 += 1;
            }
        }
        for ((owner, name), (count, first)) in missed {
            let name = match owner {
                0 => name.to_owned(),
                owner if segments.contains_key(&owner) => format!("of segment {owner}"),
                owner => format!("of segment {owner}, which does not exist"),
            };
            let why = format!("{count} {name}, the first is that of page {}", self.extents.first(first));
            let page_no = self.extents.place(first, self.format).0;
            self.findings.push(TreeFinding::new(Rule::ListMissing, page_no, 0, 0).because(&why));
        }
    }
}
