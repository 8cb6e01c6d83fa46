//! Finds out which kind of server answers, and returns the connection for it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datadir::server::{BackupServer, ServerError, ServerKind};

use crate::access::Access;
use crate::connection::Connection;
use crate::mariadb::MariaDb;
use crate::my_sql::MySql;

/// Connects to a server of either kind. Statements wait up to `lock_wait` for other connections' locks, and none any longer once `stop`
/// is set.
///
/// # Errors
/// [`ServerError`].
pub fn connect(
    access: &Access,
    lock_wait: Duration,
    stop: Arc<AtomicBool>,
) -> Result<Box<dyn BackupServer>, ServerError> {
    let mut connection = Connection::open(access, lock_wait, stop)?;
    let kind = ServerKind::of(&connection.variable("version")?);
    Ok(match kind {
        ServerKind::MariaDb => Box::new(MariaDb::on(connection, lock_wait)?),
        ServerKind::MySql => Box::new(MySql::on(connection, lock_wait)?),
    })
}
