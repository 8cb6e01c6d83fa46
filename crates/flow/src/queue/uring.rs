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

/// Operations that the kernel must support.
const NEEDED: [u8; 5] =
    [opcode::Read::CODE, opcode::ReadFixed::CODE, opcode::Write::CODE, opcode::WriteFixed::CODE, opcode::Fsync::CODE];

impl OpenQueue for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn open(&self, depth: u32, buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let ring = leanest(|setup| setup.build(depth))?;
        Ok(Box::new(UringQueue::new(ring, depth, buffers)?))
    }
}

/// When the kernel finishes a request whose data has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setup {
    /// When the only thread that may use the ring waits for completions: all that have arrived, at once (Linux 6.1).
    Deferred,
    /// When the thread enters the kernel for any reason; it is not interrupted (Linux 5.19).
    Cooperative,
    /// At once: the thread is interrupted for it.
    Plain,
}

impl Setup {
    /// The leanest first.
    const ALL: [Self; 3] = [Self::Deferred, Self::Cooperative, Self::Plain];

    fn build(self, depth: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        builder.dontfork();
        match self {
            Self::Deferred => builder.setup_single_issuer().setup_defer_taskrun(),
            Self::Cooperative => builder.setup_coop_taskrun(),
            Self::Plain => &mut builder,
        };
        builder.build(depth)
    }
}

/// The result of the leanest setup that the kernel supports: it answers `EINVAL` to flags that are newer than itself.
fn leanest<R>(mut build: impl FnMut(Setup) -> io::Result<R>) -> io::Result<R> {
    let mut outcome = Err(Errno::INVAL.into());
    for setup in Setup::ALL {
        outcome = build(setup);
        match &outcome {
            Err(error) if Errno::from_io_error(error) == Some(Errno::INVAL) => {}
            _ => break,
        }
    }
    outcome
}

/// Registers the buffers, so that the kernel need not find and pin their pages for each request; returns the address of each. The limit on
/// locked memory may prevent this.
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
    // SAFETY: every vector describes live memory of the given length. The kernel pins the pages, so they stay even if the buffers were
    // dropped first, and touches them only for a `ReadFixed` or `WriteFixed` request, which `entry` creates only for a buffer that the
    // request owns.
    unsafe { ring.submitter().register_buffers(&vectors)? };
    Ok(addresses)
}

/// The queue of one worker.
struct UringQueue {
    ring: IoUring,
    /// Requests that the kernel has, or soon will have; their index is their `user_data`.
    flying: Box<[Option<Request>]>,
    /// Free indexes in `flying`.
    free: Vec<u32>,
    /// The address of each registered buffer, by its index; empty if registering failed.
    registered: Vec<usize>,
    note: Option<String>,
}

impl UringQueue {
    fn new(ring: IoUring, depth: u32, buffers: &[Buffer]) -> io::Result<Self> {
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
        Ok(Self { ring, flying, free: (0..depth).collect(), registered, note })
    }

    fn in_flight(&self) -> usize {
        self.flying.len() - self.free.len()
    }

    /// Takes the kernel's completions.
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

    /// Enters the kernel to submit the requests, and to wait for `want` completions.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(want) {
            Ok(_) => Ok(()),
            // Interrupted, or too many completions or requests for the kernel right now: the caller reaps and tries again.
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
            // The caller exceeded the depth. The ring has no room, so the request can only be dropped.
            debug_assert!(false, "more requests than the depth");
            return;
        };
        let entry = entry(&mut request, &self.registered).user_data(u64::from(place));
        if let Some(flying) = self.flying.get_mut(place as usize) {
            *flying = Some(request);
        }
        // SAFETY: the entry points into the heap memory of a buffer that is now in `flying` and stays there, unmoved and untouched, until
        // the kernel has completed the request (`reap`) or forever (`drop`). Its descriptor stays open as long, because the request holds
        // the handle.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // There are at least as many entries as indexes in `flying`, and each index is used once at a time.
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
                // The kernel may still use these buffers. Leaking memory is better than memory that changes by itself.
                std::mem::forget(std::mem::take(&mut self.flying));
                return;
            }
        }
    }
}

