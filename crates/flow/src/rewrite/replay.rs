//! Completes an interrupted run: writes the content of its shadow in place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::channel::Channel;
use super::error::RewriteError;
use super::options::RewriteTarget;
use super::shadow;
use crate::queue::OpenQueue;

/// How a shadow is replayed: its pieces are small.
const REPLAY_DEPTH: u16 = 32;
const REPLAY_WRITE_MAX: u32 = 64 << 10;

/// The outcome for the shadow of an interrupted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// There was none, or it was empty: every block that was changed is durable.
    Nothing,
    /// It belongs to a run with this tag, and was left alone.
    Foreign(u64),
    /// The changed pieces of blocks were written in place and synced; this is their number. The shadow is empty now.
    Pieces(u64),
}

/// Completes an interrupted run, through the page cache: if its shadow has a chain with this tag, its pieces are written in place.
/// `resolve` finds a file by its name; pieces of files that it does not know are skipped.
///
/// # Errors
/// A request failed; the replay may be tried again.
pub fn replay(
    engine: &dyn OpenQueue,
    shadow: &RewriteTarget,
    tag: u64,
    resolve: impl FnMut(&[u8]) -> Option<RewriteTarget>,
) -> Result<Replayed, RewriteError> {
    run(engine, shadow, tag, resolve, None)
}

/// [`replay`], but `is_wanted` decides on each piece, from the content in place (shorter than the piece at the end of the file) and the
/// piece. For shadows that may be found after another program wrote to the files. The blocks must have been saved
/// [whole](super::Changes::replaced), so that a piece shows which state of its block it belongs to.
///
/// # Errors
/// As [`replay`].
pub fn replay_if(
    engine: &dyn OpenQueue,
    shadow: &RewriteTarget,
    tag: u64,
    resolve: impl FnMut(&[u8]) -> Option<RewriteTarget>,
    mut is_wanted: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<Replayed, RewriteError> {
    run(engine, shadow, tag, resolve, Some(&mut is_wanted))
}

/// Decides on a piece by the content in place.
type IsWanted<'w> = &'w mut dyn FnMut(&[u8], &[u8]) -> bool;

fn run(
    engine: &dyn OpenQueue,
    shadow: &RewriteTarget,
    tag: u64,
    mut resolve: impl FnMut(&[u8]) -> Option<RewriteTarget>,
    mut is_wanted: Option<IsWanted<'_>>,
) -> Result<Replayed, RewriteError> {
    let channel = Channel::open(engine, REPLAY_DEPTH, REPLAY_WRITE_MAX);
    let mut channel = channel.map_err(|error| RewriteError::Setup(Arc::new(error)))?;
    let mut files: BTreeMap<Vec<u8>, Option<RewriteTarget>> = BTreeMap::new();
    let (mut at, mut written, mut chain) = (0, 0, None);
    for number in 0.. {
        let head = channel.read(shadow, at, shadow::HEADER_SIZE)?;
        let Some(header) = shadow::Header::parse(&head) else { break };
        if header.place.tag != tag {
            return Ok(Replayed::Foreign(header.place.tag));
        }
        if (header.place.chain, header.place.number) != (*chain.get_or_insert(header.place.chain), number) {
            break;
        }
        let body = channel.read(shadow, at + shadow::HEADER_SIZE as u64, header.body_len())?;
        let Some(batch) = header.open(&body) else { break };
        let mut of_batch = BTreeMap::new();
        for (file, name) in batch.names {
            let target = files.entry(name).or_insert_with_key(|name| resolve(name));
            of_batch.extend(target.clone().map(|target| (file, target)));
        }
        for piece in &batch.pieces {
            let Some(target) = of_batch.get(&piece.file) else { continue };
            if let Some(is_wanted) = &mut is_wanted {
                // A read must be alone in the channel.
                channel.drain()?;
                let stored = channel.read(target, piece.offset, piece.bytes.len())?;
                if !is_wanted(&stored, piece.bytes) {
                    continue;
                }
            }
            channel.write(target, piece.offset, piece.bytes)?;
            written += 1;
        }
        // A later batch may have bytes of the same block.
        channel.drain()?;
        at += header.len() as u64;
    }
    if at == 0 {
        return Ok(Replayed::Nothing);
    }
    channel.sync(files.values().flatten())?;
    let place = shadow::BatchPlace { tag, chain: shadow::chain_number(), number: 0 };
    channel.write(shadow, 0, &shadow::batch(place, std::iter::empty(), std::iter::empty()))?;
    channel.drain()?;
    channel.sync([shadow])?;
    Ok(if written == 0 { Replayed::Nothing } else { Replayed::Pieces(written) })
}
