//! `recover` on datadirs and on increments.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../backup_lab/mod.rs"]
mod backup_lab;
#[path = "../common/mod.rs"]
mod common;
#[path = "../random_tables/mod.rs"]
mod random_tables;
#[path = "../rows_lab/mod.rs"]
mod rows_lab;

mod hostile;
mod hostile_corpus;
mod hostile_links;
mod hostile_names;
mod hostile_sdi;
mod increments;
mod innodb_binlog;
#[path = "../kept_lab/mod.rs"]
mod kept_lab;
mod kept_redo;
mod open_files;
mod outside;

mod recover;
mod recover_random;
mod view;
#[path = "../../../recovery/tests/view_lab/mod.rs"]
mod view_lab;
