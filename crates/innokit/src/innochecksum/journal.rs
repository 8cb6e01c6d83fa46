//! Writing pages in place so that no crash leaves a page half written.
//!
//! Pages are collected into a batch. The batch first goes into a journal beside the tablespace (`FILE.innochecksum-journal`) and is
//! synced; only then the pages are written in place and synced; then the next batch overwrites the journal, or the journal is
//! removed. So at any moment one of these holds:
//!
//! * the journal is absent, or its own checksum fails: no page of its batch has been touched in place;
//! * the journal is whole: its pages may be old, new or torn in place, and the journal holds all of them, new.
//!
//! [`recover`] brings the second case to its end. A journal may be found late, when a server has already written to the file: a page
//! is taken from the journal only if the page in place still has the same page number, neighbours and LSN, which a rewrite does
//! not change and every change by a server does.
//!
//! Sketch: 100 MB of pages of 16 KiB are 13 batches: 200 MB of sequential writes and 26 syncs.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::page::checksum::crc32c;

/// A journal begins with this.
const MAGIC: [u8; 8] = *b"INNOKIJ1";
/// Magic, page size (4), pages (4).
const HEADER: usize = 16;
/// Before each page: its place in the tablespace, 8 bytes.
const PLACE: usize = 8;
/// At the end: CRC-32C of all before it.
const CHECKSUM: usize = 4;
/// Bytes of pages in a batch.
const BATCH: usize = 8 << 20;
/// Page number, neighbours and LSN: what a rewrite leaves alone.
const IDENTITY: Range<usize> = 4..24;

/// Writes pages into one tablespace.
pub struct Journal<'f> {
    tablespace: &'f File,
    path: PathBuf,
    page_size: usize,
    file: Option<File>,
    /// The batch, as it will stand in the journal.
    batch: Vec<u8>,
    pages: u32,
    /// A write or a sync failed: whatever follows is refused, and the journal stays for the next run.
    failed: bool,
}

/// The journal that belongs to a tablespace, beside the file itself even if it was called by a link's name.
pub fn path_of(tablespace: &Path) -> PathBuf {
    let real = fs::canonicalize(tablespace).unwrap_or_else(|_| tablespace.to_owned());
    let mut name: OsString = real.into_os_string();
    name.push(".innochecksum-journal");
    name.into()
}

impl<'f> Journal<'f> {
    /// For pages of `page_size` bytes. Nothing is created before there is something to write.
    pub fn new(tablespace: &'f File, name: &Path, page_size: usize) -> Self {
        Self { tablespace, path: path_of(name), page_size, file: None, batch: Vec::new(), pages: 0, failed: false }
    }

    /// Has `page` written at `offset`, sooner or later.
    pub fn write(&mut self, offset: u64, page: &[u8]) -> io::Result<()> {
        if self.batch.is_empty() {
            self.batch.extend_from_slice(&MAGIC);
            self.batch.extend_from_slice(&u32::try_from(self.page_size).map_err(io::Error::other)?.to_be_bytes());
            self.batch.extend_from_slice(&[0; 4]);
        }
        self.batch.extend_from_slice(&offset.to_be_bytes());
        self.batch.extend_from_slice(page);
        self.pages += 1;
        if self.batch.len() >= BATCH { self.commit() } else { Ok(()) }
    }

    /// Writes what is left, and removes the journal.
    pub fn finish(mut self) -> io::Result<()> {
        self.commit()?;
        if self.file.take().is_some() { remove(&self.path) } else { Ok(()) }
    }

    fn commit(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        if self.pages == 0 {
            return Ok(());
        }
        self.failed = true;
        self.write_batch()?;
        self.failed = false;
        Ok(())
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let count = be::put_u32(&mut self.batch, 12, self.pages);
        count.ok_or_else(|| io::Error::other("the batch has no header"))?;
        let checksum = crc32c(&self.batch);
        self.batch.extend_from_slice(&checksum.to_be_bytes());
        self.save()?;
        for (offset, page) in Batch::parse(&self.batch).into_iter().flat_map(Batch::pages) {
            self.tablespace.write_all_at(page, offset)?;
        }
        self.tablespace.sync_data()?;
        self.batch.clear();
        self.pages = 0;
        Ok(())
    }

    /// The batch goes into the journal, which is made at the first one.
    fn save(&mut self) -> io::Result<()> {
        let new = self.file.is_none();
        let file = match self.file.take() {
            Some(file) => file,
            // It holds rows of the table, which are nobody else's to read.
            None => OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?,
        };
        file.write_all_at(&self.batch, 0)?;
        file.sync_data()?;
        self.file = Some(file);
        if new { sync_directory(&self.path) } else { Ok(()) }
    }
}

