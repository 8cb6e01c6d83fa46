//! The names of redo logs.

use std::path::Path;

/// MariaDB's log, and the first file of MySQL's before 8.0.30.
pub const LOG: &str = "ib_logfile0";

/// Where MySQL 8.0.30 and later keep their log.
pub const REDO_DIR: &str = "#innodb_redo";

/// xtrabackup's copy of the log. It stays beside the log once the backup is prepared, and means nothing then.
pub const COPIED_LOG: &str = "xtrabackup_logfile";

/// Whether a name in a datadir or a backup is that of the log, or of a file or directory of it.
pub fn is_of_log(name: &Path) -> bool {
    [LOG, COPIED_LOG].iter().any(|log| name == Path::new(log)) || name.starts_with(REDO_DIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_all_servers_are_known_by_name() {
        for name in ["ib_logfile0", "#innodb_redo", "#innodb_redo/#ib_redo7", "xtrabackup_logfile"] {
            assert!(is_of_log(Path::new(name)), "{name}");
        }
        for name in ["ib_logfile101", "ibdata1", "shop/ib_logfile0", "#innodb_temp/temp_1.ibt"] {
            assert!(!is_of_log(Path::new(name)), "{name}");
        }
    }
}
