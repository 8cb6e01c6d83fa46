//! The bytes of one file: blocks in the upper, or the base's.
//!
//! ```text
//! read:  a block in the upper -> its data file; else the base's bytes below `base_len`, and zeros behind
//! write: bytes to the data file (a block of which only a part is written is completed first) -> a record of new blocks, not synced -> bits
//! sync:  data file -> its name -> a durable record of new blocks and the length -> the journal -> reply
//! cut:   a record of the new length -> the journal is synced -> bits, and space
//! ```
//!
//! A bit in a durable record promises that the bytes are durable, so it is written after them. A cut is synced at once: the bytes behind it
//! are gone then, and a power cut must not bring the bits back that promise them.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::blocks::{BLOCK, Blocks, block_of, blocks_of};
use super::disk::{Disk, DiskFile};
use super::journal::Journal;
use super::record::{RANGES_MAX, Record};

/// The files of the base.
pub trait Base: std::fmt::Debug + Send + Sync {
    /// Opens a file by its path in the base.
    ///
    /// # Errors
    /// The system's error.
    fn open(&self, path: &std::path::Path) -> io::Result<Arc<dyn BaseFile>>;
}

/// A file of the base, open.
pub trait BaseFile: std::fmt::Debug + Send + Sync {
    /// Reads bytes: all, or fewer at its end.
    ///
    /// # Errors
    /// The system's error, or that a page cannot be made.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// What all files of an upper share.
#[derive(Debug)]
pub struct Shared {
    /// Where it is kept.
    pub disk: Arc<dyn Disk>,
    /// What lies below.
    pub base: Arc<dyn Base>,
    /// What happened.
    pub journal: Journal,
    /// Bytes read from the upper and from the base.
    pub read: [AtomicU64; 2],
}

/// The bytes of a file.
#[derive(Debug)]
pub struct Content {
    id: u64,
    base: Option<PathBuf>,
    state: Mutex<State>,
    /// Held by a sync or a cut from its beginning to its end, so that a record of an older length never follows one of a newer.
    order: Mutex<()>,
    is_removed: AtomicBool,
}

/// What is known of a file's bytes.
#[derive(Debug, Default)]
pub struct State {
    /// Its length.
    pub size: u64,
    /// How much of the base is visible.
    pub base_len: u64,
    /// Blocks in the upper.
    pub blocks: Blocks,
    /// Those of which no durable record says so.
    pub fresh: Vec<Range<u64>>,
    /// When it was written.
    pub modified: (i64, u32),
    /// The length has changed since the last durable record.
    is_longer: bool,
    /// The data file has bytes that were not synced.
    is_dirty: bool,
    /// The data file's name may not be durable.
    is_new: bool,
    /// A sync failed, and what was written before may be lost.
    has_failed: bool,
    data: Option<Arc<dyn DiskFile>>,
    below: Option<Arc<dyn BaseFile>>,
}

/// The name of a file's data in the upper.
pub fn data_name(id: u64) -> String {
    format!("{id:08x}.data")
}

/// The time as the journal has it.
pub fn now() -> (i64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl State {
    /// A file without blocks in the upper.
    pub fn new(size: u64, base_len: u64, modified: (i64, u32)) -> Self {
        Self { size, base_len, modified, ..Self::default() }
    }

    /// Learns from a record that blocks are in the upper.
    pub fn learn(&mut self, (size, modified): (u64, (i64, u32)), ranges: &[Range<u64>], is_durable: bool) {
        // A sync may record the length that it began with behind a write that came meanwhile. A cut has a record of its own.
        (self.size, self.modified) = (self.size.max(size), modified);
        for range in ranges {
            let added = self.blocks.add(range.clone());
            if !is_durable {
                self.fresh.extend(added);
                self.is_dirty = true;
            }
        }
        self.is_longer |= !is_durable;
        if is_durable {
            self.fresh.retain(|one| !ranges.iter().any(|range| range.start <= one.start && one.end <= range.end));
        }
    }

    /// Everything is durable.
    pub fn settle(&mut self) {
        self.fresh.clear();
        (self.is_dirty, self.is_longer) = (false, false);
    }

    /// Forgets what is behind the new end.
    pub fn cut(&mut self, size: u64, base_len: u64) {
        let end = blocks_of(size);
        if size < self.size {
            self.blocks.cut(end);
            self.fresh.retain_mut(|range| {
                range.end = range.end.min(end);
                range.start < range.end
            });
        }
        (self.size, self.base_len) = (size, base_len);
    }
}

impl Content {
    /// A file as the state says.
    pub fn new(id: u64, base: Option<PathBuf>, state: State) -> Self {
        let (state, order) = (Mutex::new(state), Mutex::new(()));
        Self { id, base, state, order, is_removed: AtomicBool::new(false) }
    }

    /// Its state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Its path in the base.
    pub const fn base(&self) -> Option<&PathBuf> {
        self.base.as_ref()
    }

    /// From now on nothing about it is recorded: it has no name.
    pub fn remove(&self) {
        self.is_removed.store(true, Ordering::SeqCst);
    }

    fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::SeqCst)
    }

