//! How many files a recovery keeps open.

use std::sync::Arc;

use flow::Descriptors;
use rustix::process::{Resource, getrlimit};

/// A log may change more tablespaces than a process may have open: a part of what the system allows now stays open.
pub(in crate::recover) fn descriptors() -> Arc<Descriptors> {
    Descriptors::new(open_files_max(4))
}

/// A part of the open files that the system allows now.
pub(in crate::recover) fn open_files_max(part: u64) -> usize {
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(allowed / part).unwrap_or(usize::MAX).clamp(OPEN_MIN, OPEN_MAX)
}

/// Requests in flight, if each is for another file: it keeps that open, whatever else is closed.
pub(in crate::recover) fn in_flight_max(depth: u32) -> u32 {
    depth.min(u32::try_from(open_files_max(4)).unwrap_or(u32::MAX))
}

/// More open files than this bring nothing.
const OPEN_MAX: usize = 8192;
/// Fewer would be opened again for every page.
const OPEN_MIN: usize = 4;
