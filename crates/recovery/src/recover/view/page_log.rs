//! The log's records by page: in memory, or if they do not fit there, in an unnamed file.
//!
//! The file consists of runs. A run is one batch of records, page after page in the order of tablespace and number, each page with all its
//! records. Of a run only the place of every chunk of pages is kept: 24 bytes for 64 KiB. A page costs one read in each run that may have it.
//!
//! Records are copied, not their places in the log: a page has records all over a log, and a place in an encrypted log, in a block or across
//! two segments of an archive is read only with the mini-transaction around it. Copies of an OLTP log are two thirds of it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use foldhash::{HashMap, HashMapExt};
use format::bytes::be;
use format::{Lsn, PageId};
use redo::record::{Grammar, Mtr};

use crate::recover::error::{RecoverError, Result, refused};
use crate::recover::log::RedoLog;
use crate::recover::plan::RecoverPlan;
use crate::recover::replay::gather;
use crate::redo_batch::RedoBatch;

/// A chunk holds whole pages, and ends with the first that reaches this size, bytes.
const CHUNK: usize = 64 << 10;
/// Pages that share a word of the map of pages.
const WORD: u32 = 64;
/// A page in a run: tablespace, number, whether its old content does not matter, number of entries.
const PAGE_HEAD: usize = 4 + 4 + 1 + 4;
/// An entry: start and end of the mini-transaction, number of bytes.
const ENTRY_HEAD: usize = 8 + 8 + 4;

/// The records of all pages.
#[derive(Debug)]
pub(super) enum PageLog {
    /// In the plan.
    Memory,
    Spilled(Spill),
}

impl PageLog {
    /// Gathers the records, unless the plan has kept them all. A run gets what fits in `memory` bytes, of at most `round` bytes of log.
    /// `since`: from where on [`Spill::has_later`] counts.
    pub fn of(
        log: &RedoLog,
        plan: &RecoverPlan,
        (memory, round): (usize, u64),
        (spill, since): (Option<File>, Lsn),
    ) -> Result<Self> {
        if plan.wanted.pages.redo.is_some() {
            return Ok(Self::Memory);
        }
        if log.is_encrypted() {
            return refused(format!(
                "the redo log is encrypted and does not fit in memory, and its records are not put into a file in plain text: give the view \
                 more memory (--memory; the log has {} MiB)",
                log.len_max() >> 20
            ));
        }
        let failed = |error: io::Error| {
            RecoverError::Refused(format!(
                "the redo log does not fit in memory, and the file for the rest cannot be written: {error}: give the view more memory (--memory), \
                 or name another folder for such files (TMPDIR)"
            ))
        };
        let file = spill.map_or_else(tempfile::tempfile, Ok).map_err(failed)?;
        let mut spill = Spill::new(file, since, log.grammar());
        let wanted = &plan.wanted;
        let is_wanted = |id: PageId, start| {
            start < wanted.end && plan.spaces.contains_key(&id.space) && wanted.is_of_use(id, start)
        };
        log.scan(Some(&is_wanted), |scan| {
            let mut goes_on = true;
            while goes_on {
                let until = Lsn(scan.at().0.saturating_add(round));
                // A new batch each time: memory that a batch keeps counts as used.
                let mut batch = RedoBatch::new(memory).with_grammar(log.grammar());
                goes_on = gather(&mut batch, scan, until)?;
                spill.put(&batch).map_err(failed)?;
            }
            Ok(())
        })?;
        Ok(Self::Spilled(spill))
    }
}

/// A run: where its chunks are in the file, and the first page of each.
#[derive(Debug, Default)]
struct SpilledRun {
    chunks: Vec<(PageId, u64)>,
    end: u64,
}

/// Records in a file.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    len: u64,
    runs: Vec<SpilledRun>,
    /// Which pages have records: a bit for each.
    pages: HashMap<(u32, u32), u64>,
    /// Which have records of mini-transactions from here on.
    later: HashMap<(u32, u32), u64>,
    since: Lsn,
    grammar: Grammar,
}

