//! Whether a folder is in a file system of a user's program (FUSE: sshfs, s3fs, gocryptfs).

use std::path::Path;

#[cfg(target_os = "linux")]
pub(crate) fn is_fuse(folder: &Path) -> bool {
    const FUSE: i64 = 0x6573_5546;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // i64 on the processors we test on; other C libraries make it unsigned, or shorter.
    #[allow(clippy::unnecessary_cast, reason = "its type is not the same everywhere")]
    rustix::fs::statfs(folder).is_ok_and(|system| system.f_type as i64 == FUSE)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_fuse(_: &Path) -> bool {
    false
}
