//! Redo logs: `headers -> plan -> segments in the order of the log -> verifier -> damage with its LSN`
//!
//! The files of a log are read as one, in the order in which the log runs through them; in a ring that is not the order of the files. A
//! finding names the file it falls in.

use std::io;
use std::path::{Path, PathBuf};

use flow::{StreamReader, WorkerCounters};
use format::Lsn;
use format::codec::{EncryptionInfo, TablespaceKey, UnlockError};
use format::keyring::KeyStore;
use redo::verify_blocks::{BlockDamage, BlockEnd, BlockSummary, BlockVerifier};
use redo::verify_mariadb::{self, StreamDamage, StreamEnd, StreamSummary, StreamVerifier, Verifier};
use redo::verify_mysql::{self, Breach};
use redo::{LogVendor, RedoError, mariadb, mysql};

use super::examined::{Examined, Log, LogEnd, StreamOutcome};
use super::file_state::FileState;
use super::findings::Findings;
use super::kept_redo;
use super::stretches::{LogRange, Stretches};
use super::words::about;
use crate::report::document::{Counts, Finding, Unit};
use datadir::backup_notes::emptied_at;
use datadir::file_kind::FileKind;
use datadir::files::File;
use datadir::finding_code::FindingCode;
use datadir::inventory::{Candidate, Passed, plain};
use datadir::keys::NO_KEY;
use datadir::known_servers::Maker;
use datadir::reading::read_up_to;
use datadir::redo_log::{is_kept_file, log_files};
use datadir::severity::Severity;

/// Bytes per read.
const PIECE: u32 = 1 << 20;

/// The files of one log.
pub(super) struct RedoCheck<'c> {
    pub files: Vec<&'c Candidate>,
    pub counters: &'c WorkerCounters,
    pub findings_max: usize,
    pub keys: &'c KeyStore,
}

/// A file of the log.
struct OpenFile {
    handle: File,
    /// Its first bytes, as far as the headers of either vendor go.
    header: Vec<u8>,
    /// Its length in bytes.
    len: u64,
}

/// A log being read.
pub(super) struct Work {
    paths: Vec<PathBuf>,
    findings: Findings,
    pub stretches: Vec<LogRange>,
    /// LSN of the first byte of the first stretch.
    pub first_lsn: Lsn,
    /// Where the log ends, unless damage hides it.
    pub sound_end: Option<Lsn>,
}

