//! Sums over a file's pages, in any order of arrival. Bounded: only the lowest index ids and damaged page numbers are kept, so the result
//! does not depend on the order.

use std::collections::BTreeMap;

use format::fil::PageType;
use format::{Family, Verdict};

use super::grid::Grid;
use super::look::{IndexLook, Look, Use};
use super::report::{ChecksumRow, CompressionInfo, DamagedPage, IndexRow, LsnRange, PageCounts, TypeRow};

/// Indexes listed at most; a damaged or strange file may name one per page.
const INDEXES_MAX: usize = 16_384;

/// Damaged pages listed at most.
pub(super) const DAMAGED_MAX: usize = 20;

/// The sums so far.
#[derive(Default)]
pub(super) struct Sums {
    pub counts: PageCounts,
    pub grid: Option<Grid>,
    /// The file could not be read, or not to its end.
    pub failure: Option<String>,
    pub undecided: BTreeMap<&'static str, u64>,
    pub damaged: BTreeMap<u32, DamagedPage>,
    pub compression: CompressionInfo,
    lsn: Option<LsnRange>,
    checksums: BTreeMap<&'static str, u64>,
    types: BTreeMap<(PageType, Option<PageType>), u64>,
    indexes: BTreeMap<(&'static str, Option<u64>), IndexSums>,
    indexes_not_listed: u64,
}

#[derive(Clone, Debug, Default)]
struct IndexSums {
    /// Level and number of the page most likely to be the root.
    root: Option<(u16, u32)>,
    level_max: u16,
    pages: u64,
    leaf_pages: u64,
    records: u64,
    used: u64,
    free: u64,
}

impl Sums {
    /// Starts empty; with a grid, pages are also drawn into it.
    pub fn new(grid: Option<Grid>) -> Self {
        Self { grid, ..Self::default() }
    }

    /// Adds a page.
    pub fn add(&mut self, look: &Look) {
        self.count(look);
        self.count_use(look);
        if let Some(grid) = &mut self.grid {
            grid.add(look.page_no, look.dab());
        }
        if look.verdict == Verdict::Empty {
            return;
        }
        if look.lsn > 0 {
            self.add_lsn(look.lsn, look.page_no);
        }
        if matches!(look.verdict, Verdict::Corrupt(_)) {
            return;
        }
        *self.types.entry((look.page_type, look.inside)).or_default() += 1;
        self.counts.encrypted += u64::from(look.encrypted);
        self.counts.unopened += u64::from(look.closed);
        if let Some((algorithm, bytes)) = look.compressed {
            self.counts.compressed += 1;
            *self.compression.algorithms.entry(algorithm).or_default() += 1;
            self.compression.compressed_bytes += bytes;
        }
        if let Some(index) = look.index.filter(|_| look.is_live()) {
            self.add_index(look, index);
        }
    }

    /// Adds a page that the device could not read in full.
    pub fn add_unreadable(&mut self, page: u32, in_use: Use, message: String) {
        self.counts.total += 1;
        self.counts.corrupt += 1;
        self.note_use(in_use, true);
        self.note_damage(page, "unreadable_page", message, in_use);
    }

    fn count(&mut self, look: &Look) {
        self.counts.total += 1;
        match &look.verdict {
            Verdict::Ok(algorithm) => {
                self.counts.ok += 1;
                *self.checksums.entry(algorithm.name()).or_default() += 1;
            }
            Verdict::Empty => self.counts.empty += 1,
            Verdict::Corrupt(why) => {
                self.counts.corrupt += 1;
                self.note_damage(look.page_no, why.reason(), why.to_string(), look.in_use);
            }
            Verdict::Unverifiable(why) => {
                self.counts.unverifiable += 1;
                *self.undecided.entry(why.name()).or_default() += 1;
            }
        }
    }

    fn count_use(&mut self, look: &Look) {
        self.note_use(look.in_use, matches!(look.verdict, Verdict::Corrupt(_)));
        let free = matches!(look.in_use, Use::Free | Use::NeverUsed);
        self.counts.free_with_content += u64::from(free && look.verdict != Verdict::Empty);
    }

    fn note_use(&mut self, in_use: Use, corrupt: bool) {
        match in_use {
            Use::Used => self.counts.used += 1,
            Use::Free => self.counts.free += 1,
            Use::NeverUsed => self.counts.never_used += 1,
            Use::Unknown => self.counts.use_unknown += 1,
        }
        self.counts.corrupt_free += u64::from(corrupt && in_use == Use::Free);
    }

