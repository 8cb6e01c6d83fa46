//! Makes pages, with what a recovery does to one page (`page_work`).

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use format::bytes::be;
use format::fil::FIL_PAGE_LSN;
use format::{Lsn, PageId, SpaceId, Verdict};

use super::Waiting;
use super::base::{BaseFile, BaseFiles};
use super::cache::Cache;
use super::page_log::PageLog;
use crate::recover::error::{RecoverError, Result, failed};
use crate::recover::plan::RecoverPlan;
use crate::recover::replay::page_work::{
    Apply, Closed, GiveUpWaiting, PageBuffers, Restore, Tally, Task, Touched, Wipe,
};
use crate::recover::space::PlannedSpace;

/// Bytes of pages kept.
const CACHE_MAX: usize = 32 << 20;

/// What makes the pages of the tablespaces that the log changes.
pub(super) struct Maker {
    pub plan: RecoverPlan,
    redo: PageLog,
    /// From where on [`Maker::is_unchanged`] counts.
    since: Lsn,
    files: BaseFiles,
    /// Pages that may be torn, and have a doublewrite copy.
    restored: BTreeSet<PageId>,
    /// Pages of the doublewrite area with copies of later pages.
    wiped: BTreeSet<PageId>,
    /// The flushed LSN on page 0 of the system tablespace, if the server reads it there: it takes another one than the log's for a crash.
    flushed: Option<Lsn>,
    waiting: Waiting,
    cache: Mutex<Cache>,
    /// Buffers that no thread uses now.
    buffers: Mutex<Vec<PageBuffers>>,
    tally: Tally,
    made: AtomicU64,
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").field("end", &self.plan.wanted.end).field("redo", &self.redo).finish_non_exhaustive()
    }
}

impl Maker {
    pub fn new(plan: RecoverPlan, (redo, since): (PageLog, Lsn), files: BaseFiles, flushed: Option<Lsn>) -> Self {
        let has_file = |space| files.of(space).first().is_some_and(BaseFile::is_there);
        let restored = plan.restorable(has_file).into_iter().collect();
        let wiped = plan.later_copies().into_iter().collect();
        Self {
            plan,
            redo,
            since,
            files,
            restored,
            wiped,
            flushed,
            waiting: Waiting::default(),
            cache: Mutex::new(Cache::new(CACHE_MAX)),
            buffers: Mutex::default(),
            tally: Tally::default(),
            made: AtomicU64::new(0),
        }
    }

    /// Makes transactions active whose undo logs begin with these pages.
    pub fn give_up_waiting(&self, pages: BTreeSet<PageId>) {
        if self.waiting.set(pages).is_ok() {
            // They may be there as they were before.
            lock(&self.cache).clear();
        }
    }

    pub fn made(&self) -> u64 {
        // Relaxed: a count for a report.
        self.made.load(Ordering::Relaxed)
    }

    /// The length of a file of a tablespace.
    pub fn len_of(&self, space: SpaceId, part: usize) -> u64 {
        self.files.of(space).get(part).map_or(0, |file| file.len)
    }

    /// Bytes of the system tablespace.
    pub fn system_page(&self, at: u64, size: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        let files = self.files.of(SpaceId::SYSTEM);
        let Some((number, file)) = files.iter().enumerate().rfind(|(_, file)| file.start <= at) else {
            return Ok(bytes);
        };
        let read = self.read(SpaceId::SYSTEM, number, &mut bytes, at - file.start);
        read.map_err(failed(std::path::Path::new("ibdata1"), "reading the dictionary"))?;
        Ok(bytes)
    }

