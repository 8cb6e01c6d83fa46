//! The redo log of MariaDB: one file, closed in place.

mod blocks;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flow::FileId;
use format::codec::CipherMode;
use format::keyring::KeyStore;
use format::{Lsn, SpaceId};
use redo::checkpoint::{clean_slot, closing, restarted, spare_slot};
use redo::log_key::{LogKey, LogKeyError};
use redo::mariadb::{Format, LogFile, START_OFFSET};
use redo::mtr_reader::MtrReader;
use redo::verify_mariadb::{self, StreamDamage, StreamVerifier, Verifier};
use redo::{LogVendor, RedoError};

use super::archived::Archived;
use super::kept::KeptFiles;
use crate::door;
use crate::recover::error::{RecoverError, Result, damaged, failed, locked_out, refused};
use datadir::log_name::{LOG, is_kept};
use datadir::reading::read_up_to;
use datadir::redo_log::{is_kept_file, log_files};

/// Bytes of the log's end per read.
const PIECE: usize = 2 << 20;
/// Bytes read from the checkpoint's record on, to prove a key.
const AT_CHECKPOINT: usize = 1 << 20;

/// The log of a MariaDB server 10.5 or later.
#[derive(Debug)]
pub(in super::super) struct MariaDbLog {
    pub path: PathBuf,
    file: File,
    pub header: Vec<u8>,
    pub parsed: LogFile,
    /// The decryption key, if the log is encrypted.
    pub key: Option<LogKey>,
    /// The archive that is read instead.
    pub archived: Option<Archived>,
    /// Its files, if the server keeps it as an archive. Then `path` is that with the newest checkpoint.
    pub kept: Option<KeptFiles>,
}

impl MariaDbLog {
    /// Opens a datadir's log; `for_writing` if it will be closed.
    pub fn open(datadir: &Path, for_writing: bool, keys: &KeyStore) -> Result<Self> {
        let first = log_files(datadir).into_iter().next();
        if first.as_ref().is_some_and(|first| is_kept_file(first)) {
            return Self::open_kept(datadir);
        }
        // A ring may have the name of an archive.
        let kept = first.filter(|first| first.file_name().is_some_and(|name| is_kept(Path::new(name))));
        let path = kept.unwrap_or_else(|| datadir.join(LOG));
        // A link is followed only for reading: written in place, it could be any file.
        let name = path.file_name().unwrap_or(LOG.as_ref());
        let opened = if for_writing { door::change(datadir, name) } else { door::open_file(&path) };
        let file = opened.map_err(failed(&path, "opening the redo log"))?;
        let len = file.metadata().map_err(failed(&path, "reading the redo log"))?.len();
        let header = read_up_to(&file, 0, START_OFFSET).map_err(failed(&path, "reading the redo log"))?;
        let parsed = match redo::identify(&header).and_then(|kind| Ok((kind, LogFile::parse(&header, len)?))) {
            Ok((LogVendor::MariaDb, parsed)) => parsed,
            Ok((LogVendor::MySql, _)) => return Err(RecoverError::Internal("the log is not one of MariaDB")),
            Err(RedoError::UnknownFormat { format }) => {
                let known = match redo::writers_of(format) {
                    Some(writers) => format!("{writers} write it: start that server once and stop it"),
                    None => "no server that innokit knows writes it".to_owned(),
                };
                return refused(format!(
                    "{}: a redo log of format {format}, which innokit does not recover; {known}",
                    path.display()
                ));
            }
            Err(error) => return damaged(format!("{}: {error}", path.display())),
        };
        Self { path, file, header, parsed, key: None, archived: None, kept: None }.unlock(keys)
    }

    fn open_kept(datadir: &Path) -> Result<Self> {
        let kept = KeptFiles::open(datadir)?;
        let (path, parsed) = (kept.path(), kept.log().parsed);
        let file = door::open_file(&path).map_err(failed(&path, "opening the redo log"))?;
        let header = read_up_to(&file, 0, START_OFFSET).map_err(failed(&path, "reading the redo log"))?;
        Ok(Self { path, file, header, parsed, key: None, archived: None, kept: Some(kept) })
    }

    /// Finds the key of an encrypted log and proves that it is right.
    fn unlock(mut self, keys: &KeyStore) -> Result<Self> {
        if matches!(self.parsed.format, Format::Blocks { encrypted: false } | Format::Stream { encrypted: None }) {
            return Ok(self);
        }
        let start = self.parsed.payload_start();
        let at = MtrReader::place(&self.parsed, self.parsed.checkpoint.end_lsn).unwrap_or(start);
        let read =
            |offset, len| read_up_to(&self.file, offset, len).map_err(failed(&self.path, "reading the redo log"));
        let mut at_checkpoint = read(at, AT_CHECKPOINT)?;
        let missing = AT_CHECKPOINT.saturating_sub(at_checkpoint.len());
        at_checkpoint.extend(read(start, missing.min(usize::try_from(at.saturating_sub(start)).unwrap_or(0)))?);
        let name = self.path.display();
        match LogKey::unlock(&self.parsed, &self.header, keys, &at_checkpoint) {
            Ok(key) => {
                let from = self.parsed.checkpoint.lsn;
                let place = MtrReader::place(&self.parsed, from).unwrap_or(start);
                let bytes = read(place, AT_CHECKPOINT)?;
                self.key = key.map(|key| key.settle(&self.parsed, from, &bytes));
            }
            Err(error) => {
                // Checksums need no key, so they tell damage from a wrong key.
                self.check()?;
                let hint = if matches!(error, LogKeyError::NoKey { .. }) {
                    ": name the server's key file (--key-file)"
                } else {
                    ""
                };
                return locked_out(format!("{name}: {error}{hint}"));
            }
        }
        Ok(self)
    }

