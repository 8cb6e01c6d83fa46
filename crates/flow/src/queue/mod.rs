//! The one door to storage: requests in, completions out, at most `depth` in flight, buffers from a bounded pool.
//!
//! Engines: [`Uring`] (Linux), [`Threads`] (any Unix), [`sim::SimDevice`] (a device made of memory, time and misfortune).
//! Others are handed in through [`OpenQueue`]. Nothing about the engine is global.

mod engines;
pub mod sim;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::io;

pub use threads::Threads;
#[cfg(target_os = "linux")]
pub use uring::Uring;

use crate::{Buffer, FileHandle, FileId};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// Reads bytes of the file into the buffer.
    #[default]
    Read,
    /// Writes bytes of the buffer to the file, which grows if they lie past its end.
    Write,
    /// Makes durable what was written to the file (`fdatasync`): every write that had completed when the sync was
    /// submitted. Of writes that were in flight then, nothing is known. Offset, start and length do not matter, and the
    /// buffer may be [`Buffer::empty`].
    Sync,
}

/// A read, write or sync to be done. It owns its buffer, so that nobody touches the bytes meanwhile.
#[derive(Debug)]
pub struct Request {
    /// The caller's name for the request, returned with its completion.
    pub token: u64,
    /// What to do.
    pub operation: Operation,
    /// Which file, for engines that keep files of their own.
    pub file: FileId,
    /// The open file, for engines that ask the system.
    pub handle: FileHandle,
    /// Where to read or write in the file, in bytes; aligned to 4096 when the handle is direct.
    pub offset: u64,
    /// Where in the buffer the first byte goes or comes from; aligned to 4096 when the handle is direct.
    pub start: u32,
    /// How many bytes; a multiple of 4096 when the handle is direct. `start + len` is within the buffer.
    pub len: u32,
    /// Where the bytes go or come from.
    pub buffer: Buffer,
}

/// A request that is done.
#[derive(Debug)]
pub struct Completion {
    /// The token of the request.
    pub token: u64,
    /// The buffer of the request.
    pub buffer: Buffer,
    /// The number of bytes read or written, from `start` of the buffer on: fewer than asked when a read meets the end of
    /// the file, and now and then elsewhere; 0 for a sync. Or why it failed: the bytes asked for, in the buffer of a read
    /// and in the file of a write, are then undefined, the others untouched. A sync that failed is not to be repeated: the
    /// system may have forgotten what was to be made durable, and would answer that all is well.
    pub result: io::Result<u32>,
}

/// Requests in, completions out.
///
/// Every implementation promises:
/// * each submitted request completes exactly once, in any order, with its own buffer and token;
/// * `submit` and `kick` do not wait for the device; `wait` returns at least one completion unless none is in flight;
/// * a request need not start before the next `kick` or `wait`, so that many can start in one system call;
/// * requests in flight together are done in any order, those to the same bytes too: who wants an order waits;
/// * bytes of the buffer outside the range asked for are left alone, and all of a write's buffer;
/// * the failure of a request is its completion's, never the queue's; an error of `kick` or `wait` means that the queue as
///   such is broken and will not return what it holds;
/// * dropping the queue waits until nothing reads from or writes to a buffer any more; requests that have not started by
///   then may never start.
///
/// The caller promises not to exceed the depth it opened the queue with, and to use one queue on one thread.
pub trait Queue {
    /// Takes a request.
    fn submit(&mut self, request: Request);

    /// Starts all requests taken so far.
    ///
    /// # Errors
    /// The queue is broken.
    fn kick(&mut self) -> io::Result<()>;

    /// Starts all requests taken so far, waits until at least one is done, and appends all that are done.
    ///
    /// # Errors
    /// The queue is broken.
    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()>;

    /// What a user who asks for details should know about how this queue works here, e.g. what it had to do without.
    fn note(&self) -> Option<&str> {
        None
    }
}

/// Makes queues, one for each worker. Handed to the [`Reader`](crate::Reader), never global.
///
/// Every implementation promises that an error of `open` leaves nothing behind, so that another engine can be tried.
pub trait OpenQueue: Sync {
    /// The engine's name as users know it.
    fn name(&self) -> &'static str;

    /// A queue for at most `depth` requests in flight. Requests will come with buffers of `buffers`, all of which are
    /// shown here so that an engine can register them; they outlive the queue.
    ///
    /// # Errors
    /// The engine does not work here: missing, forbidden, or out of resources.
    fn open(&self, depth: u32, buffers: &[Buffer]) -> io::Result<Box<dyn Queue>>;
}
