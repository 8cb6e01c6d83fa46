//! The leaves of two trees that may differ. A leaf that both trees have, and whose page is the same, has the same rows: it is not read.
//!
//! ```text
//! pages down to level 1, of both -> level 1: pages that both have unchanged, read once: their children that may have changed
//!                                           -> the others, read of each: all children
//!                                -> leaves that only one tree has, or that may have changed, in key order
//! ```
//!
//! That a leaf is unchanged is not enough: InnoDB frees a leaf without touching it, and only the page above says so. So the pages above the
//! leaves are read, about one in five hundred.

use std::collections::{HashMap, HashSet};

use flow::Job;
use format::SpaceId;

use crate::rows::damage::RowDamage;
use crate::rows::source::TreeSource;
use crate::tree::ranges::{PageInTree, Ranges, Reached, children, inner_page};
use datadir::tablespace::{Opener, Tablespace};

/// What is known about two moments of the same files.
pub trait Lineage: Sync {
    /// Whether the page has the same content at both moments for certain.
    fn is_unchanged(&self, space: SpaceId, page_no: u32) -> bool;
}

/// A tree, the tablespace it is in, and the job that reads it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree<'t> {
    pub space: &'t Tablespace,
    pub tree: &'t TreeSource,
    pub job: &'t Job,
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

    /// All its leaves, as ranges to be scanned, and how many pages were read.
    pub fn ranges(&self) -> Result<(Ranges, u64), RowDamage> {
        let _in_job = self.job.enter();
        let mut above = 0;
        let ranges = Ranges::read(self.space, self.root(), &self.tree.index, &mut Opener::new(), |_, children| {
            above += 1;
            children
        });
        self.sound(ranges).map(|ranges| (ranges, above))
    }

    /// Its pages of level 1; the root, if that is the only page. And how many pages were read.
    fn parents(&self) -> Result<(Ranges, u64), RowDamage> {
        let _in_job = self.job.enter();
        // The root is read first, to see which level it is of.
        let mut above = 1;
        let ranges = Ranges::parents(self.space, self.root(), &self.tree.index, &mut Opener::new(), |_, children| {
            above += 1;
            children
        });
        self.sound(ranges).map(|ranges| (ranges, above))
    }

    fn sound(&self, ranges: Ranges) -> Result<Ranges, RowDamage> {
        match ranges.lost.first() {
            Some(lost) => Err(RowDamage::of_lost(self.space, lost)),
            None => Ok(ranges),
        }
    }

    /// Passes the children of each of these pages of level 1 to `take`.
    fn each_child(&self, parents: &[u32], mut take: impl FnMut(u32, u32)) -> Result<(), RowDamage> {
        let _in_job = self.job.enter();
        let (space, index, mut opener) = (self.space, &self.tree.index, Opener::new());
        let (index_id, mut lost) = (self.root().1, None);
        space.each_stored(parents, |page_no, stored| {
            let image = stored.and_then(|stored| space.opened(page_no, stored, &mut opener));
            let below = image.and_then(|image| {
                let page = inner_page(&image, space, PageInTree { page_no, level: 1, index_id })?;
                children(&page, index, space.pages())
            });
            match below {
                Ok(below) => below.iter().for_each(|child| take(page_no, child.page_no)),
                Err(why) => lost = lost.take().or(Some((page_no, why))),
            }
        });
        lost.map_or(Ok(()), |(page_no, why)| Err(RowDamage::of_page(space, page_no, why)))
    }

    /// Collects the children of these pages of level 1, none of which may be another's too.
    fn each_own_child(&self, parents: &[u32], (reached, below): (&Reached, &mut Below)) -> Result<(), RowDamage> {
        let mut twice = None;
        self.each_child(parents, |parent, child| {
            if !reached.mark(child) {
                twice = twice.or(Some((parent, child)));
            }
            below.put(parent, child);
        })?;
        let why = |(parent, child)| (parent, format!("two node pointers lead to page {child}"));
        twice.map(why).map_or(Ok(()), |(parent, why)| Err(RowDamage::of_page(self.space, parent, why)))
    }
}

