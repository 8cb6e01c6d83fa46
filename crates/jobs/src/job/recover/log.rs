//! The redo log of a datadir: read from its checkpoint on, and closed when all of it is in the data files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use format::redo::checkpoint::{clean_slot, closing, spare_slot};
use format::redo::mariadb::{Format, LogFile, START_OFFSET};
use format::redo::mtr_reader::MtrReader;
use format::redo::record::Mtr;
use format::redo::verify_mariadb::{self, StreamVerifier, Verifier};
use format::redo::{self, Kind};
use format::{Lsn, SpaceId};

use super::error::{Result, damaged, failed, refused};

/// Bytes asked for at once: a device serves one large request as fast as it can serve anything.
const PIECE: usize = 8 << 20;

/// The log of a server of 10.8 or later, not encrypted.
#[derive(Debug)]
pub(super) struct RedoLog {
    path: PathBuf,
    file: File,
    header: Vec<u8>,
    pub parsed: LogFile,
}

impl RedoLog {
    /// Opens the log of a datadir; `for_writing` if it is to be closed.
    pub fn open(datadir: &Path, for_writing: bool) -> Result<Self> {
        let path = datadir.join("ib_logfile0");
        if datadir.join("#innodb_redo").is_dir() {
            return refused(format!("{} is a datadir of MySQL: only MariaDB's are recovered", datadir.display()));
        }
        let opened = File::options().read(true).write(for_writing).open(&path);
        let file = opened.map_err(failed(&path, "opening the redo log"))?;
        let len = file.metadata().map_err(failed(&path, "reading the redo log"))?.len();
        let header = read(&file, 0, START_OFFSET).map_err(failed(&path, "reading the redo log"))?;
        let parsed = match redo::identify(&header).and_then(|kind| Ok((kind, LogFile::parse(&header, len)?))) {
            Ok((Kind::MariaDb, parsed)) => parsed,
            Ok((Kind::MySql, _)) => return refused(format!("{}: a redo log of MySQL", path.display())),
            Err(error) => return damaged(format!("{}: {error}", path.display())),
        };
        let why = match parsed.format {
            Format::Stream { encrypted: None } => return Ok(Self { path, file, header, parsed }),
            Format::Stream { .. } => "is encrypted, which cannot be recovered yet",
            Format::Blocks { .. } => "is of MariaDB 10.5 to 10.7, which cannot be recovered yet",
        };
        refused(format!("{}: the redo log {why}", path.display()))
    }

