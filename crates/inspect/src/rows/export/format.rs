//! The interface between an export and a format.

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use crate::rows::batch::Row;
use crate::rows::plan::RowPlan;
use crate::rows::scan::RangeSize;
use crate::rows::source::TableSource;

/// Why a row was not written: the column, and a clause.
pub type Refused = (usize, String);

/// Values that the format cannot represent exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The column.
    pub column: String,
    /// What happened to them, as a clause.
    pub what: &'static str,
    /// How many values.
    pub count: u64,
}

/// The table or partition to write.
#[derive(Debug, Clone, Copy)]
pub struct Head<'h> {
    /// The table.
    pub table: &'h TableSource,
    /// How to read its rows; for a partitioned table, those of one partition.
    pub plan: &'h Arc<RowPlan>,
    /// Whether a last column gives the state of each row.
    pub states: bool,
    /// Number of workers.
    pub workers: usize,
}

/// Writes rows to files.
pub trait Format: Sync {
    /// The encoder that each worker has.
    type Encoder: Encoder;
    /// The output file.
    type Output: Output<Piece = <Self::Encoder as Encoder>::Piece>;

    /// How many rows to write as one range.
    fn range(&self) -> RangeSize;

    /// How many complete ranges per worker may be kept in memory, so that no worker waits for a slower one.
    fn held(&self) -> usize {
        0
    }

    /// Starts a file.
    ///
    /// # Errors
    /// It cannot be written.
    fn open(&self, head: &Head<'_>, out: Box<dyn Write + Send>) -> io::Result<Self::Output>;

    /// A worker's encoder for that file.
    ///
    /// # Errors
    /// The columns do not match the file's.
    fn encoder(&self, head: &Head<'_>, out: &Self::Output) -> io::Result<Self::Encoder>;
}

/// Encodes rows into pieces, on a worker's thread.
pub trait Encoder: Send {
    /// The unit written to the file.
    type Piece: Send;

    /// Adds a row, entirely or not at all.
    ///
    /// # Errors
    /// The column whose value cannot be written, and why.
    fn row(&mut self, row: &Row<'_>) -> Result<(), Refused>;

    /// Whether the rows gathered should be written now. `is_turn` says whether that could happen without waiting.
    ///
    /// # Errors
    /// The rows cannot be encoded.
    fn is_full(&mut self, is_turn: &dyn Fn() -> bool) -> io::Result<bool>;

    /// The rows gathered since the last call.
    ///
    /// # Errors
    /// The rows cannot be encoded.
    fn take(&mut self) -> io::Result<Self::Piece>;

    /// Values that the format could not represent exactly.
    fn changes(&self) -> Vec<Change>;
}

/// A file that is written piece by piece.
pub trait Output: Send {
    /// See [`Encoder::Piece`].
    type Piece: Send;

    /// Writes a piece.
    ///
    /// # Errors
    /// The file cannot be written.
    fn write(&mut self, piece: Self::Piece) -> io::Result<()>;

    /// Completes the file. Returns its length in bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    fn finish(&mut self) -> io::Result<u64>;
}
