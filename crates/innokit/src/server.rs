//! Connections to the server that the options name. Builds without the feature `sql` have none.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datadir::server::{BackupServer, LogServer};
#[cfg(feature = "sql")]
use sql::Access;

use crate::args::{Command, RedoCommand, ServerArgs, TableRestoreArgs};

/// How long a statement waits for locks. `redo archive` waits for none.
#[cfg(feature = "sql")]
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// Looks at the process behind the socket that a command names: later the wall forbids it.
pub fn look(command: &Command) {
    let args = match command {
        Command::Backup(args) => &args.server,
        Command::Redo { command: RedoCommand::Archive(args) } => &args.server,
        _ => return,
    };
    #[cfg(feature = "sql")]
    args.socket.iter().for_each(|socket| sql::look_behind(socket));
    #[cfg(not(feature = "sql"))]
    let _ = args;
}

/// A connection that reports how far the log is durable.
#[cfg(feature = "sql")]
pub fn log_server(access: &Access, stop: &Arc<AtomicBool>) -> Result<Box<dyn LogServer>, Box<dyn Error>> {
    Ok(sql::connect(access, LOCK_WAIT, Arc::clone(stop))?)
}

/// A connection to take a backup through.
#[cfg(feature = "sql")]
pub fn backup_server(
    access: &Access,
    lock_wait: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn BackupServer>, Box<dyn Error>> {
    Ok(sql::connect(access, lock_wait, Arc::clone(stop))?)
}

/// How to connect: the options, completed from the option files. To be called before signals only set a flag: an option file may be a pipe
/// in which nothing comes.
#[cfg(feature = "sql")]
pub fn access(args: &ServerArgs) -> Result<Access, Box<dyn Error>> {
    let (socket, port, user) = (args.socket.clone(), args.port, args.user.clone());
    let datadir_as = args.datadir_as.clone();
    Ok(Access { socket, port, user, password: None, datadir_as }.completed(args.defaults_file.as_deref())?)
}

/// Loads a table into a server.
#[cfg(feature = "sql")]
pub fn restore_table(args: &TableRestoreArgs) -> Result<u8, Box<dyn Error>> {
    crate::table_restore::run(args)
}

#[cfg(not(feature = "sql"))]
pub fn restore_table(_: &TableRestoreArgs) -> Result<u8, Box<dyn Error>> {
    Err(NO_SQL.into())
}

#[cfg(not(feature = "sql"))]
const NO_SQL: &str = "this build connects to no server: build with --features sql";

/// There is no way to connect.
#[cfg(not(feature = "sql"))]
#[derive(Debug)]
pub enum Access {}

#[cfg(not(feature = "sql"))]
pub fn access(_: &ServerArgs) -> Result<Access, Box<dyn Error>> {
    Err(NO_SQL.into())
}

#[cfg(not(feature = "sql"))]
pub fn log_server(_: &Access, _: &Arc<AtomicBool>) -> Result<Box<dyn LogServer>, Box<dyn Error>> {
    Err(NO_SQL.into())
}

#[cfg(not(feature = "sql"))]
pub fn backup_server(_: &Access, _: Duration, _: &Arc<AtomicBool>) -> Result<Box<dyn BackupServer>, Box<dyn Error>> {
    Err(NO_SQL.into())
}
