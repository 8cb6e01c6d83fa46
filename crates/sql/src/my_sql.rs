//! What a backup asks of MySQL.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use datadir::server::{
    BackupMoment, BackupServer, BackupStage, BinlogEvent, BinlogPosition, InstanceState, LogServer, ServerError,
    ServerFacts, TableName,
};
use format::{Lsn, SpaceId};
use serde_json::Value;

use crate::connection::Connection;

/// Settings that may point outside the datadir.
const DIRECTORIES: [&str; 3] = ["innodb_data_home_dir", "innodb_undo_directory", "innodb_log_group_home_dir"];
/// MySQL's backup lock is shared, so innokit's backups exclude each other with this named lock.
const BACKUP_LOCK: &str = "innokit backup";
/// The first version with `SHOW BINARY LOG STATUS`. The statement before it is gone in 8.4.
const NEW_WORDS: (u32, u32, u32) = (8, 2, 0);
/// The privileges on the whole server that every backup takes, each with a statement that takes it too and changes nothing.
const PRIVILEGES: [(&str, &str); 2] =
    [("BACKUP_ADMIN", "UNLOCK INSTANCE"), ("PROCESS", "SELECT COUNT(*) FROM information_schema.innodb_datafiles")];
/// No table has this name.
const NO_TABLE: &str = "innokit asks for privileges";
const LOG_STATUS: &str = "SELECT local, storage_engines FROM performance_schema.log_status";

/// A connection to a MySQL server. When it ends, the server releases what it held: the backup lock, table locks.
#[derive(Debug)]
pub(crate) struct MySql {
    connection: Connection,
    lock_wait: u64,
    /// The statement that asks this version for its binary log position. `None` until it is first used.
    binlog_statement: Option<&'static str>,
}

impl MySql {
    pub fn on(mut connection: Connection, lock_wait: Duration) -> Result<Self, ServerError> {
        let lock_wait = lock_wait.as_secs().max(1);
        // Servers may be set to end idle connections and long queries. Neither must happen to this connection.
        connection.run(&format!(
            "SET SESSION lock_wait_timeout = {lock_wait}, SESSION wait_timeout = 31536000, SESSION max_execution_time = 0, \
             SESSION sql_mode = '', SESSION lc_messages = 'en_US'"
        ))?;
        Ok(Self { connection, lock_wait, binlog_statement: None })
    }

    /// The tables of a database that this account may read. Asked of the dictionary, so no table's lock is waited for.
    fn readable(&mut self, database: &str) -> Result<BTreeSet<String>, ServerError> {
        let database = database.replace('\\', "\\\\").replace('\'', "''");
        let tables: Vec<String> = self.connection.ask_all(&format!(
            "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = '{database}' AND privileges LIKE '%select%'"
        ))?;
        Ok(tables.into_iter().collect())
    }

