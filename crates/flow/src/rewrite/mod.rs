//! Blocks of files that are read, changed, and written back in place, so that no crash leaves a block half written.
//!
//! ```text
//! stretches -> read, many at a time, each into a buffer of its own -> changed there, by all workers
//!   -> the shadow file: what differs, with its place and a checksum; one write and one sync for many stretches
//!   -> in place, from the same buffer
//! all at once: while one stretch is written another is changed and a third is read
//! ```
//!
//! The shadow holds of a block only the bytes that changed. A block that a crash tears is a mix of old and new bytes: where both
//! are the same it is right already, and where they differ the shadow has the new ones. [`replay`] writes those in
//! place again, which changes nothing where they are already. So that "old" means the same after a crash, what the files hold is
//! made durable before the first write in place.
//!
//! Batches of the shadow form a chain; no block is written in place before its batch is durable. When the shadow is full, the
//! files are synced, and a new chain begins. Nothing else syncs them: a run costs one sync a file and shadow, and one of
//! the shadow a batch, while other stretches are on their way. No sync is repeated after it failed: from the first failure on
//! nothing more is written.
//!
//! Sketch: 2 GiB of pages of which a tenth changes, on a volume of 1 GiB/s: 2 s to read, 2 s to write, 0.2 s for the shadow. To
//! write whole pages into a shadow first would take 2 s more, and waiting for each step before the next as much again.

mod changes;
mod channel;
mod crew;
mod pipeline;
mod shadow;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::Arc;

pub use self::changes::Changes;
use self::channel::Channel;
use self::crew::Crew;
use self::pipeline::Pipeline;
use crate::queue::{OpenQueue, Queue};
use crate::{BufferPool, FileHandle, FileId};

/// Buffers that no read may take: those of the shadow.
const RESERVE: usize = 2;
/// How a shadow is replayed: its pieces are small.
const REPLAY_DEPTH: u16 = 32;
const REPLAY_WRITE_MAX: u32 = 64 << 10;

/// A file that is rewritten.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which file, for engines that keep files of their own.
    pub file: FileId,
    /// The file, open for reading and writing. If it is direct, all its stretches and blocks are multiples of 4096 bytes.
    pub handle: FileHandle,
    /// By which an interrupted run finds it again: it stands in the shadow file.
    pub name: Vec<u8>,
}

/// How blocks are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewriteOptions {
    /// Bytes of stretches that are in memory at a time; room for four at least.
    pub memory: usize,
    /// Bytes of a stretch at most.
    pub stretch_max: u32,
    /// Requests in flight at a time.
    pub depth: u32,
    /// Threads that change stretches. With 0 the caller's does, so that a simulated device sees the same order in every run.
    pub workers: usize,
    /// Whether stretches are read while others are written. If not, memory is filled, changed and written by turns.
    pub overlap: bool,
    /// Bytes of the shadow file, about: when it is full, the files are synced.
    pub shadow_max: u64,
    /// What the run is about, e.g. where the log began from which it makes its blocks. The shadow of a run with another tag is
    /// not replayed.
    pub tag: u64,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            stretch_max: 512 << 10,
            depth: 64,
            workers: 1,
            overlap: true,
            shadow_max: 256 << 20,
            tag: 0,
        }
    }
}

/// A stretch of a file, in which some blocks are to be changed. No two stretches of a run overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The file.
    pub file: FileId,
    /// Where it begins, bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Whether what is there is wanted; otherwise it comes as zeros.
    pub is_read: bool,
    /// The caller's name for it.
    pub tag: usize,
}

/// What is done to stretches, by any thread, in any order.
pub trait Change: Sync {
    /// What a thread keeps from one stretch to the next.
    type Scratch: Default;
    /// Why it cannot be done.
    type Error: Send;

    /// Changes the bytes of a stretch, and says which.
    ///
    /// # Errors
    /// The run ends with this error. What was changed before may have been written.
    fn change(
        &self,
        stretch: &Stretch,
        bytes: &mut [u8],
        changes: &mut Changes,
        scratch: &mut Self::Scratch,
    ) -> Result<(), Self::Error>;
}

/// Why blocks were not written. What was synced before is safe; the shadow is left for the next run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RewriteError {
    /// A request failed.
    #[error("{name}: {action}: {source}")]
    Io {
        /// The file's name.
        name: String,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// An earlier request failed, so that nobody knows what the files hold.
    #[error("nothing more is written, since an earlier write failed")]
    Latched,
    /// The system does not give the memory, or none of the engines works.
    #[error("blocks cannot be rewritten: {0}")]
    Setup(Arc<io::Error>),
    /// A stretch is of a file that was not added, too long, or its change ended in a panic.
    #[error("blocks cannot be rewritten: a fault of this program")]
    Fault,
}

/// Why a run ended early.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError<E> {
    /// A stretch could not be changed.
    #[error("{0}")]
    Change(E),
    /// A stretch could not be read or written.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
}

/// What became of the shadow of an interrupted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// There was none, or nothing was in it: no block has been touched that is not durable.
    Nothing,
    /// It is that of a run with this tag, and was left alone.
    Foreign(u64),
    /// What differs of blocks was written in place and synced, in so many pieces, and it is empty now.
    Pieces(u64),
}

/// Rewrites blocks of files.
pub struct Rewriter {
    queue: Box<dyn Queue>,
    pool: BufferPool,
    targets: BTreeMap<FileId, Target>,
    /// `None`: nothing is written, whatever is changed.
    shadow: Option<Shadow>,
    options: RewriteOptions,
    has_failed: bool,
}

