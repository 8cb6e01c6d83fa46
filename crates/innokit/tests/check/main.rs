//! What `check` and `info` say of files, datadirs and running servers. One program for all: each would link everything again.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../any_workers/mod.rs"]
mod any_workers;
#[path = "../broken_table/mod.rs"]
mod broken_table;
#[path = "../catalog_lab/mod.rs"]
mod catalog_lab;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../logs/tests/ibb_writer/mod.rs"]
mod ibb_writer;
#[path = "../kept_lab/mod.rs"]
mod kept_lab;
#[path = "../kinds_layouts/mod.rs"]
mod kinds_layouts;
#[path = "../listener/mod.rs"]
mod listener;
#[path = "../rows_lab/mod.rs"]
mod rows_lab;
#[path = "../trees/mod.rs"]
mod trees;

mod all_well;
mod bounds;
mod catalog;
mod faults;
mod fixtures;
mod fuse;
mod header_fields;
mod hollow_files;
mod index_pages;
mod info;
mod innodb_binlogs;
mod kept_redo;
mod kinds;
mod live;
mod live_load;
mod live_words;
mod logs;
mod many_tables;
mod memory;
mod monitor;
mod mysql56;
mod named_files;
mod odd_files;
mod other_log;
mod parts;
mod pending;
mod prometheus;
mod redo_info;
mod same_answer;
mod selection;
mod space_management;
mod summaries;
mod unread;
mod verdict;
mod watching;
