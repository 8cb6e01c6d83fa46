//! `recover`: turns a datadir left by a crash into one that its server starts on without crash recovery.
//!
//! ```text
//! lock -> shadow of an interrupted run, replayed -> plan: whole log read and verified, first pages, names (nothing is written before)
//!   -> files renamed, made, sized -> torn pages from their doublewrite copies
//!   -> parts of the pages: log -> RedoBatch -> stretches read, changed by all cores (Replay), sealed, written: flow::rewrite, all at once
//!   -> files synced -> the pages named for the server's start (warm) -> the log closed: its checkpoint is its end now
//! ```
//!
//! The checkpoint moves once, as the last step: a run or a server that starts before that begins at the same place in the log and finds
//! every page whole. Unfinished transactions are rolled back by the server at its next start.
//!
//! A log whose redo does not fit in memory is read once for each part of the pages (`load`), so that each page is read and written once.
//! If there would be too many parts, there is only one, applied in several rounds, each with as many mini-transactions as fit. What a round
//! may apply also depends on the rest of the log (`voids`). The plan has read all of it, so the result does not depend on the rounds.
//!
//! Encrypted logs and tablespaces are recovered with the server's keys and stay encrypted (`crypt`). `until` handles a recovery that ends
//! before the log does, `outside` files outside the datadir. Pages of MariaDB's page_compressed tablespaces are compressed again, and
//! holes in the files stay holes. Pages of MySQL's `COMPRESSION` are written uncompressed until the server next writes them.

mod apply;
mod backup;
mod backup_files;
mod beside;
mod budget;
mod cipher_mode;
mod copied;
mod crypt;
mod definition_files;
mod definitions;
mod dictionary_pages;
mod doublewrite;
mod durable;
mod elsewhere;
mod ending;
mod error;
mod file_copy;
mod files;
mod fresh;
mod head;
mod increment_marker;
mod increments;
mod later_files;
mod load;
mod log;
mod log_end;
mod log_names;
mod moment;
mod nearest;
mod needs;
mod open_files;
mod options;
mod outside;
mod page_work;
mod place;
mod plan;
mod planning;
mod prefetch;
mod reach;
mod reached;
mod recovered;
mod reduced_files;
mod rest;
mod run;
mod shadow;
mod simulated;
mod some;
mod space;
mod stale;
mod stretches;
mod survey;
mod system;
mod taken;
mod timed;
mod tuning;
mod unfinished;
mod until;
mod view;
mod voids;
mod waiting;
mod walk;
mod wanted;
mod warm;

use std::fs;
use std::path::{Path, PathBuf};

use flow::lock::Sharing;
use flow::rewrite::Safety;
use format::Lsn;
use format::keyring::KeyStore;

use self::apply::{Counts, Work};
use self::budget::Budget;
use self::copied::recover_copy;
pub(crate) use self::durable::{make_directories, make_like};
pub use self::elsewhere::OutsidePlace;
pub(crate) use self::elsewhere::{Originals, put as put_outside, refuse_unusable};
use self::ending::Ending;
pub use self::error::RecoverError;
use self::error::{Result, refused};
pub(crate) use self::file_copy::copy_file;
use self::files::{Done, Files};
use self::increments::Chain;
pub use self::increments::Increment;
use self::log::RedoLog;
pub(crate) use self::log_names::LogNames;
pub(crate) use self::moment::prove_archive;
use self::moment::{shadow_tag, with_lsn_of};
pub use self::options::RecoverOptions;
#[cfg(fuzzing)]
pub use self::outside::fuzzed_outside;
pub(crate) use self::outside::{refuse as refuse_outside, settle_links};
#[doc(hidden)]
pub use self::place::copy as copy_datadir;
pub(crate) use self::place::is_free;
use self::place::{Copying, Lock};
use self::prefetch::Prefetcher;
use self::reach::Reach;
pub use self::reached::ReachedMoment;
pub use self::recovered::Recovered;
use self::run::{Run, Writing, mark_closed, open_log};
pub use self::shadow::SHADOW_NAME;
#[doc(hidden)]
pub use self::simulated::Simulated;
pub(crate) use self::some::recover_some;
use self::survey::Survey;
pub(crate) use self::taken::Taken;
#[doc(hidden)]
pub use self::timed::{Clocked, on_clock};
pub use self::tuning::Tuning;
use self::tuning::engine;
pub(crate) use self::unfinished::{discard, mark as mark_unfinished, occupied, refuse as refuse_unfinished};
pub use self::view::{EntryKind, View, ViewEntry, ViewFile, ViewOptions};
pub use self::waiting::Waiting;
#[doc(hidden)]
pub use self::walk::walk as walk_datadir;
use self::wanted::Wanted;
use crate::binlog_at::binlog_at;
use crate::{manifest, replica};
use datadir::fault;
use datadir::files::AskPath;
use datadir::log_name::{LOG, REDO_DIR, kept_as_archive};
use datadir::redo_log::{awaits_clone, copied_log};

