//! What an interrupted run left: its shadow file, and the tag that says which log that run was about.

use std::fs;
use std::path::Path;

use format::keyring::KeyStore;

use crate::recover::error::Result;
use crate::recover::log::RedoLog;
use crate::recover::options::RecoverOptions;
use crate::recover::place::SHADOW_NAME;
use crate::recover::plan::budget::Budget;
use crate::recover::replay::reach::Reach;
use crate::recover::replay::shadow;
use crate::recover::survey::tablespaces::Survey;
use crate::recover::survey::wanted::Wanted;
use datadir::files::AskPath;

/// Finishes the writes of an interrupted run in place.
pub(super) fn finish_interrupted(
    reach: Reach<'_>,
    wanted: &Wanted,
    options: &RecoverOptions,
    keys: &KeyStore,
) -> Result<u64> {
    let datadir = reach.datadir;
    if fs::symlink_metadata(datadir.join(SHADOW_NAME)).is_err() {
        return Ok(0);
    }
    let outside = if options.outside { Survey::take(datadir, wanted, keys)?.outside } else { Vec::new() };
    options.tell_outside(|| outside.clone());
    shadow::finish_interrupted(datadir, reach, shadow_tag(datadir, wanted, options, keys)?, &outside)
}

/// The tag of the shadow file that an interrupted run may have left in the datadir. That run had no archive, so it is the tag of the
/// datadir's own log.
pub(super) fn shadow_tag(datadir: &Path, wanted: &Wanted, options: &RecoverOptions, keys: &KeyStore) -> Result<u64> {
    if options.redo.is_none() || !datadir.join(SHADOW_NAME).is_there() {
        return Ok(wanted.tag());
    }
    let own = RedoLog::open(datadir, false, keys)?;
    Ok(Wanted::read(&own, Budget::of(options.memory).plan, 0, None)?.tag())
}
