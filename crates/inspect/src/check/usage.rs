//! Zero pages against allocation. A checksum cannot tell a lost page from one never written, since both are zeros; the extent descriptors
//! can. Pages arrive in any order from several workers, so the pages that one XDES page describes (a *region*) are settled once all were
//! seen; only what is wrong is kept.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use format::page::doublewrite::{DoublewriteArea, TRX_SYS_PAGE_NO};
use format::page::fsp::FileAddress;
use format::page::inode::Segment;
use format::{ExtentMap, PageId, PageNo, SpaceFormat, SpaceHeader, page_in_use};

/// The first inode page of every tablespace.
const FIRST_INODE_PAGE: PageNo = PageNo(2);

/// What a worker saw in one piece of the file.
#[derive(Default)]
pub(super) struct Seen {
    /// First page.
    pub first: u32,
    /// Number of pages.
    pub pages: u32,
    /// The last page that is not all zero.
    pub last_with_data: Option<u32>,
    /// All-zero pages that may be in use, ascending.
    pub zero: Vec<u32>,
    /// Corrupt pages, ascending.
    pub corrupt: Vec<u32>,
    /// Extent descriptors found in it, by the number of their page.
    pub maps: Vec<(u32, ExtentMap)>,
}

impl Seen {
    /// Empties the lists but keeps their memory.
    pub fn restart(&mut self, first: u32) {
        self.first = first;
        self.pages = 0;
        self.last_with_data = None;
        self.zero.clear();
        self.corrupt.clear();
        self.maps.clear();
    }
}

#[derive(Default)]
struct Region {
    seen: u32,
    map: Option<ExtentMap>,
    zero: Vec<u32>,
    corrupt: Vec<u32>,
}

/// What the system tablespace says about its doublewrite area: its pages are allocated from the start and may never be written.
#[derive(Default)]
struct DoublewriteNotes {
    /// Page 2, which holds the inode of the area's segment.
    inodes: Option<Box<[u8]>>,
    /// From page 5: the area, and the address of the inode.
    area: Option<(DoublewriteArea, FileAddress)>,
}

#[derive(Default)]
struct Inner {
    doublewrite: DoublewriteNotes,
    regions: BTreeMap<u32, Region>,
    lost: Runs,
    freed_damage: Runs,
    last_with_data: Option<u32>,
}

/// Page numbers as ascending runs `(first, pages)`: zeroed pages come in long runs, so this stays small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(BTreeMap<u32, u32>);

impl Runs {
    /// Adds a page that is not yet included.
    pub fn add(&mut self, page: u32) {
        let behind = page.checked_add(1).and_then(|next| self.0.remove(&next)).unwrap_or(0);
        if let Some((first, pages)) = self.0.range_mut(..page).next_back()
            && *first + *pages == page
        {
            *pages += 1 + behind;
            return;
        }
        self.0.insert(page, 1 + behind);
    }

    /// Whether no page is included.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All but `pages`.
    fn without(&self, pages: &HashSet<u32>) -> Self {
        let mut rest = Self::default();
        for page in self.iter().flat_map(|(first, count)| first..first.saturating_add(count)) {
            if !pages.contains(&page) {
                rest.add(page);
            }
        }
        rest
    }

    /// Whether `page` is included.
    pub fn contains(&self, page: u32) -> bool {
        self.0.range(..=page).next_back().is_some_and(|(first, pages)| page - first < *pages)
    }

    /// The number of included pages in `first .. end`.
    pub fn count_within(&self, first: u32, end: u32) -> u32 {
        let overlap = |(start, pages): (u32, u32)| end.min(start + pages).saturating_sub(first.max(start));
        self.iter().map(overlap).sum()
    }

    /// Ascending `(first, pages)`.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().map(|(first, pages)| (*first, *pages))
    }
}

/// The pages of one tablespace, as workers report them.
pub(super) struct UsageMap {
    format: SpaceFormat,
    header: Option<SpaceHeader>,
    /// Pages in the tablespace's files, if they are known before the end.
    pages: Option<u32>,
    inner: Mutex<Inner>,
}

