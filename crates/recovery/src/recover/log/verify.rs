//! Logs made of blocks, of either vendor: verifies every block that recovery needs.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use format::Lsn;
use redo::verify_blocks::{BlockDamage, BlockVerifier, Misfit};

use crate::recover::error::{Result, damaged, failed, locked_out};
use datadir::reading::read_up_to;

/// Bytes per read.
const PIECE: usize = 1 << 20;

/// Fails if recovery needs a damaged block in this range of a file. `log` is the name for messages.
pub(super) fn verify_stretch(
    file: &impl FileExt,
    path: &Path,
    stretch: Range<u64>,
    verifier: &mut BlockVerifier,
    log: &str,
) -> Result<()> {
    let Range { start: mut offset, end } = stretch;
    while offset < end {
        let len = usize::try_from(end - offset).unwrap_or(PIECE).min(PIECE);
        let bytes = read_up_to(file, offset, len).map_err(failed(path, "reading the redo log"))?;
        let mut piece = bytes.as_slice();
        while let Some(found) = verifier.next_damage(&mut piece) {
            tolerate(&found, log)?;
        }
        if bytes.is_empty() {
            break;
        }
        offset += bytes.len() as u64;
    }
    Ok(())
}

/// Fails if the log ends in a damaged block, or before its newest checkpoint.
pub(super) fn verify_end(verifier: BlockVerifier, checkpoint: Lsn, log: &str) -> Result<()> {
    let (last, summary) = verifier.finish();
    last.map_or(Ok(()), |found| tolerate(&found, log))?;
    if summary.end < checkpoint {
        let end = summary.end;
        return damaged(format!("{log}: the redo log is damaged at LSN {end}: it ends before its newest checkpoint"));
    }
    Ok(())
}

/// Fails unless recovery can do without the damaged block.
fn tolerate(found: &BlockDamage, log: &str) -> Result<()> {
    let BlockDamage { lsn, misfit, is_needed, .. } = *found;
    if !is_needed {
        return Ok(());
    }
    // The given keys have another version of this key. The log is not damaged.
    if matches!(misfit, Misfit::OtherKey { .. }) {
        return locked_out(format!("{log}: the redo log cannot be read from LSN {lsn} on: {misfit}"));
    }
    damaged(format!("{log}: the redo log is damaged at LSN {lsn}: {misfit}"))
}
