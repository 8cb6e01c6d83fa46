//! `Hurt`: what damage means for tables. One row per index, or for a file as a whole. The field names are part of the JSON documents of
//! `docs/check.md` and `docs/table.md`.

use serde::Serialize;

use datadir::file_kind::FileKind;
use datadir::severity::Severity;

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The redo log still has work to do: check again after recovery.
    RecoverFirst,
    /// The redo log is done, but the server is not: check again after its next start.
    StartServer,
    /// A server has the files open: check again with `--live`.
    CheckLive,
    /// Rows are or may be lost: only a copy of the table can restore them.
    RestoreTable,
    /// The rows are elsewhere: rebuild the index from them.
    RebuildIndex,
    /// All rows are here, but some in the wrong place: write the table again, row by row.
    RewriteTable,
    /// The damaged file serves all tables.
    RestoreAll,
    /// The damaged file is unreadable, and the tables do not need it.
    ReplaceFile,
    /// A backup's archive is damaged or ends too early: tables in it are lost.
    ReplaceArchive,
    /// Undecided: the finding says why.
    SeeFinding,
}

impl Action {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::RecoverFirst => "recover first, then check again",
            Self::StartServer => "start the server once, then check again",
            Self::CheckLive => "a server runs on it: check with --live",
            Self::RestoreTable => "restore this table",
            Self::RebuildIndex => "rebuild this index",
            Self::RewriteTable => "write this table again",
            Self::RestoreAll => "restore the whole datadir or backup",
            Self::ReplaceFile => "fetch this file again; the tables do not need it",
            Self::ReplaceArchive => "fetch or make this archive again: what is missing in it is lost",
            Self::SeeFinding => "undecided: see the finding",
        }
    }
}

/// Adjacent damaged pages of an index, by the keys in their parents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRange {
    /// The lowest key that may be on them, as `id = 17`; `None` for the start of the index.
    pub from: Option<String>,
    /// The first key after them; `None` for the end of the index.
    pub before: Option<String>,
    /// Number of pages.
    pub pages: u64,
}

/// A damaged index, table or file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hurt {
    /// The file, as in findings.
    pub path: String,
    /// What the file is.
    pub kind: FileKind,
    /// `schema.table`, with the partition if there is one.
    pub table: Option<String>,
    /// Name of the index; `None` if there is no index or no definition was found.
    pub index: Option<String>,
    /// `clustered`, `secondary`, `spatial`, `sdi`.
    pub index_kind: Option<&'static str>,
    /// Index id.
    pub index_id: Option<u64>,
    /// Page 0 is damaged, without which servers cannot use the file, nor MySQL drop tables that refer to it: do this first.
    #[serde(skip)]
    pub is_header_lost: bool,
    /// A root or a map is damaged, without which no server can drop a table that shares its tablespace.
    #[serde(skip)]
    pub is_frame_lost: bool,
    /// Damage or undecided.
    pub severity: Severity,
    /// Number of damaged pages; 0 for damage without a page.
    pub pages: u64,
    /// Which keys its pages hold, as far as the parents tell.
    pub keys: Vec<KeyRange>,
    /// Rows that may be lost; `None` if unknown.
    pub rows_at_risk: Option<u64>,
    /// The number of rows is estimated from how full the neighbours are.
    pub rows_estimated: bool,
    /// What to do.
    pub action: Action,
    /// How to do it: one command or step each.
    pub commands: Vec<String>,
}

/// The verdict on one table.
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
    /// `schema.table`, with the partition if there is one; `None` if unknown.
    pub table: Option<String>,
    /// The file it is in.
    pub path: String,
    /// The verdict.
    pub verdict: TableOutcome,
}

/// A word as a shell takes it, in quotes if it must be.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
