//! Reads pages while the log is still being read: groups of pages that the log has changed in many places so far. Without this, the device
//! waits for the processor until the last byte of the log is understood.
//!
//! ```text
//! Load: a group of pages becomes dense -> a thread finds its file by the tablespace's number, and reads the group
//!   -> everything is planned: the thread stops -> Work::hold: the pass over the pages finds the bytes in memory
//! ```
//!
//! Nothing depends on what is read here. A group that is not read, or that the plan turns out not to need, only costs the time of a request. But
//! the files must not change from the first read to the pass over the pages: so this is only for a recovery in place that has nothing else
//! to do first (`is_possible`), and a file whose length changes is read again.
//!
//! Sketch: the log of 450 MB takes a core or two for a second, in which a volume of 2 GiB/s is idle: as long as the pages take to read.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use flow::queue::OpenQueue;
use flow::rewrite::{Prefetch, Prefetched};
use flow::{DIRECT_ALIGN, Descriptors, FileHandle, FileId, for_this_job};
use format::{PageSize, SpaceFormat, SpaceId};

use super::load::{GroupId, pages_of};
use crate::door;
use crate::recover::options::tuning::engine;
use crate::recover::place::open_files::{in_flight_max, open_files_max};
use crate::recover::place::walk::walk;
use datadir::name::NameHint;
use datadir::reading::read_up_to;
use datadir::stop;

/// Requests in flight: the log's own must not wait long behind them.
const DEPTH: u32 = 16;
/// With less memory than this it is not worth a thread, bytes.
pub(in crate::recover) const MEMORY_MIN: usize = 8 << 20;

/// The thread that reads.
pub(in crate::recover) struct Prefetcher {
    /// `None`: there are no more.
    wanted: Option<Sender<Vec<GroupId>>>,
    stop: Arc<AtomicBool>,
    /// `None`: it was joined.
    thread: Option<JoinHandle<Vec<PrefetchedFile>>>,
}

impl std::fmt::Debug for Prefetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prefetcher")
    }
}

/// What was read of a file.
#[derive(Debug)]
pub(in crate::recover) struct PrefetchedFile {
    /// Device and inode: a file may get another name before it is used.
    pub identity: (u64, u64),
    /// Its length in bytes when it was opened.
    pub len: u64,
    pub parts: Vec<Prefetched>,
}

impl Prefetcher {
    /// Reads parts of up to `part_max` bytes into `memory` bytes.
    pub fn start(datadir: &Path, memory: usize, part_max: u32) -> Self {
        let (datadir, stop, (wanted, groups)) = (datadir.to_path_buf(), Arc::new(AtomicBool::new(false)), channel());
        let stopped = Arc::clone(&stop);
        let work = move || {
            let mut spaces = Spaces::of(&datadir);
            // Without what this thread reads, the pass over the pages reads everything itself, and reports what fails.
            let _broken = read(&mut spaces, engine(&datadir), (memory, part_max), &groups, &stopped);
            spaces.read.into_iter().map(|(_, _, file)| file).collect()
        };
        // The same if no thread starts.
        let thread = thread::Builder::new().spawn(for_this_job(work)).ok();
        Self { wanted: Some(wanted), stop, thread }
    }

    /// Asks for groups of pages.
    pub fn want(&self, groups: Vec<GroupId>) {
        if let Some(wanted) = self.wanted.as_ref().filter(|_| !groups.is_empty()) {
            // Nobody receives them any more once the memory is full.
            drop(wanted.send(groups));
        }
    }

