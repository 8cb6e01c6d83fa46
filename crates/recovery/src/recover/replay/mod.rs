//! Applies redo to pages. Records are gathered by page within the memory limit; pages are read in long stretches, changed by all cores,
//! sealed and written back.

pub(super) mod files;
pub(super) mod page_work;
pub(super) mod reach;
pub(super) mod shadow;
mod stretches;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flow::queue::OpenQueue;
use flow::rewrite::{Change, Changes, RewriteOptions, Rewriter, RunError, Safety, Stretch};
use format::{Lsn, PageId, SpaceId, Verdict};
use redo::record::Subject;

use self::files::Files;
use self::page_work::{Apply, Closed, GiveUpWaiting, LookAt, PageBuffers, Restore, Tally, Task, Touched, Wipe};
use self::stretches::{Planned, stretches};
use crate::recover::error::{RecoverError, Result};
use crate::recover::log::{RedoLog, Scan};
use crate::recover::plan::RecoverPlan;
use crate::recover::space::PlannedSpace;
use crate::recover::survey::prefetch::PrefetchedFile;
use crate::redo_batch::RedoBatch;

/// Upper limit of parts. Beyond that, reading some pages twice costs less than reading the log once more for each part.
const PARTS_MAX: usize = 64;

/// Counts of pages by what happened to them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::recover) struct Counts {
    pub rounds: u64,
    pub read: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub freed: u64,
    pub restored: u64,
}

/// The pass over the pages.
pub(in crate::recover) struct Work<'w> {
    plan: &'w RecoverPlan,
    files: &'w Files,
    rewriter: Rewriter,
    stretch_max: u32,
    rounds: u64,
    tally: Arc<Tally>,
}

impl<'w> Work<'w> {
    /// Opens the rewriter and registers the files.
    pub fn new(
        plan: &'w RecoverPlan,
        files: &'w Files,
        engine: &dyn OpenQueue,
        safety: Safety,
        options: RewriteOptions,
    ) -> Result<Self> {
        let mut rewriter = Rewriter::open(engine, safety, options)?;
        files.targets().for_each(|target| rewriter.add_file(target));
        Ok(Self { plan, files, rewriter, stretch_max: options.stretch_max, rounds: 0, tally: Arc::default() })
    }

    /// Uses what was read of files before, unless their length has changed since.
    pub fn hold(&mut self, prefetched: Vec<PrefetchedFile>) {
        let files = self.files.by_identity();
        for file in prefetched {
            let (device, inode) = file.identity;
            // By identity, because the file may have been renamed since; and by length, because a resized one has other bytes at its end.
            let Some(&id) = files.get(&(device, inode, file.len)) else { continue };
            file.parts.into_iter().for_each(|part| self.rewriter.hold(id, part));
        }
    }

    /// Restores all torn pages for which the server has a doublewrite copy.
    pub fn restore(&mut self) -> Result<()> {
        let (plan, files) = (self.plan, self.files);
        let pages = plan.restorable(|space| files.has(space));
        let tally = Arc::clone(&self.tally);
        self.each(&pages, |_| false, &Restore { plan, tally: &tally })
    }

    /// Wipes doublewrite copies later than the end of the recovery: a server that reaches their LSNs again would take them for its own.
    pub fn forget_later_copies(&mut self) -> Result<()> {
        let pages = self.plan.later_copies();
        self.each(&pages, |_| false, &Wipe)
    }

    /// Passes pages, in order and as stored, to `judge` with their verdicts and LSNs.
    pub fn look_at<J>(&mut self, pages: &[PageId], judge: J) -> Result<()>
    where
        J: Fn(PageId, &PlannedSpace, &Verdict, Lsn) -> Result<()> + Sync,
    {
        self.each(pages, |_| false, &LookAt(judge))
    }

    /// Runs a task on each page. Pages are in order; void ones are not read.
    fn each(&mut self, pages: &[PageId], is_void: impl Fn(PageId) -> bool, task: &impl Task) -> Result<()> {
        let held = |file, offset| self.rewriter.held_at(file, offset);
        let planned = stretches(pages, self.plan, self.files, (self.stretch_max, &held), is_void);
        let each = Each { plan: self.plan, pages, planned: &planned, task };
        let outcome = self.rewriter.run(planned.iter().map(|planned| planned.stretch), &each);
        outcome.map_err(|error| match error {
            RunError::Change(error) => error,
            RunError::Rewrite(error) => error.into(),
        })
    }

