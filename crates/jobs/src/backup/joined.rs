//! The log of a MariaDB set: the followed segments as one `ib_logfile0`, which begins with their checkpoint and ends at a given LSN.

use std::os::unix::fs::FileExt;
use std::path::Path;

use format::Lsn;
use redo::mariadb::START_OFFSET;

use super::error::{BackupError, Result, failed};
use super::vendor::LogRange;
use crate::archive::{Stored, segments};
use crate::door;
use crate::source::log_name::LOG;

/// No log is smaller. `ROOM` always stays free behind the last byte for what closes the log.
const SIZE_MIN: u64 = 4 << 20;
const ROOM: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// Writes the log into `set`. It ends with the last mini-transaction that ends at or before `until`.
pub(super) fn join(dir: &Path, set: &Path, until: Lsn) -> Result<LogRange> {
    let path = set.join(LOG);
    let file = door::create(set, LOG).map_err(failed(&path, "making the log"))?;
    let mut range: Option<LogRange> = None;
    let mut key = Vec::new();
    for name in segments(dir)? {
        let stored = Stored::read(dir, name)?;
        let start = match range {
            None => {
                let (header, checkpoint) = (stored.header_bytes(), stored.header.checkpoint);
                if checkpoint.is_none_or(|checkpoint| checkpoint.end_lsn > until) {
                    return broken("it does not begin with a checkpoint that was complete");
                }
                key = stored.key().to_vec();
                file.write_all_at(header, 0).map_err(failed(&path, "writing the log"))?;
                name.start
            }
            Some(range) if range.to != name.start || name.timeline != 1 => return broken("it has a gap"),
            Some(_) if stored.key() != key => return broken("its key changed meanwhile: take the backup again"),
            Some(range) => range.from,
        };
        let payload = stored.payload_until(until);
        let offset = START_OFFSET as u64 + (name.start.0 - start.0);
        file.write_all_at(payload, offset).map_err(failed(&path, "writing the log"))?;
        let to = Lsn(name.start.0 + payload.len() as u64);
        range = Some(LogRange { from: start, to });
        if to < stored.end() {
            break;
        }
    }
    let Some(range) = range else { return broken("there is nothing of it") };
    let used = START_OFFSET as u64 + (range.to.0 - range.from.0);
    let size = (used + ROOM).max(SIZE_MIN).next_multiple_of(BLOCK);
    file.set_len(size).map_err(failed(&path, "writing the log"))?;
    Ok(range)
}

fn broken<T>(why: &str) -> Result<T> {
    Err(BackupError::Log(why.to_owned()))
}
