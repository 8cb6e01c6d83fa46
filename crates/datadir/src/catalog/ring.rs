//! MariaDB's redo log, readable from any LSN it still holds.

use std::ops::Range;
use std::path::Path;

use format::keyring::KeyStore;
use format::{Lsn, PageId};
use redo::log_key::LogKey;
use redo::mariadb::{self, Format, LogFile};
use redo::mtr_reader::MtrReader;
use redo::record::{Mtr, Subject};

use crate::files::File;
use crate::kept_log::{KeptLog, kept_files};
use crate::reading::read_up_to;
use crate::redo_log::{is_kept_file, log_files};

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
    files: Files,
    pub log: LogFile,
    key: Option<LogKey>,
}

/// The files of the log.
#[derive(Debug)]
enum Files {
    /// One that is written in a circle.
    Ring(File),
    /// Those that the server keeps as an archive.
    Kept(Box<KeptLog>),
}

impl Ring {
    /// Opens the log in the datadir `root`. `None` if it cannot be read.
    pub fn open(root: &Path, keys: &KeyStore) -> Option<Self> {
        let paths = log_files(root);
        if paths.first().is_some_and(|path| is_kept_file(path)) {
            let kept = KeptLog::open(kept_files(root)).ok()?;
            return Some(Self { log: kept.parsed, files: Files::Kept(Box::new(kept)), key: None });
        }
        let file = File::open(paths.first()?).ok()?;
        let header = read_up_to(&file, 0, mariadb::START_OFFSET).ok()?;
        let log = LogFile::parse(&header, file.metadata().ok()?.len()).ok()?;
        let mut ring = Self { files: Files::Ring(file), log, key: None };
        if !matches!(log.format, Format::Blocks { encrypted: false } | Format::Stream { encrypted: None }) {
            let at_checkpoint = ring.read(log.checkpoint.end_lsn, PIECE)?;
            ring.key = Some(LogKey::unlock(&log, &header, keys, &at_checkpoint).ok()??);
        }
        Some(ring)
    }

    /// `len` bytes of the log from [`MtrReader::place`] of `lsn` on, or all that the ring has.
    pub fn read(&self, lsn: Lsn, len: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for (file, range) in self.lap(lsn)? {
            let want = usize::try_from(range.end - range.start).unwrap_or(len).min(len - bytes.len());
            bytes.extend(read_up_to(file, range.start, want).ok()?);
        }
        Some(bytes)
    }

    /// Passes the mini-transactions from `from` on, which must be the start of one, to `take` until it returns `None` or about `bytes` of
    /// log are read. Returns where that ended, and whether it is the end of the log.
    pub fn each_mtr(&self, from: Lsn, bytes: u64, mut take: impl FnMut(&Mtr<'_>) -> Option<()>) -> Option<(Lsn, bool)> {
        let mut reader = MtrReader::new(&self.log, self.key.clone(), from);
        let mut read = 0;
        for (file, range) in self.lap(from)? {
            let (mut at, end) = (range.start, range.end);
            while at < end && !reader.has_ended() && read < bytes {
                let want = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
                let piece = read_up_to(file, at, want).ok().filter(|piece| !piece.is_empty())?;
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

    /// The file ranges of the log from `from` on, in a ring once around.
    fn lap(&self, from: Lsn) -> Option<Vec<(&File, Range<u64>)>> {
        match &self.files {
            Files::Ring(file) => {
                let at = MtrReader::place(&self.log, from).filter(|at| *at < self.log.size)?;
                Some(vec![(file, at..self.log.size), (file, self.log.payload_start()..at)])
            }
            Files::Kept(_) if from < self.log.first_lsn => None,
            Files::Kept(kept) => {
                let ranges = kept.stretches(from).into_iter();
                Some(ranges.filter_map(|(file, range)| Some((kept.handles().get(file)?, range))).collect())
            }
        }
    }
}
