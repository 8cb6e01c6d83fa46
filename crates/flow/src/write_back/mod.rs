//! Changed blocks on their way back into their files, so that no crash leaves a block half written.
//!
//! ```text
//! put -> blocks in memory, at most `memory` bytes
//!   -> shadow file: all of them, whole, with their places and a checksum; synced
//!   -> in place, in the order of files and offsets, neighbours in one write; one sync a file
//!   -> the next batch overwrites the shadow; the last empties it
//! ```
//!
//! At any moment the shadow is either whole, and then it holds every block that may be torn in place, or it is not, and then no
//! block of its batch has been touched. [`WriteBack::replay`] writes the blocks of a whole one in place again, which changes
//! nothing where they are already. Syncs are what orders the steps; none is repeated after it failed: from the first failure on
//! nothing more is written.
//!
//! Sketch: 64 MiB of pages are written twice in sequence, with one sync of the shadow and one of each file touched: on a volume
//! of 10 ms a sync and 1 GiB/s, 150 ms instead of 4096 pages times a sync each.

mod channel;
mod shadow;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use self::channel::Channel;
use crate::queue::OpenQueue;
use crate::{FileHandle, FileId};

/// A file that blocks are written to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which file, for engines that keep files of their own.
    pub file: FileId,
    /// The file, open for reading and writing, through the page cache.
    pub handle: FileHandle,
    /// By which an interrupted run finds it again: it stands in the shadow file.
    pub name: Vec<u8>,
}

/// How blocks are written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBackOptions {
    /// Bytes of blocks that are kept until they are written, all at once. The shadow file becomes a little larger than this.
    pub memory: usize,
    /// Writes in flight at a time.
    pub depth: u16,
    /// Bytes of a write at most; those in flight are copies, so that `depth` times as many bytes are needed.
    pub write_max: u32,
    /// What the run is about, e.g. where the log began from which it makes its blocks. The shadow of a run with another tag is
    /// not replayed.
    pub tag: u64,
}

impl Default for WriteBackOptions {
    fn default() -> Self {
        Self { memory: 64 << 20, depth: 8, write_max: 1 << 20, tag: 0 }
    }
}

/// Why blocks were not written back. What was synced before is safe; the shadow is left for the next run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteBackError {
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
    #[error("blocks cannot be written: {0}")]
    Setup(Arc<io::Error>),
}

/// What became of the shadow of an interrupted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// There was none, or it was not finished: no block has been touched.
    Nothing,
    /// It is that of a run with this tag, and was left alone.
    Foreign(u64),
    /// Its blocks were written in place and synced, so many of them, and it is empty now.
    Blocks(u64),
}

/// Writes blocks into files.
#[derive(Debug)]
pub struct WriteBack {
    channel: Channel,
    shadow: Target,
    targets: BTreeMap<FileId, Target>,
    /// In the order in which they are written.
    blocks: BTreeMap<(FileId, u64), Box<[u8]>>,
    bytes: usize,
    options: WriteBackOptions,
    /// The shadow holds a batch.
    is_used: bool,
    has_failed: bool,
}

impl WriteBack {
    /// A writer with the shadow file `shadow`, which is written to only when there is something to write. Call
    /// [`WriteBack::replay`] before anything else if the file is not new.
    ///
    /// # Errors
    /// [`WriteBackError::Setup`].
    pub fn open(engine: &dyn OpenQueue, shadow: Target, options: WriteBackOptions) -> Result<Self, WriteBackError> {
        let channel = Channel::open(engine, options.depth.max(1), options.write_max.max(1));
        Ok(Self {
            channel: channel.map_err(|error| WriteBackError::Setup(Arc::new(error)))?,
            shadow,
            targets: BTreeMap::new(),
            blocks: BTreeMap::new(),
            bytes: 0,
            options,
            is_used: false,
            has_failed: false,
        })
    }

    /// Names a file that blocks will be put to.
    pub fn add_file(&mut self, target: Target) {
        self.targets.insert(target.file, target);
    }

    /// Has `bytes` written to the file at `offset`, sooner or later. Blocks of a file must not overlap; one that is put again
    /// before it was written is written once. When there are too many, all are written: this waits for it.
    ///
    /// # Errors
    /// What [`WriteBack::flush`] returns; [`io::ErrorKind::NotFound`] for a file that was not [added](WriteBack::add_file).
    pub fn put(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), WriteBackError> {
        if !self.targets.contains_key(&file) {
            return Err(WriteBackError::Setup(Arc::new(io::ErrorKind::NotFound.into())));
        }
        self.bytes += bytes.len();
        if let Some(before) = self.blocks.insert((file, offset), bytes.into()) {
            self.bytes -= before.len();
        }
        if self.bytes >= self.options.memory { self.flush() } else { Ok(()) }
    }

    /// A block that was put and is not written yet.
    #[must_use]
    pub fn get(&self, file: FileId, offset: u64) -> Option<&[u8]> {
        self.blocks.get(&(file, offset)).map(AsRef::as_ref)
    }

