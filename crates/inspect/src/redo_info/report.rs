//! The result of `redo info`, as data. The field names are those of the JSON document in `docs/redo.md`.

use std::path::Path;

use format::Lsn;
use redo::{LogState, RedoError};
use serde::Serialize;

/// Whether a server can start on a redo log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RedoState {
    /// The data files contain all changes.
    #[default]
    Clean,
    /// Crash recovery has work to do.
    NeedsRecovery,
    /// Log that the newest checkpoint needs is missing.
    Damaged,
}

/// A redo log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RedoInfo {
    /// `MySQL` or `MariaDB`.
    pub family: &'static str,
    /// The versions that write this format.
    pub format: &'static str,
    /// The server or tool that created the log, from its header.
    pub creator: String,
    /// Whether records are encrypted.
    pub encrypted: bool,
    /// Whether a server can start on it, and whether it would have to recover.
    pub state: RedoState,
    /// The files in log order.
    pub files: Vec<LogFileInfo>,
    /// Capacity of the ring in bytes (MariaDB).
    pub capacity: Option<u64>,
    /// The newest checkpoint.
    pub checkpoint: CheckpointInfo,
    /// The previous checkpoint, if the log still has it.
    pub older_checkpoint: Option<CheckpointInfo>,
    /// LSN at which the log ends.
    pub end_lsn: u64,
    /// Bytes from the checkpoint to the end.
    pub bytes: u64,
    /// Mini-transactions from the checkpoint to the end.
    pub mtrs: Option<u64>,
    /// Number of distinct pages they change.
    pub pages: Option<u64>,
    /// Records by type, most frequent first.
    pub records: Vec<RecordRow>,
    /// Tablespaces, those with the most bytes of redo first.
    pub tablespaces: Vec<SpaceRow>,
    /// The pages with the most records.
    pub busiest_pages: Vec<PageRow>,
    /// Why something is missing in this report.
    pub note: Option<String>,
}

/// A file of a log.
#[derive(Clone, Debug, Serialize)]
pub struct LogFileInfo {
    /// The file.
    pub path: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// LSN of its first payload byte.
    pub first_lsn: u64,
}

/// A checkpoint.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CheckpointInfo {
    /// LSN from which on the data files may lack changes.
    pub lsn: u64,
    /// The log's end when the checkpoint was made (MariaDB).
    pub end_lsn: Option<u64>,
}

/// Records of one type.
#[derive(Clone, Debug, Serialize)]
pub struct RecordRow {
    /// The server's name for the type.
    pub name: &'static str,
    /// Number of records.
    pub records: u64,
    /// Bytes of log they take.
    pub bytes: u64,
}

/// A tablespace.
#[derive(Clone, Debug, Serialize)]
pub struct SpaceRow {
    /// Its id.
    pub space_id: u32,
    /// Its file, if the log names it.
    pub name: Option<String>,
    /// Records.
    pub records: u64,
    /// Bytes of log they take.
    pub bytes: u64,
    /// Number of distinct pages they change.
    pub pages: u64,
}

/// A page.
#[derive(Clone, Debug, Serialize)]
pub struct PageRow {
    /// Its tablespace.
    pub space_id: u32,
    /// Its number.
    pub page_no: u32,
    /// Records.
    pub records: u64,
    /// Bytes of log they take.
    pub bytes: u64,
}

impl LogFileInfo {
    pub(super) fn new(path: &Path, bytes: u64, first_lsn: Lsn) -> Self {
        Self { path: path.display().to_string(), bytes, first_lsn: first_lsn.0 }
    }
}

impl RedoInfo {
    /// Sets where the log ends, and whether there is anything to recover.
    pub(super) fn settle(&mut self, end: Lsn, state: Result<LogState, RedoError>) {
        self.end_lsn = end.0.max(self.checkpoint.lsn);
        self.bytes = self.end_lsn - self.checkpoint.lsn;
        self.state = match state {
            Ok(LogState::Clean) => RedoState::Clean,
            Ok(LogState::NeedsRecovery | LogState::Undecided) => RedoState::NeedsRecovery,
            Err(_) => RedoState::Damaged,
        };
    }
}
