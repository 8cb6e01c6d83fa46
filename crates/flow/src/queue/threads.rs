//! A pool of threads that `pread`, `pwrite` and `fdatasync`: works on any Unix. The same pool reads from files that somebody keeps.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::{Completion, OpenQueue, Operation, Queue, Request};
use crate::job::for_this_job;
use crate::system::sync_data;
use crate::{Buffer, FileId};

/// The engine of `pread` threads, which also write and sync: one thread per request in flight.
#[derive(Debug, Clone, Copy)]
pub struct Threads;

impl OpenQueue for Threads {
    fn name(&self) -> &'static str {
        "pread threads"
    }

    fn open(&self, depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        pool(depth, STACK_SIZE, &(Arc::new(perform) as Performer))
    }
}

/// The threads only make system calls.
const STACK_SIZE: usize = 64 * 1024;

/// Files whose bytes are not read from a device as they lie, but made by the caller's code.
///
/// Every implementation promises:
/// * the same bytes for the same place, however often and by however many threads at once it is asked;
/// * fewer bytes than asked for only where the file ends.
pub trait KeptFiles: Debug + Send + Sync {
    /// Whether the file is one of these. Requests for others carry an open handle.
    fn keeps(&self, file: FileId) -> bool;

    /// Reads bytes of a file at `offset`. Returns how many.
    ///
    /// # Errors
    /// The bytes cannot be made.
    fn read_at(&self, file: FileId, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// The engine of threads that ask [`KeptFiles`] for the bytes of its files, and read others with `pread`. It does not write.
#[derive(Debug, Clone)]
pub struct Made(pub Arc<dyn KeptFiles>);

/// These threads run the caller's code.
const STACK_SIZE_OF_MADE: usize = 1 << 20;

impl OpenQueue for Made {
    fn name(&self) -> &'static str {
        "threads that make pages"
    }

    fn open(&self, depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let files = Arc::clone(&self.0);
        let make = move |mut request: Request| {
            if request.operation != Operation::Read {
                let result = Err(io::ErrorKind::ReadOnlyFilesystem.into());
                return Completion { token: request.token, buffer: request.buffer, result };
            }
            if !files.keeps(request.file) {
                return perform(request);
            }
            let range = request.start..request.start.saturating_add(request.len);
            let result = files.read_at(request.file, request.buffer.range_mut(range), request.offset);
            let result = result.map(|done| u32::try_from(done).unwrap_or(u32::MAX));
            Completion { token: request.token, buffer: request.buffer, result }
        };
        pool(depth, STACK_SIZE_OF_MADE, &(Arc::new(make) as Performer))
    }
}

/// How the threads of a pool do a request.
type Performer = Arc<dyn Fn(Request) -> Completion + Send + Sync>;

fn pool(depth: u32, stack_size: usize, perform: &Performer) -> io::Result<Box<dyn Queue>> {
    let mut pool =
        ThreadQueue { shared: Arc::default(), threads: Vec::new(), taken: Vec::new(), in_flight: 0, note: None };
    for index in 0..depth {
        let (shared, perform) = (Arc::clone(&pool.shared), Arc::clone(perform));
        let serve = for_this_job(move || serve(&shared, &*perform));
        match Builder::new().name(format!("io-{index}")).stack_size(stack_size).spawn(serve) {
            Ok(thread) => pool.threads.push(thread),
            Err(error) if pool.threads.is_empty() => return Err(error),
            Err(error) => {
                pool.note = Some(format!("{index} I/O threads instead of {depth}: {error}"));
                break;
            }
        }
    }
    Ok(Box::new(pool))
}

/// What the worker and its threads share.
#[derive(Debug, Default)]
struct Shared {
    todo: Mutex<Todo>,
    work: Condvar,
    done: Mutex<Vec<Completion>>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Todo {
    requests: VecDeque<Request>,
    closed: bool,
}

/// The queue of one worker.
struct ThreadQueue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Requests not given to the threads yet.
    taken: Vec<Request>,
    in_flight: usize,
    note: Option<String>,
}

impl Queue for ThreadQueue {
    fn submit(&mut self, request: Request) {
        self.taken.push(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        if self.taken.is_empty() {
            return Ok(());
        }
        let count = self.taken.len();
        self.in_flight += count;
        lock(&self.shared.todo).requests.extend(self.taken.drain(..));
        for _ in 0..count {
            self.shared.work.notify_one();
        }
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        self.kick()?;
        if self.in_flight == 0 {
            return Ok(());
        }
        let mut ready = lock(&self.shared.done);
        while ready.is_empty() {
            ready = self.shared.ready.wait(ready).unwrap_or_else(PoisonError::into_inner);
        }
        self.in_flight -= ready.len();
        done.append(&mut ready);
        Ok(())
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Drop for ThreadQueue {
    fn drop(&mut self) {
        let mut todo = lock(&self.shared.todo);
        todo.closed = true;
        todo.requests.clear();
        drop(todo);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked leaves nothing to wait for.
            drop(thread.join());
        }
    }
}

/// One thread: works until the queue is dropped.
fn serve(shared: &Shared, perform: &dyn Fn(Request) -> Completion) {
    loop {
        let mut todo = lock(&shared.todo);
        let request = loop {
            if todo.closed {
                return;
            }
            match todo.requests.pop_front() {
                Some(request) => break request,
                None => todo = shared.work.wait(todo).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(todo);
        let completion = perform(request);
        lock(&shared.done).push(completion);
        shared.ready.notify_one();
    }
}

/// Performs the request on this thread.
fn perform(mut request: Request) -> Completion {
    let range = request.start..request.start.saturating_add(request.len);
    let (operation, offset, buffer) = (request.operation, request.offset, &mut request.buffer);
    let result = request.handle.fd().and_then(|fd| match operation {
        Operation::Read => Ok(rustix::io::pread(fd, buffer.range_mut(range), offset)?),
        Operation::Write => Ok(rustix::io::pwrite(fd, buffer.range(range), offset)?),
        Operation::Sync => sync_data(fd).map(|()| 0),
    });
    let result = result.map(|done| u32::try_from(done).unwrap_or(u32::MAX));
    Completion { token: request.token, buffer: request.buffer, result }
}

/// A panic elsewhere leaves the lists intact: they change by single pushes and pops.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