    /// Writes and syncs all blocks put so far.
    ///
    /// # Errors
    /// A request failed; all that follows is [`WriteBackError::Latched`].
    pub fn flush(&mut self) -> Result<(), WriteBackError> {
        self.unlatched()?;
        if self.blocks.is_empty() {
            return Ok(());
        }
        self.has_failed = true;
        self.save_shadow()?;
        self.write_in_place()?;
        self.has_failed = false;
        self.blocks.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Writes what is left, and empties the shadow.
    ///
    /// # Errors
    /// As [`WriteBack::flush`].
    pub fn finish(mut self) -> Result<(), WriteBackError> {
        self.flush()?;
        if self.is_used { self.empty_shadow() } else { Ok(()) }
    }

    /// Ends the work of an interrupted run: if the shadow is whole and of this tag, its blocks are written in place. `resolve`
    /// finds a file by its name; the blocks of one that it does not know are passed over.
    ///
    /// # Errors
    /// A request failed.
    pub fn replay(&mut self, mut resolve: impl FnMut(&[u8]) -> Option<Target>) -> Result<Replayed, WriteBackError> {
        self.unlatched()?;
        let head = self.channel.read(&self.shadow, 0, shadow::HEADER_SIZE)?;
        let Some(header) = shadow::Header::parse(&head) else {
            return Ok(Replayed::Nothing);
        };
        if header.tag != self.options.tag {
            return Ok(Replayed::Foreign(header.tag));
        }
        let body = self.channel.read(&self.shadow, shadow::HEADER_SIZE as u64, header.body_len())?;
        let Some(batch) = header.open(&body) else { return Ok(Replayed::Nothing) };
        self.has_failed = true;
        let mut found = BTreeMap::new();
        for (number, name) in &batch.names {
            found.extend(resolve(name).map(|target| (*number, target)));
        }
        let mut written = 0;
        for block in &batch.blocks {
            if let Some(target) = found.get(&block.file) {
                self.channel.write(target, block.offset, block.bytes)?;
                written += 1;
            }
        }
        self.channel.drain()?;
        self.channel.sync(found.values())?;
        self.empty_shadow()?;
        self.has_failed = false;
        Ok(Replayed::Blocks(written))
    }

    fn unlatched(&self) -> Result<(), WriteBackError> {
        if self.has_failed { Err(WriteBackError::Latched) } else { Ok(()) }
    }

    fn save_shadow(&mut self) -> Result<(), WriteBackError> {
        self.is_used = true;
        let files: BTreeSet<FileId> = self.blocks.keys().map(|&(file, _)| file).collect();
        let names = files.iter().filter_map(|file| Some((*file, self.targets.get(file)?.name.as_slice())));
        let blocks = self.blocks.iter().map(|(&(file, offset), bytes)| shadow::Block { file, offset, bytes });
        let (header, directory) = shadow::describe(self.options.tag, names, blocks);
        self.channel.write(&self.shadow, 0, &header)?;
        self.channel.write(&self.shadow, header.len() as u64, &directory)?;
        let mut at = (header.len() + directory.len()) as u64;
        let mut run = Run::default();
        for bytes in self.blocks.values() {
            run.add(&mut self.channel, &self.shadow, at, bytes)?;
            at += bytes.len() as u64;
        }
        run.end(&mut self.channel, &self.shadow)?;
        self.channel.drain()?;
        self.channel.sync([&self.shadow])
    }

    fn write_in_place(&mut self) -> Result<(), WriteBackError> {
        let mut touched: Vec<&Target> = Vec::new();
        let mut run = Run::default();
        for (&(file, offset), bytes) in &self.blocks {
            let Some(target) = self.targets.get(&file) else { continue };
            if let Some(before) = touched.last().filter(|before| before.file != file) {
                run.end(&mut self.channel, before)?;
            }
            if touched.last().is_none_or(|before| before.file != file) {
                touched.push(target);
            }
            run.add(&mut self.channel, target, offset, bytes)?;
        }
        if let Some(last) = touched.last() {
            run.end(&mut self.channel, last)?;
        }
        self.channel.drain()?;
        self.channel.sync(touched)
    }

    fn empty_shadow(&mut self) -> Result<(), WriteBackError> {
        self.channel.write(&self.shadow, 0, &[0; shadow::HEADER_SIZE])?;
        self.channel.drain()?;
        self.channel.sync([&self.shadow])
    }
}

/// Neighbours that are written at once.
#[derive(Debug, Default)]
struct Run {
    offset: u64,
    bytes: Vec<u8>,
}

impl Run {
    fn add(&mut self, channel: &mut Channel, target: &Target, offset: u64, bytes: &[u8]) -> Result<(), WriteBackError> {
        let end = self.offset + self.bytes.len() as u64;
        if end != offset || self.bytes.len() + bytes.len() > channel.write_max() {
            self.end(channel, target)?;
        }
        if self.bytes.is_empty() {
            self.offset = offset;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, channel: &mut Channel, target: &Target) -> Result<(), WriteBackError> {
        if !self.bytes.is_empty() {
            channel.write(target, self.offset, &self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }
}