/// The word and the bit of a page.
fn bit(id: PageId) -> ((u32, u32), u64) {
    ((id.space.0, id.page_no.0 / WORD), 1 << (id.page_no.0 % WORD))
}

impl Spill {
    fn new(file: File, since: Lsn, grammar: Grammar) -> Self {
        let (pages, later) = (HashMap::new(), HashMap::new());
        Self { file, len: 0, runs: Vec::new(), pages, later, since, grammar }
    }

    /// Appends a run.
    fn put(&mut self, batch: &RedoBatch) -> io::Result<()> {
        let (mut run, mut chunk) = (SpilledRun::default(), Vec::new());
        let mut out = BufWriter::with_capacity(1 << 20, AppendAt { file: &self.file, at: self.len });
        for id in batch.pages() {
            let (word, bit) = bit(id);
            *self.pages.entry(word).or_default() |= bit;
            if batch.redo(id).any(|mtr| mtr.start >= self.since) {
                *self.later.entry(word).or_default() |= bit;
            }
            if chunk.is_empty() {
                run.chunks.push((id, self.len));
            }
            put_page(&mut chunk, id, batch);
            if chunk.len() >= CHUNK {
                out.write_all(&chunk)?;
                self.len += chunk.len() as u64;
                chunk.clear();
            }
        }
        out.write_all(&chunk)?;
        self.len += chunk.len() as u64;
        out.flush()?;
        drop(out);
        run.end = self.len;
        self.runs.push(run);
        Ok(())
    }

    /// Whether there are records of the page.
    pub fn has(&self, id: PageId) -> bool {
        let (word, bit) = bit(id);
        self.pages.get(&word).is_some_and(|word| word & bit != 0)
    }

    /// Whether there are later records of the page.
    pub fn has_later(&self, id: PageId) -> bool {
        let (word, bit) = bit(id);
        self.later.get(&word).is_some_and(|word| word & bit != 0)
    }

    /// All records of a page.
    pub fn redo(&self, id: PageId) -> io::Result<RedoBatch> {
        let mut batch = RedoBatch::new(usize::MAX).with_grammar(self.grammar);
        for run in &self.runs {
            let number = run.chunks.partition_point(|(first, _)| *first <= id);
            let Some((_, from)) = number.checked_sub(1).and_then(|before| run.chunks.get(before)) else { continue };
            let to = run.chunks.get(number).map_or(run.end, |(_, next)| *next);
            let mut chunk = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
            self.file.read_exact_at(&mut chunk, *from)?;
            take_page(&chunk, id, &mut batch)
                .ok_or_else(|| io::Error::other("the file of spilled records is damaged"))?;
        }
        Ok(batch)
    }
}

/// Writes at growing offsets.
struct AppendAt<'f> {
    file: &'f File,
    at: u64,
}

