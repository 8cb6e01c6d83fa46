//! Reads a tablespace's file stretch by stretch and verifies every page: while copying it from a running server, or in a set.
//!
//! Sketch: a device of 2 GB/s delivers 2 GB of cold tables in one second with 8 MiB in flight, and in two with one request at a time.
//! Verifying and writing them takes a core 0.8 s. That is less, so a single thread does it while the device reads on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use flow::did_bytes;
use format::bytes::be;
use format::keyring::KeyStore;
use format::{PageNo, SpaceId, Verdict, Why};

use super::changes::{Changes, Notes};
use super::delta_file::DeltaReader;
use super::error::{Result, failed};
use super::holes::Holes;
use super::pace::Pace;
use crate::door;
use datadir::ahead::each_piece;
use datadir::crc32c::Crc32c;
use datadir::keys::SpaceKey;
use datadir::page::PageOpener;
use datadir::reading::{read_into, read_up_to};
use datadir::space::{HEAD, SpacePart, by_page0};

/// Files up to this size are read in one request, without read-ahead: its buffers would cost more than they gain.
const AT_ONCE: u64 = 1 << 20;
/// Attempts to reread a torn page, and the pause between them: the server's write takes less.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(3);
/// Offsets in page 0 of the space id and the flags, in bytes.
const SPACE_ID_AT: usize = 34;
const SPACE_FLAGS_AT: usize = 54;

/// What reading a file found.
#[derive(Debug, Default)]
pub(super) struct PagesRead {
    pub pages: u64,
    /// Pages that failed verification at first.
    pub read_again: u64,
    /// Numbers of the pages that kept failing.
    pub bad: Vec<u32>,
    /// Whether some pages cannot be verified without a key.
    pub is_encrypted: bool,
    pub size: u64,
    /// CRC-32C of all bytes, or of the copy.
    pub crc: u32,
}

/// Reads tablespaces; owns the buffers.
#[derive(Debug)]
pub(super) struct PageReader<'k> {
    keys: &'k KeyStore,
    opener: PageOpener,
    buffer: Vec<u8>,
}

