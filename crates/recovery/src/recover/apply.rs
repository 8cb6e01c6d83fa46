//! Applies redo to pages. Records are gathered by page within the memory limit; pages are read in long stretches, changed by all cores,
//! sealed and written back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flow::queue::OpenQueue;
use flow::rewrite::{Change, Changes, RewriteOptions, Rewriter, RunError, Safety, Stretch};
use format::bytes::be;
use format::codec::{Compression, Deflater};
use format::fil::FIL_PAGE_LSN;
use format::page::rollback::make_active;
use format::page::seal::seal_flush_lsn;
use format::{Encryption, Lsn, PageId, SpaceFormat, SpaceId, Verdict};
use redo::apply::{Outcome, Replay};
use redo::record::{RedoRecord, Subject};

use super::error::{RecoverError, Result, damaged, refused};
use super::files::Files;
use super::log::{RedoLog, Scan};
use super::log_end::refuse_newer;
use super::plan::RecoverPlan;
use super::prefetch::PrefetchedFile;
use super::space::PlannedSpace;
use super::stretches::{Planned, stretches};
use crate::redo_batch::{PageRedo, RedoBatch};
use datadir::page::PageOpener;

/// Upper limit of parts. Beyond that, reading some pages twice costs less than reading the log once more for each part.
const PARTS_MAX: usize = 64;

/// Counts of pages by what happened to them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub rounds: u64,
    pub read: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub freed: u64,
    pub restored: u64,
}

/// The same counts, shared by all cores.
#[derive(Debug, Default)]
struct Tally {
    read: AtomicU64,
    changed: AtomicU64,
    unchanged: AtomicU64,
    freed: AtomicU64,
    restored: AtomicU64,
}

fn count(counter: &AtomicU64) {
    // Relaxed: a count, read when the threads have been joined.
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The pass over the pages.
pub(super) struct Work<'w> {
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
            let Some(&id) = files.get(&(device, inode, file.len)) else { continue };
            file.parts.into_iter().for_each(|part| self.rewriter.hold(id, part));
        }
    }

    /// Restores all torn pages for which the server has a doublewrite copy.
    pub fn restore(&mut self) -> Result<()> {
        let plan = self.plan;
        let is_hidden = |format: &SpaceFormat| format.is_page_compressed() || format.encryption() != Encryption::None;
        let hidden = plan.spaces.iter().filter(|(_, space)| is_hidden(&space.format)).map(|(&id, _)| id).collect();
        let mut opener = PageOpener::new();
        let mut is_known = |id: &PageId| {
            let space = plan.spaces.get(&id.space).filter(|_| self.files.has(id.space));
            // The page is gone if the tablespace was truncated after the copy was made.
            let space = space.filter(|space| space.format.physical().offset_of(id.page_no.0) < space.len);
            space.is_some_and(|space| plan.copy_of(*id, space, &mut opener).is_some())
        };
        let mut pages = plan.copies.ids(&hidden);
        pages.retain(|id| is_known(id));
        let tally = Arc::clone(&self.tally);
        self.each(&pages, |_| false, &Restore { plan, tally: &tally })
    }

    /// Wipes doublewrite copies later than the end of the recovery: a server that reaches their LSNs again would take them for its own.
    pub fn forget_later_copies(&mut self) -> Result<()> {
        if self.plan.wanted.rest.is_none() {
            return Ok(());
        }
        let later = self.plan.copies.later_than(self.plan.wanted.end);
        let mut pages: Vec<PageId> = later.iter().map(|page_no| PageId::new(SpaceId::SYSTEM.0, page_no.0)).collect();
        pages.sort_unstable();
        // Both halves of the area may be given as the same place.
        pages.dedup();
        self.each(&pages, |_| false, &Wipe)
    }

    /// Passes pages, in order and as stored, to `judge` with their verdicts and LSNs.
    pub fn look_at<J>(&mut self, pages: &[PageId], judge: J) -> Result<()>
    where
        J: Fn(PageId, &PlannedSpace, &Verdict, Lsn) -> Result<()> + Sync,
    {
        self.each(pages, |_| false, &Look(judge))
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
        if let Some(batch) = &self.plan.wanted.redo {
            return self.round(batch);
        }
        let (parts_max, batch_max) = if round.is_some() { (PARTS_MAX, memory) } else { (usize::MAX, usize::MAX) };
        for part in self.plan.wanted.load.parts(memory, parts_max) {
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
fn gather(batch: &mut RedoBatch, scan: &mut Scan<'_>, until: Lsn) -> Result<bool> {
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

/// A task for each page.
trait Task: Sync {
    /// `page` is as stored in its file, or zeros.
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched>;
}

/// What a task did to a page.
enum Touched {
    Nothing,
    /// Changed; the buffers have its old content.
    Changed,
    /// Built without reading the old content.
    Made,
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

/// Replaces torn pages with their copies.
struct Restore<'r> {
    plan: &'r RecoverPlan,
    tally: &'r Tally,
}

impl Task for Restore<'_> {
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched> {
        if !is_torn(&buffers.verdict(page, id, space)) {
            return Ok(Touched::Nothing);
        }
        let Some(copy) = self.plan.copy_of(id, space, &mut buffers.opener) else { return Ok(Touched::Nothing) };
        page.copy_from_slice(copy);
        count(&self.tally.restored);
        Ok(Touched::Changed)
    }
}

/// Records the LSN up to which everything is flushed.
struct Closed(Lsn);

impl Task for Closed {
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched> {
        let name = space.path.display();
        if !matches!(buffers.verdict(page, id, space), Verdict::Ok(_)) {
            return damaged(format!("{name}: the first page is damaged"));
        }
        let sealed = seal_flush_lsn(page, self.0, &space.format);
        sealed.map_err(|error| RecoverError::Refused(format!("{name}: {error}")))?;
        Ok(Touched::Changed)
    }
}

/// Makes a transaction active that waits for a binary log. The page keeps its LSN: no redo describes the change, and none needs to.
struct GiveUpWaiting<'r> {
    plan: &'r RecoverPlan,
}

impl Task for GiveUpWaiting<'_> {
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched> {
        let stored = buffers.open(page, id, space, self.plan)?;
        if make_active(page).is_none() {
            return Ok(Touched::Nothing);
        }
        seal(page, id, space, (stored, &mut buffers.deflater))?;
        Ok(Touched::Changed)
    }
}

