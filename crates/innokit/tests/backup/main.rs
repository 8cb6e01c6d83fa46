//! `backup` of running servers, and `backup verify`.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../backup_lab/mod.rs"]
mod backup_lab;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "sql")]
#[path = "../sql_proxy/mod.rs"]
mod sql_proxy;

mod advice;
#[cfg(feature = "sql")]
mod backup;
#[cfg(feature = "sql")]
mod backup_again;
#[cfg(feature = "sql")]
mod backup_increments;
#[cfg(feature = "sql")]
mod backup_mysql;
#[cfg(feature = "sql")]
mod backup_stream;
#[cfg(feature = "sql")]
mod backup_waits;
mod backups;
mod backups_of_others;
mod backups_packed;
#[cfg(feature = "sql")]
mod clones;
#[cfg(feature = "sql")]
mod damaged_pages;
#[cfg(feature = "sql")]
mod hostile_sets;
#[cfg(feature = "sql")]
mod logins;
#[cfg(feature = "sql")]
mod places;
#[cfg(feature = "sql")]
mod unlogged_builds;
#[cfg(feature = "sql")]
mod upgraded;
