//! A recovery that writes nothing: all pages get their redo in memory, so every refusal and every damaged page shows.

use std::path::Path;

use flow::lock::Sharing;
use flow::rewrite::Safety;
use format::keyring::KeyStore;

use super::{checked_plan, open_log};
use crate::recover::error::{Result, refused};
use crate::recover::finish::ending::Ending;
use crate::recover::finish::recovered::Recovered;
use crate::recover::finish::{waiting, warm};
use crate::recover::options::RecoverOptions;
use crate::recover::options::tuning::engine;
use crate::recover::place::{Lock, SHADOW_NAME};
use crate::recover::plan::budget::Budget;
use crate::recover::replay::files::{Done, Files};
use crate::recover::replay::{Counts, Work};
use crate::recover::survey::wanted::Wanted;
use datadir::files::AskPath;

pub(super) fn dry_run(datadir: &Path, options: &RecoverOptions, keys: &KeyStore) -> Result<Recovered> {
    let budget = Budget::of(options.memory);
    let _lock = Lock::take(datadir, Sharing::Shared)?;
    if datadir.join(SHADOW_NAME).is_there() {
        return refused("finish the interrupted run first: until then it is unknown what is left to do");
    }
    let tuning = options.tuning.within(options.memory);
    let log = open_log(datadir, false, options, keys)?;
    let plan =
        checked_plan::plan(datadir, Wanted::read(&log, budget.plan, budget.plan_and_redo, options.until)?, keys)?;
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
