//! One worker: pieces of files come in, pages are judged while their bytes are still in this core's cache, and only sums go out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flow::{FileFailure, FileId, Piece};
use format::keyring::KeyStore;
use format::page::view;
use format::{
    Algorithm, Corruption, ExtentMap, HeaderFault, Lsn, PageId, PageNo, PageRun, PageType, SpaceId, Verdict, fil,
};

use super::fate::{self};
use super::file_state::{FileState, FileTally, Known, Undecided};
use super::findings::Findings;
use super::judge::{self, Again, Judge, PROOF_PAGES};
use super::options::CheckOptions;
use super::usage::{Seen, UsageMap};
use super::words;
use datadir::catalog::index_of;
use datadir::content::Content;
use datadir::files::{self, File};
use datadir::finding_code::FindingCode;
use datadir::inventory::plain;
use datadir::keys::SpaceKey;
use datadir::name::NameHint;
use datadir::reading::head_of;
use datadir::severity::Severity;
use datadir::space::{self, SpacePart};

/// How often, and at what interval, to retry page 0 of a live file.
const PAGE0_TRIES: u32 = 10;
const PAGE0_PAUSE: Duration = Duration::from_millis(100);

/// Pages at fixed places in the system tablespace.
const SYSTEM_PAGES: u32 = 8;

/// Follows a page of extent descriptors: the change buffer bitmap, then the first inode page.
const LAST_FIXED_PAGE: u32 = 2;

/// One worker's scratch space and results.
pub(super) struct CheckWorker<'r> {
    files: &'r [FileState],
    page_size: Option<u32>,
    keys: &'r KeyStore,
    judge: Judge,
    tally: FileTally,
    /// For the file of the current piece: see [`FileState::roots`].
    roots: &'r [u32],
    seen: Seen,
    algorithms: [u64; Algorithm::ALL.len()],
    /// Pages older than this are not verified.
    since: Lsn,
    pub findings: Findings,
}

impl<'r> CheckWorker<'r> {
    pub fn new(files: &'r [FileState], keys: &'r KeyStore, options: &CheckOptions) -> Self {
        Self {
            files,
            page_size: options.page_size,
            keys,
            judge: Judge::new(options.live),
            tally: FileTally::default(),
            roots: &[],
            seen: Seen::default(),
            algorithms: [0; Algorithm::ALL.len()],
            since: options.since_lsn.unwrap_or(Lsn(0)),
            findings: Findings::new(options.findings_max).told_to(&options.watcher),
        }
    }

    /// Decides the formats of files whose first piece is not part of the run, leaders before the files that continue them. Covers files
    /// that are read in part and, if `all`, those not read at all.
    pub fn foresee(&self, all: bool) {
        for file in self.files.iter().filter(|file| file.candidate.content == Content::Pages && !file.share.first) {
            if file.share.any || all {
                let head = first_bytes(&file.candidate.path, space::HEAD);
                file.head.get_or_init(|| self.recognise(file, &head));
            }
        }
    }

    /// Judges one piece of a file.
    pub fn piece(&mut self, piece: &Piece<'_>) {
        let Some(file) = self.files.get(piece.file.0 as usize) else {
            return;
        };
        if piece.offset == 0 {
            let known = self.recognise(file, piece.bytes);
            // Exactly one worker gets the first piece, so this cannot fail.
            file.head.get_or_init(|| known);
        }
        self.tally.counts.bytes += piece.bytes.len() as u64;
        if piece.bytes.len() < piece.asked as usize {
            let end = piece.offset + piece.bytes.len() as u64;
            self.tally.became_shorter = true;
            self.tally.gone |= self.judge.is_live() && fate::is_shrunk(&file.candidate.path);
            self.tally
                .failure
                .get_or_insert_with(|| format!("the file became shorter while it was read: it ends at byte {end}"));
        }
        if let Ok(known) = file.head.wait() {
            self.roots = &file.roots;
            self.pages(known, piece);
        }
        if piece.last {
            self.hand_in(file);
        }
    }

    /// Notes a block that will not come: the file could not be opened.
    pub fn failure(&mut self, failure: &FileFailure) {
        let Some(file) = self.files.get(failure.file.0 as usize) else {
            return;
        };
        let words = match failure.error.kind() {
            std::io::ErrorKind::NotFound => {
                self.tally.gone = true;
                "the file vanished while the check ran".to_owned()
            }
            _ => format!("cannot be read: {}", plain(&failure.error)),
        };
        if failure.block.offset == 0 {
            file.head.get_or_init(|| Err(words.clone()));
        }
        self.tally.failure = Some(words);
        self.hand_in(file);
    }