/// Empties pages.
struct Wipe;

impl Task for Wipe {
    fn on(&self, page: &mut [u8], _: PageId, _: &PlannedSpace, _: &mut PageBuffers) -> Result<Touched> {
        page.fill(0);
        Ok(Touched::Changed)
    }
}

/// Passes pages on and changes nothing.
struct Look<J>(J);

impl<J> Task for Look<J>
where
    J: Fn(PageId, &PlannedSpace, &Verdict, Lsn) -> Result<()> + Sync,
{
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched> {
        let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0));
        (self.0)(id, space, &buffers.verdict(page, id, space), lsn).map(|()| Touched::Nothing)
    }
}

/// Applies each page's redo.
struct Apply<'r> {
    plan: &'r RecoverPlan,
    batch: &'r RedoBatch,
    tally: &'r Tally,
}

impl Task for Apply<'_> {
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched> {
        let redo = self.batch.redo(id);
        let is_void = redo.is_void;
        let mut stored = None;
        if is_void {
            page.fill(0);
        } else {
            count(&self.tally.read);
            match buffers.open(page, id, space, self.plan) {
                // The redo initializes the page, so its old content does not matter.
                Err(RecoverError::Damaged(_)) if makes_page(redo.clone()) => page.fill(0),
                other => stored = other?,
            }
            if is_all_zeros(page) && id.page_no.0 != 0 && !makes_page(redo.clone()) {
                let name = space.path.display();
                return damaged(format!("{name}: page {} needs redo, but has never been written", id.page_no));
            }
            let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0));
            refuse_newer(&space.path, space.path.is_absolute(), id.page_no, lsn, self.plan.wanted.end)?;
        }
        let (counter, done) = match apply(page, id, space, redo, (stored, &mut buffers.deflater))? {
            Outcome::Unchanged => (&self.tally.unchanged, Touched::Nothing),
            Outcome::Freed => (&self.tally.freed, Touched::Nothing),
            Outcome::Changed(_) if is_void && !space.is_sparse() => (&self.tally.changed, Touched::Made),
            Outcome::Changed(_) => (&self.tally.changed, Touched::Changed),
        };
        count(counter);
        Ok(done)
    }
}

