//! What a backup asks of MariaDB.

use std::path::PathBuf;
use std::time::Duration;

use datadir::server::{
    BackupMoment, BackupServer, BackupStage, BinlogEvent, BinlogPosition, InstanceState, LogServer, ServerError,
    ServerFacts, TableName,
};
use format::{Lsn, SpaceId};

use crate::connection::Connection;

/// Settings that may point outside the datadir.
const DIRECTORIES: [&str; 4] =
    ["innodb_data_home_dir", "innodb_undo_directory", "innodb_log_group_home_dir", "aria_log_dir_path"];

/// The privileges that a backup takes, each with a statement that takes it too and changes nothing.
const PRIVILEGES: [(&str, &str); 2] = [("RELOAD", "FLUSH LOCAL ENGINE LOGS"), ("BINLOG MONITOR", "SHOW MASTER STATUS")];

/// A connection to a MariaDB server. When it ends, the server releases what it held: the backup stages.
#[derive(Debug)]
pub(crate) struct MariaDb {
    connection: Connection,
}

impl MariaDb {
    pub fn on(mut connection: Connection, lock_wait: Duration) -> Result<Self, ServerError> {
        let seconds = lock_wait.as_secs().max(1);
        // Servers may be set to end idle connections and long statements. Neither must happen to this connection.
        connection.run(&format!(
            "SET SESSION lock_wait_timeout = {seconds}, SESSION wait_timeout = 31536000, SESSION max_statement_time = 0, \
             SESSION sql_mode = ''"
        ))?;
        Ok(Self { connection })
    }

    fn binlog_position(&mut self) -> Result<Option<BinlogPosition>, ServerError> {
        let row: Option<mysql::Row> = self.connection.ask("SHOW MASTER STATUS")?;
        let Some(row) = row else { return Ok(None) };
        let unknown =
            || ServerError::Refused { statement: "SHOW MASTER STATUS".to_owned(), says: "no position".to_owned() };
        let (file, position) = (row.get(0).ok_or_else(unknown)?, row.get(1).ok_or_else(unknown)?);
        let gtid = self.connection.variable("gtid_binlog_pos")?;
        Ok(Some(BinlogPosition { file, position, gtid }))
    }
}

impl LogServer for MariaDb {
    fn datadir(&mut self) -> Result<PathBuf, ServerError> {
        self.connection.variable("datadir").map(PathBuf::from)
    }

    fn root(&mut self) -> Option<PathBuf> {
        self.connection.root()
    }

    fn datadir_as(&self) -> Option<PathBuf> {
        self.connection.datadir_as()
    }

    fn checkpoint(&mut self) -> Result<Option<Lsn>, ServerError> {
        self.connection.lsn("Innodb_lsn_last_checkpoint").map(Some)
    }

    fn flushed_lsn(&mut self) -> Result<Lsn, ServerError> {
        self.connection.lsn("Innodb_lsn_flushed")
    }

    fn binlog(&mut self) -> Result<Option<BinlogPosition>, ServerError> {
        self.binlog_position()
    }

    fn binlog_events(&mut self, file: &str, from: u64, count: u32) -> Result<Option<Vec<BinlogEvent>>, ServerError> {
        self.connection.binlog_events(file, from, count).map(Some)
    }
}

impl BackupServer for MariaDb {
    fn facts(&mut self) -> Result<ServerFacts, ServerError> {
        let facts = self.connection.facts(&DIRECTORIES)?;
        // Only servers with the plugin that reads keys from a file have this variable.
        let cipher = self.connection.variable("file_key_management_encryption_algorithm").unwrap_or_default();
        Ok(ServerFacts { cipher, ..facts })
    }

    /// MariaDB's redo log cannot be switched off.
    fn instance(&mut self) -> Result<InstanceState, ServerError> {
        Ok(InstanceState { is_redo_on: true, changes: 0 })
    }

    fn data_files(&mut self) -> Result<Vec<PathBuf>, ServerError> {
        Ok(Vec::new())
    }

    fn discarded(&mut self) -> Result<Vec<SpaceId>, ServerError> {
        Ok(Vec::new())
    }

    fn enter(&mut self, stage: BackupStage) -> Result<(), ServerError> {
        self.connection.run(match stage {
            BackupStage::Start => "BACKUP STAGE START",
            BackupStage::Flush => "BACKUP STAGE FLUSH",
            BackupStage::BlockDdl => "BACKUP STAGE BLOCK_DDL",
            BackupStage::BlockCommit => "BACKUP STAGE BLOCK_COMMIT",
            BackupStage::End => "BACKUP STAGE END",
        })
    }

    /// Nothing to do: the stages block these writes.
    fn lock_tables(&mut self, _: &[TableName]) -> Result<(), ServerError> {
        Ok(())
    }

    fn flush_logs(&mut self) -> Result<(), ServerError> {
        self.connection.run("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")
    }

    /// LOCAL is the other word for NO_WRITE_TO_BINLOG: who watches a backup's statements can tell this one from those within the stages.
    fn missing_privileges(&mut self, _: &[TableName]) -> Result<Vec<String>, ServerError> {
        let mut missing = Vec::new();
        for (privilege, statement) in PRIVILEGES {
            missing.extend(self.connection.refusal(statement)?.map(|_| privilege));
        }
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![format!("GRANT {} ON *.* TO {}", missing.join(", "), self.connection.account()?)])
    }

    /// The values come from several statements, so they belong to one moment only while commits are blocked.
    fn moment(&mut self) -> Result<BackupMoment, ServerError> {
        let lsn = self.connection.lsn("Innodb_lsn_current")?;
        Ok(BackupMoment { lsn, binlog: self.binlog_position()? })
    }
}
