//! A server into which a table is loaded.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datadir::server::{ServerError, ServerKind};

use crate::access::Access;
use crate::connection::Connection;

/// How long one statement may take: the server builds indexes, and reads the whole table for its checksum.
const STATEMENT_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A connection that runs the statements of a dump.
#[derive(Debug)]
pub struct TargetServer {
    connection: Connection,
    kind: ServerKind,
    warnings: u64,
}

impl TargetServer {
    /// Connects. No statement waits any longer once `stop` is set.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn open(access: &Access, stop: Arc<AtomicBool>) -> Result<Self, ServerError> {
        let mut connection = Connection::open(access, STATEMENT_WITHIN, stop)?;
        let kind = ServerKind::of(&connection.variable("version")?);
        Ok(Self { connection, kind, warnings: 0 })
    }

    /// Whose server it is.
    #[must_use]
    pub const fn kind(&self) -> ServerKind {
        self.kind
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// The server refuses it, or is gone.
    pub fn run(&mut self, statement: &str) -> Result<(), ServerError> {
        self.connection.run(statement)
    }

    /// Runs a statement that loads rows, and counts the server's warnings: values that it did not take as they were.
    ///
    /// # Errors
    /// The server refuses it, or is gone.
    pub fn load(&mut self, statement: &str) -> Result<(), ServerError> {
        self.connection.run(statement)?;
        self.warnings += self.number("SELECT @@warning_count")?.unwrap_or(0);
        Ok(())
    }

    /// Warnings so far.
    #[must_use]
    pub const fn warnings(&self) -> u64 {
        self.warnings
    }

    /// The number in the first column of the first row; `None` if there is no row, or NULL.
    ///
    /// # Errors
    /// The server refuses the statement, or is gone.
    pub fn number(&mut self, statement: &str) -> Result<Option<u64>, ServerError> {
        Ok(self.connection.ask::<Option<u64>>(statement)?.flatten())
    }

    /// CHECKSUM TABLE of a table whose name is in quotes.
    ///
    /// # Errors
    /// The server refuses it, or is gone.
    pub fn checksum(&mut self, table: &str) -> Result<Option<u64>, ServerError> {
        let answer = self.connection.ask::<(String, Option<u64>)>(&format!("CHECKSUM TABLE {table}"))?;
        Ok(answer.and_then(|(_, sum)| sum))
    }
}
