//! Whether a log of MySQL continues an archive: see [`crate::archive::history`].

use std::path::Path;
use std::thread;
use std::time::Duration;

use format::Lsn;
use redo::block::LOG_BLOCK_SIZE;
use redo::mysql::follow::continues;

use super::live::{Headers, LiveBlocks};
use super::stored::StoredBlocks;
use crate::archive::error::Result;
use crate::archive::gap::Gap;
use crate::archive::name::list;

/// Blocks compared at most.
const COMPARED: usize = 32;
/// How often, and with what pause, to read a block again that the server may be writing.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);
const BLOCK: u64 = LOG_BLOCK_SIZE as u64;

/// Compares the last blocks of an archive with the log at the same LSNs. Blocks that the log no longer holds, or never held, are not
/// compared.
pub(super) fn compare(dir: &Path, live: &mut LiveBlocks, headers: &Headers) -> Result<Option<Gap>> {
    let (mut left, mut next) = (COMPARED, None);
    for name in list(dir)?.into_iter().rev() {
        let stored = StoredBlocks::read(dir, name)?;
        if left == 0 || next.is_some_and(|next| stored.next() != next) {
            break;
        }
        let blocks = stored.blocks().as_chunks::<LOG_BLOCK_SIZE>().0;
        for (number, block) in blocks.iter().enumerate().rev().take(left) {
            let lsn = Lsn(name.start.0 + number as u64 * BLOCK);
            if lsn < headers.oldest {
                return Ok(None);
            }
            if !is_in(live, lsn, block)? {
                return Ok(Some(Gap::OtherHistory));
            }
        }
        left = left.saturating_sub(blocks.len());
        next = Some(name.start);
    }
    Ok(None)
}

/// Whether the log has the block, or a later version of it.
fn is_in(live: &mut LiveBlocks, lsn: Lsn, block: &[u8; LOG_BLOCK_SIZE]) -> Result<bool> {
    for _ in 0..TRIES {
        let read = live.read(lsn, LOG_BLOCK_SIZE)?;
        if read.first_chunk().is_some_and(|now| continues(block, now, lsn)) {
            return Ok(true);
        }
        live.forget();
        thread::sleep(PAUSE);
    }
    Ok(false)
}
