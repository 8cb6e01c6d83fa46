//! Redo onto pages, round by round: gathered within the memory, pages read, changed by all cores, sealed, written back.

use std::collections::HashMap;

use flow::queue::OpenQueue;
use flow::write_back::WriteBack;
use format::bytes::be;
use format::codec::{Scratch, open_page};
use format::keyring::KeyStore;
use format::page::fil::FIL_PAGE_LSN;
use format::page::seal::seal_recovered;
use format::redo::apply::{Outcome, Replay};
use format::redo::record::{Mtr, RedoRecord};
use format::{Lsn, PageId, SpaceFormat, Verdict, verify_inside, verify_page};

use super::error::{RecoverError, Result, damaged, failed, refused};
use super::files::{Files, OpenSpace};
use super::log::{RedoLog, Scan};
use super::pages::{PageReader, Wanted as WantedPage};
use super::plan::{Plan, Space};
use crate::redo_batch::RedoBatch;
use crate::source::keys::SpaceKey;

/// Bytes of pages that are in memory at a time.
const CHUNK: usize = 4 << 20;

/// What became of pages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub rounds: u64,
    pub read: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub freed: u64,
    pub restored: u64,
}

/// The work on pages.
pub(super) struct Work<'w> {
    pub plan: &'w Plan,
    pub files: &'w Files,
    pub reader: PageReader,
    /// `None` in a dry run.
    pub writer: Option<WriteBack>,
    /// Whole copies of pages that are torn in their file.
    pub restores: HashMap<PageId, Vec<u8>>,
    made: Made,
    pub counts: Counts,
}

/// In a dry run: what pages would be by now.
#[derive(Default)]
struct Made {
    pages: HashMap<PageId, Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
    /// More did not fit.
    is_full: bool,
}

impl Made {
    fn keep(&mut self, id: PageId, bytes: Vec<u8>) {
        let is_new = !self.pages.contains_key(&id);
        // One page always fits.
        self.is_full |= is_new && self.bytes > 0 && self.bytes + bytes.len() > self.bytes_max;
        if !self.is_full {
            self.bytes += if is_new { bytes.len() } else { 0 };
            self.pages.insert(id, bytes);
        }
    }
}

/// A page on its way.
struct Item<'w> {
    id: PageId,
    space: &'w Space,
    is_void: bool,
    bytes: Vec<u8>,
}

impl<'w> Work<'w> {
    pub fn new(plan: &'w Plan, files: &'w Files, engine: &dyn OpenQueue, writer: Option<WriteBack>) -> Result<Self> {
        let reader = PageReader::open(engine).map_err(failed("the tablespaces".as_ref(), "preparing to read"))?;
        Ok(Self {
            plan,
            files,
            reader,
            writer,
            restores: HashMap::new(),
            made: Made::default(),
            counts: Counts::default(),
        })
    }

    /// Finds the pages that the server tore and has a copy of, and has them written.
    pub fn restore(&mut self) -> Result<()> {
        let plan = self.plan;
        let compressed = plan.spaces.iter().filter(|(_, space)| space.format.is_page_compressed());
        let compressed = compressed.map(|(&id, space)| (id, space.format)).collect();
        for id in plan.copies.ids(&compressed) {
            let (Some(space), Some(open)) = (plan.spaces.get(&id.space), self.files.get(id.space)) else { continue };
            let Some(copy) = plan.copies.find(id, &space.format, plan.checkpoint, plan.wanted.end) else { continue };
            if self.is_torn(open, id, &space.format)? {
                if let Some(writer) = &mut self.writer {
                    writer.put(open.id, offset_of(id, &space.format), copy)?;
                }
                self.restores.insert(id, copy.to_vec());
            }
        }
        self.counts.restored = self.restores.len() as u64;
        self.writer.as_mut().map_or(Ok(()), WriteBack::flush)?;
        Ok(())
    }

