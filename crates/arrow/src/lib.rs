//! Rows of InnoDB tables as Arrow: record batches, Parquet files, Arrow files.
//!
//! ```text
//! RowPlan -> schema (types.rs)          Batch -> Row -> BatchBuilder (a ColumnBuilder a column) -> RecordBatch
//!                                             -> parquet: a row group a worker and range | ipc: batches -> one file a table
//! ```
//!
//! Which type becomes which is one table: `docs/arrow.md`. A value that the Arrow type has no room for (a zero date) becomes NULL and
//! is counted: [`BatchBuilder::changes`] says of which column, why, and how many.
//!
//! It is a crate of its own because Arrow's and Parquet's code is larger than all of innokit: a build that only checks files leaves it out.

mod batch;
mod column;
pub mod ipc;
pub mod parquet;
mod types;

pub use batch::BatchBuilder;
pub use types::{ArrowOptions, WideDecimals, schema};

/// An error of Arrow's or Parquet's, as the jobs pass it on.
fn io_error(error: impl std::error::Error + Send + Sync + 'static) -> std::io::Error {
    std::io::Error::other(error)
}
