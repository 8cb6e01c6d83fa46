//! A connection to a running MariaDB or MySQL server, for what innokit asks of one.
//!
//! ```text
//! option files, environment -> Access -> connect: a socket or 127.0.0.1 -> jobs::LogServer, jobs::BackupServer
//!                                          by the server's own word: mariadb.rs or my_sql.rs
//! ```
//!
//! Only few statements are sent, and each answer is one value or one row. Errors are those of the job that asks: [`jobs::ServerError`].
//!
//! This is a crate of its own because its client brings some ninety others: a build that only checks files leaves it out.

#![forbid(unsafe_code)]

mod access;
mod connect;
mod connection;
mod mariadb;
mod my_sql;
mod option_file;

pub use access::{Access, AccessError, PASSWORD_VARIABLE};
pub use connect::connect;