/// The leaves of each tree that may have other rows than the other's.
pub(super) fn differing(a: Tree<'_>, b: Tree<'_>, lineage: &dyn Lineage) -> Result<[Leaves; 2], RowDamage> {
    let space = a.space.format.space();
    let is_unchanged = |page_no: u32| lineage.is_unchanged(space, page_no);
    let ((parents_a, above_a), (parents_b, above_b)) = (a.parents()?, b.parents()?);
    if parents_a.level == 0 || parents_b.level == 0 {
        return roots((a, &parents_a, above_a), (b, &parents_b, above_b), &is_unchanged);
    }
    let of_b: HashSet<u32> = parents_b.units.iter().copied().collect();
    let shared: Vec<u32> =
        parents_a.units.iter().copied().filter(|page_no| of_b.contains(page_no) && is_unchanged(*page_no)).collect();
    let mut changed = Below::default();
    a.each_child(&shared, |parent, child| {
        if !is_unchanged(child) {
            changed.put(parent, child);
        }
    })?;
    let shared: HashSet<u32> = shared.into_iter().collect();
    let own = |parents: &Ranges| parents.units.iter().copied().filter(|it| !shared.contains(it)).collect::<Vec<u32>>();
    let (own_a, own_b) = (own(&parents_a), own(&parents_b));
    let (in_a, in_b) = (Reached::new(a.space.pages()), Reached::new(b.space.pages()));
    let (mut below_a, mut below_b) = (Below::default(), Below::default());
    a.each_own_child(&own_a, (&in_a, &mut below_a))?;
    b.each_own_child(&own_b, (&in_b, &mut below_b))?;
    let listed = |parents: &Ranges, below: &Below, above: usize, (mine, other): (&Reached, &Reached)| {
        let mut pages = Vec::new();
        for parent in &parents.units {
            pages.extend_from_slice(changed.of(*parent));
            let is_wanted = |child: &&u32| !(mine.has(**child) && other.has(**child) && is_unchanged(**child));
            pages.extend(below.of(*parent).iter().filter(is_wanted));
        }
        Leaves { pages, above: above as u64 }
    };
    let above_a = above_a as usize + shared.len() + own_a.len();
    let above_b = above_b as usize + own_b.len();
    Ok([listed(&parents_a, &below_a, above_a, (&in_a, &in_b)), listed(&parents_b, &below_b, above_b, (&in_b, &in_a))])
}

/// Trees of which one at least has no page but its root.
fn roots(
    (a, parents_a, above_a): (Tree<'_>, &Ranges, u64),
    (b, parents_b, above_b): (Tree<'_>, &Ranges, u64),
    is_unchanged: &dyn Fn(u32) -> bool,
) -> Result<[Leaves; 2], RowDamage> {
    let all = |tree: Tree<'_>, parents: &Ranges, above: u64| {
        if parents.level == 0 {
            return Ok(Leaves { pages: parents.units.clone(), above });
        }
        let mut pages = Vec::new();
        tree.each_child(&parents.units, |_, child| pages.push(child))?;
        Ok(Leaves { above: above + parents.units.len() as u64, pages })
    };
    let mut leaves = [all(a, parents_a, above_a)?, all(b, parents_b, above_b)?];
    if parents_a.level == 0 && parents_b.level == 0 && parents_a.units.iter().all(|root| is_unchanged(*root)) {
        leaves.iter_mut().for_each(|leaves| leaves.pages.clear());
    }
    Ok(leaves)
}

/// Children by their parents.
#[derive(Default)]
struct Below(HashMap<u32, Vec<u32>>);

impl Below {
    fn put(&mut self, parent: u32, child: u32) {
        self.0.entry(parent).or_default().push(child);
    }

    fn of(&self, parent: u32) -> &[u32] {
        self.0.get(&parent).map_or(&[], Vec::as_slice)
    }
}
