//! A recovery in the datadir itself, which a crash may interrupt at any write.

use std::path::Path;

use flow::lock::Sharing;
use format::Lsn;
use format::keyring::KeyStore;

use super::interrupted::finish_interrupted;
use super::{Run, Writing, checked_plan, mark_closed, open_log};
use crate::manifest;
use crate::recover::error::{Result, refused};
use crate::recover::finish::recovered::Recovered;
use crate::recover::log::RedoLog;
use crate::recover::options::RecoverOptions;
use crate::recover::place::taken::Taken;
use crate::recover::place::{self, Lock, SHADOW_NAME, outside, unfinished};
use crate::recover::plan::budget::Budget;
use crate::recover::replay::reach::Reach;
use crate::recover::survey::prefetch::Prefetcher;
use crate::recover::survey::wanted::Wanted;
use datadir::files::AskPath;

pub(super) fn recover_in_place(datadir: &Path, options: &RecoverOptions, keys: &KeyStore) -> Result<Recovered> {
    let _lock = Lock::take(datadir, Sharing::Exclusive)?;
    let taken = Taken::to_compare(datadir, options)?;
    if options.is_fresh {
        // What the set calls outside is another server's, on this host.
        outside::mark(datadir)?;
    }
    let log = open_log(datadir, true, options, keys)?;
    if log.is_kept() && options.until.is_some() && !options.is_fresh {
        return refused(
            "the server keeps its redo log as an archive, of which a recovery to an earlier LSN leaves nothing: name a directory for a recovered \
             copy (--to)",
        );
    }
    if options.is_fresh && log.backup.is_none() {
        outside::settle_links(datadir)?;
    }
    let (budget, prefetcher) = begin(datadir, &log, options);
    let at_once = budget.at_once(options.round);
    let read = || Wanted::read_beside(&log, budget.plan, at_once, options.until, prefetcher.as_ref());
    let wanted = taken.as_ref().map_or_else(read, |taken| taken.compare_beside(read))?;
    // After the whole log was read: a log that is damaged or does not fit leaves the datadir as it was, unmarked.
    unfinished::mark_or_refuse(datadir, options.redo.is_some() || options.is_fresh)?;
    let reach = Reach::of(datadir, options.outside);
    // Before the plan, which reads first pages: an interrupted run may have left them torn, and only its shadow file has them whole.
    let replayed = finish_interrupted(reach, &wanted, options, keys)?;
    let plan = checked_plan::plan(datadir, wanted, keys)?;
    // Here, and not when a file is opened: a refusal after the first write would leave the datadir changed.
    reach.check(&plan)?;
    options.tell_outside(|| reach.outside_in(&plan).into_iter().collect());
    // Files outside are not part of a copy.
    let is_copy = options.is_fresh && plan.outside.is_empty();
    // From here on, files change, and those of a backup no longer match its manifest.
    if !is_copy {
        manifest::mark_recovering(datadir)?;
    }
    // From here on files get longer or change their names. What was read until now is of the files as they were.
    let prefetched = prefetcher.map(Prefetcher::stop).unwrap_or_default();
    let writing = if is_copy { Writing::Copy } else { Writing::InPlace(prefetched) };
    let run = Run { datadir, log: &log, options, keys, budget };
    let (recovered, ending) = run.change(plan, writing)?;
    if let Some(ending) = ending {
        ending.write(&log, Lsn(recovered.end_lsn))?;
    }
    if options.is_fresh {
        outside::refuse_left(datadir, keys)?;
        place::sync(datadir)?;
    }
    mark_closed(datadir)?;
    let files_compared = taken.map_or(0, |taken| taken.compared());
    Ok(Recovered { pieces_replayed: replayed, files_compared, ..recovered })
}

/// Divides the memory, and begins to read pages early if they are certain to be the same later: if nothing else writes to files before.
fn begin(datadir: &Path, log: &RedoLog, options: &RecoverOptions) -> (Budget, Option<Prefetcher>) {
    let (budget, tuning) = (Budget::of(options.memory), &options.tuning);
    let is_plain = log.backup.is_none() && options.redo.is_none() && options.until.is_none() && !options.is_fresh;
    if !tuning.prefetch || !is_plain || datadir.join(SHADOW_NAME).is_there() {
        return (budget, None);
    }
    let budget = budget.with_prefetch(log.len_max());
    let has_memory = budget.prefetched > 0;
    (budget, has_memory.then(|| Prefetcher::start(datadir, budget.prefetched, budget.stretch_max(tuning))))
}
