//! One worker's reader: takes blocks from the cursor, keeps a bounded window of them in flight, and hands the bytes over in the order in
//! which it took the blocks.
//!
//! # Sketch
//!
//! For a run over `n` bytes, with the default sizes:
//!
//! * bytes: hot, one copy from the page cache into 128 KiB that stay in the core's own cache; cold, no copy.
//! * operations: hot, a cache query for each MiB and a read for each 128 KiB, four calls for a small file (open,
//!   query, read, close); cold, one request of the device for each MiB.
//! * bandwidth: a device of 1 to 8 GiB/s answers in 0.1 to 1 ms, so 1 to 8 MiB in flight keep it busy: 8 blocks of a MiB.
//! * memory: 8 MiB and one piece for each worker, whatever `n` is.
//!
//! Measured with `examples/sweep.rs` on ext4 and a virtio disk, in pairs, medians of 12: cold, one worker 2.0 times and
//! two workers 2.2 times the best of `fio` (`io_uring`, direct, 1 to 4 MiB, 8 to 16 deep), whose buffers are not huge
//! pages and so cost the device two requests for a MiB. With two workers, 16 to 64 MiB in flight are within 10% of each
//! other, so the smallest is the default. Hot, one worker spends the processor time of `cat`, within 10%; on 5,000 files of
//! 112 KiB less than a fifth of it.

mod window;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::counters::{WorkerCounters, add};
use crate::files::OpenFile;
use crate::options::OptionsError;
use crate::queue::OpenQueue;
use crate::split::{Gap, Splitter};
use crate::{Block, Buffer, Engine, FileId, FileSet, Plan, ReadOptions};
use window::{Front, Read, Window};

/// Bytes of one block, in ascending order. A block consists of one piece or several.
///
/// The `asked` of all pieces of a block always add up to its length.
#[derive(Debug)]
pub struct Piece<'b> {
    /// The file.
    pub file: FileId,
    /// Where the piece starts in the file, in bytes; a multiple of [`BLOCK_ALIGN`](crate::BLOCK_ALIGN) from its block's start.
    pub offset: u64,
    /// The bytes; zeros in gaps.
    pub bytes: &'b [u8],
    /// How many bytes were requested. Fewer arrived if the file ends early; then `last` is set, and `asked` is the rest of the block.
    pub asked: u32,
    /// The parts of the piece that the device could not read, in ascending order.
    pub gaps: &'b [Gap],
    /// Whether this is the last piece of its block.
    pub last: bool,
}

/// A block that could not be read at all, because its file cannot be opened or no engine works any more. It is handed over in its place
/// among the others, so that a caller that counts sees every block.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} cannot be read: {error}", path.display())]
pub struct FileFailure {
    /// The file.
    pub file: FileId,
    /// Its path.
    pub path: PathBuf,
    /// The missing block. Every other block of the file will fail in the same way.
    pub block: Block,
    /// The system's error.
    pub error: Arc<io::Error>,
}

/// Why a reader could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// An invalid size.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The requested engine does not work here.
    #[error("{engine} does not work here: {error}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The page-cache buffer could not be allocated.
    #[error("not enough memory for the read buffers: {0}")]
    Memory(io::Error),
}

/// Reads one worker's share of a cursor's blocks. Used only on that worker's thread.
pub struct Reader<'f> {
    options: ReadOptions,
    counters: &'f WorkerCounters,
    window: Window<'f>,
    /// The buffer of the block that was handed over last and was read by the queue.
    handed: Option<Buffer>,
    /// The block that is being handed over in pieces from the page cache.
    steps: Option<Steps>,
    /// The piece last read from the page cache: always the same buffer, so that it stays in the core's cache.
    hot: Buffer,
    gaps: Vec<Gap>,
}

/// Progress in a block that is read from the page cache on demand.
struct Steps {
    block: Block,
    file: Arc<OpenFile>,
    done: u32,
}

/// The engines to try for these files.
pub(crate) fn engines_for(files: &FileSet, engine: Engine) -> &'static [&'static dyn OpenQueue] {
    let fuse = engine == Engine::Auto && files.engine().is_none() && files.is_on_fuse();
    if fuse { Engine::of_fuse() } else { engine }.candidates()
}

impl<'f> Reader<'f> {
    /// A reader with the engine of the options. With [`Engine::Auto`], files on FUSE are read by threads, and the engine and its buffers are created for the first block that is
    /// not in the page cache.
    ///
    /// # Errors
    /// Invalid sizes; `io_uring` requested by name where it does not work.
    pub fn new(
        files: &'f FileSet,
        cursor: &'f dyn Plan,
        options: &ReadOptions,
        counters: &'f WorkerCounters,
    ) -> Result<Self, ReaderError> {
        let engines = engines_for(files, options.engine);
        let mut reader = Self::with_engines(files, cursor, options, counters, engines)?;
        if options.engine == Engine::Uring && files.engine().is_none() {
            reader.window.open_lane().map_err(|error| ReaderError::Engine { engine: "io_uring", error })?;
        }
        Ok(reader)
    }

