//! What comes as one stream, and `innochecksum`, which takes one.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../innochecksum_matrix/mod.rs"]
mod innochecksum_matrix;

mod archive_bombs;
mod innochecksum;
mod innochecksum_crash;
mod streams;
mod tar;
mod unpack;
