//! Rows that cannot be read: in which file, on which page, and why.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::reader::Problem;
use crate::tree::ranges::LostPage;
use datadir::fault;
use datadir::tablespace::Tablespace;

/// Rows, or all rows of a file, that cannot be read. In words and in JSON: `orders.ibd: page 7 is damaged: ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDamage {
    /// The file; empty if several files are meant.
    pub path: PathBuf,
    /// The page, if it is about one.
    pub page_no: Option<u32>,
    /// Where that page begins in the file, bytes.
    pub offset: Option<u64>,
    /// Which rows are missing, if known: `the rows from id = 5 to before id = 90`.
    pub keys: Option<String>,
    /// Page, record, reason and missing rows, as a clause.
    pub why: String,
}

impl RowDamage {
    /// About no page in particular.
    pub(crate) fn of_file(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), page_no: None, offset: None, keys: None, why: why.into() }
    }

    /// About a table as a whole, not one of its files.
    pub(crate) fn of_table(why: &String) -> Self {
        Self::of_file(Path::new(""), why)
    }

    /// Whether some bytes of the file could not be read, so that it is no damage, or only a consequence.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        fault::is_unread(&self.path)
    }

    pub(crate) fn of_problem(space: &Tablespace, problem: &Problem) -> Self {
        Self { keys: problem.keys.clone(), ..Self::of_page(space, problem.page_no, problem.text()) }
    }

    pub(crate) fn of_lost(space: &Tablespace, lost: &LostPage) -> Self {
        Self::of_page(space, lost.page_no, lost.why.clone())
    }

    pub(crate) fn of_page(space: &Tablespace, page_no: u32, why: String) -> Self {
        let place = space.place(page_no);
        let path = place.map_or(space.path(), |(path, _)| path).to_path_buf();
        Self { path, page_no: Some(page_no), offset: place.map(|(_, offset)| offset), keys: None, why }
    }
}

impl fmt::Display for RowDamage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_os_str().is_empty() {
            return out.write_str(&self.why);
        }
        write!(out, "{}: {}", self.path.display(), self.why)
    }
}

impl Serialize for RowDamage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Problem {
    /// `page 7, record at byte 126: why; missing: one row`.
    #[must_use]
    pub fn text(&self) -> String {
        let place = self.record.map(|record| format!("page {}, record at byte {record}: ", self.page_no));
        let keys = self.keys.as_ref().map(|keys| format!("; missing: {keys}"));
        format!("{}{}{}", place.unwrap_or_default(), self.why, keys.unwrap_or_default())
    }
}