    /// Closes what is open, as far as nothing is left to be synced.
    pub fn close(&self) {
        let mut state = self.state();
        if !state.is_dirty {
            state.data = None;
        }
        state.below = None;
    }

    /// Reads bytes: all, or fewer at its end.
    pub fn read(&self, shared: &Shared, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        let len = index(state.size.saturating_sub(offset)).min(bytes.len());
        let Some(bytes) = bytes.get_mut(..len).filter(|bytes| !bytes.is_empty()) else { return Ok(0) };
        let end = offset + len as u64;
        let runs: Vec<_> = state.blocks.runs(block_of(offset)..blocks_of(end)).collect();
        let base_len = state.base_len;
        let data = if runs.iter().any(|(_, is_upper)| *is_upper) { Some(self.data(shared, &mut state)?) } else { None };
        let below = if runs.iter().all(|(_, is_upper)| *is_upper) { None } else { self.below(shared, &mut state)? };
        // A page of the base may take long to make.
        drop(state);
        for (run, is_upper) in runs {
            let (from, to) = ((run.start * BLOCK).max(offset), (run.end * BLOCK).min(end));
            let Some(part) = bytes.get_mut(index(from - offset)..index(to - offset)) else { continue };
            match &data {
                Some(data) if is_upper => {
                    let read = data.read_at(part, from)?;
                    part.iter_mut().skip(read).for_each(|byte| *byte = 0);
                }
                _ => read_below(below.as_deref(), base_len, part, from)?,
            }
            // Relaxed: a count for a report.
            if let Some(count) = shared.read.get(usize::from(!is_upper)) {
                count.fetch_add(to - from, Ordering::Relaxed);
            }
        }
        Ok(len)
    }

    /// Writes all the bytes.
    pub fn write(&self, shared: &Shared, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        let data = self.data(shared, &mut state)?;
        let end = offset + bytes.len() as u64;
        self.clear_tail(&data, &mut state, offset)?;
        let blocks = block_of(offset)..blocks_of(end);
        let has_first = offset.is_multiple_of(BLOCK) || state.blocks.has(blocks.start);
        let has_last = end.is_multiple_of(BLOCK) || state.blocks.has(blocks.end - 1);
        state.is_dirty = true;
        if has_first && has_last {
            data.write_at(bytes, offset)?;
        } else {
            let below = self.below(shared, &mut state)?;
            let (from, to) = (
                if has_first { offset } else { blocks.start * BLOCK },
                if has_last { end } else { blocks.end * BLOCK },
            );
            let mut whole = vec![0; index(to - from)];
            for (is_there, block) in [(has_first, blocks.start), (has_last, blocks.end - 1)] {
                let at = (block * BLOCK).saturating_sub(from);
                if let Some(part) = whole.get_mut(index(at)..index(at + BLOCK)).filter(|_| !is_there) {
                    read_below(below.as_deref(), state.base_len, part, block * BLOCK)?;
                }
            }
            if let Some(part) = whole.get_mut(index(offset - from)..index(end - from)) {
                part.copy_from_slice(bytes);
            }
            data.write_at(&whole, from)?;
        }
        self.own(shared, &mut state, blocks, end)
    }