/// Brings an interrupted rewrite of `tablespace` to the end of its batch; the pages written, `None` without a journal.
pub fn recover(tablespace: &File, name: &Path) -> io::Result<Option<u64>> {
    let path = path_of(name);
    let bytes = match File::open(&path) {
        Ok(file) if file.metadata()?.len() > 2 * BATCH as u64 => {
            Err(io::Error::other("its journal is not one of innokit's"))?
        }
        Ok(_) => fs::read(&path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut written = 0;
    if let Some(batch) = Batch::parse(&bytes) {
        for (offset, page) in batch.pages() {
            written += u64::from(restore(tablespace, offset, page)?);
        }
        tablespace.sync_data()?;
    }
    remove(&path)?;
    Ok(Some(written))
}

/// Writes the page unless it is there already, or another one is.
fn restore(tablespace: &File, offset: u64, page: &[u8]) -> io::Result<bool> {
    let mut stored = vec![0; page.len()];
    match tablespace.read_exact_at(&mut stored, offset) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    let wanted = stored != page && stored.get(IDENTITY) == page.get(IDENTITY);
    if wanted {
        tablespace.write_all_at(page, offset)?;
    }
    Ok(wanted)
}

/// A journal's content, after its checksum was compared.
struct Batch<'a> {
    page_size: usize,
    entries: &'a [u8],
}

impl<'a> Batch<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let page_size = be::u32_at(bytes, MAGIC.len())? as usize;
        let pages = be::u32_at(bytes, MAGIC.len() + 4)? as usize;
        let end = pages.checked_mul(page_size.checked_add(PLACE)?)?.checked_add(HEADER)?;
        let checked = bytes.get(..end)?;
        let sound = bytes.starts_with(&MAGIC) && be::u32_at(bytes, end)? == crc32c(checked);
        debug_assert!(end + CHECKSUM <= bytes.len() || !sound);
        let entries = checked.get(HEADER..).filter(|_| sound && page_size > 0)?;
        Some(Self { page_size, entries })
    }

    /// Places and pages.
    fn pages(self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let entries = self.entries.chunks_exact(self.page_size + PLACE);
        entries.filter_map(|entry| Some((be::u64_at(entry, 0)?, entry.get(PLACE..)?)))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    sync_directory(path)
}

/// Makes the file's name as durable as its content.
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u8, lsn: u8, fill: u8) -> Vec<u8> {
        let mut page = vec![fill; 1024];
        page[4..24].fill(0);
        (page[7], page[23]) = (number, lsn);
        page
    }

    /// A tablespace of four pages, and a whole journal of new ones for its pages 1 and 2.
    fn interrupted() -> (tempfile::TempDir, PathBuf, File, Vec<u8>) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.ibd");
        let old: Vec<u8> = (0..4).flat_map(|number| page(number, 9, 1)).collect();
        fs::write(&path, &old).expect("written");
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("opened");
        let mut journal = Journal::new(&file, &path, 1024);
        journal.write(1024, &page(1, 9, 2)).expect("collected");
        journal.write(2048, &page(2, 9, 2)).expect("collected");
        journal.commit().expect("written");
        // As a crash leaves it: the journal whole, the pages in any state.
        file.write_all_at(&old, 0).expect("old again");
        drop(journal);
        (directory, path, file, old)
    }

    #[test]
    fn torn_pages_are_completed_from_the_journal() {
        let (_directory, path, file, _) = interrupted();
        file.write_all_at(&page(1, 9, 2)[..512], 1024).expect("half a page");
        assert_eq!(recover(&file, &path).expect("recovered"), Some(2));
        let bytes = fs::read(&path).expect("read");
        assert_eq!(bytes[1024..3072], [page(1, 9, 2), page(2, 9, 2)].concat());
        assert_eq!(recover(&file, &path).expect("nothing left"), None);
    }

    #[test]
    fn after_a_failed_write_nothing_more_is_written_and_the_journal_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.ibd");
        fs::write(&path, page(0, 9, 1)).expect("written");
        // The journal can be written, the tablespace cannot.
        let file = File::open(&path).expect("opened");
        let mut journal = Journal::new(&file, &path, 1024);
        journal.write(0, &page(0, 9, 2)).expect("collected");
        assert!(journal.commit().is_err());
        journal.write(1024, &page(1, 9, 2)).expect("collected");
        assert!(journal.finish().is_err());
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("opened");
        assert_eq!(recover(&file, &path).expect("recovered"), Some(1));
        assert_eq!(fs::read(&path).expect("read"), page(0, 9, 2));
    }

    #[test]
    fn a_page_that_a_server_changed_since_is_left_alone() {
        let (_directory, path, file, _) = interrupted();
        file.write_all_at(&page(1, 10, 3), 1024).expect("a newer page");
        assert_eq!(recover(&file, &path).expect("recovered"), Some(1));
        assert_eq!(fs::read(&path).expect("read")[1024..2048], page(1, 10, 3));
    }

    #[test]
    fn a_journal_that_was_not_finished_is_dropped_without_a_write() {
        let (_directory, path, file, old) = interrupted();
        let journal = path_of(&path);
        let mut bytes = fs::read(&journal).expect("read");
        bytes[600] ^= 1;
        fs::write(&journal, bytes).expect("written");
        assert_eq!(recover(&file, &path).expect("recovered"), Some(0));
        assert_eq!(fs::read(&path).expect("read"), old);
        assert!(!journal.exists());
    }
}