/// Takes the bytes of a file at an offset.
type TakePiece<'t, 'k> = dyn FnMut(&mut PageReader<'k>, u64, &[u8]) -> Result<()> + 't;

/// The space id in a file's first page; 0 if that is not written yet.
pub(super) fn space_id(file: &File) -> io::Result<SpaceId> {
    let head = read_up_to(file, 0, SPACE_ID_AT + 4)?;
    Ok(SpaceId(be::u32_at(&head, SPACE_ID_AT).unwrap_or(0)))
}

/// The flags in a file's first page; 0 if that is not written yet.
pub(super) fn space_flags(file: &File) -> io::Result<u32> {
    let head = read_up_to(file, 0, SPACE_FLAGS_AT + 4)?;
    Ok(be::u32_at(&head, SPACE_FLAGS_AT).unwrap_or(0))
}

/// The format that a file's first page declares. `None` if that page is not sound, even when read again.
pub(super) fn part_of(file: &File, path: &Path, keys: &KeyStore) -> io::Result<Option<SpacePart>> {
    for _ in 0..TRIES {
        let head = read_up_to(file, 0, HEAD)?;
        if let Some(part) = part_in(&head, path, keys) {
            return Ok(Some(part));
        }
        if head.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
    Ok(None)
}

/// The format that these first bytes of the tablespace at `path` declare. `None` if they are not sound.
pub(super) fn part_in(head: &[u8], path: &Path, keys: &KeyStore) -> Option<SpacePart> {
    let mut part = by_page0(head, None)?;
    part.key = SpaceKey::find(head, path, &part.format, keys).unwrap_or_default();
    Some(part)
}

impl<'k> PageReader<'k> {
    pub fn new(keys: &'k KeyStore) -> Self {
        Self { keys, opener: PageOpener::new(), buffer: Vec::new() }
    }

    pub const fn keys(&self) -> &'k KeyStore {
        self.keys
    }

    /// Copies the whole pages of `from` to a new file with the same mode. A page that fails verification is read again; the copy gets what
    /// was read last.
    pub fn copy(
        &mut self,
        (from, path): (&File, &Path),
        part: &SpacePart,
        to: &Path,
        notes: &mut Notes,
        pace: &mut Pace<'_>,
    ) -> Result<PagesRead> {
        let target = door::open_own(to, true).map_err(failed(to, "making the copy"))?;
        let like = from.metadata().map_err(failed(path, "looking at the file"))?;
        target.set_permissions(like.permissions()).map_err(failed(to, "giving the copy its mode"))?;
        let (holes, mut sum) = (Holes::like(&like, part.format.physical().bytes()), Crc32c::new());
        let mut found = self.each_stretch((from, path), part, pace, &mut |offset, stretch| {
            notes.take(offset, stretch, part);
            sum.add(stretch);
            holes.write(&target, offset, stretch).map_err(failed(to, "writing the copy"))
        })?;
        target.set_len(found.size).map_err(failed(to, "writing the copy"))?;
        found.crc = sum.value();
        Ok(found)
    }

    /// Reads `from` and keeps only what an increment has to hold. A page that fails verification is read again; one that keeps failing does
    /// not tell whether it has changed.
    pub fn copy_changes(
        &mut self,
        source: (&File, &Path),
        changes: &mut Changes<'_>,
        notes: &mut Notes,
        pace: &mut Pace<'_>,
    ) -> Result<PagesRead> {
        let part = changes.part;
        self.each_stretch(source, part, pace, &mut |offset, stretch| {
            notes.take(offset, stretch, part);
            changes.take(offset, stretch)
        })
    }

    /// Passes the whole pages of `from` to `take`, with their offset in the file.
    pub fn each_stretch(
        &mut self,
        (from, path): (&File, &Path),
        part: &SpacePart,
        pace: &mut Pace<'_>,
        take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<PagesRead> {
        let (mut found, page) = (PagesRead::default(), part.format.physical().bytes());
        self.each_piece((from, path), &mut |reader, offset, bytes| {
            let stretch = bytes.get(..bytes.len() - bytes.len() % page).unwrap_or_default();
            let mended = reader.judge(stretch, offset, part, Some(from), &mut found);
            take(offset, mended.as_deref().unwrap_or(stretch))?;
            found.size += stretch.len() as u64;
            pace.copied(stretch.len() as u64)
        })?;
        Ok(found)
    }

    /// Passes the bytes of a file to `take` in order, up to its present length, in pieces of whole pages.
    fn each_piece(&mut self, (file, path): (&File, &Path), take: &mut TakePiece<'_, 'k>) -> Result<()> {
        let io = |error| failed(path, "reading the file")(error);
        let len = file.metadata().map_err(io)?.len();
        if len <= AT_ONCE {
            let mut bytes = std::mem::take(&mut self.buffer);
            bytes.resize(usize::try_from(len).unwrap_or(0), 0);
            let read = read_into(file, 0, &mut bytes).map_err(io)?;
            did_bytes(read);
            let taken = take(self, 0, bytes.get(..read).unwrap_or_default());
            self.buffer = bytes;
            return taken;
        }
        let take = &mut |offset, bytes: &[u8]| {
            did_bytes(bytes.len());
            take(self, offset, bytes)
        };
        each_piece((file, path), len, take, io)
    }

    /// Rereads the pages that failed verification, and writes those that are sound now into the copy. Returns the rest.
    pub fn mend(&mut self, from: &File, part: &SpacePart, bad: &[u32], to: &Path) -> Result<Vec<u32>> {
        let target = door::open_own(to, false).map_err(failed(to, "opening the copy"))?;
        let mut left = Vec::new();
        for number in bad {
            let offset = part.offset_of(*number);
            let page =
                read_up_to(from, offset, part.format.physical().bytes()).map_err(failed(to, "reading a page again"))?;
            let (page, is_bad) = self.again(page, *number, part, Some(from));
            if is_bad {
                left.push(*number);
            } else {
                target.write_all_at(&page, offset).map_err(failed(to, "writing the copy"))?;
            }
        }
        Ok(left)
    }

    /// Reads a file of a set: verifies its pages if it is a tablespace, and computes its checksum.
    pub fn read(&mut self, path: &Path, is_tablespace: bool) -> Result<PagesRead> {
        let file = door::open_file(path).map_err(failed(path, "opening the file"))?;
        let part = if is_tablespace {
            part_of(&file, path, self.keys).map_err(failed(path, "reading the file"))?
        } else {
            None
        };
        let mut found = PagesRead::default();
        if is_tablespace && part.is_none() {
            found.bad.push(0);
        }
        let mut sum = Crc32c::new();
        self.each_piece((&file, path), &mut |reader, offset, bytes| {
            sum.add(bytes);
            if let Some(part) = &part {
                reader.judge(bytes, offset, part, None, &mut found);
            }
            Ok(())
        })?;
        (found.size, found.crc) = (sum.len, sum.value());
        Ok(found)
    }

    /// Reads a file of changed pages. The first of them is the tablespace's page 0.
    pub fn read_delta(&mut self, path: &Path) -> Result<PagesRead> {
        let (mut delta, mut page, mut part) = (DeltaReader::open(path.to_path_buf())?, Vec::new(), None);
        let mut found = PagesRead::default();
        while let Some(number) = delta.next(&mut page)? {
            let first = part.is_none() && number == 0;
            if first {
                part = part_in(&page, path, self.keys);
            }
            match &part {
                Some(part) => drop(self.judge_page(&page, number, part, None, &mut found)),
                None => {
                    found.pages += 1;
                    found.bad.push(number);
                }
            }
        }
        (found.size, found.crc) = (delta.sum.len, delta.sum.value());
        Ok(found)
    }

    /// Verifies the whole pages of a stretch. With `live`, the file that a server is writing, rereads from it the pages that fail. Returns
    /// the stretch with the reread pages in place, if there are any.
    fn judge(
        &mut self,
        stretch: &[u8],
        offset: u64,
        part: &SpacePart,
        live: Option<&File>,
        found: &mut PagesRead,
    ) -> Option<Vec<u8>> {
        let (size, first, mut mended) = (part.format.physical().bytes(), part.page_at(offset), None);
        for ((page, number), at) in stretch.chunks_exact(size).zip(first..).zip((0..).step_by(size)) {
            if let Some(again) = self.judge_page(page, number, part, live, found) {
                let mended: &mut Vec<u8> = mended.get_or_insert_with(|| stretch.to_vec());
                mended.splice(at..at + size, again);
            }
        }
        mended
    }

    /// Verifies a page. Returns what was read last, if it was reread.
    pub fn judge_page(
        &mut self,
        page: &[u8],
        number: u32,
        part: &SpacePart,
        live: Option<&File>,
        found: &mut PagesRead,
    ) -> Option<Vec<u8>> {
        found.pages += 1;
        let verdict = self.opener.verdict(page, part.at(PageNo(number)));
        found.is_encrypted |= verdict == Verdict::Unverifiable(Why::EncryptedNoKey);
        if !matches!(verdict, Verdict::Corrupt(_)) {
            return None;
        }
        let Some(live) = live else {
            found.bad.push(number);
            return None;
        };
        found.read_again += 1;
        let (again, is_bad) = self.again(page.to_vec(), number, part, Some(live));
        if is_bad {
            found.bad.push(number);
        }
        Some(again)
    }

    /// Rereads a page until it is sound or the attempts are used up. Returns its bytes, and whether it is still bad.
    fn again(&mut self, mut page: Vec<u8>, number: u32, part: &SpacePart, live: Option<&File>) -> (Vec<u8>, bool) {
        for _ in 0..TRIES {
            if let Some(now) = live.and_then(|file| read_up_to(file, part.offset_of(number), page.len()).ok())
                && now.len() == page.len()
            {
                page = now;
            }
            if !matches!(self.opener.verdict(&page, part.at(PageNo(number))), Verdict::Corrupt(_)) {
                return (page, false);
            }
            thread::sleep(PAUSE);
        }
        (page, true)
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use format::Lsn;
    use format::checksum::crc32c;

    use super::super::pace::BackupWatcher;
    use super::*;

    const PAGE: usize = 16 << 10;
    const TORN: u32 = 5;

    fn table() -> Vec<u8> {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mariadb-10.11/dynamic-16k.ibd.zst");
        zstd::decode_all(door::open_file(packed).expect("the fixture")).expect("unpacked")
    }

    /// The table with one page that the server has only half written.
    fn torn(table: &[u8]) -> Vec<u8> {
        let mut torn = table.to_vec();
        torn[TORN as usize * PAGE + PAGE / 2..][..PAGE / 2].fill(0x55);
        torn
    }

    #[test]
    fn a_page_caught_half_written_is_read_again() {
        let (dir, table) = (tempfile::TempDir::new().expect("a directory"), table());
        let path = dir.path().join("t.ibd");
        fs::write(&path, &table).expect("written");
        let file = door::open_file(&path).expect("open");
        let keys = KeyStore::default();
        let part = part_of(&file, &path, &keys).expect("read").expect("a tablespace");
        let (mut reader, mut found) = (PageReader::new(&keys), PagesRead::default());
        // The page was torn when it was read; by now the server has written all of it.
        let mended = reader.judge(&torn(&table), 0, &part, Some(&file), &mut found);
        assert_eq!((found.read_again, found.bad.as_slice()), (1, [].as_slice()));
        assert_eq!(found.pages as usize, table.len() / PAGE);
        assert!(mended.is_some_and(|mended| mended == table));
    }

    #[test]
    fn a_file_of_several_requests_is_read_to_its_end() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let (path, keys) = (dir.path().join("large"), KeyStore::default());
        let bytes: Vec<u8> = (0..(3_u32 << 20) + 777).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &bytes).expect("written");
        let crc = crc32c(&bytes);
        let found = PageReader::new(&keys).read(&path, false).expect("read");
        assert_eq!((found.size, found.crc), (bytes.len() as u64, crc));
    }

    #[test]
    fn a_page_that_stays_torn_is_bad_until_it_is_mended() {
        let (dir, table) = (tempfile::TempDir::new().expect("a directory"), table());
        let (path, copy) = (dir.path().join("t.ibd"), dir.path().join("copy"));
        fs::write(&path, torn(&table)).expect("written");
        let file = door::open_file(&path).expect("open");
        let keys = KeyStore::default();
        let part = part_of(&file, &path, &keys).expect("read").expect("a tablespace");
        let mut reader = PageReader::new(&keys);
        let stop = AtomicBool::new(false);
        let mut pace = Pace::new(None, false, BackupWatcher::default(), &stop);
        let mut notes = Notes::new(Lsn(u64::MAX));
        let found = reader.copy((&file, &path), &part, &copy, &mut notes, &mut pace).expect("copied");
        assert_eq!(found.bad, [TORN]);
        assert_eq!(reader.mend(&file, &part, &[TORN], &copy).expect("read again"), [TORN]);
        fs::write(&path, &table).expect("written");
        assert!(reader.mend(&file, &part, &[TORN], &copy).expect("read again").is_empty());
        assert!(door::read_file(&copy).expect("read") == table);
        assert!(reader.read(&copy, true).expect("read").bad.is_empty());
    }
}
