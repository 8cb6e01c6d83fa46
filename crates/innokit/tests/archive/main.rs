//! `redo archive`, `redo verify` and restores to a moment.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../archive_lab/mod.rs"]
mod archive_lab;
#[path = "../backup_lab/mod.rs"]
mod backup_lab;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "sql")]
#[path = "../random_tables/mod.rs"]
mod random_tables;
#[cfg(feature = "sql")]
#[path = "../../../recovery/tests/view_lab/mod.rs"]
mod view_lab;

mod archive;
#[cfg(feature = "sql")]
mod archive_mysql;
#[cfg(feature = "sql")]
mod definitions;
#[cfg(feature = "sql")]
mod diff;
#[cfg(feature = "sql")]
mod half_done;
#[cfg(feature = "sql")]
mod imports;
#[cfg(feature = "sql")]
mod moments;
#[cfg(feature = "sql")]
mod one_table;
#[cfg(feature = "sql")]
mod other_engines;
#[cfg(feature = "sql")]
mod replica;
mod zones;
