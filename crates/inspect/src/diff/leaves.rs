//! The leaves of two trees that may differ. A leaf that both trees have, and whose page is the same, has the same rows: it is not read.
//!
//! ```text
//! inner pages of A -> its leaves: those that may have changed, and a bit for each -> inner pages of B -> the same, but for those of A
//! ```
//!
//! That a page is unchanged is not enough: InnoDB frees a leaf without touching it, and the page above it says so. So the pages above the
//! leaves are read of both trees, about one in five hundred.

use format::SpaceId;

use crate::rows::damage::RowDamage;
use crate::rows::source::TreeSource;
use crate::tree::ranges::{PageInTree, Ranges, Reached, children, inner_page};
use datadir::tablespace::{Opener, Tablespace};
use flow::Job;

/// What is known about two moments of the same files.
pub trait Lineage: Sync {
    /// Whether the page has the same content at both moments for certain.
    fn is_unchanged(&self, space: SpaceId, page_no: u32) -> bool;
}

/// A tree, and the tablespace it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree<'t> {
    pub space: &'t Tablespace,
    pub tree: &'t TreeSource,
}

/// Leaves in key order.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    pub pages: Vec<u32>,
    /// Pages above them that were read.
    pub above: u64,
}

impl Tree<'_> {
    fn root(&self) -> (u32, u64) {
        self.tree.index.root.map_or((0, 0), |root| (root.root.0, root.id))
    }

    /// Whether both are the same tree of the same tablespace, at two moments.
    pub fn is_same_tree(&self, other: &Tree<'_>) -> bool {
        self.space.format == other.space.format && self.root() == other.root()
    }

    /// All its leaves, as ranges to be scanned.
    pub fn ranges(&self) -> Result<(Ranges, u64), RowDamage> {
        let (mut above, index) = (0, &self.tree.index);
        let ranges = Ranges::read(self.space, self.root(), index, &mut Opener::new(), |_, children| {
            above += 1;
            children
        });
        match ranges.lost.first() {
            Some(lost) => Err(RowDamage::of_lost(self.space, lost)),
            None => Ok((ranges, above)),
        }
    }

    /// Passes each leaf to `take`, in key order. Returns how many pages were read.
    fn each_leaf(&self, mut take: impl FnMut(u32)) -> Result<u64, RowDamage> {
        let (ranges, mut above) = self.ranges()?;
        if ranges.level == 0 {
            ranges.units.iter().for_each(|page_no| take(*page_no));
            return Ok(above);
        }
        let (space, index, mut opener) = (self.space, &self.tree.index, Opener::new());
        let (index_id, mut lost) = (self.root().1, None);
        space.each_stored(&ranges.units, |page_no, stored| {
            above += 1;
            let image = stored.and_then(|stored| space.opened(page_no, stored, &mut opener));
            let below = image.and_then(|image| {
                let page = inner_page(&image, space, PageInTree { page_no, level: 1, index_id })?;
                children(&page, index, space.pages())
            });
            match below {
                Ok(below) => below.iter().for_each(|child| take(child.page_no)),
                Err(why) => lost = lost.take().or(Some((page_no, why))),
            }
        });
        match lost {
            Some((page_no, why)) => Err(RowDamage::of_page(space, page_no, why)),
            None => Ok(above),
        }
    }
}

/// The leaves of each tree that may have other rows than the other's.
pub(super) fn differing(
    (a, job_a): (Tree<'_>, &Job),
    (b, job_b): (Tree<'_>, &Job),
    lineage: &dyn Lineage,
) -> Result<[Leaves; 2], RowDamage> {
    let space = a.space.format.space();
    let (in_a, in_b) = (Reached::new(a.space.pages()), Reached::new(b.space.pages()));
    let [mut of_a, mut of_b] = [Leaves::default(), Leaves::default()];
    let in_job = job_a.enter();
    of_a.above = a.each_leaf(|page_no| {
        in_a.mark(page_no);
        if !lineage.is_unchanged(space, page_no) {
            of_a.pages.push(page_no);
        }
    })?;
    drop(in_job);
    let in_job = job_b.enter();
    of_b.above = b.each_leaf(|page_no| {
        in_b.mark(page_no);
        if !in_a.has(page_no) || !lineage.is_unchanged(space, page_no) {
            of_b.pages.push(page_no);
        }
    })?;
    drop(in_job);
    // Leaves that B's tree has given up without a change to them. They are few and seldom, so their places are found by a second pass.
    let is_given_up = |page_no: &u32| in_a.has(*page_no) && !in_b.has(*page_no) && lineage.is_unchanged(space, *page_no);
    if (0..a.space.pages()).any(|page_no| is_given_up(&page_no)) {
        let _in_job = job_a.enter();
        of_a.pages.clear();
        of_a.above += a.each_leaf(|page_no| {
            if !in_b.has(page_no) || !lineage.is_unchanged(space, page_no) {
                of_a.pages.push(page_no);
            }
        })?;
    }
    Ok([of_a, of_b])
}
