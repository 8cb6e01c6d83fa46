//! `recover`: turns a datadir left by a crash into one that its server starts on without crash recovery.
//!
//! ```text
//! lock -> shadow of an interrupted run, replayed -> plan: whole log read and verified, first pages, names (nothing is written before)
//!   -> files renamed, made, sized -> torn pages from their doublewrite copies
//!   -> parts of the pages: log -> RedoBatch -> stretches read, changed by all cores (Replay), sealed, written: flow::rewrite, all at once
//!   -> files synced -> the pages named for the server's start (warm) -> the log closed: its checkpoint is its end now
//! ```
//!
//! The folders, each of which imports only from those before it:
//!
//! ```text
//! options  what is asked for          place    the directory and its files: locks, copies, owners, what lies outside
//! space    one tablespace's files,    foreign  other tools' backups: their notes and steps
//!          page 0 and keys            log      bytes to mini-transactions, for both vendors
//! survey   what the log says and which tablespaces there are     plan     which file each one is, and what happens to it
//! replay   redo onto pages, safely    increments  merged into a full backup     moment  a time in an archive
//! finish   the closed log, the report     run  the order of it all     view  pages made when they are read
//! ```
//!
//! `simulated` recovers on a simulated device, for tests and benches. No recovery leads there.
//!
//! The checkpoint moves once, as the last step: a run or a server that starts before that begins at the same place in the log and finds
//! every page whole. Unfinished transactions are rolled back by the server at its next start.
//!
//! A log whose redo does not fit in memory is read once for each part of the pages (`survey::load`), so that each page is read and written once.
//! If there would be too many parts, there is only one, applied in several rounds, each with as many mini-transactions as fit. What a round
//! may apply also depends on the rest of the log (`survey::voids`). The plan has read all of it, so the result does not depend on the rounds.
//!
//! Encrypted logs and tablespaces are recovered with the server's keys and stay encrypted (`space::crypt`). `plan::until` handles a recovery that ends
//! before the log does, `place::outside` files outside the datadir. Pages of MariaDB's page_compressed tablespaces are compressed again, and
//! holes in the files stay holes. Pages of MySQL's `COMPRESSION` are written uncompressed until the server next writes them.

mod error;
mod finish;
mod foreign;
mod increments;
mod log;
mod log_names;
mod moment;
mod options;
mod place;
mod plan;
mod replay;
mod run;
mod simulated;
mod space;
mod survey;
mod view;

use std::path::{Path, PathBuf};

pub use self::error::RecoverError;
use self::error::{Result, refused};
pub use self::finish::recovered::Recovered;
pub use self::finish::waiting::Waiting;
use self::foreign::backup;
pub use self::increments::Increment;
pub(crate) use self::log_names::LogNames;
pub(crate) use self::moment::prove_archive;
pub use self::options::reached::ReachedMoment;
pub use self::options::tuning::Tuning;
pub use self::options::{OutsidePlace, RecoverOptions};
pub use self::place::SHADOW_NAME;
#[doc(hidden)]
pub use self::place::copy as copy_datadir;
pub(crate) use self::place::durable::{make_directories, make_like};
pub(crate) use self::place::elsewhere::{Originals, put as put_outside, refuse_unusable};
pub(crate) use self::place::file_copy::copy_file;
pub(crate) use self::place::is_free;
#[cfg(fuzzing)]
pub use self::place::outside::fuzzed_outside;
pub(crate) use self::place::outside::{refuse as refuse_outside, settle_links};
pub(crate) use self::place::taken::Taken;
pub(crate) use self::place::unfinished::{discard, mark as mark_unfinished, occupied, refuse as refuse_unfinished};
#[doc(hidden)]
pub use self::place::walk::walk as walk_datadir;
pub(crate) use self::run::one::recover_one;
pub(crate) use self::run::own::recover_own;
pub(crate) use self::run::some::recover_some;
#[doc(hidden)]
pub use self::simulated::Simulated;
#[doc(hidden)]
pub use self::simulated::timed::{Clocked, on_clock};
pub use self::view::{EntryKind, View, ViewEntry, ViewFile, ViewOptions};
use crate::manifest;
use datadir::fault;

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
    match put_outside(to, originals, &options.places, &options.keys.read()?) {
        Ok(outside) => Ok(Recovered { outside, ..done }),
        Err(error) => {
            discard(to);
            Err(error)
        }
    }
}
