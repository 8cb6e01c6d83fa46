//! The plan of a recovery, checked against the pages that it depends on. Everything is decided here, before anything is written.

use std::path::Path;

use flow::rewrite::{RewriteOptions, Safety};
use format::keyring::KeyStore;
use format::{Lsn, PageId, Verdict};
use redo::record::Grammar;

use crate::recover::error::{Result, refused};
use crate::recover::options::tuning::engine;
use crate::recover::plan::draft::draft;
use crate::recover::plan::{RecoverPlan, dictionary_pages};
use crate::recover::replay::Work;
use crate::recover::replay::files::Files;
use crate::recover::space::PlannedSpace;
use crate::recover::space::log_end::refuse_newer;
use crate::recover::survey::wanted::Wanted;
use datadir::page::PageOpener;

/// Bytes of pages checked at a time.
const LOOK_MEMORY: usize = 8 << 20;

/// Plans the recovery of a datadir from its log. Fails if the plan cannot be carried out.
pub(in crate::recover) fn plan(datadir: &Path, wanted: Wanted, keys: &KeyStore) -> Result<RecoverPlan> {
    let mut plan = draft(datadir, wanted, keys)?;
    dictionary_pages::check(datadir, &plan)?;
    check_pages(datadir, &plan)?;
    // The others were in the draft only to be checked.
    let changed = &plan.wanted.files.changed;
    plan.spaces.retain(|space, _| changed.contains(space));
    check_outside(datadir, &plan)?;
    Ok(plan)
}

/// Fails if a page that the rest of the log changes is newer than the end.
fn check_pages(datadir: &Path, plan: &RecoverPlan) -> Result<()> {
    let Some(rest) = &plan.wanted.rest else { return Ok(()) };
    let is_wanted = |id: &PageId| plan.spaces.contains_key(&id.space) && !plan.wanted.pages.fresh.contains(id);
    let ids = rest.pages.keys().copied().filter(is_wanted).collect();
    let end = plan.wanted.end;
    let is_base_before = plan.wanted.is_base_before(rest.until);
    look_at(datadir, plan, ids, |id, space, verdict, lsn| {
        let (name, page) = (space.path.display(), id.page_no);
        let first = rest.pages.get(&id);
        match verdict {
            Verdict::Corrupt(_) if plan.copy_of(id, space, &mut PageOpener::new()).is_none() => refused(format!(
                "{name}: page {page} is damaged or half written, and has no copy from before LSN {}",
                rest.until
            )),
            Verdict::Corrupt(_) => Ok(()),
            // A base copy from before the end: the page was not in use yet.
            Verdict::Empty if is_base_before => Ok(()),
            // MySQL does not empty freed pages: this one was never written.
            Verdict::Empty if plan.wanted.kind.grammar == Grammar::MySql => Ok(()),
            // The page was free at the end, and a server may empty a freed page at any time.
            Verdict::Empty if first.is_some_and(|first| first.is_init) => Ok(()),
            Verdict::Empty => {
                rest.refuse(&format!("{name}: page {page} was freed and emptied"), first.map_or(end, |first| first.lsn))
            }
            _ if lsn > end => rest.refuse(&format!("{name}: page {page} was written"), lsn),
            _ => Ok(()),
        }
    })
}

/// Fails if files outside the datadir are newer than the end of the log: then they belong to the datadir that this one was copied from.
fn check_outside(datadir: &Path, plan: &RecoverPlan) -> Result<()> {
    let end = plan.wanted.log_end;
    let is_outside = |id: &PageId| plan.spaces.get(&id.space).is_some_and(|space| space.path.is_absolute());
    let ids = plan.wanted.voided().filter(is_outside).collect();
    look_at(datadir, plan, ids, |id, space, verdict, lsn| match verdict {
        Verdict::Ok(_) | Verdict::Unverifiable(_) => refuse_newer(&space.path, true, id.page_no, lsn, end),
        _ => Ok(()),
    })
}

/// Reads the pages and passes each one's verdict and LSN to `judge`.
fn look_at<J>(datadir: &Path, plan: &RecoverPlan, mut ids: Vec<PageId>, judge: J) -> Result<()>
where
    J: Fn(PageId, &PlannedSpace, &Verdict, Lsn) -> Result<()> + Sync,
{
    if ids.is_empty() {
        return Ok(());
    }
    ids.sort_unstable();
    let (files, _) = Files::as_they_are(datadir, plan)?;
    let options = RewriteOptions { memory: LOOK_MEMORY, workers: 0, ..RewriteOptions::default() };
    Work::new(plan, &files, engine(datadir), Safety::NothingIsWritten, options)?.look_at(&ids, judge)
}
