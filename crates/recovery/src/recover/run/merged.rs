//! A full backup with its increments merged into it.

use std::path::Path;

use super::in_place::recover_in_place;
use super::one::recover_one;
use crate::manifest;
use crate::recover::error::{Result, refused};
use crate::recover::finish::recovered::Recovered;
use crate::recover::increments::IncrementChain;
use crate::recover::moment::prove_archive;
use crate::recover::options::RecoverOptions;
use crate::recover::place::is_free;
use crate::recover::place::unfinished::discard;
use crate::recover::plan::budget::Budget;

/// Prepares a full backup and merges increments into it. An archive of the redo log continues the last increment.
pub(super) fn with_increments(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    if options.until.is_some() && options.redo.is_none() {
        return refused("a backup is prepared to the end of its last increment: leave out --until");
    }
    if manifest::is_there(datadir) {
        return refused(format!(
            "{path}: a backup of innokit: its increments are merged by innokit restore {path} --to DIR --increment DIR",
            path = datadir.display()
        ));
    }
    let chain = IncrementChain::of(datadir, &options.increments)?;
    let keys = options.keys.read()?;
    chain.prove(datadir, Budget::of(options.memory).plan, &keys)?;
    let to_its_end = RecoverOptions { increments: Vec::new(), ..options.clone() };
    let Some(last) = chain.left.last() else { return recover_one(datadir, &to_its_end) };
    prove_archive(&last.dir, options)?;
    let full = RecoverOptions { redo: None, redo_timeline: None, until: None, ..to_its_end.clone() };
    if options.dry_run {
        return if chain.is_interrupted { Ok(Recovered::default()) } else { recover_one(datadir, &full) };
    }
    let was_free = options.to.as_ref().is_some_and(|to| is_free(to));
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
