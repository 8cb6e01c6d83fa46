//! A worker's desk: pieces of files come in, pages are judged one after the other while their bytes are still in this core's
//! cache, and only sums leave.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flow::{FileFailure, Piece};
use format::{Algorithm, Corruption, ExtentMap, PageId, PageNo, SpaceId, Verdict, Why, verify_page};

use super::findings::Findings;
use super::usage::{Seen, UsageMap};
use super::words;
use crate::out::report::{AlgorithmTally, Counts, Severity};
use crate::source::datadir::{Candidate, plain};
use crate::source::space::{self, Part};

/// What the workers share about one file.
pub(super) struct FileState {
    pub candidate: Candidate,
    /// The first file of the system tablespace that this file continues.
    pub leader: Option<u32>,
    /// Set by the worker that gets the file's first block. Others wait for it; that cannot deadlock, because each worker takes
    /// its blocks in the order of the cursor, so the head of a file is always with somebody who is not waiting for this one.
    pub head: OnceLock<Result<Known, String>>,
    pub tally: Mutex<FileTally>,
}

/// A file whose format is known.
#[derive(Clone)]
pub(super) struct Known {
    pub part: Part,
    pub usage: Arc<UsageMap>,
}

/// Sums over a file, or over the blocks of it that one worker did since it last handed them in.
#[derive(Default)]
pub(super) struct FileTally {
    pub counts: Counts,
    pub algorithms: AlgorithmTally,
    /// Pages that could not be decided, by reason.
    pub undecided: BTreeMap<&'static str, (u64, Why)>,
    /// Page 0 was there and all zero: the space header is lost.
    pub first_page_zero: bool,
    /// The file could not be opened or read to its end: the first failure's words.
    pub failure: Option<String>,
}

impl FileTally {
    fn merge(&mut self, other: &mut Self) {
        self.counts.add(&other.counts);
        self.algorithms.merge(&other.algorithms);
        for (reason, (pages, why)) in &other.undecided {
            self.undecided.entry(reason).or_insert((0, *why)).0 += pages;
        }
        self.first_page_zero |= other.first_page_zero;
        if self.failure.is_none() {
            self.failure = other.failure.take();
        }
        *other = Self::default();
    }
}

impl FileState {
    pub fn new(candidate: Candidate, leader: Option<u32>) -> Self {
        Self { candidate, leader, head: OnceLock::new(), tally: Mutex::default() }
    }

    pub fn with_tally<T>(&self, act: impl FnOnce(&mut FileTally) -> T) -> T {
        act(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Every algorithm, at the index of its discriminant.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Crc32,
    Algorithm::Crc32BigEndian,
    Algorithm::Innodb,
    Algorithm::None,
    Algorithm::FullCrc32,
    Algorithm::Mixed,
];

/// Pages at fixed places in the system tablespace.
const SYSTEM_PAGES: u32 = 8;

/// One worker's scratch space and results.
pub(super) struct Desk<'r> {
    files: &'r [FileState],
    page_size: Option<u32>,
    tally: FileTally,
    seen: Seen,
    algorithms: [u64; ALGORITHMS.len()],
    pub findings: Findings,
}

impl<'r> Desk<'r> {
    pub fn new(files: &'r [FileState], page_size: Option<u32>, findings_max: usize) -> Self {
        Self {
            files,
            page_size,
            tally: FileTally::default(),
            seen: Seen::default(),
            algorithms: [0; ALGORITHMS.len()],
            findings: Findings::new(findings_max),
        }
    }

    /// Judges one piece of a file.
    pub fn piece(&mut self, piece: &Piece<'_>) {
        let Some(file) = self.files.get(piece.file.0 as usize) else {
            return;
        };
        if piece.offset == 0 {
            let known = self.recognise(file, piece.bytes);
            // Only the holder of the first piece sets it, and there is one first piece.
            file.head.get_or_init(|| known);
        }
        self.tally.counts.bytes += piece.bytes.len() as u64;
        if piece.bytes.len() < piece.asked as usize {
            let end = piece.offset + piece.bytes.len() as u64;
            self.tally
                .failure
                .get_or_insert_with(|| format!("the file became shorter while it was read: it ends at byte {end}"));
        }
        if let Ok(known) = file.head.wait() {
            self.pages(known, piece);
        }
        if piece.last {
            self.hand_in(file);
        }
    }

    /// A block that never came: the file could not be opened.
    pub fn failure(&mut self, failure: &FileFailure) {
        let Some(file) = self.files.get(failure.file.0 as usize) else {
            return;
        };
        let words = match failure.error.kind() {
            std::io::ErrorKind::NotFound => "the file vanished while the check ran".to_owned(),
            _ => format!("cannot be read: {}", plain(&failure.error)),
        };
        if failure.block.offset == 0 {
            file.head.get_or_init(|| Err(words.clone()));
        }
        self.tally.failure = Some(words);
        self.hand_in(file);
    }

    /// Standard input failed; what came before has been judged.
    pub fn stream_failure(&mut self, error: &std::io::Error) {
        if let Some(file) = self.files.first() {
            self.tally.failure = Some(format!("cannot be read to its end: {}", plain(error)));
            self.hand_in(file);
        }
    }

    fn hand_in(&mut self, file: &FileState) {
        for (count, algorithm) in self.algorithms.iter_mut().zip(ALGORITHMS) {
            if *count > 0 {
                self.tally.counts.ok += *count;
                self.tally.algorithms.add(algorithm.name(), *count);
                *count = 0;
            }
        }
        file.with_tally(|sums| sums.merge(&mut self.tally));
    }

