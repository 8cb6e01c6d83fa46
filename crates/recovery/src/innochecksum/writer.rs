//! Writes pages in place through [`flow::rewrite`], so that a crash cannot leave a page half written.
//!
//! The shadow file is a journal beside the tablespace (`FILE.innochecksum-journal`), created for the first page and removed after the last.
//! It stores whole pages, not just the changed bytes, because it may be found only after a server has written to the file. A page is
//! restored from it only if the page in place still has the same page number, neighbours and LSN: new checksums do not touch those, and a
//! server changes the LSN with every change.
//!
//! Sketch: 100 MB of 16 KiB pages make 13 batches: 200 MB of sequential writes, 13 syncs of the journal and 5 of the tablespace.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flow::durable::sync_directory_of;
use flow::queue::OpenQueue;
use flow::rewrite::{
    Change, Changes, Replayed, RewriteOptions, RewriteTarget, Rewriter, RunError, Safety, Stretch, replay_if,
};
use flow::{Engine, FileHandle, FileId};

use super::error::FileError;
use crate::door;

/// Bytes of pages per batch, and of the write buffers.
const BATCH: usize = 8 << 20;
/// Pages this close to each other share a buffer.
const STRETCH_MAX: u32 = 512 << 10;
/// Once the journal is this long, sync the tablespace and restart the journal.
const JOURNAL_MAX: u64 = 32 << 20;
/// Distinguishes this job's journals from other shadow files.
const TAG: u64 = u64::from_be_bytes(*b"innochks");
/// Page number, neighbours and LSN.
const IDENTITY: Range<usize> = 4..24;

const TABLESPACE: FileId = FileId(0);
const JOURNAL: FileId = FileId(1);

type Result<T> = std::result::Result<T, FileError>;

/// Writes pages into one tablespace.
pub struct PageWriter {
    path: PathBuf,
    tablespace: FileHandle,
    batch: Batch,
    /// Opened for the first batch, so that a file with correct checksums gets no journal.
    rewriter: Option<Rewriter>,
}

impl PageWriter {
    /// Makes a writer for pages of `page_size` bytes; `tablespace` is the file at `path`, open for writing.
    pub(super) const fn new(path: PathBuf, tablespace: FileHandle, page_size: usize) -> Self {
        let batch = Batch { page_size, places: Vec::new(), bytes: Vec::new() };
        Self { path, tablespace, batch, rewriter: None }
    }

    /// Queues a page for `offset`. Pages come in ascending order.
    ///
    /// # Errors
    /// A batch could not be written. Nothing more is written after that, and the journal stays for the next run.
    pub fn write(&mut self, offset: u64, page: &[u8]) -> Result<()> {
        self.batch.places.push(offset);
        self.batch.bytes.extend_from_slice(page);
        if self.batch.bytes.len() >= BATCH { self.write_batch() } else { Ok(()) }
    }

    /// Writes the rest, makes it durable, and removes the journal.
    ///
    /// # Errors
    /// As [`PageWriter::write`].
    pub fn finish(mut self) -> Result<()> {
        self.write_batch()?;
        match self.rewriter.take() {
            Some(rewriter) => {
                rewriter.finish().map_err(|error| FileError::Write { path: self.path.clone(), error })?;
                remove(&journal_of(&self.path))
            }
            None => Ok(()),
        }
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.batch.places.is_empty() {
            return Ok(());
        }
        let rewriter = match &mut self.rewriter {
            Some(rewriter) => rewriter,
            none => none.insert(open_rewriter(&self.path, &self.tablespace)?),
        };
        let written = rewriter.run(self.batch.stretches(), &self.batch);
        written.map_err(|RunError::Rewrite(error)| FileError::Write { path: self.path.clone(), error })?;
        self.batch.places.clear();
        self.batch.bytes.clear();
        Ok(())
    }
}

/// The engine for a file.
fn engine(path: &Path) -> &'static dyn OpenQueue {
    Engine::Auto.first_working(path.parent().unwrap_or(Path::new("")))
}

fn open_rewriter(path: &Path, tablespace: &FileHandle) -> Result<Rewriter> {
    let journal = open_journal(&journal_of(path), true)?;
    let options = RewriteOptions {
        memory: BATCH,
        stretch_max: STRETCH_MAX,
        // Each batch costs one write and one sync of the journal.
        overlap: false,
        workers: 0,
        shadow_max: JOURNAL_MAX,
        tag: TAG,
        ..RewriteOptions::default()
    };
    let rewriter = Rewriter::open(engine(path), Safety::Shadow(journal), options);
    let mut rewriter = rewriter.map_err(|error| FileError::Write { path: path.to_owned(), error })?;
    rewriter.add_file(target_of(path, tablespace));
    Ok(rewriter)
}

