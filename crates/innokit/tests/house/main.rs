//! The house itself: its crates, their imports and public items, and the guides.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../broken_table/mod.rs"]
mod broken_table;
#[path = "../common/mod.rs"]
mod common;
#[path = "../guide/mod.rs"]
mod guide;

mod by_path;
mod crates;
mod guides;
mod known_servers;
mod map;
mod names;
mod public_api;
mod structure;
