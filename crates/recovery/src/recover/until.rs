//! Recovery that ends before the log does.
//!
//! Redo cannot be undone: a page written after the end, or a file created, renamed, deleted or truncated after it, cannot be taken back. So
//! the rest of the log is read too, and compared with the files: they must be as if the server had died at the end. Pages that the log
//! initializes before the end may be newer, since their content is not read.

use std::path::{Path, PathBuf};

use flow::rewrite::{RewriteOptions, Safety};
use format::{Lsn, PageId, SpaceId, Verdict};
use redo::record::Grammar;

use super::apply::Work;
use super::error::{Result, refused};
use super::files::Files;
use super::head::Head;
use super::log_end::refuse_newer;
use super::plan::RecoverPlan;
use super::rest::{OperationKind, Rest};
use super::space::PlannedSpace;
use super::survey::{NewestPage, Survey};
use super::tuning::engine;
use super::wanted::Wanted;
use datadir::page::PageOpener;
use datadir::redo_log::Truncation;

/// Bytes of pages checked at a time.
const LOOK_MEMORY: usize = 8 << 20;

/// Fails if a file operation in the rest of the log is already carried out.
pub(super) fn check_files(rest: &Rest, datadir: &Path, wanted: &Wanted, survey: &Survey) -> Result<()> {
    if let Some((space, lsn)) = rest.trimmed.first() {
        return rest.refuse(&format!("tablespace {space} was cut down"), *lsn);
    }
    let firsts = rest.files.iter().filter_map(|(space, operations)| Some((operations.first()?, space, operations)));
    let mut firsts: Vec<_> = firsts.collect();
    firsts.sort_by_key(|(first, ..)| first.lsn);
    for (first, space, operations) in firsts {
        let found = survey.files.get(space).map(Vec::as_slice).unwrap_or_default();
        let name = first.names.first().map(|name| name.display().to_string()).unwrap_or_default();
        // Its first page may not have been written yet.
        let unwritten = |name: &&PathBuf| matches!(Head::read(&datadir.join(name)), Ok(None));
        if first.kind == OperationKind::Made {
            let names = operations.iter().flat_map(|operation| &operation.names);
            if !found.is_empty() || names.into_iter().any(|name| unwritten(&name)) {
                return rest.refuse(&format!("{name} was made"), first.lsn);
            }
            continue;
        }
        let before: Vec<&PathBuf> = wanted.names_of(*space).iter().chain(first.names.first()).collect();
        let is_there = |name: &&PathBuf| found.contains(name) || (found.is_empty() && unwritten(name));
        if !before.iter().any(is_there) {
            let what = if first.kind == OperationKind::Renamed { "renamed" } else { "deleted" };
            return rest.refuse(&format!("{name} was {what}"), first.lsn);
        }
    }
    Ok(())
}

/// Fails if MySQL may have changed files after the end without redo. It empties undo tablespaces and builds indexes without redo, and none
/// of its records builds a page from nothing, so no page may be newer than the end.
pub(super) fn check_unlogged(rest: &Rest, datadir: &Path, survey: &Survey, end: Lsn) -> Result<()> {
    let NewestPage { path, page_no, lsn } = &survey.newest;
    if *lsn > end {
        return rest.refuse(&format!("{}: page {page_no} was written", path.display()), *lsn);
    }
    let mut spaces = survey.files.keys().copied();
    let may_be_truncated =
        |space: &SpaceId| Truncation::of(datadir, *space).is_some_and(|it| it != Truncation::Unbegun);
    match spaces.find(may_be_truncated) {
        Some(space) => refuse_truncated(rest, space),
        None => Ok(()),
    }
}

/// Refuses an undo tablespace that was truncated or was being truncated: it may have held undo that was needed at the end.
pub(super) fn refuse_truncated(rest: &Rest, space: SpaceId) -> Result<()> {
    refused(format!(
        "undo tablespace {space} was truncated, and it is unknown whether that was after LSN {}: recover the whole log",
        rest.until
    ))
}

/// Fails if a page that the rest of the log changes is newer than the end.
pub(super) fn check_pages(datadir: &Path, plan: &RecoverPlan) -> Result<()> {
    let Some(rest) = &plan.wanted.rest else { return Ok(()) };
    let is_wanted = |id: &PageId| plan.spaces.contains_key(&id.space) && !plan.wanted.fresh.contains(id);
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
            Verdict::Empty if plan.wanted.grammar == Grammar::MySql => Ok(()),
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
pub(super) fn check_outside(datadir: &Path, plan: &RecoverPlan) -> Result<()> {
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
