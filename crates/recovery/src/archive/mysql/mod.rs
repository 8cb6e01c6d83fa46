//! The log of MySQL 8.0.30 and later.
//!
//! ```text
//! #innodb_redo -> sound blocks (live) -> whole mini-transactions (groups) -> the last block cut off behind one -> segment (writer)
//! ```

mod disabled;
mod follow;
mod groups;
mod history;
mod live;
mod stored;
mod verify;
mod writer;

use std::path::Path;

use flow::durable::remove_file;
use format::Lsn;
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::follow::SoundBlocks;

use self::follow::{BlockFollower, begin};
use self::groups::Groups;
pub(super) use self::live::is_mysql;
use self::live::{Headers, LiveBlocks};
pub(crate) use self::stored::StoredBlocks;
pub(super) use self::verify::{BlockRange, is_of_blocks};
use self::writer::BlockWriter;
use super::error::{Result, failed, refused};
use super::follow::Follow;
use super::gap::{Gap, noted};
use super::name::{SegmentName, list};
use super::options::ArchiveOptions;
use super::status::{ArchiveEvent, ArchiveStatus, Unlogged};
use crate::unlogged::{Load, Once};
use datadir::files::AskPath;

/// Bytes of the first read.
const READ_FIRST: usize = 64 << 10;

impl From<Load> for Unlogged {
    fn from(load: Load) -> Self {
        Self { lsn: load.lsn.0, space: load.space.0, index: load.index, file: None }
    }
}

/// Continues an archive, or starts one at the log's newest checkpoint.
pub(super) fn start(
    datadir: &Path,
    options: &ArchiveOptions,
    tell: &mut dyn FnMut(&ArchiveEvent<'_>),
) -> Result<Box<dyn Follow>> {
    let dir = options.to.clone();
    let (mut live, headers) = LiveBlocks::open(datadir)?;
    if headers.is_disabled {
        disabled::note(&dir)?;
        return refused(format!(
            "{}: redo logging is disabled (ALTER INSTANCE DISABLE INNODB REDO_LOG): there is nothing to archive until it is enabled again, and \
             a base copy is needed from after that",
            datadir.display()
        ));
    }
    let newest = list(&dir)?.pop().map(|name| StoredBlocks::read(&dir, name)).transpose()?;
    let gap = match &newest {
        // The log is another server's, or the server has replaced its files.
        Some(stored) if stored.header.log_uuid != headers.log_uuid => Some(Gap::OtherHistory),
        Some(stored) if headers.oldest > stored.next() && !has(&mut live, stored.next())? => {
            Some(Gap::Recycled { oldest: headers.oldest })
        }
        Some(stored) if headers.end < stored.next() => Some(Gap::OtherHistory),
        Some(_) if disabled::is_noted(&dir) => Some(Gap::Disabled),
        Some(_) => history::compare(&dir, &mut live, &headers)?,
        None => None,
    };
    let (segment, groups) = match &newest {
        None => {
            // Nothing is archived yet, so there is nothing that a gap could follow.
            disabled::forget(&dir)?;
            let segment =
                begin(&dir, &headers, SegmentName { timeline: 1, start: Lsn(0) }, None, options.segment_size)?;
            let start = segment.name().start;
            (segment, Groups::new(start))
        }
        Some(stored) => continued(&dir, &headers, stored, options)?,
    };
    let mut follower = BlockFollower {
        dir,
        live,
        headers,
        segment,
        groups,
        pending: Vec::new(),
        segment_size: options.segment_size,
        settle: options.settle,
        read_size: READ_FIRST,
        status: ArchiveStatus::default(),
        read_to: Lsn(0),
        seen: None,
        rest: None,
        missing_since: None,
        unlogged: Vec::new(),
        named: Once::default(),
    };
    follower.tell();
    if let Some(gap) = gap {
        follower.start_over(&gap)?;
        let why = noted(&follower.dir, follower.segment()).unwrap_or_default();
        tell(&ArchiveEvent::Gap(&why));
    }
    Ok(Box::new(follower))
}

/// Whether a file still has the block at `lsn`.
fn has(live: &mut LiveBlocks, lsn: Lsn) -> Result<bool> {
    Ok(!SoundBlocks::of(&live.read(lsn, LOG_BLOCK_SIZE)?, lsn).is_nothing())
}

/// Continues in the newest segment, or after it if it is closed.
fn continued(
    dir: &Path,
    headers: &Headers,
    stored: &StoredBlocks,
    options: &ArchiveOptions,
) -> Result<(BlockWriter, Groups)> {
    let groups = Groups::resumed(stored.name.start, stored.full_blocks(), stored.last_block().as_ref())?;
    let end = stored.name.end_path(dir);
    let is_closed = end.is_there();
    // Only a gap closes a segment behind a partly filled block. The run was killed before it noted the gap, so open the segment again.
    if is_closed && stored.last_block().is_some() {
        remove_file(&end).map_err(failed(&end, "opening the segment again"))?;
    } else if is_closed {
        let name = SegmentName { start: stored.next(), ..stored.name };
        let segment = BlockWriter::create(dir, name, &headers.header, None, options.segment_size)?;
        return Ok((segment, groups));
    }
    Ok((BlockWriter::resume(stored)?, groups))
}
