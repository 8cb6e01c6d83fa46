//! The verdict on one page, using everything the run knows: the format, the keys and, for files that a server has open, time.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use format::{PageId, PageNo, Verdict, Why, verify_page};

use super::fate::{self, FileKey};
use super::file_state::Known;
use datadir::files::File;
use datadir::keys::SpaceKey;
use datadir::page::PageOpener;
use datadir::space::{self, SpacePart};

/// Judges pages; owns the buffers for opening them.
pub(super) struct Judge {
    opener: PageOpener,
    /// Set when a server may be writing the files.
    live: bool,
    /// Pages confirmed as damaged after rereading.
    confirmed: u32,
}

/// The result of rereading a bad page of a live file.
pub(super) enum Again {
    /// Sound, or at least not wrong: it was being written.
    Fine(Verdict),
    /// The same wrong bytes every time.
    Damaged,
    /// Different and bad at every read: the server keeps writing it.
    Changing,
    /// The file is gone, was replaced, or was shortened by its server.
    Gone,
}

/// A bad page must stay identical for this many reads and this long before it is called damaged.
const SAME_READS: u32 = 10;
const SAME_FOR: Duration = Duration::from_millis(1000);
/// Give up after this long on a page that keeps changing.
const CHANGING_FOR: Duration = Duration::from_secs(10);
/// Pause between two reads.
const PAUSE: Duration = Duration::from_millis(100);
/// After this many confirmed pages, reread further ones just once, without waiting.
const CONFIRMED_MAX: u32 = 64;
/// Bad pages that a worker reads once more.
const READ_TWICE_MAX: u32 = 1000;

impl Judge {
    pub fn new(live: bool) -> Self {
        Self { opener: PageOpener::new(), live, confirmed: 0 }
    }

    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The verdict on `page`, stored at `id`.
    #[inline]
    pub fn verdict(&mut self, page: &[u8], id: PageId, known: &Known) -> Verdict {
        self.open(page, id, known, verify_page(page, id, &known.part.format))
    }

    /// Completes the verdict on `page`, given `outside`, the verdict on its stored bytes.
    #[inline]
    pub fn open(&mut self, page: &[u8], id: PageId, known: &Known, outside: Verdict) -> Verdict {
        let verdict = outside;
        let opaque = Verdict::Unverifiable(Why::EncryptedNoKey);
        match verdict {
            Verdict::Ok(_) if !known.has_inside => verdict,
            Verdict::Ok(_) | Verdict::Unverifiable(Why::PageCompressed) => self.inside(page, id, known, verdict),
            _ if verdict == opaque => self.inside(page, id, known, verdict),
            _ => verdict,
        }
    }

    fn inside(&mut self, page: &[u8], id: PageId, known: &Known, outside: Verdict) -> Verdict {
        let at = known.part.at(id.page_no);
        match self.opener.verdict_inside(page, at, outside) {
            Verdict::Unverifiable(Why::WrongKey) if known.part.is_key_proven => {
                let damage = self.opener.damage_inside(page, at);
                damage.map_or(Verdict::Unverifiable(Why::WrongKey), Verdict::Corrupt)
            }
            verdict => verdict,
        }
    }

    /// The page as its server would see it, decrypted and inflated, if possible.
    pub fn image<'a>(&'a mut self, page: &'a [u8], id: PageId, known: &Known) -> Option<&'a [u8]> {
        self.opener.open(page, known.part.at(id.page_no)).ok().map(|opened| opened.page)
    }

    /// Reads a page that looks wrong once more, with a plain `pread`: an engine, or the file system below it, may have handed over other
    /// bytes than the file has. `None` if it has these. Asked for the first bad pages of a worker only: a wholly broken file is not read
    /// twice.
    pub fn unlike(
        &mut self,
        path: &Path,
        first_bytes: &[u8],
        id: PageId,
        known: &Known,
    ) -> Option<io::Result<Verdict>> {
        self.confirmed += 1;
        if self.confirmed > READ_TWICE_MAX || !path.is_file() {
            return None;
        }
        let mut page = vec![0; first_bytes.len()];
        match read_page(path, known.part.offset_of(id.page_no.0), &mut page) {
            Ok(()) if page == first_bytes => None,
            Ok(()) => Some(Ok(self.verdict(&page, id, known))),
            // Cut short: the block that found it says so.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Rereads page `number` of a live file until it is sound or has been bad for long enough. Takes no locks, so the server does not
    /// notice.
    pub fn again(
        &mut self,
        path: &Path,
        key: Option<FileKey>,
        first_bytes: &[u8],
        number: PageNo,
        known: &Known,
    ) -> Again {
        let id = PageId { space: known.part.format.space(), page_no: number };
        // The first page of a later system tablespace file is not page 0: ignore its header fields.
        let space = (known.part.first_page == 0).then(|| known.part.format.space());
        let offset = known.part.offset_of(number.0);
        let (mut last, mut page) = (first_bytes.to_vec(), vec![0; first_bytes.len()]);
        let (start, mut same_since, mut same) = (Instant::now(), Instant::now(), 0);
        loop {
            if let Err(error) = read_page(path, offset, &mut page) {
                // A page that the device cannot read, or that someone else cut off, remains bad.
                let is_gone = fate::is_gone(path, key, space)
                    || (error.kind() == io::ErrorKind::UnexpectedEof && fate::is_shrunk(path));
                return if is_gone { Again::Gone } else { Again::Damaged };
            }
            match self.verdict(&page, id, known) {
                Verdict::Corrupt(_) => {}
                verdict => return Again::Fine(verdict),
            }
            if fate::is_gone(path, key, space) {
                return Again::Gone;
            }
            if is_converted(path, known) {
                return Again::Changing;
            }
            if page == last {
                same += 1;
            } else {
                (same, same_since) = (0, Instant::now());
            }
            let patient = self.confirmed < CONFIRMED_MAX;
            if !patient || (same >= SAME_READS && same_since.elapsed() >= SAME_FOR) {
                self.confirmed += 1;
                return Again::Damaged;
            }
            if start.elapsed() >= CHANGING_FOR {
                return Again::Changing;
            }
            std::mem::swap(&mut last, &mut page);
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether the key opens any of the file's first pages, given in `head`. If it does, a page that it fails to open is damaged.
pub(super) fn is_key_proven(part: &SpacePart, head: &[u8]) -> bool {
    if !matches!(part.key, SpaceKey::MariaDb(_)) {
        return false;
    }
    let mut opener = PageOpener::new();
    let pages = head.chunks_exact(part.format.physical().bytes()).zip(0..);
    pages.skip(1).take(PROOF_PAGES - 1).any(|(page, number)| {
        let at = part.at(PageNo(number));
        at.steps(page).decrypt
            && !part.format.is_doublewrite_slot(at.id)
            && matches!(opener.verdict(page, at), Verdict::Ok(_))
    })
}

/// Pages tried to see whether a key fits. Page 0 is never encrypted; the next pages are the first that a server writes.
pub(super) const PROOF_PAGES: usize = 16;

fn read_page(path: &Path, offset: u64, page: &mut [u8]) -> io::Result<()> {
    File::open(path)?.read_exact_at(page, offset)
}

/// Whether the server has changed the tablespace's format, as when it encrypts one in place.
fn is_converted(path: &Path, known: &Known) -> bool {
    known.part.first_page == 0
        && space::part_now(path).is_some_and(|now| now.format.flags() != known.part.format.flags())
}