impl RedoCheck<'_> {
    /// Verifies the log. Returns one row per file, in order; findings name files by their index here. The first file's row has the counts
    /// of the whole log.
    pub fn run(self) -> (Vec<Examined>, Findings) {
        let paths: Vec<PathBuf> = self.files.iter().map(|file| file.path.clone()).collect();
        let mut work = Work {
            paths,
            findings: Findings::new(self.findings_max),
            stretches: Vec::new(),
            first_lsn: Lsn(0),
            sound_end: None,
        };
        let done = self.verify(&mut work);
        let (family, unit, counts, failure) = match done {
            Ok((family, unit, counts)) => (Some(family), unit, counts, None),
            Err((file, error)) => {
                let words = format!("cannot be read: {}", plain(&error));
                let path = work.paths.get(file).cloned().unwrap_or_default();
                work.found(file, 0, about(&path, FindingCode::UNREADABLE_FILE, Severity::Undecided, words.clone()));
                (None, Unit::LogBlocks, Counts::default(), Some((file, words)))
            }
        };
        let is_whole = failure.is_none() && work.findings.damage + work.findings.undecided == 0;
        let end = work.sound_end.map(|lsn| LogEnd { lsn, is_whole });
        let row = |(place, file): (usize, &&Candidate)| {
            let state = FileState::new((*file).clone(), None);
            state.with_tally(|tally| {
                tally.counts = if place == 0 { counts } else { Counts::default() };
                tally.counts.bytes = file.len;
                tally.failure = failure.clone().filter(|(file, _)| *file == place).map(|(_, words)| words);
            });
            let algorithm = (counts.ok > 0).then_some("crc32c");
            let log = Log { kind: FileKind::RedoLog, unit, family, algorithm, end };
            Examined { log: Some(log), is_cut: true, ..Examined::pages(state) }
        };
        (self.files.iter().enumerate().map(row).collect(), work.findings)
    }

    fn verify(&self, work: &mut Work) -> Result<(&'static str, Unit, Counts), (usize, io::Error)> {
        if let Some(first) = self.files.first().filter(|file| is_kept_file(&file.path)) {
            let counts = kept_redo::verify(work, &self.files, self.counters)?;
            // Files that are left from before the server kept its log as a ring again say nothing of where it ends.
            let log = log_files(first.path.parent().unwrap_or(Path::new("")));
            if log.first().is_some_and(|log| !is_kept_file(log)) {
                work.sound_end = None;
            }
            return Ok(("MariaDB", Unit::MiniTransactions, counts));
        }
        let mut open = Vec::new();
        for (place, file) in self.files.iter().enumerate() {
            let handle = File::open(&file.path).map_err(|error| (place, error))?;
            let header = read_up_to(&handle, 0, mariadb::START_OFFSET).map_err(|error| (place, error))?;
            open.push(OpenFile { handle, header, len: file.len });
        }
        let handles: Vec<&File> = open.iter().map(|file| &file.handle).collect();
        if let (Some(file), Some(path)) = (open.first(), work.paths.first())
            && let Some(why) = Maker::of_log(&file.header).and_then(|maker| maker.newer())
        {
            let finding = about(path, "newer_server", Severity::Undecided, why);
            work.found(0, 0, finding);
        }
        let kind = open.first().map_or(Ok(LogVendor::MySql), |file| redo::identify(&file.header));
        match kind {
            Ok(LogVendor::MySql) => {
                let (unit, counts) = self.mysql(work, &handles, &open)?;
                Ok(("MySQL", unit, counts))
            }
            Ok(LogVendor::MariaDb) => {
                let (unit, counts) = self.mariadb(work, &handles, &open)?;
                Ok(("MariaDB", unit, counts))
            }
            Err(_) if self.is_emptied() => Ok(("MariaDB", Unit::LogBlocks, Counts::default())),
            Err(error) => {
                work.header(0, &error);
                Ok(("MySQL", Unit::LogBlocks, Counts::default()))
            }
        }
    }

    /// Whether this is the log of a prepared backup of a server before 10.8: the tool empties it, and the server creates another.
    fn is_emptied(&self) -> bool {
        let dir = self.files.first().and_then(|file| file.path.parent());
        dir.is_some_and(|dir| matches!(emptied_at(dir), Ok(Some(_))))
    }

    fn mysql(
        &self,
        work: &mut Work,
        handles: &[&File],
        open: &[OpenFile],
    ) -> Result<(Unit, Counts), (usize, io::Error)> {
        let (mut logs, mut places, mut unreached) = (Vec::new(), Vec::new(), 0);
        for (place, OpenFile { header, len, .. }) in open.iter().enumerate() {
            match mysql::LogFile::parse(header, *len) {
                Ok(log) => {
                    if !log.is_copy() && !len.is_multiple_of(LEAST_PAGE) {
                        work.odd_size(place, *len);
                    }
                    logs.push(log);
                    places.push(place);
                }
                // Servers up to 8.0.29 create all files at once and write a file's header only when the log reaches it.
                Err(_) if place > 0 && !logs.is_empty() && header.iter().all(|byte| *byte == 0) => unreached += 1,
                Err(error) => work.header(place, &error),
            }
        }
        let nothing = Ok((Unit::LogBlocks, Counts::default()));
        if logs.is_empty() {
            return nothing;
        }
        let place = |file: usize| places.get(file).copied().unwrap_or(0);
        let plan = match verify_mysql::plan(&logs) {
            Ok(plan) => plan,
            Err(error) => {
                work.header(place(0), &error);
                return nothing;
            }
        };
        for breach in &plan.breaches {
            work.breach(place(breached_file(breach, logs.len())), breach);
        }
        work.stretches = plan
            .segments
            .iter()
            .map(|part| LogRange { file: place(part.file), offset: part.offset, len: part.len })
            .collect();
        if unreached > 0 {
            work.keep_first_round();
        }
        let first = plan.segments.first().and_then(|part| logs.get(part.file)).filter(|log| log.format >= 6);
        work.first_lsn = first.map_or(Lsn(plan.checkpoint.0 - block_offset(plan.checkpoint)), |log| log.start_lsn);
        let (mut verifier, mut locked) = (plan.verifier, None);
        match self.mysql_keys(open.iter().map(|file| file.header.as_slice())) {
            Ok(keys) => verifier = verifier.with_keys(keys),
            Err(error) => locked = Some(error),
        }
        read_all(work, handles, self.counters, |work, bytes| feed_blocks(work, &mut verifier, bytes))?;
        let counts = work.end_of_blocks(verifier, locked.as_ref());
        if unreached > 0 {
            work.needs_no_more_than_it_reached(logs.len());
        }
        Ok((Unit::LogBlocks, counts))
    }

    /// Keys for encrypted blocks. Each file names its own key, wrapped by the master key current when the file was created.
    fn mysql_keys<'h>(&self, headers: impl Iterator<Item = &'h [u8]>) -> Result<Vec<TablespaceKey>, UnlockError> {
        let mut seen: Vec<EncryptionInfo> = Vec::new();
        let mut keys = Vec::new();
        for header in headers.filter(|_| !self.keys.is_empty()) {
            let Some(info) = mysql::encryption_info(header)?.filter(|info| !seen.contains(info)) else { continue };
            keys.push(info.unlock(self.keys)?);
            seen.push(info);
        }
        Ok(keys)
    }

    fn mariadb(
        &self,
        work: &mut Work,
        handles: &[&File],
        open: &[OpenFile],
    ) -> Result<(Unit, Counts), (usize, io::Error)> {
        let Some(OpenFile { header, len, .. }) = open.first() else {
            return Ok((Unit::MiniTransactions, Counts::default()));
        };
        let planned = mariadb::LogFile::parse(header, *len).and_then(|log| Ok((log, verify_mariadb::plan(&log)?)));
        let (log, plan) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                work.header(0, &error);
                return Ok((Unit::MiniTransactions, Counts::default()));
            }
        };
        work.stretches =
            plan.segments.iter().map(|part| LogRange { file: 0, offset: part.offset, len: part.len }).collect();
        work.first_lsn = log.checkpoint.lsn;
        match plan.verifier {
            Verifier::Blocks(mut verifier) => {
                work.first_lsn = Lsn(log.checkpoint.lsn.0 - block_offset(log.checkpoint.lsn));
                read_all(work, handles, self.counters, |work, bytes| feed_blocks(work, &mut verifier, bytes))?;
                Ok((Unit::LogBlocks, work.end_of_blocks(verifier, None)))
            }
            Verifier::Stream(mut verifier) => {
                read_all(work, handles, self.counters, |work, bytes| feed_stream(work, &mut verifier, bytes))?;
                Ok((Unit::MiniTransactions, work.end_of_stream(verifier, log.checkpoint.lsn)))
            }
        }
    }
}

