//! The only access to storage: requests in, completions out, at most `depth` in flight, buffers from a bounded pool.
//!
//! Engines: [`Uring`] (Linux), [`Threads`] (any Unix), [`Made`] (bytes that other code makes), [`sim::SimDevice`] (a simulated device with
//! faults). Others are passed in through [`OpenQueue`]. Nothing about the engine is global. [`Aio`] (Linux) and [`Mapped`] (any Unix) are the older ways, which benches compare
//! with these; no job asks for them.

#[cfg(target_os = "linux")]
mod aio;
mod engines;
mod mapped;
pub mod sim;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::io;

#[cfg(target_os = "linux")]
pub use aio::Aio;
pub use mapped::Mapped;
pub use threads::{KeptFiles, Made, Threads};
#[cfg(target_os = "linux")]
pub use uring::Uring;

use crate::{Buffer, FileHandle, FileId};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// Reads bytes of the file into the buffer.
    #[default]
    Read,
    /// Writes bytes of the buffer to the file, and extends the file if needed.
    Write,
    /// Makes writes to the file durable (`fdatasync`): all that had completed when the sync was submitted. It guarantees nothing for writes
    /// still in flight then. Offset, start and length do not matter, and the buffer may be [`Buffer::empty`].
    Sync,
}

/// A read, write or sync to do. It owns its buffer, so that nothing else touches the bytes meanwhile.
#[derive(Debug)]
pub struct Request {
    /// The caller's token, returned with the completion.
    pub token: u64,
    /// What to do.
    pub operation: Operation,
    /// Which file, for engines that keep their own files.
    pub file: FileId,
    /// The open file, for engines that use the system.
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

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// The token of the request.
    pub token: u64,
    /// The buffer of the request.
    pub buffer: Buffer,
    /// The number of bytes read or written, from `start` of the buffer on: fewer than requested when a read meets the end of the file, and
    /// occasionally elsewhere; 0 for a sync. Or the error: then the requested bytes are undefined, in the buffer of a read and in the file
    /// of a write, and all others untouched. A failed sync must not be repeated: the system may have dropped the dirty pages, and would
    /// report success.
    pub result: io::Result<u32>,
}

/// Requests in, completions out.
///
/// Every implementation promises:
/// * each submitted request completes exactly once, in any order, with its own buffer and token;
/// * `submit` and `kick` do not wait for the device; `wait` returns at least one completion unless none is in flight;
/// * a request need not start before the next `kick` or `wait`, so that many can start in one system call;
/// * requests in flight together are done in any order, even if they touch the same bytes: to get an order, wait;
/// * bytes of the buffer outside the requested range are not touched, nor is any byte of a write's buffer;
/// * the failure of a request is reported in its completion, never by the queue; an error of `kick` or `wait` means that the queue itself
///   is broken and will not return what it holds;
/// * dropping the queue waits until nothing reads from or writes to a buffer any more; requests not started by then may never start.
///
/// The caller must not exceed the depth with which it opened the queue, and must use a queue on one thread only.
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

    /// A note for a user who asks for details about how this queue works here, for example without a feature.
    fn note(&self) -> Option<&str> {
        None
    }
}

/// Opens queues, one for each worker. Passed to the [`Reader`](crate::Reader), never global.
///
/// Every implementation promises that a failed `open` leaves nothing behind, so that another engine can be tried.
pub trait OpenQueue: Sync {
    /// The engine's name as users know it.
    fn name(&self) -> &'static str;

    /// A queue for at most `depth` requests in flight. Requests will use the buffers in `buffers`, so that an engine can register them;
    /// they outlive the queue.
    ///
    /// # Errors
    /// The engine does not work here: missing, forbidden, or out of resources.
    fn open(&self, depth: u32, buffers: &[Buffer]) -> io::Result<Box<dyn Queue>>;
}
