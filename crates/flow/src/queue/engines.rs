//! The engines on this system, in the order in which they are tried.

use super::OpenQueue;
use super::threads::Threads;
#[cfg(target_os = "linux")]
use super::uring::Uring;
use crate::Engine;

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

    /// The first candidate that works here; [`Threads`] if none does.
    #[must_use]
    pub fn first_working(self) -> &'static dyn OpenQueue {
        let works = |engine: &&&dyn OpenQueue| engine.open(1, &[]).is_ok();
        self.candidates().iter().find(works).copied().unwrap_or(&Threads)
    }
}
