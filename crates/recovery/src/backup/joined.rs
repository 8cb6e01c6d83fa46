//! The log of a MariaDB set: the followed segments as one `ib_logfile0`, which begins with their checkpoint and ends at a given LSN.

use std::os::unix::fs::FileExt;
use std::path::Path;

use format::Lsn;
use redo::mariadb::START_OFFSET;

use super::error::{BackupError, Result, failed};
use super::vendor::LogRange;
use crate::archive::{Stored, segments};
use crate::door;
use datadir::log_name::LOG;

/// No log is smaller.
const SIZE_MIN: u64 = 4 << 20;
/// What stays free behind the last byte for what closes the log: a checkpoint, and the names of the tablespaces that the log changed. The
/// log has each of those names, so they take no more than it does, and those of 100,000 tablespaces no more than `NAMES_MAX`.
const ROOM: u64 = 1 << 20;
const NAMES_MAX: u64 = 64 << 20;
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
    file.set_len(size_of(used)).map_err(failed(&path, "writing the log"))?;
    Ok(range)
}

/// The size of the file, of which `used` bytes are log.
fn size_of(used: u64) -> u64 {
    (used + ROOM + used.min(NAMES_MAX)).max(SIZE_MIN).next_multiple_of(BLOCK)
}

fn broken<T>(why: &str) -> Result<T> {
    Err(BackupError::Log(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_all_tablespaces_in_a_log_fit_behind_it() {
        // One change to each of 50,000 tables: 2.2 MB of names in 9 MB of log.
        let used = 9_000_000;
        assert!(size_of(used) - used >= 50_000 * 45 + ROOM);
        assert_eq!(size_of(1000), SIZE_MIN);
        assert_eq!(size_of(10 << 30), (10 << 30) + NAMES_MAX + ROOM, "they do not grow with the log");
    }
}
