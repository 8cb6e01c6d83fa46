//! A fault of a tree.

use serde::Serialize;

use datadir::finding_code::FindingCode;
use datadir::severity::Severity;

/// One fault, at one place of one index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableFinding {
    /// The file, as given or below a given directory.
    pub path: String,
    /// `schema.table`, if a definition was found.
    pub table: Option<String>,
    /// Name of the index, if a definition was found.
    pub index: Option<String>,
    /// Index id; `None` for findings about the tablespace itself.
    pub index_id: Option<u64>,
    /// Page number within the tablespace.
    pub page: Option<u32>,
    /// Level of the page in its tree, 0 for leaves.
    pub level: Option<u16>,
    /// Origin of the record, bytes from the start of the page.
    pub record: Option<u16>,
    /// Stable finding code.
    pub rule: FindingCode,
    /// Damage or undecided.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// The value found, if the finding is about one.
    pub found: Option<u64>,
    /// The expected value.
    pub expected: Option<u64>,
    /// The page's content is unusable.
    #[serde(skip)]
    pub is_loss: bool,
}

impl TableFinding {
    /// The same as a note.
    #[must_use]
    pub(crate) fn into_note(self) -> Self {
        Self { severity: Severity::Notice, ..self }
    }
}
