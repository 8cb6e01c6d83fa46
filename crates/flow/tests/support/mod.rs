//! Files with known bytes, and a function that reads them all and checks what every reader must guarantee.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::PathBuf;

use innokit_flow::queue::OpenQueue;
use innokit_flow::{
    BLOCK_ALIGN, Block, Counters, Counts, Cursor, FileId, FileSet, Gap, PageCache, ReadOptions, Reader, run_workers,
};
use rustix::fs::Advice;
use tempfile::TempDir;

/// Files on the disk of the build, removed when dropped.
pub struct Files {
    pub dir: TempDir,
    pub contents: Vec<Vec<u8>>,
}

impl Files {
    /// One file for each size, each with different bytes.
    pub fn new(sizes: &[usize]) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let contents: Vec<_> = sizes.iter().enumerate().map(|(file, &size)| bytes_of(file, size)).collect();
        let files = Self { dir, contents };
        for (file, bytes) in files.contents.iter().enumerate() {
            fs::write(files.path(file), bytes).unwrap();
        }
        files
    }

    pub fn path(&self, file: usize) -> PathBuf {
        self.dir.path().join(format!("{file:05}"))
    }

    pub fn set(&self) -> FileSet {
        FileSet::new(self.contents.iter().enumerate().map(|(file, bytes)| (self.path(file), bytes.len() as u64)))
    }

    pub fn total(&self) -> u64 {
        self.contents.iter().map(|bytes| bytes.len() as u64).sum()
    }

    /// Takes all files out of the page cache.
    pub fn make_cold(&self) {
        rustix::fs::syncfs(File::open(self.dir.path()).unwrap()).unwrap();
        for file in 0..self.contents.len() {
            let file = File::open(self.path(file)).unwrap();
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }

    /// The result of `read` with all files in the page cache. Another process may drop the cache meanwhile, as a benchmark next to the
    /// tests does. Then the cache is filled and `read` called again.
    pub fn while_hot<T>(&self, read: impl Fn() -> T) -> T {
        for _ in 0..10 {
            for file in 0..self.contents.len() {
                fs::read(self.path(file)).unwrap();
            }
            let result = read();
            if self.cached() == self.total() {
                return result;
            }
        }
        panic!("the page cache does not keep {} bytes", self.total());
    }

    /// The bytes of all files that are in the page cache, in pages of 4096.
    pub fn cached(&self) -> u64 {
        let mut cache = PageCache::new();
        let mut cached = 0;
        for (index, bytes) in self.contents.iter().enumerate() {
            let file = File::open(self.path(index)).unwrap();
            for offset in (0..bytes.len()).step_by(4096) {
                let len = (bytes.len() - offset).min(4096) as u32;
                let block = Block { file: FileId(0), offset: offset as u64, len };
                cached += if cache.holds(file.as_fd(), &block) { u64::from(len) } else { 0 };
            }
        }
        cached
    }
}

/// Bytes that differ between files and offsets.
pub fn bytes_of(file: usize, size: usize) -> Vec<u8> {
    let mut state = file as u64 + 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_be_bytes());
    }
    bytes.truncate(size);
    bytes
}

pub fn options(io: innokit_flow::IoMode) -> ReadOptions {
    ReadOptions { io, block_size: BLOCK_ALIGN, cached_piece: BLOCK_ALIGN, ..ReadOptions::default() }
}

/// The result of reading everything.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The delivered bytes of each file, at their offsets.
    pub contents: Vec<Vec<u8>>,
    pub gaps: Vec<(u32, Gap)>,
    pub failed: Vec<(Block, String)>,
    pub counts: Counts,
    pub engines: Vec<&'static str>,
    pub notes: Vec<String>,
}

/// A delivered piece.
struct Seen {
    file: u32,
    offset: u64,
    bytes: Vec<u8>,
    asked: u32,
}

/// Reads everything with the engine of the options.
pub fn read(files: &FileSet, options: &ReadOptions, workers: usize) -> Outcome {
    read_with(files, options, workers, options.engine.candidates())
}

