//! A tablespace's segments: the two lists of inode pages, and the inodes on them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use format::SpaceHeader;
use format::bytes::be;
use format::corruption::SEGMENT_MAGIC;
use format::fil::{FIL_PAGE_TYPE, PageType};
use format::page::fsp::{FileAddress, ListBase, ListNode};
use format::page::inode::{
    FSEG_ARR_OFFSET, FSEG_ID, FSEG_INODE_PAGE_NODE, FSEG_MAGIC_N, Segment, inode_size, inodes_per_page,
};

use super::segment::PlacedSegment;
use super::{Rule, TreeFinding};
use datadir::tablespace::{Opener, Tablespace};

/// Every tablespace has its first inode page here.
const FIRST_INODE_PAGE: u32 = 2;

/// The segments, as read from their inodes.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    /// Segments by id.
    pub segments: BTreeMap<u64, PlacedSegment>,
    /// Segment ids by page and byte offset of the inode.
    pub places: HashMap<(u32, u16), u64>,
    /// The owning segment of each fragment page.
    pub fragments: BTreeMap<u32, u64>,
    /// The inode pages.
    pub pages: BTreeSet<u32>,
    /// Whether both lists were followed to their ends.
    pub is_whole: bool,
    pub findings: Vec<TreeFinding>,
}

impl Inodes {
    /// Reads the inode pages on both lists.
    pub fn read(space: &Tablespace, header: &SpaceHeader, opener: &mut Opener) -> Self {
        let mut inodes = Self { is_whole: true, ..Self::default() };
        for (base, is_full) in [(header.inodes_full, true), (header.inodes_free, false)] {
            inodes.walk(base, is_full, (space, header), opener);
        }
        // If the list is broken, at least read the page that holds all segments of most tablespaces.
        if !inodes.is_whole && !inodes.pages.contains(&FIRST_INODE_PAGE) {
            inodes.add_lost_page(FIRST_INODE_PAGE, (space, header), opener);
        }
        inodes
    }

    /// Reads a page that no list leads to, if it is an inode page.
    pub fn add_lost_page(&mut self, page_no: u32, (space, header): (&Tablespace, &SpaceHeader), opener: &mut Opener) {
        let page = space.sound(page_no, opener).ok();
        if let Some(page) = page.filter(|page| be::u16_at(page, FIL_PAGE_TYPE) == Some(PageType::INODE.0)) {
            self.pages.insert(page_no);
            self.add(&page, page_no, (space, header));
        }
    }

    fn broken(&mut self, finding: TreeFinding) {
        self.is_whole = false;
        self.findings.push(finding);
    }

    fn walk(&mut self, base: ListBase, is_full: bool, of: (&Tablespace, &SpaceHeader), opener: &mut Opener) {
        let list = if is_full { "list SEG_INODES_FULL" } else { "list SEG_INODES_FREE" };
        let pointer = |page_no: u32, why: String| {
            TreeFinding::new(Rule::ListPointer, page_no, 0, 0).because(&format!("{list}: {why}"))
        };
        let (mut before, mut at, mut count) = (None, base.first, 0_u32);
        while !at.is_none() {
            let page_no = at.page_no.0;
            let from = || before.map_or("its base".to_owned(), |page_no: u32| format!("page {page_no}"));
            let wrong = match usize::from(at.offset) {
                FSEG_INODE_PAGE_NODE if page_no >= of.0.pages() => Some(", which is not in the file"),
                FSEG_INODE_PAGE_NODE if !self.pages.insert(page_no) => Some(", which a list has led to before"),
                FSEG_INODE_PAGE_NODE => None,
                _ => Some(", where no inode page has its node"),
            };
            if let Some(wrong) = wrong {
                let why = format!("{} names page {page_no}, byte {} as the next one{wrong}", from(), at.offset);
                return self.broken(pointer(before.unwrap_or(0), why));
            }
            let page = match self.inode_page(page_no, of.0, opener) {
                Ok(page) => page,
                Err(finding) => return self.broken(finding.because(&format!("{list} leads to it"))),
            };
            let Some(node) = ListNode::read(&page, FSEG_INODE_PAGE_NODE) else { return };
            let prev = (!node.prev.is_none()).then_some(node.prev.page_no.0);
            if prev != before {
                let why =
                    format!("page {page_no} names {} as the one before it, but that is {}", named(prev), named(before));
                self.findings.push(pointer(page_no, why));
            }
            let free = self.add(&page, page_no, of);
            if is_full != (free == 0) {
                let why = format!("{list}: the inode page {page_no} has room for {free} segments");
                self.findings.push(TreeFinding::new(Rule::ListMember, page_no, 0, 0).because(&why));
            }
            (before, at, count) = (Some(page_no), node.next, count + 1);
        }
        self.end(list, base, (before, count));
    }

