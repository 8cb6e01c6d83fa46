//! The statements that make a restored server a replica of the server that was backed up.

use std::path::Path;

use datadir::files::AskPath;
use datadir::server::BinlogPosition;

/// The first MySQL that resets its binary logs with other words.
const NEW_WORDS: (u32, u32) = (8, 2);
/// What only the operator knows.
const SOURCE_OF_MARIADB: &str = "MASTER_HOST='<source>', MASTER_USER='<user>', MASTER_PASSWORD='<password>'";
const SOURCE_OF_MYSQL: &str = "SOURCE_HOST='<source>', SOURCE_USER='<user>', SOURCE_PASSWORD='<password>'";

/// A restored state as a replica sees it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State<'s> {
    /// The position that it stands at, if that is known.
    pub at: Option<&'s BinlogPosition>,
    /// The backup's position, if the archive took it to a later moment.
    pub before: Option<&'s BinlogPosition>,
    /// The server's version, if the backup has it.
    pub version: Option<&'s str>,
}

/// Whether a datadir is one of MySQL 8.0 or later.
pub(crate) fn is_mysql(datadir: &Path) -> bool {
    datadir.join("mysql.ibd").is_file_there()
}

impl State<'_> {
    /// The statements, in order. None if the server wrote no binary log.
    pub fn statements(&self, is_mysql: bool) -> Vec<String> {
        if is_mysql { self.of_mysql() } else { self.of_mariadb() }
    }

    fn of_mariadb(&self) -> Vec<String> {
        let Some(BinlogPosition { file, position, gtid }) = self.at else { return Vec::new() };
        let from = if gtid.is_empty() {
            format!("MASTER_LOG_FILE='{file}', MASTER_LOG_POS={position}")
        } else {
            "MASTER_USE_GTID=slave_pos".to_owned()
        };
        let set = Some(format!("SET GLOBAL gtid_slave_pos = '{gtid}';")).filter(|_| !gtid.is_empty());
        let change = format!("CHANGE MASTER TO {SOURCE_OF_MARIADB}, {from};");
        set.into_iter().chain([change, "START SLAVE;".to_owned()]).collect()
    }

    fn of_mysql(&self) -> Vec<String> {
        let reset = if self.has_old_words() { "RESET MASTER;" } else { "RESET BINARY LOGS AND GTIDS;" };
        let by_gtid = format!("CHANGE REPLICATION SOURCE TO {SOURCE_OF_MYSQL}, SOURCE_AUTO_POSITION=1;");
        let (head, change) = match (self.at, self.before) {
            (Some(at), _) if !at.gtid.is_empty() => {
                (vec![reset.to_owned(), format!("SET GLOBAL gtid_purged = '{}';", at.gtid)], by_gtid)
            }
            (Some(BinlogPosition { file, position, .. }), _) => {
                let from = format!("SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS={position}");
                (Vec::new(), format!("CHANGE REPLICATION SOURCE TO {SOURCE_OF_MYSQL}, {from};"))
            }
            // The server finds the transactions of InnoDB that it has in its undo logs and its table. The backup also has those of other
            // engines, and those that change nothing, like OPTIMIZE, of which only the server's binary log knew.
            (None, Some(before)) if !before.gtid.is_empty() => {
                let lacks = format!("GTID_SUBTRACT('{}', @@GLOBAL.gtid_executed)", before.gtid);
                (
                    vec![format!("SET @lacks = {lacks};"), "SET GLOBAL gtid_purged = CONCAT('+', @lacks);".to_owned()],
                    by_gtid,
                )
            }
            _ => return Vec::new(),
        };
        head.into_iter().chain([change, "START REPLICA;".to_owned()]).collect()
    }

    fn has_old_words(&self) -> bool {
        let mut numbers = self.version.unwrap_or_default().split('.').map(|number| number.parse::<u32>().ok());
        let version = numbers.next().flatten().zip(numbers.next().flatten());
        version.is_some_and(|version| version < NEW_WORDS)
    }
}

/// The later of the position that InnoDB noted with its last commit and the backup's: InnoDB knows of no DDL and no other engine.
pub(crate) fn later(noted: Option<BinlogPosition>, backup: Option<&BinlogPosition>) -> Option<BinlogPosition> {
    let base = |at: &BinlogPosition| at.file.rsplit_once('.').map(|(base, _)| base.to_owned());
    let place = |at: &BinlogPosition| (at.file.len(), at.file.clone(), at.position);
    match (noted, backup) {
        (Some(noted), Some(backup)) if base(&noted) != base(backup) || place(&noted) <= place(backup) => {
            Some(backup.clone())
        }
        (None, backup) => backup.cloned(),
        (noted, _) => noted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, position: u64, gtid: &str) -> BinlogPosition {
        BinlogPosition { file: file.to_owned(), position, gtid: gtid.to_owned() }
    }

    #[test]
    fn a_position_is_never_before_the_backup() {
        let backup = at("bin.000002", 1077, "0-7-9");
        let cases = [
            (Some(at("bin.000002", 755, "")), &backup),
            (Some(at("bin.000002", 1077, "")), &backup),
            (Some(at("old.000009", 5000, "")), &backup),
            (None, &backup),
        ];
        for (noted, expected) in cases {
            assert_eq!(later(noted.clone(), Some(&backup)).as_ref(), Some(expected), "{noted:?}");
        }
        for noted in [at("bin.000002", 1078, ""), at("bin.1000000", 4, "")] {
            assert_eq!(later(Some(noted.clone()), Some(&backup)), Some(noted));
        }
        assert_eq!(later(Some(backup.clone()), None), Some(backup));
    }

    #[test]
    fn the_statements_are_those_of_the_servers_version() {
        let (gtids, none) =
            (at("bin.000001", 157, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"), at("bin.000001", 157, ""));
        let of_mariadb = at("bin.000001", 4, "0-7-1");
        let of = |at, before, version, is_mysql| State { at, before, version }.statements(is_mysql).join(" ");
        let new = of(Some(&gtids), None, Some("9.7.4"), true);
        assert!(new.starts_with("RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '3e11"), "{new}");
        assert!(of(Some(&gtids), None, Some("8.0.36"), true).starts_with("RESET MASTER;"));
        assert!(of(Some(&none), None, None, true).contains("SOURCE_LOG_FILE='bin.000001', SOURCE_LOG_POS=157;"));
        assert!(of(None, Some(&gtids), None, true).contains("CONCAT('+', @lacks)"));
        assert_eq!(of(None, Some(&none), None, true), "");
        assert!(of(Some(&of_mariadb), None, None, false).starts_with("SET GLOBAL gtid_slave_pos = '0-7-1';"));
        assert!(of(Some(&none), None, None, false).contains("MASTER_LOG_POS=157;"));
    }
}
