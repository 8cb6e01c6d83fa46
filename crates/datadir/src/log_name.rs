//! The names of redo logs.

use std::path::Path;

use crate::files;

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

/// Why a datadir has none of these although it has a log: MariaDB 13.0 can keep it as files that it never overwrites, each named for its first
/// LSN (`innodb_log_archive`, MDEV-37949).
pub fn kept_as_archive(datadir: &Path) -> Option<String> {
    let names =
        files::read_dir(datadir).ok()?.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let name = names.filter(|name| is_archived(name)).max()?;
    Some(format!(
        "its redo log is kept as an archive, up to now in {name} (innodb_log_archive=ON, MariaDB 13.0), which this build does not read"
    ))
}

fn is_archived(name: &str) -> bool {
    let lsn = name.strip_prefix("ib_").and_then(|rest| rest.strip_suffix(".log"));
    lsn.is_some_and(|lsn| lsn.len() == 16 && lsn.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_logs_are_named_for_an_lsn() {
        assert!(is_archived("ib_0000000000003000.log") && is_archived("ib_00000000deadBEEF.log"));
        for other in ["ib_logfile0", "ib_000000000003000.log", "ib_000000000000300g.log", "ib_0000000000003000.log.gz"]
        {
            assert!(!is_archived(other), "{other}");
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
