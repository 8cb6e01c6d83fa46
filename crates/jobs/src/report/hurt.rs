//! `Hurt`: what damage means for tables. One row for each index, or for a file as a whole. The field names are part of the JSON
//! documents of `docs/check.md` and `docs/table.md`.

use serde::Serialize;

use super::document::Severity;
use super::file_kind::FileKind;

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The redo log still has work to do: look again after recovery.
    RecoverFirst,
    /// The redo log has done its work, and the server has not: look again after its next start.
    StartServer,
    /// Rows are, or may be, lost: only a copy of the table brings them back.
    RestoreTable,
    /// The rows are elsewhere: the index can be built from them.
    RebuildIndex,
    /// What is hurt serves all tables.
    RestoreAll,
    /// What is hurt can be read no more, and the tables do not need it.
    ReplaceFile,
    /// Not decided: the finding says what is in the way.
    SeeFinding,
}

impl Action {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::RecoverFirst => "recover first, then check again",
            Self::StartServer => "start the server once, then check again",
            Self::RestoreTable => "restore this table",
            Self::RebuildIndex => "drop and rebuild this index",
            Self::RestoreAll => "restore the whole datadir or backup",
            Self::ReplaceFile => "fetch this file again; the tables do not need it",
            Self::SeeFinding => "not decided, see the finding",
        }
    }
}

/// Neighbouring pages of an index that are hurt, by the keys that their parents have for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRange {
    /// The lowest key that can be on them, as `id = 17`; none for the beginning of the index.
    pub from: Option<String>,
    /// The first key behind them; none for the end of the index.
    pub before: Option<String>,
    /// Pages.
    pub pages: u64,
}

/// An index, a table or a file that is hurt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hurt {
    /// The file, as in findings.
    pub path: String,
    /// What the file is.
    pub kind: FileKind,
    /// `schema.table`, with the partition, if it is one.
    pub table: Option<String>,
    /// Name of the index; none for what belongs to no index, and where no definition was found.
    pub index: Option<String>,
    /// `clustered`, `secondary`, `spatial`, `sdi`.
    pub index_kind: Option<&'static str>,
    /// Number of the index.
    pub index_id: Option<u64>,
    /// Damage or undecided.
    pub severity: Severity,
    /// Pages that are hurt; 0 for damage that has no page.
    pub pages: u64,
    /// Where its pages lie in the order of the key, as far as the parents tell. Empty where they do not.
    pub keys: Vec<KeyRange>,
    /// Rows that may be lost; none where nothing tells.
    pub rows_at_risk: Option<u64>,
    /// The number of rows is a guess, from how full the neighbours are.
    pub rows_estimated: bool,
    /// What to do.
    pub action: Action,
    /// How, one command or step each.
    pub commands: Vec<String>,
}

/// What became of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableOutcome {
    /// Nothing was found.
    AllWell,
    /// Something could not be decided.
    Undecided,
    /// Damage was found.
    Damage,
}

/// One table with its verdict, for `--tables`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableVerdict {
    /// `schema.table`, with the partition, if it is one; none where nothing tells.
    pub table: Option<String>,
    /// The file that it is in.
    pub path: String,
    /// The verdict.
    pub verdict: TableOutcome,
}