    /// Decides the format of a file from its first piece, and joins later `ibdata` files to the space of the first.
    fn recognise(&self, file: &FileState, head: &[u8]) -> Result<Known, String> {
        let leader = file.leader.and_then(|leader| self.files.get(leader as usize));
        let leader = leader.and_then(|leader| leader.head.wait().as_ref().ok());
        let continued = leader.map(|known| (&known.part, self.pages_before(file, &known.part)));
        let short = head.get(..space::HEAD).unwrap_or(head);
        let part = match space::by_page0(short, self.page_size) {
            Some(part) => part,
            // Rare enough for a second look at the file, which does not depend on how it is being read.
            None => {
                let long = long_head(&file.candidate.path);
                let head = if long.len() > short.len() { &long } else { head };
                space::by_pages(head, self.page_size, continued).map_err(|error| error.to_string())?
            }
        };
        let usage = match leader {
            Some(known) if part.first_page > 0 => Arc::clone(&known.usage),
            _ => Arc::new(UsageMap::new(part.format, part.header)),
        };
        Ok(Known { part, usage })
    }

    /// Pages of the system tablespace in the files before this one.
    fn pages_before(&self, file: &FileState, leader: &Part) -> u32 {
        let first = file.leader.unwrap_or(0) as usize;
        let part_of = |other: &&FileState| other.leader == file.leader && !std::ptr::eq(*other, file);
        let earlier = self.files.iter().skip(first + 1).take_while(part_of).chain(self.files.get(first));
        let pages: u64 = earlier.map(|other| leader.pages_in(other.candidate.len)).sum();
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    /// The hot loop: one verdict for each page.
    fn pages(&mut self, known: &Known, piece: &Piece<'_>) {
        let format = &known.part.format;
        let size = format.physical().bytes();
        let region_pages = format.physical().get();
        let first = known.part.page_at(piece.offset);
        let free_limit = known.usage.free_limit();
        self.seen.restart(first);
        for (page, number) in piece.bytes.chunks_exact(size).zip(first..) {
            self.seen.pages += 1;
            if !piece.gaps.is_empty() && self.in_gap(piece, number - first, size, number) {
                continue;
            }
            let id = PageId { space: format.space(), page_no: PageNo(number) };
            match verify_page(page, id, format) {
                Verdict::Ok(algorithm) => {
                    if let Some(count) = self.algorithms.get_mut(algorithm as usize) {
                        *count += 1;
                    }
                    if number % region_pages == 0 {
                        self.descriptors(page, number, known);
                    }
                    if number < SYSTEM_PAGES && format.space() == SpaceId::SYSTEM {
                        known.usage.note_system_page(number, page);
                    }
                }
                Verdict::Empty => {
                    self.tally.counts.empty += 1;
                    self.tally.first_page_zero |= number == 0;
                    if number < free_limit {
                        self.seen.zero.push(number);
                    }
                    continue;
                }
                Verdict::Corrupt(corruption) => self.corrupt(piece.file.0, number, page, known, &corruption),
                Verdict::Unverifiable(why) => {
                    self.tally.counts.unverifiable += 1;
                    self.tally.undecided.entry(why.name()).or_insert((0, why)).0 += 1;
                }
            }
            self.seen.last_with_data = Some(number);
        }
        self.tally.counts.pages += u64::from(self.seen.pages);
        known.usage.record(&mut self.seen);
    }

    fn descriptors(&mut self, page: &[u8], number: u32, known: &Known) {
        if let Ok(map) = ExtentMap::parse(page, PageNo(number), &known.part.format) {
            self.seen.maps.push((number, map));
        }
    }

    #[cold]
    fn corrupt(&mut self, file: u32, number: u32, page: &[u8], known: &Known, corruption: &Corruption) {
        self.tally.counts.corrupt += 1;
        self.seen.corrupt.push(number);
        let path = self.files.get(file as usize).map(|file| &file.candidate.path);
        self.findings.offer(file, Some(number), corruption.reason(), Severity::Damage, || {
            words::corrupt_page(path, number, page, known, corruption)
        });
    }

    /// Whether the device refused some byte of the page; then the page is lost, and only this page.
    #[cold]
    fn in_gap(&mut self, piece: &Piece<'_>, index: u32, size: usize, number: u32) -> bool {
        let start = piece.offset + u64::from(index) * size as u64;
        let end = start + size as u64;
        let Some(gap) = piece.gaps.iter().find(|gap| gap.offset < end && gap.offset + u64::from(gap.len) > start)
        else {
            return false;
        };
        self.tally.counts.corrupt += 1;
        self.seen.last_with_data = Some(number);
        let path = self.files.get(piece.file.0 as usize).map(|file| &file.candidate.path);
        self.findings.offer(piece.file.0, Some(number), "unreadable_page", Severity::Damage, || {
            words::unreadable_page(path, number, gap.offset, &plain(&gap.error))
        });
        true
    }
}

/// The first bytes of a file, as many as there are up to `LONG_HEAD`; nothing of what cannot be read twice.
fn long_head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    if is_file && let Ok(file) = File::open(path) {
        // An error here shows as a short head, and again, named, when the file itself is read.
        drop(file.take(space::LONG_HEAD as u64).read_to_end(&mut head));
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_counted_under_its_own_name() {
        for (index, algorithm) in ALGORITHMS.into_iter().enumerate() {
            assert_eq!(algorithm as usize, index, "{algorithm}");
        }
    }
}
