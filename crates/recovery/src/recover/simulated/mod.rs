//! Recovery of a datadir whose tablespaces are on a simulated device, on which tests can cut the power.

pub(super) mod timed;

use std::fs;
use std::path::Path;

use flow::queue::OpenQueue;
use flow::rewrite::{RewriteOptions, RewriteTarget, Safety, replay};
use flow::{FileHandle, FileId};

use crate::recover::error::{Result, failed};
use crate::recover::log::RedoLog;
use crate::recover::options::tuning::MEMORY_MIN;
use crate::recover::place::SHADOW_NAME;
use crate::recover::plan::RecoverPlan;
use crate::recover::plan::budget::Budget;
use crate::recover::replay::Work;
use crate::recover::replay::files::Files;
use crate::recover::run::checked_plan;
use crate::recover::survey::wanted::Wanted;
use datadir::keys::KeyFiles;

/// The plan for a datadir on a device that has files of its own.
#[doc(hidden)]
#[derive(Debug)]
pub struct Simulated {
    log: RedoLog,
    plan: RecoverPlan,
    files: Files,
    /// The old contents of the files, at their final sizes. The device must have them as its first files, in this order, followed by an
    /// empty file for the shadow.
    pub contents: Vec<Vec<u8>>,
}

impl Simulated {
    /// Plans the recovery of a datadir, which is only read.
    ///
    /// # Errors
    /// As [`recover`](super::recover).
    pub fn plan(datadir: &Path, keys: &KeyFiles) -> Result<Self> {
        let keys = keys.read()?;
        let log = RedoLog::open(datadir, false, &keys)?;
        let plan = checked_plan::plan(datadir, Wanted::read(&log, Budget::of(MEMORY_MIN).plan, 0, None)?, &keys)?;
        let mut contents = Vec::new();
        for space in plan.spaces.values() {
            let parts = space.parts_now();
            let count = parts.len();
            for (part, is_last) in parts.into_iter().zip((1..).map(|number| number == count)) {
                let path = datadir.join(part.path);
                let mut bytes =
                    if path.exists() { fs::read(&path).map_err(failed(&path, "reading"))? } else { Vec::new() };
                if is_last && space.needs_resizing(part.start + bytes.len() as u64) {
                    bytes.resize(usize::try_from(space.len - part.start).unwrap_or(0), 0);
                }
                contents.push(bytes);
            }
        }
        let files = Files::of_engine(&plan);
        Ok(Self { log, plan, files, contents })
    }

    /// Recovers the pages: finishes an interrupted run, then runs all rounds of `round` bytes of log each.
    ///
    /// # Errors
    /// As [`recover`](super::recover).
    pub fn recover_pages(&self, device: &dyn OpenQueue, options: RewriteOptions, round: u64) -> Result<()> {
        let options = RewriteOptions { tag: self.plan.wanted.tag(), ..options };
        let number = u32::try_from(self.contents.len()).unwrap_or(u32::MAX);
        let name = SHADOW_NAME.as_bytes().to_vec();
        let shadow = RewriteTarget { file: FileId(number), handle: FileHandle::of_engine(), name };
        replay(device, &shadow, options.tag, |name| self.files.targets().find(|target| target.name == name))?;
        let mut work = Work::new(&self.plan, &self.files, device, Safety::Shadow(shadow), options)?;
        work.restore()?;
        work.run(&self.log, Budget::of(MEMORY_MIN).redo(&self.plan), Some(round))?;
        work.finish().map(drop)
    }
}
