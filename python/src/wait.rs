//! Runs a job on its own thread, while the calling thread waits without the GIL and checks for Ctrl-C.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::failure::Failure;

/// How often a waiting thread checks for signals.
pub const TICK: Duration = Duration::from_millis(50);

/// Runs `job`. On Ctrl-C `stop` is set and the exception raised at once; the job ends by itself at the next page.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    stop: &Arc<AtomicBool>,
    job: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = sync_channel(1);
    let run = move || {
        let outcome = catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
        // After Ctrl-C nobody waits any more, so a failed send is fine.
        drop(sender.send(outcome));
    };
    thread::Builder::new().name("innokit".to_owned()).spawn(run)?;
    loop {
        let outcome;
        (receiver, outcome) = py.detach(move || {
            let outcome = receiver.recv_timeout(TICK);
            (receiver, outcome)
        });
        match outcome {
            Ok(outcome) => return Ok(outcome?),
            Err(RecvTimeoutError::Timeout) => {
                // Relaxed: the job only ends, and what it returns comes through the channel.
                py.check_signals().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Panic("a thread ended without a result".to_owned()).into());
            }
        }
    }
}

/// For tests: a job that panics.
#[pyfunction(name = "_panicking_job")]
pub fn panicking_job(py: Python<'_>) -> PyResult<()> {
    #[expect(clippy::panic, reason = "this is what the tests want to see caught")]
    let job = || -> Result<(), Failure> { panic!("a job that tests made panic") };
    interruptible(py, &Arc::default(), job)
}