/// Reads all stretches in order.
pub(super) fn read_all(
    work: &mut Work,
    handles: &[&File],
    counters: &WorkerCounters,
    mut feed: impl FnMut(&mut Work, &[u8]),
) -> Result<(), (usize, io::Error)> {
    let stretches = work.stretches.clone();
    let mut source = Stretches { handles, stretches: &stretches, now: 0, done: 0 };
    let mut reader = StreamReader::new(&mut source, PIECE, counters).map_err(|error| (0, error))?;
    let mut failed = None;
    while let Some(piece) = reader.next() {
        match piece {
            Ok(piece) => feed(work, piece.bytes),
            Err(error) => failed = Some(error),
        }
    }
    drop(reader);
    match failed {
        Some(error) => Err((stretches.get(source.now).map_or(0, |stretch| stretch.file), error)),
        None => Ok(()),
    }
}

/// MariaDB's log as it comes out of an archive. Backup tools write it straight from its checkpoint on, without wrapping around.
pub(super) struct RedoStream {
    work: Work,
    verifier: Verifier,
    checkpoint: Lsn,
    /// File offset at which the log starts.
    from: u64,
    /// Bytes received.
    len: u64,
}

/// Longer than any log, so that no LSN ever wraps around.
const UNBOUNDED: u64 = 1 << 62;