    fn keep_others_off(&mut self) -> Result<(), ServerError> {
        let statement = format!("SELECT GET_LOCK('{BACKUP_LOCK}', {})", self.lock_wait);
        match self.connection.ask::<Option<u8>>(&statement)?.flatten() {
            Some(1) => Ok(()),
            _ => Err(ServerError::LockWait { statement, says: "another backup by innokit is running".to_owned() }),
        }
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

impl LogServer for MySql {
    fn datadir(&mut self) -> Result<PathBuf, ServerError> {
        self.connection.variable("datadir").map(PathBuf::from)
    }

    fn root(&mut self) -> Option<PathBuf> {
        self.connection.root()
    }

    fn datadir_as(&self) -> Option<PathBuf> {
        self.connection.datadir_as()
    }

    fn uuid(&mut self) -> Result<Option<String>, ServerError> {
        self.connection.variable("server_uuid").map(Some)
    }

    fn temporary(&mut self) -> Result<Option<PathBuf>, ServerError> {
        self.connection.variable("innodb_temp_tablespaces_dir").map(|dir| Some(PathBuf::from(dir)))
    }

    /// Larger than the 80 KiB that such a file begins with, and than a table in memory may be. The file is this connection's own, and is cut
    /// when it ends.
    fn write_temporary(&mut self) -> Result<(), ServerError> {
        self.connection.run("SET SESSION tmp_table_size = 1024")?;
        self.connection.run(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 900) \
             SELECT COUNT(*) FROM (SELECT DISTINCT n, REPEAT(UUID(), 20) FROM numbers) AS filler",
        )?;
        self.connection.run("SET SESSION tmp_table_size = DEFAULT")
    }

    fn checkpoint(&mut self) -> Result<Option<Lsn>, ServerError> {
        self.connection.lsn("Innodb_redo_log_checkpoint_lsn").map(Some)
    }

    fn flushed_lsn(&mut self) -> Result<Lsn, ServerError> {
        self.connection.lsn("Innodb_redo_log_flushed_to_disk_lsn")
    }

    fn binlog(&mut self) -> Result<Option<BinlogPosition>, ServerError> {
        let statement = match &self.binlog_statement {
            Some(known) => known,
            None => {
                let has_new_words = self.connection.facts(&[])?.version_numbers() >= NEW_WORDS;
                let statement = if has_new_words { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" };
                self.binlog_statement.insert(statement)
            }
        };
        let row: Option<mysql::Row> = self.connection.ask(statement)?;
        let Some(row) = row else { return Ok(None) };
        let text = |column: usize| row.get::<Option<String>, _>(column).flatten();
        let (Some(file), Some(position)) = (text(0), row.get(1)) else {
            return Err(ServerError::Refused { statement: (*statement).to_owned(), says: "no position".to_owned() });
        };
        // The columns: file, position, two lists of databases, the GTIDs executed.
        Ok(Some(BinlogPosition { file, position, gtid: text(4).unwrap_or_default().replace('\n', "") }))
    }

    fn binlog_events(&mut self, file: &str, from: u64, count: u32) -> Result<Option<Vec<BinlogEvent>>, ServerError> {
        self.connection.binlog_events(file, from, count).map(Some)
    }
}

impl BackupServer for MySql {
    fn facts(&mut self) -> Result<ServerFacts, ServerError> {
        self.connection.facts(&DIRECTORIES)
    }

    fn instance(&mut self) -> Result<InstanceState, ServerError> {
        let is_redo_on = self.connection.status("Innodb_redo_log_enabled")? == "ON";
        Ok(InstanceState { is_redo_on, changes: self.connection.number("Com_alter_instance")? })
    }

    fn data_files(&mut self) -> Result<Vec<PathBuf>, ServerError> {
        let paths: Vec<String> = self.connection.ask_all("SELECT path FROM information_schema.innodb_datafiles")?;
        Ok(paths.into_iter().map(PathBuf::from).collect())
    }

    fn discarded(&mut self) -> Result<Vec<SpaceId>, ServerError> {
        let statement = "SELECT space FROM information_schema.innodb_tablespaces WHERE state = 'discarded'";
        let spaces: Vec<u32> = self.connection.ask_all(statement)?;
        Ok(spaces.into_iter().map(SpaceId).collect())
    }

    fn enter(&mut self, stage: BackupStage) -> Result<(), ServerError> {
        match stage {
            BackupStage::Start => self.keep_others_off(),
            BackupStage::Flush | BackupStage::BlockCommit => Ok(()),
            BackupStage::BlockDdl => self.connection.run("LOCK INSTANCE FOR BACKUP"),
            BackupStage::End => {
                self.connection.run("UNLOCK TABLES")?;
                self.connection.run("UNLOCK INSTANCE")?;
                self.connection.run(&format!("DO RELEASE_LOCK('{BACKUP_LOCK}')"))
            }
        }
    }

    fn lock_tables(&mut self, tables: &[TableName]) -> Result<(), ServerError> {
        if tables.is_empty() {
            return Ok(());
        }
        let names = tables.iter().map(|name| format!("{}.{}", quoted(&name.database), quoted(&name.table)));
        self.connection.run(&format!("FLUSH TABLES {} WITH READ LOCK", names.collect::<Vec<_>>().join(", ")))
    }

    /// This needs a privilege that nothing else here needs. Without it, the server writes its logs on its own.
    fn flush_logs(&mut self) -> Result<(), ServerError> {
        match self.connection.run("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS") {
            Err(ServerError::Privilege { .. }) => Ok(()),
            flushed => flushed,
        }
    }

    fn missing_privileges(&mut self, tables: &[TableName]) -> Result<Vec<String>, ServerError> {
        let (mut of_server, mut others) = (Vec::new(), Vec::new());
        for (privilege, statement) in PRIVILEGES {
            of_server.extend(self.connection.refusal(statement)?.map(|_| privilege));
        }
        // Without BACKUP_ADMIN the words are others.
        if self.connection.refusal(LOG_STATUS)?.is_some_and(|says| says.starts_with("SELECT")) {
            others.push("SELECT ON performance_schema.log_status".to_owned());
        }
        let mut databases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in tables {
            databases.entry(&name.database).or_default().push(&name.table);
        }
        for (number, (database, tables)) in databases.into_iter().enumerate() {
            // The server looks at the privileges before it looks for the table.
            let nothing = format!("{}.`{NO_TABLE}`", quoted(database));
            let flushes = self.connection.refusal(&format!("FLUSH TABLES {nothing} WITH READ LOCK"))?;
            if number == 0 && flushes.is_some_and(|says| says.contains("FLUSH_TABLES")) {
                of_server.push("FLUSH_TABLES");
            }
            // LOCK TABLES is granted for databases, SELECT for tables too: that of a table that is not there may be missing.
            let locks = self.connection.refusal(&format!("LOCK TABLES {nothing} READ"))?;
            if locks.is_some_and(|says| !says.starts_with("SELECT command")) {
                others.push(format!("LOCK TABLES ON {}.*", quoted(database)));
            }
            let readable = self.readable(database)?;
            for table in tables.into_iter().filter(|table| !readable.contains(*table)) {
                let named = format!("{}.{}", quoted(database), quoted(table));
                // Files may be left of a table that the dictionary does not have.
                let reads = self.connection.refusal(&format!("SELECT 1 FROM {named} LIMIT 0"))?;
                others.extend(reads.map(|_| format!("SELECT ON {named}")));
            }
        }
        if of_server.is_empty() && others.is_empty() {
            return Ok(Vec::new());
        }
        let account = self.connection.account()?;
        let of_server = Some(format!("{} ON *.*", of_server.join(", "))).filter(|_| !of_server.is_empty());
        Ok(of_server.into_iter().chain(others).map(|what| format!("GRANT {what} TO {account}")).collect())
    }

    /// One moment, because the server holds its logs still while it reads this table.
    fn moment(&mut self) -> Result<BackupMoment, ServerError> {
        let row: Option<(String, String)> = self.connection.ask(LOG_STATUS)?;
        let unknown = || ServerError::Refused { statement: LOG_STATUS.to_owned(), says: "no position".to_owned() };
        let (local, engines) = row.ok_or_else(unknown)?;
        moment_in(&local, &engines).ok_or_else(unknown)
    }
}

/// The moment in a row of `log_status`. `None` if the row does not say.
fn moment_in(local: &str, engines: &str) -> Option<BackupMoment> {
    let (local, engines): (Value, Value) = (serde_json::from_str(local).ok()?, serde_json::from_str(engines).ok()?);
    let lsn = Lsn(engines.get("InnoDB")?.get("LSN")?.as_u64()?);
    // Without a binary log there is only `gtid_executed`.
    let binlog = match (local.get("binary_log_file"), local.get("binary_log_position")) {
        (Some(file), Some(position)) => Some(BinlogPosition {
            file: file.as_str()?.to_owned(),
            position: position.as_u64()?,
            gtid: local.get("gtid_executed")?.as_str()?.replace('\n', ""),
        }),
        _ => None,
    };
    Some(BackupMoment { lsn, binlog })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_is_read_from_log_status_or_is_none() {
        let local = r#"{"gtid_executed": "15816a97-e815-11f1-adca-02fc00000001:1-7,\n3e11fa47-71ca-11e1-9e33-c80aa9429562:1", "binary_log_file": "bin.000002", "binary_log_position": 1559}"#;
        let engines = r#"{"InnoDB": {"LSN": 20629105, "LSN_checkpoint": 19049777}}"#;
        let moment = moment_in(local, engines).expect("a moment");
        let binlog = moment.binlog.expect("a position");
        assert_eq!((moment.lsn, binlog.file.as_str(), binlog.position), (Lsn(20_629_105), "bin.000002", 1559));
        assert_eq!(binlog.gtid, "15816a97-e815-11f1-adca-02fc00000001:1-7,3e11fa47-71ca-11e1-9e33-c80aa9429562:1");
        let without = moment_in(r#"{"gtid_executed": ""}"#, engines).expect("a moment");
        assert_eq!(without.binlog, None);
        assert_eq!(moment_in(local, "{}"), None);
        assert_eq!(moment_in("", engines), None);
    }
}
