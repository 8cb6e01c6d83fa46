//! Memory mapping: a read copies from the mapped file, a write copies into it, and the kernel moves pages when they are touched.
//!
//! It is here to be measured. A file that shrinks, and an error of the device, end the process by a signal (SIGBUS), so no job uses it.

#![expect(unsafe_code, reason = "the bytes of a mapped file change behind the compiler's back")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{NonNull, copy_nonoverlapping, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::{Completion, OpenQueue, Operation, Queue, Request};
use crate::system::sync_data;
use crate::{Buffer, FileHandle};

/// The engine of memory mapping, for files that nothing else changes in length. For comparison only: no [`Engine`](crate::Engine) stands
/// for it.
///
/// Requests are done one by one, in [`Queue::wait`]. A write cannot extend the file.
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    /// Whether files are written too; their handles must permit both.
    pub writes: bool,
    /// Whether requests come in no order, so that the kernel reads nothing ahead.
    pub is_random: bool,
}

impl OpenQueue for Mapped {
    fn name(&self) -> &'static str {
        "mmap"
    }

    fn open(&self, _depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(MappedQueue { engine: *self, files: Vec::new(), taken: Vec::new() }))
    }
}

/// A file, mapped from start to end.
struct Map {
    base: NonNull<u8>,
    len: usize,
    /// Keeps the descriptor, and so its number, from being used for another file.
    handle: FileHandle,
}

impl Map {
    fn new(engine: Mapped, handle: &FileHandle) -> io::Result<Self> {
        let fd = handle.fd()?;
        let len = usize::try_from(rustix::fs::fstat(fd)?.st_size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let access = if engine.writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing. No reference to its bytes is ever made.
        let base = unsafe { rustix::mm::mmap(null_mut(), len, access, MapFlags::SHARED, fd.as_fd(), 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = Self { base, len, handle: handle.clone() };
        let advice = if engine.is_random { Advice::Random } else { Advice::Sequential };
        // SAFETY: the range is the new mapping, and the advice changes no byte of it.
        unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, advice)? };
        Ok(map)
    }

    /// Copies between the file at `offset` and `bytes`, as far as the file goes. Returns the number of bytes.
    fn copy(&self, operation: Operation, offset: u64, bytes: &mut [u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len);
        let len = bytes.len().min(self.len - start);
        // SAFETY: `start + len` is within the mapping, which is this queue's own memory, so `bytes` does not overlap it. Other threads
        // that copy to the same place may mix the bytes, as with `pwrite`.
        unsafe {
            let place = self.base.as_ptr().add(start);
            match operation {
                Operation::Write => copy_nonoverlapping(bytes.as_ptr(), place, len),
                _ => copy_nonoverlapping(place, bytes.as_mut_ptr(), len),
            }
        }
        len
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it exists.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len).ok() };
    }
}

/// The queue of one worker.
struct MappedQueue {
    engine: Mapped,
    files: Vec<Map>,
    taken: Vec<Request>,
}

impl MappedQueue {
    fn map(&mut self, handle: &FileHandle) -> io::Result<&Map> {
        let number = handle.fd()?.as_raw_fd();
        let is_of = |map: &Map| map.handle.fd().is_ok_and(|fd| fd.as_raw_fd() == number);
        let at = match self.files.iter().position(is_of) {
            Some(at) => at,
            None => {
                self.files.push(Map::new(self.engine, handle)?);
                self.files.len() - 1
            }
        };
        self.files.get(at).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn carry(&mut self, request: &mut Request) -> io::Result<u32> {
        if request.operation == Operation::Sync {
            return sync_data(request.handle.fd()?).map(|()| 0);
        }
        if request.operation == Operation::Write && !self.engine.writes {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let bytes = request.buffer.range_mut(request.start..request.start.saturating_add(request.len));
        let got = self.map(&request.handle)?.copy(request.operation, request.offset, bytes);
        if got == 0 && request.operation == Operation::Write && request.len > 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(u32::try_from(got).unwrap_or(u32::MAX))
    }
}

impl Queue for MappedQueue {
    fn submit(&mut self, request: Request) {
        self.taken.push(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        for mut request in std::mem::take(&mut self.taken) {
            let result = self.carry(&mut request);
            done.push(Completion { token: request.token, buffer: request.buffer, result });
        }
        Ok(())
    }
}