    /// Reads bytes of a file of a tablespace. Returns how many: fewer than asked for at its end.
    pub fn read(&self, id: SpaceId, part: usize, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let (Some(space), Some(file)) = (self.plan.spaces.get(&id), self.files.of(id).get(part)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let there = usize::try_from(file.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = bytes.len().min(there);
        let Some(bytes) = bytes.get_mut(..count).filter(|bytes| !bytes.is_empty()) else { return Ok(0) };
        file.read(bytes, offset)?;
        let size = space.format.physical().bytes() as u64;
        let from = file.start + offset;
        let pages = from / size..(from + count as u64).div_ceil(size);
        for number in pages {
            let Ok(page_no) = u32::try_from(number) else { break };
            let page = Page { id: PageId::new(id.0, page_no), space, file, size };
            self.put(&page, bytes, from)?;
        }
        Ok(count)
    }

    /// Puts a page, as it is in the view, over the base's bytes, which begin at `from` in the tablespace and may have only a part of it.
    fn put(&self, page: &Page<'_>, bytes: &mut [u8], from: u64) -> io::Result<()> {
        let (start, end) = (page.start(), page.start() + page.size);
        let target = index(start.max(from) - from)..index(end.min(from + bytes.len() as u64) - from);
        let source = index(from.saturating_sub(start))..index(from.saturating_sub(start)) + target.len();
        let Some(target) = bytes.get_mut(target) else { return Ok(()) };
        if !self.changes(page.id) {
            return self.with_buffers(|buffers| self.refuse_newer(page, target, buffers));
        }
        let cached = lock(&self.cache).get(page.id);
        let made = match cached {
            Some(made) => made,
            None => self.make(page)?,
        };
        match made.get(source) {
            Some(source) => target.copy_from_slice(source),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    /// Whether the page differs from the base's.
    fn changes(&self, id: PageId) -> bool {
        let has_redo = match (&self.redo, &self.plan.wanted.pages.redo) {
            (PageLog::Spilled(spill), _) => spill.has(id),
            (PageLog::Memory, Some(batch)) => batch.has(id),
            (PageLog::Memory, None) => false,
        };
        has_redo
            || self.restored.contains(&id)
            || self.wiped.contains(&id)
            || self.closes(id).is_some()
            || self.waiting.get().is_some_and(|waiting| waiting.contains(&id))
    }

    /// Whether no record of the page is of a later mini-transaction than `since`, and nothing else is done to it either.
    pub fn is_unchanged(&self, id: PageId) -> bool {
        let has_later = match (&self.redo, &self.plan.wanted.pages.redo) {
            (PageLog::Spilled(spill), _) => spill.has_later(id),
            (PageLog::Memory, Some(batch)) => batch.redo(id).any(|mtr| mtr.start >= self.since),
            (PageLog::Memory, None) => false,
        };
        let is_mended = self.restored.contains(&id) || self.wiped.contains(&id);
        !has_later && !is_mended && self.waiting.get().is_none_or(|waiting| !waiting.contains(&id))
    }

    /// What the page says about the closed log, if it is the one that says it.
    fn closes(&self, id: PageId) -> Option<Closed> {
        self.flushed.filter(|_| id == PageId::new(SpaceId::SYSTEM.0, 0)).map(Closed)
    }

    /// Fails if a page is newer than the moment. Its file is not the base's then.
    fn refuse_newer(&self, page: &Page<'_>, bytes: &[u8], buffers: &mut PageBuffers) -> io::Result<()> {
        let lsn = be::u64_at(bytes, FIL_PAGE_LSN).map(Lsn).filter(|_| bytes.len() as u64 == page.size);
        let Some(lsn) = lsn.filter(|lsn| *lsn > self.plan.wanted.end) else { return Ok(()) };
        // The LSN of a damaged page says nothing. The reader finds the damage.
        if !matches!(buffers.verdict(bytes, page.id, page.space), Verdict::Ok(_)) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{}: page {} was written at LSN {lsn}, after the moment that is viewed (LSN {}): the base is newer",
            page.space.path.display(),
            page.id.page_no,
            self.plan.wanted.end
        )))
    }

    fn make(&self, page: &Page<'_>) -> io::Result<Arc<[u8]>> {
        let mut bytes = vec![0; index(page.size)];
        page.file.read(&mut bytes, page.start() - page.file.start)?;
        self.with_buffers(|buffers| {
            self.work(page, &mut bytes, buffers).map_err(|error| io::Error::other(error.to_string()))?;
            self.refuse_newer(page, &bytes, buffers)
        })?;
        // Relaxed: a count for a report.
        self.made.fetch_add(1, Ordering::Relaxed);
        let made: Arc<[u8]> = bytes.into();
        lock(&self.cache).put(page.id, Arc::clone(&made));
        Ok(made)
    }

    /// In the order of a recovery: copies of later pages go, torn pages are restored, redo is applied, transactions give up waiting, the log is closed.
    fn work(&self, page: &Page<'_>, bytes: &mut [u8], buffers: &mut PageBuffers) -> Result<()> {
        let (plan, id, tally) = (&self.plan, page.id, &self.tally);
        if self.wiped.contains(&id) {
            page.step(&Wipe, bytes, buffers)?;
        }
        if self.restored.contains(&id) {
            page.step(&Restore { plan, tally }, bytes, buffers)?;
        }
        match (&self.redo, &plan.wanted.pages.redo) {
            (PageLog::Spilled(spill), _) if spill.has(id) => {
                let batch = spill.redo(id);
                let batch =
                    &batch.map_err(|error| RecoverError::Refused(format!("reading the spilled records: {error}")))?;
                page.step(&Apply { plan, batch, tally }, bytes, buffers)?;
            }
            (PageLog::Memory, Some(batch)) if batch.has(id) => {
                page.step(&Apply { plan, batch, tally }, bytes, buffers)?;
            }
            _ => {}
        }
        if self.waiting.get().is_some_and(|waiting| waiting.contains(&id)) {
            page.step(&GiveUpWaiting { plan }, bytes, buffers)?;
        }
        if let Some(closed) = self.closes(id) {
            page.step(&closed, bytes, buffers)?;
        }
        Ok(())
    }

    fn with_buffers<T>(&self, act: impl FnOnce(&mut PageBuffers) -> T) -> T {
        let mut buffers = lock(&self.buffers).pop().unwrap_or_default();
        let done = act(&mut buffers);
        lock(&self.buffers).push(buffers);
        done
    }
}

/// A page of the view.
struct Page<'p> {
    id: PageId,
    space: &'p PlannedSpace,
    file: &'p BaseFile,
    size: u64,
}

impl Page<'_> {
    /// Its offset in the tablespace.
    fn start(&self) -> u64 {
        u64::from(self.id.page_no.0) * self.size
    }

    /// Does something to the page. A task that has changed nothing may have opened the page to look, or begun it from zeros: a recovery would
    /// not write it, so it stays as it was.
    fn step(&self, task: &impl Task, bytes: &mut [u8], buffers: &mut PageBuffers) -> Result<()> {
        let before = bytes.to_vec();
        if matches!(task.on(bytes, self.id, self.space, buffers)?, Touched::Nothing) {
            bytes.copy_from_slice(&before);
        }
        Ok(())
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// A panic elsewhere leaves lists and maps whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
