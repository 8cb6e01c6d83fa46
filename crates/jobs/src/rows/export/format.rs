//! What an export needs to know of a format.

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use crate::rows::batch::Row;
use crate::rows::plan::RowPlan;
use crate::rows::scan::RangeSize;
use crate::rows::source::TableSource;

/// Why a row was not written: the column, and a clause.
pub type Refused = (usize, String);

/// Values that a format has no room for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The column.
    pub column: String,
    /// What became of them, as a clause.
    pub what: &'static str,
    /// How many.
    pub count: u64,
}

/// What is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Head<'h> {
    /// The table.
    pub table: &'h TableSource,
    /// How its rows are read; of a partitioned table, those of one partition.
    pub plan: &'h Arc<RowPlan>,
    /// Whether a last column says what became of each row.
    pub states: bool,
    /// How many workers there are.
    pub workers: usize,
}

/// Makes files of rows.
pub trait Format: Sync {
    /// A worker's part.
    type Encoder: Encoder;
    /// The file.
    type Output: Output<Piece = <Self::Encoder as Encoder>::Piece>;

    /// The rows that go out together.
    fn range(&self) -> RangeSize;

    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    fn open(&self, head: &Head<'_>, out: Box<dyn Write + Send>) -> io::Result<Self::Output>;

    /// A worker's part of that file.
    ///
    /// # Errors
    /// The columns are not those of the file.
    fn encoder(&self, head: &Head<'_>, out: &Self::Output) -> io::Result<Self::Encoder>;
}

/// Makes pieces of rows, on a worker's thread.
pub trait Encoder: Send {
    /// What goes to the file as a whole.
    type Piece: Send;

    /// One row, whole or not at all.
    ///
    /// # Errors
    /// The column whose value cannot be written, and why.
    fn row(&mut self, row: &Row<'_>) -> Result<(), Refused>;

    /// Whether what was gathered should go out. `is_turn` says whether it could go at once.
    ///
    /// # Errors
    /// It cannot be encoded.
    fn is_full(&mut self, is_turn: &dyn Fn() -> bool) -> io::Result<bool>;

    /// What was gathered since the last time.
    ///
    /// # Errors
    /// It cannot be encoded.
    fn take(&mut self) -> io::Result<Self::Piece>;

    /// Values that the format has no room for.
    fn changes(&self) -> Vec<Change>;
}

/// A file that takes pieces, one after the other.
pub trait Output: Send {
    /// See [`Encoder::Piece`].
    type Piece: Send;

    /// Writes a piece.
    ///
    /// # Errors
    /// The file cannot be written.
    fn write(&mut self, piece: Self::Piece) -> io::Result<()>;

    /// Ends the file; how many bytes it has.
    ///
    /// # Errors
    /// The file cannot be written.
    fn finish(&mut self) -> io::Result<u64>;
}
