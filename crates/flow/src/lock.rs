//! Locks on whole files that exclude programs with POSIX locks, which servers use for their data files.
//!
//! A POSIX lock belongs to the process, and is lost when the process closes any descriptor of the file, even one that a library opened. On
//! Linux, the locks taken here belong to the open file instead and last until it is closed. (`flock`, and so [`File::lock`], does not help:
//! POSIX locks do not see it.)

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "a system call without a safe wrapper"))]

use std::fs::File;
use std::io;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// How often [`lock_soon`] tries again, and the time between: one second in all.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Which locks a lock excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// All others; the file is open for writing.
    Exclusive,
    /// Exclusive ones; the file is open for reading.
    Shared,
}

/// Locks the whole file, without waiting, until it is closed; `false` if another program has locked it.
///
/// # Errors
/// The system's error.
pub fn try_lock(file: &File, sharing: Sharing) -> io::Result<bool> {
    let locked = match of_open_file(file, sharing) {
        // The kernel does not have such locks.
        Err(Errno::INVAL | Errno::NOSYS) => of_process(file, sharing),
        other => other,
    };
    match locked {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Locks the whole file like [`try_lock`], giving the holder a moment to let go: a server shutting down, or a child of this process that has
/// not called exec yet and still has all its parent's files open.
///
/// # Errors
/// The system's error.
pub fn lock_soon(file: &File, sharing: Sharing) -> io::Result<bool> {
    for _ in 0..LOCK_TRIES {
        if try_lock(file, sharing)? {
            return Ok(true);
        }
        thread::sleep(LOCK_PAUSE);
    }
    try_lock(file, sharing)
}

/// Whether another program has locked the file exclusively, like a server that has it open. The query locks nothing.
#[must_use]
pub fn is_locked(file: &File) -> bool {
    fcntl_getlk(file).is_some_and(|is_locked| is_locked)
}

#[cfg(target_os = "linux")]
fn fcntl_getlk(file: &File) -> Option<bool> {
    use std::os::fd::AsRawFd;

    let mut whole = libc::flock {
        l_type: libc::c_short::try_from(libc::F_RDLCK).ok()?,
        l_whence: libc::c_short::try_from(libc::SEEK_SET).ok()?,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor stays open while `file` is borrowed, and the call writes only to the structure it is given, and only during
    // the call.
    let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut whole) };
    (status == 0).then_some(i32::from(whole.l_type) != libc::F_UNLCK)
}

#[cfg(not(target_os = "linux"))]
fn fcntl_getlk(_: &File) -> Option<bool> {
    None
}

fn of_process(file: &File, sharing: Sharing) -> Result<(), Errno> {
    let operation = match sharing {
        Sharing::Exclusive => FlockOperation::NonBlockingLockExclusive,
        Sharing::Shared => FlockOperation::NonBlockingLockShared,
    };
    fcntl_lock(file, operation)
}

#[cfg(target_os = "linux")]
fn of_open_file(file: &File, sharing: Sharing) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;

    let kind = match sharing {
        Sharing::Exclusive => libc::F_WRLCK,
        Sharing::Shared => libc::F_RDLCK,
    };
    let whole = libc::flock {
        l_type: libc::c_short::try_from(kind).unwrap_or_default(),
        l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor stays open while `file` is borrowed, and the call reads only the structure it is given, and only during the
    // call.
    let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) };
    if status == 0 { Ok(()) } else { Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)) }
}

#[cfg(not(target_os = "linux"))]
fn of_open_file(_: &File, _: Sharing) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_keeps_others_away_until_its_file_is_closed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path).expect("opens");
        let lock = |sharing| {
            let file = open();
            try_lock(&file, sharing).expect("locks").then_some(file)
        };
        let first = lock(Sharing::Shared);
        assert!(first.is_some() && lock(Sharing::Shared).is_some());
        if cfg!(target_os = "linux") {
            assert!(lock(Sharing::Exclusive).is_none());
            // A server's POSIX lock would be lost here.
            drop(open());
            assert!(of_process(&open(), Sharing::Exclusive).is_err(), "those of POSIX are kept away too");
        }
        drop(first);
        assert!(lock(Sharing::Exclusive).is_some());
        assert!(of_process(&open(), Sharing::Exclusive).is_ok());
    }
}