    fn hand_in(&mut self, file: &FileState) {
        for (count, algorithm) in self.algorithms.iter_mut().zip(Algorithm::ALL) {
            if *count > 0 {
                self.tally.counts.ok += *count;
                self.tally.algorithms.add(algorithm.name(), *count);
                *count = 0;
            }
        }
        file.with_tally(|sums| sums.merge(&mut self.tally));
    }

    /// Decides a file's format from its first piece, and joins later `ibdata` files to the first.
    fn recognise(&self, file: &FileState, head: &[u8]) -> Result<Known, String> {
        let leader = file.leader.and_then(|leader| self.files.get(leader as usize));
        let leader = leader.and_then(|leader| leader.head.wait().as_ref().ok());
        let continued = leader.map(|known| (&known.part, self.pages_before(file, &known.part)));
        let short = head.get(..space::HEAD).unwrap_or(head);
        let path = &file.candidate.path;
        let mut part = match space::by_page0(short, self.page_size).or_else(|| self.page0_later(file, short)) {
            Some(part) => part,
            // Rare enough to read the file a second time, independent of the block size.
            None => {
                let long = first_bytes(path, space::LONG_HEAD);
                let head = if long.len() > short.len() { &long } else { head };
                space::by_pages(head, self.page_size, continued).map_err(|error| error.to_string())?
            }
        };
        if part.format.physical().bytes() * 4 > space::HEAD {
            let long = first_bytes(path, 4 * part.format.physical().bytes());
            part = space::by_page0(&long, self.page_size).unwrap_or(part);
        }
        if file.candidate.hint == NameHint::Temporary {
            part.fault = None;
        }
        let mut key_error = None;
        if part.first_page == 0 {
            match SpaceKey::find(short, path, &part.format, self.keys) {
                Ok(key) => part.key = key,
                Err(error) => key_error = Some(error.to_string().into()),
            }
        }
        let overlaps = continued.and_then(|(_, next)| (0 < part.first_page && part.first_page < next).then_some(next));
        let usage = match leader {
            Some(known) if part.first_page > 0 && overlaps.is_none() => Arc::clone(&known.usage),
            _ => Arc::new(self.usage_of(file, &part)),
        };
        let proof = match part.key {
            SpaceKey::MariaDb(_) => first_bytes(path, PROOF_PAGES * part.format.physical().bytes()),
            _ => Vec::new(),
        };
        // A stream cannot be read twice; its first piece must do.
        part.is_key_proven = judge::is_key_proven(&part, if proof.is_empty() { head } else { &proof });
        Ok(Known { has_inside: part.has_inside(), part, usage, key_error, overlaps })
    }

    /// Of a file that no other continues, the end is known.
    fn usage_of(&self, file: &FileState, part: &SpacePart) -> UsageMap {
        let usage = UsageMap::new(part.format, part.header);
        let is_alone = !matches!(file.candidate.hint, NameHint::System(_)) && part.first_page == 0;
        if is_alone {
            usage.ending_after(part.pages_in(file.candidate.len).try_into().unwrap_or(u32::MAX))
        } else {
            usage
        }
    }

    /// Retries page 0 of a file that a server is writing. Does not wait if it was never written: that may take minutes.
    fn page0_later(&self, file: &FileState, head: &[u8]) -> Option<SpacePart> {
        let is_written = head.iter().any(|byte| *byte != 0);
        if !is_written || !self.judge.is_live() || file.leader.is_some() {
            return None;
        }
        (0..PAGE0_TRIES).find_map(|_| {
            std::thread::sleep(PAGE0_PAUSE);
            space::part_now(&file.candidate.path)
        })
    }

