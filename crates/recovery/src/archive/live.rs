//! The log of a running MariaDB server: one file, written in a circle and replaced when it is resized.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use format::Lsn;
use redo::mariadb::{Checkpoint, Format, LogFile, START_OFFSET, key_information};
use redo::{LogVendor, RedoError};

use super::error::{Result, failed, refused};
use crate::door;
use datadir::known_servers::Maker;
use datadir::log_name::{LOG, is_kept_as_archive};
use datadir::reading::read_up_to;

/// An open log file. It stays readable when the server replaces it.
#[derive(Debug)]
pub(super) struct LiveLog {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
    pub header: Vec<u8>,
    pub parsed: LogFile,
}

impl LiveLog {
    /// Opens the log of a datadir.
    pub fn open(datadir: &Path) -> Result<Self> {
        let path = datadir.join(LOG);
        if is_kept_as_archive(datadir) {
            return refused(format!(
                "{}: the server keeps its redo log itself (innodb_log_archive=ON): its files, ib_*.log, are the archive; copy those that it has \
                 made read-only",
                datadir.display()
            ));
        }
        let file = door::open_file(&path).map_err(failed(&path, "opening the redo log"))?;
        let metadata = file.metadata().map_err(failed(&path, "looking at the redo log"))?;
        let header = read_up_to(&file, 0, START_OFFSET).map_err(failed(&path, "reading the redo log"))?;
        let name = path.display();
        let parsed = match redo::identify(&header).and_then(|kind| Ok((kind, LogFile::parse(&header, metadata.len())?)))
        {
            Ok((LogVendor::MariaDb, parsed)) => parsed,
            Ok((LogVendor::MySql, _)) => {
                return refused(format!("{name}: a redo log of MySQL before 8.0.30, which innokit does not archive"));
            }
            Err(RedoError::TooShort { .. }) => {
                return refused(format!(
                    "{name}: there is no log in this file: start the server, then archive its log"
                ));
            }
            Err(error) => return refused(format!("{name}: {error}")),
        };
        if let Some(why) = Maker::of_log(&header).and_then(|maker| maker.newer_than_tested()) {
            return refused(format!("{name}: {why}, and archives no newer ones"));
        }
        if matches!(parsed.format, Format::Blocks { .. }) {
            return refused(format!(
                "{name}: the redo log of MariaDB 10.5 to 10.7, which innokit recovers but does not archive: upgrade the server to 10.8 or \
                 later"
            ));
        }
        Ok(Self { path, file, identity: (metadata.dev(), metadata.ino()), header, parsed })
    }

    /// Reads the newest checkpoint again. Keeps the previous one if the header does not parse, as when the server is writing both slots.
    pub fn refresh(&mut self) -> Result<Checkpoint> {
        let header = read_up_to(&self.file, 0, START_OFFSET).map_err(failed(&self.path, "reading the redo log"))?;
        if let Ok(parsed) = LogFile::parse(&header, self.parsed.size)
            && (parsed.first_lsn, parsed.format) == (self.parsed.first_lsn, self.parsed.format)
        {
            self.parsed = parsed;
        }
        Ok(self.parsed.checkpoint)
    }

    /// Whether another file has the log's name now.
    pub fn is_replaced(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) != self.identity)
    }

    /// Reads up to `len` bytes from `lsn` on, wrapping around at the end of the file.
    pub fn read(&self, lsn: Lsn, len: usize) -> Result<Vec<u8>> {
        let read = || -> io::Result<Vec<u8>> {
            let offset = self.parsed.offset_of(lsn).ok_or(io::ErrorKind::InvalidInput)?;
            let len = len.min(usize::try_from(self.parsed.capacity()).unwrap_or(usize::MAX));
            let before = usize::try_from(self.parsed.size - offset).unwrap_or(usize::MAX).min(len);
            let mut bytes = read_up_to(&self.file, offset, before)?;
            if bytes.len() == before {
                bytes.extend(read_up_to(&self.file, self.parsed.payload_start(), len - before)?);
            }
            Ok(bytes)
        };
        read().map_err(failed(&self.path, "reading the redo log"))
    }

    /// The key description in the header.
    pub fn key(&self) -> &[u8] {
        key_information(&self.header)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
