//! The few system calls that differ between systems.

use std::io;
use std::os::fd::BorrowedFd;

/// Makes durable what was written to the file, and the metadata needed to read it.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn sync_data(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(fd)?)
}

/// `fsync` does not reach the medium here.
#[cfg(target_vendor = "apple")]
pub(crate) fn sync_data(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fcntl_fullfsync(fd)?)
}

/// Why the last system call of this thread failed, for calls that nobody wraps.
#[cfg(target_os = "linux")]
pub(crate) fn last_errno() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO)
}