impl RedoStream {
    /// Starts from the file's first bytes, at least [`mariadb::START_OFFSET`] of them. `None` if they do not begin such a log.
    pub fn new(path: &Path, head: &[u8], findings_max: usize) -> Option<Self> {
        let log = mariadb::LogFile::parse(head, UNBOUNDED).ok()?;
        let plan = verify_mariadb::plan(&log).ok()?;
        let from = plan.segments.first()?.offset;
        let in_block = if matches!(plan.verifier, Verifier::Blocks(_)) { block_offset(log.checkpoint.lsn) } else { 0 };
        let work = Work {
            paths: vec![path.to_path_buf()],
            findings: Findings::new(findings_max),
            stretches: vec![LogRange { file: 0, offset: from, len: UNBOUNDED }],
            first_lsn: Lsn(log.checkpoint.lsn.0 - in_block),
            sound_end: None,
        };
        Some(Self { work, verifier: plan.verifier, checkpoint: log.checkpoint.lsn, from, len: 0 })
    }

    /// Takes the next bytes, from the beginning of the file on.
    pub fn take(&mut self, bytes: &[u8]) {
        let before = usize::try_from(self.from.saturating_sub(self.len)).unwrap_or(usize::MAX);
        self.len += bytes.len() as u64;
        let bytes = bytes.get(before..).unwrap_or_default();
        match &mut self.verifier {
            Verifier::Blocks(verifier) => feed_blocks(&mut self.work, verifier, bytes),
            Verifier::Stream(verifier) => feed_stream(&mut self.work, verifier, bytes),
        }
    }

    /// The file has ended. If `is_broken`, it was cut short on the way, and the log's end proves nothing.
    pub fn finish(mut self, candidate: Candidate, is_broken: bool) -> StreamOutcome {
        let mut outcome = StreamOutcome::new(0);
        if self.len <= self.from && !is_broken {
            let why = "a redo log that goes around its file, which cannot be verified in a stream".to_owned();
            outcome.failed.push(Passed { path: candidate.path, why });
            return outcome;
        }
        let (unit, mut counts) = match self.verifier {
            Verifier::Blocks(_) | Verifier::Stream(_) if is_broken => (Unit::MiniTransactions, Counts::default()),
            Verifier::Blocks(verifier) => (Unit::LogBlocks, self.work.end_of_blocks(verifier, None)),
            Verifier::Stream(verifier) => (Unit::MiniTransactions, self.work.end_of_stream(verifier, self.checkpoint)),
        };
        counts.bytes = self.len;
        let state = FileState::new(Candidate { len: self.len, ..candidate }, None);
        state.with_tally(|tally| tally.counts = counts);
        let algorithm = (counts.ok > 0).then_some("crc32c");
        let log = Log { kind: FileKind::RedoLog, unit, family: Some("MariaDB"), algorithm, end: None };
        outcome.rows.push(Examined { log: Some(log), ..Examined::pages(state) });
        StreamOutcome { findings: self.work.findings, ..outcome }
    }
}

/// MySQL wants its files as long as some pages. No pages are smaller.
const LEAST_PAGE: u64 = 4096;

/// Offset of an LSN within its log block.
fn block_offset(lsn: Lsn) -> u64 {
    lsn.0 % redo::block::LOG_BLOCK_SIZE as u64
}

