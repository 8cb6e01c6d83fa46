//! A tree's leaves, as its inner pages list them, cut into ranges that several workers can read in parallel.
//!
//! ```text
//! root -> each_stored, level by level -> the pages of level 1 (of a small tree: the leaves) in key order -> N ranges
//! ```
//!
//! Only the page numbers of one level are held: 4 bytes per 16 MiB or so of rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use format::PageNo;
use format::page::index::IndexPage;
use format::record::{Record, RecordFields};
use format::schema::IndexDef;

use datadir::tablespace::{Opener, Tablespace};

/// No tree has more levels.
const LEVELS_MAX: u16 = 32;
/// With fewer level-1 pages than this, ranges are cut between leaves.
const PARENTS_ENOUGH: usize = 256;

/// An unreadable page; everything below it is lost too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostPage {
    /// Its page number.
    pub page_no: u32,
    /// Levels below it.
    pub level: u16,
    /// Why, as a clause.
    pub why: String,
}

/// A child page and the node pointer to it.
#[derive(Debug, Clone)]
pub struct Child {
    /// The child's page number.
    pub page_no: u32,
    /// Origin of the node pointer on the parent.
    pub origin: u16,
}

/// The pages of a tablespace visited so far, shared by all workers.
#[derive(Debug)]
pub struct Reached(Vec<AtomicU64>);

impl Reached {
    /// A set for this many pages, none of them visited yet.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        Self((0..=pages / 64).map(|_| AtomicU64::new(0)).collect())
    }

    /// Marks a page. Returns whether this is the first visit.
    pub fn mark(&self, page_no: u32) -> bool {
        let bit = 1 << (page_no % 64);
        // Relaxed: which of several workers is the first is decided by this operation alone; no other memory depends on it.
        self.0.get(page_no as usize / 64).is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Whether the page was visited.
    #[must_use]
    pub fn has(&self, page_no: u32) -> bool {
        let word = self.0.get(page_no as usize / 64);
        // Relaxed: asked by the walk that marked its pages, after the workers that helped it have ended.
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (page_no % 64) & 1 == 1)
    }
}

/// Pages of one level, in key order, that together lead to all leaves.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    /// The pages.
    pub units: Vec<u32>,
    /// Their level: 1, or 0 if they are the leaves themselves.
    pub level: u16,
    /// For leaves, the node pointers to them.
    pub pointers: Vec<Pointer>,
    /// Unreadable inner pages: the leaves below them are missing.
    pub lost: Vec<LostPage>,
}

