//! `bench`: what this machine can do, and what each of innokit's ways to move and verify bytes gains on it.
//!
//! * [`device`]: pattern -> queue -> rate; a search over engine, block size, depth and threads finds the device's limit.
//! * [`check`]: one file, verified in many ways, each compared with the limit found on the same file in the same run.
//! * [`log`]: commits to logs written in different ways, and what the device did for each.
//! * [`scan`]: the trees of a tablespace, read with each kind of read-ahead, direct and through the page cache.
//! * [`aged`]: a table for it that was used for some time.
//! * [`recover`]: a crashed datadir, recovered with one more idea each time, on the real device and on a simulated one.
//! * [`kernels`]: every checksum on every path that the processor has, and the conversion of text.
//!
//! All of them report figures with their repetitions, take ratios within one round, and say what was cold and what was cached. Files are
//! created in a directory of the run's own, and have no name while in use.

pub mod aged;
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
pub mod simulated;
pub mod stats;

mod scratch;
mod target;
mod texts;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use datadir::Error;

/// The progress of a bench.
#[derive(Clone, Debug)]
pub struct BenchStep {
    /// What is being measured.
    pub what: String,
    /// Measurements done.
    pub done: u64,
    /// Estimated number of measurements.
    pub expected: u64,
}

/// How the caller follows a run, and ends it.
#[derive(Clone, Copy)]
pub struct Watch<'w> {
    /// Called before each measurement.
    pub step: &'w (dyn Fn(&BenchStep) + Sync),
    /// Set to end the run.
    pub stop: &'w AtomicBool,
}

impl Watch<'_> {
    /// Reports the next measurement.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the run must end.
    pub fn step(&self, what: impl Into<String>, done: u64, expected: u64) -> Result<(), Error> {
        self.go_on()?;
        (self.step)(&BenchStep { what: what.into(), done, expected: expected.max(done) });
        Ok(())
    }

    /// Checks whether to go on.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the run must end.
    pub fn go_on(&self) -> Result<(), Error> {
        // Relaxed: a flag that only says "end soon".
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, action, source }
}
