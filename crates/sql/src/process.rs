//! The process behind a socket, and what it calls its files: in a container or a chroot these have other names.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, open};
use rustix::net::sockopt::socket_peercred;

/// The root directories that were opened, each with the number of its process.
static ROOTS: Mutex<Vec<(i32, OwnedFd)>> = Mutex::new(Vec::new());

/// Opens the root directory of the process that listens on a socket, and keeps it for connections that are made later: a process that has
/// restrained itself (Landlock) may not look into others any more. Does nothing where the system does not tell.
pub fn look_behind(socket: &Path) {
    let Some(process) = process_behind(socket) else { return };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = open(root_of(process), flags, Mode::empty()) else { return };
    ROOTS.lock().unwrap_or_else(PoisonError::into_inner).push((process, root));
}

/// The root directory of the process that listens on a socket. `None` if it is not to be seen from here: that takes root, or the server's own
/// user.
pub(crate) fn root_behind(socket: &Path) -> Option<PathBuf> {
    let process = process_behind(socket)?;
    let roots = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, root)) = roots.iter().find(|(known, _)| *known == process) {
        return Some(PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd())));
    }
    let root = root_of(process);
    std::fs::metadata(&root).is_ok().then_some(root)
}

fn process_behind(socket: &Path) -> Option<i32> {
    let probe = UnixStream::connect(socket).ok()?;
    Some(socket_peercred(&probe).ok()?.pid.as_raw_nonzero().get())
}

fn root_of(process: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/root"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_process_behind_a_socket_is_known_and_none_behind_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("server.sock");
        let _listener = UnixListener::bind(&socket).expect("bound");
        assert_eq!(root_behind(&socket), Some(format!("/proc/{}/root", std::process::id()).into()));
        assert_eq!(root_behind(&dir.path().join("none")), None);
        look_behind(&socket);
        let kept = root_behind(&socket).expect("kept");
        assert!(
            kept.starts_with("/proc/self/fd") && kept.join(dir.path().strip_prefix("/").expect("absolute")).is_dir()
        );
    }
}