/// Recovers a datadir of MariaDB 10.5 or later, or of MySQL 8.0.3 or later; prepares a backup of mariadb-backup, or of xtrabackup 8.0.30 or
/// later.
///
/// # Errors
/// [`RecoverError`]. If it [is damage](RecoverError::is_damage) to the log or to a page, the server would run into it too. Every page
/// written before the error is whole, and the checkpoint has not moved.
pub fn recover(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    backup::refuse_unfit(datadir)?;
    if let Some(why) = manifest::damage(datadir).filter(|_| !options.allow_damage) {
        return refused(why);
    }
    if options.redo.is_some() && options.to.is_none() && !options.dry_run {
        return refused(
            "a base copy is kept as it is, for other moments: name a directory for the recovered copy (--to)",
        );
    }
    let Some(to) = options.to.as_ref().filter(|_| !options.dry_run && !options.places.is_empty()) else {
        let done = recover_own(datadir, options)?;
        fault::refuse_unread()?;
        return Ok(done);
    };
    refuse_unusable(&options.places, to)?;
    let sets = std::iter::once(datadir).chain(options.increments.iter().map(PathBuf::as_path));
    let originals = Originals::of(sets, &options.places)?;
    let done = recover_own(datadir, options)?;
    fault::refuse_unread()?;
    match elsewhere::put(to, originals, &options.places, &options.keys.read()?) {
        Ok(outside) => Ok(Recovered { outside, ..done }),
        Err(error) => {
            discard(to);
            Err(error)
        }
    }
}

