//! Where an archive is, and what a run reports.

/// Where an archive is, and what this run has added to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ArchiveStatus {
    /// The end of the archive.
    pub lsn: u64,
    /// Bytes archived by this run.
    pub bytes: u64,
    /// Mini-transactions archived by this run.
    pub mtrs: u64,
    /// Bytes by which the log is known to be ahead.
    pub lag_bytes: u64,
    /// Bytes that the log can hold: once the server is this far ahead, there is a gap.
    pub capacity: u64,
    /// Gaps found by this run.
    pub gaps: u64,
    /// The timeline of `lsn`.
    pub timeline: u32,
}

impl ArchiveStatus {
    /// `lag_bytes` as a fraction of `capacity`.
    #[must_use]
    pub fn lag(&self) -> f64 {
        self.lag_bytes as f64 / self.capacity.max(1) as f64
    }
}

/// An index that MySQL built without redo (`INDEX_LOAD`). No base copy from before can be recovered past it, unless the tablespace is
/// dropped by then.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unlogged {
    /// Start LSN of the mini-transaction that reports it.
    pub lsn: u64,
    /// The tablespace's ID.
    pub space: u32,
    /// The index's ID.
    pub index: u64,
    /// The tablespace's file, if the archive names it.
    pub file: Option<String>,
}

/// What a run reports while it works.
#[derive(Debug)]
pub enum ArchiveEvent<'e> {
    /// The current state; at most once per look.
    Status(ArchiveStatus),
    /// A gap, which stays noted in the archive.
    Gap(&'e str),
    /// MySQL built an index without redo.
    Unlogged(&'e Unlogged),
}
