//! `bench`: what this machine can do, and what each of innokit's ways of moving and judging bytes brings on it.
//!
//! * [`device`]: pattern -> queue -> rate; a search over engine, block size, depth and threads finds the device's limit.
//! * [`check`]: one file, verified in many ways, each beside the limit that was found on the same file in the same run.
//! * [`log`]: commits to logs written in different ways, with what the device did for each.
//! * [`scan`]: the trees of a tablespace, read with each kind of read-ahead, past the page cache and through it.
//! * [`recover`]: a crashed datadir, recovered with one more idea each time, on the real device and on a simulated one.
//! * [`kernels`]: every checksum by every path that the processor has.
//!
//! What holds for all of them: figures come with their repetitions, ratios are taken within one round, and a report says what was
//! cold and what was cached. Files are made in a directory of the run's own and have no name while they are used.

pub mod check;
pub mod cold;
pub mod counting;
pub mod device;
pub mod kernels;
pub mod log;
pub mod machine;
pub mod pattern;
pub mod recover;
pub mod scan;
pub mod search;
pub mod stats;

mod scratch;
mod target;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use jobs::Error;

/// Where a bench stands.
#[derive(Clone, Debug)]
pub struct BenchStep {
    /// What is being measured.
    pub what: String,
    /// Measurements done.
    pub done: u64,
    /// Measurements in all, as far as they can be foreseen.
    pub expected: u64,
}

/// Who looks on, and may end it.
#[derive(Clone, Copy)]
pub struct Watch<'w> {
    /// Told before each measurement.
    pub step: &'w (dyn Fn(&BenchStep) + Sync),
    /// Set when somebody wants the run to end.
    pub stop: &'w AtomicBool,
}

impl Watch<'_> {
    /// Tells who looks on.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when the run shall end.
    pub fn step(&self, what: impl Into<String>, done: u64, expected: u64) -> Result<(), Error> {
        self.go_on()?;
        (self.step)(&BenchStep { what: what.into(), done, expected: expected.max(done) });
        Ok(())
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when the run shall end.
    pub fn go_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, action, source }
}