/// Pages waiting to be written, in ascending order.
struct Batch {
    page_size: usize,
    places: Vec<u64>,
    /// The pages, concatenated.
    bytes: Vec<u8>,
}

impl Batch {
    /// Windows of the file with pages to write, tagged with the index of their first page. Bytes between the pages are neither read nor
    /// written.
    fn stretches(&self) -> impl Iterator<Item = Stretch> {
        let size = self.page_size as u64;
        let fits = move |first: &u64, last: &u64| last + size - first <= u64::from(STRETCH_MAX);
        let mut tag = 0;
        std::iter::from_fn(move || {
            let rest = self.places.get(tag..)?;
            let first = rest.first()?;
            let count = rest.partition_point(|place| fits(first, place)).max(1);
            let last = rest.get(count - 1)?;
            let len = u32::try_from(last + size - first).ok()?;
            let stretch = Stretch { file: TABLESPACE, offset: *first, len, is_read: false, tag };
            tag += count;
            Some(stretch)
        })
    }
}

impl Change for Batch {
    type Scratch = ();
    type Error = Infallible;

    fn change(
        &self,
        stretch: &Stretch,
        bytes: &mut [u8],
        changes: &mut Changes,
        (): &mut (),
    ) -> std::result::Result<(), Infallible> {
        let pages = self.places.iter().zip(self.bytes.chunks_exact(self.page_size)).skip(stretch.tag);
        for (place, page) in pages {
            let start = usize::try_from(place - stretch.offset).unwrap_or(usize::MAX);
            let Some(block) = start.checked_add(page.len()).and_then(|end| bytes.get_mut(start..end)) else { break };
            block.copy_from_slice(page);
            let [start, len] = [start, page.len()].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            changes.replaced(start..start.saturating_add(len));
        }
        Ok(())
    }
}

/// Whether an interrupted run left its journal.
#[must_use]
pub fn is_interrupted(tablespace: &Path) -> bool {
    journal_of(tablespace).exists()
}

/// Finishes the writes of an interrupted run. Returns the number of pages written; `None` if there is no journal.
pub(super) fn finish_interrupted(path: &Path, tablespace: &FileHandle) -> Result<Option<u64>> {
    let journal = journal_of(path);
    if !journal.exists() {
        return Ok(None);
    }
    let shadow = open_journal(&journal, false)?;
    let is_wanted = |stored: &[u8], page: &[u8]| {
        // The file may have been truncated since: do not bring back pages that were cut off.
        stored.len() == page.len() && stored != page && stored.get(IDENTITY) == page.get(IDENTITY)
    };
    let target = |_: &[u8]| Some(target_of(path, tablespace));
    let replayed = replay_if(engine(path), &shadow, TAG, target, is_wanted);
    let pages = match replayed.map_err(|error| FileError::Write { path: path.to_owned(), error })? {
        Replayed::Pieces(pages) => pages,
        Replayed::Nothing => 0,
        Replayed::Foreign(_) => return Err(FileError::ForeignJournal(journal)),
    };
    remove(&journal)?;
    Ok(Some(pages))
}

fn target_of(path: &Path, tablespace: &FileHandle) -> RewriteTarget {
    let name = path.as_os_str().as_encoded_bytes().to_vec();
    RewriteTarget { file: TABLESPACE, handle: tablespace.clone(), name }
}

/// The tablespace's journal: beside the real file, even if it was named through a link.
fn journal_of(tablespace: &Path) -> PathBuf {
    let real = fs::canonicalize(tablespace).unwrap_or_else(|_| tablespace.to_owned());
    let mut name: OsString = real.into_os_string();
    name.push(".innochecksum-journal");
    name.into()
}

fn open_journal(path: &Path, is_new: bool) -> Result<RewriteTarget> {
    // It contains rows of the table, so no other user may read it.
    let file = door::open_own(path, is_new);
    let file = file.and_then(|file| sync_directory_of(path).map(|()| file)).map_err(failed(path))?;
    let name = path.as_os_str().as_encoded_bytes().to_vec();
    Ok(RewriteTarget { file: JOURNAL, handle: FileHandle::of_file(file, false), name })
}

fn remove(journal: &Path) -> Result<()> {
    fs::remove_file(journal).and_then(|()| sync_directory_of(journal)).map_err(failed(journal))
}

