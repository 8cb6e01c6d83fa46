//! The program `innokit`: see `lib.rs`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// musl's own allocator takes one lock for all threads; builds against other C libraries keep theirs.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whether standard output was closed when the program was started.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Before `main`, Rust opens `/dev/null` in place of a closed standard output, and a report written there would count as written. The C library
/// calls this earlier.
// SAFETY: the entries of this section are pointers to functions that C may call; this one needs nothing that is initialised later.
#[cfg(target_os = "linux")]
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    // Relaxed: there is one thread.
    IS_CLOSED.store(!innokit::has_output(), Ordering::Relaxed);
}

fn main() -> ExitCode {
    // Relaxed: see above.
    if IS_CLOSED.load(Ordering::Relaxed) {
        return ExitCode::from(innokit::without_output());
    }
    innokit::own_process();
    ExitCode::from(innokit::run(std::env::args_os()))
}
