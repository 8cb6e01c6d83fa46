//! Recovery on a simulated device: how long it would take there. Writes nothing.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use flow::queue::sim::{SimCounts, SimOptions, SimTime};
use flow::rewrite::{RewriteOptions, RewriteTarget, Safety};
use flow::{FileHandle, FileId};
use format::keyring::KeyStore;

use crate::recover::error::{Result, failed, refused};
use crate::recover::log::RedoLog;
use crate::recover::options::tuning::Tuning;
use crate::recover::place::SHADOW_NAME;
use crate::recover::plan::budget::Budget;
use crate::recover::replay::Work;
use crate::recover::replay::files::Files;
use crate::recover::run::checked_plan;
use crate::recover::space::PlannedSpace;
use crate::recover::survey::wanted::Wanted;
use datadir::log_name::LOG;

/// Requests to the device, and the time they took. CPU time counts as zero.
#[derive(Debug, Clone, Copy)]
pub struct Clocked {
    /// Time to read the log.
    pub log: Duration,
    /// Time to read and write pages, and to write the shadow file.
    pub pages: Duration,
    /// Requests for the log.
    pub log_counts: SimCounts,
    /// Requests for pages and the shadow file.
    pub page_counts: SimCounts,
}

/// Recovers a datadir, which is only read, with log and tablespaces on the device of `sim`. Reads of first pages and the doublewrite area
/// do not go through that device.
///
/// # Errors
/// As [`recover`](crate::recover::recover).
pub fn on_clock(datadir: &Path, memory: usize, tuning: &Tuning, sim: &SimOptions) -> Result<Clocked> {
    let (budget, keys) = (Budget::of(memory), KeyStore::new());
    let path = datadir.join(LOG);
    let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (len, file) = file.map_err(failed(&path, "opening the redo log"))?;
    let log_clock = SimTime::new(sim, [(file, len)]);
    let log = RedoLog::open(datadir, false, &keys)?.tuned(tuning).on_clock(&log_clock);
    let plan = checked_plan::plan(datadir, Wanted::read(&log, budget.plan, budget.plan_and_redo, None)?, &keys)?;
    if plan.wanted.is_clean {
        return refused(format!("{}: there is nothing to recover", datadir.display()));
    }
    let mut opened = Vec::new();
    for part in plan.spaces.values().flat_map(PlannedSpace::parts_now) {
        let path = datadir.join(&part.path);
        // A page that the log initializes may not exist yet.
        let path = if path.exists() { path } else { "/dev/null".into() };
        let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (len, file) = file.map_err(failed(&path, "opening the tablespace"))?;
        opened.push((file, len));
    }
    let shadow = FileId(u32::try_from(opened.len()).unwrap_or(u32::MAX));
    let page_clock = SimTime::new(sim, opened);
    let files = Files::of_engine(&plan);
    let shadow = RewriteTarget { file: shadow, handle: FileHandle::of_engine(), name: SHADOW_NAME.into() };
    let options = RewriteOptions { workers: 0, ..budget.rewrite(&plan, tuning, 0) };
    let mut work = Work::new(&plan, &files, &page_clock, Safety::Shadow(shadow), options)?;
    work.restore()?;
    work.run(&log, budget.redo(&plan), None)?;
    work.finish()?;
    Ok(Clocked {
        log: log_clock.elapsed(),
        pages: page_clock.elapsed(),
        log_counts: log_clock.counts(),
        page_counts: page_clock.counts(),
    })
}
