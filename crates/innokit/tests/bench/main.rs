//! `bench`: that each measures what it says.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../bench_lab/mod.rs"]
mod bench_lab;
#[path = "../common/mod.rs"]
mod common;

mod bench;
mod bench_device;
