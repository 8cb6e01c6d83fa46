//! What a comparison finds, as it finds it.

use std::io;

use format::schema::TableDef;

use super::plan::DiffPlan;
use super::stream::RowAt;

/// A table whose rows are compared.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'c> {
    /// `schema.table`.
    pub name: &'c str,
    /// Its definition in B.
    pub table: &'c TableDef,
    /// The columns that are compared.
    pub plan: &'c DiffPlan,
    /// Whether the definitions differ.
    pub is_altered: bool,
}

/// A table that only one side has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lone {
    /// Only A.
    Removed,
    /// Only B.
    Added,
}

/// A row that differs.
#[derive(Debug, Clone, Copy)]
pub struct Change<'c> {
    pub(super) plan: &'c DiffPlan,
    pub(super) before: Option<&'c RowAt>,
    pub(super) after: Option<&'c RowAt>,
    /// The columns that differ, if both sides have the row.
    pub differing: &'c [usize],
    /// The transaction that wrote one of both, if it had not committed.
    pub open: Option<u64>,
}

/// One side of a change: a value for each column of the plan.
#[derive(Debug, Clone, Copy)]
pub struct Values<'c> {
    plan: &'c DiffPlan,
    row: &'c RowAt,
}

impl<'c> Change<'c> {
    /// The row of A. `None` if it was added.
    #[must_use]
    pub fn before(&self) -> Option<Values<'c>> {
        self.before.map(|row| Values { plan: self.plan, row })
    }

    /// The row of B. `None` if it was removed.
    #[must_use]
    pub fn after(&self) -> Option<Values<'c>> {
        self.after.map(|row| Values { plan: self.plan, row })
    }
}

impl<'c> Values<'c> {
    /// The stored bytes of a column; `None` for NULL.
    #[must_use]
    pub fn get(&self, column: usize) -> Option<&'c [u8]> {
        self.plan.get(self.row, column)
    }
}

/// Takes what a comparison finds, in order. An error of its own ends the comparison.
///
/// Why a row or a table cannot be written, as a clause, is no error: it is reported with the table.
pub trait Changes {
    /// A table that only one side has. `true` if its rows are wanted too: they follow as [`Changes::row`], up to [`Changes::end`].
    ///
    /// # Errors
    /// It cannot be written.
    fn lone(&mut self, table: Compared<'_>, side: Lone) -> io::Result<bool>;

    /// Definitions of a table that differ, line by line.
    ///
    /// # Errors
    /// It cannot be written.
    fn definition(&mut self, name: &str, lines: &[String]) -> io::Result<()>;

    /// The first difference in the rows of a table.
    ///
    /// # Errors
    /// It cannot be written.
    fn begin(&mut self, table: Compared<'_>) -> io::Result<Result<(), String>>;

    /// A row that differs.
    ///
    /// # Errors
    /// It cannot be written.
    fn row(&mut self, change: &Change<'_>) -> io::Result<Result<(), String>>;

    /// The end of a table that was begun. Returns what is not written exactly, as a clause.
    ///
    /// # Errors
    /// It cannot be written.
    fn end(&mut self) -> io::Result<Option<String>>;

    /// The end of all. `is_whole`: whether all differences of each table that was begun have been passed on.
    ///
    /// # Errors
    /// It cannot be written.
    fn finish(&mut self, is_whole: bool) -> io::Result<()>;
}
