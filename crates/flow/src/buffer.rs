//! Memory for reads and writes: aligned for `O_DIRECT`, bounded because it is allocated once, and in huge pages if the system has them.
//!
//! Why huge pages: a device takes a request with a limited number of memory segments (254 on virtio). A MiB of scattered
//! 4 KiB pages has 256, and so becomes two requests, the second of 8 KiB; in a huge page it is one segment.

#![expect(unsafe_code, reason = "memory from the system directly: an allocator touches it before it can be made huge")]

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};

/// Alignment of every buffer in memory. Enough for `O_DIRECT` on any device, whose logical block is at most a page.
const MEMORY_ALIGN: usize = 4096;

/// The size and alignment of a huge page. If the system's differ, only the gain is lost.
const HUGE_PAGE: usize = 2 << 20;

/// Memory mapped from the system, zeroed, and unmapped when dropped.
#[derive(Debug)]
struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the region is plain memory, which any thread may use; each part is accessed only through its buffer.
unsafe impl Send for Region {}
// SAFETY: as above; the region itself has no method that reads or writes the memory.
unsafe impl Sync for Region {}

impl Region {
    fn new(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        #[cfg(target_os = "linux")]
        if len >= HUGE_PAGE {
            // SAFETY: the range is the new mapping, and the advice changes no byte of it. If the kernel ignores it, the pages are small.
            unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, rustix::mm::Advice::LinuxHugepage).ok() };
        }
        Ok(Self { base, len })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; all buffers in it hold the region, so none is left.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len).ok() };
    }
}

/// Bytes aligned for `O_DIRECT`. The owner may write to it; it moves into a request and comes back with the
/// completion.
pub struct Buffer {
    index: u16,
    start: NonNull<u8>,
    len: usize,
    /// Keeps the memory mapped; `None` for the empty buffer.
    region: Option<Arc<Region>>,
}

// SAFETY: no other buffer shares its part of the region (`carve`), like a boxed slice.
unsafe impl Send for Buffer {}
// SAFETY: through a shared buffer its bytes can only be read.
unsafe impl Sync for Buffer {}

