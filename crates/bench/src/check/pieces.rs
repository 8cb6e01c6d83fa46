//! Reading and verifying without `check`'s reports around it: to see where the time goes, and as tools do it that read a piece, verify it
//! and take the next, in one thread or in many.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use datadir::space::{self, HEAD};
use flow::queue::OpenQueue;
use flow::queue::sim::{SimCounts, SimOptions, SimTime};
use flow::{BufferPool, Counters, Cursor, DIRECT_ALIGN, FileHandle, FileSet, ReadOptions, Reader, run_workers};
use format::{PageId, PageNo, PageRun, SpaceFormat, Verdict};

use super::super::machine::thread_time;

/// The format of the tablespace, from page 0; `None` if that does not give it.
pub(super) fn format_of(handle: &FileHandle) -> io::Result<Option<SpaceFormat>> {
    let mut pool = BufferPool::new(1, HEAD as u32)?;
    let mut buffer = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
    let len = rustix::io::pread(handle.fd()?, buffer.bytes_mut(), 0)?;
    Ok(space::by_page0(buffer.first(u32::try_from(len).unwrap_or(0)), None).map(|part| part.format))
}

/// What a pass did, and where its time went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// From start to end.
    pub(super) wall: Duration,
    /// Sum over the workers: asking for bytes, copying them and waiting for them.
    reading: Duration,
    /// Sum over the workers: computing and comparing checksums.
    pub(super) checksums: Duration,
    /// Sum over the workers: processor time.
    pub(super) processor: Duration,
    /// Pages verified.
    pub(super) pages: u64,
    /// Of these, the sound ones.
    pub(super) sound: u64,
}

impl Spent {
    fn plus(self, other: Self) -> Self {
        Self {
            wall: self.wall.max(other.wall),
            reading: self.reading + other.reading,
            checksums: self.checksums + other.checksums,
            processor: self.processor + other.processor,
            pages: self.pages + other.pages,
            sound: self.sound + other.sound,
        }
    }

    /// The processor's time for reading: system calls, and copying out of the page cache where the worker itself does it.
    pub(super) fn copying(&self) -> Duration {
        self.processor.saturating_sub(self.checksums).min(self.reading)
    }

    /// The rest of the reading: the worker has nothing to do, or no core to do it on.
    pub(super) fn waiting(&self) -> Duration {
        self.reading.saturating_sub(self.copying())
    }

    /// All of the workers' time.
    pub(super) fn all(&self) -> Duration {
        self.reading + self.checksums
    }
}

/// Measures one worker.
struct Watch {
    started: Instant,
    last: Instant,
    processor: Duration,
    spent: Spent,
}

impl Watch {
    fn start() -> Self {
        let now = Instant::now();
        Self { started: now, last: now, processor: thread_time(), spent: Spent::default() }
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.last, now))
    }

    fn verify(&mut self, bytes: &[u8], offset: u64, format: &SpaceFormat) {
        let lap = self.lap();
        self.spent.reading += lap;
        let size = format.physical().bytes() as u64;
        let run = PageRun::new(bytes, format);
        let first = u32::try_from(offset / size).unwrap_or(u32::MAX);
        for ((index, _), number) in run.pages().enumerate().zip(first..) {
            let id = PageId { space: format.space(), page_no: PageNo(number) };
            self.spent.pages += 1;
            self.spent.sound += u64::from(matches!(run.verify(index, id), Verdict::Ok(_)));
        }
        let lap = self.lap();
        self.spent.checksums += lap;
    }

    fn stop(mut self) -> Spent {
        let lap = self.lap();
        self.spent.reading += lap;
        self.spent.wall = self.last.duration_since(self.started);
        self.spent.processor = thread_time().saturating_sub(self.processor);
        self.spent
    }
}