    /// Reads on from the checkpoint.
    pub fn scan(&self) -> Scan<'_> {
        let from = self.parsed.offset_of(self.parsed.checkpoint.lsn).unwrap_or(START_OFFSET as u64);
        let start = self.parsed.payload_start();
        Scan {
            log: self,
            reader: MtrReader::new(&self.parsed, None, self.parsed.checkpoint.lsn),
            stretches: [(from, self.parsed.size), (start, from)],
            piece: Vec::new(),
            used: 0,
        }
    }

    /// Fails if the log is damaged, or if there is no room left to close it.
    pub fn check(&self) -> Result<()> {
        let damage = |error: &dyn std::fmt::Display| damaged(format!("{}: {error}", self.path.display()));
        let plan = match verify_mariadb::plan(&self.parsed) {
            Ok(plan) => plan,
            Err(error) => return damage(&error),
        };
        let Verifier::Stream(mut verifier) = plan.verifier else { return refused("the redo log has blocks") };
        for segment in &plan.segments {
            self.verify(segment.offset, segment.offset + segment.len, &mut verifier)?;
        }
        let (last, summary) = verifier.finish();
        if let Some(found) = last.first() {
            return damage(&format!("the redo log is damaged from LSN {} to LSN {}", found.from, found.to));
        }
        if summary.is_damaged() {
            return damage(&"the record that belongs to the newest checkpoint is missing");
        }
        Ok(())
    }

    fn verify(&self, mut offset: u64, end: u64, verifier: &mut StreamVerifier) -> Result<()> {
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(PIECE).min(PIECE);
            let bytes = read(&self.file, offset, len).map_err(failed(&self.path, "reading the redo log"))?;
            let mut piece = bytes.as_slice();
            if let Some(found) = verifier.next_damage(&mut piece) {
                let range = format!("from LSN {} to LSN {}", found.from, found.to);
                return damaged(format!("{}: the redo log is damaged {range}", self.path.display()));
            }
            if bytes.is_empty() {
                break;
            }
            offset += bytes.len() as u64;
        }
        Ok(())
    }

    /// What closes a log that ends at `end`, after which these tablespaces are named. Fails if there is no room for it but where the
    /// log is needed until then.
    pub fn closing(&self, end: Lsn, named: &[(SpaceId, Vec<u8>)]) -> Result<Vec<u8>> {
        let named = named.iter().map(|(space, name)| (*space, name.as_slice()));
        let Some(bytes) = closing(&self.parsed, end, named) else { return refused("the redo log cannot be closed") };
        let capacity = self.parsed.size - self.parsed.payload_start();
        if end.0 - self.parsed.checkpoint.lsn.0 + bytes.len() as u64 > capacity {
            return refused("the redo log is full, and has no room for the record that closes it");
        }
        Ok(bytes)
    }

    /// Says that everything up to `end` is in the data files: the server starts there, without recovery.
    pub fn close(&self, end: Lsn, closing: &[u8]) -> Result<()> {
        let Some((slot, slot_at)) = clean_slot(end).zip(spare_slot(&self.header, &self.parsed)) else {
            return refused("the redo log has no place for a checkpoint");
        };
        self.write_closing(closing, end).map_err(failed(&self.path, "closing the redo log"))?;
        let write = self.file.write_all_at(&slot, slot_at as u64).and_then(|()| self.file.sync_all());
        write.map_err(failed(&self.path, "writing the checkpoint"))
    }

    fn write_closing(&self, bytes: &[u8], end: Lsn) -> io::Result<()> {
        let offset = self.parsed.offset_of(end).ok_or(io::ErrorKind::InvalidInput)?;
        let to_file_end = usize::try_from(self.parsed.size - offset).unwrap_or(usize::MAX).min(bytes.len());
        let (before, after) = bytes.split_at(to_file_end);
        self.file.write_all_at(before, offset)?;
        self.file.write_all_at(after, self.parsed.payload_start())?;
        self.file.sync_all()
    }
}

/// A log while it is read.
pub(super) struct Scan<'l> {
    log: &'l RedoLog,
    reader: MtrReader,
    /// What is left to read, as file offsets.
    stretches: [(u64, u64); 2],
    piece: Vec<u8>,
    used: usize,
}

impl Scan<'_> {
    /// Hands mini-transactions to `take` until that returns `false`; whether the log goes on.
    pub fn run(&mut self, take: &mut dyn FnMut(&Mtr<'_>) -> Result<bool>) -> Result<bool> {
        loop {
            let mut input = self.piece.get(self.used..).unwrap_or_default();
            while let Some(mtr) = self.reader.next_mtr(&mut input) {
                let goes_on = take(&mtr)?;
                self.used = self.piece.len() - input.len();
                if !goes_on {
                    return Ok(true);
                }
            }
            if self.reader.has_ended() || !self.refill()? {
                return Ok(false);
            }
        }
    }

    fn refill(&mut self) -> Result<bool> {
        let Some((at, end)) = self.stretches.iter_mut().find_map(|(at, end)| (*at < *end).then_some((at, end))) else {
            return Ok(false);
        };
        let len = usize::try_from(*end - *at).unwrap_or(PIECE).min(PIECE);
        self.piece = read(&self.log.file, *at, len).map_err(failed(&self.log.path, "reading the redo log"))?;
        self.used = 0;
        *at += self.piece.len() as u64;
        Ok(!self.piece.is_empty())
    }

    /// Where the log ends, once it has.
    pub fn at(&self) -> Lsn {
        self.reader.at()
    }
}

/// Up to `len` bytes at `offset`; fewer where the file ends.
pub(super) fn read(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
