//! How urgent a thread's requests to the device are.

#![expect(unsafe_code, reason = "neither std nor rustix wraps ioprio_set")]

use std::io;

/// The classes of `ioprio_set(2)`: no class of its own, and idle, which is served only when no other request waits.
const CLASS_SHIFT: u32 = 13;
const CLASS_NONE: libc::c_int = 0;
const CLASS_IDLE: libc::c_int = 3;
/// The calling thread.
const WHO_PROCESS: libc::c_int = 1;
const SELF: libc::c_int = 0;

/// If `is_idle`, the device serves everyone else before this thread and the threads that it starts; if not, it no longer does. I/O
/// schedulers without classes (`none`) ignore it.
///
/// # Errors
/// The system's error.
pub fn set_io_idle(is_idle: bool) -> io::Result<()> {
    let class = if is_idle { CLASS_IDLE } else { CLASS_NONE };
    // SAFETY: the call takes three integers and touches no memory of ours.
    let done = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, SELF, class << CLASS_SHIFT) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> libc::c_long {
        // SAFETY: as above.
        let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, SELF) };
        assert!(priority >= 0, "{}", io::Error::last_os_error());
        priority >> CLASS_SHIFT
    }

    #[test]
    fn a_thread_is_idle_for_itself_and_those_that_it_starts_until_it_says_otherwise() {
        // Whoever runs the tests may have made them idle.
        set_io_idle(false).expect("set");
        let before = class();
        set_io_idle(true).expect("set");
        assert_eq!(class(), 3);
        assert_eq!(std::thread::spawn(class).join().expect("ended"), 3);
        set_io_idle(false).expect("set");
        assert_eq!(class(), before);
    }
}
