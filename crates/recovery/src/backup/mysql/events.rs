//! Reads from the copied log which tablespaces were changed without redo.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use format::{Lsn, SpaceId};
use redo::block::{LOG_BLOCK_SIZE, block_start};
use redo::mysql::FORMAT_MANY_FILES;
use redo::mysql::mtr_reader::MtrReader;

use super::copied_log::Origin;
use crate::backup::error::{BackupError, Result, failed};
use crate::backup::vendor::Altered;
use crate::door;
use crate::unlogged::UnloggedPages;
use datadir::reading::read_up_to;

/// Bytes per read, at most.
const PIECE: u64 = 1 << 20;
/// Attempts to read the newest block, and the pause between them.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// Reads a copied log as it grows.
#[derive(Debug, Default)]
pub(super) struct Events {
    reader: Option<Reader>,
    /// Tablespaces with indexes built without redo, each at the LSNs where the log shows it. Nothing from before `taken`.
    loaded: BTreeSet<(Lsn, SpaceId)>,
    /// Tablespaces that got pages without redo otherwise.
    given: BTreeSet<(Lsn, SpaceId)>,
    /// Everything that got an index.
    pub altered: Altered,
    /// `take_loaded` has returned everything before this LSN.
    taken: Lsn,
}

/// How far the log has been read.
#[derive(Debug, Clone)]
struct Reader {
    mtrs: MtrReader,
    pages: UnloggedPages,
    /// The next block to read.
    next: Lsn,
    /// How many keys `mtrs` was given.
    keys: usize,
}

impl Events {
    /// Reads the full blocks before `end`.
    pub fn follow(&mut self, path: &Path, origin: &Origin, end: Lsn) -> Result<()> {
        let keys = origin.keys();
        // A new key opens only later blocks, but a reader gets its keys at the start: begin again at the checkpoint with a new reader.
        let known = self.reader.take().filter(|reader| reader.keys == keys.len());
        let mut reader = known.unwrap_or_else(|| Reader {
            mtrs: MtrReader::new(FORMAT_MANY_FILES, origin.checkpoint, keys.to_vec()),
            pages: UnloggedPages::default(),
            next: block_start(origin.checkpoint),
            keys: keys.len(),
        });
        let file = door::open_file(path).map_err(failed(path, "opening the log"))?;
        let full = block_start(end);
        while reader.next < full {
            let len = usize::try_from((full.0 - reader.next.0).min(PIECE)).unwrap_or(LOG_BLOCK_SIZE);
            self.feed(&mut reader, &file, path, origin, len)?;
        }
        self.reader = Some(reader);
        Ok(())
    }

    /// Reads everything before `end`, the end of a mini-transaction.
    pub fn read(&mut self, path: &Path, origin: &Origin, end: Lsn) -> Result<()> {
        self.follow(path, origin, end)?;
        let file = door::open_file(path).map_err(failed(path, "opening the log"))?;
        for _ in 0..TRIES {
            // The block may still grow, so feed it only to a clone of the reader.
            let Some(mut reader) = self.reader.clone() else { break };
            self.feed(&mut reader, &file, path, origin, LOG_BLOCK_SIZE)?;
            if reader.mtrs.at() >= end {
                return Ok(());
            }
            // The follower is writing the block again.
            thread::sleep(PAUSE);
        }
        Err(BackupError::Log(format!("it cannot be read up to LSN {end}")))
    }

    /// The tablespaces with indexes built without redo before `until`, since the last call.
    pub fn take_loaded(&mut self, until: Lsn) -> BTreeSet<SpaceId> {
        self.taken = until;
        before(&mut self.loaded, until)
    }

    /// The same, and the tablespaces in which a build that began before the log may have gone on.
    pub fn take_outdated(&mut self, until: Lsn) -> BTreeSet<SpaceId> {
        let mut spaces = before(&mut self.given, until);
        spaces.extend(self.take_loaded(until));
        spaces
    }

    fn feed(&mut self, reader: &mut Reader, file: &File, path: &Path, origin: &Origin, len: usize) -> Result<()> {
        let bytes = read_up_to(file, origin.offset_of(reader.next), len).map_err(failed(path, "reading the log"))?;
        reader.next = Lsn(reader.next.0 + len as u64);
        let mut input = bytes.as_slice();
        while let Some(mtr) = reader.mtrs.next_mtr(&mut input) {
            let shown = reader.pages.show(&mtr);
            if mtr.start >= self.taken {
                self.loaded.extend(shown.loads.iter().map(|load| (load.lsn, load.space)));
                self.given.extend(shown.given.into_iter().map(|space| (mtr.start, space)));
            }
            self.altered.spaces.extend(shown.indexed);
            self.altered.filled.extend(shown.loads.into_iter().map(|load| load.index));
        }
        match reader.mtrs.fault() {
            Some(fault) => Err(BackupError::Log(format!("it makes no sense at LSN {}: {fault}", reader.mtrs.at()))),
            None => Ok(()),
        }
    }
}

/// Takes what comes before `until`. The log may have been read further, but what comes after the moment of a backup is not part of it.
fn before(found: &mut BTreeSet<(Lsn, SpaceId)>, until: Lsn) -> BTreeSet<SpaceId> {
    let later = found.split_off(&(until, SpaceId(0)));
    std::mem::replace(found, later).into_iter().map(|(_, space)| space).collect()
}
