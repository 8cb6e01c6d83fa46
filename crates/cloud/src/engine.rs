//! The range request engine: many requests in flight, each a runtime task that owns its buffer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use flow::Buffer;
use flow::queue::{Completion, OpenQueue, Operation, Queue, Request};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::blocks::Blocks;
use crate::carrier::Carrier;
use crate::fault::Fault;
use crate::fetch::Object;

/// A file of a set.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A local file; the request brings its open handle.
    Here,
    Object(Arc<Object>),
    /// An object that had vanished when the set was built.
    Gone(Fault),
}

/// Objects and local files, in the order of a file set.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    pub sources: Arc<[Source]>,
    pub blocks: Arc<Blocks>,
    pub carrier: Arc<Carrier>,
}

impl OpenQueue for Ranges {
    fn name(&self) -> &'static str {
        "range requests"
    }

    fn open(&self, _depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        let runtime = self.carrier.handle().map_err(|fault| fault.to_io())?;
        Ok(Box::new(RangeQueue { ranges: self.clone(), runtime, shared: Arc::default(), tasks: Vec::new() }))
    }
}

/// State shared by the queue and its tasks.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    done: Vec<Completion>,
    /// Tasks still running.
    running: usize,
}

impl Shared {
    /// Locks the state. It stays valid if another thread panics: every change is a single push or count.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a task for as long as it lives, even if it is cancelled.
struct Running(Arc<Shared>);

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.lock().running += 1;
        Self(Arc::clone(shared))
    }

    fn end(self, completion: Completion) {
        self.0.lock().done.push(completion);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.changed.notify_one();
    }
}

/// One worker's queue.
struct RangeQueue {
    ranges: Ranges,
    runtime: Handle,
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

impl Queue for RangeQueue {
    fn submit(&mut self, mut request: Request) {
        let source = self.ranges.sources.get(request.file.0 as usize).cloned();
        let running = Running::new(&self.shared);
        let Some(Source::Object(object)) = source else {
            let task = self.runtime.spawn_blocking(move || running.end(elsewhere(request, source)));
            return self.tasks.push(task.abort_handle());
        };
        let blocks = Arc::clone(&self.ranges.blocks);
        let task = self.runtime.spawn(async move {
            let range = request.start..request.start.saturating_add(request.len);
            let (offset, bytes) = (request.offset, request.buffer.range_mut(range));
            let result = match blocks.copy(object.number, object.len, offset, bytes) {
                Some(got) => Ok(got),
                None if request.operation != Operation::Read => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
                None => object.fill(bytes, offset).await.map_err(|fault| fault.to_io()),
            };
            let result = result.map(|got| u32::try_from(got).unwrap_or(u32::MAX));
            running.end(Completion { token: request.token, buffer: request.buffer, result });
        });
        self.tasks.push(task.abort_handle());
    }

    /// Tasks start at once.
    fn kick(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut state = self.shared.lock();
        while state.done.is_empty() && state.running > 0 {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        done.append(&mut state.done);
        drop(state);
        self.tasks.retain(|task| !task.is_finished());
        Ok(())
    }
}

impl Drop for RangeQueue {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        let mut state = self.shared.lock();
        while state.running > 0 {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Completes a request that is not for an object, on a thread that may block: most are for local files.
fn elsewhere(mut request: Request, source: Option<Source>) -> Completion {
    let range = request.start..request.start.saturating_add(request.len);
    let result = match source {
        Some(Source::Gone(fault)) => Err(fault.to_io()),
        _ if request.operation != Operation::Read => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        _ => request.handle.fd().and_then(|fd| fd.try_clone_to_owned()).and_then(|fd| {
            let got = File::from(fd).read_at(request.buffer.range_mut(range), request.offset)?;
            Ok(u32::try_from(got).unwrap_or(u32::MAX))
        }),
    };
    Completion { token: request.token, buffer: request.buffer, result }
}
