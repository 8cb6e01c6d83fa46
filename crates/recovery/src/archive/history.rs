//! Whether a log continues an archive. After a restore, or a power failure that lost unsynced writes, the same LSNs come again with other
//! content.

use std::path::Path;

use format::Lsn;

use super::error::Result;
use super::gap::Gap;
use super::live::LiveLog;
use super::name::list;
use super::stored::Stored;

/// Bytes compared at most.
const COMPARED: u64 = 16 << 10;

/// Compares the last bytes of an archive, which ends at `at`, with the log at the same LSNs. Bytes that the log no longer holds, or never
/// held, are not compared.
pub(super) fn compare(dir: &Path, live: &LiveLog, at: Lsn) -> Result<Option<Gap>> {
    let log = &live.parsed;
    // So few bytes that a server which has overwritten any of them is about to overwrite what comes next.
    let mut left = COMPARED.min(at.0.saturating_sub(log.first_lsn.0));
    let mut end = at;
    for name in list(dir)?.into_iter().rev() {
        if left == 0 || name.start > end {
            break;
        }
        let stored = Stored::read(dir, name)?;
        if stored.end() != end {
            break;
        }
        let tail = stored.tail(left);
        let start = Lsn(end.0 - tail.len() as u64);
        let mut bytes = live.read(start, tail.len())?;
        stored.straighten_tail(&mut bytes);
        if bytes != tail {
            return Ok(Some(Gap::OtherHistory));
        }
        (left, end) = (left - tail.len() as u64, start);
    }
    Ok(None)
}
