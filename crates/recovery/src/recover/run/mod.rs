//! Carries out a plan: files, pages, the list for the server. Then only the log is left to close.

pub(super) mod checked_plan;
mod copied;
mod dry;
mod in_place;
mod interrupted;
pub(super) mod merged;
mod nearest;
pub(super) mod one;
pub(super) mod own;
pub(super) mod some;

use std::path::Path;

use flow::rewrite::Safety;
use format::SpaceId;
use format::keyring::KeyStore;

use crate::door;
use crate::recover::error::{Result, failed};
use crate::recover::finish::ending::Ending;
use crate::recover::finish::recovered::Recovered;
use crate::recover::finish::{definition_files, waiting, warm};
use crate::recover::foreign::backup;
use crate::recover::foreign::backup_files::FileNotes;
use crate::recover::log::RedoLog;
use crate::recover::options::RecoverOptions;
use crate::recover::options::tuning::engine;
use crate::recover::place::durable::sync_directory_of;
use crate::recover::place::{outside, unfinished};
use crate::recover::plan::budget::Budget;
use crate::recover::plan::{RecoverPlan, dictionary_pages};
use crate::recover::replay::files::{Done, Files};
use crate::recover::replay::reach::Reach;
use crate::recover::replay::{Counts, Work, shadow};
use crate::recover::space::doublewrite;
use crate::recover::survey::later_files::named_in;
use crate::recover::survey::prefetch::PrefetchedFile;
use datadir::redo_log::unbegun_truncation_logs;

/// A recovery whose plan is made.
pub(in crate::recover) struct Run<'r> {
    pub datadir: &'r Path,
    pub log: &'r RedoLog,
    pub options: &'r RecoverOptions,
    pub keys: &'r KeyStore,
    pub budget: Budget,
}

/// How pages are written.
pub(in crate::recover) enum Writing {
    /// Whole, whatever happens, with the parts of files that were read while the log was read.
    InPlace(Vec<PrefetchedFile>),
    /// To a copy that nobody uses before it is finished and durable. That is left to the caller.
    Copy,
}

impl Run<'_> {
    /// Carries out the plan for files and pages. Returns how to close the log, unless it is closed.
    pub fn change(&self, mut plan: RecoverPlan, writing: Writing) -> Result<(Recovered, Option<Ending>)> {
        let Self { datadir, log, options, keys, budget } = *self;
        forget_unbegun_truncations(datadir)?;
        if log.backup.is_some() {
            plan = with_files_as_noted(datadir, plan, keys)?;
        }
        if plan.wanted.is_clean {
            let waiting = waiting::left_in(datadir, log, keys);
            return Ok((Recovered { waiting, ..Recovered::of(&plan, Counts::default(), Done::default(), 0) }, None));
        }
        // Before any page is changed: a log that cannot be closed would leave files that no log belongs to.
        let ending = Ending::of(log, &plan, keys)?;
        let (mut done, is_copy) = (Done::default(), matches!(writing, Writing::Copy));
        let files = Files::as_they_should_be(Reach::of(datadir, options.outside), &plan, is_copy, &mut done)?;
        let (safety, tag) = if is_copy {
            (Safety::NewFiles, 0)
        } else {
            let (target, tag) = shadow::make(datadir, plan.wanted.tag())?;
            (Safety::Shadow(target), tag)
        };
        let rewrite = budget.rewrite(&plan, &options.tuning.within(options.memory), tag);
        let mut work = Work::new(&plan, &files, engine(datadir), safety, rewrite)?;
        if let Writing::InPlace(prefetched) = writing {
            work.hold(prefetched);
        }
        work.forget_later_copies()?;
        if let (Some(_), Some(system)) = (&plan.wanted.rest, plan.spaces.get(&SpaceId::SYSTEM)) {
            doublewrite::forget_in_files(datadir, &system.format, plan.wanted.end)?;
        }
        work.restore()?;
        work.run(log, budget.redo(&plan), Some(options.round))?;
        // After the redo: only then the undo logs say which transactions were prepared at the end.
        let waiting = waiting::give_up(datadir, log, &mut work, keys)?;
        if let Some(flushed) = ending.flush_lsn(log, &plan.wanted) {
            work.put_flush_lsn(flushed)?;
        }
        let counts = work.finish()?;
        // What the last pages say is known only with their redo. A copy that is refused here is discarded.
        dictionary_pages::check(datadir, &plan)?;
        let has_file = |space| named_in(datadir, space).is_some();
        plan.wanted.later.as_ref().map_or(Ok(()), |later| later.refuse_without_files(datadir, keys, has_file))?;
        let definitions = definition_files::settle(datadir, log, &plan, (keys, options.stale_tables))?;
        // The shadow file is what an interrupted run is mended from, so it goes after the pages are durable.
        if !is_copy {
            files.sync()?;
            shadow::remove(datadir)?;
        }
        // Before the log is closed: a run killed in between starts over and writes the same list.
        let pages_to_load = if options.warm { warm::write(datadir, &plan)? } else { 0 };
        Ok((Recovered { pages_to_load, waiting, definitions, ..Recovered::of(&plan, counts, done, 0) }, Some(ending)))
    }
}

/// The log to recover from.
pub(in crate::recover) fn open_log(
    datadir: &Path,
    for_writing: bool,
    options: &RecoverOptions,
    keys: &KeyStore,
) -> Result<RedoLog> {
    let log =
        RedoLog::open(datadir, for_writing, keys)?.with_archive(options.redo.as_deref(), options.redo_timeline)?;
    Ok(log.tuned(&options.tuning.within(options.memory)))
}

/// Records that the log is closed. A run killed before the last step leaves a finished copy that is refused all the same.
pub(in crate::recover) fn mark_closed(datadir: &Path) -> Result<()> {
    outside::unmark(datadir)?;
    backup::mark_prepared(datadir)?;
    unfinished::unmark(datadir)
}

/// Removes the markers of truncations that never began, with which MySQL would not start. The plan is made without them.
fn forget_unbegun_truncations(datadir: &Path) -> Result<()> {
    for note in unbegun_truncation_logs(datadir) {
        door::remove(datadir, note.file_name().unwrap_or_default())
            .map_err(failed(&note, "removing the marker of a truncation that never began"))?;
        sync_directory_of(&note)?;
    }
    Ok(())
}

/// Brings a backup's files to the state that the tool noted, then plans again. Recovery is known to be possible, but under the old names.
fn with_files_as_noted(datadir: &Path, plan: RecoverPlan, keys: &KeyStore) -> Result<RecoverPlan> {
    let notes = FileNotes::read(datadir)?;
    if notes.is_empty() {
        return Ok(plan);
    }
    notes.carry_out(datadir)?;
    checked_plan::plan(datadir, plan.wanted, keys)
}
