//! Recovers a copy: `recover --to`, `restore`.
//!
//! Nobody uses the copy before it is finished, and after an interruption it is made again. So nothing in it needs to be saved before it is
//! changed, or durable before all of it is; and pages that were just copied are changed in the page cache, so the device writes most of
//! them once. The log is read from the original while everything is copied, and gets its name in the copy last: no server takes an
//! interrupted copy without it for a datadir.

use std::path::Path;

use flow::lock::Sharing;
use format::Lsn;
use format::keyring::KeyStore;

use super::{Run, Writing, checked_plan, mark_closed, open_log};
use crate::recover::error::Result;
use crate::recover::finish::ending::Ending;
use crate::recover::finish::recovered::Recovered;
use crate::recover::log::{RedoLog, create_kept, new_log};
use crate::recover::options::RecoverOptions;
use crate::recover::place;
use crate::recover::place::outside::Outside;
use crate::recover::place::taken::Taken;
use crate::recover::place::{Copying, Lock, SHADOW_NAME, outside};
use crate::recover::plan::RecoverPlan;
use crate::recover::plan::budget::Budget;
use crate::recover::replay::reach::Reach;
use crate::recover::replay::shadow;
use crate::recover::run::interrupted::shadow_tag;
use crate::recover::survey::tablespaces::Survey;
use crate::recover::survey::wanted::Wanted;
use datadir::files::AskPath;
use datadir::log_name::LOG;

/// Copies a datadir or a backup to `to`, which must be free, and recovers it there.
pub(in crate::recover) fn recover_copy(
    datadir: &Path,
    to: &Path,
    options: &RecoverOptions,
    keys: &KeyStore,
) -> Result<Recovered> {
    let _lock = Lock::take(datadir, Sharing::Shared)?;
    let taken = Taken::to_compare(datadir, options)?;
    let budget = Budget::of(options.memory);
    let mut log = open_log(datadir, false, options, keys)?;
    let at_once = budget.at_once(options.round);
    let copying = Copying::new(datadir, to, taken.as_ref());
    let inside = copying.begin()?;
    // Of a backup tool's log in one file nothing is left as a rule (`Ending`).
    let is_replaced = log.is_kept() && options.until.is_some();
    let has_log = taken.is_some() || !is_replaced && (log.backup.is_none() || !log.is_one_file());
    // The log takes a core to read, and the files mostly a device to copy. If recovery is impossible, the copying stops.
    let (wanted, files_outside) = copying.beside(&inside, has_log, || {
        let wanted = Wanted::read(&log, budget.plan, at_once, options.until)?;
        if datadir.join(SHADOW_NAME).is_there() {
            return Ok((None, Survey::take(datadir, &wanted, keys)?.outside));
        }
        let RecoverPlan { wanted, outside, .. } = checked_plan::plan(datadir, wanted, keys)?;
        Ok((Some(wanted).filter(|wanted| log.backup.is_some() || wanted.names_only_inside()), outside))
    })?;
    copying.outside(&files_outside)?;
    // Only now: the files that servers lock were made by the copying.
    let _lock_of_copy = Lock::take(to, Sharing::Exclusive)?;
    // Names that lead outside mean the copied files from here on.
    log.outside = Outside::MovedIn;
    let wanted = wanted.map_or_else(|| Wanted::read(&log, budget.plan, at_once, options.until), Ok)?;
    let tag = shadow_tag(datadir, &wanted, options, keys)?;
    // The copy has the torn pages of an interrupted run in place, and its shadow file: they are mended here, the original stays as it is.
    let replayed = shadow::finish_interrupted(datadir, Reach::of(to, false), tag, &[])?;
    let plan = checked_plan::plan(to, wanted, keys)?;
    let run = Run { datadir: to, log: &log, options, keys, budget };
    let (recovered, ending) = run.change(plan, Writing::Copy)?;
    // After the redo: only then the dictionary is the one that a server on the copy reads.
    outside::refuse_left(to, keys)?;
    match ending {
        Some(Ending::NewLog(bytes, size)) if !has_log && log.is_kept() => {
            create_kept(to, Lsn(recovered.end_lsn), &bytes, size, &log.path)?;
        }
        Some(Ending::NewLog(bytes, size)) if !has_log => {
            copying.put_empty_logs(&inside)?;
            new_log::replace(&to.join(LOG), &bytes, size)?;
        }
        ending => {
            if !has_log {
                copying.logs(&inside)?;
            }
            copying.put_logs(&inside)?;
            let copied = || RedoLog::open(to, true, keys);
            ending.map_or(Ok(()), |ending| ending.write(&copied()?, Lsn(recovered.end_lsn)))?;
        }
    }
    // One sync for all. Until the marker is gone the copy counts as unfinished, so no order between its files matters.
    place::sync(to)?;
    mark_closed(to)?;
    Ok(Recovered { pieces_replayed: replayed, files_compared: taken.map_or(0, |taken| taken.compared()), ..recovered })
}
