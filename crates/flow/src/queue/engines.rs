//! The engines on this system, in the order in which they are tried.

use std::path::Path;

use super::OpenQueue;
use super::threads::Threads;
#[cfg(target_os = "linux")]
use super::uring::Uring;
use crate::Engine;
use crate::fuse::is_fuse;

#[cfg(target_os = "linux")]
const AUTO: &[&dyn OpenQueue] = &[&Uring, &Threads];
#[cfg(target_os = "linux")]
const URING: &[&dyn OpenQueue] = &[&Uring];
#[cfg(not(target_os = "linux"))]
const AUTO: &[&dyn OpenQueue] = &[&Threads];
#[cfg(not(target_os = "linux"))]
const URING: &[&dyn OpenQueue] = &[];
const THREADS: &[&dyn OpenQueue] = &[&Threads];

impl Engine {
    /// The engines to try, in this order.
    #[must_use]
    pub fn candidates(self) -> &'static [&'static dyn OpenQueue] {
        match self {
            Self::Auto => AUTO,
            Self::Uring => URING,
            Self::Threads => THREADS,
        }
    }

    /// What `Auto` means for files on FUSE. With `direct_io`, FUSE completes requests of io_uring with their full length and other bytes once
    /// one failed or was cut short (seen in Linux 6.18). `pread` gets the error.
    pub(crate) fn of_fuse() -> Self {
        Self::Threads
    }

    /// The first candidate that works here, for files in this folder; [`Threads`] if none does.
    #[must_use]
    pub fn first_working(self, folder: &Path) -> &'static dyn OpenQueue {
        let engine = if self == Self::Auto && is_fuse(folder) { Self::of_fuse() } else { self };
        let works = |engine: &&&dyn OpenQueue| engine.open(1, &[]).is_ok();
        engine.candidates().iter().find(works).copied().unwrap_or(&Threads)
    }
}
