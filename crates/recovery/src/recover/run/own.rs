//! A recovery of the caller's own copy: the time that was asked for becomes an LSN, and the report says what the moment lacks.

use std::path::Path;

use format::Lsn;

use super::merged::with_increments;
use super::one::recover_one;
use crate::binlog_at::binlog_at;
use crate::recover::error::Result;
use crate::recover::finish::recovered::Recovered;
use crate::recover::increments::marker;
use crate::recover::moment::{stale, with_lsn_of};
use crate::recover::options::RecoverOptions;
use crate::replica;

/// Like [`recover`](crate::recover::recover), but an archive of the redo log may be applied in place: the caller has made the copy and keeps the base.
pub(crate) fn recover_own(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    if let Some(time) = options.until_time {
        return recover_own(datadir, &with_lsn_of(time, options)?);
    }
    let mut besides =
        options.redo.as_ref().map(|redo| stale::judge(datadir, redo, options)).transpose()?.unwrap_or_default();
    let done = if options.increments.is_empty() {
        marker::refuse(datadir)?;
        recover_one(datadir, options)?
    } else {
        with_increments(datadir, options)?
    };
    let known = besides.clone();
    if done.definitions.is_some() {
        besides.without_definitions();
    }
    let done = Recovered { moment: options.moment, not_in_redo: besides.missing, ..done };
    let Some(redo) = options.redo.as_ref().filter(|_| !options.dry_run) else { return Ok(done) };
    let place = options.to.as_deref().unwrap_or(datadir);
    let (before, version) = (besides.backup.as_ref(), besides.server_version.as_deref());
    let noted = binlog_at(place, &options.keys.read()?, Some((redo, Lsn(done.end_lsn))));
    let is_mysql = replica::is_mysql(place);
    // MySQL 8 notes no position with its commits, but the server on the copy knows its transactions.
    let mut binlog = if is_mysql { noted } else { replica::later(noted, before) };
    let mut is_position_unknown = false;
    if !is_mysql && done.definitions.is_some_and(|changed| changed > 0) {
        let behind = known.behind_definitions(binlog.clone(), Lsn(done.end_lsn));
        is_position_unknown = binlog.is_some() && behind.is_none();
        binlog = behind;
    }
    let replica = replica::State { at: binlog.as_ref(), before, version }.statements(is_mysql);
    Ok(Recovered { binlog, replica, is_position_unknown, ..done })
}
