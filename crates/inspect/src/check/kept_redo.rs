//! A redo log that MariaDB 13.0 keeps as an archive: its files are verified as one log, from the oldest place that they name on.

use std::io;

use flow::WorkerCounters;
use format::Lsn;
use redo::verify_mariadb::StreamVerifier;

use super::redo::{Work, feed_stream, read_all};
use super::stretches::LogRange;
use super::words::about;
use crate::report::document::{Counts, Finding};
use datadir::files::File;
use datadir::finding_code::FindingCode;
use datadir::inventory::Candidate;
use datadir::kept_log::{KeptError, KeptFile, KeptLog, last_run};
use datadir::severity::Severity;

/// Verifies the files, which all have the names of such a log.
pub(super) fn verify(
    work: &mut Work,
    files: &[&Candidate],
    counters: &WorkerCounters,
) -> Result<Counts, (usize, io::Error)> {
    let place_of = |file: &KeptFile| files.iter().position(|candidate| candidate.path == file.path).unwrap_or(0);
    let run = last_run(usable(work, files));
    let places: Vec<usize> = run.iter().map(place_of).collect();
    if let Some(first) = run.first() {
        leave_out(work, files, first);
    }
    let place = |file: usize| places.get(file).copied().unwrap_or(0);
    let opened = KeptLog::open(run).and_then(|mut log| log.older_lists().map(|from| (log, from)));
    let (log, from) = match opened {
        Ok(opened) => opened,
        Err(KeptError::Io(file, error)) => return Err((place(file), error)),
        Err(KeptError::Unknown(file, why)) => {
            let finding = about(work.path(place(file)), "unknown_format", Severity::Undecided, why);
            work.found(place(file), 0, finding);
            return Ok(Counts::default());
        }
        Err(KeptError::Damaged(file, why)) => {
            let finding = about(work.path(place(file)), FindingCode::REDO_NO_CHECKPOINT, Severity::Damage, why);
            work.found(place(file), 0, finding);
            return Ok(Counts::default());
        }
    };
    for fault in &log.faults {
        let finding =
            about(work.path(place(fault.file)), FindingCode::REDO_HEADER, Severity::Damage, fault.why.clone());
        work.found(place(fault.file), fault.offset, Finding { position: Some(fault.offset), ..finding });
    }
    let range = |(file, range): (usize, std::ops::Range<u64>)| LogRange {
        file: place(file),
        offset: range.start,
        len: range.end - range.start,
    };
    work.stretches = log.stretches(from).into_iter().map(range).collect();
    work.first_lsn = from;
    let mut verifier = StreamVerifier::at(&log.parsed, from);
    // In the order of the candidates, by which stretches name files.
    let handle = |place: usize| places.iter().position(|at| *at == place).and_then(|file| log.handles().get(file));
    let Some(any) = log.handles().first() else { return Ok(Counts::default()) };
    let handles: Vec<&File> = (0..files.len()).map(|place| handle(place).unwrap_or(any)).collect();
    read_all(work, &handles, counters, |work, bytes| feed_stream(work, &mut verifier, bytes))?;
    let counts = work.end_of_stream(verifier, log.parsed.checkpoint.lsn);
    let end = work.sound_end.unwrap_or(from);
    went_on(work, &log, end, place).map_err(|(file, error)| (place(file), error))?;
    Ok(counts)
}

/// The files with the length of such a file. The server ignores the others.
fn usable(work: &mut Work, files: &[&Candidate]) -> Vec<KeptFile> {
    let mut usable = Vec::new();
    for (place, candidate) in files.iter().enumerate() {
        match KeptFile::at(candidate.path.clone(), candidate.len) {
            Some(file) => usable.push(file),
            None => {
                // A server that was killed while it made the file leaves it empty.
                let severity = if candidate.len == 0 { Severity::Notice } else { Severity::Damage };
                let why =
                    format!("{} bytes long, which no file of the redo log is: the server ignores it", candidate.len);
                work.found(place, 0, about(&candidate.path, FindingCode::REDO_FILES, severity, why));
            }
        }
    }
    usable
}

/// Names the files that end before `first`, where the log begins that a server would read.
fn leave_out(work: &mut Work, files: &[&Candidate], first: &KeptFile) {
    for (place, candidate) in files.iter().enumerate() {
        let Some(file) = KeptFile::at(candidate.path.clone(), candidate.len).filter(|file| file.first < first.first)
        else {
            continue;
        };
        let why = format!(
            "it does not lead to the rest of the redo log, which begins at LSN {}: no recovery reads it from here",
            first.first
        );
        work.found(
            place,
            0,
            Finding {
                lsn: Some(file.first.0),
                ..about(&candidate.path, FindingCode::REDO_FILES, Severity::Notice, why)
            },
        );
    }
}

/// Finds fault with files that begin behind the log's end and are in use.
fn went_on(work: &mut Work, log: &KeptLog, end: Lsn, place: impl Fn(usize) -> usize) -> Result<(), (usize, io::Error)> {
    for number in log.used_behind(end)? {
        let Some(file) = log.files().get(number) else { continue };
        let why = format!("the redo log ends at LSN {end}, before this file begins, and it goes on here");
        let finding = about(&file.path, FindingCode::REDO_FILES, Severity::Damage, why);
        work.found(place(number), 0, Finding { lsn: Some(file.first.0), ..finding });
    }
    Ok(())
}