/// The result for the whole tablespace.
pub(super) struct Usage {
    /// The space header, if page 0 was there and sound.
    pub header: Option<SpaceHeader>,
    /// Zero pages that are in use.
    pub lost: Runs,
    /// Damaged pages that are free according to the extent descriptors.
    pub freed_damage: Runs,
    /// The last page that is not all zero.
    pub last_with_data: Option<u32>,
    /// Extent descriptors by region, to tell which pages past the end of the file are free.
    maps: BTreeMap<u32, ExtentMap>,
    region_pages: u32,
}

impl UsageMap {
    /// `header` comes from page 0, if that is there and sound. It must be known before any region is settled.
    pub fn new(format: SpaceFormat, header: Option<SpaceHeader>) -> Self {
        Self { format, header, pages: None, inner: Mutex::default() }
    }

    /// The tablespace ends after this many pages. So its last region is settled with its last page and not at the end of the run: with many
    /// small tables, that region is all there is of each.
    pub fn ending_after(self, pages: u32) -> Self {
        Self { pages: Some(pages), ..self }
    }

    /// Pages from here on were never used, whatever they hold.
    pub fn free_limit(&self) -> u32 {
        self.header.as_ref().map_or(u32::MAX, |header| header.free_limit.0)
    }

    /// Takes over what a worker saw, under one short lock per piece.
    pub fn record(&self, seen: &mut Seen) {
        let region_pages = self.format.physical().get();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for (page, map) in seen.maps.drain(..) {
            inner.regions.entry(page / region_pages).or_default().map = Some(map);
        }
        for page in &seen.zero {
            inner.regions.entry(page / region_pages).or_default().zero.push(*page);
        }
        for page in &seen.corrupt {
            inner.regions.entry(page / region_pages).or_default().corrupt.push(*page);
        }
        inner.last_with_data = inner.last_with_data.max(seen.last_with_data);
        inner.count(seen.first, seen.pages, self);
    }

    /// Remembers what a sound system tablespace page says of the doublewrite area.
    pub fn note_system_page(&self, number: u32, page: &[u8]) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if PageNo(number) == FIRST_INODE_PAGE {
            inner.doublewrite.inodes = Some(page.into());
        } else if PageNo(number) == TRX_SYS_PAGE_NO {
            inner.doublewrite.area = DoublewriteArea::parse(page).zip(DoublewriteArea::segment_inode(page));
        }
    }

    /// Settles the remaining regions: those at the end of the file, or with unread pages.
    pub fn finish(&self) -> Usage {
        let mut inner = self.inner.lock().map(|mut inner| std::mem::take(&mut *inner)).unwrap_or_default();
        let mut maps = BTreeMap::new();
        for (number, mut region) in std::mem::take(&mut inner.regions) {
            inner.settle(&mut region, self.header.as_ref(), &self.format);
            maps.extend(region.map.map(|map| (number, map)));
        }
        let lost = match &inner.doublewrite.area {
            Some(_) => inner.lost.without(&inner.doublewrite.never_written(&self.format)),
            None => inner.lost,
        };
        Usage {
            header: self.header,
            lost,
            freed_damage: inner.freed_damage,
            last_with_data: inner.last_with_data,
            maps,
            region_pages: self.format.physical().get(),
        }
    }
}

impl Usage {
    /// How many of the pages `first .. end`, which the file lacks, are in use. Looks up at most one region's pages, whatever the header
    /// claims: past the last descriptors read, every page below the free limit counts as used.
    pub fn in_use_among(&self, first: u32, end: u32) -> u32 {
        let end = end.min(self.header.as_ref().map_or(0, |header| header.free_limit.0));
        let mut used = end.saturating_sub(first);
        let Some(map) = self.maps.get(&(first / self.region_pages)) else {
            return used;
        };
        let border = (first / self.region_pages + 1).saturating_mul(self.region_pages).min(end);
        for page in first..border {
            used -= u32::from(map.is_free(PageNo(page)) == Some(true));
        }
        used
    }
}

