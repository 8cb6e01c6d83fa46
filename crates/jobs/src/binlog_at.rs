//! Where the binary log was at the moment to which a datadir was recovered.

use std::path::Path;

use format::Lsn;
use format::keyring::KeyStore;

use crate::archive::gtid_at;
use crate::server::BinlogPosition;
use crate::tree::transactions::last_in_binlog_of;

/// File and position after the last commit in the datadir, as MariaDB notes it with each: exact. The GTID is only known if the archive that
/// it was recovered from to `end` has a mark with just this position.
pub(crate) fn binlog_at(datadir: &Path, keys: &KeyStore, archive: Option<(&Path, Lsn)>) -> Option<BinlogPosition> {
    let (file, position) = last_in_binlog_of(datadir, keys)?;
    // Marks that cannot be read are told by `redo verify`: they are not needed for the recovery.
    let gtid = archive.and_then(|(archive, end)| gtid_at(archive, end, &file, position).ok().flatten());
    Some(BinlogPosition { file, position, gtid: gtid.unwrap_or_default() })
}
