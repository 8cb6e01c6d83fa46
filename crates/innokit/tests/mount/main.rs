//! `mount` and `serve`: real servers on sets at a moment.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../backup_lab/mod.rs"]
mod backup_lab;
#[path = "../common/mod.rs"]
mod common;

mod ends;
mod lab;
mod serve;
mod servers;
#[path = "../../../recovery/tests/view_lab/sums.rs"]
mod sums;
