//! The binary log position that a recovered datadir stands at.

use std::path::Path;

use format::Lsn;
use format::keyring::KeyStore;

use crate::archive::gtid_at;
use datadir::server::BinlogPosition;
use datadir::tablespace::transactions::last_in_binlog_of;

/// Binary log file and position after the last commit in the datadir. They are exact: MariaDB stores them with each commit. The GTID is
/// known only if the datadir was recovered to `end` from an archive with a mark at exactly this position.
pub(crate) fn binlog_at(datadir: &Path, keys: &KeyStore, archive: Option<(&Path, Lsn)>) -> Option<BinlogPosition> {
    let (file, position) = last_in_binlog_of(datadir, keys)?;
    // An unreadable mark is no error here: the recovery does not need it, and `redo verify` reports it.
    let gtid = archive.and_then(|(archive, end)| gtid_at(archive, end, &file, position).ok().flatten());
    Some(BinlogPosition { file, position, gtid: gtid.unwrap_or_default() })
}