impl Write for AppendAt<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn put_page(out: &mut Vec<u8>, id: PageId, batch: &RedoBatch) {
    let redo = batch.redo(id);
    let is_void = redo.is_void;
    let entries: Vec<Mtr<'_>> = redo.collect();
    out.extend_from_slice(&id.space.0.to_be_bytes());
    out.extend_from_slice(&id.page_no.0.to_be_bytes());
    out.push(u8::from(is_void));
    out.extend_from_slice(&u32::try_from(entries.len()).unwrap_or(u32::MAX).to_be_bytes());
    for mtr in entries {
        out.extend_from_slice(&mtr.start.0.to_be_bytes());
        out.extend_from_slice(&mtr.end.0.to_be_bytes());
        out.extend_from_slice(&u32::try_from(mtr.bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(mtr.bytes);
    }
}

/// Adds the records of a page in the chunk to the batch. `None` if the chunk is not what was written.
fn take_page(chunk: &[u8], id: PageId, batch: &mut RedoBatch) -> Option<()> {
    let mut at = 0;
    while at < chunk.len() {
        let found = PageId::new(be::u32_at(chunk, at)?, be::u32_at(chunk, at + 4)?);
        let (is_void, count) = (*chunk.get(at + 8)? != 0, be::u32_at(chunk, at + 9)?);
        at += PAGE_HEAD;
        for number in 0..count {
            let (start, end) = (be::u64_at(chunk, at)?, be::u64_at(chunk, at + 8)?);
            let len = be::u32_at(chunk, at + 16)? as usize;
            let bytes = chunk.get(at + ENTRY_HEAD..at + ENTRY_HEAD + len)?;
            at += ENTRY_HEAD + len;
            if found == id {
                let mut adding =
                    batch.begin_mtr(&Mtr { start: Lsn(start), end: Lsn(end), bytes, grammar: Grammar::default() });
                // The first record of a page that starts from nothing is the one that voids it.
                batch.add_change(&mut adding, id, is_void && number == 0, bytes);
            }
        }
        if found >= id {
            break;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(entries: &[(PageId, u64, bool, &[u8])]) -> RedoBatch {
        let mut batch = RedoBatch::new(usize::MAX);
        for (id, start, is_void, bytes) in entries {
            let mtr = Mtr { start: Lsn(*start), end: Lsn(start + 9), bytes, grammar: Grammar::default() };
            let mut adding = batch.begin_mtr(&mtr);
            batch.add_change(&mut adding, *id, *is_void, bytes);
        }
        batch
    }

    fn redo_of(batch: &RedoBatch, id: PageId) -> (bool, Vec<(u64, u64, Vec<u8>)>) {
        let redo = batch.redo(id);
        (redo.is_void, redo.map(|mtr| (mtr.start.0, mtr.end.0, mtr.bytes.to_vec())).collect())
    }

    #[test]
    fn what_is_spilled_in_runs_is_what_one_batch_would_have_had() {
        let page = |number| PageId::new(3, number);
        let long = vec![7; CHUNK + 1];
        let first = [
            (page(1), 10, false, &b"abc"[..]),
            (page(200), 20, false, &long[..]),
            (page(1), 30, false, &b"de"[..]),
            (page(9), 40, false, &b"old"[..]),
            (PageId::new(2, 200), 50, false, &b"x"[..]),
        ];
        let second =
            [(page(9), 60, true, &b"new"[..]), (page(9), 70, false, &b"er"[..]), (page(1), 80, false, &b"f"[..])];
        let file = tempfile::tempfile().expect("a file");
        let mut spill = Spill::new(file, Lsn(65), Grammar::default());
        for run in [&first[..], &second[..]] {
            spill.put(&batch(run)).expect("written");
        }
        let all = batch(&[&first[..], &second[..]].concat());
        for id in [page(1), page(9), page(200), PageId::new(2, 200)] {
            assert!(spill.has(id));
            assert_eq!(redo_of(&spill.redo(id).expect("read"), id), redo_of(&all, id), "{id:?}");
            assert_eq!(spill.has_later(id), id == page(1) || id == page(9), "{id:?}: from LSN 65 on");
        }
        for id in [page(2), page(201), PageId::new(1, 1), PageId::new(9, 9)] {
            assert!(!spill.has(id) && redo_of(&spill.redo(id).expect("read"), id).1.is_empty(), "{id:?}");
        }
    }

    #[test]
    fn a_chunk_that_ends_early_is_no_page_without_records() {
        let mut chunk = Vec::new();
        put_page(&mut chunk, PageId::new(3, 1), &batch(&[(PageId::new(3, 1), 10, false, b"abc")]));
        for len in 1..chunk.len() {
            let cut = chunk.get(..len).expect("shorter");
            assert!(take_page(cut, PageId::new(3, 1), &mut RedoBatch::new(usize::MAX)).is_none(), "{len}");
        }
    }
}
