//! Damaged pages that a pending recovery writes again: undecided, until it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use format::keyring::KeyStore;
use format::{PageId, PageNo};

use super::settle::OF_THE_FILE;
use super::settling::Settling;
use crate::report::document::Finding;
use datadir::catalog::{Mending, Mends};
use datadir::page::PageOpener;
use datadir::severity::Severity;

impl Settling<'_> {
    /// Makes undecided what crash recovery repairs: a server that is killed leaves pages half written.
    pub fn mended_by_recovery(&mut self, keys: &KeyStore) {
        if self.live {
            return;
        }
        let mut by_dir: BTreeMap<PathBuf, (BTreeSet<PageId>, Vec<u32>)> = BTreeMap::new();
        for file in 0..self.done.len() as u32 {
            let pages = self.damaged_pages(file);
            if let Some(dir) = self.done.get(file as usize).filter(|_| !pages.is_empty()).and_then(|done| {
                let is_on_disk = done.member.is_none() && !done.gone;
                is_on_disk.then(|| self.redo.recovered_in(&done.candidate.path))?
            }) {
                let (of_dir, files) = by_dir.entry(dir).or_default();
                of_dir.extend(pages);
                files.push(file);
            }
        }
        for (dir, (pages, files)) in by_dir {
            let Some(mending) = Mending::read(&dir, keys, &pages) else { continue };
            files.into_iter().for_each(|file| self.mended_in(file, &mending));
        }
    }

    /// The pages with damage, free ones among them: what was freed last may still have redo from before.
    fn damaged_pages(&self, file: u32) -> BTreeSet<PageId> {
        let Some(Ok(known)) = self.done.get(file as usize).map(|done| &done.head) else { return BTreeSet::new() };
        let id = |page| PageId { space: known.part.format.space(), page_no: PageNo(page) };
        let of_pages = self.findings.of_file(file).filter(|finding| is_of_page(finding));
        of_pages.filter_map(|finding| finding.page).map(id).collect()
    }

    fn mended_in(&mut self, file: u32, mending: &Mending) {
        let freed = self.freed_damage.get(&file).cloned();
        let is_freed = |page: u32| freed.as_ref().is_some_and(|usage| usage.freed_damage.contains(page));
        let Some(done) = self.done.get_mut(file as usize) else { return };
        let Ok(known) = &done.head else { return };
        let (mut opener, mut needed) = (PageOpener::new(), BTreeSet::new());
        let turned = self.findings.damage_reviewed(file, |finding| {
            let Some(page) = finding.page.filter(|_| is_of_page(finding)) else { return };
            let at = known.part.at(PageNo(page));
            if mending.ends_at(at, &mut opener) {
                finding.message.push_str("; crash recovery has to change this page, and ends at it");
                needed.extend(is_freed(page).then_some(page));
                return;
            }
            let Some(mends) = mending.of(at, &mut opener).filter(|_| !is_freed(page)) else { return };
            finding.severity = Severity::Undecided;
            finding.message.push_str(match mends {
                Mends::Copy => "; crash recovery puts back its copy from the doublewrite buffer",
                Mends::Log => "; crash recovery makes it anew from the redo log",
            });
        });
        let counts = &mut done.tally.counts;
        let (turned, ends) = (turned.min(counts.corrupt), (needed.len() as u64).min(counts.freed_damage));
        counts.corrupt = counts.corrupt - turned + ends;
        counts.unverifiable += turned;
        counts.freed_damage -= ends;
        self.findings.notice_turned_damage(file, ends);
        self.needed.insert(file, needed);
    }
}

/// Whether the finding is damage of a page by itself.
fn is_of_page(finding: &Finding) -> bool {
    finding.severity == Severity::Damage && finding.page.is_some() && !OF_THE_FILE.contains(&finding.reason)
}
