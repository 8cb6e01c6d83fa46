//! Carries out a plan: files, pages, the list for the server. Then only the log is left to close.

use std::path::Path;

use flow::rewrite::Safety;
use format::SpaceId;
use format::keyring::KeyStore;

use super::apply::{Counts, Work};
use super::backup_files::FileNotes;
use super::budget::Budget;
use super::durable::sync_directory_of;
use super::ending::Ending;
use super::error::{Result, failed};
use super::files::{Done, Files};
use super::later_files::named_in;
use super::log::RedoLog;
use super::options::RecoverOptions;
use super::plan::RecoverPlan;
use super::prefetch::PrefetchedFile;
use super::reach::Reach;
use super::recovered::Recovered;
use super::tuning::engine;
use super::{
    backup, definition_files, dictionary_pages, doublewrite, outside, planning, shadow, unfinished, waiting, warm,
};
use crate::door;
use datadir::redo_log::unbegun_truncation_logs;

/// A recovery whose plan is made.
pub(super) struct Run<'r> {
    pub datadir: &'r Path,
    pub log: &'r RedoLog,
    pub options: &'r RecoverOptions,
    pub keys: &'r KeyStore,
    pub budget: Budget,
}

/// How pages are written.
pub(super) enum Writing {
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
        let waiting = waiting::give_up(datadir, log, &mut work, keys)?;
        if let Some(flushed) = ending.flush_lsn(log, &plan.wanted) {
            work.put_flush_lsn(flushed)?;
        }
        let counts = work.finish()?;
        dictionary_pages::check(datadir, &plan)?;
        let has_file = |space| named_in(datadir, space).is_some();
        plan.wanted.later.as_ref().map_or(Ok(()), |later| later.refuse_without_files(datadir, keys, has_file))?;
        let definitions = definition_files::settle(datadir, log, &plan, (keys, options.stale_tables))?;
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
pub(super) fn open_log(
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
pub(super) fn mark_closed(datadir: &Path) -> Result<()> {
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
    planning::plan(datadir, plan.wanted, keys)
}