    /// Copies blocks of the base that are not in the upper yet. Returns how many bytes.
    pub fn hydrate(&self, shared: &Shared, blocks: Range<u64>) -> io::Result<u64> {
        let mut copied = 0;
        if self.is_removed() {
            return Ok(copied);
        }
        let mut state = self.state();
        let end = blocks_of(state.base_len.min(state.size)).min(blocks.end);
        let missing: Vec<_> = state.blocks.runs(blocks.start..end).filter(|(_, is_upper)| !is_upper).collect();
        for (run, _) in missing {
            let (data, below) = (self.data(shared, &mut state)?, self.below(shared, &mut state)?);
            let mut bytes = vec![0; index((run.end - run.start) * BLOCK)];
            read_below(below.as_deref(), state.base_len, &mut bytes, run.start * BLOCK)?;
            state.is_dirty = true;
            data.write_at(&bytes, run.start * BLOCK)?;
            copied += bytes.len() as u64;
            let (size, modified) = (state.size, state.modified);
            self.own(shared, &mut state, run, size)?;
            state.modified = modified;
        }
        Ok(copied)
    }

    /// Has the range read as zeros. The file does not grow.
    pub fn zero(&self, shared: &Shared, offset: u64, len: u64) -> io::Result<()> {
        let end = (offset.saturating_add(len)).min(self.state().size);
        let (first, last) = (blocks_of(offset), block_of(end));
        if first < last {
            let mut state = self.state();
            let data = self.data(shared, &mut state)?;
            state.is_dirty = true;
            data.zero(first * BLOCK, (last - first) * BLOCK)?;
            let size = state.size;
            // Behind the base and outside of the upper are zeros anyway.
            let below = first..last.min(blocks_of(state.base_len).max(first));
            self.own(shared, &mut state, below, size)?;
        }
        // Within one block there is one edge, else there may be two.
        let edges = if first > last { [offset..end, 0..0] } else { [offset..first * BLOCK, last * BLOCK..end] };
        for edge in edges.into_iter().filter(|edge| edge.start < edge.end) {
            self.write(shared, &vec![0; index(edge.end - edge.start)], edge.start)?;
        }
        Ok(())
    }

