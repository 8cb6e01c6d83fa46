//! Tells Python that rows are missing, from whichever thread finds out.
//!
//! A consumer's thread must not wait for the GIL: the thread that holds it may be waiting for this one. So a thread of its own waits for it,
//! and the consumer's waits for that one, but only for a moment: then what it says comes later, at the latest when Python ends
//! (`innokit._errors` asks for that).

use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How long a consumer's thread waits.
const MOMENT: Duration = Duration::from_millis(500);
/// How long the end of Python waits. A thread that still waits for the GIL by then gets it within milliseconds.
const AT_END: Duration = Duration::from_secs(5);

/// How many losses are not told yet.
static UNTOLD: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Counts a loss as untold for as long as it exists.
struct Untold;

impl Untold {
    fn new() -> Self {
        *UNTOLD.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        *UNTOLD.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        UNTOLD.1.notify_all();
    }
}

/// Tells it on this thread, which may take the GIL.
///
/// # Errors
/// The filters of warnings make an exception of it.
pub fn tell_here(why: &str) -> Result<(), String> {
    let tell = |py: Python<'_>| py.import("innokit._errors")?.call_method1("_tell", (why,)).map(drop);
    // Without Python there is nobody to tell.
    Python::try_attach(tell).unwrap_or(Ok(())).map_err(|error: PyErr| error.to_string())
}

/// Tells it on another thread, and waits for that for a moment.
///
/// # Errors
/// As [`tell_here`], if that is known by then.
pub fn tell(why: String) -> Result<(), String> {
    let (sender, receiver) = sync_channel(1);
    later(move || {
        let told = tell_here(&why);
        // Who does not wait any more does not need it.
        drop(sender.send(told));
    })?;
    receiver.recv_timeout(MOMENT).unwrap_or(Ok(()))
}

/// Runs `job`, which tells a loss if it finds one, on another thread. Python does not end before.
///
/// # Errors
/// The thread cannot be started.
pub fn later(job: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let untold = Untold::new();
    let run = move || {
        job();
        drop(untold);
    };
    let thread = thread::Builder::new().name("innokit loss".to_owned()).spawn(run);
    thread.map(drop).map_err(|error| format!("no thread could be started: {error}"))
}

/// Waits until every loss is told.
#[pyfunction(name = "_wait_for_losses")]
pub fn wait_for_losses(py: Python<'_>) {
    py.detach(|| {
        let count = UNTOLD.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(UNTOLD.1.wait_timeout_while(count, AT_END, |count| *count > 0));
    });
}