/// The kernel's form of a request, with a registered buffer if possible.
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::{BufferPool, FileHandle, FileId};

    /// The setups tried on a kernel that first answers with `refusals`.
    fn asked(refusals: &[Errno]) -> (Vec<Setup>, io::Result<Setup>) {
        let mut asked = Vec::new();
        let outcome = leanest(|setup| {
            let refusal = refusals.get(asked.len());
            asked.push(setup);
            refusal.map_or(Ok(setup), |&refusal| Err(refusal.into()))
        });
        (asked, outcome)
    }

    #[test]
    fn an_old_kernel_is_asked_for_less_step_by_step() {
        for known in 0..Setup::ALL.len() {
            let (asked, outcome) = asked(&vec![Errno::INVAL; known]);
            assert_eq!(asked, Setup::ALL[..=known]);
            assert_eq!(outcome.expect("the last setup asked for is known"), Setup::ALL[known]);
        }
        let (_, outcome) = asked(&[Errno::INVAL; 3]);
        assert_eq!(Errno::from_io_error(&outcome.expect_err("nothing is known")), Some(Errno::INVAL));
    }

    #[test]
    fn a_kernel_that_forbids_or_lacks_memory_is_not_asked_again() {
        for refusal in [Errno::PERM, Errno::NOSYS, Errno::NOMEM, Errno::MFILE] {
            let (asked, outcome) = asked(&[refusal]);
            assert_eq!(asked, [Setup::Deferred]);
            assert_eq!(Errno::from_io_error(&outcome.expect_err("is refused")), Some(refusal));
        }
    }

    /// Reads `bytes` of a file, twice as many blocks as can be in flight.
    fn read_by(ring: IoUring, depth: u32, bytes: &[u8], handle: &FileHandle) -> io::Result<Vec<u8>> {
        const BLOCK: usize = 4096;
        let mut pool = BufferPool::new(depth as u16, BLOCK as u32)?;
        let mut queue = UringQueue::new(ring, depth, pool.free())?;
        let mut found = vec![0; bytes.len()];
        let mut offsets = (0..bytes.len()).step_by(BLOCK);
        let mut done = Vec::new();
        loop {
            while let Some(buffer) = pool.take() {
                let Some(offset) = offsets.next() else { break };
                let (token, operation, len) = (offset as u64, Operation::Read, BLOCK as u32);
                let (file, handle, offset) = (FileId(0), handle.clone(), offset as u64);
                queue.submit(Request { token, operation, file, handle, offset, start: 0, len, buffer });
            }
            if queue.in_flight() == 0 {
                return Ok(found);
            }
            queue.wait(&mut done)?;
            for Completion { token, buffer, result } in done.drain(..) {
                let start = token as usize;
                found[start..start + BLOCK].copy_from_slice(buffer.first(result?));
                pool.give_back(buffer);
            }
        }
    }

    #[test]
    fn every_setup_that_the_kernel_knows_reads_the_same_bytes() {
        let depth = 4;
        if let Err(error) = Setup::Plain.build(depth) {
            eprintln!("io_uring is left out, it does not work here: {error}");
            return;
        }
        let bytes: Vec<u8> = (0..8 * 4096_u32).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(&bytes).expect("write");
        let handle = FileHandle::of_file(file, false);
        for setup in Setup::ALL {
            match setup.build(depth) {
                Ok(ring) => {
                    assert!(read_by(ring, depth, &bytes, &handle).expect("reads") == bytes, "{setup:?}");
                }
                Err(error) => {
                    assert_eq!(Errno::from_io_error(&error), Some(Errno::INVAL), "{setup:?}");
                    assert_ne!(setup, Setup::Plain);
                }
            }
        }
    }
}