/// Whether nothing was ever written to the page.
fn is_all_zeros(page: &[u8]) -> bool {
    be::u64_at(page, FIL_PAGE_LSN) == Some(0) && page.iter().all(|byte| *byte == 0)
}

/// Whether the first record initializes the page.
fn makes_page(mut redo: PageRedo<'_>) -> bool {
    let first = redo.next().and_then(|mtr| mtr.records().next());
    matches!(first, Some(Ok(RedoRecord::Page(record))) if record.change.makes_page())
}

/// Applies the redo of one page, and seals the page if that changed it. `compressing`: the algorithm that compressed the page in its file,
/// and the compressor for writing it again.
fn apply(
    page: &mut [u8],
    id: PageId,
    space: &PlannedSpace,
    redo: PageRedo<'_>,
    compressing: (Option<Compression>, &mut Deflater),
) -> Result<Outcome> {
    let (format, name) = (&space.format, space.path.display());
    let mut replay = Replay::onto(page, id, format)
        .map_err(|error| RecoverError::Damaged(format!("{name}: page {}: {error}", id.page_no)))?;
    let mut last = Lsn(0);
    for mtr in redo {
        replay.apply(&mtr).map_err(|error| at_lsn(space, id, mtr.start, &error))?;
        last = mtr.start;
    }
    let outcome = replay.finish().map_err(|error| at_lsn(space, id, last, &error))?;
    if matches!(outcome, Outcome::Changed(_)) {
        seal(page, id, space, compressing)?;
    }
    Ok(outcome)
}

/// Seals a changed page. `compressing` as for [`apply`].
fn seal(
    page: &mut [u8],
    id: PageId,
    space: &PlannedSpace,
    compressing: (Option<Compression>, &mut Deflater),
) -> Result<()> {
    let sealed = space.crypt.seal(page, id, &space.format, compressing);
    let name = space.path.display();
    sealed.map_err(|error| RecoverError::Refused(format!("{name}: page {}: {error}", id.page_no)))
}

/// A core's buffers, reused for every page.
#[derive(Default)]
struct PageBuffers {
    /// The page as it was in its file.
    before: Vec<u8>,
    opener: PageOpener,
    deflater: Deflater,
}

impl PageBuffers {
    fn verdict(&mut self, page: &[u8], id: PageId, space: &PlannedSpace) -> Verdict {
        self.opener.verdict(page, space.at(id))
    }

    /// Turns a page as stored into the page the server works on. Returns the algorithm that page_compressed it, if any.
    fn open(
        &mut self,
        page: &mut [u8],
        id: PageId,
        space: &PlannedSpace,
        plan: &RecoverPlan,
    ) -> Result<Option<Compression>> {
        let mut verdict = self.verdict(page, id, space);
        if is_torn(&verdict)
            && let Some(copy) = plan.copy_of(id, space, &mut self.opener)
        {
            page.copy_from_slice(copy);
            verdict = self.verdict(page, id, space);
        }
        let name = space.path.display();
        match verdict {
            Verdict::Ok(_) | Verdict::Empty => {}
            Verdict::Corrupt(damage) => {
                return damaged(format!("{name}: page {} needs redo, but {damage}", id.page_no));
            }
            Verdict::Unverifiable(why) => {
                return refused(format!("{name}: page {} needs redo, but is {why}", id.page_no));
            }
        }
        let (opened, compression) = match self.opener.open(page, space.at(id)) {
            Ok(opened) => {
                ((opened.decrypted || opened.inflated.is_some()).then(|| opened.page.to_vec()), opened.inflated)
            }
            Err(error) => return damaged(format!("{name}: page {} needs redo, but {error}", id.page_no)),
        };
        if let Some(opened) = opened {
            page.iter_mut().zip(opened).for_each(|(to, from)| *to = from);
        }
        Ok(compression)
    }
}

/// Whether the server may have been writing the page when it died, so that a copy would help.
fn is_torn(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Corrupt(_) | Verdict::Empty)
}

fn at_lsn(space: &PlannedSpace, id: PageId, lsn: Lsn, error: &dyn std::fmt::Display) -> RecoverError {
    RecoverError::Damaged(format!("{}: page {}, redo at LSN {lsn}: {error}", space.path.display(), id.page_no))
}