fn feed_blocks(work: &mut Work, verifier: &mut BlockVerifier, mut bytes: &[u8]) {
    while let Some(damage) = verifier.next_damage(&mut bytes) {
        work.damaged_blocks(&damage);
    }
}

pub(super) fn feed_stream(work: &mut Work, verifier: &mut StreamVerifier, mut bytes: &[u8]) {
    while let Some(damage) = verifier.next_damage(&mut bytes) {
        work.damaged_stretch(&damage);
    }
}

/// The file to which a breach is attributed.
fn breached_file(breach: &Breach, files: usize) -> usize {
    match *breach {
        Breach::Gap { file, .. } | Breach::OtherLog { file, .. } | Breach::SizesDiffer { file, .. } => file,
        Breach::NewestMissing { .. } => files.saturating_sub(1),
    }
}

impl Work {
    pub fn found(&mut self, file: usize, place: u64, finding: Finding) {
        self.findings.offer_at(u32::try_from(file).unwrap_or(u32::MAX), place, finding);
    }

    /// The file and offset of the byte at `lsn`.
    fn place_of(&self, lsn: Lsn) -> (usize, u64) {
        let mut left = lsn.0.saturating_sub(self.first_lsn.0);
        for stretch in &self.stretches {
            if left < stretch.len {
                return (stretch.file, stretch.offset + left);
            }
            left -= stretch.len;
        }
        self.stretches.last().map_or((0, 0), |stretch| (stretch.file, stretch.offset + stretch.len))
    }

    /// Drops the parts of a second round: a ring with files that the log has not reached yet has not wrapped around.
    fn keep_first_round(&mut self) {
        let mut last = None;
        self.stretches.retain(|part| {
            let is_ahead = last.is_none_or(|last| part.file > last);
            last = last.max(Some(part.file));
            is_ahead
        });
    }

    /// A log that fills all the files it reached must go on in the next one, so that one cannot be all zeros.
    fn needs_no_more_than_it_reached(&mut self, next: usize) {
        let reached = self.first_lsn.0 + self.stretches.iter().map(|part| part.len).sum::<u64>();
        if self.sound_end.is_some_and(|end| end.0 >= reached) {
            let words = "the redo log fills the files before this one, which is all zeros: the rest is lost";
            let finding = about(self.path(next), FindingCode::REDO_HEADER, Severity::Damage, words.to_owned());
            self.found(next, 0, finding);
        }
    }

    pub fn path(&self, file: usize) -> &Path {
        self.paths.get(file).map_or(Path::new(""), PathBuf::as_path)
    }

    /// A finding at an LSN.
    fn at(&mut self, lsn: Lsn, reason: impl Into<FindingCode>, severity: Severity, message: String) {
        let (file, position) = self.place_of(lsn);
        let finding = about(self.path(file), reason, severity, message);
        self.found(file, lsn.0, Finding { lsn: Some(lsn.0), position: Some(position), ..finding });
    }

    fn header(&mut self, file: usize, error: &RedoError) {
        let (reason, severity) = match error {
            // Perhaps from a server newer than this program.
            RedoError::UnknownFormat { .. } => ("unknown_format".into(), Severity::Undecided),
            RedoError::NoCheckpoint | RedoError::CheckpointDamaged { .. } => {
                (FindingCode::REDO_NO_CHECKPOINT, Severity::Damage)
            }
            RedoError::TooShort { .. } | RedoError::HeaderChecksum { .. } => {
                (FindingCode::REDO_HEADER, Severity::Damage)
            }
        };
        let finding = about(self.path(file), reason, severity, error.to_string());
        self.found(file, 0, finding);
    }

    fn odd_size(&mut self, file: usize, len: u64) {
        let message = format!(
            "{len} bytes long, which no page size divides: it was cut off, and the server does not start on it"
        );
        let finding = about(self.path(file), FindingCode::REDO_FILES, Severity::Damage, message);
        self.found(file, 0, finding);
    }