/// Reads everything with the given engines and checks what must always hold. In each worker, blocks come in cursor order, the pieces of a
/// block ascend and add up to it, only the last one is marked as such and may be short, and gaps are inside their piece. Over all workers,
/// each byte of each file is requested exactly once.
pub fn read_with(files: &FileSet, options: &ReadOptions, workers: usize, engines: &[&dyn OpenQueue]) -> Outcome {
    let cursor = Cursor::sweep(files, options.block_size);
    let counters = Counters::new(workers);
    let results = run_workers(workers, |worker| {
        let counters = counters.worker(worker);
        let mut reader = Reader::with_engines(files, &cursor, options, counters, engines).unwrap();
        assert_eq!(reader.memory_max(), options.memory_max());
        let mut outcome = Outcome::default();
        let seen = drain(&mut reader, &mut outcome);
        outcome.engines.push(reader.engine_name());
        outcome.notes = reader.notes().to_vec();
        (seen, outcome)
    });
    let mut all = Outcome { contents: lengths(files).map(|len| vec![0; len as usize]).collect(), ..Outcome::default() };
    let mut asked = Vec::new();
    for (seen, outcome) in results {
        asked.extend(outcome.failed.iter().map(|(block, _)| (block.file.0, block.offset, block.len)));
        for piece in seen {
            asked.push((piece.file, piece.offset, piece.asked));
            let start = piece.offset as usize;
            all.contents[piece.file as usize][start..start + piece.bytes.len()].copy_from_slice(&piece.bytes);
        }
        all.gaps.extend(outcome.gaps);
        all.failed.extend(outcome.failed);
        all.engines.extend(outcome.engines);
        all.notes.extend(outcome.notes);
    }
    assert_each_byte_once(files, asked);
    all.counts = counters.total();
    all
}

fn lengths(files: &FileSet) -> impl Iterator<Item = u64> {
    (0..files.len()).map(|file| files.len_of(FileId(file as u32)))
}

fn drain(reader: &mut Reader<'_>, outcome: &mut Outcome) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    let mut place = (0, 0);
    let mut open: Option<(u32, u64)> = None;
    while let Some(piece) = reader.next() {
        let piece = match piece {
            Ok(piece) => piece,
            Err(failure) => {
                assert_eq!(open, None, "a block fails as a whole");
                outcome.failed.push((failure.block, failure.to_string()));
                continue;
            }
        };
        assert!((piece.file.0, piece.offset) >= place, "blocks in order");
        assert!(piece.offset.is_multiple_of(u64::from(BLOCK_ALIGN)));
        if let Some(expected) = open {
            assert_eq!((piece.file.0, piece.offset), expected, "pieces of a block follow each other");
        }
        assert!(piece.bytes.len() == piece.asked as usize || piece.bytes.len() < piece.asked as usize && piece.last);
        place = (piece.file.0, piece.offset + u64::from(piece.asked));
        open = (!piece.last).then_some(place);
        for gap in piece.gaps {
            let start = (gap.offset - piece.offset) as usize;
            assert!(piece.bytes[start..start + gap.len as usize].iter().all(|&byte| byte == 0), "zeros in gaps");
            outcome.gaps.push((piece.file.0, gap.clone()));
        }
        seen.push(Seen { file: piece.file.0, offset: piece.offset, bytes: piece.bytes.to_vec(), asked: piece.asked });
    }
    assert_eq!(open, None, "the last piece says so");
    seen
}

fn assert_each_byte_once(files: &FileSet, mut asked: Vec<(u32, u64, u32)>) {
    asked.sort_unstable();
    let mut asked = asked.into_iter().peekable();
    for (file, len) in lengths(files).enumerate() {
        let mut place = 0;
        while let Some((_, offset, len)) = asked.next_if(|(of, _, _)| *of as usize == file) {
            assert_eq!(offset, place, "file {file}: neither twice nor left out");
            place += u64::from(len);
        }
        assert_eq!(place, len, "file {file}: to its end");
    }
    assert_eq!(asked.next(), None);
}