/// Like [`recover`], but an archive of the redo log may be applied in place: the caller has made the copy and keeps the base.
pub(crate) fn recover_own(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    if let Some(time) = options.until_time {
        return recover_own(datadir, &with_lsn_of(time, options)?);
    }
    let mut besides =
        options.redo.as_ref().map(|redo| stale::judge(datadir, redo, options)).transpose()?.unwrap_or_default();
    let done = if options.increments.is_empty() {
        increment_marker::refuse(datadir)?;
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

/// Recovers a datadir, or prepares a backup as it is.
pub(crate) fn recover_one(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    let has_log =
        datadir.join(LOG).is_file_there() || datadir.join(REDO_DIR).is_folder_there() || copied_log(datadir).is_some();
    if !datadir.join("ibdata1").is_file_there() || !has_log {
        if let Some(why) = kept_as_archive(datadir) {
            return refused(format!("{}: {why}: start the server, which recovers it", datadir.display()));
        }
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
            let was_free = place::is_free(to);
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

/// Prepares a full backup and merges increments into it. An archive of the redo log continues the last increment.
fn with_increments(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    if options.until.is_some() && options.redo.is_none() {
        return refused("a backup is prepared to the end of its last increment: leave out --until");
    }
    if manifest::is_there(datadir) {
        return refused(format!(
            "{path}: a backup of innokit: its increments are merged by innokit restore {path} --to DIR --increment DIR",
            path = datadir.display()
        ));
    }
    let chain = Chain::of(datadir, &options.increments)?;
    let keys = options.keys.read()?;
    chain.prove(datadir, Budget::of(options.memory).plan, &keys)?;
    let to_its_end = RecoverOptions { increments: Vec::new(), ..options.clone() };
    let Some(last) = chain.left.last() else { return recover_one(datadir, &to_its_end) };
    prove_archive(&last.dir, options)?;
    let full = RecoverOptions { redo: None, redo_timeline: None, until: None, ..to_its_end.clone() };
    if options.dry_run {
        return if chain.is_interrupted { Ok(Recovered::default()) } else { recover_one(datadir, &full) };
    }
    let was_free = options.to.as_ref().is_some_and(|to| place::is_free(to));
    if chain.is_interrupted && options.to.is_some() {
        return refused(
            "an interrupted run merged part of an increment into the backup itself: finish it with --in-place",
        );
    }
    let place = options.to.as_deref().unwrap_or(datadir);
    let prepared = if chain.is_interrupted { Ok(Recovered::default()) } else { recover_one(datadir, &full) };
    let done = prepared.and_then(|done| {
        chain.left.iter().try_fold(done, |done, taken| {
            let (put, is_last) = (taken.put_into(place)?, taken.dir == last.dir);
            Ok(done.and(put, recover_in_place(place, if is_last { &to_its_end } else { &full }, &keys)?))
        })
    });
    if done.is_err() && was_free {
        options.to.iter().for_each(|to| discard(to));
    }
    done
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

fn dry_run(datadir: &Path, options: &RecoverOptions, keys: &KeyStore) -> Result<Recovered> {
    let budget = Budget::of(options.memory);
    let _lock = Lock::take(datadir, Sharing::Shared)?;
    if datadir.join(SHADOW_NAME).is_there() {
        return refused("finish the interrupted run first: until then it is unknown what is left to do");
    }
    let tuning = options.tuning.within(options.memory);
    let log = open_log(datadir, false, options, keys)?;
    let plan = planning::plan(datadir, Wanted::read(&log, budget.plan, budget.plan_and_redo, options.until)?, keys)?;
    if plan.wanted.is_clean {
        let waiting = waiting::left_in(datadir, &log, keys);
        return Ok(Recovered { waiting, ..Recovered::of(&plan, Counts::default(), Done::default(), 0) });
    }
    Ending::of(&log, &plan, keys)?;
    let (files, done) = Files::as_they_are(datadir, &plan)?;
    let mut work =
        Work::new(&plan, &files, engine(datadir), Safety::NothingIsWritten, budget.rewrite(&plan, &tuning, 0))?;
    work.restore()?;
    work.run(&log, budget.redo(&plan), None)?;
    let pages_to_load = if options.warm { warm::pages(&plan).count() as u64 } else { 0 };
    Ok(Recovered { pages_to_load, ..Recovered::of(&plan, work.finish()?, done, 0) })
}

fn recover_in_place(datadir: &Path, options: &RecoverOptions, keys: &KeyStore) -> Result<Recovered> {
    let _lock = Lock::take(datadir, Sharing::Exclusive)?;
    let taken = Taken::to_compare(datadir, options)?;
    if options.is_fresh {
        // What the set calls outside is another server's, on this host.
        outside::mark(datadir)?;
    }
    let log = open_log(datadir, true, options, keys)?;
    if options.is_fresh && log.backup.is_none() {
        outside::settle_links(datadir)?;
    }
    let (budget, prefetcher) = begin(datadir, &log, options);
    let at_once = budget.at_once(options.round);
    let read = || Wanted::read_beside(&log, budget.plan, at_once, options.until, prefetcher.as_ref());
    let wanted = taken.as_ref().map_or_else(read, |taken| taken.compare_beside(read))?;
    unfinished::mark_or_refuse(datadir, options.redo.is_some() || options.is_fresh)?;
    let reach = Reach::of(datadir, options.outside);
    let replayed = finish_interrupted(reach, &wanted, options, keys)?;
    let plan = planning::plan(datadir, wanted, keys)?;
    reach.check(&plan)?;
    options.tell_outside(|| reach.outside_in(&plan).into_iter().collect());
    // Files outside are not part of a copy.
    let is_copy = options.is_fresh && plan.outside.is_empty();
    // From here on, files change, and those of a backup no longer match its manifest.
    if !is_copy {
        manifest::mark_recovering(datadir)?;
    }
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

/// Finishes the writes of an interrupted run in place.
fn finish_interrupted(reach: Reach<'_>, wanted: &Wanted, options: &RecoverOptions, keys: &KeyStore) -> Result<u64> {
    let datadir = reach.datadir;
    if fs::symlink_metadata(datadir.join(SHADOW_NAME)).is_err() {
        return Ok(0);
    }
    let outside = if options.outside { Survey::take(datadir, wanted, keys)?.outside } else { Vec::new() };
    options.tell_outside(|| outside.clone());
    shadow::finish_interrupted(datadir, reach, shadow_tag(datadir, wanted, options, keys)?, &outside)
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
