//! One datadir or full backup: refused if it is neither, else recovered as a copy, in place, or without writing.

use std::path::Path;

use flow::lock::Sharing;
use format::Lsn;

use super::copied::recover_copy;
use super::dry::dry_run;
use super::in_place::recover_in_place;
use super::nearest;
use crate::recover::error::{Result, refused};
use crate::recover::finish::recovered::Recovered;
use crate::recover::foreign::backup;
use crate::recover::options::RecoverOptions;
use crate::recover::place::taken::Taken;
use crate::recover::place::unfinished::discard;
use crate::recover::place::{Copying, Lock, is_free, outside};
use datadir::files::AskPath;
use datadir::redo_log::{awaits_clone, has_log};

/// Recovers a datadir, or prepares a backup as it is.
pub(crate) fn recover_one(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    if !datadir.join("ibdata1").is_file_there() || !has_log(datadir) {
        let log = "ib_logfile0 (MariaDB, MySQL before 8.0.30), #innodb_redo (MySQL) or xtrabackup_logfile (a backup of xtrabackup)";
        return refused(format!("{}: not a datadir: ibdata1 or the redo log, {log}, is missing", datadir.display()));
    }
    if let Some(why) = awaits_clone(datadir) {
        return refused(format!("{}: {why}: start it, or recover from a backup", datadir.display()));
    }
    if let Some(end) = backup::emptied_at(datadir)? {
        if options.redo.is_some() {
            return refused(
                "this backup is prepared, and its log no longer says what it continues: use the backup as it was before --prepare",
            );
        }
        return finish_emptied(datadir, options, end);
    }
    let keys = options.keys.read()?;
    match &options.to {
        Some(to) if !options.dry_run => {
            let was_free = is_free(to);
            let done = recover_copy(datadir, to, options, &keys)
                .map_err(|error| nearest::named(error, (datadir, to), options, &keys));
            // A failed copy would block the next run. A directory that was not empty before is not ours to remove.
            if done.is_err() && was_free {
                discard(to);
            }
            done
        }
        _ if options.dry_run => dry_run(datadir, options, &keys),
        _ => recover_in_place(datadir, options, &keys),
    }
}

/// Finishes a backup with nothing left to apply, whose note may not say so yet.
fn finish_emptied(datadir: &Path, options: &RecoverOptions, end: Lsn) -> Result<Recovered> {
    let done = Recovered { checkpoint_lsn: end.0, end_lsn: end.0, was_clean: true, ..Recovered::default() };
    match &options.to {
        _ if options.dry_run => {}
        Some(to) => {
            let _lock = Lock::take(datadir, Sharing::Shared)?;
            let taken = Taken::to_compare(datadir, options)?;
            Copying::new(datadir, to, taken.as_ref()).all(&[])?;
            outside::unmark(to)?;
            backup::mark_prepared(to)?;
        }
        None => {
            let _lock = Lock::take(datadir, Sharing::Exclusive)?;
            backup::mark_prepared(datadir)?;
        }
    }
    Ok(done)
}
