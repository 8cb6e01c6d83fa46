//! MariaDB's redo log, readable from any LSN it still holds.

use std::path::Path;

use format::keyring::KeyStore;
use format::{Lsn, PageId};
use redo::log_key::LogKey;
use redo::mariadb::{self, Format, LogFile};
use redo::mtr_reader::MtrReader;
use redo::record::{Mtr, Subject};

use crate::files::File;
use crate::reading::read_up_to;
use crate::redo_log::log_files;

/// Whether MariaDB's log in the datadir `root` changes the page after its newest checkpoint: the disk may then have an older version.
pub fn changes_page(root: &Path, keys: &KeyStore, page: PageId) -> bool {
    let mut is_changed = false;
    let Some(ring) = Ring::open(root, keys) else { return false };
    // Stopping early means the page was found.
    let _ended = ring.each_mtr(ring.log.checkpoint.lsn, u64::MAX, |mtr| {
        is_changed =
            mtr.grammar.subjects(mtr.bytes).any(|(subject, _)| matches!(subject, Subject::Page(id, _) if id == page));
        (!is_changed).then_some(())
    });
    is_changed
}

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// The log of a datadir.
#[derive(Debug)]
pub(super) struct Ring {
    file: File,
    pub log: LogFile,
    key: Option<LogKey>,
}

impl Ring {
    /// Opens the log in the datadir `root`. `None` if it cannot be read.
    pub fn open(root: &Path, keys: &KeyStore) -> Option<Self> {
        let file = File::open(log_files(root).first()?).ok()?;
        let header = read_up_to(&file, 0, mariadb::START_OFFSET).ok()?;
        let log = LogFile::parse(&header, file.metadata().ok()?.len()).ok()?;
        let mut ring = Self { file, log, key: None };
        if !matches!(log.format, Format::Blocks { encrypted: false } | Format::Stream { encrypted: None }) {
            let at_checkpoint = ring.read(log.checkpoint.end_lsn, PIECE)?;
            ring.key = Some(LogKey::unlock(&log, &header, keys, &at_checkpoint).ok()??);
        }
        Some(ring)
    }

    /// `len` bytes of the log from [`MtrReader::place`] of `lsn` on, or all that the ring has.
    pub fn read(&self, lsn: Lsn, len: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for (at, end) in self.lap(lsn)? {
            let want = usize::try_from(end - at).unwrap_or(len).min(len - bytes.len());
            bytes.extend(read_up_to(&self.file, at, want).ok()?);
        }
        Some(bytes)
    }

    /// Passes the mini-transactions from `from` on, which must be the start of one, to `take` until it returns `None` or about `bytes` of
    /// log are read. Returns where that ended, and whether it is the end of the log.
    pub fn each_mtr(&self, from: Lsn, bytes: u64, mut take: impl FnMut(&Mtr<'_>) -> Option<()>) -> Option<(Lsn, bool)> {
        let mut reader = MtrReader::new(&self.log, self.key.clone(), from);
        let mut read = 0;
        for (mut at, end) in self.lap(from)? {
            while at < end && !reader.has_ended() && read < bytes {
                let want = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
                let piece = read_up_to(&self.file, at, want).ok().filter(|piece| !piece.is_empty())?;
                at += piece.len() as u64;
                read += piece.len() as u64;
                let mut rest = piece.as_slice();
                while let Some(mtr) = reader.next_mtr(&mut rest) {
                    take(&mtr)?;
                }
            }
        }
        Some((reader.at(), reader.has_ended() || read < bytes))
    }

    /// The file ranges of the log, once around from `from` on.
    fn lap(&self, from: Lsn) -> Option<[(u64, u64); 2]> {
        let at = MtrReader::place(&self.log, from).filter(|at| *at < self.log.size)?;
        Some([(at, self.log.size), (self.log.payload_start(), at)])
    }
}
