//! Recovery of a datadir whose tablespaces lie on another device than the datadir does: for tests that let that device lose power.

use std::fs;
use std::path::Path;

use flow::queue::OpenQueue;
use flow::write_back::{Target, WriteBack, WriteBackOptions};
use flow::{FileHandle, FileId};

use super::apply::Work;
use super::error::{Result, failed};
use super::files::Files;
use super::log::RedoLog;
use super::plan::{Plan, Wanted};
use super::{Budget, MEMORY_MIN, SHADOW_NAME};

/// What is to be done to a datadir, on a device that keeps its files itself.
#[doc(hidden)]
#[derive(Debug)]
pub struct Simulated {
    log: RedoLog,
    plan: Plan,
    files: Files,
    /// As they were, but of the size that they must have. The device must have them as its first, in this order, then an empty one.
    pub contents: Vec<Vec<u8>>,
}

impl Simulated {
    /// Plans the recovery of a datadir, which is only read.
    ///
    /// # Errors
    /// As [`recover`](super::recover).
    pub fn plan(datadir: &Path) -> Result<Self> {
        let log = RedoLog::open(datadir, false)?;
        let plan = Plan::make(datadir, Wanted::read(&log, Budget::of(MEMORY_MIN).plan)?)?;
        let mut contents = Vec::new();
        for space in plan.spaces.values() {
            let path = datadir.join(space.renamed_from.as_ref().unwrap_or(&space.path));
            let mut bytes = if path.exists() { fs::read(&path).map_err(failed(&path, "reading"))? } else { Vec::new() };
            if space.needs_resizing(bytes.len() as u64) {
                bytes.resize(usize::try_from(space.len).unwrap_or(0), 0);
            }
            contents.push(bytes);
        }
        let files = Files::of_engine(&plan);
        Ok(Self { log, plan, files, contents })
    }

    /// Recovers the pages: first what an interrupted run left, then all rounds, of so many bytes of the log each.
    ///
    /// # Errors
    /// As [`recover`](super::recover).
    pub fn recover_pages(&self, device: &dyn OpenQueue, options: WriteBackOptions, round: u64) -> Result<()> {
        let options = WriteBackOptions { tag: self.plan.wanted.tag(), ..options };
        let number = u32::try_from(self.contents.len()).unwrap_or(u32::MAX);
        let name = SHADOW_NAME.as_bytes().to_vec();
        let shadow = Target { file: FileId(number), handle: FileHandle::of_engine(), name };
        let mut writer = WriteBack::open(device, shadow, options)?;
        writer.replay(|name| self.files.targets().find(|target| target.name == name))?;
        self.files.targets().for_each(|target| writer.add_file(target));
        let mut work = Work::new(&self.plan, &self.files, device, Some(writer))?;
        work.restore()?;
        work.run(&self.log, Budget::of(MEMORY_MIN).redo, round)?;
        work.finish().map(drop)
    }
}