    /// The log's ranges in its file, starting at its checkpoint.
    pub fn lap(&self) -> Vec<Range<u64>> {
        let from = MtrReader::place(&self.parsed, self.parsed.checkpoint.lsn).unwrap_or(START_OFFSET as u64);
        let lap = [from..self.parsed.size, self.parsed.payload_start()..from];
        lap.into_iter().filter(|stretch| !stretch.is_empty()).collect()
    }

    /// The ranges of a log that is kept as an archive, starting at its checkpoint.
    pub fn kept_stretches(&self) -> Vec<(FileId, Range<u64>)> {
        let stretches = self.kept.as_ref().map(|kept| kept.log().stretches(self.parsed.checkpoint.lsn));
        let file = |place: usize| FileId(u32::try_from(place).unwrap_or(u32::MAX));
        stretches.unwrap_or_default().into_iter().map(|(place, range)| (file(place), range)).collect()
    }

    /// The server's cipher mode, if the log is encrypted and shows it.
    pub fn cipher_mode(&self) -> Option<CipherMode> {
        self.key.as_ref().and_then(LogKey::mode)
    }

    /// Reads the whole log and fails if it is damaged.
    pub fn check(&self) -> Result<()> {
        let damage = |error: &dyn std::fmt::Display| damaged(format!("{}: {error}", self.path.display()));
        let plan = match verify_mariadb::plan(&self.parsed) {
            Ok(plan) => plan,
            Err(error) => return damage(&error),
        };
        let mut verifier = match plan.verifier {
            Verifier::Stream(verifier) => verifier,
            Verifier::Blocks(verifier) => {
                return self.check_blocks(&plan.segments, verifier.with_log_key(self.key.clone()));
            }
        };
        for segment in &plan.segments {
            self.verify(segment.offset, segment.offset + segment.len, &mut verifier)?;
        }
        let (last, summary) = verifier.finish();
        match last.first() {
            Some(found) => self.damaged_between(found),
            None if summary.is_damaged() => damage(&"the record that belongs to the newest checkpoint is missing"),
            None => Ok(()),
        }
    }

    /// Fails if the log continues after `end`, where its mini-transactions ended: then it is damaged at `end`.
    pub fn check_end(&self, end: Lsn) -> Result<()> {
        if let Some(archived) = &self.archived {
            return archived.check_end(end);
        }
        if let Some(kept) = &self.kept {
            return kept.check_end(end);
        }
        let (start, first) = (self.parsed.payload_start(), self.parsed.offset_of(self.parsed.checkpoint.lsn));
        let (Some(from), Some(first)) = (self.parsed.offset_of(end), first) else { return Ok(()) };
        let mut verifier = StreamVerifier::at(&self.parsed, end);
        // A full ring ends where it begins.
        let is_around = from < first || (from == first && end > self.parsed.checkpoint.lsn);
        let stretches = if is_around { [from..first, 0..0] } else { [from..self.parsed.size, start..first] };
        for stretch in stretches {
            self.verify(stretch.start, stretch.end, &mut verifier)?;
        }
        let (last, _) = verifier.finish();
        match last.first() {
            Some(found) => self.damaged_between(found),
            None => Ok(()),
        }
    }

    fn damaged_between(&self, found: &StreamDamage) -> Result<()> {
        let range = format!("from LSN {} to LSN {}", found.from, found.to);
        damaged(format!("{}: the redo log is damaged {range}", self.path.display()))
    }

