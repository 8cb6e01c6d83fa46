//! A run: which request to send next, and what to do with each completion.

use std::collections::VecDeque;
use std::io;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::change::Stretch;
use super::changes::Changes;
use super::crew::{Crew, Done, Job};
use super::error::{RewriteError, RunError};
use super::options::RewriteTarget;
use super::rewriter::{RESERVE, Rewriter};
use super::shadow::{self, BatchPlace, Block};
use crate::queue::{Completion, Operation, Request};
use crate::{Buffer, DIRECT_ALIGN, FileHandle, FileId};

/// The token of the sync that makes a batch of the shadow durable.
const BATCH_SYNCED: u64 = u64::MAX;
/// The token of a file's sync is this plus the file's number; smaller tokens are those of slots.
const FILE_SYNCED: u64 = 1 << 32;
/// A batch starts when this fraction of the buffers waits for it.
const BATCH_PART: usize = 4;

type Result<T, E> = std::result::Result<T, RunError<E>>;

/// The use of a buffer, by its place in the pool.
enum Slot {
    Free,
    /// Being read, `filled` bytes of it so far.
    Reading {
        stretch: Stretch,
        filled: u32,
    },
    /// Being changed by the crew.
    Changing,
    /// Waiting to be written in place.
    Changed(Changed),
    /// Being written in place.
    Writing(Writing),
    /// A part of a batch, being written to the shadow.
    Saving(SavedPart),
}

struct Changed {
    stretch: Stretch,
    changes: Changes,
    buffer: Buffer,
}

struct Writing {
    stretch: Stretch,
    changes: Changes,
    /// The index of the current dirty range, and the bytes of it already written.
    range: usize,
    written: u32,
}

struct SavedPart {
    /// Offset in the shadow.
    offset: u64,
    len: u32,
    written: u32,
}

/// The range of a request: `len` bytes of the file at `offset`, and of the buffer at `start`. Empty for a sync.
#[derive(Default)]
struct Span {
    offset: u64,
    start: u32,
    len: u32,
}

/// A batch being written to the shadow.
struct Saving {
    bytes: Vec<u8>,
    /// Where it begins in the shadow.
    at: u64,
    /// Bytes given to the queue.
    sent: usize,
    parts_in_flight: usize,
    is_syncing: bool,
    /// The slots to write in place afterwards.
    slots: Vec<usize>,
}

pub(super) struct Pipeline<'r, 'c, I: Iterator<Item = Stretch>, E> {
    rewriter: &'r mut Rewriter,
    crew: Crew<'c, E>,
    stretches: Peekable<I>,
    slots: Vec<Slot>,
    in_flight: u32,
    reads_in_flight: u32,
    syncs_in_flight: u32,
    /// Stretches that are being written in place.
    writing: usize,
    /// Slots that are changed, but not in any batch yet.
    gathered: Vec<usize>,
    saving: Option<Saving>,
    /// Slots whose batch is durable.
    safe: VecDeque<usize>,
    done: Vec<Completion>,
}

