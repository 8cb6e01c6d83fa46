//! Damage in the trees of dropped indexes. MariaDB frees their pages when it purges the dictionary's rows, perhaps only after its next start,
//! and reads no page of theirs but the root.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use format::keyring::KeyStore;

use super::settle::OF_THE_FILE;
use super::settling::Settling;
use crate::definitions::Definitions;
use crate::definitions::known::know;
use datadir::catalog::{Catalog, DroppedTree};
use datadir::severity::Severity;
use datadir::tablespace::{FoundFile, Opener, Tablespace};

impl Settling<'_> {
    /// Makes notes of what is damaged in dropped indexes only.
    pub fn dropped_indexes(&mut self, catalogs: &[Catalog], keys: &KeyStore) {
        if self.live {
            return;
        }
        for (root, dropped) in catalogs.iter().filter_map(Catalog::dropped_trees) {
            for file in 0..self.done.len() as u32 {
                if let Some(pages) = self.dropped_pages(file, (root, &dropped), keys).filter(|pages| !pages.is_empty())
                {
                    self.damage_on_dropped_pages(file, pages);
                }
            }
        }
    }

    /// The pages of dropped indexes, if something in the file is damaged. `None` if recovery may yet change that.
    fn dropped_pages(
        &mut self,
        file: u32,
        (root, dropped): (&Path, &HashSet<DroppedTree>),
        keys: &KeyStore,
    ) -> Option<BTreeSet<u32>> {
        let done = self.done.get(file as usize).filter(|_| self.findings.has_trouble(file))?;
        let space = done.head.as_ref().ok().filter(|known| known.part.first_page == 0)?.part.format.space().0;
        let path = &done.candidate.path;
        let is_here = done.member.is_none() && path.starts_with(root) && space != 0;
        if !is_here || !dropped.iter().any(|tree| tree.space == space) || self.redo.pending_for(path).is_some() {
            return None;
        }
        let found = FoundFile::of(path.clone()).ok()?;
        let opened = Tablespace::open(&[found], keys, None).ok()?;
        let known = know(&opened, &Definitions::default(), &mut Opener::new());
        let trees = known
            .roots
            .iter()
            .filter(|tree| dropped.contains(&DroppedTree { space, root: tree.page_no, index_id: tree.index_id }));
        let segments = trees.flat_map(|tree| tree.leaf_segment.into_iter().chain(tree.top_segment));
        let roots: HashSet<u32> = known.roots.iter().map(|tree| tree.page_no).collect();
        let pages = segments.flat_map(|segment| known.map.pages_of(segment));
        Some(pages.filter(|page| !roots.contains(page)).collect())
    }

    fn damage_on_dropped_pages(&mut self, file: u32, pages: BTreeSet<u32>) {
        let is_dropped = |page: Option<u32>| page.is_some_and(|page| pages.contains(&page));
        let turned = self.findings.of_file(file).filter(|finding| {
            finding.severity == Severity::Damage && is_dropped(finding.page) && !OF_THE_FILE.contains(&finding.reason)
        });
        let turned = turned.count() as u64;
        let Some(done) = self.done.get_mut(file as usize) else { return };
        let corrupt = turned.min(done.tally.counts.corrupt);
        done.tally.counts.corrupt -= corrupt;
        done.tally.counts.freed_damage += corrupt;
        self.findings.damage_turned_notice(file, turned);
        self.dropped.insert(file, pages);
    }
}
