//! The threads that carry requests, one set for each process: a process that was forked has none of its parent's.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::fault::Fault;

/// Threads of a process: the bytes they move are verified by others.
const THREADS: usize = 2;

/// Something that belongs to the process that made it. A forked child makes its own, and leaves the parent's alone: connections are the
/// parent's, and so are threads, which the child does not have.
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
    /// This process's own, made now if it has none.
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
        // Dropping what the parent made could wait for its threads, or close its connections.
        std::mem::forget(made.replace((std::process::id(), own.clone())));
        Ok(own)
    }
}

/// Carries requests. Nothing is started before the first.
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
            let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("cloud").enable_all().build();
            let runtime: Runtime = runtime.map_err(|_| none())?;
            let handle = runtime.handle().clone();
            // It runs until the process ends.
            std::mem::forget(runtime);
            Ok(handle)
        })
    }

    /// The result of some requests.
    pub fn wait<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.handle()?.block_on(work)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

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
