//! Where an archive is, and what a run tells.

/// Where an archive is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ArchiveStatus {
    /// Its end.
    pub lsn: u64,
    /// Bytes archived by this run.
    pub bytes: u64,
    /// Mini-transactions archived by this run.
    pub mtrs: u64,
    /// Bytes that the log is known to be ahead.
    pub lag_bytes: u64,
    /// The capacity of the log, bytes: once the server is that far ahead, there is a gap.
    pub capacity: u64,
    /// Gaps met by this run.
    pub gaps: u64,
    /// Its timeline.
    pub timeline: u32,
}

impl ArchiveStatus {
    /// The part of the log's capacity that the server has written since the archive's end.
    #[must_use]
    pub fn lag(&self) -> f64 {
        self.lag_bytes as f64 / self.capacity.max(1) as f64
    }
}

/// An index that MySQL built without redo (`INDEX_LOAD`): no base copy from before can be recovered beyond it, unless the tablespace is
/// dropped by then.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unlogged {
    /// Where the log says so.
    pub lsn: u64,
    /// The number of the tablespace.
    pub space: u32,
    /// The number of the index.
    pub index: u64,
    /// The tablespace's file, if the archive tells.
    pub file: Option<String>,
}

/// What a run tells while it goes on.
#[derive(Debug)]
pub enum ArchiveEvent<'e> {
    /// Where it is; at most once per look.
    Status(ArchiveStatus),
    /// A gap, which stays noted in the archive.
    Gap(&'e str),
    /// MySQL built an index without redo.
    Unlogged(&'e Unlogged),
}
