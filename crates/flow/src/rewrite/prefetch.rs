//! Reads parts of files before the rewriter that needs them is open, and before it is known what will change in them.
//!
//! The bytes stay in memory of their own. A rewriter that [holds](super::Rewriter::hold) them copies a stretch from there instead of reading
//! it: the worker that changes the stretch does the copying, and would have loaded those bytes into its cache anyway.
//!
//! Nothing may write to the files in between, because what was read would no longer be what is in the file.

use std::collections::BTreeMap;
use std::io;

use super::change::Stretch;
use crate::queue::{Completion, OpenQueue, Operation, Queue, Request};
use crate::{Buffer, BufferPool, FileHandle, FileId};

/// A part of a file in memory.
#[derive(Debug)]
pub struct Prefetched {
    /// The file that was asked for.
    pub file: FileId,
    /// Its offset in the file, bytes.
    pub offset: u64,
    buffer: Buffer,
    len: u32,
}

impl Prefetched {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.first(self.len)
    }
}

/// Reads parts of files, many at a time. They stay in memory until they are used.
pub struct Prefetch {
    queue: Box<dyn Queue>,
    pool: BufferPool,
    depth: usize,
    /// The longest part, bytes.
    part_max: u32,
    /// What was asked for; the token of a request is its place here.
    asked: Vec<Asked>,
    in_flight: usize,
    done: Vec<Completion>,
    read: Vec<Prefetched>,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    file: FileId,
    offset: u64,
    len: u32,
}

impl std::fmt::Debug for Prefetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Prefetch {{ asked: {}, in flight: {}, read: {} }}",
            self.asked.len(),
            self.in_flight,
            self.read.len()
        )
    }
}

impl Prefetch {
    /// For parts of at most `part_max` bytes, a multiple of 4096, that take `memory` bytes together; at most `depth` requests in flight. The
    /// memory is only taken from the system as parts arrive.
    ///
    /// # Errors
    /// The engine does not work here, or the system does not provide the memory.
    pub fn new(engine: &dyn OpenQueue, memory: usize, part_max: u32, depth: u32) -> io::Result<Self> {
        let count = memory.checked_div(part_max as usize).unwrap_or(0).min(usize::from(u16::MAX) - 1);
        let pool = BufferPool::new(u16::try_from(count).unwrap_or(0), part_max)?;
        // Registering the buffers would make the system provide all the memory at once.
        let queue = engine.open(depth.max(1), &[])?;
        let (depth, asked) = (depth.max(1) as usize, Vec::new());
        Ok(Self { queue, pool, depth, part_max, asked, in_flight: 0, done: Vec::new(), read: Vec::new() })
    }

    /// Asks for `len` bytes of a file. Returns `false` if there is no memory left for them. Waits while the maximum of requests is in
    /// flight.
    ///
    /// # Errors
    /// The queue is broken.
    pub fn ask(&mut self, file: FileId, handle: &FileHandle, offset: u64, len: u32) -> io::Result<bool> {
        while self.in_flight >= self.depth {
            self.wait()?;
        }
        if len > self.part_max {
            return Ok(false);
        }
        let Some(buffer) = self.pool.take() else { return Ok(false) };
        let (token, handle) = (self.asked.len() as u64, handle.clone());
        self.asked.push(Asked { file, offset, len });
        self.in_flight += 1;
        self.queue.submit(Request { token, operation: Operation::Read, file, handle, offset, start: 0, len, buffer });
        Ok(true)
    }

    /// Starts what was asked for.
    ///
    /// # Errors
    /// The queue is broken.
    pub fn kick(&mut self) -> io::Result<()> {
        self.queue.kick()
    }

    fn wait(&mut self) -> io::Result<()> {
        let mut done = std::mem::take(&mut self.done);
        self.queue.wait(&mut done)?;
        for Completion { token, buffer, result } in done.drain(..) {
            self.in_flight -= 1;
            let asked = usize::try_from(token).ok().and_then(|token| self.asked.get(token)).copied();
            match (asked, result) {
                (Some(Asked { file, offset, len }), Ok(count)) if count == len => {
                    self.read.push(Prefetched { file, offset, buffer, len });
                }
                // A part that cannot be read, or not whole, is left to the run: it reads again, and reports errors.
                _ => self.pool.give_back(buffer),
            }
        }
        self.done = done;
        Ok(())
    }

    /// Waits for what is in flight, and returns all that was read.
    ///
    /// # Errors
    /// The queue is broken.
    pub fn finish(mut self) -> io::Result<Vec<Prefetched>> {
        while self.in_flight > 0 {
            self.wait()?;
        }
        Ok(self.read)
    }
}