impl<'r, 'c, I: Iterator<Item = Stretch>, E: Send + 'c> Pipeline<'r, 'c, I, E> {
    pub fn new(rewriter: &'r mut Rewriter, stretches: I, crew: Crew<'c, E>) -> Self {
        let slots = rewriter.pool.free().iter().map(|_| Slot::Free).collect();
        Self {
            rewriter,
            crew,
            stretches: stretches.peekable(),
            slots,
            in_flight: 0,
            reads_in_flight: 0,
            syncs_in_flight: 0,
            writing: 0,
            gathered: Vec::new(),
            saving: None,
            safe: VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// Runs until everything is written in place.
    pub fn run(mut self) -> Result<(), E> {
        while !self.is_done() {
            self.start_writes()?;
            if self.should_save() {
                self.save()?;
            }
            self.send_parts()?;
            self.start_reads()?;
            self.wait()?;
        }
        Ok(())
    }

    /// Makes everything written durable, and empties the shadow.
    pub fn finish(mut self) -> std::result::Result<(), RewriteError> {
        let has_chain = self.rewriter.shadow.as_ref().is_some_and(|it| it.chain != 0);
        let is_used = has_chain || !self.rewriter.touched.is_empty();
        match if is_used { self.begin_chain() } else { Ok(()) } {
            Err(RunError::Rewrite(error)) => Err(error),
            Ok(()) | Err(RunError::Change(_)) => Ok(()),
        }
    }

    fn is_done(&mut self) -> bool {
        self.in_flight == 0
            && self.crew.is_idle()
            && self.saving.is_none()
            && self.gathered.is_empty()
            && self.safe.is_empty()
            && self.stretches.peek().is_none()
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.rewriter.options.depth
    }

    fn submit(
        &mut self,
        token: u64,
        operation: Operation,
        target: &RewriteTarget,
        span: Span,
        buffer: Buffer,
    ) -> Result<(), E> {
        let Span { offset, start, len } = span;
        let handle = target.handle.opened().map_err(|error| io_error(Some(target), "opening", error))?;
        let file = target.file;
        self.in_flight += 1;
        self.rewriter.queue.submit(Request { token, operation, file, handle, offset, start, len, buffer });
        Ok(())
    }

    fn target(&self, file: FileId) -> Result<RewriteTarget, E> {
        self.rewriter.targets.get(&file).cloned().ok_or(RunError::Rewrite(RewriteError::Fault))
    }

    // --- Reading -----------------------------------------------------------------------------------------------------

    fn start_reads(&mut self) -> Result<(), E> {
        let is_writing = self.saving.is_some() || self.writing > 0 || !self.safe.is_empty();
        if is_writing && !self.rewriter.options.overlap {
            return Ok(());
        }
        while self.has_room() && self.rewriter.pool.free().len() > RESERVE {
            let Some(stretch) = self.stretches.next() else { break };
            let Some(mut buffer) = self.rewriter.pool.take() else { break };
            let slot = usize::from(buffer.index());
            if buffer.bytes().len() < stretch.len as usize || slot >= self.slots.len() {
                return Err(RewriteError::Fault.into());
            }
            let source = self.rewriter.held.take(&stretch).filter(|_| stretch.is_read);
            if stretch.is_read && source.is_none() {
                self.reads_in_flight += 1;
                self.read(slot, stretch, 0, buffer)?;
                continue;
            }
            if source.is_none() {
                buffer.range_mut(0..stretch.len).fill(0);
            }
            self.set(slot, Slot::Changing);
            self.crew.give(Job { stretch, buffer, source });
        }
        Ok(())
    }

    /// Reads the rest, after the bytes received.
    fn read(&mut self, slot: usize, stretch: Stretch, filled: u32, buffer: Buffer) -> Result<(), E> {
        let target = self.target(stretch.file)?;
        let span = Span { offset: stretch.offset + u64::from(filled), start: filled, len: stretch.len - filled };
        self.set(slot, Slot::Reading { stretch, filled });
        self.submit(slot as u64, Operation::Read, &target, span, buffer)
    }

    fn was_read(
        &mut self,
        slot: usize,
        stretch: Stretch,
        filled: u32,
        count: u32,
        mut buffer: Buffer,
    ) -> Result<(), E> {
        let target = self.target(stretch.file)?;
        let mut filled = filled + count;
        let is_odd = target.handle.is_direct() && !filled.is_multiple_of(DIRECT_ALIGN);
        if count > 0 && filled < stretch.len && !is_odd {
            return self.read(slot, stretch, filled, buffer);
        }
        if is_odd {
            // The file's end, or a file system of a program (FUSE) ends its replies anywhere: the next direct read could not begin there.
            let rest = buffer.range_mut(filled..stretch.len);
            let read = read_buffered(&target.handle, stretch.offset + u64::from(filled), rest);
            filled += read.map_err(|error| io_error(Some(&target), "reading", error))?;
        }
        self.reads_in_flight -= 1;
        // Past the end of the file.
        buffer.range_mut(filled..stretch.len).fill(0);
        self.set(slot, Slot::Changing);
        self.crew.give(Job { stretch, buffer, source: None });
        Ok(())
    }

    fn was_changed(&mut self, done: Done<E>) -> Result<(), E> {
        let Job { stretch, buffer, .. } = done.job;
        let slot = usize::from(buffer.index());
        let changes = done.outcome.ok_or(RewriteError::Fault)?.map_err(RunError::Change)?;
        if changes.is_empty() || !self.rewriter.writes {
            self.free(slot, buffer);
            return Ok(());
        }
        self.set(slot, Slot::Changed(Changed { stretch, changes, buffer }));
        if self.rewriter.shadow.is_some() {
            self.gathered.push(slot);
        } else {
            self.touch(&[slot]);
            self.safe.push_back(slot);
        }
        Ok(())
    }

    // --- The shadow --------------------------------------------------------------------------------------------------

    /// Whether to save now: much is waiting, or nothing else can proceed.
    fn should_save(&mut self) -> bool {
        if self.saving.is_some() || self.gathered.is_empty() {
            return false;
        }
        let is_much = self.rewriter.options.overlap && self.gathered.len() >= self.slots.len() / BATCH_PART;
        let more_comes = self.reads_in_flight > 0 || !self.crew.is_idle() || self.writing > 0 || !self.safe.is_empty();
        let can_read = self.stretches.peek().is_some() && self.rewriter.pool.free().len() > RESERVE;
        is_much || !(more_comes || can_read)
    }

    /// Begins a batch of everything gathered.
    fn save(&mut self) -> Result<(), E> {
        let slots = std::mem::take(&mut self.gathered);
        if slots.iter().all(|slot| self.changed(*slot).is_none_or(|it| it.changes.saved_len() == 0)) {
            self.touch(&slots);
            self.safe.extend(slots);
            return Ok(());
        }
        if self.is_full(&slots) {
            self.begin_chain()?;
        }
        self.touch(&slots);
        let Some(shadow) = &self.rewriter.shadow else { return Ok(()) };
        let place = BatchPlace { tag: self.rewriter.options.tag, chain: shadow.chain, number: shadow.number };
        let all = slots.iter().filter_map(|slot| self.changed(*slot));
        let mut files: Vec<FileId> = all.clone().map(|it| it.stretch.file).collect();
        files.sort_unstable();
        files.dedup();
        let names = files.iter().filter_map(|file| Some((*file, self.rewriter.targets.get(file)?.name.as_slice())));
        let pieces = all.flat_map(|it| {
            let Stretch { file, offset, .. } = it.stretch;
            let piece = move |piece: &Range<u32>| {
                let bytes = it.buffer.bytes().get(piece.start as usize..piece.end as usize).unwrap_or_default();
                Block { file, offset: offset + u64::from(piece.start), bytes }
            };
            it.changes.pieces().iter().map(piece)
        });
        let bytes = shadow::batch(place, names, pieces);
        self.begin(bytes, slots);
        Ok(())
    }

    fn changed(&self, slot: usize) -> Option<&Changed> {
        match self.slots.get(slot) {
            Some(Slot::Changed(changed)) => Some(changed),
            _ => None,
        }
    }

    /// Notes that these files will have unsynced writes.
    fn touch(&mut self, slots: &[usize]) {
        let files: Vec<FileId> = slots.iter().filter_map(|slot| Some(self.changed(*slot)?.stretch.file)).collect();
        self.rewriter.touched.extend(files);
    }

    fn is_full(&self, slots: &[usize]) -> bool {
        let len: usize = slots.iter().filter_map(|slot| Some(self.changed(*slot)?.changes.saved_len())).sum();
        let max = self.rewriter.options.shadow_max;
        let is_full = |at, number| number > 1 && at + len as u64 > max;
        self.rewriter.shadow.as_ref().is_some_and(|it| it.chain == 0 || is_full(it.at, it.number))
    }

    fn begin(&mut self, bytes: Vec<u8>, slots: Vec<usize>) {
        let Some(shadow) = &mut self.rewriter.shadow else { return };
        let at = shadow.at;
        shadow.at += bytes.len() as u64;
        shadow.number += 1;
        self.saving = Some(Saving { bytes, at, sent: 0, parts_in_flight: 0, is_syncing: false, slots });
    }

    /// Syncs the files written in place; before the first chain, all files, so that their old content is durable. Then starts an empty
    /// shadow.
    fn begin_chain(&mut self) -> Result<(), E> {
        while self.writing > 0 || !self.safe.is_empty() {
            self.start_writes()?;
            self.wait()?;
        }
        let is_first = self.rewriter.shadow.as_ref().is_some_and(|shadow| shadow.chain == 0);
        self.sync_files(is_first)?;
        let Some(shadow) = &mut self.rewriter.shadow else { return Ok(()) };
        (shadow.chain, shadow.number, shadow.at) = (shadow::chain_number(), 0, 0);
        let place = BatchPlace { tag: self.rewriter.options.tag, chain: shadow.chain, number: 0 };
        self.begin(shadow::batch(place, std::iter::empty(), std::iter::empty()), Vec::new());
        while self.saving.is_some() {
            self.send_parts()?;
            self.wait()?;
        }
        Ok(())
    }

    /// Syncs the files with unsynced writes, or all files.
    fn sync_files(&mut self, all: bool) -> Result<(), E> {
        let touched = std::mem::take(&mut self.rewriter.touched);
        let files = self.rewriter.targets.values().filter(|it| all || touched.contains(&it.file));
        for target in files.cloned().collect::<Vec<_>>() {
            while !self.has_room() {
                self.wait()?;
            }
            self.syncs_in_flight += 1;
            let token = FILE_SYNCED + u64::from(target.file.0);
            self.submit(token, Operation::Sync, &target, Span::default(), Buffer::empty())?;
        }
        while self.syncs_in_flight > 0 {
            self.wait()?;
        }
        Ok(())
    }

    /// Sends the queue as much of the batch as it has room for and, once the whole batch is written, its sync.
    fn send_parts(&mut self) -> Result<(), E> {
        let Some(target) = self.rewriter.shadow.as_ref().map(|shadow| shadow.target.clone()) else { return Ok(()) };
        while self.has_room()
            && let Some(saving) = &mut self.saving
        {
            if saving.sent == saving.bytes.len() {
                if saving.parts_in_flight == 0 && !saving.is_syncing {
                    saving.is_syncing = true;
                    self.submit(BATCH_SYNCED, Operation::Sync, &target, Span::default(), Buffer::empty())?;
                }
                break;
            }
            let Some(mut buffer) = self.rewriter.pool.take() else { break };
            let rest = saving.bytes.get(saving.sent..).unwrap_or_default();
            let part = rest.get(..buffer.bytes().len()).unwrap_or(rest);
            let (offset, len) = (saving.at + saving.sent as u64, u32::try_from(part.len()).unwrap_or(0));
            buffer.range_mut(0..len).copy_from_slice(part);
            saving.sent += part.len();
            saving.parts_in_flight += 1;
            let slot = usize::from(buffer.index());
            self.write_part(slot, SavedPart { offset, len, written: 0 }, &target, buffer)?;
        }
        Ok(())
    }

    /// Writes the rest, after the bytes written.
    fn write_part(&mut self, slot: usize, part: SavedPart, target: &RewriteTarget, buffer: Buffer) -> Result<(), E> {
        let SavedPart { offset, len, written } = part;
        let span = Span { offset: offset + u64::from(written), start: written, len: len - written };
        self.set(slot, Slot::Saving(part));
        self.submit(slot as u64, Operation::Write, target, span, buffer)
    }

    fn was_saved(&mut self, slot: usize, part: SavedPart, count: u32, buffer: Buffer) -> Result<(), E> {
        let Some(target) = self.rewriter.shadow.as_ref().map(|shadow| shadow.target.clone()) else { return Ok(()) };
        let written = aligned(&target, part.written + count, part.len);
        if written < part.len {
            return self.write_part(slot, SavedPart { written, ..part }, &target, buffer);
        }
        if let Some(saving) = &mut self.saving {
            saving.parts_in_flight -= 1;
        }
        self.free(slot, buffer);
        Ok(())
    }

    // --- In place ----------------------------------------------------------------------------------------------------

    fn start_writes(&mut self) -> Result<(), E> {
        while self.has_room()
            && let Some(slot) = self.safe.pop_front()
        {
            if let Slot::Changed(Changed { stretch, changes, buffer }) = self.set(slot, Slot::Free) {
                self.writing += 1;
                self.write(slot, Writing { stretch, changes, range: 0, written: 0 }, buffer)?;
            }
        }
        Ok(())
    }

    /// Writes the rest of the current dirty range, or frees the slot if there is none.
    fn write(&mut self, slot: usize, writing: Writing, buffer: Buffer) -> Result<(), E> {
        let target = self.rewriter.targets.get(&writing.stretch.file).cloned();
        let (Some(target), Some(dirty)) = (target, writing.changes.dirty().get(writing.range)) else {
            self.writing -= 1;
            self.free(slot, buffer);
            return Ok(());
        };
        let start = dirty.start + writing.written;
        let span = Span { offset: writing.stretch.offset + u64::from(start), start, len: dirty.end - start };
        self.set(slot, Slot::Writing(writing));
        self.submit(slot as u64, Operation::Write, &target, span, buffer)
    }

    fn was_written(&mut self, slot: usize, writing: Writing, count: u32, buffer: Buffer) -> Result<(), E> {
        let len = writing.changes.dirty().get(writing.range).map_or(0, |dirty| dirty.end - dirty.start);
        let target = self.rewriter.targets.get(&writing.stretch.file);
        let written = target.map_or(len, |target| aligned(target, writing.written + count, len));
        let on = if written < len {
            Writing { written, ..writing }
        } else {
            Writing { range: writing.range + 1, written: 0, ..writing }
        };
        self.write(slot, on, buffer)
    }

    // --- What comes back ---------------------------------------------------------------------------------------------

    /// Waits until something is done, and handles it.
    fn wait(&mut self) -> Result<(), E> {
        let mut any = false;
        while let Some(done) = self.crew.try_take() {
            self.was_changed(done)?;
            any = true;
        }
        if any {
            return Ok(());
        }
        if self.in_flight == 0 {
            return self.crew.take().map_or(Ok(()), |done| self.was_changed(done));
        }
        let mut done = std::mem::take(&mut self.done);
        self.rewriter.queue.wait(&mut done).map_err(|error| RewriteError::Setup(Arc::new(error)))?;
        let mut outcome = Ok(());
        for completion in done.drain(..) {
            self.in_flight -= 1;
            let settled = self.settle(completion);
            outcome = outcome.and(settled);
        }
        self.done = done;
        outcome
    }

    fn settle(&mut self, completion: Completion) -> Result<(), E> {
        let Completion { token, buffer, result } = completion;
        if token >= FILE_SYNCED {
            return self.was_synced(token, result);
        }
        let slot = usize::try_from(token).unwrap_or(usize::MAX);
        let is_read = matches!(self.slots.get(slot), Some(Slot::Reading { .. }));
        let count = match result {
            Ok(0) if !is_read => return Err(self.failed(slot, io::ErrorKind::WriteZero.into())),
            Ok(count) => Some(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => return Err(self.failed(slot, error)),
        };
        // Send an interrupted request again. A count of 0 would tell a read that the file ends.
        match (self.set(slot, Slot::Free), count) {
            (Slot::Reading { stretch, filled }, Some(count)) => self.was_read(slot, stretch, filled, count, buffer)?,
            (Slot::Reading { stretch, filled }, None) => self.read(slot, stretch, filled, buffer)?,
            (Slot::Writing(writing), count) => self.was_written(slot, writing, count.unwrap_or(0), buffer)?,
            (Slot::Saving(part), count) => self.was_saved(slot, part, count.unwrap_or(0), buffer)?,
            (Slot::Free | Slot::Changing | Slot::Changed(_), _) => return Err(RewriteError::Fault.into()),
        }
        Ok(())
    }

    fn was_synced(&mut self, token: u64, result: io::Result<u32>) -> Result<(), E> {
        let file = token.checked_sub(FILE_SYNCED).and_then(|number| u32::try_from(number).ok()).map(FileId);
        if let Err(source) = result {
            let shadow = self.rewriter.shadow.as_ref().map(|shadow| &shadow.target);
            let target = file.map_or(shadow, |file| self.rewriter.targets.get(&file));
            return Err(io_error(target, "making durable what was written", source));
        }
        if file.is_some() {
            self.syncs_in_flight -= 1;
        } else if let Some(saving) = self.saving.take() {
            self.safe.extend(saving.slots);
        }
        Ok(())
    }

    fn failed(&self, slot: usize, source: io::Error) -> RunError<E> {
        let targets = &self.rewriter.targets;
        let (target, action) = match self.slots.get(slot) {
            Some(Slot::Reading { stretch, .. }) => (targets.get(&stretch.file), "reading"),
            Some(Slot::Writing(writing)) => (targets.get(&writing.stretch.file), "writing"),
            _ => (self.rewriter.shadow.as_ref().map(|shadow| &shadow.target), "writing"),
        };
        io_error(target, action, source)
    }

    fn set(&mut self, slot: usize, to: Slot) -> Slot {
        self.slots.get_mut(slot).map_or(Slot::Free, |slot| std::mem::replace(slot, to))
    }

    fn free(&mut self, slot: usize, buffer: Buffer) {
        self.set(slot, Slot::Free);
        self.rewriter.pool.give_back(buffer);
    }
}

fn io_error<E>(target: Option<&RewriteTarget>, action: &'static str, source: io::Error) -> RunError<E> {
    let name = target.map(|target| String::from_utf8_lossy(&target.name).into_owned()).unwrap_or_default();
    RewriteError::Io { name, action, source: Arc::new(source) }.into()
}

/// Fills `bytes` through the page cache, as far as the file goes. Returns how many bytes that are.
fn read_buffered(handle: &FileHandle, offset: u64, bytes: &mut [u8]) -> io::Result<u32> {
    let handle = handle.opened()?;
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(handle.file().buffered()?, rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(u32::try_from(filled).unwrap_or(u32::MAX))
}

/// The bytes written, rounded down to where a direct write can continue.
fn aligned(target: &RewriteTarget, written: u32, len: u32) -> u32 {
    let is_odd = target.handle.is_direct() && written < len;
    if is_odd { written - written % DIRECT_ALIGN } else { written }
}
