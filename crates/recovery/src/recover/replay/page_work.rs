//! What is done to one page: its redo applied, its doublewrite copy put back, and the like.
//!
//! A recovery does it to pages in long stretches and writes them (`apply`); a view to the page that somebody reads (`view`).

use std::sync::atomic::{AtomicU64, Ordering};

use format::bytes::be;
use format::codec::{Compression, Deflater};
use format::fil::FIL_PAGE_LSN;
use format::page::rollback::make_active;
use format::page::seal::seal_flush_lsn;
use format::{Lsn, PageId, Verdict};
use redo::apply::{Outcome, Replay};
use redo::record::RedoRecord;

use crate::recover::error::{RecoverError, Result, damaged, refused};
use crate::recover::plan::RecoverPlan;
use crate::recover::space::PlannedSpace;
use crate::recover::space::log_end::refuse_newer;
use crate::redo_batch::{PageRedo, RedoBatch};
use datadir::page::PageOpener;

/// The same counts, shared by all cores.
#[derive(Debug, Default)]
pub(in crate::recover) struct Tally {
    pub read: AtomicU64,
    pub changed: AtomicU64,
    pub unchanged: AtomicU64,
    pub freed: AtomicU64,
    pub restored: AtomicU64,
}

fn count(counter: &AtomicU64) {
    // Relaxed: a count, read when the threads have been joined.
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A task for each page.
pub(in crate::recover) trait Task: Sync {
    /// `page` is as stored in its file, or zeros.
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched>;
}

/// What a task did to a page.
pub(in crate::recover) enum Touched {
    Nothing,
    /// Changed; the buffers have its old content.
    Changed,
    /// Built without reading the old content.
    Made,
}

/// Replaces torn pages with their copies.
pub(in crate::recover) struct Restore<'r> {
    pub plan: &'r RecoverPlan,
    pub tally: &'r Tally,
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
pub(in crate::recover) struct Closed(pub Lsn);

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
pub(in crate::recover) struct GiveUpWaiting<'r> {
    pub plan: &'r RecoverPlan,
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
pub(in crate::recover) struct Wipe;

impl Task for Wipe {
    fn on(&self, page: &mut [u8], _: PageId, _: &PlannedSpace, _: &mut PageBuffers) -> Result<Touched> {
        page.fill(0);
        Ok(Touched::Changed)
    }
}

/// Passes pages on and changes nothing.
pub(in crate::recover) struct LookAt<J>(pub J);

impl<J> Task for LookAt<J>
where
    J: Fn(PageId, &PlannedSpace, &Verdict, Lsn) -> Result<()> + Sync,
{
    fn on(&self, page: &mut [u8], id: PageId, space: &PlannedSpace, buffers: &mut PageBuffers) -> Result<Touched> {
        let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0));
        (self.0)(id, space, &buffers.verdict(page, id, space), lsn).map(|()| Touched::Nothing)
    }
}

/// Applies each page's redo.
pub(in crate::recover) struct Apply<'r> {
    pub plan: &'r RecoverPlan,
    pub batch: &'r RedoBatch,
    pub tally: &'r Tally,
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
pub(in crate::recover) struct PageBuffers {
    /// The page as it was in its file.
    pub before: Vec<u8>,
    opener: PageOpener,
    deflater: Deflater,
}

impl PageBuffers {
    pub fn verdict(&mut self, page: &[u8], id: PageId, space: &PlannedSpace) -> Verdict {
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
