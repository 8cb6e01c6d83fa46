//! The journal: what happened to names, lengths and blocks, in order.
//!
//! One file for all of it, so one sync makes everything before it durable, as servers know it from journaling file systems: whoever syncs a
//! file has its creation and its name durable as well. It is begun again, with the state as it is, whenever the upper is opened.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile};
use super::record::{Head, Record};

/// Its name.
pub const JOURNAL: &str = "journal";
/// Its name until it is whole.
const NEW_JOURNAL: &str = "journal.new";
/// Records are written in pieces of so many bytes when a journal is begun.
const PIECE: usize = 1 << 20;

/// The journal of an upper.
#[derive(Debug)]
pub struct Journal {
    writer: Mutex<Writer>,
    /// Up to where it is durable. Locked during a sync: who comes meanwhile needs none of its own, if it covered what he wrote.
    synced: Mutex<u64>,
}

#[derive(Debug)]
struct Writer {
    file: Arc<dyn DiskFile>,
    end: u64,
    /// The end of the last record that somebody may wait for.
    needed: u64,
    /// A sync has failed: nobody knows what is durable, and a second sync would not tell.
    has_failed: bool,
}

impl Journal {
    /// Begins a journal with this state. The one before stays until the new one is durable.
    pub fn begin(disk: &dyn Disk, head: Head, state: impl Iterator<Item = Record>) -> io::Result<Self> {
        let file = disk.create(NEW_JOURNAL)?;
        let (mut piece, mut end) = (Record::Head(head).framed(), 0);
        for record in state {
            piece.extend_from_slice(&record.framed());
            if piece.len() >= PIECE {
                file.write_at(&piece, end)?;
                end += piece.len() as u64;
                piece.clear();
            }
        }
        file.write_at(&piece, end)?;
        end += piece.len() as u64;
        file.sync()?;
        disk.rename(NEW_JOURNAL, JOURNAL)?;
        disk.sync_names()?;
        let writer = Writer { file, end, needed: end, has_failed: false };
        Ok(Self { writer: Mutex::new(writer), synced: Mutex::new(end) })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record. Durable after the next sync.
    pub fn append(&self, record: &Record) -> io::Result<()> {
        let bytes = record.framed();
        let mut writer = self.writer();
        writer.usable()?;
        writer.file.write_at(&bytes, writer.end)?;
        writer.end += bytes.len() as u64;
        // What only holds until the machine stops is nothing to wait for.
        if !matches!(record, Record::Blocks { is_durable: false, .. }) {
            writer.needed = writer.end;
        }
        Ok(())
    }

    /// Makes all records durable that somebody may wait for.
    pub fn sync(&self) -> io::Result<()> {
        let needed = self.writer().needed;
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= needed {
            return self.writer().usable();
        }
        let (file, end) = {
            let writer = self.writer();
            writer.usable()?;
            (Arc::clone(&writer.file), writer.end)
        };
        if let Err(error) = file.sync() {
            self.writer().has_failed = true;
            return Err(error);
        }
        *synced = end;
        Ok(())
    }

    /// Where it ends, and up to where it is durable.
    pub fn ends(&self) -> (u64, u64) {
        let synced = *self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        (self.writer().end, synced)
    }
}

impl Writer {
    fn usable(&self) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other(
                "an earlier sync of the upper's journal failed: nothing more is written to it",
            ));
        }
        Ok(())
    }
}

/// The records of the journal that is there, up to the first that is not whole: after a power cut, what comes then was not synced.
pub fn records(disk: &dyn Disk) -> io::Result<Vec<Record>> {
    let file = disk.open(JOURNAL)?;
    let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0)?;
    let (mut rest, mut records) = (bytes.get(..read).unwrap_or_default(), Vec::new());
    while let Some((record, len)) = Record::read(rest) {
        records.push(record);
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(records)
}