/// Each thread takes the next piece, reads it, verifies it. A piece is a multiple of the page size.
pub(super) fn by_pieces(
    handle: &FileHandle,
    len: u64,
    threads: usize,
    piece: u32,
    format: &SpaceFormat,
) -> io::Result<Spent> {
    let len = len / format.physical().bytes() as u64 * format.physical().bytes() as u64;
    let next = CachePadded::new(AtomicU64::new(0));
    let outcomes = run_workers(threads, |_| {
        let mut pool = BufferPool::new(1, piece.next_multiple_of(DIRECT_ALIGN))?;
        let mut buffer = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
        let mut watch = Watch::start();
        loop {
            // Relaxed: only each number's being given out once counts.
            let offset = next.fetch_add(1, Ordering::Relaxed) * u64::from(piece);
            let Some(left) = len.checked_sub(offset).filter(|left| *left > 0) else { break };
            let want = u32::try_from(left).unwrap_or(u32::MAX).min(piece);
            let mut got = 0;
            while got < want {
                let end = if handle.is_direct() { want.next_multiple_of(DIRECT_ALIGN) } else { want };
                match rustix::io::pread(handle.fd()?, buffer.range_mut(got..end), offset + u64::from(got))? {
                    0 => break,
                    more => got += more as u32,
                }
            }
            watch.verify(buffer.first(got.min(want)), offset, format);
        }
        Ok(watch.stop())
    });
    outcomes.into_iter().try_fold(Spent::default(), |sum, one: io::Result<Spent>| Ok(sum.plus(one?)))
}

/// As `check` reads: a window of blocks in flight for each worker.
pub(super) fn by_window(
    path: PathBuf,
    len: u64,
    workers: usize,
    read: &ReadOptions,
    format: &SpaceFormat,
) -> io::Result<Spent> {
    let files = FileSet::new([(path, len)]);
    let cursor = Cursor::sweep(&files, read.block_size);
    let counters = Counters::new(workers);
    let outcomes = run_workers(workers, |worker| {
        let mut watch = Watch::start();
        let mut reader = Reader::new(&files, &cursor, read, counters.worker(worker)).map_err(io::Error::other)?;
        while let Some(piece) = reader.next() {
            let piece = piece.map_err(io::Error::other)?;
            watch.verify(piece.bytes, piece.offset, format);
        }
        Ok(watch.stop())
    });
    outcomes.into_iter().try_fold(Spent::default(), |sum, one: io::Result<Spent>| Ok(sum.plus(one?)))
}

/// The same by one worker on the clock of a simulated device: what the device did, and how long that took on its clock.
pub(super) fn on_clock(
    file: File,
    len: u64,
    sim: &SimOptions,
    read: &ReadOptions,
    format: &SpaceFormat,
) -> io::Result<(Spent, SimCounts, Duration)> {
    let clock = SimTime::new(sim, [(file, len)]);
    let (files, counters) = (clock.file_set(), Counters::new(1));
    let cursor = Cursor::sweep(&files, read.block_size);
    let engines: [&dyn OpenQueue; 1] = [&clock];
    let mut watch = Watch::start();
    let mut reader =
        Reader::with_engines(&files, &cursor, read, counters.worker(0), &engines).map_err(io::Error::other)?;
    while let Some(piece) = reader.next() {
        let piece = piece.map_err(io::Error::other)?;
        watch.verify(piece.bytes, piece.offset, format);
    }
    Ok((watch.stop(), clock.counts(), clock.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::IoMode;

    #[test]
    fn every_way_verifies_every_page_once_and_the_parts_of_the_time_add_up() {
        let dir = tempfile::tempdir_in(".").expect("temporary directory");
        let path = dir.path().join("sample.ibd");
        let packed =
            std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mysql-9.7/dynamic-16k.ibd.zst"));
        let bytes = zstd::decode_all(&packed.expect("the fixture")[..]).expect("zstd");
        std::fs::write(&path, &bytes).expect("write");
        let (len, pages) = (bytes.len() as u64, bytes.len() as u64 / 16_384);
        let handle = FileHandle::of_file(File::open(&path).expect("opens"), false);
        let format = format_of(&handle).expect("reads").expect("a tablespace");
        let mut all = Vec::new();
        for (threads, piece) in [(1, 16_384), (3, 16_384), (2, 65_536), (16, 1 << 20)] {
            all.push(by_pieces(&handle, len, threads, piece, &format).expect("reads"));
        }
        for workers in [1, 2] {
            let read = ReadOptions { io: IoMode::Buffered, block_size: 1 << 16, depth: 2, ..ReadOptions::default() };
            all.push(by_window(path.clone(), len, workers, &read, &format).expect("reads"));
        }
        for spent in all {
            assert_eq!(spent.pages, pages, "{spent:?}");
            assert_eq!(spent.copying() + spent.waiting() + spent.checksums, spent.all());
            assert!(spent.sound > 0 && spent.checksums > Duration::ZERO, "{spent:?}");
        }
    }
}
