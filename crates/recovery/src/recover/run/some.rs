//! Recovers a part of a backup, to look at it.

use std::collections::BTreeSet;
use std::path::Path;

use flow::rewrite::Safety;
use format::SpaceId;

use super::{checked_plan, open_log};
use crate::recover::error::Result;
use crate::recover::options::RecoverOptions;
use crate::recover::options::tuning::engine;
use crate::recover::plan::budget::Budget;
use crate::recover::replay::Work;
use crate::recover::replay::files::{Done, Files};
use crate::recover::replay::reach::Reach;
use crate::recover::survey::wanted::Wanted;

/// Applies the log of the backup in `set` to copies of some of its tablespaces, the system tablespace among them, which the caller has put
/// into `to`. The backup stays as it is.
pub(crate) fn recover_some(set: &Path, to: &Path, spaces: &BTreeSet<SpaceId>, options: &RecoverOptions) -> Result<()> {
    let (keys, budget) = (options.keys.read()?, Budget::of(options.memory));
    let log = open_log(set, false, options, &keys)?;
    let mut wanted = Wanted::read(&log, budget.plan, budget.at_once(options.round), options.until)?;
    wanted.keep_only(spaces);
    let plan = checked_plan::plan(to, wanted, &keys)?;
    if plan.wanted.is_clean {
        return Ok(());
    }
    let files = Files::as_they_should_be(Reach::of(to, false), &plan, true, &mut Done::default())?;
    let rewrite = budget.rewrite(&plan, &options.tuning.within(options.memory), 0);
    let mut work = Work::new(&plan, &files, engine(to), Safety::NewFiles, rewrite)?;
    work.restore()?;
    work.run(&log, budget.redo(&plan), Some(options.round))?;
    work.finish().map(drop)
}