    /// Ends the reading, and returns what was read by then.
    pub fn stop(mut self) -> Vec<PrefetchedFile> {
        // Relaxed: the thread may see it one request late; joining it orders everything else.
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    fn join(&mut self) -> Vec<PrefetchedFile> {
        drop(self.wanted.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Prefetcher {
    /// After an error nobody wants what was read, and the datadir must be left alone.
    fn drop(&mut self) {
        // Relaxed: the thread only ends; what it read is dropped.
        self.stop.store(true, Ordering::Relaxed);
        self.join();
    }
}

/// The thread's work, until it is stopped or the memory is full.
fn read(
    spaces: &mut Spaces,
    engine: &dyn OpenQueue,
    (memory, part_max): (usize, u32),
    groups: &Receiver<Vec<GroupId>>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut prefetch = Prefetch::new(engine, memory, part_max, in_flight_max(DEPTH))?;
    let goes_on = || !stop::is_told(stop);
    let outcome = groups.iter().take_while(|_| goes_on()).try_for_each(|groups| {
        let has_room = groups.into_iter().take_while(|_| goes_on()).try_fold(true, |has_room, group| {
            Ok::<_, io::Error>(has_room && spaces.ask(&mut prefetch, group, part_max)?)
        })?;
        prefetch.kick()?;
        if has_room { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    });
    for part in prefetch.finish()? {
        if let Some((_, _, file)) = spaces.read.get_mut(part.file.0 as usize) {
            file.parts.push(part);
        }
    }
    outcome
}

/// The tablespaces of a datadir.
struct Spaces {
    /// Path of each, and bytes of its pages.
    found: HashMap<SpaceId, (PathBuf, PageSize)>,
    /// The place in `read` of each that was opened; `None`: it cannot be opened.
    open: HashMap<SpaceId, Option<usize>>,
    /// Those that were opened.
    read: Vec<(FileHandle, PageSize, PrefetchedFile)>,
    /// Few, because the recovery opens files too.
    files: Arc<Descriptors>,
}

impl Spaces {
    fn of(datadir: &Path) -> Self {
        let files = Descriptors::new(open_files_max(8));
        let mut spaces = Self { found: HashMap::new(), open: HashMap::new(), read: Vec::new(), files };
        // The plan reports what cannot be read.
        let _unread = walk(datadir, &mut |name, metadata| {
            if metadata.is_file() && NameHint::of(name).is_of_server(name) {
                let path = datadir.join(name);
                let head = door::open_file(&path).and_then(|file| read_up_to(&file, 0, PageSize::MAX.bytes()));
                if let Some(format) = head.ok().and_then(|head| SpaceFormat::from_page0(&head).ok()) {
                    spaces.found.insert(format.space(), (path, format.physical()));
                }
            }
            Ok(())
        });
        spaces
    }

    fn open(&mut self, space: SpaceId) -> Option<usize> {
        if let Some(known) = self.open.get(&space) {
            return *known;
        }
        let opened = self.found.get(&space).and_then(|(path, size)| {
            let file = door::open_file(path).ok()?;
            let metadata = file.metadata().ok()?;
            let of_file =
                PrefetchedFile { identity: (metadata.dev(), metadata.ino()), len: metadata.len(), parts: Vec::new() };
            let is_aligned = size.bytes() >= DIRECT_ALIGN as usize;
            let handle =
                if is_aligned { FileHandle::past_cache(file, false) } else { FileHandle::of_file(file, false) };
            self.read.push((self.files.keep(path, &handle, false), *size, of_file));
            Some(self.read.len() - 1)
        });
        self.open.insert(space, opened);
        opened
    }

    /// Asks for the pages of a group, as far as the file has them. Returns whether there is memory for more.
    fn ask(&mut self, prefetch: &mut Prefetch, group: GroupId, part_max: u32) -> io::Result<bool> {
        let Some(number) = self.open(group.0) else { return Ok(true) };
        let Some((handle, size, file)) = self.read.get(number) else { return Ok(true) };
        let (id, pages) = (FileId(u32::try_from(number).unwrap_or(u32::MAX)), pages_of(group));
        // The last bytes of a file that is no multiple of a block long are left to the run.
        let end = file.len.min(size.offset_of(pages.end)) / u64::from(DIRECT_ALIGN) * u64::from(DIRECT_ALIGN);
        let mut offset = size.offset_of(pages.start);
        let handle = &handle.opened()?;
        while offset < end {
            let len = u32::try_from(end - offset).unwrap_or(u32::MAX).min(part_max);
            if !prefetch.ask(id, handle, offset, len)? {
                return Ok(false);
            }
            offset += u64::from(len);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;

    use tempfile::TempDir;

    use super::*;

    const PART: u32 = 512 << 10;
    const PAGES: u32 = 2816;

    /// A datadir with one tablespace, its bytes, and its number.
    fn datadir() -> (TempDir, Vec<u8>, SpaceId) {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
        let bytes = zstd::decode_all(File::open(packed).expect("the fixture")).expect("fixtures are zstd");
        let dir = TempDir::new().expect("a directory");
        fs::create_dir(dir.path().join("fx")).expect("made");
        fs::write(dir.path().join("fx/scattered.ibd"), &bytes).expect("written");
        let space = SpaceFormat::from_page0(&bytes).expect("a tablespace").space();
        (dir, bytes, space)
    }

    /// What is read until nothing is left to read: offsets and bytes.
    fn read(dir: &Path, memory: usize, groups: &[GroupId]) -> Vec<(usize, Vec<u8>)> {
        let mut prefetcher = Prefetcher::start(dir, memory, PART);
        groups.iter().for_each(|group| prefetcher.want(vec![*group]));
        let files = prefetcher.join();
        let parts = files.iter().flat_map(|file| &file.parts);
        parts.map(|part| (usize::try_from(part.offset).expect("small"), part.bytes().to_vec())).collect()
    }

    #[test]
    fn groups_are_read_as_far_as_their_file_has_them() {
        let (dir, bytes, space) = datadir();
        let wanted = [(space, 0), (SpaceId(space.0 + 1), 0), (space, PAGES / 64 - 1), (space, PAGES / 64)];
        let mut parts = read(dir.path(), 16 << 20, &wanted);
        parts.sort();
        let (part, last) = (PART as usize, (PAGES as usize - 64) << 14);
        let offsets: Vec<usize> = parts.iter().map(|(offset, _)| *offset).collect();
        assert_eq!(offsets, [0, part, last, last + part]);
        assert!(parts.iter().all(|(offset, read)| *read == bytes[*offset..offset + part]));
        // A file that is cut off within the group.
        File::options()
            .write(true)
            .open(dir.path().join("fx/scattered.ibd"))
            .expect("opened")
            .set_len(20_000)
            .expect("cut");
        let parts = read(dir.path(), 16 << 20, &wanted);
        assert_eq!(parts.iter().map(|(offset, read)| (*offset, read.len())).collect::<Vec<_>>(), [(0, 16384)]);
    }

    #[test]
    fn no_more_is_read_than_there_is_memory_for() {
        let (dir, _, space) = datadir();
        let wanted: Vec<GroupId> = (0..PAGES / 64).map(|group| (space, group)).collect();
        assert_eq!(read(dir.path(), 3 * PART as usize, &wanted).len(), 3);
        assert_eq!(read(dir.path(), 0, &wanted).len(), 0);
    }
}