impl Ranges {
    /// Descends from the root of index `index_id` at `root`. `wanted` chooses which children of an inner page matter.
    #[must_use]
    pub fn read(
        space: &Tablespace,
        (root, index_id): (u32, u64),
        index: &IndexDef,
        opener: &mut Opener,
        wanted: impl FnMut(&IndexPage<'_>, Vec<Child>) -> Vec<Child>,
    ) -> Self {
        Self::down(space, (root, index_id), (index, PARENTS_ENOUGH), opener, wanted)
    }

    /// The same, but only down to the pages of level 1, however few they are.
    #[must_use]
    pub fn parents(
        space: &Tablespace,
        root: (u32, u64),
        index: &IndexDef,
        opener: &mut Opener,
        wanted: impl FnMut(&IndexPage<'_>, Vec<Child>) -> Vec<Child>,
    ) -> Self {
        Self::down(space, root, (index, 0), opener, wanted)
    }

    fn down(
        space: &Tablespace,
        (root, index_id): (u32, u64),
        (index, parents_enough): (&IndexDef, usize),
        opener: &mut Opener,
        mut wanted: impl FnMut(&IndexPage<'_>, Vec<Child>) -> Vec<Child>,
    ) -> Self {
        let reached = Reached::new(space.pages());
        let mut ranges = Self { units: vec![root], ..Self::default() };
        let level = space.sound(root, opener).and_then(|image| {
            let page = IndexPage::parse(&image, &space.format).map_err(|why| format!("page {root}: {why}"))?;
            if page.index_id() == index_id {
                Ok(page.level())
            } else {
                Err(other_index(root, page.index_id(), index_id))
            }
        });
        match level {
            Ok(level) if level <= LEVELS_MAX => ranges.level = level,
            Ok(level) => ranges.lose(root, level, format!("page {root} says that it has {level} levels below it")),
            Err(why) => ranges.lose(root, 0, why),
        }
        reached.mark(root);
        while ranges.level > 1 || ranges.level == 1 && ranges.units.len() < parents_enough {
            let level = ranges.level;
            let parents = std::mem::take(&mut ranges.units);
            let mut below = Vec::new();
            space.each_stored(&parents, |page_no, stored| {
                let image = stored.and_then(|stored| space.opened(page_no, stored, opener));
                let children = image.and_then(|image| {
                    let page = inner_page(&image, space, PageInTree { page_no, level, index_id })?;
                    let children = children(&page, index, space.pages())?;
                    Ok((Arc::clone(&image), wanted(&page, children)))
                });
                match children {
                    Ok((image, children)) => below.extend(pointers(&image, &children)),
                    Err(why) => ranges.lost.push(LostPage { page_no, level, why }),
                }
            });
            for (page_no, pointer) in below {
                // Skipping visited pages breaks cycles and returns no row twice.
                if reached.mark(page_no) {
                    ranges.units.push(page_no);
                    if level == 1 {
                        ranges.pointers.push(pointer);
                    }
                } else {
                    ranges.lost.push(LostPage {
                        page_no,
                        level,
                        why: format!("two node pointers lead to page {page_no}"),
                    });
                }
            }
            ranges.level -= 1;
        }
        ranges
    }

    fn lose(&mut self, page_no: u32, level: u16, why: String) {
        self.units.clear();
        self.level = 0;
        self.lost.push(LostPage { page_no, level, why });
    }

    /// Keeps only enough leaves, spread evenly over the tree, for about `rows` rows.
    pub fn sample(&mut self, space: &Tablespace, index_id: u64, index: &IndexDef, rows: u64, opener: &mut Opener) {
        // In a large tree, take some leaves below each of a few level-1 pages.
        const PARENTS: usize = 64;
        if self.level == 1 {
            self.units = thinned(&self.units, PARENTS);
            let parents = std::mem::take(&mut self.units);
            space.each_stored(&parents, |page_no, stored| {
                let image = stored.and_then(|stored| space.opened(page_no, stored, opener));
                let below = image.and_then(|image| {
                    children(
                        &inner_page(&image, space, PageInTree { page_no, level: 1, index_id })?,
                        index,
                        space.pages(),
                    )
                });
                match below {
                    Ok(below) => self.units.extend(below.iter().map(|child| child.page_no)),
                    Err(why) => self.lost.push(LostPage { page_no, level: 1, why }),
                }
            });
            self.level = 0;
        }
        self.pointers.clear();
        // Takes the middle leaf's record count as typical.
        let middle = self.units.get(self.units.len() / 2).and_then(|page_no| space.sound(*page_no, opener).ok());
        let page = middle.as_deref().and_then(|image| IndexPage::parse(image, &space.format).ok());
        let each = page.map_or(1, |page| u64::from(page.record_count()).max(1));
        self.units = thinned(&self.units, usize::try_from(rows.div_ceil(each)).unwrap_or(usize::MAX));
    }

    /// Cuts the units into `count` ranges of about equal size, or fewer if there are fewer units. The same input gives the same ranges.
    #[must_use]
    pub fn split(&self, count: usize) -> Vec<Range<usize>> {
        let units = self.units.len();
        let count = count.clamp(1, units.max(1));
        (0..count).map(|at| units * at / count..units * (at + 1) / count).filter(|range| !range.is_empty()).collect()
    }
}

/// At most `most` of the pages, spread evenly.
fn thinned(pages: &[u32], most: usize) -> Vec<u32> {
    let (count, most) = (pages.len(), most.max(1));
    if count <= most {
        return pages.to_vec();
    }
    (0..most).filter_map(|at| pages.get(at * count / most).copied()).collect()
}

fn other_index(page_no: u32, found: u64, expected: u64) -> String {
    format!("page {page_no} belongs to index {found}, not {expected}")
}

/// A page's place in its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageInTree {
    /// Its page number.
    pub page_no: u32,
    /// Its level; 0: a leaf.
    pub level: u16,
    /// The index.
    pub index_id: u64,
}

/// Checks that an opened page is the expected inner page.
///
/// # Errors
/// Why it is not, as a clause.
pub fn inner_page<'p>(
    image: &'p [u8],
    space: &Tablespace,
    PageInTree { page_no, level, index_id }: PageInTree,
) -> Result<IndexPage<'p>, String> {
    let page = IndexPage::parse(image, &space.format).map_err(|why| format!("page {page_no}: {why}"))?;
    if page.index_id() != index_id {
        return Err(other_index(page_no, page.index_id(), index_id));
    }
    if page.level() != level {
        return Err(format!("page {page_no} is of level {}, not {level}", page.level()));
    }
    Ok(page)
}

/// The children of an inner page, in key order.
///
/// # Errors
/// Why its node pointers cannot be read, as a clause.
pub fn children(page: &IndexPage<'_>, index: &IndexDef, pages: u32) -> Result<Vec<Child>, String> {
    let page_no = page.page_no().0;
    let (mut out, mut fields) = (Vec::with_capacity(page.record_count().into()), RecordFields::new());
    for record in page.records() {
        let record = record.map_err(|why| format!("page {page_no}: {why}"))?;
        index.layout.locate(&record, &mut fields).map_err(|why| format!("page {page_no}: {why}"))?;
        match fields.child() {
            Some(PageNo(child)) if child < pages => out.push(Child { page_no: child, origin: record.origin() }),
            child => {
                let child = child.map_or(0, |child| child.0);
                return Err(format!("page {page_no} leads to page {child}, which is not in the file"));
            }
        }
    }
    Ok(out)
}

/// A node pointer, kept to tell which keys are below it.
#[derive(Debug, Clone)]
pub struct Pointer {
    /// The page it is on.
    pub image: Arc<[u8]>,
    /// Its origin.
    pub origin: u16,
    /// Origin of the next node pointer.
    pub next: Option<u16>,
}

/// The children of a page with their node pointers.
pub fn pointers<'c>(image: &'c Arc<[u8]>, children: &'c [Child]) -> impl Iterator<Item = (u32, Pointer)> + 'c {
    let next = children.iter().skip(1).map(|next| Some(next.origin)).chain([None]);
    let pointer = |(child, next): (&Child, Option<u16>)| {
        (child.page_no, Pointer { image: Arc::clone(image), origin: child.origin, next })
    };
    children.iter().zip(next).map(pointer)
}

impl Pointer {
    /// The record.
    #[must_use]
    pub fn record(&self, style: format::record::RecordStyle) -> Option<Record<'_>> {
        Record::new(&self.image, self.origin, style, false)
    }
}
