//! Memory for reads: aligned for `O_DIRECT`, and bounded because it is taken once.

use std::io;
use std::ops::Range;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment of every buffer in memory. Enough for `O_DIRECT` on any device, whose logical block is at most a page.
const MEMORY_ALIGN: usize = 4096;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Chunk([u8; MEMORY_ALIGN]);

/// Bytes aligned for `O_DIRECT`. Whoever owns it may write to it; it moves into a request and comes back with the
/// completion.
pub struct Buffer {
    index: u16,
    chunks: Box<[Chunk]>,
}

impl Buffer {
    /// A buffer of `size` bytes, rounded up to whole pages of 4096 bytes; `index` is its position in its pool.
    pub(crate) fn new(index: u16, size: u32) -> io::Result<Self> {
        let chunks = (size as usize).div_ceil(MEMORY_ALIGN);
        let chunks = <[Chunk]>::new_box_zeroed_with_elems(chunks).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { index, chunks })
    }

    /// The position in its pool, for engines that register buffers with the kernel.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.chunks.as_bytes()
    }

    /// All bytes, to write to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.chunks.as_mut_bytes()
    }

    /// The first bytes, at most `len`.
    #[must_use]
    pub fn first(&self, len: u32) -> &[u8] {
        let bytes = self.bytes();
        bytes.get(..len as usize).unwrap_or(bytes)
    }

    /// The bytes of a range, cut to the buffer's end.
    pub fn range_mut(&mut self, range: Range<u32>) -> &mut [u8] {
        let bytes = self.bytes_mut();
        let end = (range.end as usize).min(bytes.len());
        let start = (range.start as usize).min(end);
        bytes.get_mut(start..end).unwrap_or_default()
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer {{ index: {}, len: {} }}", self.index, self.bytes().len())
    }
}

/// A fixed number of buffers of one size: the bound on what can be in flight.
#[derive(Debug)]
pub struct BufferPool {
    free: Vec<Buffer>,
}

impl BufferPool {
    /// Takes the memory: `count` buffers of `size` bytes.
    ///
    /// # Errors
    /// `OutOfMemory` when the system does not give that much.
    pub fn new(count: u16, size: u32) -> io::Result<Self> {
        let free = (0..count).map(|index| Buffer::new(index, size)).collect::<io::Result<_>>()?;
        Ok(Self { free })
    }

    /// The buffers that are not in use.
    #[must_use]
    pub fn free(&self) -> &[Buffer] {
        &self.free
    }

    /// A buffer, if one is free.
    pub fn take(&mut self) -> Option<Buffer> {
        self.free.pop()
    }

    /// Gives a buffer back.
    pub fn give_back(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_of_whole_pages() {
        let mut pool = BufferPool::new(3, 65537).expect("memory");
        assert_eq!(pool.free().len(), 3);
        let buffer = pool.take().expect("three are free");
        assert_eq!(buffer.bytes().len(), 69632);
        assert_eq!(buffer.bytes().as_ptr() as usize % MEMORY_ALIGN, 0);
        assert!(buffer.bytes().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn pool_is_a_bound() {
        let mut pool = BufferPool::new(1, 4096).expect("memory");
        let buffer = pool.take().expect("one is free");
        assert!(pool.take().is_none());
        pool.give_back(buffer);
        assert!(pool.take().is_some());
    }

    #[test]
    fn ranges_are_cut_to_the_buffer() {
        let mut buffer = Buffer::new(0, 4096).expect("memory");
        assert_eq!(buffer.range_mut(4000..5000).len(), 96);
        assert_eq!(buffer.range_mut(5000..6000).len(), 0);
        assert_eq!(buffer.first(10).len(), 10);
        assert_eq!(buffer.first(5000).len(), 4096);
    }
}
