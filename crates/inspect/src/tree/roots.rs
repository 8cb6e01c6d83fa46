//! Roots: the first page of a segment, if the page names that very segment as its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use format::bytes::is_zero;
use format::fil::PageType;
use format::page::index::{IndexPage, SegmentHeader};
use format::record::RecordStyle;

use super::{Rule, SpaceMap, TreeFinding};
use datadir::tablespace::{Opener, Tablespace};

/// A root.
#[derive(Debug, Clone)]
pub struct Root {
    /// Its page number.
    pub page_no: u32,
    /// The index id.
    pub index_id: u64,
    /// Its level: the number of levels less one.
    pub level: u16,
    /// Whether it is a leaf without records: nothing leads to any other page of its segments.
    pub is_empty: bool,
    /// The leaf segment.
    pub leaf_segment: Option<u64>,
    /// The segment of all other pages. It includes the root, whatever its level.
    pub top_segment: Option<u64>,
    /// Number of pages in both segments.
    pub pages: u64,
    /// The type of the page.
    pub page_type: PageType,
    /// The format of its records.
    pub style: RecordStyle,
    /// See [`IndexPage::instant_core`].
    pub instant_core: Option<u16>,
    /// The page as opened.
    pub image: RootImage,
}

/// A root page without its long runs of zeros: most roots are those of small tables, and a datadir may have a hundred thousand.
#[derive(Debug, Clone, Default)]
pub struct RootImage {
    len: usize,
    /// Offset and bytes of each part that is not all zeros.
    parts: Box<[(usize, Box<[u8]>)]>,
}

/// A shorter run of zeros costs more to leave out than to keep, bytes.
const RUN_MIN: usize = 64;

impl RootImage {
    /// Of the bytes of a page.
    #[must_use]
    pub fn of(page: &[u8]) -> Self {
        let (mut parts, mut at) = (Vec::new(), 0);
        let mut rest = page;
        while let Some(zeros) = zeros_before(rest) {
            let (_, from) = rest.split_at(zeros);
            let mut end = 0;
            // A part ends where a run of zeros begins.
            for chunk in from.chunks(RUN_MIN) {
                if is_zero(chunk) {
                    break;
                }
                end += chunk.len();
            }
            let (part, after) = from.split_at(end);
            parts.push((at + zeros, Box::from(part)));
            at += zeros + end;
            rest = after;
        }
        Self { len: page.len(), parts: parts.into() }
    }

    /// The whole page.
    #[must_use]
    pub fn page(&self) -> Arc<[u8]> {
        let mut page = vec![0; self.len];
        for (at, part) in &self.parts {
            if let Some(place) = page.get_mut(*at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
        page.into()
    }
}

/// Where the first byte is that is not zero. Whole runs are passed over at once: most of a root is zeros.
fn zeros_before(bytes: &[u8]) -> Option<usize> {
    let runs = bytes.chunks(RUN_MIN).position(|run| !is_zero(run))? * RUN_MIN;
    let within = bytes.get(runs..)?.iter().position(|byte| *byte != 0)?;
    Some(runs + within)
}

/// The roots of a tablespace, ascending; faults go to `findings`. `named` are the dictionary's root pages.
#[must_use]
pub fn find(
    space: &Tablespace,
    map: &SpaceMap,
    named: &[u32],
    opener: &mut Opener,
    findings: &mut Vec<TreeFinding>,
) -> Vec<Root> {
    let firsts = map.segments.values().filter_map(|placed| placed.segment.fragments.first()).map(|page_no| page_no.0);
    let candidates: BTreeSet<u32> = firsts.chain(named.iter().copied()).collect();
    let mut roots = Vec::new();
    let mut owned = BTreeSet::new();
    for page_no in candidates {
        let named = named.contains(&page_no);
        match root_at(space, map, page_no, named, opener) {
            Ok(Some(root)) => {
                owned.extend(root.leaf_segment.into_iter().chain(root.top_segment));
                if root.leaf_segment.is_none() || root.top_segment.is_none() {
                    findings.push(TreeFinding::new(Rule::SegmentHeader, page_no, 0, 0));
                }
                roots.push(root);
            }
            Ok(None) if named => findings.push(TreeFinding::new(Rule::RootLost, page_no, 0, 0)),
            Err(why) if named => findings.push(TreeFinding::new(Rule::RootLost, page_no, 0, 0).because(&why)),
            _ => {}
        }
    }
    // The system tablespace and undo tablespaces have other kinds of segments too.
    if space.format.space().0 != 0 && !roots.is_empty() {
        for (id, placed) in &map.segments {
            let page = placed.segment.fragments.first().map(|page_no| page_no.0);
            if let Some(page_no) = page.filter(|_| !owned.contains(id)) {
                findings.push(TreeFinding::new(Rule::NoRoot, page_no, *id, 0));
            }
        }
    }
    roots
}

/// The root on this page. Even with a wrong checksum, the page is believed if its segments fit.
fn root_at(
    space: &Tablespace,
    map: &SpaceMap,
    page_no: u32,
    named: bool,
    opener: &mut Opener,
) -> Result<Option<Root>, String> {
    let image = space.stored_with(page_no, opener, |stored, opener| opener.open(stored, page_no, space).image)?;
    let Ok(page) = IndexPage::parse(&image, &space.format) else { return Ok(None) };
    let Some((leaf, top)) = page.segments() else { return Ok(None) };
    let segment = |header: SegmentHeader| map.segment_at((header.inode.page_no.0, header.inode.offset));
    let (leaf, top) = (segment(leaf), segment(top));
    let is_first = |page: u32| top.is_some_and(|top| top.fragments.first().is_some_and(|first| first.0 == page));
    if !named && !is_first(page_no) {
        return Ok(None);
    }
    let (leaf_segment, top_segment) = (leaf.map(|segment| segment.id), top.map(|segment| segment.id));
    let size = |list: format::page::fsp::ListBase| u64::from(list.len) * u64::from(space.format.extent_pages());
    let pages = leaf
        .into_iter()
        .chain(top)
        .map(|segment| segment.fragments.len() as u64 + size(segment.not_full) + size(segment.full));
    let (index_id, level, pages) = (page.index_id(), page.level(), pages.sum());
    let is_empty = page.is_leaf() && page.record_count() == 0;
    let (page_type, style, instant_core) = (page.page_type(), page.style(), page.instant_core());
    Ok(Some(Root {
        page_no,
        index_id,
        level,
        is_empty,
        leaf_segment,
        top_segment,
        pages,
        page_type,
        style,
        instant_core,
        image: RootImage::of(&image),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_page_is_the_page_and_zeros_take_no_memory() {
        let mut page = vec![0_u8; 16384];
        assert!(RootImage::of(&page).parts.is_empty());
        assert_eq!(*RootImage::of(&page).page(), *page);
        for (at, len) in [(0, 200), (260, 1), (16376, 8), (300, 70), (5000, 64), (5128, 1)] {
            page[at..at + len].fill(7);
            let packed = RootImage::of(&page);
            assert_eq!(*packed.page(), *page, "{at}");
            let kept: usize = packed.parts.iter().map(|(_, part)| part.len()).sum();
            assert!(kept < 1024, "{kept}");
        }
        page.fill(1);
        assert_eq!(*RootImage::of(&page).page(), *page);
        assert!(RootImage::of(&[]).page().is_empty());
    }
}