/// `count` buffers of `size` bytes, rounded up to whole pages of 4096, side by side in one region of at least `least` bytes.
fn carve(count: u16, size: u32, least: usize) -> io::Result<Vec<Buffer>> {
    let size = (size as usize).next_multiple_of(MEMORY_ALIGN).max(MEMORY_ALIGN);
    let total = size.checked_mul(usize::from(count)).ok_or(io::ErrorKind::OutOfMemory)?.max(MEMORY_ALIGN);
    let total = total.max(least);
    // Room to start at a huge page boundary. Memory outside the buffers is never touched, so it costs nothing.
    let spare = if total >= HUGE_PAGE { HUGE_PAGE } else { 0 };
    let region = Arc::new(Region::new(total.next_multiple_of(MEMORY_ALIGN) + spare)?);
    let skip = region.base.as_ptr().align_offset(if spare == 0 { MEMORY_ALIGN } else { HUGE_PAGE });
    if skip > spare {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let buffers = (0..count).map(|index| {
        // SAFETY: `skip` is at most `spare`, so `total` bytes from there are within the region, and `index` is below `count`: the part is
        // within the region, and the parts of two indexes do not overlap.
        let start = unsafe { region.base.add(skip + usize::from(index) * size) };
        Buffer { index, start, len: size, region: Some(Arc::clone(&region)) }
    });
    Ok(buffers.collect())
}

impl Buffer {
    /// A single buffer of `size` bytes, rounded up to whole pages of 4096.
    pub(crate) fn alone(size: u32) -> io::Result<Self> {
        carve(1, size, 0)?.pop().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// A buffer without bytes, for a request that needs none; takes no memory.
    #[must_use]
    pub fn empty() -> Self {
        Self { index: u16::MAX, start: NonNull::dangling(), len: 0, region: None }
    }

    /// The position in its pool, for engines that register buffers with the kernel.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: no one else has this part of the region, it stays mapped while we hold the region, and the system zeroed it; the empty
        // buffer's start is not null, and it has no bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// All bytes, to write to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and we are borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The first bytes, at most `len`.
    #[must_use]
    pub fn first(&self, len: u32) -> &[u8] {
        let bytes = self.bytes();
        bytes.get(..len as usize).unwrap_or(bytes)
    }

    /// The bytes of a range, truncated at the buffer's end.
    #[must_use]
    pub fn range(&self, range: Range<u32>) -> &[u8] {
        let bytes = self.bytes();
        let end = (range.end as usize).min(bytes.len());
        let start = (range.start as usize).min(end);
        bytes.get(start..end).unwrap_or_default()
    }

    /// The bytes of a range, for writing, truncated at the buffer's end.
    pub fn range_mut(&mut self, range: Range<u32>) -> &mut [u8] {
        let bytes = self.bytes_mut();
        let end = (range.end as usize).min(bytes.len());
        let start = (range.start as usize).min(end);
        bytes.get_mut(start..end).unwrap_or_default()
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.region.as_ref().map_or(0, |region| region.len);
        write!(f, "Buffer {{ index: {}, len: {}, of {of} }}", self.index, self.len)
    }
}

/// A fixed number of buffers of one size: the bound on what can be in flight.
#[derive(Debug)]
pub struct BufferPool {
    free: Vec<Buffer>,
}

impl BufferPool {
    /// Allocates `count` buffers of `size` bytes.
    ///
    /// # Errors
    /// `OutOfMemory` if the system does not provide the memory.
    pub fn new(count: u16, size: u32) -> io::Result<Self> {
        Ok(Self { free: carve(count, size, 0)? })
    }

    /// Like [`BufferPool::new`], but in huge pages if the system has them, even if the buffers are much smaller than one. Each buffer is
    /// then one memory segment for the device, not one per 4096 bytes. Takes at least one huge page (2 MiB) of memory.
    ///
    /// # Errors
    /// `OutOfMemory` if the system does not provide the memory.
    pub fn in_huge_pages(count: u16, size: u32) -> io::Result<Self> {
        Ok(Self { free: carve(count, size, HUGE_PAGE)? })
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
    fn buffers_of_a_pool_do_not_overlap_and_outlive_it() {
        let mut pool = BufferPool::new(5, 1 << 20).expect("memory");
        let mut buffers: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        drop(pool);
        for buffer in &mut buffers {
            let index = buffer.index() as u8 + 1;
            assert!(buffer.bytes().iter().all(|&byte| byte == 0), "nobody else has written here");
            buffer.bytes_mut().fill(index);
        }
        for buffer in &buffers {
            assert!(buffer.bytes().iter().all(|&byte| byte == buffer.index() as u8 + 1));
            assert_eq!(buffer.bytes().len(), 1 << 20);
        }
        let first = buffers.iter().map(|buffer| buffer.bytes().as_ptr() as usize).min().expect("five");
        assert_eq!(first % HUGE_PAGE, 0);
    }

    #[test]
    fn small_buffers_lie_in_one_huge_page_if_asked() {
        let mut pool = BufferPool::in_huge_pages(3, 16384).expect("memory");
        let mut starts: Vec<_> = pool.free().iter().map(|buffer| buffer.bytes().as_ptr() as usize).collect();
        starts.sort_unstable();
        assert_eq!(starts[0] % HUGE_PAGE, 0);
        assert_eq!([starts[1] - starts[0], starts[2] - starts[1]], [16384; 2]);
        let mut buffer = pool.take().expect("three are free");
        // The whole huge page belongs to the pool: a page that is partly in other memory cannot be huge.
        let region = buffer.region.as_ref().expect("has memory");
        let base = region.base.as_ptr() as usize;
        assert!(base <= starts[0] && starts[0] + HUGE_PAGE <= base + region.len);
        buffer.bytes_mut().fill(1);
        assert!(pool.free().iter().all(|buffer| buffer.bytes().iter().all(|&byte| byte == 0)));
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
        let mut buffer = Buffer::alone(4096).expect("memory");
        assert_eq!(buffer.range_mut(4000..5000).len(), 96);
        assert_eq!((buffer.range(4000..5000).len(), buffer.range(5000..6000).len()), (96, 0));
        assert_eq!(buffer.range_mut(5000..6000).len(), 0);
        assert_eq!(buffer.first(10).len(), 10);
        assert_eq!(buffer.first(5000).len(), 4096);
    }

    #[test]
    fn empty_buffer_has_no_bytes() {
        let mut buffer = Buffer::empty();
        assert_eq!((buffer.bytes().len(), buffer.bytes_mut().len(), buffer.range_mut(0..10).len()), (0, 0, 0));
        assert_eq!(format!("{buffer:?}"), "Buffer { index: 65535, len: 0, of 0 }");
    }
}