    /// A reader that tries the given engines in turn, whatever the options say, once it needs one. Files that bring an engine along
    /// ([`FileSet::carried_by`]) are read with that one only.
    ///
    /// # Errors
    /// Invalid sizes.
    pub fn with_engines(
        files: &'f FileSet,
        cursor: &'f dyn Plan,
        options: &ReadOptions,
        counters: &'f WorkerCounters,
        engines: &'f [&'f dyn OpenQueue],
    ) -> Result<Self, ReaderError> {
        options.validate()?;
        if cursor.block_size() > options.block_size {
            return Err(OptionsError::BlockSize(options.block_size).into());
        }
        let hot = Buffer::alone(options.cached_piece).map_err(ReaderError::Memory)?;
        let window = Window::new(files, cursor, options, counters, engines);
        Ok(Self { options: options.clone(), counters, window, handed: None, steps: None, hot, gaps: Vec::new() })
    }

    /// The next piece, or the next failed block; `None` if the cursor has no more blocks.
    #[expect(clippy::should_implement_trait, reason = "a piece borrows from the reader, which Iterator cannot say")]
    pub fn next(&mut self) -> Option<Result<Piece<'_>, FileFailure>> {
        if self.steps.as_ref().is_some_and(|steps| steps.done < steps.block.len) {
            return self.step();
        }
        self.steps = None;
        if let Some(buffer) = self.handed.take() {
            self.window.give_back(buffer);
        }
        self.window.fill();
        match self.window.pop()? {
            Front::Failed(failure) => Some(Err(failure)),
            Front::Cached { block, file } => {
                self.steps = Some(Steps { block, file, done: 0 });
                self.step()
            }
            Front::Read(read) => Some(Ok(self.whole(read))),
        }
    }

    /// Hands over a block that the queue has read.
    fn whole(&mut self, read: Read) -> Piece<'_> {
        let Read { block, direct, buffer, valid, gaps } = read;
        let valid = valid.min(block.len);
        let buffer = self.handed.insert(buffer);
        self.gaps = gaps;
        let lost = clear_gaps(&mut self.gaps, block.offset, buffer, valid);
        let read = u64::from(valid - lost);
        add(&self.counters.bytes_read, read);
        if direct {
            add(&self.counters.bytes_direct, read);
        }
        self.counters.count_gaps(&self.gaps);
        let bytes = buffer.first(valid);
        Piece { file: block.file, offset: block.offset, bytes, asked: block.len, gaps: &self.gaps, last: true }
    }

    /// Reads the next piece of a block that is in the page cache; `None` if there is no such block.
    fn step(&mut self) -> Option<Result<Piece<'_>, FileFailure>> {
        let Steps { block, file, done } = self.steps.as_mut()?;
        let offset = block.offset + u64::from(*done);
        let left = block.len - *done;
        let want = left.min(self.options.cached_piece);
        let mut splitter = Splitter::new(offset, want, false);
        let mut requests = 0;
        while let Some(range) = splitter.next() {
            requests += 1;
            let at = offset + u64::from(range.start);
            let bytes = self.hot.range_mut(range.clone());
            let got = file.buffered().and_then(|fd| Ok(rustix::io::pread(fd, bytes, at)?));
            splitter.record(range, got.map(|got| got as u32));
        }
        let (valid, gaps) = splitter.finish();
        let asked = if valid < want { left } else { want };
        *done += asked;
        let last = *done == block.len;
        self.gaps = gaps;
        let lost = clear_gaps(&mut self.gaps, offset, &mut self.hot, valid);
        let read = u64::from(valid - lost);
        add(&self.counters.bytes_read, read);
        add(&self.counters.bytes_cached, read);
        add(&self.counters.requests, requests);
        if requests > 1 {
            add(&self.counters.retries, requests - 1);
        }
        self.counters.count_gaps(&self.gaps);
        Some(Ok(Piece { file: block.file, offset, bytes: self.hot.first(valid), asked, gaps: &self.gaps, last }))
    }

    /// The engine's name as users know it; "none" until the first block that is not in the page cache.
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        self.window.engine_name()
    }

    /// Notes for a user who asks for details: which engines do not work here and why, and what was done instead.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.window.notes()
    }

    /// Maximum memory for this reader's buffers, in bytes.
    #[must_use]
    pub fn memory_max(&self) -> u64 {
        self.options.memory_max()
    }
}

/// Writes zeros over missing bytes, so that the buffer's old content is never processed. Truncates the gaps to the `valid` bytes that are
/// handed over. Returns how many of these are lost.
fn clear_gaps(gaps: &mut [Gap], offset: u64, buffer: &mut Buffer, valid: u32) -> u32 {
    let mut lost = 0;
    for gap in gaps {
        let start = u32::try_from(gap.offset - offset).unwrap_or(valid).min(valid);
        gap.len = gap.len.min(valid - start);
        buffer.range_mut(start..start + gap.len).fill(0);
        lost += gap.len;
    }
    lost
}