    fn note_damage(&mut self, page: u32, reason: &'static str, message: String, in_use: Use) {
        self.damaged.insert(page, DamagedPage { page, reason, message, free: in_use == Use::Free });
        if self.damaged.len() > DAMAGED_MAX {
            self.damaged.pop_last();
        }
    }

    fn add_lsn(&mut self, lsn: u64, page: u32) {
        let range = self.lsn.get_or_insert(LsnRange { min: lsn, max: lsn, newest_page: page });
        range.min = range.min.min(lsn);
        // Of several pages with the newest LSN take the first, whichever worker read it.
        if lsn > range.max || (lsn == range.max && page < range.newest_page) {
            (range.max, range.newest_page) = (lsn, page);
        }
    }

    fn add_index(&mut self, look: &Look, index: IndexLook) {
        let tree = match look.inside.unwrap_or(look.page_type) {
            PageType::SDI => "SDI",
            PageType::RTREE => "R-tree",
            _ => "B-tree",
        };
        self.indexes.entry((tree, index.id)).or_default().add(look.page_no, index);
        if self.indexes.len() > INDEXES_MAX
            && let Some((_, sums)) = self.indexes.pop_last()
        {
            self.indexes_not_listed += sums.pages;
        }
    }

    /// LSNs of the sound pages.
    pub fn lsn(&self) -> Option<LsnRange> {
        self.lsn
    }

    /// Pages of unlisted indexes.
    pub fn indexes_not_listed(&self) -> u64 {
        self.indexes_not_listed
    }

    /// By checksum algorithm, the one with the most pages first.
    pub fn checksums(&self) -> Vec<ChecksumRow> {
        let mut rows: Vec<_> =
            self.checksums.iter().map(|(algorithm, pages)| ChecksumRow { algorithm, pages: *pages }).collect();
        rows.sort_by(|a, b| b.pages.cmp(&a.pages).then(a.algorithm.cmp(b.algorithm)));
        rows
    }

    /// By page type, the one with the most pages first.
    pub fn page_types(&self, family: Family) -> Vec<TypeRow> {
        let words = |kind: PageType| kind.name(family).map_or_else(|| format!("type {kind}"), str::to_owned);
        let row = |(kind, pages): (&(PageType, Option<PageType>), &u64)| TypeRow {
            number: kind.0.0,
            name: words(kind.0),
            inside: kind.1.map(words),
            pages: *pages,
        };
        let mut rows: Vec<TypeRow> = self.types.iter().map(row).collect();
        rows.sort_by(|a, b| b.pages.cmp(&a.pages).then(a.number.cmp(&b.number)).then(a.inside.cmp(&b.inside)));
        rows
    }

    /// By index id, pages without one last. The caller fills in the names.
    pub fn indexes(&self) -> Vec<IndexRow> {
        let mut rows: Vec<IndexRow> = self.indexes.iter().map(|((tree, id), sums)| sums.row(tree, *id)).collect();
        rows.sort_by_key(|row| (row.index_id.is_none(), row.index_id, row.tree));
        rows
    }
}

impl IndexSums {
    fn add(&mut self, page: u32, look: IndexLook) {
        self.pages += 1;
        self.level_max = self.level_max.max(look.level);
        self.used += look.used;
        self.free += look.free;
        if look.level == 0 {
            self.leaf_pages += 1;
            self.records += u64::from(look.records);
        }
        let better = |(level, number): (u16, u32)| look.level > level || (look.level == level && page < number);
        if look.alone && self.root.is_none_or(better) {
            self.root = Some((look.level, page));
        }
    }

    fn row(&self, tree: &'static str, index_id: Option<u64>) -> IndexRow {
        let room = self.used + self.free;
        let fill = if room == 0 { 0.0 } else { self.used as f64 / room as f64 };
        let hidden = index_id.is_none();
        IndexRow {
            index_id,
            table: None,
            name: None,
            tree,
            root_page: self.root.map(|(_, page)| page),
            levels: if hidden { 0 } else { u32::from(self.level_max) + 1 },
            pages: self.pages,
            leaf_pages: if hidden { 0 } else { self.leaf_pages },
            records: self.records,
            bytes_used: self.used,
            bytes_free: self.free,
            fill: (fill * 1000.0).round() / 1000.0,
        }
    }
}