impl DoublewriteNotes {
    /// The fragment pages of the area's segment. If its inode is encrypted and cannot be read, assume any page before the area.
    fn never_written(&self, format: &SpaceFormat) -> HashSet<u32> {
        let Some((area, inode)) = &self.area else { return HashSet::new() };
        let page = self.inodes.as_deref().filter(|_| inode.page_no == FIRST_INODE_PAGE);
        match page.and_then(|page| Segment::at(page, inode.offset, format)) {
            Some(segment) => segment.fragments.iter().map(|page| page.0).collect(),
            None => (0..area.block1.0.min(format.physical().get())).collect(),
        }
    }
}

impl Inner {
    /// Counts pages as seen and settles complete regions, so memory does not grow with the file.
    fn count(&mut self, first: u32, pages: u32, space: &UsageMap) {
        let region_pages = u64::from(space.format.physical().get());
        let in_files = space.pages.map_or(u64::MAX, u64::from);
        let (mut at, end) = (u64::from(first), u64::from(first) + u64::from(pages));
        while at < end {
            let number = (at / region_pages) as u32;
            let start = u64::from(number) * region_pages;
            let border = start + region_pages;
            let region = self.regions.entry(number).or_default();
            region.seen += (end.min(border) - at) as u32;
            if u64::from(region.seen) >= in_files.min(border).saturating_sub(start)
                && let Some(mut region) = self.regions.remove(&number)
            {
                self.settle(&mut region, space.header.as_ref(), &space.format);
                // Of the pages that the file lacks, the descriptors tell which are free.
                let lacks_pages = space.header.as_ref().is_some_and(|header| in_files < u64::from(header.size));
                if lacks_pages && in_files < border {
                    region.seen = 0;
                    self.regions.insert(number, region);
                }
            }
            at = end.min(border);
        }
    }

    fn settle(&mut self, region: &mut Region, header: Option<&SpaceHeader>, format: &SpaceFormat) {
        let Some(map) = &region.map else { return };
        for page in region.zero.drain(..) {
            let id = PageId { space: format.space(), page_no: PageNo(page) };
            let in_use = header.and_then(|header| page_in_use(PageNo(page), header, map)) == Some(true);
            // Doublewrite slots are allocated but may never have been written.
            if in_use && !format.is_doublewrite_slot(id) {
                self.lost.add(page);
            }
        }
        for page in region.corrupt.drain(..) {
            if map.is_free(PageNo(page)) == Some(true) {
                self.freed_damage.add(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extent_maps_are_kept_no_longer_than_the_last_page_of_a_file() {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
        let bytes = zstd::decode_all(std::fs::File::open(packed).expect("the fixture")).expect("fixtures are zstd");
        let page0 = bytes.get(..16384).expect("page 0");
        let format = SpaceFormat::from_page0(page0).expect("a format");
        let header = SpaceHeader::parse(page0).expect("a header");
        let map = || ExtentMap::parse(page0, PageNo(0), &format).expect("a map");
        // The maps that are left after all pages of a file with that many were seen, in two pieces.
        let left = |pages: u32| {
            let usage = UsageMap::new(format, Some(header)).ending_after(pages);
            usage.record(&mut Seen { first: 0, pages: 3, maps: vec![(0, map())], ..Seen::default() });
            assert_eq!(usage.inner.lock().expect("no panic").regions.len(), 1);
            usage.record(&mut Seen { first: 3, pages: pages - 3, ..Seen::default() });
            let left = usage.inner.lock().expect("no panic").regions.len();
            (left, usage.finish().in_use_among(pages, header.size))
        };
        assert_eq!(left(header.size), (0, 0));
        // Of the pages that a file lacks, the map tells which are free.
        let end = header.size.min(header.free_limit.0);
        let (kept, in_use) = left(end - 100);
        let free = (end - 100..end).filter(|page| map().is_free(PageNo(*page)) == Some(true)).count();
        assert_eq!((kept, in_use as usize), (1, 100 - free));
    }

    #[test]
    fn runs_join_in_any_order() {
        let mut runs = Runs::default();
        for page in [7, 5, 6, 1, 9, 0] {
            runs.add(page);
        }
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0, 2), (5, 3), (9, 1)]);
        assert!(runs.contains(6) && !runs.contains(8) && runs.contains(9));
        assert_eq!((runs.count_within(0, 100), runs.count_within(1, 6), runs.count_within(8, 9)), (6, 2, 0));
    }
}
