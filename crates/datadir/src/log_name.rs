//! The names of redo logs.

use std::path::Path;

use redo::archived::first_lsn;

use crate::files::AskPath;
use crate::kept_log::kept_files;

/// MariaDB's log, and the first file of MySQL's before 8.0.30.
pub const LOG: &str = "ib_logfile0";

/// Where MySQL 8.0.30 and later keep their log.
pub const REDO_DIR: &str = "#innodb_redo";

/// xtrabackup's copy of the log. It stays beside the log once the backup is prepared, and means nothing then.
pub const COPIED_LOG: &str = "xtrabackup_logfile";

/// Whether a name in a datadir or a backup is that of the log, or of a file or directory of it.
pub fn is_of_log(name: &Path) -> bool {
    [LOG, COPIED_LOG].iter().any(|log| name == Path::new(log)) || name.starts_with(REDO_DIR) || is_kept(name)
}

/// Whether this is the name of a file of a log that MariaDB 13.0 keeps as an archive.
pub fn is_kept(name: &Path) -> bool {
    name.to_str().is_some_and(|name| first_lsn(name).is_some())
}

/// Whether a datadir has a log that MariaDB keeps as an archive, and no other.
pub fn is_kept_as_archive(datadir: &Path) -> bool {
    !datadir.join(LOG).is_there() && !datadir.join(REDO_DIR).is_there() && !kept_files(datadir).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_logs_are_named_for_an_lsn() {
        assert!(is_kept(Path::new("ib_0000000000003000.log")) && is_kept(Path::new("ib_00000000deadBEEF.log")));
        for other in [
            "ib_logfile0",
            "ib_000000000003000.log",
            "ib_000000000000300g.log",
            "ib_0000000000003000.log.gz",
            // No log begins before its header ends.
            "ib_0000000000002fff.log",
        ] {
            assert!(!is_kept(Path::new(other)), "{other}");
        }
    }

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
