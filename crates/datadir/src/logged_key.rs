//! The key of a MySQL tablespace that only the redo log names: a server keeps the first page of a new file in memory until it needs to
//! write it.

use std::path::Path;
use std::sync::Arc;

use format::codec::EncryptionInfo;
use format::keyring::KeyStore;
use format::page::fsp;
use format::{PageId, SpaceFormat};
use redo::record::mysql::change::Change::WriteString;
use redo::record::{Change, RedoRecord};

use super::keys::SpaceKey;
use super::mysql_log::MySqlLog;
use super::redo_log::log_files;

/// The key that the datadir's log gives to this tablespace. `None` if there is none that `keys` open, or if the log cannot be read. Reads
/// the whole log from its checkpoint on.
pub fn logged_key(datadir: &Path, format: &SpaceFormat, keys: &KeyStore) -> Option<SpaceKey> {
    let log = MySqlLog::open(&log_files(datadir), keys).ok()?;
    let first_page = PageId::new(format.space().0, 0);
    let place = fsp::xdes_array_end(format.logical(), format.physical());
    let mut newest = None;
    // A server is writing the log, so its end may not be readable.
    let _: Option<_> = log.each_mtr((log.checkpoint_lsn(), &log.stretches), u64::MAX, |mtr| {
        for record in mtr.records() {
            let RedoRecord::Page(record) = record.ok()? else { continue };
            match record.change {
                Change::MySql(WriteString { offset, data }) if record.id == first_page && offset == place => {
                    newest = Some(data.to_vec());
                }
                _ => {}
            }
        }
        Some(())
    });
    let info = EncryptionInfo::parse(&newest?).ok()??;
    Some(SpaceKey::MySql(Arc::new(info.unlock(keys).ok()?)))
}
