//! The moments nearest to one that is refused because MySQL was within a statement there. What the dictionary was like at another moment is not
//! to be seen in the log, so it is recovered up to some, each time in a copy of the few files that it takes: away from the refused moment in
//! growing steps until one is granted, then halfway back as long as there is time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use format::keyring::KeyStore;
use format::{Lsn, SpaceId};

use crate::archive::last_marks;
use crate::door;
use crate::recover::error::{RecoverError, Result, failed};
use crate::recover::options::RecoverOptions;
use crate::recover::run::some::recover_some;
use crate::recover::space::head::Head;
use datadir::catalog::has_open_steps;
use datadir::name::NameHint;
use datadir::reading::copy_all;

/// Where the files are recovered, in the copy that failed.
const PLACE: &str = "innokit.nearest";
/// The first step away from the refused moment, in bytes of log; each further one is four times as long.
const STEP: u64 = 512;
const GROWTH: u64 = 4;
/// How long each of the two sides may be searched.
const SEARCH: Duration = Duration::from_secs(30);

/// Adds the nearest moments to the refusal of one within a statement. Any other error is returned as it is.
///
/// `base` is the base copy, `to` the copy in which the refused moment was recovered.
pub(in crate::recover) fn named(
    error: RecoverError,
    (base, to): (&Path, &Path),
    options: &RecoverOptions,
    keys: &KeyStore,
) -> RecoverError {
    let (RecoverError::Within { why, base_end }, Some(until)) = (&error, options.until) else { return error };
    let probe = Probe { base, to, options, keys };
    let is_granted = |lsn| probe.is_granted(lsn);
    let before = before(*base_end, until, &is_granted);
    let after = probe.end().and_then(|end| after(until, end, &is_granted));
    fs::remove_dir_all(to.join(PLACE)).ok();
    let after = after.map(|after| format!("LSN {after} (--until {after}), after it, or to ")).unwrap_or_default();
    RecoverError::Refused(format!("{why}: recover to {after}LSN {before} (--until {before}), before it"))
}

/// The last moment before `refused` that was found to be granted; `base_end` is, because it takes no part of the archive.
fn before(base_end: Lsn, refused: Lsn, is_granted: &dyn Fn(u64) -> bool) -> Lsn {
    let begun = Instant::now();
    let (mut inside, mut outside, mut step) = (refused.0, base_end.0, STEP);
    while let Some(tried) = refused.0.checked_sub(step).filter(|tried| *tried > base_end.0) {
        if begun.elapsed() > SEARCH {
            return base_end;
        }
        if is_granted(tried) {
            outside = tried;
            break;
        }
        (inside, step) = (tried, step.saturating_mul(GROWTH));
    }
    Lsn(border(inside, outside, begun, is_granted))
}

/// The first moment after `refused` that was found to be granted, up to the archive's end. `None` if none was.
fn after(refused: Lsn, end: Lsn, is_granted: &dyn Fn(u64) -> bool) -> Option<Lsn> {
    let begun = Instant::now();
    let (mut inside, mut step) = (refused.0, STEP);
    while inside < end.0 && begun.elapsed() <= SEARCH {
        let tried = refused.0.saturating_add(step).min(end.0);
        if is_granted(tried) {
            return Some(Lsn(border(inside, tried, begun, is_granted)));
        }
        (inside, step) = (tried, step.saturating_mul(GROWTH));
    }
    None
}

/// Halves the way between a refused moment and a granted one until they are next to each other, or there is no time left.
fn border(mut inside: u64, mut outside: u64, begun: Instant, is_granted: &dyn Fn(u64) -> bool) -> u64 {
    while inside.abs_diff(outside) > 1 && begun.elapsed() <= SEARCH {
        let middle = inside.midpoint(outside);
        *(if is_granted(middle) { &mut outside } else { &mut inside }) = middle;
    }
    outside
}

/// Recovers the dictionary of other moments.
struct Probe<'p> {
    base: &'p Path,
    to: &'p Path,
    options: &'p RecoverOptions,
    keys: &'p KeyStore,
}

impl Probe<'_> {
    /// The end of the archive.
    fn end(&self) -> Option<Lsn> {
        last_marks(self.options.redo.as_deref()?).ok()?.into_values().next_back()
    }

    fn is_granted(&self, until: u64) -> bool {
        self.recovered(Lsn(until)).is_ok_and(|place| matches!(has_open_steps(&place, self.keys), Ok(false)))
    }

    /// Recovers the files that hold the dictionary and say which transactions are open.
    fn recovered(&self, until: Lsn) -> Result<PathBuf> {
        let place = self.to.join(PLACE);
        if place.is_dir() {
            fs::remove_dir_all(&place).map_err(failed(&place, "removing the directory"))?;
        }
        let mut spaces = BTreeSet::new();
        for entry in fs::read_dir(self.base).map_err(failed(self.base, "listing the directory"))? {
            let name = entry.map_err(failed(self.base, "listing the directory"))?.file_name();
            let (name, from) = (PathBuf::from(&name), self.base.join(&name));
            if !matches!(NameHint::of(&name), NameHint::System(_) | NameHint::Undo | NameHint::Dictionary) {
                continue;
            }
            spaces.extend(Head::read(&from)?.map(|head| head.format.space()));
            let to = Path::new(PLACE).join(&name);
            let copied = door::make_parents(self.to, &to)
                .and_then(|()| copy_all(&mut door::read(self.base, &name)?, &mut door::create(self.to, &to)?));
            copied.map_err(failed(&from, "copying the file to look at it"))?;
        }
        let spaces: BTreeSet<SpaceId> = spaces;
        let options = RecoverOptions { until: Some(until), ..self.options.clone() };
        recover_some(self.base, &place, &spaces, &options)?;
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_moments_are_found_on_both_sides() {
        let statement = 70_001..90_000;
        let is_granted = |lsn: u64| !statement.contains(&lsn);
        for refused in [70_001, 70_600, 80_000, 89_999].map(Lsn) {
            assert_eq!(before(Lsn(100), refused, &is_granted), Lsn(70_000));
            assert_eq!(after(refused, Lsn(1_000_000), &is_granted), Some(Lsn(90_000)));
        }
        assert_eq!(before(Lsn(70_000), Lsn(70_002), &is_granted), Lsn(70_000), "the base copy's end");
        assert_eq!(after(Lsn(80_000), Lsn(90_000), &is_granted), Some(Lsn(90_000)), "the archive's end");
        assert_eq!(after(Lsn(80_000), Lsn(89_000), &is_granted), None, "the archive ends within the statement");
    }
}
