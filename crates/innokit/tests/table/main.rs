//! `table check`, `count`, `checksum`, `export` and `schema`.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

// The pages of `format`'s own tests know it by the name of its package.
extern crate format as innokit_format;

#[path = "../any_workers/mod.rs"]
mod any_workers;
#[path = "../../../format/tests/broken_pages/mod.rs"]
mod broken_pages;
#[path = "../broken_table/mod.rs"]
mod broken_table;
#[path = "../common/mod.rs"]
mod common;
#[path = "../random_tables/mod.rs"]
mod random_tables;
#[path = "../rows_lab/mod.rs"]
mod rows_lab;

mod arrow;
mod counters;
mod diff;
mod given_up;
mod hostile_names;
mod large_values;
mod misplaced;
mod moments;
mod outside;
mod rows_damage;
mod rows_lengths;
mod rows_random;
mod rows_servers;
mod spellings;
mod table;
mod table_damage;
mod table_extended;
mod table_rules;
mod table_schema;
mod table_servers;
mod table_workers;