    /// Runs all rounds. A round applies to one part of the pages as much of the log as fits in `memory`, and at most `round` bytes of log.
    /// With `None` each part takes a single round of any size: a dry run writes nothing that a second round could read.
    pub fn run(&mut self, log: &RedoLog, memory: usize, round: Option<u64>) -> Result<()> {
        // The log was small enough to keep, so it is not read a second time.
        if let Some(batch) = &self.plan.wanted.pages.redo {
            return self.round(batch);
        }
        let (parts_max, batch_max) = if round.is_some() { (PARTS_MAX, memory) } else { (usize::MAX, usize::MAX) };
        for part in self.plan.wanted.pages.load.parts(memory, parts_max) {
            let plan = self.plan;
            let is_wanted = |id, start| start < plan.wanted.end && part.has(id) && plan.wanted.is_of_use(id, start);
            log.scan(Some(&is_wanted), |scan| {
                let mut goes_on = true;
                while goes_on {
                    let until = Lsn(scan.at().0.saturating_add(round.unwrap_or(u64::MAX)));
                    // A new batch each round: memory that a batch keeps counts as used.
                    let mut batch = RedoBatch::new(batch_max).with_grammar(log.grammar());
                    goes_on = gather(&mut batch, scan, until)?;
                    self.round(&batch)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Records on page 0 of the system tablespace that the files contain everything up to `flushed`, for servers before 10.8.
    pub fn put_flush_lsn(&mut self, flushed: Lsn) -> Result<()> {
        self.each(&[PageId::new(SpaceId::SYSTEM.0, 0)], |_| false, &Closed(flushed))
    }

    /// Makes transactions active that wait for a binary log, given the first pages of their undo logs. Returns the pages of tablespaces that
    /// are no part of the recovery, which stay as they are.
    pub fn give_up_waiting(&mut self, pages: &BTreeSet<PageId>) -> Result<Vec<PageId>> {
        let (here, elsewhere): (Vec<PageId>, _) =
            pages.iter().partition(|id| self.plan.spaces.contains_key(&id.space) && self.files.has(id.space));
        let task = GiveUpWaiting { plan: self.plan };
        self.each(&here, |_| false, &task)?;
        Ok(elsewhere)
    }

    /// Makes everything written durable.
    pub fn finish(self) -> Result<Counts> {
        self.rewriter.finish()?;
        let (tally, rounds) = (self.tally, self.rounds);
        // Relaxed: `Rewriter::run` has joined the threads that count.
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Counts {
            rounds,
            read: value(&tally.read),
            changed: value(&tally.changed),
            unchanged: value(&tally.unchanged),
            freed: value(&tally.freed),
            restored: value(&tally.restored),
        })
    }

    fn round(&mut self, batch: &RedoBatch) -> Result<()> {
        self.rounds += 1;
        let tally = Arc::clone(&self.tally);
        let apply = Apply { plan: self.plan, batch, tally: &tally };
        // Sparse pages are read even if their content does not matter: it says which of their blocks are holes.
        let is_sparse = |id: PageId| self.plan.spaces.get(&id.space).is_some_and(PlannedSpace::is_sparse);
        self.each(&batch.pages(), |id| batch.redo(id).is_void && !is_sparse(id), &apply)
    }
}

/// Adds redo until the batch is full or the log has reached `until`. Returns whether more of the log follows.
pub(in crate::recover) fn gather(batch: &mut RedoBatch, scan: &mut Scan<'_>, until: Lsn) -> Result<bool> {
    scan.run(&mut |scanned| {
        let mut adding = batch.begin_mtr(&scanned.mtr);
        for (subject, bytes) in scanned.records() {
            if let Subject::Page(id, effect) = subject {
                batch.add_change(&mut adding, id, effect.voids_page(), bytes);
            }
        }
        Ok(!batch.is_full() && scanned.mtr.end < until)
    })
}

/// Runs a task on each page of each stretch.
struct Each<'e, T> {
    plan: &'e RecoverPlan,
    pages: &'e [PageId],
    planned: &'e [Planned],
    task: &'e T,
}

impl<T: Task> Change for Each<'_, T> {
    type Scratch = PageBuffers;
    type Error = RecoverError;

    fn change(
        &self,
        stretch: &Stretch,
        bytes: &mut [u8],
        changes: &mut Changes,
        buffers: &mut PageBuffers,
    ) -> Result<()> {
        let Some(planned) = self.planned.get(stretch.tag) else { return Ok(()) };
        for &id in planned.pages(self.pages) {
            let Some(space) = self.plan.spaces.get(&id.space) else { continue };
            let (start, range) = planned.place_of(id, &space.format);
            let Some(page) = bytes.get_mut(range) else { continue };
            buffers.before.clear();
            buffers.before.extend_from_slice(page);
            match self.task.on(page, id, space, buffers)? {
                Touched::Nothing => {}
                Touched::Changed if space.is_sparse() => changes.changed_sparse(start, &buffers.before, page),
                Touched::Changed => changes.changed(start, &buffers.before, page),
                Touched::Made => changes.made(start..start.saturating_add(u32::try_from(page.len()).unwrap_or(0))),
            }
        }
        Ok(())
    }
}