impl std::fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rewriter {{ files: {}, shadow: {:?}, {:?} }}", self.targets.len(), self.shadow, self.options)
    }
}

/// The shadow file, and how far it is written.
#[derive(Debug)]
struct Shadow {
    target: Target,
    /// 0: none was begun.
    chain: u64,
    /// Of the next batch.
    number: u64,
    /// Where that goes, bytes.
    at: u64,
    /// Files with writes that are not synced yet.
    touched: BTreeSet<FileId>,
}

impl Rewriter {
    /// A rewriter with a shadow file, or, without one, one that writes nothing. Call [`replay`] before if the file is not new.
    ///
    /// # Errors
    /// [`RewriteError::Setup`].
    pub fn open(engine: &dyn OpenQueue, shadow: Option<Target>, options: RewriteOptions) -> Result<Self, RewriteError> {
        let setup = |error| RewriteError::Setup(Arc::new(error));
        let count = (options.memory / options.stretch_max.max(1) as usize).clamp(4, usize::from(u16::MAX) - 1);
        let count = u16::try_from(count + RESERVE).unwrap_or(u16::MAX);
        let pool = BufferPool::new(count, options.stretch_max.max(shadow::ALIGN as u32)).map_err(setup)?;
        let options = RewriteOptions { depth: options.depth.max(1), ..options };
        let queue = engine.open(options.depth, pool.free()).map_err(setup)?;
        let shadow = shadow.map(|target| Shadow { target, chain: 0, number: 0, at: 0, touched: BTreeSet::new() });
        Ok(Self { queue, pool, targets: BTreeMap::new(), shadow, options, has_failed: false })
    }

    /// Names a file of which there will be stretches.
    pub fn add_file(&mut self, target: Target) {
        self.targets.insert(target.file, target);
    }

    /// Has all stretches read, changed and written in place. They are durable after [`Rewriter::finish`] only, but whole after any
    /// crash, once [replayed](replay). A later run may have the same stretches again.
    ///
    /// # Errors
    /// The first failure; all that follows is [`RewriteError::Latched`].
    pub fn run<C: Change>(
        &mut self,
        stretches: impl IntoIterator<Item = Stretch>,
        change: &C,
    ) -> Result<(), RunError<C::Error>> {
        self.guarded(|rewriter| {
            std::thread::scope(|scope| {
                let crew = Crew::hire(scope, rewriter.options.workers, change);
                Pipeline::new(rewriter, stretches.into_iter(), crew).run()
            })
        })
    }

    /// Makes all durable, and empties the shadow.
    ///
    /// # Errors
    /// As [`Rewriter::run`].
    pub fn finish(mut self) -> Result<(), RewriteError> {
        self.guarded(|rewriter| Pipeline::new(rewriter, std::iter::empty(), Crew::<Infallible>::none()).finish())
    }

    /// Does nothing more after a failure.
    fn guarded<E: From<RewriteError>>(&mut self, work: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        if std::mem::replace(&mut self.has_failed, true) {
            return Err(RewriteError::Latched.into());
        }
        work(self)?;
        self.has_failed = false;
        Ok(())
    }
}

/// A chain's number: whatever lies behind a new chain is not of it.
fn chain_number() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

/// Ends the work of an interrupted run, through the page cache: if its shadow holds a chain with this tag, the pieces are written in
/// place. `resolve` finds a file by its name; what is of one that it does not know is passed over.
///
/// # Errors
/// A request failed: to be tried again.
pub fn replay(
    engine: &dyn OpenQueue,
    shadow: &Target,
    tag: u64,
    mut resolve: impl FnMut(&[u8]) -> Option<Target>,
) -> Result<Replayed, RewriteError> {
    let channel = Channel::open(engine, REPLAY_DEPTH, REPLAY_WRITE_MAX);
    let mut channel = channel.map_err(|error| RewriteError::Setup(Arc::new(error)))?;
    let mut files: BTreeMap<Vec<u8>, Option<Target>> = BTreeMap::new();
    let (mut at, mut written, mut chain) = (0, 0, None);
    for number in 0.. {
        let head = channel.read(shadow, at, shadow::HEADER_SIZE)?;
        let Some(header) = shadow::Header::parse(&head) else { break };
        if header.place.tag != tag {
            return Ok(Replayed::Foreign(header.place.tag));
        }
        if (header.place.chain, header.place.number) != (*chain.get_or_insert(header.place.chain), number) {
            break;
        }
        let body = channel.read(shadow, at + shadow::HEADER_SIZE as u64, header.body_len())?;
        let Some(batch) = header.open(&body) else { break };
        let mut of_batch = BTreeMap::new();
        for (file, name) in batch.names {
            let target = files.entry(name).or_insert_with_key(|name| resolve(name));
            of_batch.extend(target.clone().map(|target| (file, target)));
        }
        for piece in &batch.pieces {
            if let Some(target) = of_batch.get(&piece.file) {
                channel.write(target, piece.offset, piece.bytes)?;
                written += 1;
            }
        }
        // A later batch may have bytes of the same block.
        channel.drain()?;
        at += header.len() as u64;
    }
    if at == 0 {
        return Ok(Replayed::Nothing);
    }
    channel.sync(files.values().flatten())?;
    let place = shadow::Place { tag, chain: chain_number(), number: 0 };
    channel.write(shadow, 0, &shadow::batch(place, std::iter::empty(), std::iter::empty()))?;
    channel.drain()?;
    channel.sync([shadow])?;
    Ok(if written == 0 { Replayed::Nothing } else { Replayed::Pieces(written) })
}