    fn verify(&self, mut offset: u64, end: u64, verifier: &mut StreamVerifier) -> Result<()> {
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(PIECE).min(PIECE);
            let bytes = read_up_to(&self.file, offset, len).map_err(failed(&self.path, "reading the redo log"))?;
            let mut piece = bytes.as_slice();
            if let Some(found) = verifier.next_damage(&mut piece) {
                return self.damaged_between(&found);
            }
            if bytes.is_empty() || verifier.is_done() {
                break;
            }
            offset += bytes.len() as u64;
        }
        Ok(())
    }

    /// The bytes that close a log ending at `end`, followed by the names of these tablespaces. Fails if they would overwrite log that is
    /// still needed.
    pub fn closing(&self, end: Lsn, named: &[(SpaceId, Vec<u8>)]) -> Result<Vec<u8>> {
        if self.is_of_blocks() {
            return self.closing_block(end);
        }
        let named = named.iter().map(|(space, name)| (*space, name.as_slice()));
        let Some(bytes) = closing(&self.parsed, self.key.as_ref(), end, named) else {
            return refused("the redo log cannot be closed");
        };
        let capacity = self.parsed.size - self.parsed.payload_start();
        let is_in_ring = end.0 - self.parsed.checkpoint.lsn.0 + bytes.len() as u64 <= capacity;
        if !self.kept.as_ref().map_or(is_in_ring, |kept| kept.has_room(end, bytes.len())) {
            return refused("the redo log is full, and has no room for the record that closes it");
        }
        Ok(bytes)
    }

    /// The size of the datadir's log file.
    pub fn own_size(&self) -> u64 {
        let own = self.kept.as_ref().map_or(self.parsed.size, KeptFiles::own_size);
        self.archived.as_ref().filter(|_| self.kept.is_none()).map_or(own, |archived| archived.own_size)
    }

    /// Up to `len` bytes of the datadir's log from `lsn` on, wrapping at the end of the file.
    pub fn read(&self, lsn: Lsn, len: usize) -> Result<Vec<u8>> {
        if let Some(kept) = &self.kept {
            return kept.read(lsn, len);
        }
        let Some(offset) = self.parsed.offset_of(lsn) else { return Ok(Vec::new()) };
        let read =
            |offset, len| read_up_to(&self.file, offset, len).map_err(failed(&self.path, "reading the redo log"));
        let len = len.min(usize::try_from(self.parsed.capacity()).unwrap_or(usize::MAX));
        let before = usize::try_from(self.parsed.size - offset).unwrap_or(usize::MAX).min(len);
        let mut bytes = read(offset, before)?;
        bytes.extend(read(self.parsed.payload_start(), len - before)?);
        Ok(bytes)
    }

    /// The first bytes of the log that replaces this one. It begins and ends at `end` and has the names of these tablespaces.
    pub fn restarted(&self, end: Lsn, named: &[(SpaceId, Vec<u8>)], keys: &KeyStore) -> Result<Vec<u8>> {
        let renewed = self.key.as_ref().map(|key| key.renewed(keys, end)).transpose();
        let renewed = renewed.or_else(|error| locked_out(format!("{}: {error}", self.path.display())))?;
        let bytes = if self.is_of_blocks() {
            self.restarted_block(end, renewed.as_ref())?
        } else if self.kept.is_some() {
            KeptFiles::restarted(end, named, self.parsed.format)
        } else {
            let header = restarted(&self.header, end, renewed.as_ref());
            let parsed = header.as_ref().and_then(|header| LogFile::parse(header, self.own_size()).ok());
            let named = named.iter().map(|(space, name)| (*space, name.as_slice()));
            let closing = parsed.and_then(|parsed| closing(&parsed, renewed.as_ref(), end, named));
            header.zip(closing).map(|(header, closing)| [header, closing].concat())
        };
        let fitting = bytes.filter(|bytes| bytes.len() as u64 <= self.own_size());
        fitting.map_or_else(|| refused("a redo log that ends there cannot be created"), Ok)
    }

    /// The complete log of a backup prepared up to `end`: as mariadb-backup leaves it, for servers to create their own from.
    pub fn of_prepared(&self, end: Lsn, keys: &KeyStore) -> Result<Vec<u8>> {
        if self.is_of_blocks() {
            return Ok(Vec::new());
        }
        let mut log = self.restarted(end, &[], keys)?;
        // After the checkpoint record nothing is left that could be mistaken for another.
        log.pop();
        Ok(log)
    }

    /// The writes, in order, that record that everything up to `end` is in the data files: the server starts there, without recovery. Each is
    /// an offset in the file and the bytes there.
    pub fn closing_writes(&self, end: Lsn, closing: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
        if self.is_of_blocks() {
            return self.writes_of_blocks(end, closing);
        }
        let Some((slot, slot_at)) = clean_slot(end).zip(spare_slot(&self.header, &self.parsed)) else {
            return refused("the redo log has no place for a checkpoint");
        };
        let Some(offset) = self.parsed.offset_of(end) else { return refused("the redo log has no place for its end") };
        let to_file_end = usize::try_from(self.parsed.size - offset).unwrap_or(usize::MAX).min(closing.len());
        let (before, after) = closing.split_at(to_file_end);
        let records = [(offset, before.to_vec()), (self.parsed.payload_start(), after.to_vec())];
        let records = records.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        Ok(records.chain([(slot_at as u64, slot.to_vec())]).collect())
    }

    /// Closes the log. Each write is durable before the next.
    pub fn close(&self, end: Lsn, closing: &[u8]) -> Result<()> {
        if let Some(kept) = &self.kept {
            return kept.close(self.path.parent().unwrap_or(Path::new("")), end, closing);
        }
        self.closing_writes(end, closing)?.iter().try_for_each(|(offset, bytes)| {
            let written = self.file.write_all_at(bytes, *offset).and_then(|()| self.file.sync_all());
            written.map_err(failed(&self.path, "closing the redo log"))
        })
    }
}
