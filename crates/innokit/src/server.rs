//! Connections to the server that the options name. Builds without the feature `sql` have none.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jobs::{BackupServer, LogServer};

use crate::args::ServerArgs;

/// How long a statement waits for locks. `redo archive` waits for none.
#[cfg(feature = "sql")]
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// A connection that reports how far the log is durable.
#[cfg(feature = "sql")]
pub fn log_server(args: &ServerArgs, stop: &Arc<AtomicBool>) -> Result<Box<dyn LogServer>, Box<dyn Error>> {
    Ok(sql::connect(&access(args)?, LOCK_WAIT, Arc::clone(stop))?)
}

/// A connection to take a backup through.
#[cfg(feature = "sql")]
pub fn backup_server(
    args: &ServerArgs,
    lock_wait: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn BackupServer>, Box<dyn Error>> {
    Ok(sql::connect(&access(args)?, lock_wait, Arc::clone(stop))?)
}

#[cfg(feature = "sql")]
fn access(args: &ServerArgs) -> Result<sql::Access, sql::AccessError> {
    let (socket, port, user) = (args.socket.clone(), args.port, args.user.clone());
    sql::Access { socket, port, user, password: None }.completed(args.defaults_file.as_deref())
}

#[cfg(not(feature = "sql"))]
const NO_SQL: &str = "this build connects to no server: build with --features sql";

#[cfg(not(feature = "sql"))]
pub fn log_server(_: &ServerArgs, _: &Arc<AtomicBool>) -> Result<Box<dyn LogServer>, Box<dyn Error>> {
    Err(NO_SQL.into())
}

#[cfg(not(feature = "sql"))]
pub fn backup_server(
    _: &ServerArgs,
    _: Duration,
    _: &Arc<AtomicBool>,
) -> Result<Box<dyn BackupServer>, Box<dyn Error>> {
    Err(NO_SQL.into())
}
