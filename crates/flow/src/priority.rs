//! How urgent a thread's requests to the device are.

#![expect(unsafe_code, reason = "neither std nor rustix wraps ioprio_set")]

use std::io;

/// The class of `ioprio_set(2)` that is served only when no other request waits, and where the class is in a priority.
const CLASS_IDLE: libc::c_int = 3;
const CLASS_SHIFT: u32 = 13;
/// The calling thread.
const WHO_PROCESS: libc::c_int = 1;
const SELF: libc::c_int = 0;

/// The I/O priority of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoPriority(libc::c_int);

impl IoPriority {
    /// No class of its own: what the thread's nice value implies.
    pub const NONE: Self = Self(0);

    /// The device serves everyone else first. I/O schedulers without classes (`none`) ignore it.
    pub const IDLE: Self = Self(CLASS_IDLE << CLASS_SHIFT);

    /// The calling thread's priority. It may have one already: from `ionice`, or from its service manager.
    ///
    /// # Errors
    /// The system's error.
    pub fn now() -> io::Result<Self> {
        // SAFETY: the call takes two integers and touches no memory of ours.
        let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, SELF) };
        // A failed call returns -1, which is no priority.
        let priority = libc::c_int::try_from(priority).ok().filter(|priority| *priority >= 0);
        let priority = priority.ok_or_else(io::Error::last_os_error)?;
        // Without a class there is no level either. Linux before 5.18 reports one all the same, and does not accept it back.
        Ok(if priority >> CLASS_SHIFT == 0 { Self::NONE } else { Self(priority) })
    }

    /// Gives this priority to the calling thread and to the threads that it starts.
    ///
    /// # Errors
    /// The system's error.
    pub fn set(self) -> io::Result<()> {
        // SAFETY: the call takes three integers and touches no memory of ours.
        let done = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, SELF, self.0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_idle_for_itself_and_those_that_it_starts_until_it_has_its_own_priority_again() {
        let now = || IoPriority::now().expect("asked");
        let before = now();
        IoPriority::IDLE.set().expect("set");
        assert_eq!(now(), IoPriority::IDLE);
        assert_eq!(std::thread::spawn(now).join().expect("ended"), IoPriority::IDLE);
        before.set().expect("set");
        assert_eq!(now(), before);
    }
}