    /// System tablespace pages in the files before this one.
    fn pages_before(&self, file: &FileState, leader: &SpacePart) -> u32 {
        let first = file.leader.unwrap_or(0) as usize;
        let part_of = |other: &&FileState| other.leader == file.leader && !std::ptr::eq(*other, file);
        let earlier = self.files.iter().skip(first + 1).take_while(part_of).chain(self.files.get(first));
        let pages: u64 = earlier.map(|other| leader.pages_in(other.candidate.len)).sum();
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    /// The hot loop: one verdict per page.
    fn pages(&mut self, known: &Known, piece: &Piece<'_>) {
        let size = known.part.format.physical().bytes();
        let first = known.part.page_at(piece.offset);
        let space = known.part.format.space();
        let live = self.judge.is_live();
        self.seen.restart(first);
        let run = PageRun::new(piece.bytes, &known.part.format);
        for ((index, page), number) in run.pages().enumerate().zip(first..) {
            self.seen.pages += 1;
            if !piece.gaps.is_empty() && self.in_gap(piece, number - first, size, number) {
                continue;
            }
            if self.is_old(page, number, known) {
                continue;
            }
            let id = PageId { space, page_no: PageNo(number) };
            match self.judge.open(page, id, known, run.verify(index, id)) {
                Verdict::Corrupt(corruption) if live => self.wrong_for_now(piece.file, page, id, known, &corruption),
                Verdict::Corrupt(corruption) => self.wrong(piece.file, page, id, known, &corruption),
                verdict => self.count(verdict, piece.file, page, id, known),
            }
        }
        self.tally.counts.pages += u64::from(self.seen.pages);
        known.usage.record(&mut self.seen);
    }

    /// Whether the page was last changed before `--since-lsn`. Pages that other pages depend on are verified anyway, as are pages without
    /// an LSN: never written, or lost.
    #[inline]
    fn is_old(&mut self, page: &[u8], number: u32, known: &Known) -> bool {
        if self.since == Lsn(0) {
            return false;
        }
        let place = number & (known.part.format.physical().get() - 1);
        let is_system = number < SYSTEM_PAGES && known.part.format.space() == SpaceId::SYSTEM;
        let is_fixed = place <= LAST_FIXED_PAGE || is_system;
        let is_old = !is_fixed && fil::lsn(page).is_some_and(|lsn| Lsn(0) < lsn && lsn < self.since);
        if is_old {
            self.tally.counts.older += 1;
            self.seen.last_with_data = Some(number);
        }
        is_old
    }

    #[inline]
    fn count(&mut self, verdict: Verdict, file: FileId, page: &[u8], id: PageId, known: &Known) {
        let number = id.page_no.0;
        match verdict {
            Verdict::Ok(algorithm) => {
                // The page size is a power of two: this is the remainder.
                let place = number & (known.part.format.physical().get() - 1);
                if place <= LAST_FIXED_PAGE
                    && let Some(corruption) = self.fixed_page(place, file, page, id, known)
                {
                    return self.corrupt(file.0, number, page, known, &corruption);
                }
                if let Some(count) = self.algorithms.get_mut(algorithm as usize) {
                    *count += 1;
                }
                if self.roots.binary_search(&number).is_ok() {
                    self.root(page, id, known);
                }
                if number < SYSTEM_PAGES && id.space == SpaceId::SYSTEM {
                    known.usage.note_system_page(number, page);
                }
            }
            Verdict::Empty => {
                self.tally.counts.empty += 1;
                self.tally.first_page_zero |= number == 0;
                if number < known.usage.free_limit() {
                    self.seen.zero.push(number);
                }
                return;
            }
            // A corrupt page does not prove that the space was ever this long.
            Verdict::Corrupt(corruption) => return self.corrupt(file.0, number, page, known, &corruption),
            Verdict::Unverifiable(why) => self.undecided(why.name(), || Undecided::of(why)),
        }
        self.seen.last_with_data = Some(number);
        if let Some(lsn) = fil::lsn(page).filter(|lsn| *lsn > self.tally.newest)
            && !known.part.format.is_doublewrite_slot(id)
        {
            self.tally.newest = lsn;
        }
    }

    /// Pages whose position says what they hold: extent descriptors, the change buffer bitmap, the first inode page.
    fn fixed_page(&mut self, place: u32, file: FileId, page: &[u8], id: PageId, known: &Known) -> Option<Corruption> {
        let format = &known.part.format;
        let expected = match (place, id.page_no.0) {
            (0, 0) => PageType::FSP_HDR,
            (0, _) => PageType::XDES,
            (1, _) => PageType::IBUF_BITMAP,
            (2, 2) => PageType::INODE,
            _ => return None,
        };
        let stored = view::page_type(page, format)?;
        // Servers up to 5.0 wrote these pages without a type.
        if stored != expected && stored != PageType::ALLOCATED && view::is_readable(page, format) {
            self.odd_type(file, id, known, stored, expected);
        }
        // If another page overwrote page 0 there are no descriptors, and the header fault says so already.
        let is_other = matches!(known.part.fault, Some(HeaderFault::SpaceIds { .. })) && stored != expected;
        if place > 0 || is_other && id.page_no.0 == 0 {
            return None;
        }
        // Read the descriptors from the page as its server sees it: decrypted and inflated.
        let map = match self.judge.image(page, id, known) {
            Some(image) => ExtentMap::parse_any_type(image, id.page_no, format),
            None => return None,
        };
        match map {
            Ok(map) => {
                self.seen.maps.push((id.page_no.0, map));
                None
            }
            Err(corruption) => Some(corruption),
        }
    }

    /// Servers ignore the type of these pages and correct it at the next write.
    #[cold]
    fn odd_type(&mut self, file: FileId, id: PageId, known: &Known, stored: PageType, expected: PageType) {
        let path = self.files.get(file.0 as usize).map(|file| &file.candidate.path);
        let (page, family) = (id.page_no.0, known.part.format.family());
        self.findings.offer(file.0, Some(page), "page_type", Severity::Notice, || {
            words::odd_type(path, page, family, stored, expected)
        });
    }

    /// Notes which index has its root here, for the comparison with the dictionary.
    #[cold]
    fn root(&mut self, page: &[u8], id: PageId, known: &Known) {
        if let Some(image) = self.judge.image(page, id, known) {
            self.tally.roots.push((id.page_no.0, index_of(image, &known.part.format)));
        }
    }

    #[cold]
    fn undecided(&mut self, reason: impl Into<FindingCode>, make: impl FnOnce() -> Undecided) {
        self.tally.counts.unverifiable += 1;
        self.tally.undecided.entry(reason.into()).or_insert_with(make).pages += 1;
    }

    /// A bad page is read once more before it is called damaged.
    #[cold]
    fn wrong(&mut self, file: FileId, page: &[u8], id: PageId, known: &Known, corruption: &Corruption) {
        let state = self.files.get(file.0 as usize);
        let unlike = state.and_then(|state| self.judge.unlike(&state.candidate.path, page, id, known));
        match unlike {
            None => self.count(Verdict::Corrupt(*corruption), file, page, id, known),
            // Its bytes are not at hand here, so take only the count.
            Some(Ok(Verdict::Ok(algorithm))) => {
                self.tally.counts.ok += 1;
                self.tally.algorithms.add(algorithm.name(), 1);
                self.seen.last_with_data = Some(id.page_no.0);
            }
            Some(Ok(verdict)) => self.count(verdict, file, page, id, known),
            Some(Err(error)) => {
                self.tally.counts.unverifiable += 1;
                self.seen.last_with_data = Some(id.page_no.0);
                let (number, path) = (id.page_no.0, state.map(|state| &state.candidate.path));
                let offset = known.part.offset_of(number);
                self.findings.offer(file.0, Some(number), "unreadable_page", Severity::Undecided, || {
                    words::unreadable_page(path, number, offset, &plain(&error))
                });
            }
        }
    }

    /// A bad page of a file that a server has open may be in flight: time will tell.
    #[cold]
    fn wrong_for_now(&mut self, file: FileId, page: &[u8], id: PageId, known: &Known, corruption: &Corruption) {
        let Some(state) = self.files.get(file.0 as usize) else { return };
        let notice = |why: &str| Undecided { pages: 0, severity: Severity::Notice, why: why.to_owned() };
        match self.judge.again(&state.candidate.path, state.key, page, id.page_no, known) {
            Again::Damaged => self.count(Verdict::Corrupt(*corruption), file, page, id, known),
            // `page` holds the older bytes, so take only the count.
            Again::Fine(Verdict::Ok(algorithm)) => {
                self.tally.counts.ok += 1;
                self.tally.algorithms.add(algorithm.name(), 1);
                self.seen.last_with_data = Some(id.page_no.0);
            }
            Again::Fine(verdict) => self.count(verdict, file, page, id, known),
            Again::Changing => self.undecided("being_written", || notice("the server changed them at every read")),
            Again::Gone => {
                self.tally.gone = true;
                self.undecided("replaced", || notice("the server replaced or removed them meanwhile"));
            }
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

    /// Whether the device could not read some byte of the page: nothing is known about that page, and only that one.
    #[cold]
    fn in_gap(&mut self, piece: &Piece<'_>, index: u32, size: usize, number: u32) -> bool {
        let start = piece.offset + u64::from(index) * size as u64;
        let end = start + size as u64;
        let Some(gap) = piece.gaps.iter().find(|gap| gap.offset < end && gap.offset + u64::from(gap.len) > start)
        else {
            return false;
        };
        self.tally.counts.unverifiable += 1;
        self.seen.last_with_data = Some(number);
        let path = self.files.get(piece.file.0 as usize).map(|file| &file.candidate.path);
        self.findings.offer(piece.file.0, Some(number), "unreadable_page", Severity::Undecided, || {
            words::unreadable_page(path, number, gap.offset, &plain(&gap.error))
        });
        true
    }
}

/// The first bytes of a file, up to `len`; empty for a stream, which cannot be read twice.
fn first_bytes(path: &Path, len: usize) -> Vec<u8> {
    let is_file = files::metadata(path).is_ok_and(|meta| meta.is_file());
    // An error here shows as a short head, and is reported when the file itself is read.
    let head = is_file.then(|| File::open(path).and_then(|file| head_of(&file, len)));
    head.and_then(Result::ok).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_counted_under_its_own_name() {
        for (index, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            assert_eq!(algorithm as usize, index, "{algorithm}");
        }
    }
}