/// The parts that a rewriter holds, by file and offset. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct Held {
    parts: BTreeMap<(FileId, u64), Prefetched>,
    /// Length of the longest part, bytes.
    longest: u32,
}

/// A part, and where in it a stretch begins.
#[derive(Debug)]
pub(super) struct Source {
    part: Prefetched,
    start: u32,
}

impl Source {
    /// Copies the bytes of the stretch.
    pub fn copy_to(&self, bytes: &mut [u8]) {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let from = self.part.buffer.range(self.start..self.start.saturating_add(len));
        if let Some(bytes) = bytes.get_mut(..from.len()) {
            bytes.copy_from_slice(from);
        }
    }
}

impl Held {
    pub fn put(&mut self, file: FileId, part: Prefetched) {
        self.longest = self.longest.max(part.len);
        self.parts.insert((file, part.offset), part);
    }

    /// The part with this byte of the file: its offset and length.
    pub fn part_at(&self, file: FileId, offset: u64) -> Option<(u64, u32)> {
        let (_, part) = self.parts.range((file, 0)..=(file, offset)).next_back()?;
        (offset - part.offset < u64::from(part.len)).then_some((part.offset, part.len))
    }

    /// Forgets all parts that overlap the stretch, because it is about to change. Returns the one that has all of it.
    pub fn take(&mut self, stretch: &Stretch) -> Option<Source> {
        if self.parts.is_empty() {
            return None;
        }
        let (file, from, end) = (stretch.file, stretch.offset, stretch.offset + u64::from(stretch.len));
        let around = (file, from.saturating_sub(u64::from(self.longest)))..(file, end);
        let overlaps = |part: &Prefetched| part.offset < end && part.offset + u64::from(part.len) > from;
        let found: Vec<_> = self.parts.range(around).filter(|(_, part)| overlaps(part)).map(|(key, _)| *key).collect();
        let found: Vec<Prefetched> = found.iter().filter_map(|key| self.parts.remove(key)).collect();
        let part = found.into_iter().find(|part| part.offset <= from && part.offset + u64::from(part.len) >= end)?;
        let start = u32::try_from(from - part.offset).ok()?;
        Some(Source { part, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(parts: &[(u32, u64, u32)]) -> Held {
        let mut held = Held::default();
        for &(file, offset, len) in parts {
            let mut buffer = Buffer::alone(len).expect("memory");
            buffer.bytes_mut().fill(u8::try_from(offset / 4096).expect("small"));
            held.put(FileId(file), Prefetched { file: FileId(file), offset, buffer, len });
        }
        held
    }

    fn stretch(file: u32, offset: u64, len: u32) -> Stretch {
        Stretch { file: FileId(file), offset, len, is_read: true, tag: 0 }
    }

    #[test]
    fn a_stretch_within_a_part_is_copied_from_it_once() {
        let mut held = held(&[(1, 8192, 8192), (1, 16384, 4096), (2, 8192, 4096)]);
        assert_eq!(held.part_at(FileId(1), 12288), Some((8192, 8192)));
        let mut bytes = [0; 4096];
        held.take(&stretch(1, 12288, 4096)).expect("is held").copy_to(&mut bytes);
        assert_eq!(bytes, [2; 4096]);
        assert!(held.take(&stretch(1, 12288, 4096)).is_none(), "it has changed since");
        assert!(held.take(&stretch(1, 8192, 4096)).is_none(), "and the part is gone");
        assert!(held.take(&stretch(2, 8192, 4096)).is_some() && held.take(&stretch(1, 16384, 4096)).is_some());
    }

    #[test]
    fn a_stretch_that_is_held_only_in_part_is_read_and_what_it_overlaps_is_forgotten() {
        for (offset, len) in [(4096, 8192), (12288, 8192), (4096, 16384), (0, 32768)] {
            let mut held = held(&[(1, 8192, 8192)]);
            assert!(held.take(&stretch(1, offset, len)).is_none());
            assert_eq!(held.part_at(FileId(1), 8192), None, "{offset} {len}");
        }
        let mut held = held(&[(1, 8192, 8192)]);
        for (file, offset, len) in [(1, 0, 8192), (1, 16384, 4096), (2, 8192, 8192)] {
            assert!(held.take(&stretch(file, offset, len)).is_none());
        }
        assert_eq!(
            [8191, 8192, 16383, 16384].map(|at| held.part_at(FileId(1), at).is_some()),
            [false, true, true, false]
        );
    }
}
