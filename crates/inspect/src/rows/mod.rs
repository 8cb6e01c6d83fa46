//! The rows of tables, without a server.
//!
//! ```text
//! paths -> TableSource (definition, tree) -> RowPlan (columns <- fields)
//!       -> Ranges (leaves below the root) -> RowReader, one per worker: gather -> leaf -> records -> off-page values -> Batch
//!       -> checksum | count | export
//! ```
//!
//! A [`Batch`] holds the rows of a leaf, or fewer if they have large off-page values. Its cells are stored bytes, which
//! [`format::value::ValueType`] reads. Batches of a range come in key order. [`Ranges::split`](crate::tree::ranges::Ranges::split) cuts a
//! tree into ranges with about equal numbers of leaves, so that several workers can share a table; the same files always give the same
//! ranges. A [`Split`] is a part of a table for another process or machine: it names its files, and the pages that lead to its leaves.
//!
//! Memory per worker: its window (see [`flow::Gather`]), the leaves of one parent, and at most [`reader::FETCHED_MAX`] bytes of off-page
//! values, or a single row's if that has more.

pub mod batch;
pub mod checksum;
pub mod count;
pub mod damage;
pub mod export;
pub mod key_range;
mod leaf;
pub mod plan;
pub mod reader;
pub mod scan;
pub mod source;
pub mod split;

pub use crate::rows::batch::{Batch, Cell, Row, RowState};
pub use crate::rows::damage::RowDamage;
pub use crate::rows::plan::{RowColumn, RowPlan};
pub use crate::rows::reader::{OnDamage, Problem, RowReader};
pub use crate::rows::source::{TableSource, Tables};
pub use crate::rows::split::{OpenTable, Split, SplitSize, splits};
