//! Where in the log something is.

/// A position in the log, in bytes since it was made: log blocks are counted whole, with header and padding, file headers
/// not at all. It never goes back and never comes again, however often the ring goes round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(pub u64);

impl std::fmt::Display for LogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
