//! The command line: `python -m innokit`, and the script `innokit`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

/// The exit status of a Rust program after a panic. As an exception it would be 1, which means that damage was found.
const PANICKED: u8 = 101;

/// Runs the command line on the calling thread, without the GIL, and returns the exit status. Not for repeated calls, nor for a program
/// that continues: see [`innokit::run`]. `innokit/__main__.py` prepares the process for it.
#[pyfunction(name = "_run")]
pub fn run(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| guarded(|| innokit::run(arguments)))
}

/// The status of a command, even if it panics. The panic has been reported on standard error.
fn guarded(command: impl FnOnce() -> u8) -> u8 {
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        // As at the end of a Rust program: flush what was printed, and ignore errors.
        drop(io::stdout().flush());
        PANICKED
    })
}

/// For tests: a command that panics in the middle of a line.
#[pyfunction(name = "_panicking_run")]
pub fn panicking_run(py: Python<'_>) -> u8 {
    #[expect(clippy::panic, reason = "this is what the tests want to see caught")]
    let command = || -> u8 {
        print!("half a line");
        panic!("a command that tests made panic")
    };
    py.detach(|| guarded(command))
}
