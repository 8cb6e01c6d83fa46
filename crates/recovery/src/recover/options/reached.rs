//! What a time to recover to became.

/// A time to recover to, and how far the archive is known to be complete. All are microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ReachedMoment {
    /// The time that was asked for. Nothing is there that was committed after it.
    pub until_us: u64,
    /// The time of the mark whose LSN is restored.
    pub mark_us: u64,
    /// Everything is there that was in the server's log by this time. `None` if the archiver did not note it.
    pub complete_us: Option<u64>,
}
