//! Rows of InnoDB tables as Arrow: record batches, Parquet files, Arrow files.
//!
//! ```text
//! RowPlan -> schema (types.rs)          Batch -> Row -> BatchBuilder (a ColumnBuilder per column) -> RecordBatch
//!                                             -> parquet: a row group per worker and range | ipc: batches -> one file per table
//!                                             -> stream: batches -> another thread
//! ```
//!
//! `docs/arrow.md` has the table of types. A value that its Arrow type cannot represent (a zero date) becomes NULL and is counted:
//! [`BatchBuilder::changes`] gives the column, the reason and the number.
//!
//! This is a separate crate because the code of Arrow and Parquet is larger than all of innokit: a build that only checks files leaves it
//! out.

mod batch;
mod column;
pub mod ipc;
pub mod parquet;
pub mod stream;
mod types;

pub use batch::BatchBuilder;
pub use types::{ArrowOptions, Enums, Jsons, Strings, Types, WideDecimals, schema};

/// An error of Arrow or Parquet, in the form that jobs pass on.
fn io_error(error: impl std::error::Error + Send + Sync + 'static) -> std::io::Error {
    std::io::Error::other(error)
}
