//! The command line: `python -m innokit`, and the script `innokit`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

/// What a Rust program exits with after a panic. As an exception it would be 1, which says that damage was found.
const PANICKED: u8 = 101;

/// Runs the command line on the calling thread, without the GIL, and returns the exit status. Not for more than one call, nor for a program
/// that goes on: see [`innokit::run`]. `innokit/__main__.py` prepares the process for it.
#[pyfunction(name = "_run")]
pub fn run(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| guarded(|| innokit::run(arguments)))
}

/// The status of a command, also of one with a defect. What has panicked has said so on standard error.
fn guarded(command: impl FnOnce() -> u8) -> u8 {
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        // As at the end of a Rust program: what was printed before is not lost, and nobody cares whether it was.
        drop(io::stdout().flush());
        PANICKED
    })
}

/// For the tests: a command with a defect, in the middle of a line.
#[pyfunction(name = "_panicking_run")]
pub fn panicking_run(py: Python<'_>) -> u8 {
    #[expect(clippy::panic, reason = "this is what the tests want to see caught")]
    let command = || -> u8 {
        print!("half a line");
        panic!("a command that tests made panic")
    };
    py.detach(|| guarded(command))
}