    /// All rounds, each as much of the log as fits into the memory, and `round` bytes at most.
    pub fn run(&mut self, log: &RedoLog, memory: usize, round: u64) -> Result<()> {
        let mut scan = log.scan();
        loop {
            let until = Lsn(scan.at().0.saturating_add(round));
            // A new one each time: what a batch has taken once it counts as used from then on.
            let mut batch = RedoBatch::new(memory);
            let goes_on = gather(&mut batch, &mut scan, self.plan, until, |_| true)?;
            self.round(&batch)?;
            self.counts.rounds += 1;
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Without writing, what rounds make of pages is kept, in `memory` bytes: each pass over the log takes another part of the pages.
    pub fn run_dry(&mut self, log: &RedoLog, redo: usize, memory: usize) -> Result<()> {
        let mut parts = vec![Part::ALL];
        while let Some(part) = parts.pop() {
            let before = self.counts;
            self.made = Made { bytes_max: memory, ..Made::default() };
            self.pass(part, log, redo)?;
            self.counts.changed = before.changed + self.made.pages.len() as u64;
            if self.made.is_full {
                self.counts = before;
                parts.extend(part.split());
            }
        }
        Ok(())
    }

    /// All rounds for a part of the pages, unless what becomes of them does not fit.
    fn pass(&mut self, part: Part, log: &RedoLog, redo: usize) -> Result<()> {
        let mut scan = log.scan();
        let mut goes_on = true;
        while goes_on && !self.made.is_full {
            let mut batch = RedoBatch::new(redo);
            goes_on = gather(&mut batch, &mut scan, self.plan, Lsn(u64::MAX), |id| part.has(id))?;
            self.round(&batch)?;
            self.counts.rounds += 1;
        }
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(self) -> Result<Counts> {
        self.writer.map_or(Ok(()), WriteBack::finish)?;
        Ok(self.counts)
    }

    fn is_torn(&mut self, open: &OpenSpace, id: PageId, format: &SpaceFormat) -> Result<bool> {
        let page = self.read(&[open.wanted(id, format)])?.pop().unwrap_or_default();
        let key = SpaceKey::default();
        let outside = verify_page(&page, id, format);
        let verdict = verify_inside(&page, id, format, &key.context(format), &mut Scratch::new(), outside);
        Ok(matches!(verdict, Verdict::Corrupt(_) | Verdict::Empty))
    }

    fn read(&mut self, wanted: &[WantedPage]) -> Result<Vec<Vec<u8>>> {
        self.reader.read(wanted).map_err(failed("the tablespaces".as_ref(), "reading pages"))
    }

    fn round(&mut self, batch: &RedoBatch) -> Result<()> {
        let mut chunk: Vec<Item<'_>> = Vec::new();
        let mut bytes = 0;
        for id in batch.pages() {
            let Some(space) = self.plan.spaces.get(&id.space) else { continue };
            bytes += space.format.physical().bytes();
            chunk.push(Item { id, space, is_void: batch.redo(id).is_void, bytes: Vec::new() });
            if self.made.is_full {
                return Ok(());
            }
            if bytes >= CHUNK {
                self.chunk(std::mem::take(&mut chunk), batch)?;
                bytes = 0;
            }
        }
        self.chunk(chunk, batch)?;
        // The next round reads these pages again.
        self.writer.as_mut().map_or(Ok(()), WriteBack::flush)?;
        Ok(())
    }

    fn chunk(&mut self, mut items: Vec<Item<'_>>, batch: &RedoBatch) -> Result<()> {
        self.fetch(&mut items)?;
        for (item, outcome) in apply_all(items, batch, self.plan.wanted.end)? {
            match outcome {
                Outcome::Unchanged => self.counts.unchanged += 1,
                Outcome::Freed => self.counts.freed += 1,
                Outcome::Changed(_) => {
                    self.counts.changed += 1;
                    match (&mut self.writer, self.files.get(item.id.space)) {
                        (Some(writer), Some(open)) => {
                            writer.put(open.id, offset_of(item.id, &item.space.format), &item.bytes)?;
                        }
                        _ => self.made.keep(item.id, item.bytes),
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads what is not made anew.
    fn fetch(&mut self, items: &mut [Item<'_>]) -> Result<()> {
        let mut wanted = Vec::new();
        let mut places = Vec::new();
        for (place, item) in items.iter_mut().enumerate() {
            if item.is_void {
                item.bytes = vec![0; item.space.format.physical().bytes()];
                continue;
            }
            // Otherwise it is read from where it was written to.
            let is_dry = self.writer.is_none();
            let kept = self.made.pages.get(&item.id).or(self.restores.get(&item.id)).filter(|_| is_dry);
            if let Some(copy) = kept {
                item.bytes.clone_from(copy);
            } else if let Some(open) = self.files.get(item.id.space) {
                wanted.push(open.wanted(item.id, &item.space.format));
                places.push(place);
            } else {
                item.bytes = vec![0; item.space.format.physical().bytes()];
            }
        }
        let pages = self.read(&wanted)?;
        self.counts.read += pages.len() as u64;
        for (place, page) in places.into_iter().zip(pages) {
            if let Some(item) = items.get_mut(place) {
                item.bytes = page;
            }
        }
        Ok(())
    }
}

/// A part of all pages: those whose number, well mixed, ends in `number` of `of`, a power of two.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: u64,
    of: u64,
}

impl Part {
    const ALL: Self = Self { number: 0, of: 1 };

    const fn has(self, id: PageId) -> bool {
        let all = (id.space.0 as u64) << 32 | id.page_no.0 as u64;
        all.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & (self.of - 1) == self.number
    }

    const fn split(self) -> [Self; 2] {
        let of = self.of * 2;
        [Self { of, ..self }, Self { number: self.number + self.of, of }]
    }
}

/// Takes in redo until the batch is full, or the log has come to `until`; whether the log goes on.
fn gather(
    batch: &mut RedoBatch,
    scan: &mut Scan<'_>,
    plan: &Plan,
    until: Lsn,
    takes: impl Fn(PageId) -> bool,
) -> Result<bool> {
    scan.run(&mut |mtr| {
        if mtr.start < plan.wanted.end {
            add(batch, mtr, plan, &takes)?;
        }
        Ok(!batch.is_full() && mtr.end < until)
    })
}

/// Takes in what is of use of a mini-transaction.
fn add(batch: &mut RedoBatch, mtr: &Mtr<'_>, plan: &Plan, takes: impl Fn(PageId) -> bool) -> Result<()> {
    let mut kept = Vec::with_capacity(mtr.bytes.len());
    for record in mtr.records() {
        match record {
            Ok(RedoRecord::Page(record)) if takes(record.id) && plan.wanted.is_of_use(record.id, mtr.start) => {
                kept.extend_from_slice(record.bytes);
            }
            // What it says of files was done before.
            Ok(_) => {}
            Err(error) => return damaged(format!("the redo log at LSN {}: {error}", mtr.start)),
        }
    }
    let added = batch.add(&Mtr { bytes: &kept, ..*mtr });
    added.or_else(|error| damaged(format!("the redo log at LSN {}: {error}", mtr.start)))
}

pub(super) fn offset_of(id: PageId, format: &SpaceFormat) -> u64 {
    u64::from(id.page_no.0) * format.physical().bytes() as u64
}

/// Applies the redo of each page, by all cores.
fn apply_all<'w>(items: Vec<Item<'w>>, batch: &RedoBatch, end: Lsn) -> Result<Vec<(Item<'w>, Outcome)>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(workers).max(1);
    let mut shares: Vec<Vec<Item<'w>>> = Vec::new();
    for item in items {
        match shares.last_mut() {
            Some(last) if last.len() < share => last.push(item),
            _ => shares.push(vec![item]),
        }
    }
    let apply = |share: Vec<Item<'w>>| -> Result<Vec<(Item<'w>, Outcome)>> {
        let mut scratch = Scratch::new();
        share.into_iter().map(|item| apply_one(item, batch, end, &mut scratch)).collect()
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| apply(share))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut all = Vec::new();
    for result in results {
        let died = || RecoverError::Refused("applying redo to a page ended in a fault of this program".to_owned());
        all.extend(result.map_err(|_| died())??);
    }
    Ok(all)
}

fn apply_one<'w>(
    mut item: Item<'w>,
    batch: &RedoBatch,
    end: Lsn,
    scratch: &mut Scratch,
) -> Result<(Item<'w>, Outcome)> {
    let (id, format) = (item.id, &item.space.format);
    let name = item.space.path.display();
    if !item.is_void {
        open(&mut item.bytes, id, item.space, scratch)?;
        in_the_past(&item.bytes, id, item.space, end)?;
    }
    let mut replay = Replay::onto(&mut item.bytes, id, format)
        .map_err(|error| RecoverError::Damaged(format!("{name}: page {}: {error}", id.page_no)))?;
    for mtr in batch.redo(id) {
        replay.apply(&mtr).map_err(|error| at_lsn(item.space, id, mtr.start, &error))?;
    }
    let outcome = replay.finish();
    if matches!(outcome, Outcome::Changed(_)) {
        let sealed = seal_recovered(&mut item.bytes, id, format);
        sealed.map_err(|error| RecoverError::Refused(format!("{name}: page {}: {error}", id.page_no)))?;
    }
    Ok((item, outcome))
}

fn at_lsn(space: &Space, id: PageId, lsn: Lsn, error: &dyn std::fmt::Display) -> RecoverError {
    RecoverError::Damaged(format!("{}: page {}, redo at LSN {lsn}: {error}", space.path.display(), id.page_no))
}

/// A page goes to its file only behind its redo: one that is newer than the log says that the log has lost its end.
fn in_the_past(bytes: &[u8], id: PageId, space: &Space, end: Lsn) -> Result<()> {
    let lsn = Lsn(be::u64_at(bytes, FIL_PAGE_LSN).unwrap_or(0));
    if lsn <= end {
        return Ok(());
    }
    let (name, page) = (space.path.display(), id.page_no);
    damaged(format!(
        "{name}: page {page} was written at LSN {lsn}, but the redo log ends at LSN {end}: it lost its end"
    ))
}

/// Makes of a page as it lies in its file what the server works on.
fn open(bytes: &mut Vec<u8>, id: PageId, space: &Space, scratch: &mut Scratch) -> Result<()> {
    let format = &space.format;
    let key = SpaceKey::unlock(bytes, format, &KeyStore::new()).unwrap_or_default();
    let context = key.context(format);
    let outside = verify_page(bytes, id, format);
    let name = space.path.display();
    match verify_inside(bytes, id, format, &context, scratch, outside) {
        Verdict::Ok(_) | Verdict::Empty => {}
        Verdict::Corrupt(damage) => return damaged(format!("{name}: page {} needs redo, but {damage}", id.page_no)),
        Verdict::Unverifiable(why) => return refused(format!("{name}: page {} needs redo, but is {why}", id.page_no)),
    }
    let opened = match open_page(bytes, id, &context, scratch) {
        Ok(opened) => opened.inflated.is_some().then(|| opened.page.to_vec()),
        Err(error) => return damaged(format!("{name}: page {} needs redo, but {error}", id.page_no)),
    };
    if let Some(opened) = opened {
        *bytes = opened;
    }
    Ok(())
}
