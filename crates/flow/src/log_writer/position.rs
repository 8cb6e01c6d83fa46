//! A place in the log.

/// A position in the log, in bytes since its creation: whole log blocks count, with header and padding; file headers do not. It never
/// decreases or repeats, however often the ring wraps around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(pub u64);

impl std::fmt::Display for LogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
