//! Damaged pages of trees while recovery is pending: undecided if it writes them again, damage if not.

use std::collections::BTreeSet;
use std::path::Path;

use format::keyring::KeyStore;
use format::{PageNo, Verdict};

use super::walked::Walked;
use crate::definitions::known::Known;
use datadir::catalog::Mending;
use datadir::page::PageOpener;
use datadir::tablespace::{Opener, Tablespace};

/// Pages of one tablespace asked about, at most.
const PAGES_MAX: usize = 4096;

/// The pages with findings whose bytes are wrong, and that the pending recovery of `datadir` does not write again. Before recovery, pages that
/// contradict each other prove nothing.
pub(super) fn beyond_recovery(known: &Known, walked: &[Walked], datadir: &Path, keys: &KeyStore) -> BTreeSet<u32> {
    let space = &known.space;
    let of_trees = walked.iter().flat_map(|walked| &walked.report.findings);
    let named = known.findings.iter().chain(of_trees).filter_map(|finding| finding.page_no);
    let named: BTreeSet<u32> = named.collect();
    let mut opener = Opener::new();
    let torn = named.into_iter().filter(|page| is_wrong(space, *page, &mut opener)).take(PAGES_MAX);
    let torn: BTreeSet<_> = torn.map(|page| space.at(page).id).collect();
    if torn.is_empty() {
        return BTreeSet::new();
    }
    let Some(mending) = Mending::read(datadir, keys, &torn) else { return BTreeSet::new() };
    let mut opener = PageOpener::new();
    let lost = torn.into_iter().filter(|id| mending.of(space.at(id.page_no.0), &mut opener).is_none());
    lost.map(|id| id.page_no).map(|PageNo(page)| page).collect()
}

fn is_wrong(space: &Tablespace, page: u32, opener: &mut Opener) -> bool {
    let Ok(stored) = space.stored(page) else { return false };
    matches!(opener.open(&stored, page, space).verdict, Verdict::Corrupt(_))
}
