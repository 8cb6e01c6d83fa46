//! The program `innokit`: see `lib.rs`.

use std::process::ExitCode;

/// musl's own allocator takes one lock for all threads; builds against other C libraries keep theirs.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(innokit::run(std::env::args_os()))
}
