//! Asks a server how far its redo log is durable: `cargo run -p innokit-sql --example flushed -- /run/mysqld/mysqld.sock`. User and password
//! come from the usual option files, the password also from INNOKIT_PASSWORD.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use innokit_sql::{Access, connect};

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args_os().nth(1).map(Into::into);
    let access = Access { socket, ..Access::default() }.completed(None)?;
    let mut server = connect(&access, Duration::from_secs(10), Arc::new(AtomicBool::new(false)))?;
    println!("{}: durable up to LSN {}", server.datadir()?.display(), server.flushed_lsn()?);
    Ok(())
}