    /// Checks a list base against the last member and the number of members found.
    fn end(&mut self, list: &str, base: ListBase, (before, count): (Option<u32>, u32)) {
        let is_node = |address: FileAddress| usize::from(address.offset) == FSEG_INODE_PAGE_NODE;
        let last = (!base.last.is_none()).then_some(base.last.page_no.0);
        if last != before || last.is_some() && !is_node(base.last) {
            let why = format!(
                "{list}: its base names {}, byte {} as the last one, but that is {}",
                named(last),
                base.last.offset,
                named(before)
            );
            self.findings.push(TreeFinding::new(Rule::ListPointer, 0, 0, 0).because(&why));
        }
        if count != base.len {
            // If the base counts more members, the list may have lost its end.
            self.is_whole &= count > base.len;
            let finding = TreeFinding::new(Rule::ListLength, 0, u64::from(base.len), u64::from(count));
            self.findings.push(finding.because(list));
        }
    }

    fn inode_page(&self, page_no: u32, space: &Tablespace, opener: &mut Opener) -> Result<Arc<[u8]>, TreeFinding> {
        let unreadable = |why: String| TreeFinding::new(Rule::Unreadable, page_no, 0, 0).because(&why);
        let page = space.sound(page_no, opener).map_err(unreadable)?;
        match be::u16_at(&page, FIL_PAGE_TYPE) {
            Some(kind) if kind == PageType::INODE.0 => Ok(page),
            kind => {
                let found = u64::from(kind.unwrap_or(0));
                Err(TreeFinding::new(Rule::NotInodes, page_no, found, u64::from(PageType::INODE.0)))
            }
        }
    }

    /// Reads the inodes of a page. Returns the number of free slots.
    fn add(&mut self, page: &[u8], page_no: u32, (space, header): (&Tablespace, &SpaceHeader)) -> u32 {
        let (logical, physical) = (space.format.logical(), space.format.physical());
        let mut free = 0;
        for slot in 0..inodes_per_page(logical, physical) {
            let at = FSEG_ARR_OFFSET + slot * inode_size(logical);
            let id = be::u64_at(page, at + FSEG_ID).unwrap_or(0);
            if id == 0 {
                free += 1;
                continue;
            }
            let magic = be::u32_at(page, at + FSEG_MAGIC_N).unwrap_or(0);
            if magic != SEGMENT_MAGIC {
                let finding = TreeFinding::new(Rule::SegmentMagic, page_no, u64::from(magic), u64::from(SEGMENT_MAGIC));
                self.broken(finding.because(&format!("segment {id}, at byte {at}")));
                continue;
            }
            if id >= header.next_segment_id {
                self.findings.push(TreeFinding::new(Rule::SegmentId, page_no, id, header.next_segment_id));
            }
            if let Some(segment) = Segment::at(page, at as u16, &space.format) {
                self.place((page_no, at as u16), segment);
            }
        }
        free
    }

    fn place(&mut self, at: (u32, u16), segment: Segment) {
        for fragment in &segment.fragments {
            if let Some(other) = self.fragments.insert(fragment.0, segment.id) {
                self.findings.push(TreeFinding::new(Rule::SegmentTwice, fragment.0, other, segment.id));
            }
        }
        self.places.insert(at, segment.id);
        if let Some(other) = self.segments.get(&segment.id) {
            let why = format!("page {}, byte {} and page {}, byte {}", other.at.0, other.at.1, at.0, at.1);
            return self.broken(TreeFinding::new(Rule::SegmentIdTwice, at.0, segment.id, 0).because(&why));
        }
        self.segments.insert(segment.id, PlacedSegment { at, segment });
    }
}

fn named(page_no: Option<u32>) -> String {
    page_no.map_or("none".to_owned(), |page_no| format!("page {page_no}"))
}
