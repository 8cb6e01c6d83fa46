//! Points in an archive of the redo log: the LSN for a time, and whether the archive reaches it.

pub(super) mod stale;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::archive::mark_at;
use crate::recover::error::{Result, refused};
use crate::recover::log::RedoLog;
use crate::recover::options::RecoverOptions;
use crate::recover::options::reached::ReachedMoment;
use crate::recover::plan::budget::Budget;
use crate::recover::survey::wanted::Wanted;

/// The options with `until` set to the LSN that the archive had reached at a time.
pub(in crate::recover) fn with_lsn_of(time: SystemTime, options: &RecoverOptions) -> Result<RecoverOptions> {
    let Some(redo) = &options.redo else {
        return refused("only an archive of the redo log knows times (--redo): give an LSN instead");
    };
    let (mark, complete_us) = mark_at(redo, time).or_else(|error| refused(error.to_string()))?;
    let until_us = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let until_us = u64::try_from(until_us).unwrap_or(u64::MAX);
    if options.require_until && complete_us.is_none_or(|complete| complete < until_us) {
        let known = complete_us.map_or_else(
            || "does not say up to which time it is complete".to_owned(),
            |complete| format!("is complete only up to {:.6} s before it", (until_us - complete) as f64 / 1e6),
        );
        return refused(format!(
            "{}: the archive {known} (--require-until): leave out --require-until to restore that, at LSN {}, or give a later time",
            redo.display(),
            mark.lsn
        ));
    }
    let moment = Some(ReachedMoment { until_us, mark_us: mark.micros, complete_us });
    let redo_timeline = Some(mark.timeline);
    Ok(RecoverOptions { until: Some(mark.lsn), until_time: None, redo_timeline, moment, ..options.clone() })
}

/// Fails if the archive in the options does not continue the log of the backup or increment in `set`, or does not reach the end that the
/// options ask for. Call it before making a copy, which may be large.
pub(crate) fn prove_archive(set: &Path, options: &RecoverOptions) -> Result<()> {
    let Some(redo) = &options.redo else { return Ok(()) };
    if let Some(time) = options.until_time {
        return prove_archive(set, &with_lsn_of(time, options)?);
    }
    let keys = options.keys.read()?;
    let log = RedoLog::open(set, false, &keys)?.with_archive(Some(redo), options.redo_timeline)?;
    Wanted::read(&log, Budget::of(options.memory).plan, 0, options.until).map(drop)
}
