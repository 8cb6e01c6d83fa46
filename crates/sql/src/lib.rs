//! A connection to a running MariaDB or MySQL server, for the few things that innokit asks of it.
//!
//! ```text
//! option files, environment -> Access -> connect: a socket or 127.0.0.1 -> datadir::server::LogServer, datadir::server::BackupServer
//!                                          by the server's version: mariadb.rs or my_sql.rs
//!                                     -> TargetServer: one that takes a table back
//! ```
//!
//! Few statements are sent, and most answers are one value or one row. Errors are those of the job that asks: [`datadir::server::ServerError`].
//!
//! This is a crate of its own because its client depends on some ninety others: a build that only checks files does without them.

#![forbid(unsafe_code)]

mod access;
mod connect;
mod connection;
mod mariadb;
mod my_sql;
mod option_file;
mod process;
mod target;

pub use access::{Access, AccessError, PASSWORD_VARIABLE};
pub use connect::connect;
pub use process::look_behind;
pub use target::TargetServer;