fn failed(journal: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = journal.to_owned();
    |error| FileError::Journal { path, error }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use flow::rewrite::RewriteError;

    use super::*;

    fn page(number: u8, lsn: u8, fill: u8) -> Vec<u8> {
        let mut page = vec![fill; 1024];
        page[4..24].fill(0);
        (page[7], page[23]) = (number, lsn);
        page
    }

    fn handle(path: &Path) -> (File, FileHandle) {
        let file = File::options().read(true).write(true).open(path).expect("opened");
        let handle = FileHandle::of_file(file.try_clone().expect("a descriptor"), false);
        (file, handle)
    }

    /// A tablespace of four pages with the journal of a run that died after writing pages 1 and 3.
    fn interrupted() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.ibd");
        let old: Vec<u8> = (0..4).flat_map(|number| page(number, 9, 1)).collect();
        fs::write(&path, &old).expect("written");
        let (file, tablespace) = handle(&path);
        let mut writer = PageWriter::new(path.clone(), tablespace, 1024);
        writer.write(1024, &page(1, 9, 2)).expect("collected");
        writer.write(3072, &page(3, 9, 2)).expect("collected");
        writer.write_batch().expect("written");
        drop(writer);
        let new = [page(0, 9, 1), page(1, 9, 2), page(2, 9, 1), page(3, 9, 2)].concat();
        assert!(fs::read(&path).expect("read") == new && is_interrupted(&path), "what lies between is as it was");
        // As a crash leaves it: the journal complete, the pages in any state.
        file.write_all_at(&old, 0).expect("old again");
        (directory, path, old)
    }

    fn finish(path: &Path) -> Option<u64> {
        finish_interrupted(path, &handle(path).1).expect("finished")
    }

    #[test]
    fn torn_pages_are_completed_from_the_journal() {
        let (_directory, path, old) = interrupted();
        let file = handle(&path).0;
        file.write_all_at(&page(1, 9, 2)[..512], 1024).expect("half a page");
        // A page that was being written may be neither old nor new.
        file.write_all_at(&[0; 512], 3072 + 512).expect("half a page");
        assert_eq!(finish(&path), Some(2));
        let new = [&old[..1024], &page(1, 9, 2), &old[2048..3072], &page(3, 9, 2)].concat();
        assert!(fs::read(&path).expect("read") == new);
        assert_eq!(finish(&path), None);
    }

    #[test]
    fn after_a_failed_write_nothing_more_is_written_and_the_journal_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.ibd");
        fs::write(&path, page(0, 9, 1)).expect("written");
        // The journal is writable, the tablespace is not.
        let tablespace = FileHandle::of_file(File::open(&path).expect("opened"), false);
        let mut writer = PageWriter::new(path.clone(), tablespace, 1024);
        writer.write(0, &page(0, 9, 2)).expect("collected");
        writer.write_batch().expect_err("not for writing");
        writer.write(1024, &page(1, 9, 2)).expect("collected");
        let error = writer.finish().expect_err("one failed before");
        assert!(matches!(error, FileError::Write { error: RewriteError::Latched, .. }), "{error}");
        assert_eq!(finish(&path), Some(1));
        assert!(fs::read(&path).expect("read") == page(0, 9, 2));
    }

    #[test]
    fn a_page_that_a_server_changed_since_is_left_alone() {
        let (_directory, path, _) = interrupted();
        handle(&path).0.write_all_at(&page(1, 10, 3), 1024).expect("a newer page");
        assert_eq!(finish(&path), Some(1));
        assert!(fs::read(&path).expect("read")[1024..2048] == page(1, 10, 3));
    }

    #[test]
    fn pages_that_a_server_cut_off_since_do_not_come_back() {
        let (_directory, path, _) = interrupted();
        handle(&path).0.set_len(3072 + 512).expect("cut");
        assert_eq!(finish(&path), Some(1));
        assert_eq!(fs::metadata(&path).expect("is there").len(), 3072 + 512);
    }

    #[test]
    fn a_journal_that_was_not_finished_is_dropped_without_a_write() {
        let (_directory, path, old) = interrupted();
        let journal = journal_of(&path);
        let mut bytes = fs::read(&journal).expect("read");
        // After the empty batch that starts the chain: within the first page.
        bytes[4096 + 600] ^= 1;
        fs::write(&journal, bytes).expect("written");
        assert_eq!(finish(&path), Some(0));
        assert!(fs::read(&path).expect("read") == old);
        assert!(!is_interrupted(&path));
    }

    #[test]
    fn many_scattered_pages_share_buffers_and_all_arrive() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.ibd");
        let pages = 40_960;
        File::create(&path).and_then(|file| file.set_len(pages * 1024)).expect("made");
        let mut writer = PageWriter::new(path.clone(), handle(&path).1, 1024);
        let fill = |number: u64| vec![(number % 251) as u8 + 1; 1024];
        // Every third page, in more than one batch, with a gap too wide for a buffer.
        let written = |number: &u64| number.is_multiple_of(3) && !(2000..4000).contains(number);
        (0..pages).filter(written).for_each(|number| writer.write(number * 1024, &fill(number)).expect("written"));
        writer.finish().expect("finished");
        for (number, page) in (0..).zip(fs::read(&path).expect("read").chunks_exact(1024)) {
            assert!(if written(&number) { page == fill(number) } else { page == [0; 1024] }, "page {number}");
        }
        assert!(!is_interrupted(&path));
    }
}
