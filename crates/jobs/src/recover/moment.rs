//! Points in an archive of the redo log: the LSN for a time, and whether the archive reaches it.

use std::path::Path;
use std::time::SystemTime;

use super::RecoverOptions;
use super::budget::Budget;
use super::error::{Result, refused};
use super::log::RedoLog;
use super::wanted::Wanted;
use crate::archive::mark_at;

/// The options with `until` set to the LSN that the archive had reached at a time.
pub(super) fn with_lsn_of(time: SystemTime, options: &RecoverOptions) -> Result<RecoverOptions> {
    let Some(redo) = &options.redo else {
        return refused("only an archive of the redo log knows times (--redo): give an LSN instead");
    };
    let mark = mark_at(redo, time).or_else(|error| refused(error.to_string()))?;
    let redo_timeline = Some(mark.timeline);
    Ok(RecoverOptions { until: Some(mark.lsn), until_time: None, redo_timeline, ..options.clone() })
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