    fn breach(&mut self, file: usize, breach: &Breach) {
        let lsn = match *breach {
            Breach::Gap { expected: lsn, .. }
            | Breach::OtherLog { start: lsn, .. }
            | Breach::NewestMissing { end: lsn } => Some(lsn.0),
            Breach::SizesDiffer { .. } => None,
        };
        let finding = about(self.path(file), FindingCode::REDO_FILES, Severity::Damage, breach.to_string());
        self.found(file, 0, Finding { lsn, ..finding });
    }

    fn damaged_blocks(&mut self, damage: &BlockDamage) {
        let more = match damage.blocks {
            1 => String::new(),
            blocks => format!(" ({blocks} blocks from there on)"),
        };
        let (severity, unneeded) = if damage.is_needed {
            (Severity::Damage, "")
        } else {
            (Severity::Notice, "; it lies before the checkpoint: no recovery reads it")
        };
        let message = format!("log block at LSN {}{more}: {}{unneeded}", damage.lsn, damage.misfit);
        self.at(damage.lsn, "log_block", severity, message);
    }

    fn damaged_stretch(&mut self, damage: &StreamDamage) {
        let message = format!(
            "from LSN {} to LSN {} there is no sound mini-transaction, although the log continues after it",
            damage.from, damage.to
        );
        self.at(damage.from, "mini_transaction", Severity::Damage, message);
    }

    /// The log ends as a cut-off write leaves it, or its last write is damaged: the log cannot tell which.
    fn torn(&mut self, end: Lsn, what: &str) {
        let message = format!(
            "the log ends at LSN {end} in {what}: a torn write, or damage in the last write; recovery ends there"
        );
        self.at(end, "torn_log_end", Severity::Undecided, message);
    }

    /// `locked`: why the keys given do not open the encrypted blocks.
    fn end_of_blocks(&mut self, verifier: BlockVerifier, locked: Option<&UnlockError>) -> Counts {
        let (left, summary) = verifier.finish();
        if let Some(damage) = left {
            self.damaged_blocks(&damage);
        } else if let BlockEnd::Torn(misfit) = summary.ends {
            self.torn(summary.end, &format!("a block that is neither sound nor old ({misfit})"));
        }
        let BlockSummary { ok, no_checksum, unverifiable, damaged, damaged_unneeded, end, .. } = summary;
        self.sound_end = Some(end);
        if no_checksum > 0 {
            self.at(end, "no_checksum", Severity::Notice, format!("{no_checksum} log blocks carry no checksums"));
        }
        if unverifiable > 0 {
            let (reason, why) = match locked {
                Some(error) => ("wrong_key".into(), error.to_string()),
                None => (FindingCode::ENCRYPTED_NO_KEY, NO_KEY.to_owned()),
            };
            self.at(end, reason, Severity::Undecided, format!("{unverifiable} log blocks not verifiable: {why}"));
        }
        let (corrupt, unverifiable) = (damaged + damaged_unneeded, no_checksum + unverifiable);
        Counts { pages: ok + corrupt + unverifiable, ok, corrupt, unverifiable, ..Counts::default() }
    }

    pub fn end_of_stream(&mut self, verifier: StreamVerifier, checkpoint: Lsn) -> Counts {
        let (left, summary) = verifier.finish();
        for damage in &left {
            self.damaged_stretch(damage);
        }
        let StreamSummary { mtrs, damaged, end, ends, names_checkpoint, .. } = summary;
        self.sound_end = Some(end);
        if !names_checkpoint {
            let message = format!(
                "the record that names the checkpoint at LSN {checkpoint} is missing: no server starts with this log"
            );
            self.at(checkpoint, FindingCode::REDO_NO_CHECKPOINT, Severity::Damage, message);
        }
        if ends == StreamEnd::Torn && left.is_empty() && names_checkpoint {
            self.torn(end, "bytes that are not a mini-transaction");
        }
        Counts { pages: mtrs + damaged, ok: mtrs, corrupt: damaged, ..Counts::default() }
    }
}
