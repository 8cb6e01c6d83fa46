//! `io_uring`: one system call starts a batch and waits; the kernel keeps the buffers' pages pinned across requests.

#![expect(unsafe_code, reason = "the kernel writes to buffers behind the compiler's back")]

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;

use super::{Completion, OpenQueue, Operation, Queue, Request};
use crate::Buffer;

/// The engine of `io_uring`, Linux 5.6 and later.
#[derive(Debug, Clone, Copy)]
pub struct Uring;

/// What the kernel must be able to do.
const NEEDED: [u8; 5] =
    [opcode::Read::CODE, opcode::ReadFixed::CODE, opcode::Write::CODE, opcode::WriteFixed::CODE, opcode::Fsync::CODE];

impl OpenQueue for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn open(&self, depth: u32, buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let ring = new_ring(depth)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !NEEDED.iter().all(|&code| probe.is_supported(code)) {
            return Err(Errno::NOSYS.into());
        }
        let (registered, note) = match register(&ring, buffers) {
            Ok(registered) => (registered, None),
            Err(error) => (Vec::new(), Some(format!("buffers are not registered with io_uring: {error}"))),
        };
        let flying = (0..depth).map(|_| None).collect();
        Ok(Box::new(UringQueue { ring, flying, free: (0..depth).collect(), registered, note }))
    }
}

/// A ring for one thread, whose completions are worked on when that thread asks (Linux 6.1), or a plain one.
fn new_ring(depth: u32) -> io::Result<IoUring> {
    let lean = IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(depth);
    match lean {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => IoUring::builder().dontfork().build(depth),
        lean => lean,
    }
}

/// Registers the buffers, so that the kernel need not find and pin their pages for each request; returns the address of
/// each. The limit on locked memory may forbid it.
fn register(ring: &IoUring, buffers: &[Buffer]) -> io::Result<Vec<usize>> {
    let mut addresses = vec![0; buffers.len()];
    let mut vectors = vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; buffers.len()];
    for buffer in buffers {
        let index = usize::from(buffer.index());
        let (Some(address), Some(vector)) = (addresses.get_mut(index), vectors.get_mut(index)) else {
            return Err(Errno::INVAL.into());
        };
        *address = buffer.bytes().as_ptr() as usize;
        *vector = libc::iovec { iov_base: buffer.bytes().as_ptr().cast_mut().cast(), iov_len: buffer.bytes().len() };
    }
    // SAFETY: every vector describes live memory of the length it says. The kernel pins the pages, so that they stay even
    // if the buffers were dropped first, and touches them only for a `ReadFixed` or `WriteFixed` request, which `entry`
    // makes only for a buffer that the request owns.
    unsafe { ring.submitter().register_buffers(&vectors)? };
    Ok(addresses)
}

/// The queue of one worker.
struct UringQueue {
    ring: IoUring,
    /// Requests that the kernel has, or soon will have; their place is their `user_data`.
    flying: Box<[Option<Request>]>,
    /// Places in `flying` that are free.
    free: Vec<u32>,
    /// The address of each registered buffer, by its index; empty when registering failed.
    registered: Vec<usize>,
    note: Option<String>,
}

impl UringQueue {
    fn in_flight(&self) -> usize {
        self.flying.len() - self.free.len()
    }

    /// Takes what the kernel has completed.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        for event in self.ring.completion() {
            let place = event.user_data();
            let flying = usize::try_from(place).ok().and_then(|place| self.flying.get_mut(place));
            let (Some(request), Ok(place)) = (flying.and_then(Option::take), u32::try_from(place)) else {
                continue;
            };
            self.free.push(place);
            let result = u32::try_from(event.result()).map_err(|_| io::Error::from_raw_os_error(-event.result()));
            done.push(Completion { token: request.token, buffer: request.buffer, result });
        }
    }

    /// Enters the kernel to submit what was taken, and to wait for `want` completions.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(want) {
            Ok(_) => Ok(()),
            // Interrupted, or more completions or requests than the kernel can hold now: the caller reaps and comes again.
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }
}

impl Queue for UringQueue {
    fn submit(&mut self, mut request: Request) {
        let Some(place) = self.free.pop() else {
            // The caller broke its promise about the depth. The ring has no room; dropping the request is all that is left.
            debug_assert!(false, "more requests than the depth");
            return;
        };
        let entry = entry(&mut request, &self.registered).user_data(u64::from(place));
        if let Some(flying) = self.flying.get_mut(place as usize) {
            *flying = Some(request);
        }
        // SAFETY: the entry points into the heap memory of a buffer that now lies in `flying` and stays there, unmoved
        // and untouched, until the kernel has completed it (`reap`) or forever (`drop`). Its descriptor is open for as
        // long, because the request holds the handle.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // There are at least as many entries as places in `flying`, and each place is used once at a time.
        debug_assert!(pushed.is_ok(), "the ring has an entry for each place");
    }

    fn kick(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.enter(0)
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let before = done.len();
        while done.len() == before && self.in_flight() > 0 {
            self.enter(1)?;
            self.reap(done);
        }
        Ok(())
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            if self.wait(&mut done).is_err() {
                // The kernel may still use these buffers. Lost memory is better than memory that changes by itself.
                std::mem::forget(std::mem::take(&mut self.flying));
                return;
            }
        }
    }
}

/// The kernel's form of a request, with a registered buffer where there is one.
fn entry(request: &mut Request, registered: &[usize]) -> squeue::Entry {
    let fd = Fd(request.handle.fd().map_or(-1, |fd| fd.as_raw_fd()));
    let (index, offset) = (request.buffer.index(), request.offset);
    let fixed = registered.get(usize::from(index)) == Some(&(request.buffer.bytes().as_ptr() as usize));
    let bytes = request.buffer.range_mut(request.start..request.start.saturating_add(request.len));
    let (start, len) = (bytes.as_mut_ptr(), u32::try_from(bytes.len()).unwrap_or(0));
    match request.operation {
        Operation::Read if fixed => opcode::ReadFixed::new(fd, start, len, index).offset(offset).build(),
        Operation::Read => opcode::Read::new(fd, start, len).offset(offset).build(),
        Operation::Write if fixed => opcode::WriteFixed::new(fd, start, len, index).offset(offset).build(),
        Operation::Write => opcode::Write::new(fd, start, len).offset(offset).build(),
        Operation::Sync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
    }
}
