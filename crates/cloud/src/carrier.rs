//! The threads that run requests. Each process has its own set: threads do not survive a fork.

use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::fault::Fault;

/// Threads per process. They only move bytes; the workers verify them.
const THREADS: usize = 2;

/// A value owned by the process that created it. A forked child creates its own and never touches the parent's: the connections belong to
/// the parent, and its threads do not exist in the child.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    made: Mutex<Option<(u32, T)>>,
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self { made: Mutex::new(None) }
    }
}

impl<T: Clone> PerProcess<T> {
    /// This process's value, created on first use.
    ///
    /// # Errors
    /// `make` failed.
    pub fn get<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((process, own)) if *process == std::process::id() => return Ok(own.clone()),
            _ => {}
        }
        let own = make()?;
        // Dropping the parent's value could wait for threads that do not exist here, or close the parent's connections.
        std::mem::forget(made.replace((std::process::id(), own.clone())));
        Ok(own)
    }
}

/// How many threads the system starts at once, up to `wanted`. Tokio panics if it gets fewer than it was told to start, and waits for the
/// missing ones: containers limit threads.
fn startable(wanted: usize) -> usize {
    let (held, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let start = |_| {
        let released = Arc::clone(&released);
        // Ends when the other side is dropped.
        let wait = move || released.lock().unwrap_or_else(PoisonError::into_inner).recv().is_ok();
        thread::Builder::new().spawn(wait).ok()
    };
    let started: Vec<_> = (0..wanted).map_while(start).collect();
    drop(held);
    let count = started.len();
    started.into_iter().for_each(|thread| drop(thread.join()));
    count
}

/// Runs requests. Starts its threads with the first one.
#[derive(Debug, Default)]
pub(crate) struct Carrier {
    handle: PerProcess<Handle>,
}

impl Carrier {
    /// Where tasks are started.
    ///
    /// # Errors
    /// The threads could not be started.
    pub fn handle(&self) -> Result<Handle, Fault> {
        let none = || Fault::new(io::ErrorKind::Other, "the threads that carry requests could not be started");
        self.handle.get(|| {
            // One more than the workers: names are looked up by a thread that may block.
            let workers = startable(THREADS + 1).saturating_sub(1);
            if workers == 0 {
                return Err(none());
            }
            let runtime = Builder::new_multi_thread().worker_threads(workers).thread_name("cloud").enable_all().build();
            let runtime: Runtime = runtime.map_err(|_| none())?;
            let handle = runtime.handle().clone();
            // Runs until the process exits.
            std::mem::forget(runtime);
            Ok(handle)
        })
    }

    /// Runs a future to completion and returns its result.
    pub fn wait<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.handle()?.block_on(work)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn as_many_threads_as_start_are_counted() {
        assert_eq!(startable(3), 3);
    }

    #[test]
    fn what_another_process_made_is_made_again() {
        let each = PerProcess::default();
        assert_eq!(each.get(|| Ok::<_, ()>(1)), Ok(1));
        assert_eq!(each.get(|| Ok::<_, ()>(2)), Ok(1), "this process has it");
        each.made.lock().unwrap().as_mut().unwrap().0 += 1;
        assert_eq!(each.get(|| Err::<i32, _>("no threads")), Err("no threads"));
        assert_eq!(each.get(|| Ok::<_, ()>(3)), Ok(3));
    }
}