    /// Gives the file another length. What is behind the old one reads as zeros.
    pub fn resize(&self, shared: &Shared, size: u64) -> io::Result<()> {
        let _in_order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        match size.cmp(&state.size) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => self.cut(shared, &mut state, size),
            std::cmp::Ordering::Greater => self.grow(shared, &mut state, size),
        }
    }

    /// The new length is durable when the file is synced, as after a write: what was behind the old end may not have been cleared before.
    fn grow(&self, shared: &Shared, state: &mut State, size: u64) -> io::Result<()> {
        if state.blocks.has(block_of(state.size)) {
            let data = self.data(shared, state)?;
            self.clear_tail(&data, state, size)?;
        }
        self.own(shared, state, 0..0, size)
    }

    fn cut(&self, shared: &Shared, state: &mut State, size: u64) -> io::Result<()> {
        let (base_len, modified, before) = (state.base_len.min(size), now(), state.size);
        let data = if state.blocks.count() > 0 { Some(self.data(shared, state)?) } else { None };
        if !self.is_removed() {
            if let Some(data) = data.as_ref().filter(|_| state.is_dirty) {
                // The new end may be behind the one that is durable, and what lies between was written, or cleared.
                self.keep(shared, state, data).inspect_err(|_| state.has_failed = true)?;
            }
            shared.journal.append(&Record::Size { id: self.id, size, base_len, modified })?;
            shared.journal.sync()?;
        }
        state.cut(size, base_len);
        state.modified = modified;
        let end = blocks_of(size) * BLOCK;
        data.map_or(Ok(()), |data| data.zero(end, before.saturating_sub(end)))
    }

    /// Makes the file as it is durable.
    pub fn sync(&self, shared: &Shared) -> io::Result<()> {
        let _in_order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_removed() {
            return Ok(());
        }
        let mut state = self.state();
        if state.has_failed {
            return Err(io::Error::other(
                "an earlier sync of this file failed, and what was written before it may be lost",
            ));
        }
        let (fresh, size, modified) = (std::mem::take(&mut state.fresh), state.size, state.modified);
        let (is_dirty, is_new) = (std::mem::take(&mut state.is_dirty), state.is_new);
        let is_longer = std::mem::take(&mut state.is_longer);
        let data = if is_dirty { Some(self.data(shared, &mut state)?) } else { None };
        drop(state);
        let done = data.map_or(Ok(()), |data| data.sync()).and_then(|()| {
            if is_new && is_dirty {
                shared.disk.sync_names()?;
            }
            if !fresh.is_empty() || is_longer {
                self.record(shared, (size, modified), &fresh, true)?;
            }
            shared.journal.sync()
        });
        let mut state = self.state();
        match done {
            Ok(()) => {
                state.is_new &= !is_dirty;
                Ok(())
            }
            Err(error) => {
                // The kernel has dropped what it could not write, and says so once.
                state.has_failed = true;
                state.fresh.extend(fresh);
                Err(error)
            }
        }
    }

    /// Makes the blocks durable, and records them as such.
    fn keep(&self, shared: &Shared, state: &mut State, data: &Arc<dyn DiskFile>) -> io::Result<()> {
        data.sync()?;
        if std::mem::take(&mut state.is_new) {
            shared.disk.sync_names()?;
        }
        (state.is_dirty, state.is_longer) = (false, false);
        let fresh = std::mem::take(&mut state.fresh);
        self.record(shared, (state.size, state.modified), &fresh, true)
    }

    /// Records that blocks are in the upper, and then believes it.
    fn own(&self, shared: &Shared, state: &mut State, blocks: Range<u64>, end: u64) -> io::Result<()> {
        let missing: Vec<Range<u64>> =
            state.blocks.runs(blocks.clone()).filter(|(_, is_upper)| !is_upper).map(|(run, _)| run).collect();
        let (size, modified) = (state.size.max(end), now());
        if (!missing.is_empty() || size != state.size) && !self.is_removed() {
            self.record(shared, (size, modified), &missing, false)?;
            state.is_longer |= size != state.size;
        }
        state.blocks.add(blocks);
        for run in missing {
            match state.fresh.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => state.fresh.push(run),
            }
        }
        (state.size, state.modified) = (size, modified);
        Ok(())
    }

    fn record(
        &self,
        shared: &Shared,
        of: (u64, (i64, u32)),
        ranges: &[Range<u64>],
        is_durable: bool,
    ) -> io::Result<()> {
        let (size, modified) = of;
        let record = |ranges: &[Range<u64>]| {
            let ranges = ranges.to_vec();
            shared.journal.append(&Record::Blocks { id: self.id, size, modified, ranges, is_durable })
        };
        if ranges.is_empty() {
            return record(&[]);
        }
        ranges.chunks(RANGES_MAX).try_for_each(record)
    }

    /// Before the file grows to `end`: what lies behind its old end in the same block is not its own.
    fn clear_tail(&self, data: &Arc<dyn DiskFile>, state: &mut State, end: u64) -> io::Result<()> {
        let (size, block) = (state.size, block_of(state.size));
        let until = end.min((block + 1) * BLOCK);
        if size < until && !size.is_multiple_of(BLOCK) && state.blocks.has(block) {
            state.is_dirty = true;
            data.write_at(&vec![0; index(until - size)], size)?;
        }
        Ok(())
    }

    fn data(&self, shared: &Shared, state: &mut State) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(data) = &state.data {
            return Ok(Arc::clone(data));
        }
        let name = data_name(self.id);
        let data = match shared.disk.open(&name) {
            // Only a file without blocks may have none: any other has lost them.
            Err(error) if error.kind() == io::ErrorKind::NotFound && state.blocks.count() == 0 => {
                state.is_new = true;
                shared.disk.create(&name)?
            }
            opened => opened?,
        };
        state.data = Some(Arc::clone(&data));
        Ok(data)
    }

    fn below(&self, shared: &Shared, state: &mut State) -> io::Result<Option<Arc<dyn BaseFile>>> {
        let Some(path) = self.base.as_ref().filter(|_| state.base_len > 0) else { return Ok(None) };
        if state.below.is_none() {
            // Not the system's number: a server would take "no such file" for an answer.
            let gone = |error| io::Error::other(format!("the base's file cannot be opened: {error}"));
            state.below = Some(shared.base.open(path).map_err(gone)?);
        }
        Ok(state.below.clone())
    }
}

/// Reads bytes of the base, and zeros where it has none or they are not visible.
fn read_below(below: Option<&dyn BaseFile>, base_len: u64, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    bytes.fill(0);
    let visible = index(base_len.saturating_sub(offset)).min(bytes.len());
    let Some((below, bytes)) = below.zip(bytes.get_mut(..visible)).filter(|(_, bytes)| !bytes.is_empty()) else {
        return Ok(());
    };
    if below.read_at(bytes, offset)? < bytes.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file of the base is shorter than it was"));
    }
    Ok(())
}
